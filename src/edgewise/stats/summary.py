"""The descriptive statistics of raw samples. Those far from the rest are counted and shown, never dropped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgewise.record import Summary
from edgewise.stats.autocorrelation import Samples, checked, split_sessions

PERCENTILES: dict[str, float] = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
"""Name → percent."""

NEGLIGIBLE = 1e-12
"""Of a mean beside the largest value: nothing is relative to it."""

FAR = 10.0
"""Modified z-score above which a sample is an outlier; the usual 3.5 flags the shoulder of any skewed distribution."""

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""

MEAN_DEVIATION_TO_SIGMA = 1.2533
"""Mean absolute deviation to standard deviation of a normal distribution, √(π/2)."""

BEYOND = 10
"""A percentile is given only where at least this number of samples is expected above it: n ≥ 10/(1 − p)."""


def summarise(samples: ArrayLike, session_lengths: Sequence[int]) -> Summary:
    """Statistics of all samples, in their unit.

    Percentiles interpolate linearly between the two nearest order statistics (numpy's "linear", Hyndman and Fan's
    definition 7). The standard deviation has n − 1 in the denominator and is 0 for one sample. `between_sessions` is
    None where the sessions' medians average 0, too.

    Args:
        samples: shape (n,), n ≥ 1, in time order, session after session.
        session_lengths: how many samples belong to each session.

    Raises:
        BadInput: not finite, no samples, or lengths that don't add up.
    """
    sessions = split_sessions(samples, session_lengths)
    pooled = np.concatenate(sessions)
    low, high, middle = float(pooled.min()), float(pooled.max()), float(np.median(pooled))
    return Summary(
        n=len(pooled),
        mean=min(max(float(pooled.mean()), low), high),  # rounding must not carry it past the samples
        std=float(pooled.std(ddof=1)) if low < high else 0.0,
        min=low,
        max=high,
        median=middle,
        mad=float(np.median(np.abs(pooled - middle))),
        percentiles=_percentiles(pooled),
        outliers=int(outlier_mask(pooled).sum()),
        autocorrelation=_autocorrelation(sessions),
        between_sessions=_between_sessions(sessions),
    )


def outlier_mask(samples: ArrayLike) -> NDArray[np.bool_]:
    """Return True where a sample's modified z-score, |x − median| / (1.4826 · MAD), is above 10.

    Where more than half of the samples are equal the MAD is 0; then 1.2533 times the mean absolute deviation is the
    scale, after Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993). All equal: no outliers.

    Args:
        samples: shape (n,), in any order.

    Returns:
        Shape (n,).

    Raises:
        BadInput: not finite, or not flat.
    """
    array = checked(samples)
    if not len(array):
        return np.zeros(0, dtype=np.bool_)
    distances: Samples = np.abs(array - np.median(array))
    scale = MAD_TO_SIGMA * float(np.median(distances)) or MEAN_DEVIATION_TO_SIGMA * float(distances.mean())
    return distances > FAR * scale


def _percentiles(pooled: Samples) -> dict[str, float]:
    # In tenths of a percent, because 1 − 0.999 is not exactly 0.001.
    given = [
        (name, percent)
        for name, percent in PERCENTILES.items()
        if len(pooled) * (1000 - round(percent * 10)) >= BEYOND * 1000
    ]
    values = np.percentile(pooled, [percent for _, percent in given], method="linear")
    return {name: float(value) for (name, _), value in zip(given, values, strict=True)}


def _autocorrelation(sessions: Sequence[Samples]) -> float | None:
    """Lag-1 autocorrelation, averaged over the sessions that have three samples and any variance; None without one."""
    values = []
    for session in sessions:
        spread = float(np.ptp(session))
        if len(session) >= 3 and spread > 0.0:
            deviations = (session - session.mean()) / spread
            values.append(float(deviations[1:] @ deviations[:-1] / (deviations @ deviations)))
    return float(np.mean(values)) if values else None


def _between_sessions(sessions: Sequence[Samples]) -> float | None:
    """Return the standard deviation of the sessions' medians over their mean."""
    if len(sessions) < 2:
        return None
    medians = np.array([np.median(session) for session in sessions])
    if np.ptp(medians) == 0.0:
        return 0.0
    mean = abs(float(medians.mean()))
    return float(medians.std(ddof=1)) / mean if mean > NEGLIGIBLE * float(np.abs(medians).max()) else None
