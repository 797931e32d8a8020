"""How much of the time of a run's layers is the machine's limit, and how much is above it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgewise.grouping import by_key
from edgewise.profiling.layer_matching import ends, spread_of
from edgewise.profiling.roofline import share_of_roof
from edgewise.record import Layer, Peak, Run
from edgewise.record.layer import Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedTime:
    """The time of a run's layers with arithmetic, divided at their roofs, s.

    Attributes:
        least: what limits layers → the least time that these would take, all of them at their roofs; in all, at most
            what they take.
        above: by how much they take longer together. Layers that are faster than at their roofs count
            against the others, so that noise cancels out; negative where they outweigh them.
        spread: half-width of the 95 % interval of `above`; None where a layer has no interval.
        excess: the same layer by layer, the largest first.
        unknown: layers whose roof is not known, or that are above it (`RoofShare.is_above`).
    """

    least: Mapping[Bound, float]
    above: float
    spread: float | None
    excess: Sequence[tuple[float, Layer]]
    unknown: Sequence[Layer]


def has_arithmetic(layer: Layer) -> bool:
    """Whether it is timed and multiplies, or may, as its cost is not known."""
    return layer.kind == "operator" and layer.macs != 0 and bool(layer.time)


def divide_at_roofs(run: Run) -> LimitedTime | None:
    """Return the time of the layers with arithmetic at and above their roofs; None where no layer has a roof.

    The interval consists of the layers' own ones and of the latency's, which is relative and common to all of them.
    """
    layers = list(filter(has_arithmetic, run.layers))
    peaks = run.profile.peaks if run.profile is not None else ()
    known = [layer for layer in layers if layer.roof and layer.ops is not None and not _is_above(layer, peaks)]
    if not known:
        return None
    at_roof = [(layer.ops or 0) / (layer.roof or 1.0) for layer in known]
    least = by_key((layer.bound or "compute", seconds) for layer, seconds in zip(known, at_roof, strict=True))
    excess = [((layer.time or 0.0) - seconds, layer) for layer, seconds in zip(known, at_roof, strict=True)]
    taken, latency = sum(layer.time or 0.0 for layer in known), run.measurement("latency")
    part = min(1.0, taken / sum(at_roof)) if sum(at_roof) else 1.0
    common = ((latency and latency.half_width) or 0.0) * taken
    return LimitedTime(
        least={bound: sum(times) * part for bound, times in least.items()},
        above=sum(seconds for seconds, _ in excess),
        spread=math.hypot(spread_of(known), common) if ends(known) else None,
        excess=sorted(excess, key=lambda pair: -pair[0]),
        unknown=[layer for layer in layers if not layer.roof or _is_above(layer, peaks)],
    )


def _is_above(layer: Layer, peaks: Sequence[Peak]) -> bool:
    share = share_of_roof(layer, peaks)
    return share is not None and share.is_above
