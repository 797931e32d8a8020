"""For passes around the libraries that they call: errors in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CannotApply(Exception):
    """This pass can't change this model; the message says why, in one line."""


@contextmanager
def refusing(words: str) -> Iterator[None]:
    """Turns a library's error into `CannotApply`: ``WORDS: the first line of its message``."""
    try:
        yield
    except (MemoryError, CannotApply, OSError):
        raise
    except Exception as error:  # libraries raise AssertionError, KeyError, their own errors …
        raise CannotApply(f"{words}: {first_line(error)}") from error


def first_line(error: BaseException, limit: int = 300) -> str:
    """The first line of an error's text that is not empty."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line[:limit] for line in lines if line), type(error).__name__)
