"""Repeated times of parts without what other work added to them; the parts still add up to their wholes.

An interruption meets one part of one repetition and takes as long as the other program has the processor. So a part
that takes far longer than it usually does is cut to just above that, and of the repetitions the longest are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

SLOWER, SLACK_NS = 1.25, 20_000.0
"""A part is cut where it takes longer than this factor times its median, and than this besides."""
LEAST_SHARE = 0.25
"""At least this share of the repetitions is kept, the shortest, and all up to `SLOWER` times the shortest tenth."""


def without_interruptions(parts: Times) -> Times:
    """`parts` (parts × repetitions, ns), each of them cut to what it usually takes at most."""
    middle = np.median(parts, axis=1, keepdims=True)
    return np.asarray(np.minimum(parts, SLOWER * np.maximum(middle, 0.0) + SLACK_NS))


def undisturbed(times: Sequence[float] | Times) -> npt.NDArray[np.int64]:
    """Positions of the repetitions that are kept, by their whole times; all of fewer than eight."""
    values = np.asarray(times, dtype=float)
    if len(values) < 8:
        return np.arange(len(values))
    tenth, share = np.quantile(values, (0.1, LEAST_SHARE))
    return np.flatnonzero(values <= max(SLOWER * tenth, share))


def undisturbed_mean(times: Sequence[float]) -> float:
    """Mean of the times that are kept, in their unit."""
    return float(np.asarray(times, dtype=float)[undisturbed(times)].mean())
