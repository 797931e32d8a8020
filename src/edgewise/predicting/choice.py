"""Chooses the law of a device by leaving out its points one by one, and gives predictions with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgewise.errors import BadInput
from edgewise.predicting.base import Fitted, Floats, Point, Predictor, Subject, predictors
from edgewise.stats.distributions import t_quantile
from edgewise.text import listing

COVERAGE = 0.90
FEWEST_POINTS = 3
FEWEST_FAMILIES = 3
"""With fewer, models that are to be predicted are mostly of a measured family."""
PRIOR_POINTS = 0.25
"""How many points the errors on public measurements count for, beside the errors on the points of the device: set so
that 90 % intervals hold on public data with 3, 5 and 10 points (``benchmarks/prediction.py``)."""
CHOICE_POINTS = 6.0
"""The same where laws are compared: with few points, the law that fits them best is often not the best one."""
MOST_FREEDOM = 8
"""Degrees of freedom of an error are the number of points, and never more: errors of models have heavier tails than a
normal distribution, however many are known."""
MOST_FREEDOM_OF_MEAN = 5
"""The same of a mean of laws: the points that give its error also chose the laws and their weights."""
MOST_REFITTED = 30
"""Points up to which the error of a law is found anew without each of them; of more, one hardly changes it."""
OF_OTHERS = ("catalogue", "fleet")
"""Laws that know other devices."""
PARTNERS = ("line", "host+operators")
"""The laws of this machine's value that are averaged with them: their errors are least alike."""
TRUST = {"catalogue": 5.0}
"""By which the variance of a law is divided where laws are compared; 1 where there is none. With few points, it is
mostly chance when another law is better than what the same models take on other devices. 5 was chosen on ncnn's boards,
AI Hub's devices and the known devices of HELP (``docs/benchmarks.md``)."""
CLEARLY_MORE, CLEARLY_APART = 1.25, 0.02
"""Mean errors of laws whose ratio, or whose difference, is below are about equal."""
LEAST_WEIGHT = 0.1
"""Below, a law is not averaged with the better ones."""
MOST_VARIANCE = 2.0
"""Variance of the mean relative to the least one of a law, above which the mean is not taken."""
WIDEST = 50.0
"""Of an interval, to each side, as a logarithm: an interval as wide as this says that nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A law on the points of a device.

    Attributes:
        fitted: None where it can't be used.
        number: of points that the law was fitted to; of the others it lacks something.
        error: relative standard deviation of single models around the law, with its prior error.
        left_out: per point of the device, its predicted value where the law was fitted without it; NaN where it has
            none.
        because: why it can't be used; "" where it can.
    """

    predictor: Predictor
    fitted: Fitted | None = None
    number: int = 0
    error: float = math.inf
    left_out: Floats
    because: str = ""

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `error`."""
        return freedom_of(self.predictor, self.number)

    @property
    def expected_error(self) -> float:
        """Relative error that is expected of a model that was not measured: the law with the least one is chosen."""
        return math.sqrt(_doubt(self))

    def mean_error(self, values: Sequence[float]) -> float:
        """Return the mean relative error of left-out points, whose values are these; infinite where it can't be
        used.
        """
        off = [abs(found / value - 1) for found, value in zip(self.left_out, values, strict=True)]
        off = [each for each in off if not math.isnan(each)]
        return sum(off) / len(off) if off and self.fitted is not None else math.inf

    def lacking(self, subject: Subject) -> str:
        """Return what the law, or its fit to these points, needs of `subject` and is not known; "" where nothing is."""
        return self.predictor.lacking(subject) or (self.fitted.lacking(subject) if self.fitted else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Of one model: value and interval in the unit of the points; 0 < low ≤ value ≤ high."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The law of a device, and those that were tried beside it.

    Attributes:
        trials: all laws, the chosen one first.
    """

    points: tuple[Point, ...]
    trials: tuple[Trial, ...]

    @property
    def chosen(self) -> Trial:
        """The law that predicts."""
        return self.trials[0]

    @property
    def ranked(self) -> tuple[Trial, ...]:
        """The chosen law, then the others by `Trial.mean_error`."""
        values = [point.value for point in self.points]
        return (self.chosen, *sorted(self.trials[1:], key=lambda trial: trial.mean_error(values)))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the error of the chosen law."""
        return self.chosen.freedom

    def closer(self, *, fewest: int = 1) -> Trial | None:
        """Return the law with the least mean error on the points; None where the chosen one's is about equal.

        Args:
            fewest: number of points that the law must know.
        """
        values = [point.value for point in self.points]
        known = [trial for trial in self.trials if trial.number >= fewest]
        least = min(known, key=lambda trial: trial.mean_error(values), default=self.chosen)
        error = least.mean_error(values)
        is_equal = self.chosen.mean_error(values) < max(CLEARLY_MORE * error, error + CLEARLY_APART)
        return None if is_equal else least

    def usable_for(self, subject: Subject) -> Trial | None:
        """Return the best law of which `subject` lacks nothing; None where there is none."""
        usable = (trial for trial in self.trials if trial.fitted is not None and not trial.lacking(subject))
        return next(usable, None)

    def predict(self, subjects: Sequence[Subject], *, coverage: float = COVERAGE) -> list[Prediction]:
        """Return the values of models with intervals of this coverage.

        Raises `BadInput` for a model of which the chosen law lacks something.
        """
        for subject in subjects:
            if lack := self.chosen.lacking(subject):
                raise BadInput(f"{self.chosen.predictor.name} can't predict {subject.name}: {lack}")
        return self.predict_by(self.chosen, subjects, coverage=coverage)[0]

    def predict_by(
        self, trial: Trial, subjects: Sequence[Subject], *, further: float = 0.0, coverage: float = COVERAGE
    ) -> tuple[list[Prediction], list[float]]:
        """Return the same by the law of `trial`, and the standard deviations of the logarithms.

        Args:
            further: variance relative to that of a single model around the law, for what is beyond the points.
        """
        if trial.fitted is None:
            raise ValueError("the law could not be fitted")
        logs, spread = trial.fitted.predict(subjects)
        spreads: list[float] = (trial.error * np.sqrt(1.0 + spread + further)).tolist()
        found = [_around(log, each, trial.freedom, coverage) for log, each in zip(logs.tolist(), spreads, strict=True)]
        return found, spreads


def freedom_of(law: Predictor, number: int) -> float:
    """Degrees of freedom of the error of `law` where it was fitted to `number` points."""
    return float(min(number, MOST_FREEDOM_OF_MEAN if isinstance(law, Mean) else MOST_FREEDOM))


def _around(log: float, spread: float, freedom: float, coverage: float) -> Prediction:
    """Return the value with the logarithm `log` and its interval."""
    width = min(t_quantile(0.5 + coverage / 2, freedom) * spread, WIDEST)
    return Prediction(value=math.exp(log), low=math.exp(log - width), high=math.exp(log + width))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A point as predicted by a law that was fitted, and whose error was found, without it.

    Attributes:
        log: natural logarithm of the predicted value.
        spread: standard deviation of the logarithm.
        freedom: degrees of freedom of `spread`.
    """

    point: Point
    log: float
    spread: float
    freedom: float

    def prediction(self, coverage: float = COVERAGE) -> Prediction:
        """Return the predicted value with its interval."""
        return _around(self.log, self.spread, self.freedom, coverage)

    def inside(self, coverage: float) -> bool:
        """Whether the interval holds the measured value."""
        found = self.prediction(coverage)
        return found.low <= self.point.value <= found.high


def leave_out(trial: Trial, points: Sequence[Point]) -> list[LeftOut]:
    """Each point as predicted by the law of `trial` without it, but for those of which the law lacks something.

    Of more than `MOST_REFITTED` points, the law is fitted without the point, and its error is that of all points.
    """
    points = [point for point in points if trial.fitted is not None and not trial.lacking(point.subject)]
    found: list[LeftOut] = []
    for at, point in enumerate(points):
        rest = without_kin(points, at)
        without = try_law(trial.predictor, rest) if len(points) <= MOST_REFITTED else trial
        logs, spread = trial.predictor.fit(rest).predict([point.subject])
        spreads, freedom = without.error * math.sqrt(1.0 + float(spread[0])), freedom_of(trial.predictor, len(rest))
        found.append(LeftOut(point=point, log=float(logs[0]), spread=spreads, freedom=freedom))
    return found


class Unrelated(BadInput):
    """No law can be used with the points: too little is known of the models."""


def choose(points: Sequence[Point], *, method: str | None = None) -> Choice:
    """Fit all laws to `points`, and choose the one with the least error on points that were left out.

    Args:
        method: the name of the law to take; None chooses.

    Raises:
        BadInput: fewer than `FEWEST_POINTS` points, no such law, or none that can be used with these points.
    """
    known = dict(predictors())
    if method is not None and method not in known:
        raise BadInput(f"no method {method!r}", advice=f"one of: {', '.join(known)}")
    wanted = [law for name, law in known.items() if name == method or (method is None and law.automatic)]
    return choose_among(wanted, points)


def choose_among(wanted: Sequence[Predictor], points: Sequence[Point]) -> Choice:
    """As `choose`, of the laws `wanted`, and of the mean of several of them, see `Mean`."""
    if len(points) < FEWEST_POINTS:
        raise BadInput(
            f"{len(points)} measured models are too few to predict others",
            advice=f"measure at least {FEWEST_POINTS}, better 5 to 10, of different size and kind",
        )
    trials = sorted((try_law(law, points) for law in wanted), key=_doubt)
    if (mean := _mean_of_some(trials)) is not None:
        trial = try_law(mean, points)
        if _variance(trial) < MOST_VARIANCE * min(map(_variance, trials)):
            trials.insert(0, trial)
    if not trials or trials[0].fitted is None:
        by_reason: dict[str, list[str]] = {}
        for trial in trials:
            by_reason.setdefault(trial.because, []).append(trial.predictor.name)
        reasons = "; ".join(f"{', '.join(names)}: {because}" for because, names in by_reason.items())
        raise Unrelated(f"nothing relates the models to the device ({reasons})", advice="measure them on this machine")
    return Choice(points=tuple(points), trials=tuple(trials))


@dataclass(slots=True)
class FittedMean:
    """Laws with the coefficients of one device."""

    parts: Sequence[Fitted]
    weights: Sequence[float]
    equation: str

    def predict(self, subjects: Sequence[Subject]) -> tuple[Floats, Floats]:
        """As `edgewise.predicting.base.Fitted.predict`; the uncertainty is the weighted mean of those of the laws."""
        logs, spreads = zip(*(part.predict(subjects) for part in self.parts), strict=True)
        return np.average(logs, axis=0, weights=self.weights), np.average(spreads, axis=0, weights=self.weights)

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Fitted.lacking`: of any law."""
        return next(filter(None, (part.lacking(subject) for part in self.parts)), "")


class Mean:
    """The weighted mean of the logarithms by laws that know other devices and by laws of this machine's value.

    Their errors have different causes, so that the mean is mostly better than each (Bates and Granger, The
    combination of forecasts, 1969).
    """

    automatic = False

    def __init__(self, parts: Sequence[Predictor], weights: Sequence[float]) -> None:
        self.parts = parts
        self.weights = weights
        self.name = listing([part.name for part in parts])
        self.title = f"the mean of {self._words([part.name for part in parts])}"
        self.prior_error = sum(weight * part.prior_error for weight, part in zip(weights, parts, strict=True))

    def _words(self, laws: Sequence[str]) -> str:
        return listing([f"{weight:.0%} {law}" for weight, law in zip(self.weights, laws, strict=True)])

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Predictor.lacking`: of any law."""
        return next(filter(None, (part.lacking(subject) for part in self.parts)), "")

    def fit(self, points: Sequence[Point]) -> FittedMean:
        """As `edgewise.predicting.base.Predictor.fit`."""
        fitted = [part.fit(points) for part in self.parts]
        words = self._words([f"({one.equation})" for one in fitted])
        return FittedMean(fitted, self.weights, f"geometric mean, with weights, of {words}")


def _mean_of_some(trials: Sequence[Trial]) -> Mean | None:
    """Of the laws `OF_OTHERS` and `PARTNERS`, by the inverse of their `_doubt`.

    Those with other points than the best law of other devices, or with less weight than `LEAST_WEIGHT`, take no part.
    None where fewer than two remain, or none that knows other devices.

    Args:
        trials: the best one first.
    """
    usable = [trial for trial in trials if trial.fitted is not None and trial.predictor.name in (*OF_OTHERS, *PARTNERS)]
    first = next((trial for trial in usable if trial.predictor.name in OF_OTHERS), None)
    if first is None:
        return None
    parts = [trial for trial in usable if trial.number == first.number]
    precisions = np.array([1 / _doubt(trial) for trial in parts])
    kept = int(np.sum(precisions >= LEAST_WEIGHT * precisions.sum()))
    if first not in parts[:kept] or kept < 2:
        return None
    weights = precisions[:kept] / precisions[:kept].sum()
    return Mean([trial.predictor for trial in parts[:kept]], weights.tolist())


def without_kin(points: Sequence[Point], at: int) -> list[Point]:
    """Return the points without the one at `at`, and without the others of its family where `FEWEST_FAMILIES` remain.

    Networks of one design tell more of each other than of the models that are to be predicted.
    """
    family = points[at].subject.family
    strangers = [point for point in points if point.subject.family != family]
    if family and len({point.subject.family for point in strangers}) >= FEWEST_FAMILIES:
        return strangers
    return [*points[:at], *points[at + 1 :]]


def _doubt(trial: Trial) -> float:
    """By which laws are compared: the variance, less for laws of more `TRUST`."""
    return _variance(trial) / TRUST.get(trial.predictor.name, 1.0)


def _variance(trial: Trial) -> float:
    """Return the variance around the law with `CHOICE_POINTS` of prior error instead of `PRIOR_POINTS`."""
    if trial.fitted is None:
        return math.inf
    further = (CHOICE_POINTS - PRIOR_POINTS) * trial.predictor.prior_error**2
    squares = trial.error**2 * (PRIOR_POINTS + trial.number - 1)
    return (squares + further) / (CHOICE_POINTS + trial.number - 1)


def enough_points(number: int) -> int:
    """Return of how many of `number` points a law must lack nothing: `FEWEST_POINTS`, and half of all."""
    return max(FEWEST_POINTS, math.ceil(number / 2))


def try_law(law: Predictor, points: Sequence[Point]) -> Trial:
    """`law` on `points`, with the value of each point as predicted without it.

    A point is left out together with those of its family, see `without_kin`. Points of which the law lacks something
    are not used where `enough_points` remain.
    """
    left_out = np.full(len(points), np.nan)
    known, missing = list(range(len(points))), ""
    lacking: Callable[[Subject], str] = law.lacking
    for _ in range(2):
        lacks = {at: lacking(points[at].subject) for at in known}
        missing = missing or next((f"{points[at].subject.name}: {lack}" for at, lack in lacks.items() if lack), "")
        known = [at for at, lack in lacks.items() if not lack]
        if missing and len(known) < enough_points(len(points)):
            return Trial(predictor=law, left_out=left_out, because=missing)
        used = [points[at] for at in known]
        fitted = law.fit(used)
        lacking = fitted.lacking
    squares: list[float] = []
    for place, (at, point) in enumerate(zip(known, used, strict=True)):
        logs, spread = law.fit(without_kin(used, place)).predict([point.subject])
        left_out[at] = math.exp(logs[0])
        squares.append(float(logs[0] - math.log(point.value)) ** 2 / (1.0 + float(spread[0])))
    if not np.isfinite(left_out[known]).all():
        worst = points[known[int(np.argmin(np.isfinite(left_out[known])))]].subject.name
        return Trial(predictor=law, left_out=left_out, because=f"without {worst}, it predicts nothing above 0 for it")
    error = math.sqrt((PRIOR_POINTS * law.prior_error**2 + sum(squares)) / (PRIOR_POINTS + len(used) - 1))
    return Trial(predictor=law, number=len(used), fitted=fitted, error=error, left_out=left_out)
