"""Which measured models do not fit the others, where the others tell, and whether the law does not fit the models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from edgewise.errors import as_flag
from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.predicting.base import Point, Predictor
from edgewise.predicting.calibration import rank_correlation
from edgewise.predicting.choice import OF_OTHERS, Choice, Mean, try_law
from edgewise.predicting.points import FEWEST_TO_TELL, MEASURES
from edgewise.text import enumerate_few
from edgewise.units import significant

FAR_OUT, TIMES_USUAL = 1.5, 2.5
"""Models don't fit together where each law is wrong about one by more than the factor `FAR_OUT` when it is left out. A
model is an outlier where the largest logarithmic error of the others is `TIMES_USUAL` times less without it."""
MOST_TRIED = 8
"""The models that the chosen law is most wrong about: without any other, these still don't fit."""
SLIPS = (10.0, 0.1, 1000.0, 0.001)
"""What a value is divided by to undo a wrong digit or unit."""
LIKE_A_SLIP = 5.0
"""A factor from which a wrong digit or unit is likelier than a model that the law says little about. Two models are
named only where both are so far out: on pairs of ncnn's devices, of 6 models, this finds two values that are wrong by a
factor of 10 in 59 % of tables, blames others in 2 %, and blames two of 6 right ones in 2 %."""

FEWEST_FOR_TREND, LIKE_A_TREND = 5, 0.9
"""Errors grow or shrink with the size of the models from this rank correlation on: of 5 models, 1 in 12 by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """That a model, or two, do not fit the others.

    Attributes:
        candidates: names of the models that don't fit; of the models any of which may be the one, where `expected` is
            empty.
        expected: of each candidate, what the others' law predicts.
        others_off: mean relative error of the others, each predicted without itself and without the candidates.
        repaired: the one candidate whose value would fit, divided by one of `SLIPS`: its name and the divisor.
        repaired_off: mean relative error of left-out models by the chosen law with that value.
    """

    candidates: tuple[str, ...]
    expected: tuple[float, ...] = ()
    others_off: float = math.nan
    repaired: tuple[str, float] | None = None
    repaired_off: float = math.nan


def find_misfit(choice: Choice) -> Misfit | None:
    """Return the models that do not fit the others, or those that may be the one; None where all fit or none can be
    told.
    """
    off = [abs(math.log(each / point.value)) for each, point in zip(choice.chosen.left_out, choice.points, strict=True)]
    tried = sorted((at for at, error in enumerate(off) if not math.isnan(error)), key=lambda at: -off[at])
    points = [choice.points[at] for at in tried]
    laws = _cheap_laws(choice, points)
    worst = _least_worst(laws, points)[0]
    if worst < math.log(FAR_OUT):
        return None
    most = worst / TIMES_USUAL
    first = range(min(len(points), MOST_TRIED))
    rests = {at: _least_worst(laws, _without(points, at))[0] for at in first}
    wrong = tuple(at for at in first if rests[at] <= most)
    if wrong and len(points) < FEWEST_TO_TELL:
        wrong = tuple(range(len(points)))
    if len(wrong) > 1:
        return _one_of(choice, laws, points, wrong, most)
    least = rests[wrong[0]] if wrong else worst
    if least >= math.log(FAR_OUT) and len(points) >= FEWEST_TO_TELL + 2:  # without one, the others don't fit
        wrong = _find_two(laws, points, first, least / TIMES_USUAL) or wrong
    if not wrong:
        return None
    rest = _without(points, *wrong)
    _, law, errors = _least_worst(laws, rest)
    wrong = tuple(sorted(wrong, key=tried.__getitem__))
    logs, _ = law.fit(rest).predict([points[at].subject for at in wrong])
    return Misfit(
        candidates=tuple(points[at].subject.name for at in wrong),
        expected=tuple(np.exp(logs).tolist()),
        others_off=float(np.mean(np.abs(np.expm1(errors)))),
    )


def _without(points: Sequence[Point], *left_out: int) -> list[Point]:
    return [point for at, point in enumerate(points) if at not in left_out]


def _find_two(laws: Sequence[Predictor], points: Sequence[Point], tried: Sequence[int], most: float) -> tuple[int, ...]:
    """Return the only two of `tried` without which the others are off by `most` or less, and that are far from them."""
    pairs = [two for two in combinations(tried, 2) if _least_worst(laws, _without(points, *two))[0] <= most]
    if len(pairs) != 1:
        return ()
    rest = _without(points, *pairs[0])
    logs, _ = _least_worst(laws, rest)[1].fit(rest).predict([points[at].subject for at in pairs[0]])
    off = [abs(float(log) - math.log(points[at].value)) for log, at in zip(logs, pairs[0], strict=True)]
    return pairs[0] if min(off) >= math.log(LIKE_A_SLIP) else ()


def _one_of(
    choice: Choice, laws: Sequence[Predictor], points: Sequence[Point], found: Sequence[int], most: float
) -> Misfit:
    """Return that one of the points at `found` is wrong; with the only one that a usual slip would explain.

    Args:
        most: the largest logarithmic error of points that fit.
    """
    names = {points[at].subject.name for at in found}
    this = Misfit(candidates=tuple(point.subject.name for point in choice.points if point.subject.name in names))
    repairs = []
    for at in found:
        for by in SLIPS:
            changed = replace(points[at], value=points[at].value / by)
            whole = [changed, *_without(points, at)]
            # Of three models, a law with a constant explains a wrong slip, too.
            if all(_least_worst([law], whole)[0] <= min(most, math.log(FAR_OUT)) for law in laws):
                repairs.append((changed, by))
    if len(repairs) != 1:
        return this
    ((changed, by),) = repairs
    name = changed.subject.name
    whole = [changed if point.subject.name == name else point for point in choice.points]
    error = try_law(choice.chosen.predictor, whole).mean_error([point.value for point in whole])
    if error >= choice.chosen.mean_error([point.value for point in choice.points]):
        return this
    return replace(this, repaired=(name, by), repaired_off=error)


def describe_misfit(choice: Choice, metric: str) -> str:
    """Return the models whose `metric` does not fit the others, with the factors, as a sentence; "" where none can
    be told.
    """
    found = find_misfit(choice)
    if found is None:
        return ""
    label, show = METRICS[metric].label, partial(quantity, unit=METRICS[metric].unit)
    which = enumerate_few(found.candidates)
    if not found.expected:
        words = f"{label} of one of {which} does not fit the others, and the calibration uses all; these models"
        if found.repaired is None:
            return f"{words} don't tell which: check their values."
        name, by = found.repaired
        how = f"divided by {by:.0f}" if by > 1 else f"multiplied by {1 / by:.0f}"
        before = choice.chosen.mean_error([point.value for point in choice.points])
        return (
            f"{words} don't tell which, but only {name} would fit if its value were {how}: the law would be off by "
            f"{100 * found.repaired_off:.1f} % on average where a model is left out, not {100 * before:.1f} %."
        )
    measured = {point.subject.name: point.value for point in choice.points}
    told, like = [], True
    for name, value in zip(found.candidates, found.expected, strict=True):
        factor = measured[name] / value
        times = f"{significant(factor)} times as much" if factor > 1 else f"1/{significant(1 / factor)} of it"
        who = f"{name} " if len(found.candidates) > 1 else ""
        told.append(f"{who}measured {show(measured[name])}, the others let expect {show(value)}: {times}")
        like = like and max(factor, 1 / factor) >= LIKE_A_SLIP
    ask = "a wrong unit or a typing error?" if like else "check its values"
    does, it = ("do", "them") if len(told) > 1 else ("does", "it")
    return (
        f"{label} of {which} {does} not fit the others ({'; '.join(told)}; {ask}). The calibration uses {it} all the "
        f"same; without {it}, the others are off by {100 * found.others_off:.1f} % on average."
    )


def describe_trend(choice: Choice, metric: str) -> str:
    """State that the chosen law's errors go with the size of the models, where another law is closer, as a sentence.

    "" where they do not, where no law that knows all models is clearly closer, or with too few models.
    """
    other = choice.closer(fewest=len(choice.points))
    sizes = [[measure(point.subject) for point in choice.points] for measure in MEASURES.values()]
    known = next((each for each in sizes if all(each)), None)
    if other is None or known is None or len(known) < FEWEST_FOR_TREND or np.isnan(choice.chosen.left_out).any():
        return ""
    values = [point.value for point in choice.points]
    trend = rank_correlation(choice.chosen.left_out / values, known) or 0.0
    if round(abs(trend), 9) < LIKE_A_TREND:
        return ""
    small, large = ("low", "high") if trend > 0 else ("high", "low")
    one, law = choice.chosen, other.predictor.name
    return (
        f"{METRICS[metric].label} by {one.predictor.name} is too {small} for small models and too {large} for large "
        f"ones here (off by {100 * one.mean_error(values):.1f} % on average): {as_flag('method', law)} gives "
        f"{100 * other.mean_error(values):.1f} %."
    )


def _cheap_laws(choice: Choice, points: Sequence[Point]) -> list[Predictor]:
    """Return the laws that know all of `points`, without those that know other devices; the chosen one where there
    is none.
    """
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
    """Return the law whose largest error is the least: that error, the law, and all its logarithmic errors.

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
