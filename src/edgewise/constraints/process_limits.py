"""Limits without control groups: processor affinity and rlimits, which hold per process and only in part."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from edgewise.constraints.base import PROCESS_NAME, Usage

MARK = "EDGEWISE_GROUP"
"""Environment variable by which the descendants of a process are found, whatever session or parent they have."""
KILL_ROUNDS = 50
COUNT_S = 1.0
"""How long a look at all processes may take; a process that forks all the time is slow to answer."""


class ProcessLimits:
    """A group of processes that share a mark in their environment."""

    mechanism = PROCESS_NAME

    def __init__(self, *, cpus: float | None = None, memory_bytes: int | None = None, mark: str = "") -> None:
        self._cpus, self._memory = cpus, memory_bytes
        self._mark = mark or f"{os.getpid()}-{uuid4().hex[:12]}"
        self.environment: Mapping[str, str] = {MARK: self._mark}

    @property
    def cannot_hold(self) -> str:
        """What affinity and rlimits leave open for these limits."""
        told = []
        if self._cpus:
            cores = min(math.ceil(self._cpus), len(os.sched_getaffinity(0)))
            told.append(f"{self._cpus:g} CPUs are held as {cores} whole core{'s' if cores > 1 else ''}")
        if self._memory:
            told.append("the memory limit counts private memory of each process on its own")
        return "; ".join(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def admit(self, pid: int) -> None:
        """Pin a process and limit its private memory. Raises OSError."""
        if self._cpus:
            cores = sorted(os.sched_getaffinity(pid))
            os.sched_setaffinity(pid, cores[: max(1, math.ceil(self._cpus))])
        if self._memory:
            resource.prlimit(pid, resource.RLIMIT_DATA, (self._memory, self._memory))

    def usage(self) -> Usage:
        """Return sums over the living processes: processor time with that of reaped children, and resident memory.

        None of them where there are too many to count in time.
        """
        ticks, pages, found = 0, 0, False
        give_up = time.monotonic() + COUNT_S
        for folder in self._processes():
            if time.monotonic() > give_up:
                return Usage()
            with contextlib.suppress(OSError, ValueError, IndexError):
                # Fields 14 to 17 of proc_pid_stat(5), and field 24; the name in parentheses may contain blanks.
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))
                pages += int(fields[21])
                found = True
        if not found:
            return Usage()
        return Usage(
            cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
            memory_bytes=pages * resource.getpagesize(),
        )

    def kill(self) -> int:
        """Kill every process with the mark, until there is none. Return how many different ones there were."""
        seen: set[str] = set()
        for _ in range(KILL_ROUNDS):
            found = set()
            for folder in self._processes():
                found.add(folder.name)
                _signal(folder.name, signal.SIGSTOP)  # at once, so that it does not fork while others are found
            if not found:
                break
            if found <= seen:
                for name in found:
                    _signal(name, signal.SIGKILL)
            seen |= found
            time.sleep(0.01)
        return len(seen)

    def _processes(self) -> Iterator[Path]:
        """Folders in ``/proc`` of the processes with the mark; a zombie has no environment any more."""
        mark = f"{MARK}={self._mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield folder


def _signal(pid: str, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(int(pid), number)
