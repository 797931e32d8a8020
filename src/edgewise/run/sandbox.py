"""What each worker process does first: it must neither outlive its host nor exhaust the machine's memory.

Standard library only, as everything that is sent to a device.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MEMORY_SHARE = 0.95
"""Of the memory that is available when a process starts: past it the process fails instead of the machine."""


def die_with_host() -> None:
    """Let the kernel kill this process when its parent dies: an engine that hangs with the GIL held ends too."""
    with suppress(OSError, AttributeError, ImportError):
        import ctypes
        import signal

        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def limit_memory(limit: int | None) -> None:
    """Limit the memory of this process, so that a model that allocates without end does not exhaust the machine.

    RLIMIT_DATA counts private writable memory, which is what engines allocate; RLIMIT_AS would also count mapped
    weights and reservations. The kernel's out-of-memory killer ends this process before others.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if limit:
        import resource

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def available_memory() -> int | None:
    """Bytes that a process may allocate without driving the machine into swap; None where the system does not tell."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(int(line.split()[1]) * 1024 * MEMORY_SHARE)
    return None
