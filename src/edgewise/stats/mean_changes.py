"""Changes of the mean of a series, whatever its values are distributed like: none is assumed, mixtures included.

A processor of which a control group takes a part away does not slow each token down: it pauses for the rest of each
period. Most times stay what they were, some become several times as long, and the median may be the same.

Method: a permutation test. The largest step of the cumulative sum over the intervals of `edgewise.stats.level_changes`
is compared with that of the same values in random orders, each of which is as likely where nothing changes. If it is a
change, each side of it is looked at in the same way.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgewise.stats.level_changes import LEAST, seeds

Floats = NDArray[np.float64]

ORDERS = 1000
"""Least number of random orders; that of the values themselves is one of them."""
CLIP = 5.0
"""Values are clipped at this number of standard deviations from the median, as the median absolute deviation gives
them: one value that is far off is no change, and hides none.
"""


def mean_changes(values: ArrayLike, *, chance: float) -> list[int]:
    """Return the index of the first value after each change of the mean, in order.

    Args:
        values: finite, in the order of time, [n].
        chance: largest probability of any change where the values are exchangeable. The fewer values there are on a
            side, the less they can prove: at 0.01, half of 12 values or 3 of 40, however far they are off.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) < 2 * LEAST:
        return []
    apart = series - np.median(series)
    limit = CLIP * 1.4826 * float(np.median(np.abs(apart)))
    return _changes(np.clip(apart, -limit, limit) if limit else apart, chance, np.random.default_rng(0))


def _changes(series: Floats, chance: float, generator: np.random.Generator) -> list[int]:
    if len(series) < 2 * LEAST:
        return []
    orders = np.tile(series, (max(ORDERS, math.ceil(2 / chance)), 1))
    generator.permuted(orders[1:], axis=1, out=orders[1:])
    sizes, splits = _largest(orders)
    # The tolerance is for sums of the same values in another order.
    if np.mean(sizes >= sizes[0] * (1 - 1e-9)) > chance:
        return []
    split = int(splits[0])
    later = [split + each for each in _changes(series[split:], chance, generator)]
    return [*_changes(series[:split], chance, generator), split, *later]


def _largest(orders: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return the size and the place of the largest step of each row.

    A size is the difference of the means on both sides within an interval, in standard errors of values with a
    standard deviation of 1.
    """
    rows, number = orders.shape
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(orders, axis=1)], axis=1)
    largest, places = np.full(rows, -1.0), np.zeros(rows, dtype=np.int64)
    for start, stop in seeds(number):
        first, last = start + LEAST, stop - LEAST + 1
        share = (np.arange(first, last) - start) / (stop - start)
        expected = sums[:, [start]] * (1 - share) + sums[:, [stop]] * share
        sizes = np.abs(sums[:, first:last] - expected) / np.sqrt(share * (1 - share) * (stop - start))
        best = sizes.argmax(axis=1)
        size = sizes[np.arange(rows), best]
        places = np.where(size > largest, first + best, places)
        largest = np.maximum(size, largest)
    return largest, places
