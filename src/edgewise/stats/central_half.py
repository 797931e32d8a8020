"""The central half of repeated times: without what an interruption spoiled, and as a mean, so that parts add up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def central(times: Sequence[float]) -> npt.NDArray[np.int64]:
    """Positions of the times that lie between the quartiles; all of fewer than eight."""
    values = np.asarray(times, dtype=float)
    if len(values) < 8:
        return np.arange(len(values))
    low, high = np.quantile(values, (0.25, 0.75))
    return np.flatnonzero((values >= low) & (values <= high))


def central_half_mean(times: Sequence[float]) -> float:
    """Mean of the times that lie between the quartiles, in their unit."""
    return float(np.asarray(times, dtype=float)[central(times)].mean())
