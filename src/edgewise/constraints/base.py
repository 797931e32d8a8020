"""What every mechanism offers: a group of processes with limits, and counters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

PERIOD_S = 0.1
"""Period of the processor quota, s: the kernel's and Docker's default."""

V2_NAME, V1_NAME, PROCESS_NAME = "cgroup-v2", "cgroup-v1", "affinity-rlimit"
MECHANISMS = (V2_NAME, V1_NAME, PROCESS_NAME)
"""Names of the mechanisms, the best first."""
CONTAINER_NAMES = ("docker", "podman")
"""Container runtimes, which hold limits where one is named or an image is given."""
IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,499}")
"""What Docker and Podman accept, such as ``registry:5000/name:tag@sha256:…``; never an option."""

GATE = 'read _ && exec "$@"'
"""Shell script that waits for a line on standard input before it becomes the program in its arguments.

A process that waits there can be put into a group before the program starts, so that no child of the program escapes.
"""
GATE_WITHOUT_INPUT = f"{GATE} </dev/null"


def gated(command: Sequence[str], *, script: str = GATE) -> list[str]:
    """Return the command line that waits for a line on standard input and then becomes `command`."""
    return ["/bin/sh", "-c", script, "sh", *command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Counters of a group since its start; None is what the mechanism does not count.

    Attributes:
        cpu_s: processor time of all processes, user and system.
        periods, throttled_periods: periods of the quota with work, and those in which the quota paused the group.
        throttled_s: time for which the quota paused the group, summed over processors.
        memory_bytes: memory in use now, without page cache that the kernel can drop at once.
        memory_peak_bytes: highest memory, page cache included.
        limit_hits: how often the memory limit was reached; the kernel then reclaims memory or kills.
        oom_kills: processes that the kernel killed because of the memory limit.
        read_bytes, written_bytes: on block devices.
    """

    cpu_s: float | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_s: float | None = None
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None
    limit_hits: int | None = None
    oom_kills: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None

    def reached(self, memory_bytes: int) -> bool:
        """Whether a counter says that a memory limit was reached."""
        return bool(self.oom_kills or self.limit_hits or (self.memory_peak_bytes or 0) >= memory_bytes)


class Group(Protocol):
    """Processes under common limits. Leaving its context kills them and removes the group."""

    @property
    def mechanism(self) -> str:
        """Its name in records."""

    @property
    def cannot_hold(self) -> str:
        """What this mechanism can't limit, as a sentence; empty if it holds everything."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that a process needs, so that the group recognises its descendants."""

    def __enter__(self) -> Self:
        """Create the group. Raises OSError."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill everything in the group and remove it."""

    def admit(self, pid: int) -> None:
        """Put a process into the group; its later children follow. Raises OSError."""

    def usage(self) -> Usage:
        """Return the counters now."""

    def kill(self) -> int:
        """Kill all processes of the group with SIGKILL. Return how many there were."""
