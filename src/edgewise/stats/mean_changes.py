"""Changes of the mean of a series, whatever its values are distributed like: none is assumed, mixtures included.

A processor of which a control group takes a part away does not slow each token down: it pauses for the rest of each
period. Most times stay what they were, some become several times as long, and the median may be the same.

Method: a permutation test. The largest difference is compared with that of the same values in random orders, each of
which is as likely where nothing changes. If it is a change, each side of it is looked at in the same way. There are two
kinds of differences: steps of the cumulative sum over the intervals of `edgewise.stats.level_changes`, and stretches
against all other values, as in circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler, 2004,
Biostatistics 5). Steps prove more of few values at an end, stretches more of few values in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgewise.stats.level_changes import LEAST, seeds

Floats = NDArray[np.float64]
Largest = Callable[[Floats], tuple[Floats, int, int]]
"""Rows → the size of the largest difference of each, and between which two places the first row has it."""

ORDERS = 1000
"""Least number of random orders; that of the values themselves is one of them."""
CLIP = 5.0
"""Values are clipped at this number of standard deviations from the median, as the median absolute deviation gives
them: one value that is far off is no change, and hides none.
"""


def mean_changes(values: ArrayLike, *, chance: float, stretches: bool = False) -> list[int]:
    """Return the index of the first value after each change of the mean, in order.

    Args:
        values: finite, in the order of time, [n].
        stretches: look for stretches instead of steps: a change that ends again soon is found more often.
        chance: largest probability of any change where the values are exchangeable. The fewer values there are on a
            side, the less they can prove: at 0.01, half of 12 values or 3 of 40, however far they are off.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) < 2 * LEAST:
        return []
    apart = series - np.median(series)
    limit = CLIP * 1.4826 * float(np.median(np.abs(apart)))
    largest = _largest_stretch if stretches else _largest_step
    return _changes(np.clip(apart, -limit, limit) if limit else apart, chance, largest, np.random.default_rng(0))


def _changes(series: Floats, chance: float, largest: Largest, generator: np.random.Generator) -> list[int]:
    if len(series) < 2 * LEAST:
        return []
    orders = np.tile(series, (max(ORDERS, math.ceil(2 / chance)), 1))
    generator.permuted(orders[1:], axis=1, out=orders[1:])
    sizes, begin, end = largest(orders)
    # The tolerance is for sums of the same values in another order.
    if np.mean(sizes >= sizes[0] * (1 - 1e-9)) > chance:
        return []
    found = [each for each in (begin, end) if 0 < each < len(series)]
    for start, stop in pairwise([0, *found, len(series)]):
        found += [start + each for each in _changes(series[start:stop], chance, largest, generator)]
    return sorted(found)


def _largest_step(orders: Floats) -> tuple[Floats, int, int]:
    """Return the size of the largest step of each row, and of the first row where it is and the number of values.

    A size is the difference of the means on both sides within an interval, in standard errors of values with a
    standard deviation of 1.
    """
    rows, number = orders.shape
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(orders, axis=1)], axis=1)
    largest, place = np.full(rows, -1.0), 0
    for start, stop in seeds(number):
        first, last = start + LEAST, stop - LEAST + 1
        share = (np.arange(first, last) - start) / (stop - start)
        expected = sums[:, [start]] * (1 - share) + sums[:, [stop]] * share
        sizes = np.abs(sums[:, first:last] - expected) / np.sqrt(share * (1 - share) * (stop - start))
        best = sizes.max(axis=1)
        place = first + int(sizes[0].argmax()) if best[0] > largest[0] else place
        largest = np.maximum(best, largest)
    return largest, place, number


def _largest_stretch(orders: Floats) -> tuple[Floats, int, int]:
    """Return the size of the largest difference of a stretch of each row from its other values, and the begin and end
    of that of the first row. A size is as in `_largest_step`.

    A stretch has `LEAST` values or more, and so has what is before it and behind it, where there is anything.
    """
    rows, number = orders.shape
    apart = orders - orders.mean(axis=1, keepdims=True)
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(apart, axis=1)], axis=1)
    largest, where = np.full(rows, -1.0), (0, number)
    for length in range(LEAST, number - LEAST + 1):
        left = number - length
        begins = np.array([0, *range(LEAST, left - LEAST + 1), left])
        sizes = np.abs(sums[:, begins + length] - sums[:, begins]) / np.sqrt(length * left / number)
        best = sizes.max(axis=1)
        if best[0] > largest[0]:
            begin = int(begins[sizes[0].argmax()])
            where = begin, begin + length
        largest = np.maximum(best, largest)
    return largest, *where
