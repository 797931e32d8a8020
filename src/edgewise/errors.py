"""The family of errors a user can meet, each with advice and an exit code.

Every error that reaches the command line prints one line that says what is wrong, one that says what to do about it,
and ends the process with :attr:`EdgewiseError.exit_code`. Anything else that escapes is a bug (exit code 1).
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What the process answers; users' scripts rest on these."""

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
        message: what is wrong, one line, naming the thing at fault.
        advice: what the user can do about it, one line; empty when there is nothing to do.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


class BadInput(EdgewiseError):
    """A flag, file, array or value that can't be used."""

    exit_code = ExitCode.BAD_INPUT


class BadModel(BadInput):
    """A model file that is missing, corrupt, hostile or of an unknown format."""


class Unavailable(EdgewiseError):
    """A runtime, device, sensor, data set or library that is not there."""

    exit_code = ExitCode.UNAVAILABLE


class StoreError(EdgewiseError):
    """A store that can't be opened, read or written."""

    exit_code = ExitCode.UNAVAILABLE


class RunFailed(EdgewiseError):
    """A job was started and did not end well."""

    exit_code = ExitCode.RUN_FAILED


class BudgetExceeded(EdgewiseError):
    """A gate or a budget was exceeded."""

    exit_code = ExitCode.BUDGET_EXCEEDED
