"""Which measured model does not fit the others, where the others tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgewise.predicting.base import Point, Predictor
from edgewise.predicting.choice import OF_OTHERS, Choice, Mean
from edgewise.predicting.points import FEWEST_TO_TELL

FAR_OUT, TIMES_USUAL = 1.5, 2.5
"""Models don't fit together where each law is wrong about one by more than the factor `FAR_OUT` when it is left out. A
model is an outlier where the largest logarithmic error of the others is `TIMES_USUAL` times less without it."""
MOST_TRIED = 8
"""The models that the chosen law is most wrong about: without any other, these still don't fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """That a model does not fit the others.

    Attributes:
        candidates: names of the models any of which may be the one.
        off: of a single candidate, by how much the others' prediction is off, relative.
        others_off: mean relative error of the others, each predicted without itself and without the candidate.
    """

    candidates: tuple[str, ...]
    off: float = math.nan
    others_off: float = math.nan


def find_misfit(choice: Choice) -> Misfit | None:
    """The model that does not fit the others, or the models that may be it; None where all fit or none can be told."""
    off = [abs(math.log(each / point.value)) for each, point in zip(choice.chosen.left_out, choice.points, strict=True)]
    tried = sorted((at for at, error in enumerate(off) if not math.isnan(error)), key=lambda at: -off[at])
    points = [choice.points[at] for at in tried]
    laws = _cheap_laws(choice, points)
    worst = _least_worst(laws, points)[0]
    if worst < math.log(FAR_OUT):
        return None
    without = [[*points[:at], *points[at + 1 :]] for at in range(min(len(points), MOST_TRIED))]
    found = [at for at, rest in enumerate(without) if TIMES_USUAL * _least_worst(laws, rest)[0] <= worst]
    if found and len(points) < FEWEST_TO_TELL:
        found = list(range(len(points)))
    if not found:
        return None
    names = {points[at].subject.name for at in found}
    candidates = tuple(point.subject.name for point in choice.points if point.subject.name in names)
    if len(candidates) > 1:
        return Misfit(candidates=candidates)
    (at,) = found
    _, law, errors = _least_worst(laws, without[at])
    log = float(law.fit(without[at]).predict([points[at].subject])[0][0])
    return Misfit(
        candidates=candidates,
        off=math.exp(log) / points[at].value - 1,
        others_off=float(np.mean(np.abs(np.expm1(errors)))),
    )


def _cheap_laws(choice: Choice, points: Sequence[Point]) -> list[Predictor]:
    """The laws that know all of `points`, without those that know other devices; the chosen one where there is none."""
    laws = [
        trial.predictor
        for trial in choice.trials
        if trial.fitted is not None
        and not isinstance(trial.predictor, Mean)
        and trial.predictor.name not in OF_OTHERS
        and not any(trial.lacking(point.subject) for point in points)
    ]
    return laws or [choice.chosen.predictor]


def _least_worst(laws: Sequence[Predictor], points: Sequence[Point]) -> tuple[float, Predictor, list[float]]:
    """The law whose largest error is the least: that error, the law, and all its logarithmic errors.

    Each point is predicted by the law as fitted to the others.
    """
    found = []
    for law in laws:
        rests = ([*points[:at], *points[at + 1 :]] for at in range(len(points)))
        with np.errstate(divide="ignore", invalid="ignore"):  # a law that predicts nothing above 0 is infinitely wrong
            errors = [
                float(law.fit(rest).predict([point.subject])[0][0]) - math.log(point.value)
                for point, rest in zip(points, rests, strict=True)
            ]
        found.append((float(np.max(np.nan_to_num(np.abs(errors), nan=math.inf))), law, errors))
    return min(found, key=lambda each: each[0])
