"""Whether the parts of a profile add up to the whole, and what the rest is.

The whole is the latency without profiling. The steps' times come from profiled inferences, in which the engine also
spends time on its own bookkeeping between steps; so what its clock shows there is only an upper bound of what passes
there without profiling. The rest of the latency that no step explains goes to these places as far as the bounds reach,
those first that profiling does not touch; what they can't explain is unattributed, and so are steps nobody can name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOLERANCE = 0.05
"""How far the parts of a profile may be from the whole before a note says so."""
UNTOUCHED = ("call", "session", "guards")
"""Overheads outside the engine's loop over its steps: profiling does not lengthen them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBreakdown:
    """Where the latency went, s.

    Attributes:
        overheads: engine's own places → what of the latency they explain.
        unattributed: what is left over; negative where steps took longer under the profiler than the whole did without.
        conservation: everything that has a name, over the latency.
        attributed: share of the latency that has a name, at most 1.
    """

    overheads: Mapping[str, float]
    unattributed: float
    conservation: float
    attributed: float


def break_down_latency(
    *, latency: float, steps: float, nameless: float, bounds: Mapping[str, float]
) -> LatencyBreakdown:
    """Settle the accounts of one profile.

    Args:
        latency: end to end without profiling, s; above 0.
        steps: of all steps that are operators or overheads with a name, s.
        nameless: of steps that nobody could attribute, s.
        bounds: the engine's own places → s in profiled inferences.
    """
    rest = latency - steps - nameless
    explained: dict[str, float] = {}
    for name in sorted(bounds, key=lambda each: each not in UNTOUCHED):
        explained[name] = min(max(rest, 0.0), max(bounds[name], 0.0))
        rest -= explained[name]
    if abs(rest) < 1e-9 * latency:
        rest = 0.0  # what is left of rounding
    named = steps + sum(explained.values())
    return LatencyBreakdown(
        overheads=explained,
        unattributed=rest + nameless,
        conservation=named / latency,
        attributed=min(1.0, named / latency, 1.0 - nameless / latency),
    )
