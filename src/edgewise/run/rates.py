"""A measurement with its intervals from the samples of sessions, and rates from times. Pure data → data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgewise.metrics import METRICS
from edgewise.record import Measurement, Variation
from edgewise.record.run import Basis
from edgewise.run.variation import widen
from edgewise.stats import intervals
from edgewise.stats.summary import summarise

Lengths = tuple[int, ...]


def distribution(
    metric: str,
    per_session: Sequence[Sequence[float]],
    method: str,
    *,
    basis: Basis = "measured",
    variation: Variation | None = None,
) -> Measurement:
    """Return a measurement with raw samples, a summary and 95 % intervals that include the variance between
    sessions.
    """
    samples = np.concatenate([np.asarray(values, dtype=float) for values in per_session])
    lengths: Lengths = tuple(len(values) for values in per_session)
    aggregate = METRICS[metric].aggregation
    interval: intervals.Interval | None = None
    if aggregate == "max":
        value = float(samples.max())  # an extreme has no interval that a few samples could give
    elif aggregate == "mean":
        interval, value = intervals.mean_interval(samples, lengths), float(samples.mean())
    else:
        interval, value = intervals.median_interval(samples, lengths), intervals.location(samples, lengths)
    within = None
    if interval and METRICS[metric].unit in ("s", "1/s"):
        within, interval = interval, widen(interval, value, variation)
    return Measurement.of(
        metric,
        value,
        method + (f"; 95 % interval: {interval.method}" if interval else "; no interval"),
        basis=basis,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        within_low=within.low if within else None,
        within_high=within.high if within else None,
        samples=tuple(round(float(sample), 10) for sample in samples),
        session_lengths=lengths,
        summary=summarise(samples, lengths),
    )


def rate_ends(
    times: intervals.Interval | None, value: float, batch: int, *, within: intervals.Interval | None
) -> dict[str, Any]:
    """Both intervals of a rate, from those of the mean time of an inference; `value`, the rate, is always inside."""
    ends: dict[str, Any] = {}
    for prefix, each in (("", times), ("within_", within)):
        if each is not None:
            ends[f"{prefix}low"] = min(value, batch / each.high) if each.high > 0 else None
            ends[f"{prefix}high"] = max(value, batch / each.low) if each.low > 0 else None
    return ends
