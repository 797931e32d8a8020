"""Errors and endings on standard error, and the exit codes that they stand for."""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from edgewise.errors import BadField, EdgewiseError, ExitCode, name_fields
from edgewise.terminal.console import complain, err
from edgewise.verbs.verb import VERBS, flag_of

if TYPE_CHECKING:
    from edgewise.verbs.presentation import Ending


def explain(error: Exception, *, debug: bool, command: str = "") -> int:
    """Print `error` for a person, with a traceback for `debug`, and return its exit code.

    Args:
        command: the command whose help is named where a field has no advice of its own.
    """
    if debug:
        traceback.print_exception(error)
    if isinstance(error, EdgewiseError):
        name = flag_of
        with suppress(EdgewiseError):  # no verb, or one that can't be loaded
            name = VERBS.get(command).flag_of
        name_fields(error, name)
        otherwise = f"see 'edgewise {command} --help'" if isinstance(error, BadField) else ""
        complain(error.message, error.advice or otherwise)
        return error.exit_code
    complain(
        f"internal error: {type(error).__name__}: {error}",
        "run again with --debug and report what it prints, with the file of 'edgewise doctor --bundle support.zip'",
    )
    return ExitCode.INTERNAL


def tell_ending(ending: Ending) -> int:
    """Print what went wrong, and give the exit code."""
    if ending.interrupted:
        err().print(f"[bold red]interrupted[/]: {ending.interrupted}", soft_wrap=True)
    for problem in ending.problems:
        complain(problem.message, problem.advice)
    return ending.code
