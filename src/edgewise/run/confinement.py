"""What a process of ours does first, so that it neither outlives its host nor takes the machine down with it.

Standard library only, as everything that is sent to a device.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def die_with_host() -> None:
    """A kernel promise beside the end of standard input: an engine that hangs with the lock held dies too."""
    with suppress(OSError, AttributeError, ImportError):
        import ctypes
        import signal

        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def limit_memory(limit: int | None) -> None:
    """A model that allocates without end shall take this process down, not the machine.

    RLIMIT_DATA counts private writable memory, which is what engines allocate; RLIMIT_AS would also count mapped
    weights and reservations. The out-of-memory killer, should it come, is told to take this process first.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if limit:
        import resource

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
