"""For passes around the libraries that they call: errors in one line, versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress


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


def versions_of(*distributions: str) -> dict[str, str]:
    """Distribution → version, of those that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
