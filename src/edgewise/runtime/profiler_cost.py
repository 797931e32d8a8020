"""What an engine's profiler adds to an inference, measured by alternation; its part in the steps is subtracted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, quantiles

from edgewise.stats.central_half import central_half_mean

BLOCK = 5
"""Profiled and ordinary inferences alternate in blocks of this size, so that a drift of the clock rate affects both."""
MOST_PARTS = 2
"""How many times as long as the shortest step the record of another step may take."""


@dataclass(slots=True)
class Alternation:
    """Nanoseconds of profiled inferences (`walls`) and of ordinary ones (`plain`), which took turns in blocks."""

    walls: list[int] = field(default_factory=list)
    plain: list[int] = field(default_factory=list)

    def excess_us(self) -> float:
        """What profiling adds to an inference; 0 where that is not more than what turns differ by chance."""
        turns = [
            fmean(self.walls[at : at + BLOCK]) - fmean(self.plain[at : at + BLOCK])
            for at in range(0, min(len(self.walls), len(self.plain)), BLOCK)
        ]
        # The error of a mean from the quartiles of a normal distribution, which interruptions hardly move.
        low, _, high = quantiles(turns, n=4) if len(turns) > 1 else (0.0, 0.0, 0.0)
        chance = 2 * (high - low) / 1.349 / math.sqrt(len(turns))
        excess = central_half_mean(self.walls) - central_half_mean(self.plain)
        return excess / 1e3 if excess > chance else 0.0

    def describe_cost(self, taken: Sequence[float]) -> str:
        """Return the note on the cost of profiling; `taken` has the µs that were subtracted from each step."""
        profiled, plain = central_half_mean(self.walls) / 1e3, central_half_mean(self.plain) / 1e3
        return (
            f"an inference of {len(taken)} steps took {profiled:.1f} µs with profiling and {plain:.1f} µs without "
            f"(alternating); {sum(taken):.1f} µs of the difference were inside the steps and were subtracted, at most "
            f"{max(taken, default=0.0):.2f} µs from each; the rest is between them"
        )


def share_out(cost: float, lengths: Sequence[float]) -> list[float]:
    """Of each step, what profiling adds to its time.

    An engine keeps its books of a kernel partly between two kernels and partly while the kernel's own time still runs.
    What the excess of a profiled inference is more than all the time between kernels must lie inside. It is shared out
    in equal parts, for every kernel has one record; of a step that is shorter, all is taken, and more of the others,
    but no more than `MOST_PARTS` times the shortest step took: its time is mostly its record's.

    Args:
        cost: that lies inside the steps, all of them together; nothing is shared out where it is below 0.
        lengths: of the steps, in the same unit.
    """
    left, part = max(0.0, cost), 0.0
    for at, length in enumerate(sorted(lengths)):
        part = left / (len(lengths) - at)
        if length >= part:
            break
        left -= length
    part = min(part, MOST_PARTS * min(lengths, default=0.0))
    return [min(part, length) for length in lengths]
