"""Libraries that would like to fetch things are told that they can't."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping


@contextlib.contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """These variables have these values meanwhile, and afterwards what they had before."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
