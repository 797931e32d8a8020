"""Intervals of latencies that stay honest when samples are correlated and fresh processes differ.

*Within* a session the interval of the median goes from one order statistic to another. For independent samples their
ranks follow from the binomial distribution; here its variance is replaced by the long-run variance of the sequence "is
this sample above or below the median?", which a noisy neighbour's bursts inflate. No density is estimated and a skewed
or bimodal distribution gives a lopsided interval, as it should.

*Between* sessions the unit of replication is the fresh process: Student's t with k − 1 degrees of freedom on the
logarithms of the sessions' medians, all with equal weight (random-effects weights covered as little as 76 % in
simulations with very unequal lengths), and never narrower than the sessions' own noise allows.

Why not something narrower: let λ ≥ 1 be the true variance of a session's median over that of its own noise. The
variance between k medians is distributed as λ·χ²(k−1)/(k−1), a complete family, so t·s/√k is the only interval with a
coverage of 95 % at every λ; the narrowest rule that numerical optimisation found for ≥ 94.5 % is 4 – 8 % narrower at
k = 3 to 5. In simulations, variance components with Satterthwaite's degrees of freedom covered as little as 82 %
(k = 2) to 91 % (k = 5), a hierarchical bootstrap 72 % (k = 3) to 81 % (k = 5). The price: where sessions don't differ
at all, never being narrower than their noise makes 95 % into 98 – 99 %.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from edgewise.stats.autocorrelation import Samples, checked, long_run, split_sessions
from edgewise.stats.distributions import normal_quantile, t_quantile

LEAST = 3
"""With fewer samples there is no interval."""

UPPER = 0.975
"""Probability below the upper end of an interval: all intervals are 95 % ones."""

RANKS_FROM = 9
"""From this number of samples on, ranks give a 95 % interval with room for error; fewer need an assumed shape."""

TENTH_TO_MEDIAN = 1.28155
"""From the 10th percentile of a normal distribution to its median, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval in the unit of its samples, and how it came about in words."""

    low: float
    high: float
    method: str


def location(samples: ArrayLike, session_lengths: Sequence[int]) -> float:
    """Return the headline that goes with `median_interval`: the median of all samples pooled.

    By simulation: where sessions differ no more than samples do, its error is within 2 % of that of the geometric mean
    of the sessions' medians. Where they differ ten times as much it is up to 18 % larger; where bursts put one short
    session into another mode, up to six times smaller. The median of medians was never better. It is also the number
    that anyone gets from the raw samples.

    Args:
        samples: shape (n,), n ≥ 1, in time order, session after session.
        session_lengths: how many samples belong to each session.

    Raises:
        BadInput: not finite, no samples, or lengths that don't add up.
    """
    return float(np.median(np.concatenate(split_sessions(samples, session_lengths))))


def median_interval(samples: ArrayLike, session_lengths: Sequence[int]) -> Interval | None:
    """Return the 95 % interval of the median: of this process with one session, of fresh processes with several.

    With two sessions it is wide (t = 12.7), because two numbers hardly tell how far a third may be.

    Args:
        samples: shape (n,), in time order, session after session.
        session_lengths: how many samples belong to each session.

    Returns:
        None with fewer than 3 samples.

    Raises:
        BadInput: not finite, no samples, or lengths that don't add up.
    """
    sessions = split_sessions(samples, session_lengths)
    if sum(map(len, sessions)) < LEAST:
        return None
    if len(sessions) > 1:
        return _between(sessions)
    session = sessions[0]
    if len(session) < RANKS_FROM:
        return _few(session)
    low, high, correlated = _rank_interval(session, [session])
    words = "corrected for the correlation of neighbours" if correlated else "samples uncorrelated"
    return Interval(low, high, f"ranks around the median of one process, {words}")


def mean_interval(samples: ArrayLike, session_lengths: Sequence[int], *, ratio: bool = True) -> Interval | None:
    """Return the 95 % interval of the mean of all samples; of several sessions between them, like `median_interval`.

    Student's t with the long-run variance of one session, or with the variance between the sessions' means (weighted
    by their lengths), whichever is wider. Positive samples get an interval of ratios, m·exp(±h/m), which stays above 0.
    Where h is large, exp would reach what no sample speaks for: the mean of what is positive is at least half of its
    median, so the lower end is at least half of the median's; and from h = m on the upper end is e·h, more than m + h.

    Args:
        samples: shape (n,), in time order, session after session.
        session_lengths: how many samples belong to each session.
        ratio: False for differences, whose mean may be 0: the interval is m ± h.

    Returns:
        None with fewer than 3 samples.

    Raises:
        BadInput: not finite, no samples, or lengths that don't add up.
    """
    sessions = split_sessions(samples, session_lengths)
    pooled = np.concatenate(sessions)
    if len(pooled) < LEAST:
        return None
    mean, count = float(pooled.mean()), len(sessions)
    unit = float(np.abs(pooled).max()) or 1.0  # squares of tiny numbers would vanish
    noise = long_run([session / unit for session in sessions])
    half = unit * t_quantile(UPPER, noise.degrees) * math.sqrt(noise.variance / len(pooled))
    method = "t for the mean of one process, corrected for the correlation of neighbours"
    if count > 1:
        weights = np.array([len(session) for session in sessions]) / len(pooled)
        deviations = (np.array([session.mean() for session in sessions]) - mean) / unit
        shared = float(weights @ weights)
        scatter = float(weights @ deviations**2) / (1.0 - shared) * shared
        half = max(half, t_quantile(UPPER, float(count - 1)) * unit * math.sqrt(scatter))
        method = f"t between the means of {count} processes"
    if np.ptp(pooled) == 0.0:
        return Interval(float(pooled[0]), float(pooled[0]), method)
    if not (ratio and pooled.min() > 0.0):
        return Interval(mean - half, mean + half, method)
    low, high = _ratio_interval(mean, half / mean)
    if half > mean:
        high = min(high, math.e * half)
    if half > mean * math.log(2.0):
        median = median_interval(samples, session_lengths)
        assert median is not None
        low = max(low, min(mean, median.low / 2.0))
    return Interval(low, high, method)


def relative_half_width(samples: ArrayLike) -> float:
    """Half the width of the 95 % interval of one session's median, over the median; for a rule that stops measuring.

    Returns:
        Infinity with fewer than 3 samples or a median of 0 in a spread of values.

    Raises:
        BadInput: not finite, or not flat.
    """
    session = checked(samples)
    if len(session) < LEAST:
        return math.inf
    interval = median_interval(session, (len(session),))
    assert interval is not None
    width, middle = interval.high - interval.low, abs(float(np.median(session)))
    if width == 0.0:
        return 0.0
    return width / 2.0 / middle if middle > 0.0 else math.inf


def _ratio_interval(centre: float, exponent: float) -> tuple[float, float]:
    """``centre`` times and over e^exponent, kept finite."""
    factor = math.exp(min(exponent, 700.0))
    return centre / factor, min(centre * factor, sys.float_info.max)


def _few(session: Samples) -> Interval:
    """Student's t, on logarithms where all are positive: ranks of so few samples can't reach 95 %."""
    middle = float(np.median(session))
    logarithmic = float(session.min()) > 0.0
    values = _logarithms(session, middle) if logarithmic else session - middle
    t = t_quantile(UPPER, float(len(session) - 1))
    centre, half = float(values.mean()), t * float(values.std(ddof=1)) / math.sqrt(len(session))
    low, high = min(0.0, centre - half), max(0.0, centre + half)
    method = f"t of the {'logarithms of ' if logarithmic else ''}few samples of one process"
    if logarithmic:
        return Interval(_ratio_interval(middle, -low)[0], _ratio_interval(middle, high)[1], method)
    return Interval(middle + low, middle + high, method)


def _rank_interval(values: Samples, sessions: Sequence[Samples]) -> tuple[float, float, bool]:
    """Return the interval of the median of `values` between order statistics, and whether the sessions are correlated.

    The median lies between ranks n/2 ± t·√(n·V)/2, V the long-run variance of sign(x − median), which is 1 for
    independent samples. Ranks in between are interpolated. Where correlation leaves too few independent samples for
    the ranks to exist, the standard error of a normal distribution's median, √(π/2)·s·√(V/n), goes beyond the extremes,
    with an s for each side, from the 10th and from the 90th percentile, so that a long tail widens its own side only.

    Args:
        values: shape (n,), whose median is sought; the sessions' samples less their medians, or the only session.
        sessions: the same samples by session, in time order.
    """
    noise = long_run([np.sign(session - np.median(session)) for session in sessions])
    t = t_quantile(UPPER, noise.degrees) if noise.correlated else normal_quantile(UPPER)
    variance = noise.variance if noise.correlated else 1.0
    count = len(values)
    ordered = np.sort(values)
    middle, reach = (count - 1) / 2.0, t * math.sqrt(variance * count) / 2.0
    if reach <= middle:
        ends = np.interp([middle - reach, middle + reach], np.arange(count), ordered)
        return float(ends[0]), float(ends[1]), noise.correlated
    low, centre, high = (float(value) for value in np.percentile(ordered, [10.0, 50.0, 90.0]))
    deviations = t * math.sqrt(math.pi / 2.0 * variance / count) / TENTH_TO_MEDIAN
    if ordered[0] > 0.0:
        below, above = math.log(centre / low), math.log(high / centre)
        return (
            _ratio_interval(centre, deviations * below)[0],
            _ratio_interval(centre, deviations * above)[1],
            noise.correlated,
        )
    return centre - deviations * (centre - low), centre + deviations * (high - centre), noise.correlated


def _between(sessions: Sequence[Samples]) -> Interval:
    """Return the interval from the sessions' medians; see the module's text for the method."""
    count = len(sessions)
    headline = float(np.median(np.concatenate(sessions)))
    logarithmic = min(float(session.min()) for session in sessions) > 0.0
    if logarithmic:
        medians = _logarithms(np.array([np.median(session) for session in sessions]), headline)
        own = _sampling_variance([_logarithms(session, headline) for session in sessions])
    else:
        medians = np.array([np.median(session) for session in sessions]) - headline
        own = _sampling_variance(sessions)
    centre = float(medians.mean())
    scatter = t_quantile(UPPER, float(count - 1)) * float(medians.std(ddof=1)) / math.sqrt(count)
    noise = normal_quantile(UPPER) * math.sqrt(own * sum(1.0 / len(session) for session in sessions)) / count
    half = max(scatter, noise)
    # One session in another mode moves the mean of medians past the pooled one; the headline stays inside.
    below, above = max(0.0, half - centre), max(0.0, half + centre)
    method = f"t between the medians of {count} processes"
    if logarithmic:
        return Interval(_ratio_interval(headline, below)[0], _ratio_interval(headline, above)[1], method)
    return Interval(headline - below, headline + above, method)


def _logarithms(values: Samples, reference: float) -> Samples:
    """Return logarithms of `values` over `reference`: finite where the ratio is not, and exactly 0 where they agree."""
    return np.where(values == reference, 0.0, np.log(values) - math.log(reference))


def _sampling_variance(sessions: Sequence[Samples]) -> float:
    """Return the variance of a session's median times its number of samples, pooled over sessions; 0 where unknown."""
    noise = [session - np.median(session) for session in sessions]
    pooled = np.concatenate(noise)
    if len(pooled) < LEAST or np.ptp(pooled) == 0.0:
        return 0.0
    low, high, _ = _rank_interval(pooled, noise)
    return float(len(pooled) * ((high - low) / 2.0 / normal_quantile(UPPER)) ** 2)
