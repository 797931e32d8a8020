"""Fields of requests as the flags of the command line, and a request as the command that does the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgewise.errors import BadField, EdgewiseError
from edgewise.verbs.verb import VERBS

if TYPE_CHECKING:
    from edgewise.verbs.request import Request


@contextmanager
def named_for_python() -> Iterator[None]:
    """Errors raised inside call fields as Python calls them, where parts below call them by their flags."""
    try:
        yield
    except BadField:
        raise
    except EdgewiseError as error:
        error.message, error.advice = (_FLAG.sub(_field_of, text) for text in (error.message, error.advice))
        error.args = (error.message,)
        raise


_FLAG = re.compile(r"'edgewise [^']*'|\bedgewise ([a-z]+) (?:[^,;]|,(?! ))*|(?<![\w-])--([a-z][a-z-]+)")
"""A flag, or a whole command line, in quotes or up to ", " or ";", whose flags keep their names."""


def _field_of(found: re.Match[str]) -> str:
    if found[2] is None:
        is_command = found[1] is None or found[1] in (*VERBS.names(), "devices", "doctor", "runs")
        return found[0] if is_command else "edgewise" + _FLAG.sub(_field_of, found[0].removeprefix("edgewise"))
    options = (one for _, verb in VERBS for one in verb.all_options())
    return next((one.field for one in options if one.flag == f"--{found[2]}" and one.field), found[2].replace("-", "_"))


def command_of(request: Request) -> str:
    """The line to type for what `request` asks for."""
    return shlex.join(["edgewise", *(VERBS.get(request.verb).asked_by or (request.verb,)), *words_of(request)])


def words_of(request: Request, *, only: Sequence[str] = ()) -> list[str]:
    """What stands behind the verb on that line: the fields that are not at their defaults and that an option fills.

    Args:
        only: these fields; empty is all.
    """
    things: list[str] = []
    flags: list[str] = []
    command: list[str] = []
    options = {one.field_of(type(request)): one for one in reversed(VERBS.get(request.verb).all_options())}
    for field, value in request.changed_fields().items():
        option = options.get(field)
        if option is None or (only and field not in only):
            continue
        if option.metavar.startswith("--"):  # what follows belongs to another program
            command = ["--", *value]
        elif option.flags:
            flags += option.words(value)
        else:
            things += option.words(value)
    return things + flags + command
