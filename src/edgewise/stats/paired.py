"""The ratio of two times that were measured in adjacent windows: whatever slows the machine slows both of a pair.

Standard library only: a worker on a device uses it, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, quantiles

_SPREAD = 1.959963984540054 * math.sqrt(math.pi / 2) / 1.349
"""Half-width of the 95 % interval of a median of n normal values: this, times the distance of the quartiles, over √n.
Interruptions hardly move the quartiles."""


def paired_ratio(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the median over pairs of the second time over the first, and the half-width of its 95 % interval.

    A ratio that chance explains is 1. A single pair tells no interval: its half-width is 0.

    Args:
        pairs: at least one; all times above 0.
    """
    ratios = [second / first for first, second in pairs]
    ratio = median(ratios)
    if len(ratios) < 2:
        return ratio, 0.0
    low, _, high = quantiles(ratios, n=4)
    half = _SPREAD * (high - low) / math.sqrt(len(ratios))
    return (ratio if abs(ratio - 1.0) > half else 1.0), half
