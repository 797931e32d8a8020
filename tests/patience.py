"""Waiting for another process or thread: patiently, since a busy machine takes its time, and in one place."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

LIMIT_S = 600.0
"""A test gives up after that, and not before."""
T = TypeVar("T")


def wait_until(condition: Callable[[], T], process: subprocess.Popen[Any] | None = None) -> T:
    """What `condition` comes to once that counts as true.

    Args:
        process: who makes it true; the test fails at once where it has ended before.
    """
    end = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert process is None or process.poll() is None, process.communicate()
        # real time: somebody has to give up in the end
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.01)  # real time: the other one needs the processor
    return found
