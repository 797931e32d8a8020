"""Errors for users, each with advice and an exit code.

The command line prints the message and the advice, one line each, and exits with :attr:`EdgewiseError.exit_code`. Any
other exception is a bug (exit code 1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, NamedTuple


class ExitCode(IntEnum):
    """Exit codes. Scripts depend on them: never change one."""

    DONE = 0
    INTERNAL = 1
    BAD_INPUT = 2
    UNAVAILABLE = 3
    RUN_FAILED = 4
    BUDGET_EXCEEDED = 5
    INTERRUPTED = 130


Namer = Callable[[str, str | None], str]
"""What a door calls a field, which is given with a value or None."""


class Marked(NamedTuple):
    """Message and advice of an error, with fields in their marks."""

    message: str
    advice: str


def as_flag(field: str, value: str | None = None) -> str:
    """Return what texts of results call a field: ``--batch``, ``--batch 8``, ``--no-latency``."""
    flag = "--" + field.replace("_", "-")
    if value == "False":
        return flag.replace("--", "--no-", 1)
    return flag if value in (None, "True") else f"{flag} {value}"


def as_argument(field: str, value: str | None = None) -> str:
    """Return what Python calls a field: ``batch``, ``batch=8``, ``scenario='paced'``."""
    if value is None:
        return field
    return f"{field}={value}" if re.fullmatch(r"[-+0-9.]+|True|False|None", value) else f"{field}={value!r}"


def unmarked(text: str, name: Namer = as_flag) -> str:
    """`text` with the fields in its marks called as `name` says; nothing else of it is changed."""
    return _MARK.sub(lambda found: name(found[1], found[2]), text) if "⟦" in text else text


_MARK = re.compile(r"⟦([a-z][a-z0-9_]*)(?:=([^⟦⟧]*))?⟧")


class EdgewiseError(Exception):
    """Base of all expected errors.

    Doors call a field by other names: a flag, an argument, the label of an input. So texts name a field in a mark:
    ``⟦iterations⟧``, and ``⟦scenario=paced⟧`` for the field with that value. Who quotes another error in a new one
    takes its texts from `marked`, so that the marks stay.

    Args:
        message: what is wrong and with which option, field or file, in one line.
        advice: what the user can do, in one line; "" if nothing.

    Attributes:
        marked: both, as they were given.
        message: the message with its fields as the door calls them; before that as texts of results do.
        field: the name of the first field in the message; empty where there is none.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL
    _namer: ClassVar[tuple[Namer]] = (as_flag,)  # a function would be a method

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.marked = Marked(message, advice)
        self.field = found[1] if (found := _MARK.search(message)) else ""
        self._show(*self._namer)

    def _show(self, name: Namer) -> None:
        self.message, advice = (unmarked(text, name) for text in self.marked)
        self.args = (self.message,)
        others = [note for note in getattr(self, "__notes__", ()) if note != getattr(self, "_advice", "")]
        self._advice, self.__notes__ = advice, [*([advice] if advice else []), *others]

    @property
    def advice(self) -> str:
        """What the user can do, as `message`; also a note, which Python prints below a traceback."""
        return self._advice

    @advice.setter
    def advice(self, advice: str) -> None:
        self.marked = self.marked._replace(advice=advice)
        self._show(*self._namer)


def name_fields(error: EdgewiseError, name: Namer) -> None:
    """Call the fields in the texts of `error` as `name` says, for good: the first door words it."""
    error._show(name)
    error.marked = Marked(error.message, error.advice)


class BadInput(EdgewiseError):
    """Invalid option, field, file or data."""

    exit_code = ExitCode.BAD_INPUT


class BadPreparation(BadInput):
    """Samples lack steps of their preparation.

    Args:
        steps: ``STEP=VALUE`` words of all that are missing, and `otherwise` what else they may be. `advice` has them
            as options; who knows the whole command gives that instead.
    """

    def __init__(self, message: str, *, steps: Sequence[str], otherwise: str = "") -> None:
        self.steps, self.otherwise = tuple(steps), otherwise
        super().__init__(message, advice=" ".join(f"⟦prepare={step}⟧" for step in steps) + otherwise)

    def in_command(self, command: str) -> BadInput:
        """Return the same error with `command`, which has the steps, as advice."""
        return BadInput(self.marked.message, advice=f"'{command}'{self.otherwise}")


class BadField(BadInput):
    """A field of a request that can't be used, in its name in Python; on the command line its help is the advice."""

    _namer = (as_argument,)


class BadModel(BadInput):
    """Missing, damaged or hostile model file, or one in an unknown format."""


class Unavailable(EdgewiseError):
    """A runtime, device, sensor, data set or package is missing."""

    exit_code = ExitCode.UNAVAILABLE


class StoreError(EdgewiseError):
    """The store can't be opened, read or written."""

    exit_code = ExitCode.UNAVAILABLE


class RunFailed(EdgewiseError):
    """A job started and failed."""

    exit_code = ExitCode.RUN_FAILED


def error_of(answer: Mapping[str, str]) -> EdgewiseError:
    """Return the error that a child process wrote as ``{"error": class, "message", "advice"}``; its class where it
    is ours.
    """
    kind = globals().get(answer["error"])
    kind = kind if isinstance(kind, type) and issubclass(kind, EdgewiseError) else EdgewiseError
    return kind(answer["message"], advice=answer["advice"])
