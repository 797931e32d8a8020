"""Whether the limits of a smaller device held, and whether the job used the processors that it had."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.constraints.base import PERIOD_S
from edgewise.record import Caution, Constraints
from edgewise.run.counters import usable_cores
from edgewise.units import format_bytes, format_limit

HELD = 1.05
"""Processor time may exceed the limit by this factor: the kernel books it in slices."""
FULL = 0.9
"""Below this share of the limit the processors were not used fully."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one process group used; None is not known.

    Attributes:
        cpu_s: processor time in `seconds` of wall time.
        memory_bytes: highest memory.
        cannot_hold: what the mechanism can't limit; empty if nothing.
    """

    cpu_s: float | None
    seconds: float | None
    memory_bytes: int | None
    cannot_hold: str

    @property
    def cpus(self) -> float | None:
        """Processors used on average."""
        return self.cpu_s / self.seconds if self.cpu_s is not None and self.seconds else None


def about_limits(limits: Constraints, facts: Sequence[Mapping[str, Any]], *, pauses: bool) -> list[Caution]:
    """Return the cautions of a run in an engine: processor time of the steady phase, memory of the whole session.

    Args:
        pauses: whether the scenario pauses between inferences, so that unused processor time says nothing.
    """
    uses = []
    for each in facts:
        counters, group = each.get("counters") or {}, each.get("constraints") or {}
        uses.append(
            Use(
                cpu_s=counters.get("process_cpu_s"),
                seconds=counters.get("wall_s"),
                memory_bytes=group.get("memory_peak_bytes"),
                cannot_hold=group.get("cannot_hold", ""),
            )
        )
    return cautions_about_limits(limits, uses, complete=not pauses)


def cautions_about_limits(limits: Constraints, uses: Sequence[Use], *, complete: bool) -> list[Caution]:
    """Return a caution for each limit that did not hold, and for processors that were not used fully.

    Args:
        complete: whether the job came to its end and did not pause as requested; otherwise unused processor time says
            nothing.
    """
    found = []
    cores = len(usable_cores())
    shares = [one.cpus for one in uses if one.cpus is not None]
    if uses and uses[0].cannot_hold:
        found.append(Caution.of("limit-not-held", uses[0].cannot_hold))
    if limits.cpus and cores and limits.cpus > cores:
        message = f"the limit of {limits.cpus:g} CPUs has no effect: this machine has {cores} usable cores"
        found.append(Caution.of("limit-not-held", message))
    elif limits.cpus and any(_exceeds(one, limits.cpus) for one in uses):
        found.append(
            Caution.of("limit-not-held", f"the job used up to {max(shares):.3g} CPUs; the limit is {limits.cpus:g}")
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if limits.memory_bytes and limits.memory_bytes > memory:
        message = f"the limit of {format_limit(limits.memory_bytes)} has no effect: this machine has "
        found.append(Caution.of("limit-not-held", message + f"{format_bytes(memory)} of memory"))
    peak = max((one.memory_bytes or 0 for one in uses), default=0)
    if limits.memory_bytes and peak > limits.memory_bytes:
        message = f"the job used {format_bytes(peak)}; the limit is {format_limit(limits.memory_bytes)}"
        found.append(Caution.of("limit-not-held", message))
    given = min(limits.cpus or 0.0, cores or float("inf"))
    if shares and complete and min(shares) < FULL * given:
        lowest = f", the lowest of {len(shares)} processes" if len(shares) > 1 else ""
        message = f"the job used {min(shares):.3g} of {given:g} CPUs on average{lowest}"
        found.append(Caution.of("cpu-not-used", message))
    return found


def _exceeds(one: Use, cpus: float) -> bool:
    """Whether a use is above the quota of its time, with one period more for where its ends fall in a period."""
    return one.cpu_s is not None and bool(one.seconds) and one.cpu_s > cpus * HELD * ((one.seconds or 0.0) + PERIOD_S)
