"""Processes that keep the machine busy beside the model. Standard library only, as everything that is sent to a device.

They are forked from the worker before it has a second thread or an engine, so they share its limits and its processors,
and the kernel kills them with it.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from edgewise.constraints.hierarchy import ROOT, read_text
from edgewise.run.counters import usable_cores
from edgewise.run.sandbox import die_with_host

BLOCK_BYTES = 64 * 2**20
"""More than the caches of most processors: copying it keeps the memory bus busy."""


class BackgroundLoad:
    """`count` single-threaded processes that compute, or copy memory, until `stop`.

    Args:
        kind: ``compute`` or ``memory``.
        close: descriptors that the processes must not hold open.
    """

    def __init__(self, count: int, kind: str, *, close: Iterable[int] = ()) -> None:
        parent, kept = os.getpid(), tuple(close)
        self._pids: list[int] = []
        for _ in range(count):
            pid = os.fork()
            if not pid:
                _keep_busy(_copy_memory if kind == "memory" else _compute, parent=parent, close=kept)
            self._pids.append(pid)

    def cpu_s(self) -> float | None:
        """Processor time of all processes so far, s; None if the system does not count it or one of them has ended."""
        times = [_cpu_s(pid) for pid in self._pids]
        known = [each for each in times if each is not None]
        return sum(known) if len(known) == len(times) else None

    def count(self, delta: dict[str, float | None], *, since_s: float | None) -> float | None:
        """Return the cores used since `cpu_s` was `since_s`, None if unknown, and take them out of `delta`.

        Args:
            delta: what `edgewise.run.counters.Counters.delta` returned for that time; its share of other processes is
                without the load afterwards.
        """
        now_s, wall, others = self.cpu_s(), delta["wall_s"], delta["busy_share_of_others"]
        if since_s is None or now_s is None or not wall:
            return None
        used = (now_s - since_s) / wall
        if others is not None:
            delta["busy_share_of_others"] = max(0.0, others - used / (len(usable_cores()) or 1))
        return used

    def stop(self) -> None:
        """Kill the processes and wait for their end."""
        for pid in self._pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                os.waitpid(pid, 0)
        self._pids = []


def _keep_busy(work: Callable[[], object], *, parent: int, close: tuple[int, ...]) -> NoReturn:
    """Work until the parent ends; the kernel's promise to kill this process then does not hold on every system."""
    try:
        die_with_host()
        for descriptor in close:
            with suppress(OSError):
                os.close(descriptor)
        while os.getppid() == parent:
            work()
    finally:
        os._exit(0)


def _compute() -> None:
    """Do a few milliseconds of work for one core."""
    value = 1
    for _ in range(50_000):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFFFFFF


_blocks: list[bytearray] = []


def _copy_memory() -> None:
    """Copy a block that no cache holds."""
    if not _blocks:
        _blocks.extend((bytearray(BLOCK_BYTES), bytearray(BLOCK_BYTES)))
    _blocks[0][:] = _blocks[1]


def _cpu_s(pid: int, root: Path = ROOT) -> float | None:
    """User and system time of a live process from its ``stat`` (proc_pid_stat(5)), s."""
    text = read_text(root / f"proc/{pid}/stat") or ""
    # The name in parentheses may contain anything; fields are counted from behind it.
    fields = re.sub(r"^.*\) ", "", text, flags=re.DOTALL).split()
    if len(fields) < 13 or fields[0] in "ZX":
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
