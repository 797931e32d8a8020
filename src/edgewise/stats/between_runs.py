"""How a machine's speed varies between runs, from the times of a reference kernel that each run took.

Readings are joined into blocks of about one run each. The variance between blocks, less what the readings of one block
scatter by, is the slow part: what another run, minutes later, differs by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgewise.stats.autocorrelation import Samples, long_run

BLOCK_READINGS, BLOCK_S = 10, 60.0
"""Most readings in a block, and its longest duration: a default run takes ten readings in a few seconds."""

LEAST_IN_BLOCK, LEAST_BLOCKS, LEAST_SPAN_S = 4, 8, 300.0
"""What it takes to learn: readings in a block, blocks, and the time from the first to the last."""


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
        blocks: how many it was learnt from.
        span_s: from the first to the last of them, s.
    """

    level: float
    sigma: float
    degrees: float
    noise: float
    blocks: int
    span_s: float


def join_blocks(times: Sequence[float], seconds: Sequence[float]) -> ReadingBlocks:
    """Blocks of `LEAST_IN_BLOCK` to `BLOCK_READINGS` readings; those that lie alone are left out.

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
    """The slow part of the variance; None where there are too few blocks, or they span too little time.

    Consecutive blocks are correlated, so that their variance is too small by that of their mean; the long-run variance
    tells how much, and how many independent blocks they are worth.
    """
    count = len(blocks.levels)
    if count < LEAST_BLOCKS or float(blocks.ends[-1] - blocks.starts[0]) < LEAST_SPAN_S:
        return None
    between = float(blocks.levels.var(ddof=1))
    noise = long_run([blocks.levels])
    return BetweenRuns(
        level=float(np.median(blocks.levels)),
        sigma=math.sqrt(max(0.0, between - blocks.noise) + noise.variance / count),
        degrees=noise.degrees,
        noise=blocks.noise,
        blocks=count,
        span_s=float(blocks.ends[-1] - blocks.starts[0]),
    )
