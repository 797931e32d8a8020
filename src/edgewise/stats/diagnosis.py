"""What is wrong with a set of samples: a trend, or more than one cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgewise.stats.autocorrelation import Samples, checked, split_sessions
from edgewise.stats.distributions import normal_two_sided

BLOCKS = 20
LEAST_BLOCKS = 8
"""A session with fewer samples tells nothing of a trend."""

NEGLIGIBLE = 1e-12
"""Of a median beside the largest value: nothing is relative to it."""

LEAST_SAMPLES = 50
"""With fewer samples clusters can't be told from chance."""

GRID = 512
VALLEY = 0.5
"""Two peaks are apart where the density between them falls below half of the lower one."""
LEAST_SEPARATION = 0.05
LEAST_SHARE = 0.15
"""The kernel's timer tick (usually 250 Hz, some 25 µs in a virtual machine) lengthens latency × 250 Hz of all samples:
up to 13 % before 25 µs are less than `LEAST_SEPARATION` of them. That is no second mode of the model."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A monotone trend within sessions.

    Attributes:
        relative_change: from the beginning to the end of a session, relative to its median; positive where it rises.
        p_value: two-sided, of no trend.
    """

    relative_change: float
    p_value: float


@dataclass(frozen=True, slots=True)
class SpeedMode:
    """A cluster of samples: its median, in their unit, and its share of them."""

    value: float
    share: float


def drift(samples: ArrayLike, session_lengths: Sequence[int]) -> Drift | None:
    """Return the trend within sessions: Theil and Sen's slope and Mann and Kendall's test on block medians.

    Each session is cut into up to 20 blocks, whose medians are free of outliers and nearly so of fast correlation; what
    is left of it widens the test: the variance of Kendall's S is multiplied by (1 + ρ)/(1 − ρ) of detrended ranks,
    as for a first-order autoregression, after an idea of Hamed and Rao, "A modified Mann-Kendall trend test for
    autocorrelated data", Journal of Hydrology 204 (1998). Sessions are strata: their S and variances add up.

    Args:
        samples: shape (n,), in time order, session after session.
        session_lengths: how many samples belong to each session.

    Returns:
        None where no session has 8 samples and a median that is not negligible beside their spread.

    Raises:
        BadInput: not finite, no samples, or lengths that don't add up.
    """
    sessions = split_sessions(samples, session_lengths)
    series = [_block_medians(session) for session in sessions if len(session) >= LEAST_BLOCKS]
    middles = [abs(float(np.median(blocks))) for blocks in series]
    series = [
        blocks / middle
        for blocks, middle in zip(series, middles, strict=True)
        if middle > NEGLIGIBLE * float(np.abs(blocks).max())
    ]
    if not series:
        return None
    slope = float(np.median(np.concatenate([_slopes(blocks) for blocks in series])))
    score = sum(_kendall(blocks) for blocks in series)
    variance = sum(_kendall_variance(blocks) for blocks in series) * _inflation(series)
    z = (abs(score) - 1.0) / math.sqrt(variance) if variance > 0.0 and score else 0.0
    return Drift(slope, normal_two_sided(z))


def _block_medians(session: Samples) -> Samples:
    count = min(BLOCKS, len(session))
    length = len(session) // count
    return np.median(session[: count * length].reshape(count, length), axis=1)


def _pairs(blocks: Samples) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(len(blocks), k=1)


def _slopes(blocks: Samples) -> Samples:
    """Return changes per session length between all pairs of blocks."""
    first, second = _pairs(blocks)
    return (blocks[second] - blocks[first]) * len(blocks) / (second - first)


def _kendall(blocks: Samples) -> float:
    first, second = _pairs(blocks)
    return float(np.sign(blocks[second] - blocks[first]).sum())


def _kendall_variance(blocks: Samples) -> float:
    """Return the variance of Kendall's S without a trend, with ties: Kendall, "Rank Correlation Methods" (1975),
    chapter 4.
    """
    count = len(blocks)
    _, ties = np.unique(blocks, return_counts=True)
    tied = float((ties * (ties - 1) * (2 * ties + 5)).sum())
    return (count * (count - 1) * (2 * count + 5) - tied) / 18.0


def _inflation(series: Sequence[Samples]) -> float:
    """(1 + ρ)/(1 − ρ) of the blocks' detrended ranks, ρ corrected for its bias of −(1 + 4ρ)/n, never below 1.

    Ranks first, then a straight line: a trend that bends would else leave a remainder that looks like correlation.
    """
    products, squares, total = 0.0, 0.0, 0
    for blocks in series:
        ranks = _ranks(blocks)
        times = np.arange(len(blocks)) - (len(blocks) - 1) / 2.0
        ranks -= times * (ranks @ times) / (times @ times)
        products += float(ranks[1:] @ ranks[:-1])
        squares += float(ranks @ ranks)
        total += len(blocks)
    if squares < 1e-9 * total:  # nothing but trend
        return 1.0
    bias = len(series) / total
    rho = products / squares
    rho = min(max((rho + bias) / (1.0 - 4.0 * bias), 0.0), 0.9)
    return (1.0 + rho) / (1.0 - rho)


def _ranks(blocks: Samples) -> Samples:
    """Return ranks less their mean; equal values share theirs."""
    _, inverse, counts = np.unique(blocks, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Samples = (ends - (counts - 1) / 2.0)[inverse]
    ranks -= ranks.mean()
    return ranks


def modes(samples: ArrayLike) -> tuple[SpeedMode, ...]:
    """Separated clusters, lowest first.

    A kernel density (Gaussian, Silverman's bandwidth, of logarithms where all samples are positive) is cut at valleys
    below half of the lower peak beside them, and deeper than three standard errors. Clusters with less than 15 % of the
    samples, or no farther from a neighbour than 5 % of the median, are joined to it. Their order plays no role.

    Args:
        samples: shape (n,), in any order.

    Returns:
        One mode for a single cluster or fewer than 50 samples; none without samples. Shares add up to 1.

    Raises:
        BadInput: not finite, or not flat.
    """
    ordered = np.sort(checked(samples))
    if not len(ordered):
        return ()
    edges = _cuts(ordered) if len(ordered) >= LEAST_SAMPLES and np.ptp(ordered) > 0.0 else []
    clusters = _joined(np.split(ordered, edges), abs(float(np.median(ordered))))
    return tuple(SpeedMode(float(np.median(cluster)), len(cluster) / len(ordered)) for cluster in clusters)


def _cuts(ordered: Samples) -> list[int]:
    """Return indices into the sorted samples where the density has a deep valley."""
    values = np.log(ordered / ordered[0]) if ordered[0] > 0.0 else ordered
    grid, density = _density(values)
    if not len(grid):
        return []
    inner = density[1:-1]
    peaks = np.flatnonzero((inner > density[:-2]) & (inner >= density[2:])) + 1
    valleys = [int(a + np.argmin(density[a : b + 1])) for a, b in pairwise(peaks)]
    heights = [float(density[peak]) for peak in peaks]
    while valleys:
        depths = [_depth(float(density[valley]), min(heights[i : i + 2])) for i, valley in enumerate(valleys)]
        shallowest = int(np.argmax(depths))
        if depths[shallowest] < VALLEY:
            break
        del valleys[shallowest]
        heights[shallowest : shallowest + 2] = [max(heights[shallowest : shallowest + 2])]
    return [int(np.searchsorted(values, grid[valley])) for valley in valleys]


def _depth(valley: float, peak: float) -> float:
    """Return the valley's density over the peak's; 1 where the difference is within three standard errors.

    The density is a sum of kernels of height 1, so its variance is about its height over √2.
    """
    significant = peak - valley > 3.0 * math.sqrt((peak + valley) / math.sqrt(2.0))
    return valley / peak if significant else 1.0


def _density(values: Samples) -> tuple[Samples, Samples]:
    """Return a Gaussian kernel density on a grid over all but the outermost 1 % of samples; empty where that has no
    width.

    Silverman's rule, 0.9 · min(s, IQR/1.349) · n^(−1/5): "Density Estimation" (1986), section 3.4.2.
    """
    low, quarter, three_quarters, high = np.percentile(values, [1.0, 25.0, 75.0, 99.0])
    inside = values[(values >= low) & (values <= high)]
    spread = min(float(inside.std()), (three_quarters - quarter) / 1.349) or float(inside.std())
    bandwidth = max(0.9 * spread * len(values) ** -0.2, (high - low) / GRID * 2.0)
    if bandwidth <= 0.0:
        return np.zeros(0), np.zeros(0)
    edges = np.linspace(low - 3.0 * bandwidth, high + 3.0 * bandwidth, GRID + 1)
    step = float(edges[1] - edges[0])
    counts, _ = np.histogram(inside, edges)
    reach = np.arange(-math.ceil(4.0 * bandwidth / step), math.ceil(4.0 * bandwidth / step) + 1) * step
    kernel = np.exp(-0.5 * (reach / bandwidth) ** 2)
    density = np.convolve(counts, kernel, mode="full")[len(reach) // 2 :][:GRID]
    return (edges[:-1] + edges[1:]) / 2.0, density


def _joined(clusters: list[Samples], median: float) -> list[Samples]:
    """Return the clusters, with those that are too close and then those that are too small joined to the nearest
    neighbour.

    Closeness is judged before anything is joined: the ticks of a coarse clock are a chain of neighbours, one cluster.
    """
    total = sum(map(len, clusters))
    middles = [float(np.median(cluster)) for cluster in clusters]
    apart = [high - low > LEAST_SEPARATION * median for low, high in pairwise(middles)]
    starts = [0, *(index + 1 for index, far in enumerate(apart) if far), len(clusters)]
    clusters = [np.concatenate(clusters[begin:end]) for begin, end in pairwise(starts)]
    while len(clusters) > 1:
        small = min(range(len(clusters)), key=lambda index: len(clusters[index]))
        if len(clusters[small]) >= LEAST_SHARE * total:
            break
        gaps = [float(np.median(high) - np.median(low)) for low, high in pairwise(clusters)]
        left = min((index for index in (small - 1, small) if 0 <= index < len(gaps)), key=lambda index: gaps[index])
        clusters[left : left + 2] = [np.concatenate(clusters[left : left + 2])]
    return clusters
