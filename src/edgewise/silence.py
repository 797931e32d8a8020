"""Keeps what libraries print out of what edgewise prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def silenced() -> Iterator[None]:
    """Drop what libraries print, C++ libraries among them, on standard output and standard error."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        with open(os.devnull, "w") as nothing:  # noqa: PTH123 - a device
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
            # In a notebook these write elsewhere than to the descriptors.
            with redirect_stdout(nothing), redirect_stderr(nothing):
                yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for own, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, own)
            os.close(copy)
