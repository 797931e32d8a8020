"""The moment at which a control group reaches its memory limit, as the kernel reports it. Standard library only.

Version 2 marks ``memory.events`` as changed (``admin-guide/cgroup-v2``). Version 1 writes to an eventfd that is
registered in ``cgroup.event_control`` (``admin-guide/cgroup-v1/memory``). Nothing is polled. The kernel's log has the
names of the processes that the kernel killed; not everybody may read it.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from edgewise.constraints.cgroups import V2, Cgroup
from edgewise.constraints.hierarchy import ROOT
from edgewise.text import one_line

SETTLE_S = 0.5
"""Longest time from the report to the kill, s: version 1 reports the limit before the kernel chooses a process."""
_PAUSE_S = 0.005
_KILLED = re.compile(r"oom-kill:.*oom_memcg=([^,\n]+),.*task=(.{1,15}),pid=(\d+),uid=")
_LONGEST_RECORD = 8192


@dataclass(slots=True, kw_only=True)
class MemoryWatch:
    """Reports of the memory limit of a control group, until its context ends.

    Attributes:
        descriptor: readable when the group may have reached its limit.
        clear: makes `descriptor` unreadable; returns how long a kill may still take, s.
        log: of the kernel, from now on; None where it can't be read.
        kills: number of processes that the kernel has killed up to the last look.
        kept: what is open.
    """

    group: Cgroup
    descriptor: int
    clear: Callable[[], float]
    log: int | None
    kills: int
    kept: contextlib.ExitStack

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kept.close()

    def look(self) -> int:
        """Return the number of processes that the kernel has killed since the last look; 0 if it only reclaimed
        memory.
        """
        until = time.monotonic() + self.clear()
        while (kills := self.group.kill_count()) <= self.kills and time.monotonic() < until:
            time.sleep(_PAUSE_S)
        killed, self.kills = max(0, kills - self.kills), max(kills, self.kills)
        return killed

    def names(self) -> list[str]:
        """Names and numbers of processes that the kernel has killed since the last call, as far as its log has them."""
        found, name = [], self.group.folders["memory"].name
        with contextlib.suppress(OSError):  # the end of the log
            while self.log is not None and (piece := os.read(self.log, _LONGEST_RECORD)):
                record = piece.decode("utf-8", "replace")
                if (match := _KILLED.search(record)) and name in match[1].split("/"):
                    found.append(f"{one_line(match[2])} (process {match[3]})")
        return found


def watch_memory(group: Cgroup, *, root: Path = ROOT) -> MemoryWatch | None:
    """Watch the memory limit of a group that was entered; None where the kernel or its permissions don't allow it."""
    folder = group.folders.get("memory")
    if folder is None:
        return None
    with contextlib.ExitStack() as stack:
        try:
            if group.version is V2:
                descriptor, clear = _watch_file(folder / "memory.events", stack)
            else:
                descriptor, clear = _watch_control(folder, stack)
        except OSError:
            return None
        log = _open_log(root / "dev/kmsg", stack)
        kills = group.kill_count()
        return MemoryWatch(group=group, descriptor=descriptor, clear=clear, log=log, kills=kills, kept=stack.pop_all())


def _watch_file(path: Path, stack: contextlib.ExitStack) -> tuple[int, Callable[[], float]]:
    """Return a file of version 2, whose changes are urgent data to poll(2); an epoll descriptor is readable with
    them.
    """
    file = stack.enter_context(path.open("rb", buffering=0))
    poller = stack.enter_context(select.epoll())
    poller.register(file, select.EPOLLPRI)

    def clear() -> float:
        file.seek(0)
        file.read()
        poller.poll(0)
        return 0.0

    clear()
    return poller.fileno(), clear


def _watch_control(folder: Path, stack: contextlib.ExitStack) -> tuple[int, Callable[[], float]]:
    event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    stack.callback(os.close, event)
    control = stack.enter_context((folder / "memory.oom_control").open("rb", buffering=0))
    with (folder / "cgroup.event_control").open("r+b", buffering=0) as register:
        register.write(f"{event} {control.fileno()}".encode())

    def clear() -> float:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(event)
            return SETTLE_S
        return 0.0

    return event, clear


def _open_log(path: Path, stack: contextlib.ExitStack) -> int | None:
    """Return the kernel's log behind its last record; None where it can't be read."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, log)
        os.lseek(log, 0, os.SEEK_END)
    except OSError:
        return None
    return log
