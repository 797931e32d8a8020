"""Errors for Python users: flags of the command line as the arguments of functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from edgewise.errors import BadField, EdgewiseError
from edgewise.verbs.verb import VERBS


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
