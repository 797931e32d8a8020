"""Repeated times of parts without what other work added to them; the parts still add up to their wholes.

An interruption meets one part of one repetition and takes as long as the other program has the processor. So a part
that is far from what it usually takes counts as that, and of the repetitions the longest are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

OFF, SLACK_NS = 0.25, 20_000.0
"""A part was interrupted where it is off what it usually takes by more than this share of it and this time together;
one that is a difference of readings may be too short, too."""
LEAST_SHARE = 0.25
"""At least this share of the repetitions is kept, the shortest, and all up to `OFF` above the shortest tenth."""


def without_interruptions(parts: Times) -> Times:
    """`parts` (parts × repetitions, ns); those that were interrupted have what they usually take instead.

    What a part usually takes is its median, times how slow the whole repetition was: where the machine is slower for a
    while, all parts are.
    """
    middle = np.median(parts, axis=1, keepdims=True)
    usual = middle * _slowness(parts, np.maximum(middle, 0.0))
    return np.where(np.abs(parts - usual) > OFF * np.abs(usual) + SLACK_NS, usual, parts)


def _slowness(parts: Times, middle: Times) -> Times:
    """Of each repetition, the median over its parts of their times over `middle`, weighted with it."""
    weights = np.broadcast_to(middle, parts.shape)
    ratios = np.divide(parts, weights, out=np.ones_like(parts), where=weights > 0)
    order = np.argsort(ratios, axis=0)
    share = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    half = np.argmax(share >= share[-1] / 2, axis=0)
    return np.take_along_axis(np.take_along_axis(ratios, order, axis=0), half[None], axis=0)


def undisturbed(times: Sequence[float] | Times) -> npt.NDArray[np.int64]:
    """Positions of the repetitions that are kept, by their whole times; all of fewer than eight."""
    values = np.asarray(times, dtype=float)
    if len(values) < 8:
        return np.arange(len(values))
    tenth, share = np.quantile(values, (0.1, LEAST_SHARE))
    return np.flatnonzero(values <= max((1 + OFF) * tenth, share))


def undisturbed_mean(times: Sequence[float]) -> float:
    """Mean of the times that are kept, in their unit."""
    return float(np.asarray(times, dtype=float)[undisturbed(times)].mean())
