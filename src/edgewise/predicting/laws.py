"""The laws of one device: from the same metric on this machine, and from the operators of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgewise.predicting.base import Floats, Point, Subject
from edgewise.predicting.features import RELATIVE_COSTS, TERMS, UNITS_OF_WORK, OperatorProfile
from edgewise.units import format_si, significant

_SWEEPS = 200
_SETTLED = 1e-10


PRIOR_ERROR = 0.28
"""Of all laws but `Linear`: set so that their 90 % intervals hold on public data (``benchmarks/prediction.py``)."""


def least_squares_from_zero(matrix: Floats, target: Floats) -> Floats:
    """Return the coefficients ≥ 0 that minimise ‖matrix · x − target‖²: the free minimum, else by coordinate descent.

    Args:
        matrix: (rows, columns), of full column rank.
    """
    gram, right = matrix.T @ matrix, matrix.T @ target
    free = _inverse(gram) @ right
    if (free >= 0).all():
        return free
    found = np.zeros(len(right))
    for _ in range(_SWEEPS):
        before = found.copy()
        for at in range(len(found)):
            if gram[at, at] > 0:
                found[at] = max(0.0, found[at] + (right[at] - gram[at] @ found) / gram[at, at])
        if np.abs(found - before).max() <= _SETTLED * max(1.0, float(np.abs(found).max())):
            break
    return found


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.pinv(matrix), dtype=np.float64)


def _hosts(subjects: Sequence[Subject]) -> Floats:
    return np.array([subject.host for subject in subjects], dtype=float)


def _told(value: float, points: Sequence[Point]) -> str:
    """Return a constant of an equation in the unit of the points; a bare number where they have none."""
    unit = points[0].unit
    if unit == "B" and value < 1:
        return f"{significant(value)} B"
    return format_si(value, unit) if unit else f"{value:.4g}"


def _straight(subjects: Sequence[Subject], _: Floats) -> Floats:
    """Return the rows of a straight line: this machine's value, and 1."""
    return np.column_stack([_hosts(subjects), np.ones(len(subjects))])


def _amounts(subjects: Sequence[Subject]) -> Floats:
    return np.array([known_profile(subject).amounts for subject in subjects], dtype=float)


def known_profile(subject: Subject) -> OperatorProfile:
    """Return the profile of a subject that has one."""
    if subject.profile is None:
        raise ValueError(f"{subject.name} has no profile")
    return subject.profile


def _values(points: Sequence[Point]) -> Floats:
    return np.array([point.value for point in points], dtype=float)


def _subjects(points: Sequence[Point]) -> list[Subject]:
    return [point.subject for point in points]


def _lacks_host(subject: Subject) -> str:
    if subject.noisy and not subject.host:
        return "its runs on this machine have grade D: measure it again when the machine is quiet"
    return "" if subject.host else "it was not measured on this machine with the calibration's engine"


def lacks_profile(subject: Subject) -> str:
    """Why the operators of `subject` are not known; "" where they are."""
    if subject.profile is None:
        return "its file is not known"
    if subject.profile.unknown:
        return f"the work of an operator is not known ({subject.profile.unknown[0]})"
    return "" if subject.profile.work else "it has no operators"


@dataclass(frozen=True, slots=True)
class Law:
    """A fitted law.

    Attributes:
        rows: what the law is linear in, of subjects and, for laws with relative errors, of their predicted values.
        spread: the inverse of the matrix of normal equations.
    """

    equation: str
    values: Callable[[Sequence[Subject]], Floats]
    rows: Callable[[Sequence[Subject], Floats], Floats]
    spread: Floats

    def predict(self, subjects: Sequence[Subject]) -> tuple[Floats, Floats]:
        """As `edgewise.predicting.base.Fitted.predict`."""
        values = self.values(subjects)
        rows = self.rows(subjects, values)
        return np.log(values), np.einsum("ij,jk,ik->i", rows, self.spread, rows)

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Fitted.lacking`: the points make nothing else necessary."""
        del subject
        return ""


class _OfHost:
    """A law of this machine's value alone."""

    prior_error = PRIOR_ERROR
    automatic = True

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Predictor.lacking`."""
        return _lacks_host(subject)


class Scale(_OfHost):
    """The device takes the same multiple of this machine's value for all models."""

    name = "scale"
    title = "a multiple of this machine's value"

    def fit(self, points: Sequence[Point]) -> Law:
        """As `edgewise.predicting.base.Predictor.fit`."""
        factor = float(np.exp(np.mean(np.log(_values(points) / _hosts(_subjects(points))))))
        return Law(
            equation=f"{factor:.4g} × host",
            values=lambda subjects: factor * _hosts(subjects),
            rows=lambda subjects, _: np.ones((len(subjects), 1)),
            spread=np.array([[1 / len(points)]]),
        )


class Line(_OfHost):
    """A straight line through this machine's values, with the least relative error and no negative coefficient."""

    name = "line"
    title = "a straight line through this machine's values, fitted to relative errors"

    def fit(self, points: Sequence[Point]) -> Law:
        """As `edgewise.predicting.base.Predictor.fit`."""

        def rows(subjects: Sequence[Subject], values: Floats) -> Floats:
            return _straight(subjects, values) / values[:, None]

        values = _values(points)
        design = rows(_subjects(points), values)
        scale = float(np.mean(values / _hosts(_subjects(points))))
        # One point more of weight 1e-3, on the line through 0, where the points say nothing of the intercept.
        weak = 1e-3 * np.array([[1.0 / scale, 0.0], [0.0, 1.0 / float(values.min())]])
        slope, rest = least_squares_from_zero(
            np.vstack([design, weak]), np.concatenate([np.ones(len(values)), [1e-3, 0.0]])
        )
        return Law(
            # Of a proportional device, rounding leaves a rest.
            equation=f"{slope:.4g} × host"
            + (f" + {_told(rest, points)}" if rest > 1e-6 * _values(points).min() else ""),
            values=lambda subjects: slope * _hosts(subjects) + rest,
            rows=rows,
            spread=_inverse(design.T @ design + weak.T @ weak),
        )


class PowerLaw(_OfHost):
    """A straight line between the logarithms, whose slope is near 1 unless the points say otherwise."""

    name = "power"
    title = "a power of this machine's value"
    slope_error = 0.15
    """Standard deviation of the slope around 1 that is assumed before a point is seen."""
    least_slope = 0.25

    def fit(self, points: Sequence[Point]) -> Law:
        """As `edgewise.predicting.base.Predictor.fit`."""
        hosts = np.log(_hosts(_subjects(points)))
        middle = float(hosts.mean())
        ridge = (self.prior_error / self.slope_error) ** 2

        def rows(subjects: Sequence[Subject], _: Floats) -> Floats:
            return np.column_stack([np.ones(len(subjects)), np.log(_hosts(subjects)) - middle])

        design = rows(_subjects(points), _values(points))
        spread = _inverse(design.T @ design + np.diag([0.0, ridge]))
        offset, steeper = spread @ design.T @ (np.log(_values(points)) - hosts)
        # A model that takes longer here takes longer there: a falling law would say that of noise.
        steeper = max(steeper, self.least_slope - 1.0)
        in_unit = f" (in {points[0].unit})" if points[0].unit else ""
        factor, power = float(np.exp(offset - steeper * middle)), 1.0 + float(steeper)
        return Law(
            equation=f"{factor:.4g} × host^{power:.3f}{in_unit}",
            values=lambda subjects: factor * _hosts(subjects) ** power,
            rows=rows,
            spread=spread,
        )


class HostAndOperators:
    """A multiple of this machine's value that depends on the kinds and the size of the operators and on int8.

    Processors differ most in what a call of an operator costs, in depthwise convolutions, which move more data than
    they compute, in matrix products, which read their weights once, and in products of integers.
    """

    name = "host+operators"
    title = "this machine's value and the operators of the model"
    prior_error = PRIOR_ERROR
    automatic = True
    effects: Mapping[str, float] = {
        "work per operator": 0.15, "depthwise convolutions": 0.6, "matrix products": 0.6, "int8": 0.5,
    }  # fmt: skip
    """Standard deviations of the coefficients in the logarithm of the multiple: of the logarithm of the mean work of an
    operator, of shares of the work, and of int8. They were set by hand on public measurements of float and int8 models
    (``benchmarks/prediction.py``)."""

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Predictor.lacking`."""
        return _lacks_host(subject) or lacks_profile(subject)

    def fit(self, points: Sequence[Point]) -> Law:
        """As `edgewise.predicting.base.Predictor.fit`."""
        middle = _relative_to_host(_subjects(points)).mean(axis=0)

        def rows(subjects: Sequence[Subject], _: Floats) -> Floats:
            return np.column_stack([np.ones(len(subjects)), _relative_to_host(subjects) - middle])

        design = rows(_subjects(points), _values(points))
        ridge = (self.prior_error / np.array([np.inf, *self.effects.values()])) ** 2
        spread = _inverse(design.T @ design + np.diag(ridge))
        weights = spread @ design.T @ np.log(_values(points) / _hosts(_subjects(points)))
        strongest = list(self.effects)[int(np.argmax(np.abs(weights[1:]) * list(self.effects.values())))]
        return Law(
            equation=f"{float(np.exp(weights[0])):.4g} × host × operators (most of all {strongest})",
            values=lambda subjects: _hosts(subjects) * np.exp(rows(subjects, np.ones(len(subjects))) @ weights),
            rows=rows,
            spread=spread,
        )


def _relative_to_host(subjects: Sequence[Subject]) -> Floats:
    """Return what `HostAndOperators.effects` are the coefficients of: (subjects, features)."""
    profiles = [known_profile(subject) for subject in subjects]
    return np.column_stack(
        [
            np.log([profile.work / max(profile.amounts[TERMS.index("operators")], 1.0) for profile in profiles]),
            [profile.shares[TERMS.index("depthwise")] for profile in profiles],
            [profile.shares[TERMS.index("dense")] for profile in profiles],
            ["int8" in subject.precision for subject in subjects],
        ]
    )


class OperatorCosts:
    """A cost for a unit of each kind of work, none negative, near generic relative costs unless the points differ."""

    name = "operators"
    title = "what each kind of operator costs on the device"
    prior_error = PRIOR_ERROR
    automatic = True
    strength = 0.6
    """Relative standard deviation of a cost around the generic one."""

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Predictor.lacking`."""
        return lacks_profile(subject)

    def fit(self, points: Sequence[Point]) -> Law:
        """As `edgewise.predicting.base.Predictor.fit`."""
        values, amounts = _values(points), _amounts(_subjects(points))
        unit = float(np.exp(np.mean(np.log(values / (amounts @ RELATIVE_COSTS)))))
        generic = unit * RELATIVE_COSTS

        def rows(subjects: Sequence[Subject], values: Floats) -> Floats:
            return _amounts(subjects) * generic / values[:, None]

        design = rows(_subjects(points), values)
        # In units of the generic costs: each is a point at 1 with the weight of its uncertainty.
        pull = self.prior_error / self.strength * np.eye(len(generic))
        factors = least_squares_from_zero(
            np.vstack([design, pull]), np.concatenate([np.ones(len(values)), np.diag(pull)])
        )
        costs = factors * generic
        shown = ", ".join(
            f"{_told(cost, points)} per {unit}"
            for unit, cost, amount in zip(UNITS_OF_WORK, costs, amounts.sum(axis=0), strict=True)
            if cost and amount
        )
        return Law(
            equation=shown,
            values=lambda subjects: np.maximum(_amounts(subjects) @ costs, np.finfo(float).tiny),
            rows=rows,
            spread=_inverse(design.T @ design + pull.T @ pull),
        )


class Linear(_OfHost):
    """The ordinary least-squares line: what auptimizer's Profiler fits. Its error is mostly worse than all others'."""

    name = "linear"
    title = "a·x + b by ordinary least squares"
    prior_error = 0.6
    automatic = False

    def fit(self, points: Sequence[Point]) -> Law:
        """As `edgewise.predicting.base.Predictor.fit`."""
        design = _straight(_subjects(points), _values(points))
        (slope, rest), *_ = np.linalg.lstsq(design, _values(points), rcond=None)
        # A prediction ≤ 0 has no logarithm: it is not a number that can be used.
        return Law(
            equation=f"{slope:.4g} × host {'+' if rest >= 0 else '−'} {_told(abs(rest), points)}",
            values=lambda subjects: np.where((found := slope * _hosts(subjects) + rest) > 0, found, np.nan),
            rows=_straight,
            spread=_inverse(design.T @ design),
        )
