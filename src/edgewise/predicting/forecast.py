"""Predictions for models on a calibrated device: values with intervals, refusals with reasons, and their order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np

from edgewise.errors import as_flag
from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.model.graph import BITS
from edgewise.model.precision import arithmetic
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import Calibration
from edgewise.predicting.choice import COVERAGE, Choice, Prediction, Trial
from edgewise.predicting.features import TERMS
from edgewise.predicting.points import MEASURES
from edgewise.shown import Shown
from edgewise.stats.distributions import t_tail
from edgewise.text import listing
from edgewise.units import significant

SCHEMA = 1
LEAST_BEYOND = 1.05
"""A model more than this many times larger or smaller than all measured ones gets a caution."""
MOST_BEYOND = 10.0
"""A model more than this many times larger or smaller than all measured ones is refused."""
UNSEEN_SHARE, SEEN_SHARE = 0.3, 0.05
"""Operators of a kind with more than the first share of a model must have more than the second of a measured one."""
NEAREST = 2
OTHER_LAWS = 3
"""Where so many of the next best laws are all below, or all above, an interval, it has a caution."""
UNLIKE = math.log(2.0)
"""Standard deviation of the logarithm, with --anyway, for another number format of as many bits, and for operators of
an unseen kind. For a format of other bits it is the logarithm of their ratio: arithmetic is at best that much faster.
Both are set by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One metric of one model on the device.

    Attributes:
        law, equation: that gave `prediction`.
        spread: standard deviation of the logarithm.
        nearest: names of the measured models that are most like this one.
        cautions: sentences about what widens the doubt.
        doubt: why it would be refused without --anyway; "" where it would not.
        refused: why there is no prediction; None where there is one.
        advice: what to do about `refused`.
        on_target: probability of meeting the target, where one was given.
        measured: what the device takes for this model, where the calibration holds that.
    """

    subject: Subject
    metric: str
    prediction: Prediction | None = None
    law: str = ""
    equation: str = ""
    spread: float = math.nan
    nearest: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    doubt: str = ""
    refused: str | None = None
    advice: str = ""
    on_target: float | None = None
    measured: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forecasts(Shown):
    """The answer to a request: forecasts by metric, in the order of the models.

    Attributes:
        targets: metric → largest value wanted.
        cautions: sentences about what is known of the models.
        doubts: those of `cautions` that say that values look wrong, or are not used.
    """

    calibration: Calibration
    rows: tuple[Forecast, ...]
    targets: Mapping[str, float] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """In the order of the calibration."""
        return tuple(self.calibration.points)

    def of(self, metric: str) -> list[Forecast]:
        """Return the forecasts of `metric`, smallest value first, refused ones last."""
        rows = [row for row in self.rows if row.metric == metric]
        return sorted(rows, key=lambda row: row.prediction.value if row.prediction else math.inf)

    def alike(self, metric: str) -> list[tuple[Forecast, Forecast]]:
        """Neighbours in the order of `metric` of which it is not known which is less: below 90 % either way."""
        ranked = [row for row in self.of(metric) if row.prediction]
        freedom = self._freedom(metric)
        return [(one, other) for one, other in pairwise(ranked) if probability_below(one, other, freedom) < COVERAGE]

    def _freedom(self, metric: str) -> float:
        return self.calibration.choices[metric].freedom

    def to_document(self) -> dict[str, Any]:
        """Return what ``edgewise estimate --json`` prints for a calibrated device: rows as in
        `Estimate.to_document`.
        """
        rows = [_document(row) for row in self.rows]
        refused = [f"{row.subject.name}: {row.refused}" for row in self.rows if row.refused]
        return {
            "schema": SCHEMA,
            "device": {"name": self.calibration.name, "estimator": "calibration"},
            "calibration": self.calibration.to_document(),
            "estimates": rows,
            "refused": "; ".join(refused) if len(refused) == len(rows) else None,
            "cautions": list(self.cautions),
            # The name of "estimates" here until 0.1.0; it goes with the release after it.
            "models": rows,
            "undecided": {
                metric: [[one.subject.name, other.subject.name] for one, other in self.alike(metric)]
                for metric in self.metrics
            },
        }


def _document(row: Forecast) -> dict[str, Any]:
    found = row.prediction
    return {
        "model": row.subject.name,
        "metric": row.metric,
        "unit": METRICS[row.metric].unit,
        "basis": "estimated" if found else None,
        "method": f"{row.law}: {row.equation}" if found else None,
        "value": found and found.value,
        "low": found and found.low,
        "high": found and found.high,
        "coverage": COVERAGE if found else None,
        "absent_because": row.refused,
        "nearest": list(row.nearest),
        "cautions": list(row.cautions),
        "refused": row.refused,
        "on_target": row.on_target,
        "measured": row.measured,
    }


def probability_below(one: Forecast, other: Forecast, freedom: float) -> float:
    """Return the probability that `one` is less than `other`, both predicted; their errors around the law are
    independent.
    """
    if one.prediction is None or other.prediction is None:
        raise ValueError("both must be predicted")
    apart = math.log(other.prediction.value / one.prediction.value)
    return _share_below(apart / math.hypot(one.spread, other.spread), freedom)


def _share_below(t: float, freedom: float) -> float:
    """Return the probability that Student's t is less than `t`."""
    return 1 - t_tail(t, freedom) if t >= 0 else t_tail(-t, freedom)


MOST_SPAN = 1000.0
"""Quotient of the ends of an interval above which it says nothing, and is not printed."""
WIDENING = f"{as_flag('anyway')} predicts it with a wider interval"


def forecast(
    calibration: Calibration,
    subjects: Sequence[Subject],
    *,
    targets: Mapping[str, float] | None = None,
    anyway: bool = False,
) -> Forecasts:
    """Predict all metrics of `calibration` for `subjects`.

    Args:
        targets: metric → largest value wanted, in SI.
        anyway: whether a model of which the points say little gets a wider interval instead of a refusal.
    """
    rows = [
        replace(
            _forecast(subject, metric, choice, (targets or {}).get(metric), anyway=anyway),
            measured=measured_value(subject, choice.points),
        )
        for subject in subjects
        for metric, choice in calibration.choices.items()
    ]
    return Forecasts(calibration=calibration, rows=tuple(rows), targets=targets or {})


def _next_laws(subject: Subject, choice: Choice, best: Trial) -> list[Trial]:
    """Return the other laws that know `subject`, in the order of the choice."""
    known = [each for each in choice.trials if each.fitted is not None and not each.lacking(subject)]
    return [each for each in known if each is not best]


def _forecast(subject: Subject, metric: str, choice: Choice, target: float | None, *, anyway: bool) -> Forecast:
    unlike, doubt = _unlike(subject, choice.points, metric)
    if unlike and not anyway:
        return Forecast(subject=subject, metric=metric, refused=unlike, advice=WIDENING)
    trial = choice.usable_for(subject)
    if trial is None or trial.fitted is None:
        lacks = "; ".join(dict.fromkeys(trial.lacking(subject) for trial in choice.trials if trial.fitted is not None))
        return Forecast(subject=subject, metric=metric, refused=f"no law applies: {lacks}")
    best = trial
    for trial in (best, *_next_laws(subject, choice, best)):
        apart = math.hypot(doubt, _host_error(subject, trial)) / trial.error
        further = _beyond(subject, choice.points) ** 2 + apart**2
        (prediction,), (spread,) = choice.predict_by(trial, [subject], further=further)
        if prediction.high <= MOST_SPAN * prediction.low:
            break
    else:
        return Forecast(
            subject=subject,
            metric=metric,
            refused=f"its 90% interval spans more than a factor of {MOST_SPAN:,.0f}: that predicts nothing",
            advice="correct a measured value that does not fit the others, or measure more models like this one",
        )
    assert trial.fitted is not None
    on_target = None
    if target is not None:
        on_target = _share_below(math.log(target / prediction.value) / spread, trial.freedom)
    cautions = [f"Predicted by {as_flag('anyway')}, with a wider interval: {unlike}."] if unlike else []
    if trial is not best:
        cautions.append(
            f"The better law {best.predictor.name} predicts nothing for a model so unlike the measured ones; "
            f"{trial.predictor.name} does."
        )
    if _host_error(subject, trial):
        cautions.append("Its run on this machine has grade D: the interval is wider for that.")
    if trial is best and trial is not choice.chosen:
        lack = choice.chosen.lacking(subject)
        cautions.append(f"The better law {choice.chosen.predictor.name} can't be used: {lack}.")
    if others := _others_beside(subject, metric, choice, trial, prediction):
        cautions.append(others)
    if not unlike and _beyond(subject, choice.points) > math.log(LEAST_BEYOND):
        words = _words_beyond(subject, choice.points, metric)
        cautions.append(f"{words[0].upper()}{words[1:]}.")
    return Forecast(
        subject=subject,
        metric=metric,
        prediction=prediction,
        law=trial.predictor.name,
        equation=trial.fitted.equation,
        spread=spread,
        nearest=nearest(subject, choice.points),
        cautions=tuple(cautions),
        doubt=unlike,
        on_target=on_target,
    )


def _host_error(subject: Subject, trial: Trial) -> float:
    """Return the standard deviation that the value of this machine adds to a prediction; 0 by a law without it.

    Those of the points are part of the law's error: they add to what it is off by for left-out models.
    """
    if not subject.host_error or trial.fitted is None:
        return 0.0
    without = replace(subject, host=None, host_error=0.0)
    if not trial.lacking(without) and trial.fitted.predict([without])[0] == trial.fitted.predict([subject])[0]:
        return 0.0
    return subject.host_error


def _others_beside(subject: Subject, metric: str, choice: Choice, trial: Trial, prediction: Prediction) -> str:
    """State that the `OTHER_LAWS` next best laws are all on one side of the interval, as a sentence; else ""."""
    others = [one for one in choice.ranked if one is not trial and one.fitted is not None and not one.lacking(subject)]
    values = {one.predictor.name: choice.predict_by(one, [subject])[0][0].value for one in others[:OTHER_LAWS]}
    if len(values) < OTHER_LAWS:
        return ""
    least, most = min(values.values()), max(values.values())
    if most >= prediction.low and least <= prediction.high:
        return ""
    told = listing([f"{quantity(value, METRICS[metric].unit)} ({name})" for name, value in values.items()])
    return f"The next best laws disagree, outside of the interval: {told}. Measure a model like this one."


def measured_value(subject: Subject, points: Sequence[Point]) -> float | None:
    """Return the value of the point that is `subject`; None where there is none, or where it is not certain which.

    A table may name a file by its path, so that file names count; the operators must be the same in any case.
    """
    point = _measured_point(subject, points)
    return None if point is None else point.value


def _measured_point(subject: Subject, points: Sequence[Point]) -> Point | None:
    """As `measured_value`, with what is known of the model."""
    same = [
        point
        for point in points
        if PurePath(point.subject.name).name == PurePath(subject.name).name
        and point.subject.profile == subject.profile
        and arithmetic(point.subject.precision) == arithmetic(subject.precision)
    ]
    same = [point for point in same if point.subject.name == subject.name] or same
    return same[0] if len(same) == 1 else None


def refusal(subject: Subject, points: Sequence[Point], metric: str = "latency") -> str:
    """Why the points say nothing about a `metric` of `subject`; "" where they do."""
    return _unlike(subject, points, metric)[0]


def _unlike(subject: Subject, points: Sequence[Point], metric: str) -> tuple[str, float]:
    """Why the points say nothing about `subject`, and the standard deviation of the logarithm that stands for it.

    That of the size is not part of it: `_beyond` widens every interval by it.
    """
    found: list[tuple[str, float]] = []
    precisions, own = {arithmetic(point.subject.precision) for point in points}, arithmetic(subject.precision)
    if own and "" not in precisions and own not in precisions:
        known = sorted({word for each in precisions for word in each.split(", ")})
        words = f"its precision is {own}, and the measured models have {', '.join(known)}"
        found.append((words, max(UNLIKE, min(_bits_apart(own, each) for each in precisions))))
    profiles = [point.subject.profile for point in points if point.subject.profile is not None]
    if subject.profile is not None and len(profiles) == len(points):
        seen = np.max([profile.shares for profile in profiles], axis=0)
        for term, share, most in zip(TERMS, subject.profile.shares, seen, strict=True):
            if share > UNSEEN_SHARE and most < SEEN_SHARE:
                words = (
                    f"{KINDS[term]} are {share:.0%} of its work, and at most {most:.0%} of that of a measured model: "
                    "measure one that has more of them"
                )
                found.append((words, UNLIKE * float(share)))
    if _beyond(subject, points) > math.log(MOST_BEYOND):
        found.append((f"{_words_beyond(subject, points, metric)}: {_advice_beyond(subject, points, metric)}", 0.0))
    return "; ".join(words for words, _ in found), math.hypot(*(doubt for _, doubt in found))


def _bits_apart(one: str, other: str) -> float:
    """Return the logarithm of the ratio of the bits of the first number formats of two precisions; of 32 and 8 if
    unknown.
    """
    first, second = (BITS.get(word.split(", ")[0].split(" ")[0]) for word in (one, other))
    return math.log(4.0) if first is None or second is None else abs(math.log(first / second))


KINDS = dict(
    zip(
        TERMS,
        (
            "1×1 convolutions", "larger convolutions", "depthwise convolutions", "matrix products",
            "operators without multiplications", "calls of operators",
        ),
        strict=True,
    )
)  # fmt: skip
"""Term of a profile → what a person calls it."""


def _sizes(subject: Subject, points: Sequence[Point]) -> tuple[float, list[float]]:
    """Return the size of `subject` and of the points by the first measure that all of them have; no points where
    none is.
    """
    for measure in MEASURES.values():
        own, others = measure(subject), [measure(point.subject) or 0.0 for point in points]
        if own and all(others):
            return own, others
    return 1.0, []


def _beyond(subject: Subject, points: Sequence[Point]) -> float:
    """Return the logarithm of the factor by which `subject` is larger or smaller than all points; 0 between them."""
    own, others = _sizes(subject, points)
    return max(0.0, math.log(own / max(others)), math.log(min(others) / own)) if others else 0.0


def _words_beyond(subject: Subject, points: Sequence[Point], metric: str) -> str:
    """By what `subject` is beyond all points, and how far."""
    own, others = _sizes(subject, points)
    is_larger = own > max(others)
    end = max(others) if is_larger else min(others)
    times = f"{significant(own / end)} times" if is_larger else f"1/{significant(end / own)} of"
    name = next(point.subject.name for point, size in zip(points, others, strict=True) if size == end)
    if not _by_host(subject, points):
        return (
            f"its operations are {times} those of the {'largest' if is_larger else 'smallest'} measured model, {name}"
        )
    label, show = METRICS[metric].label.lower(), partial(quantity, unit=METRICS[metric].unit)
    which = "most" if is_larger else "least"
    return (
        f"its {label} on this machine, {show(own)}, is {times} the {which} of the measured models ({name}, {show(end)})"
    )


def _advice_beyond(subject: Subject, points: Sequence[Point], metric: str) -> str:
    """Return what to do about a model beyond all points. Of a point itself, its value here is wrong or was."""
    point = _measured_point(subject, points)
    if point is not None and point.subject.host is not None and _by_host(subject, points):
        here = quantity(point.subject.host, METRICS[metric].unit)
        return f"it was measured itself, and the calibration has {here} for it on this machine: one of both is wrong"
    if _by_host(subject, points):
        return (
            f"check that value, and the unit of the column host_{metric}_… in the table of the measured models, or "
            f"measure a model with about this {METRICS[metric].label.lower()} here"
        )
    return "measure one with about as many"


def _by_host(subject: Subject, points: Sequence[Point]) -> bool:
    """Whether `_sizes` are values on this machine."""
    return bool(subject.host) and all(point.subject.host for point in points)


def nearest(subject: Subject, points: Sequence[Point]) -> tuple[str, ...]:
    """Return the names of the points most like `subject` in size and in the shares of its operators."""
    own, others = _sizes(subject, points)
    if not others:
        return ()

    def distance(at: int) -> float:
        apart, profile = abs(math.log(own / others[at])), points[at].subject.profile
        if subject.profile is not None and profile is not None:
            apart += float(np.abs(subject.profile.shares - profile.shares).sum())
        return apart

    return tuple(points[at].subject.name for at in sorted(range(len(points)), key=distance)[:NEAREST])
