"""Waiting for another process or thread: patiently, since a busy machine takes its time, and in one place."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pytest

LIMIT_S = 600.0
"""A test gives up after that, and not before."""
SILENCES = (
    "edgewise.device.link.SILENCE_S",
    "edgewise.device.transports.adb.END_S",
    "edgewise.device.transports.adb.START_S",
    "edgewise.device.transports.labgrid.CLIENT_S",
    "edgewise.device.transports.ssh.CONNECT_S",
    "edgewise.device.transports.ssh.START_S",
    "edgewise.run.worker_executor._PATIENCE_S",
)
"""How long edgewise waits for a device that says nothing: here it is this machine, which may be busy."""
T = TypeVar("T")


def wait_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let edgewise wait for a device as long as the tests do; a test of its silence sets less."""
    for name in SILENCES:
        monkeypatch.setattr(name, LIMIT_S)


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
