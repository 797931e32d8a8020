"""For passes around the libraries that they call: errors in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgewise.text import first_line


class CannotApply(Exception):
    """This pass can't change this model; the message says why, in one line."""


@contextmanager
def refusing(words: str) -> Iterator[None]:
    """Turn a library's error into `CannotApply`: ``WORDS: the first line of its message``."""
    try:
        yield
    except (MemoryError, CannotApply, OSError):
        raise
    except Exception as error:  # libraries raise AssertionError, KeyError, their own errors …
        raise CannotApply(f"{words}: {first_line(error, 300)}") from error
