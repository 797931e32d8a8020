"""Samples far from the rest: counted and shown, never dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgewise.stats.autocorrelation import Samples, checked

FAR = 10.0
"""Modified z-score above which a sample is an outlier; the usual 3.5 flags the shoulder of any skewed distribution."""

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""

MEAN_DEVIATION_TO_SIGMA = 1.2533
"""Mean absolute deviation to standard deviation of a normal distribution, √(π/2)."""


def median_absolute_deviation(samples: ArrayLike) -> float:
    """The median distance from the median, in the samples' unit, unscaled. Raises `BadInput` for no or bad samples."""
    array = checked(samples)
    return float(np.median(np.abs(array - np.median(array)))) if len(array) else 0.0


def outlier_mask(samples: ArrayLike) -> NDArray[np.bool_]:
    """True where a sample's modified z-score, |x − median| / (1.4826 · MAD), is above 10.

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
