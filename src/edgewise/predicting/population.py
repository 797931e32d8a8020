"""The law of a population of devices: what kinds of operators cost on other devices is the prior of a new one.

The logarithm of what device d takes for model m is

    offset(d) + log Σ amount(m, t) · cost(d, t) + slopes(d) · features(m) + rest(m) + noise

with the logarithms of the costs and the slopes drawn from N(mean, covariance), rest(m) from N(0, model_variance), and
noise from N(0, noise): a mixed model with crossed effects, made linear around the costs of each device (Lindstrom and
Bates, Nonlinear mixed effects models for repeated measures data, 1990), and estimated by expectation and maximisation.
A model and its value on this machine share rest(m): that is what such a value tells beside the operators. Of a new
device, all are found by regression on the joint normal distribution, with an unknown offset.

edgewise ships two populations in ``populations.json``, which ``tools/fit_populations.py`` wrote. Fleets of the user's
atlas that have models of known operators are populations too; there the shipped ones are the prior.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from edgewise.predicting.atlas import Stamp, stamp
from edgewise.predicting.base import Floats, Point, Subject
from edgewise.predicting.features import RELATIVE_COSTS, TERMS, OperatorProfile
from edgewise.predicting.fleet import FEWEST_GROUPS, LEAST_VARIANCE, Fleet, fleets_at
from edgewise.predicting.laws import known_profile, lacks_profile

FEATURES = (*TERMS, "size", "operators in all", "int8")
"""Logarithms of the costs of `TERMS`, relative to generic ones; slopes of the logarithms of the work by generic costs
and of the number of operators; and the factor of int8."""
_SCALE = 0.3
"""Of the logarithms: makes a coefficient's standard deviation comparable with that of a share."""
_MIDDLE = (20.0, 4.0)
"""Of the logarithms of work and number of operators: a mobile network."""
_ANY_OFFSET = 100.0
"""Variance of the offset of a device: nothing is known of it."""
DEVICES = 4.0
"""Hardware groups that the prior of a population counts for."""
FREE_COSTS = 0.5
"""Standard deviation of a coefficient where nothing is known."""
ROUNDS = 15
STEPS = 4
"""From the mean of a population to the costs of a device."""
_LONGEST_STEP = 1.0
FEWEST_MODELS = 6
"""Of known operators, without which a fleet of the atlas is no population."""
FEWEST_DEVICE_MODELS = 3
"""On a device, without which it says nothing of costs."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Population:
    """What the devices of one kind have in common.

    Attributes:
        title: which devices.
        hardware: number of hardware groups that it was estimated from.
        on_cpu: whether a value of this machine, whose processor is of the same kind, tells of a model's `rest`.
        mean, covariance: of the coefficients of `FEATURES` over devices.
        doubt: covariance of the error of `mean`, which all devices share: it was estimated from a few models.
        model_variance, noise: of logarithms, as the module's formula has them.
    """

    title: str
    hardware: int
    on_cpu: bool
    mean: Floats
    covariance: Floats
    doubt: Floats
    model_variance: float
    noise: float

    @property
    def variance(self) -> float:
        """Of a model's value on a device whose costs are known."""
        return self.model_variance + self.noise


@dataclass(frozen=True, slots=True)
class Models:
    """What the formula needs of models.

    Attributes:
        amounts: of each of `TERMS`, in generic costs: (models, terms).
        others: the other `FEATURES`: (models, features).
    """

    amounts: Floats
    others: Floats

    @classmethod
    def of(cls, subjects: Sequence[Subject]) -> Models:
        """`subjects`, whose operators are known."""
        profiles = [known_profile(subject) for subject in subjects]
        amounts = np.array([profile.amounts for profile in profiles]) * RELATIVE_COSTS
        others = [
            _SCALE * (np.log(amounts.sum(axis=1)) - _MIDDLE[0]),
            _SCALE * (np.log([max(profile.amounts[-1], 1.0) for profile in profiles]) - _MIDDLE[1]),
            np.array([float("int8" in subject.precision) for subject in subjects]),
        ]
        return cls(amounts, np.column_stack(others))

    def linear(self, costs: Floats) -> tuple[Floats, Floats]:
        """Return the formula without offset, rest and noise, made linear around `costs`: constants and rows.

        Args:
            costs: coefficients of `FEATURES`: (…, features).

        Returns:
            (…, models) and (…, models, features), so that constants + rows · coefficients is about the formula.
        """
        each = self.amounts * np.exp(costs[..., None, : len(TERMS)])
        work = each.sum(axis=-1)
        shares = each / work[..., None]
        constants = np.log(work) - np.einsum("...mt,...t->...m", shares, costs[..., : len(TERMS)])
        others = np.broadcast_to(self.others, (*shares.shape[:-1], self.others.shape[1]))
        return constants, np.concatenate([shares, others], axis=-1)


def estimate_population(
    logs: Floats, groups: np.ndarray, subjects: Sequence[Subject], *, title: str, on_cpu: bool,
    prior: Population | None = None,
) -> Population:  # fmt: skip
    """Return a population from measurements.

    Args:
        logs: natural logarithms, (devices, models); NaN where nothing was measured. At least one device has
            `FEWEST_DEVICE_MODELS`.
        groups: the hardware group of each device; each group counts as one.
        subjects: the models.
        prior: counts for `DEVICES` groups; None takes costs around the generic ones.
    """
    useful = np.isfinite(logs).sum(axis=1) >= FEWEST_DEVICE_MODELS
    known, groups = np.isfinite(logs[useful]), np.unique(groups[useful], return_inverse=True)[1]
    measured, models = np.where(known, logs[useful], 0.0), Models.of(subjects)
    weights = 1.0 / np.bincount(groups)[groups]
    heavy, total, size = known * weights[:, None], float(weights.sum()), len(FEATURES)
    first = np.zeros(size) if prior is None else prior.mean
    usual = FREE_COSTS**2 * np.eye(size) if prior is None else prior.covariance
    of_mean = usual if prior is None else prior.doubt + usual / DEVICES
    mean, covariance, rest = first, 4 * usual, np.zeros(len(subjects))
    model_variance, noise = (0.1, 0.05) if prior is None else (prior.model_variance, prior.noise)
    costs = np.tile(mean, (len(known), 1))
    for _ in range(ROUNDS):
        constants, rows = models.linear(costs)
        design = np.concatenate([np.ones((*known.shape, 1)), rows], axis=-1)
        inner = np.zeros((size + 1, size + 1))
        inner[0, 0], inner[1:, 1:] = 1 / _ANY_OFFSET, np.linalg.inv(covariance)
        spread = np.linalg.inv(np.einsum("dm,dmi,dmj->dij", known, design, design) / noise + inner)
        apart = known * (measured - constants - rest - rows @ mean)
        own = np.einsum("dij,dmj,dm->di", spread, design, apart) / noise
        costs = costs + np.clip(mean + own[:, 1:] - costs, -_LONGEST_STEP, _LONGEST_STEP)
        left = measured - constants - rows @ mean - np.einsum("dmi,di->dm", design, own)
        moved = weights @ own[:, 1:] / total
        moments = (own[:, 1:] * weights[:, None]).T @ own[:, 1:] - total * np.outer(moved, moved)
        moments += np.einsum("d,dij->ij", weights, spread[:, 1:, 1:])
        mean = (total * (mean + moved) + DEVICES * first) / (total + DEVICES)
        covariance = (moments + DEVICES * usual) / (total + DEVICES)
        precision = heavy.sum(axis=0) / noise + 1 / model_variance
        rest = (heavy * left).sum(axis=0) / noise / precision
        seen = heavy.sum(axis=0) > 0
        average = np.einsum("dm,dmi->mi", heavy, design)[seen] / heavy.sum(axis=0)[seen, None]
        inner[0, 0], inner[1:, 1:] = 0.0, np.linalg.inv(of_mean)
        each = model_variance + noise / heavy.sum(axis=0)[seen]
        shared = np.linalg.inv(average.T @ (average / each[:, None]) + inner)
        mistaken = np.einsum("mi,ij,mj->m", average, shared, average)
        model_variance = max(float(np.mean((rest**2 + 1 / precision)[seen] + mistaken)), LEAST_VARIANCE)
        doubt = np.einsum("dmi,dij,dmj->dm", design, spread, design) + 1 / precision
        noise = max(float(np.sum(heavy * ((left - rest) ** 2 + doubt)) / heavy.sum()), LEAST_VARIANCE)
    return Population(
        title=title, hardware=len(set(groups.tolist())), on_cpu=on_cpu, mean=mean, covariance=covariance,
        doubt=shared[1:, 1:], model_variance=model_variance, noise=noise,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """A device of a population, known from its points.

    Attributes:
        costs: its coefficients, and those of this machine: (2, features).
        inverse: of the covariance of what was observed: the points, then the same models on this machine.
        off: how far the observations are from the mean of the population.
        rows: of the observations.
        here: per observation, whether it is of this machine.
    """

    population: Population
    costs: Floats
    inverse: Floats
    off: Floats
    rows: Floats
    here: np.ndarray

    @property
    def equation(self) -> str:
        """The population, and how many values of this machine are known beside it."""
        words = f"as on {self.population.hardware} kinds of hardware: {self.population.title}"
        count = int(self.here.sum())
        return f"{words}, and this machine's values of {count} model{'s' * (count != 1)}" if count else words

    def likelihood(self) -> float:
        """Return the logarithm of the density of the observations, up to a constant."""
        return float(np.linalg.slogdet(self.inverse)[1] - self.off @ self.inverse @ self.off) / 2

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Fitted.lacking`."""
        del subject
        return ""

    def predict(self, subjects: Sequence[Subject]) -> tuple[Floats, Floats]:
        """As `edgewise.predicting.base.Fitted.predict`, relative to the variance of the population."""
        population = self.population
        constants, rows = Models.of(subjects).linear(self.costs)
        means = constants + rows @ population.mean
        among, own = population.doubt, population.covariance + population.doubt
        there, here = rows @ among @ self.rows.T
        there += (rows[0] @ population.covariance @ self.rows.T + _ANY_OFFSET) * ~self.here
        here += (rows[1] @ population.covariance @ self.rows.T + _ANY_OFFSET) * self.here
        prior = np.einsum("...mi,ij,...mj->...m", rows, own, rows) + _ANY_OFFSET + population.variance
        logs = means[0] + there @ self.inverse @ self.off
        variance = prior[0] - np.einsum("ij,jk,ik->i", there, self.inverse, there)
        if self.here.any():
            measured = np.array([bool(subject.host) for subject in subjects])
            hosts = np.log([subject.host or 1.0 for subject in subjects])
            also = population.model_variance + np.einsum("mi,ij,mj->m", rows[0], among, rows[1])
            also = also - np.einsum("ij,jk,ik->i", there, self.inverse, here)
            doubt = prior[1] - np.einsum("ij,jk,ik->i", here, self.inverse, here)
            surprise = hosts - means[1] - here @ self.inverse @ self.off
            logs = logs + np.where(measured, also / doubt * surprise, 0.0)
            variance = variance - np.where(measured, also**2 / doubt, 0.0)
        return logs, variance / population.variance - 1


def _member(population: Population, points: Sequence[Point], *, hosts: bool) -> Member:
    """Return the device of `points`; with `hosts`, what this machine takes for their models is observed too."""
    measured = [at for at, point in enumerate(points) if hosts and point.subject.host]
    at = np.array([*range(len(points)), *measured])
    here = np.arange(len(at)) >= len(points)
    values = np.log([*(point.value for point in points), *(points[one].subject.host or 1.0 for one in measured)])
    models = Models.of([points[one].subject for one in at.tolist()])
    same = population.model_variance * (at[:, None] == at) + population.noise * np.eye(len(at))
    costs = np.tile(population.mean, (2, 1))
    for _ in range(STEPS):
        both = models.linear(costs)
        constants, rows = (np.where(here[(...,) + (None,) * (part.ndim - 2)], part[1], part[0]) for part in both)
        off = values - constants - rows @ population.mean
        common, shared = rows @ population.covariance, rows @ population.doubt
        within = (common @ rows.T + _ANY_OFFSET) * (here[:, None] == here)
        inverse = np.linalg.inv(within + shared @ rows.T + same)
        weights = inverse @ off
        found = population.mean + weights @ shared + np.array([(weights * part) @ common for part in (~here, here)])
        costs = costs + np.clip(found - costs, -_LONGEST_STEP, _LONGEST_STEP)
    return Member(population, costs, inverse, off, rows, here)


class OtherDevices:
    """What the kinds of operators cost on other devices, moved by the points; and this machine's value.

    Args:
        known: the populations; None takes the shipped ones and those of the user's atlas, as it is at each call.
    """

    name = "fleet"
    title = "what the operators cost on other devices"
    automatic = True

    def __init__(self, known: Sequence[Population] | None = None) -> None:
        self._known = known

    @property
    def prior_error(self) -> float:
        """That of models on devices of known costs, in the shipped population of processors."""
        return math.sqrt(shipped()[0].variance)

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Predictor.lacking`."""
        return lacks_profile(subject)

    def fit(self, points: Sequence[Point]) -> Member:
        """As `edgewise.predicting.base.Predictor.fit`: in the population in which the points are likeliest."""
        known = self._known if self._known is not None else (*shipped(), *_populations_at(stamp()))
        likeliest = max(known, key=lambda population: _member(population, points, hosts=False).likelihood())
        return _member(likeliest, points, hosts=likeliest.on_cpu)


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((resources.files("edgewise.predicting") / "populations.json").read_text())
    return document


@lru_cache(maxsize=1)
def shipped() -> tuple[Population, ...]:
    """Return the populations that edgewise brings, processors first."""
    arrays = ("mean", "covariance", "doubt")
    return tuple(
        Population(**{**found, **{name: np.array(found[name]) for name in arrays}})
        for found in _document()["populations"]
    )


def networks() -> dict[str, OperatorProfile]:
    """Return published networks by the names that tables of results give them: what their operators do."""
    return {name: OperatorProfile(amounts=tuple(amounts)) for name, amounts in _document()["networks"].items()}


@lru_cache(maxsize=2)
def _populations_at(state: Stamp) -> tuple[Population, ...]:
    """Those of the atlas as it is at `state`, which is `stamp()`."""
    return populations(fleets_at(state))


def populations(fleets: Sequence[Fleet]) -> tuple[Population, ...]:
    """Return the populations of fleets that have `FEWEST_MODELS` of `networks`."""
    found = []
    for fleet in fleets:
        columns = {
            column: Subject(name=name, profile=profile)
            for name, profile in networks().items()
            if (column := fleet.find(name)) is not None
        }
        logs = fleet.logs[:, list(columns)]
        useful = np.isfinite(logs).sum(axis=1) >= FEWEST_DEVICE_MODELS
        if len(columns) >= FEWEST_MODELS and len(set(fleet.groups[useful].tolist())) >= FEWEST_GROUPS:
            graphics = fleet.unit not in ("CPU", "")
            found.append(
                estimate_population(
                    logs, fleet.groups, list(columns.values()), on_cpu=not graphics, prior=shipped()[graphics],
                    title=f"{fleet.title} (atlas: {', '.join(fleet.tables)})",
                )
            )  # fmt: skip
    return tuple(found)
