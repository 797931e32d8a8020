"""Repeated times of parts without what other work added to them; the parts still add up to their wholes.

An interruption meets one part of one repetition and takes as long as the other program has the processor. So a part
that is far from what it usually takes counts as that, and of the repetitions the longest are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

USUAL = 0.25
"""The quantile of repeated times that stands for undisturbed ones: other work may meet most of them."""
OFF, SLACK_NS = 0.25, 20_000.0
"""A part was interrupted where it is off what it usually takes by more than this share of it and this time together;
one that is a difference of readings may be too short, too."""
LEAST_SHARE = 0.25
"""At least this share of the repetitions is kept, the shortest, and all up to `OFF` above the shortest tenth."""


def without_interruptions(parts: Times, *, steps: int) -> tuple[Times, Times]:
    """`parts` (parts × repetitions, ns) of which those that were interrupted have what they usually take instead.

    What a part usually takes is its lower quartile, times how slow the first `steps` of the repetition were together:
    where the machine is slower for a while, all parts are. The second answer is that slowness, of each repetition.
    """
    usually = np.quantile(parts, USUAL, axis=1, keepdims=True)
    slowness = _slowness(parts[:steps], np.maximum(usually[:steps], 0.0)) if steps else np.ones((1, parts.shape[1]))
    usual = usually * slowness
    return np.where(np.abs(parts - usual) > OFF * np.abs(usual) + SLACK_NS, usual, parts), slowness


def _slowness(parts: Times, usually: Times) -> Times:
    """Of each repetition, the median over its parts of their times over `usually`, weighted with it."""
    weights = np.broadcast_to(usually, parts.shape)
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


def least_disturbed(parts: Times, *, steps: int, processor: Sequence[float] = ()) -> tuple[Times, float]:
    """Return the parts (parts × repetitions) of the repetitions that are kept, without interruptions, and the usual
    whole.

    Args:
        parts: they add up to the whole times of the repetitions, ns.
        steps: how many of them, the first, are steps of an engine.
        processor: processor time of each repetition, where one thread does all of the work: the whole without
            interruptions. Where the machine has much other work, it meets every repetition, and nothing else tells
            how long one takes. Steps then are those of the usual speed.
    """
    if not len(processor):
        cut, _ = without_interruptions(parts, steps=steps)
        whole = cut.sum(axis=0)
        kept = undisturbed(whole)
        return cut[:, kept], float(whole[kept].mean())
    spent = np.maximum(np.asarray(processor, dtype=float), 1.0)
    cut, slowness = without_interruptions(parts[:, undisturbed(parts.sum(axis=0) / spent)], steps=steps)
    return cut / np.where(slowness > 0.0, slowness, 1.0), float(np.quantile(spent, USUAL))


def usual_times(parts: Times, *, steps: int, processor: Sequence[float] = ()) -> tuple[Times, float]:
    """Return the mean of each part, and of the whole; as `least_disturbed`."""
    kept, whole = least_disturbed(parts, steps=steps, processor=processor)
    return kept.mean(axis=1), whole


def undisturbed_mean(times: Sequence[float]) -> float:
    """Mean of the times that are kept, in their unit."""
    return float(np.asarray(times, dtype=float)[undisturbed(times)].mean())
