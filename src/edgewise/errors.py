"""Errors for users, each with advice and an exit code.

The command line prints the message and the advice, one line each, and exits with :attr:`EdgewiseError.exit_code`. Any
other exception is a bug (exit code 1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes. Scripts depend on them: never change one."""

    DONE = 0
    INTERNAL = 1
    BAD_INPUT = 2
    UNAVAILABLE = 3
    RUN_FAILED = 4
    BUDGET_EXCEEDED = 5
    INTERRUPTED = 130


class EdgewiseError(Exception):
    """Base of all expected errors.

    Args:
        message: what is wrong and with which option, field or file, in one line.
        advice: what the user can do, in one line; "" if nothing.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    @property
    def advice(self) -> str:
        """What the user can do; also a note, which Python prints below a traceback."""
        return self._advice

    @advice.setter
    def advice(self, advice: str) -> None:
        others = [note for note in getattr(self, "__notes__", ()) if note != getattr(self, "_advice", "")]
        self._advice, self.__notes__ = advice, [*([advice] if advice else []), *others]


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
        super().__init__(message, advice=" ".join(f"--prepare {step}" for step in steps) + otherwise)

    def in_command(self, command: str) -> BadInput:
        """The same error with `command`, which has the steps, as advice."""
        return BadInput(self.message, advice=f"'{command}'{self.otherwise}")


class BadField(BadInput):
    """A field of a request that can't be used.

    Args:
        message: as in `EdgewiseError`. ``{iterations}`` is the field of that name, ``{scenario=paced}`` for the
            field with that value. Python users read ``iterations`` and ``scenario='paced'``; `named` words it for
            those who know fields by other names.
        advice: the same.
    """

    def __init__(self, message: str, *, advice: str = "") -> None:
        self._texts = message, advice
        super().__init__(_name_fields(message, _in_python), advice=_name_fields(advice, _in_python))

    @property
    def field(self) -> str:
        """The name of the first field in the message; empty where there is none."""
        found = _FIELD.search(self._texts[0])
        return found[1] if found else ""

    def named(self, name: Callable[[str, str | None], str]) -> BadInput:
        """The same error with fields called as `name` says, which is given a field's name and its value, if any."""
        message, advice = (_name_fields(text, name) for text in self._texts)
        return BadInput(message, advice=advice)


_FIELD = re.compile(r"\{([a-z_]+)(?:=([^{}]+))?\}")


def _name_fields(text: str, name: Callable[[str, str | None], str]) -> str:
    return _FIELD.sub(lambda found: name(found[1], found[2]), text)


def _in_python(field: str, value: str | None) -> str:
    if value is None:
        return field
    return f"{field}={value}" if re.fullmatch(r"[-+0-9.]+|True|False|None", value) else f"{field}={value!r}"


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
    """The error that a child process wrote as ``{"error": class, "message", "advice"}``; its class where it is ours."""
    kind = globals().get(answer["error"])
    kind = kind if isinstance(kind, type) and issubclass(kind, EdgewiseError) else EdgewiseError
    return kind(answer["message"], advice=answer["advice"])
