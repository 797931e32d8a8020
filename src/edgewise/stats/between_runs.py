"""How a machine's speed varies between runs: from earlier runs, and from the parts of one run.

Readings of a reference kernel are joined into blocks of about one run each. The variance between blocks, less what the
readings of one block scatter by, is the slow part: what another run, minutes later, differs by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from edgewise.stats.autocorrelation import Samples, long_run, split_sessions

BLOCK_READINGS, BLOCK_S = 10, 60.0
"""Most readings in a block, and its longest duration: a default run takes ten readings in a few seconds."""

LEAST_IN_BLOCK, LEAST_BLOCKS, LEAST_SPAN_S = 4, 8, 300.0
"""What it takes to learn: readings in a block, blocks, and the time from the first to the last."""


NEAR_S, ENOUGH = 1200.0, 16
"""Blocks up to this old, beside the newest one, weigh the same, older ones less: a sixteenth at twice that age. The age
is doubled until the weights are worth that many equal ones, so that little is lost where little is known."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """An estimate of a variance, and its degrees of freedom."""

    variance: float
    degrees: float

    @property
    def weight(self) -> float:
        """What it counts beside others: 2 / the variance of its logarithm, within 5 %; 0.4 with one degree."""
        return self.degrees**2 / (self.degrees + 1.4)

    @property
    def logarithm(self) -> float:
        """The logarithm, which is too small in the mean: by 1.27 with one degree, by 1 / degrees with many."""
        return math.log(self.variance) + (1.0 + 0.27 / self.degrees) / self.degrees


def pool(estimates: Sequence[Scatter], *, floor: float) -> Scatter:
    """Return one estimate from several of about the same variance; `degrees` is the sum of their weights.

    Logarithms are averaged, since estimates may be wrong by a factor: in a mean of the variances themselves, a guess
    of 2 % would outweigh twenty runs that differ by 0.2 %.

    Args:
        floor: smaller variances count as this one.
    """
    weights = [one.weight for one in estimates]
    logarithms = [Scatter(max(one.variance, floor), one.degrees).logarithm for one in estimates]
    mean = sum(weight * each for weight, each in zip(weights, logarithms, strict=True)) / sum(weights)
    return Scatter(math.exp(mean), sum(weights))


def add(parts: Sequence[Scatter]) -> Scatter:
    """Return the variance of a sum, with Satterthwaite's degrees of freedom."""
    variance = sum(part.variance for part in parts)
    squares = sum(part.variance**2 / part.degrees for part in parts)
    return Scatter(variance, variance**2 / squares)


PARTS, LEAST_IN_PART, LEAST_PARTS = 10, 4, 4
"""Most parts of a session; samples in one, where there are as many; parts of a run that tell how much they vary."""


def scatter_of_parts(samples: ArrayLike, session_lengths: Sequence[int]) -> Scatter | None:
    """Return the variance of the logarithms of the medians of consecutive parts of each session; None with too few
    parts.

    Args:
        samples: shape (n,), in time order, session after session.
        session_lengths: how many samples belong to each session.
    """
    medians = [
        float(np.median(part))
        for session in split_sessions(samples, session_lengths)
        for part in np.array_split(session, min(PARTS, max(1, len(session) // LEAST_IN_PART)))
    ]
    if len(medians) < LEAST_PARTS or min(medians) <= 0.0:
        return None
    return Scatter(float(np.log(medians).var(ddof=1)), len(medians) - 1.0)


@dataclass(frozen=True, slots=True)
class ReadingBlocks:
    """Readings joined into blocks, in time order.

    Attributes:
        levels: the mean of the logarithms of each block's readings, shape (blocks,). A mean, because a shared machine
            jumps between two speeds, and so would a median.
        noise: variance of such a mean that comes from the scatter of single readings; pooled over the blocks.
        starts, ends: times of each block's first and last reading, s; shape (blocks,).
    """

    levels: Samples
    noise: float
    starts: Samples
    ends: Samples


@dataclass(frozen=True, slots=True)
class BetweenRuns:
    """What runs differ by beyond the scatter within them.

    Attributes:
        level: the usual logarithm of the time.
        sigma: relative standard deviation between blocks.
        degrees: degrees of freedom of `sigma`.
        noise: variance of a block's level from the scatter of its readings.
        blocks: how many it comes from.
        span_s: from the first to the last of them, s.
    """

    level: float
    sigma: float
    degrees: float
    noise: float
    blocks: int
    span_s: float

    @property
    def is_learnt(self) -> bool:
        """Return whether the runs are enough, in number and time span, to estimate the variation from them."""
        return self.blocks >= LEAST_BLOCKS and self.span_s >= LEAST_SPAN_S

    @property
    def scatter(self) -> Scatter:
        """The estimate, to be pooled with others."""
        return Scatter(self.sigma**2, self.degrees)


def join_blocks(times: Sequence[float], seconds: Sequence[float]) -> ReadingBlocks:
    """Return blocks of `LEAST_IN_BLOCK` to `BLOCK_READINGS` readings; those that lie alone are left out.

    Args:
        times: when each reading was taken, s, in any order.
        seconds: what the kernel took, s, each above 0.
    """
    order = np.argsort(times, kind="stable")
    moments, logs = np.asarray(times, dtype=float)[order], np.log(np.asarray(seconds, dtype=float)[order])
    groups: list[list[int]] = []
    for index, moment in enumerate(moments):
        if groups and len(groups[-1]) < BLOCK_READINGS and moment - moments[groups[-1][0]] <= BLOCK_S:
            groups[-1].append(index)
        else:
            groups.append([index])
    groups = [group for group in groups if len(group) >= LEAST_IN_BLOCK]
    levels = np.array([logs[group].mean() for group in groups])
    noise = 0.0
    if groups:
        squares = sum(float(((logs[group] - level) ** 2).sum()) for group, level in zip(groups, levels, strict=True))
        scatter = squares / sum(len(group) - 1 for group in groups)
        noise = scatter * float(np.mean([1.0 / len(group) for group in groups]))
    return ReadingBlocks(
        levels=levels,
        noise=noise,
        starts=np.array([moments[group[0]] for group in groups]),
        ends=np.array([moments[group[-1]] for group in groups]),
    )


def estimate_between_runs(blocks: ReadingBlocks) -> BetweenRuns | None:
    """Return the slow part of the variance; None where there are fewer than two blocks. See also
    `BetweenRuns.is_learnt`.

    What is near in time weighs more, see `NEAR_S`. Consecutive blocks are correlated, so that their variance is too
    small by that of their mean; the long-run variance tells how much, and how many independent blocks they are worth.
    """
    count = len(blocks.levels)
    if count < 2:
        return None
    weights, worth = _weights(blocks.ends)
    deviations = np.sqrt(weights) * (blocks.levels - float(np.average(blocks.levels, weights=weights)))
    between = float((deviations**2).mean()) * worth / (worth - 1.0)
    noise = long_run([deviations])
    return BetweenRuns(
        level=_weighted_median(blocks.levels, weights),
        sigma=math.sqrt(max(0.0, between - blocks.noise) + noise.variance / worth),
        degrees=max(1.0, noise.degrees * (worth - 1.0) / (count - 1.0)),
        noise=blocks.noise,
        blocks=count,
        span_s=float(blocks.ends[-1] - blocks.starts[0]),
    )


def _weights(times: Samples) -> tuple[Samples, float]:
    """Weights of blocks by their age, 1 in the mean, and how many of equal weight they are worth.

    Source of the second: L. Kish, "Survey Sampling" (1965).
    """
    ages, near = times.max() - times, NEAR_S
    while True:
        weights = np.minimum(1.0, near / np.maximum(ages, near)) ** 4
        weights /= weights.mean()
        worth = len(times) ** 2 / float((weights**2).sum())
        if worth >= min(ENOUGH, len(times)) or near > ages.max():
            return weights, worth
        near *= 2.0


def _weighted_median(values: Samples, weights: Samples) -> float:
    """Return where half the weight lies below; the median where all weigh the same."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) - weights[order] / 2.0
    return float(np.interp(weights.sum() / 2.0, below, values[order]))
