"""The law of the catalogue: the model was measured on other devices of the atlas, and only the device is new.

The logarithm of what a device takes for a model is an offset of the device, plus the mean of the model over a fleet,
plus a draw from N(0, K): K says which models are slow together. It is estimated from the fleet by expectation and
maximisation with missing cells, as covariances are (Little and Rubin, Statistical Analysis with Missing Data, 11.2),
shrunk to its mean variance. The prediction is the mean of that Gaussian process and of the devices nearest to the
points.

A device may be like none of the fleet. Where there are enough points and the operators of the models are known, further
processes add the costs of operators to K, and all are averaged by how likely they make the points (Hoeting, Madigan,
Raftery and Volinsky, Bayesian Model Averaging, 1999).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from edgewise.predicting.atlas import AtlasRow, Stamp, normal, stamp, tables
from edgewise.predicting.base import Floats, Point, Subject
from edgewise.predicting.features import RELATIVE_COSTS, TERMS, OperatorProfile
from edgewise.predicting.laws import lacks_profile

FEWEST_GROUPS = 3
"""Hardware groups without which a fleet says nothing of a new device."""
MOST_OTHERS = 50
"""Models beside those that are asked for, from which K is estimated."""
ROUNDS = 12
SHRINKAGE = 2.0
"""Hardware groups that the equal variances count for, to which K is shrunk."""
NOISE = 0.1
"""Variance of single measurements, relative to that of the fleet around its means."""
LEAST_VARIANCE = 1e-6
"""Of a fleet around its means: no clock and no processor is steadier than 0.1 %."""
LEAST_DISTANCE = 0.02
"""Relative difference below which devices are equally near."""
OPERATOR_VARIANCES = (1.0, 10.0, 100.0)
"""Of what operators cost on a device beyond the fleet, relative to the variance of the fleet at the points; together
they are as probable beforehand as none."""
FEWEST_FOR_OPERATORS = len(TERMS) + 1
"""Points without which the costs of operators can't be told apart."""
MOST_AMOUNT = 4.0
"""Of an operator, relative to its mean at the points: beyond, it is not more uncertain."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a fleet says of some of its models: their column → place, means, and K."""

    places: Mapping[int, int]
    means: Floats
    covariance: Floats
    noise: float


@dataclass(frozen=True, eq=False)
class Fleet:
    """Devices that ran the same models under the same conditions.

    Attributes:
        conditions: runtime, precision and unit; then whether inputs are batched.
        devices: name and setting of each device.
        tables: of the atlas, that its rows are from.
        models: full name (with the variant) → column.
        short: name without variant → columns.
        logs: natural logarithms of s, (devices, models); NaN where nothing was measured.
        groups: number of the hardware group of each device.
        elsewhere: device whose results with other runtimes are its last rows; "" where it has none.
    """

    conditions: tuple[str, ...]
    devices: Sequence[tuple[str, str]]
    tables: tuple[str, ...]
    models: Mapping[str, int]
    short: Mapping[str, Sequence[int]]
    logs: Floats
    groups: np.ndarray
    elsewhere: str = ""
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The conditions in words."""
        return " ".join(filter(None, self.conditions)) or "no conditions known"

    @property
    def unit(self) -> str:
        """What computes: CPU, GPU, NPU; "" where unknown."""
        return self.conditions[2]

    @property
    def weights(self) -> Floats:
        """Of the devices: each hardware group counts as one."""
        return np.asarray(1.0 / np.bincount(self.groups)[self.groups], dtype=np.float64)

    def find(self, name: str) -> int | None:
        """Return the column of the model `name`; None where there is none, or several variants."""
        known = normal(name)
        columns = self.short.get(known, ())
        return self.models.get(known, columns[0] if len(columns) == 1 else None)

    def kernel(self, columns: Iterable[int]) -> Kernel:
        """One that has `columns`, estimated once for them and the `MOST_OTHERS` models that most devices have."""
        wanted = set(columns)
        for known in self.kernels:
            if wanted <= known.places.keys():
                return known
        by_coverage = np.argsort(-np.isfinite(self.logs).sum(axis=0), kind="stable").tolist()
        others = [column for column in by_coverage if column not in wanted][:MOST_OTHERS]
        self.kernels.append(estimate_kernel(self.logs, self.weights, sorted([*wanted, *others])))
        return self.kernels[-1]

    def with_runtimes_of(self, device: str, fleets: Iterable[Fleet]) -> Fleet:
        """Add what `device` takes with other runtimes of the same precision and unit, as one more kind of hardware."""
        others = (each for each in fleets if each is not self and each.conditions[1:] == self.conditions[1:])
        rows = [row for other in others for row in other.moved(device, self)]
        if not rows:
            return self
        return replace(
            self,
            devices=[*self.devices, *[(device, "")] * len(rows)],
            logs=np.vstack([self.logs, *rows]),
            groups=np.append(self.groups, [self.groups.max() + 1] * len(rows)),
            elsewhere=device,
            kernels=[],
        )

    def moved(self, device: str, to: Fleet) -> Iterator[Floats]:
        """Yield what `device` takes here, as logarithms of the fleet `to`: (models of `to`,), NaN where unknown.

        Each model is moved by the mean difference between both fleets over the devices that are in both.
        """
        common = [at for at, one in enumerate(self.devices) if one[0] != device and one in to.devices]
        there = [to.devices.index(self.devices[at]) for at in common]
        models = [(column, to.models[name]) for name, column in self.models.items() if name in to.models]
        if not common or not models:
            return
        columns, places = map(list, zip(*models, strict=True))
        apart = np.ma.masked_invalid(to.logs[np.ix_(there, places)] - self.logs[np.ix_(common, columns)])
        for at in [at for at, (name, _) in enumerate(self.devices) if name == device]:
            row = np.full(to.logs.shape[1], np.nan)
            row[places] = self.logs[at, columns] + apart.mean(axis=0).filled(np.nan)
            if np.isfinite(row).any():
                yield row


def estimate_kernel(logs: Floats, weights: Floats, columns: Sequence[int]) -> Kernel:
    """Means and covariance of the models in `columns` over devices, each device up to an offset.

    Args:
        logs: (devices, models), NaN for missing cells.
        weights: of the devices.
    """
    found = logs[:, columns]
    rows = np.isfinite(found).any(axis=1)
    found, weights = found[rows], weights[rows]
    known = np.isfinite(found)
    heavy = known * weights[:, None]
    offsets, means = np.nanmedian(found, axis=1), np.zeros(len(columns))
    for _ in range(30):
        means = np.where(known, found - offsets[:, None], 0.0).T @ weights / np.maximum(heavy.sum(axis=0), 1e-12)
        offsets = np.where(known, found - means, 0.0).sum(axis=1) / known.sum(axis=1)
    rest = np.where(known, found - offsets[:, None] - means, 0.0)
    variance = max(float(np.sum(rest**2 * weights[:, None]) / heavy.sum()), LEAST_VARIANCE)
    noise, size, total = NOISE * variance, len(columns), float(weights.sum())
    patterns, members = np.unique(known, axis=0, return_inverse=True)
    covariance = variance * np.eye(size)
    for _ in range(ROUNDS):
        moments = np.zeros((size, size))
        for at, seen in enumerate(patterns):
            devices = np.flatnonzero(members.ravel() == at)
            inner = covariance[np.ix_(seen, seen)] + noise * np.eye(int(seen.sum()))
            gain = np.linalg.solve(inner, covariance[seen]).T
            filled = rest[np.ix_(devices, seen)] @ gain.T
            moments += (filled * weights[devices, None]).T @ filled
            moments += weights[devices].sum() * (covariance - gain @ covariance[seen])
        equal = np.trace(moments) / size / total * np.eye(size)
        covariance = (moments + SHRINKAGE * equal) / (total + SHRINKAGE)
    return Kernel({column: at for at, column in enumerate(columns)}, means, covariance, noise)


@dataclass(frozen=True, slots=True)
class _Process:
    """A Gaussian process whose constant is unknown, given points.

    Regression and density are those of Rasmussen and Williams, Gaussian Processes for Machine Learning, 2.7.

    Attributes:
        inverse: of the covariance of the points.
        off: how far the points are from the means.
    """

    inverse: Floats
    off: Floats

    @property
    def offset(self) -> float:
        """The constant."""
        return float(np.sum(self.inverse @ self.off) / self.inverse.sum())

    def likelihood(self, *, scaled: bool = False) -> float:
        """Return the logarithm of the density of the differences between points, up to a constant.

        Args:
            scaled: the covariance is known only up to a factor, of which nothing is known.
        """
        away = self.off - self.offset
        distance = float(away @ self.inverse @ away)
        if scaled:
            distance = (len(away) - 1) * math.log(max(distance, np.finfo(float).tiny))
        return float(np.linalg.slogdet(self.inverse)[1] - np.log(self.inverse.sum()) - distance) / 2

    def predict(self, cross: Floats, own: float) -> tuple[float, float]:
        """How far another value is from its mean; its variance relative to that of a point given the others, less 1.

        Args:
            cross: its covariance with the points.
            own: its variance.
        """
        sums = self.inverse.sum(axis=0)
        total = float(sums.sum())
        off = self.offset + float(cross @ self.inverse @ (self.off - self.offset))
        variance = own - float(cross @ self.inverse @ cross) + (1 - float(sums @ cross)) ** 2 / total
        precisions = np.diag(self.inverse) - sums**2 / total
        usual = float(np.mean(1 / precisions)) if len(sums) > 1 else own + 1 / total
        return off, variance / usual - 1


@dataclass(frozen=True, slots=True)
class _OnFleet:
    """The points of a device that a fleet has.

    Attributes:
        profiles: of the points; None where unknown.
    """

    fleet: Fleet
    columns: Sequence[int]
    logs: Floats
    profiles: Sequence[OperatorProfile | None]

    def learn(self, columns: Sequence[int]) -> None:
        """Estimate one kernel for all of `columns`; otherwise, each may need its own."""
        self.fleet.kernel([*self.columns, *columns])

    def likelihood(self) -> float:
        """Return the logarithm of the density of the differences between points, up to a constant."""
        kernel = self.fleet.kernel(self.columns)
        at = [kernel.places[column] for column in self.columns]
        return self._process(kernel.covariance[np.ix_(at, at)], kernel, at).likelihood()

    def _process(self, covariance: Floats, kernel: Kernel, at: Sequence[int]) -> _Process:
        inverse = np.linalg.inv(covariance + kernel.noise * np.eye(len(at)))
        return _Process(np.asarray(inverse, dtype=np.float64), self.logs - kernel.means[at])

    def predict(self, column: int, profile: OperatorProfile | None) -> tuple[float, float]:
        """Return the logarithm of a model's value, and its variance as of `_Process.predict`."""
        kernel = self.fleet.kernel([*self.columns, column])
        places = [kernel.places[one] for one in (*self.columns, column)]
        at, place = places[:-1], places[-1]
        covariance = kernel.covariance[np.ix_(places, places)]
        of_operators = self._of_operators(np.exp(kernel.means[places]), covariance, profile)
        variances = (0.0,) if of_operators is None else (0.0, *OPERATOR_VARIANCES)
        found, weights = [], []
        for variance in variances:
            whole = covariance if of_operators is None else covariance + variance * of_operators
            process = self._process(whole[:-1, :-1], kernel, at)
            found.append(process.predict(whole[-1, :-1], float(whole[-1, -1]) + kernel.noise))
            prior = math.log(len(OPERATOR_VARIANCES)) if variance else 0.0
            weights.append(process.likelihood(scaled=True) - prior if of_operators is not None else 0.0)
        near = self._nearest(column)
        offs, spreads = np.array(found).T
        logs = kernel.means[place] + offs
        if near is not None:
            logs = np.append(logs, near[0])
            weights.append(near[1] if of_operators is not None else 0.0)
        shares = np.exp(np.array(weights) - max(weights))
        own = shares[: len(spreads)]
        # The devices nearest to the points have no variance of their own.
        spread = own @ spreads / own.sum() if own.sum() else spreads[0]
        return float(shares @ logs / shares.sum()), float(spread)

    def _of_operators(self, usual: Floats, covariance: Floats, profile: OperatorProfile | None) -> Floats | None:
        """Return the covariance that costs of operators add to the points and a model; None where they can't be told.

        The value of a model is the sum of its amounts times their costs. Relative to its `usual` value, each cost
        therefore moves it in proportion to the amount by that value.

        Args:
            usual: values on the fleet, up to a factor.
            covariance: by the fleet; both have as much variance between the points.
        """
        known = [each for each in (*self.profiles, profile) if each is not None]
        points = len(self.columns)
        if points < FEWEST_FOR_OPERATORS or len(known) <= points:
            return None
        rows = np.array([each.amounts for each in known]) * RELATIVE_COSTS / usual[:, None]
        typical = rows[:-1].mean(axis=0)
        rows = np.minimum(rows / np.where(typical > 0, typical, np.inf), MOST_AMOUNT)
        rows = rows - rows[:-1].mean(axis=0)
        among = covariance[:-1, :-1]
        between = float(np.trace(among) - among.sum() / points)
        found: Floats = rows @ rows.T * between / max(float(np.sum(rows[:-1] ** 2)), np.finfo(float).tiny)
        return found

    def _nearest(self, column: int) -> tuple[float, float] | None:
        """Return the logarithm from the devices that have the model, weighted by their squared distance on the points.

        The second number is the likelihood, as of `_Process.likelihood`, of points that differ from one of these
        devices by an offset and noise.
        """
        there = self.fleet.logs[:, self.columns]
        rows = np.isfinite(self.fleet.logs[:, column])
        rows &= np.isfinite(there).sum(axis=1) >= max(1.0, len(self.columns) / 2)
        if not rows.any():
            return None
        apart, points = self.logs - there[rows], len(self.columns)
        offsets = np.nanmedian(apart, axis=1)
        distances = np.nanmean((apart - offsets[:, None]) ** 2, axis=1) + LEAST_DISTANCE**2
        least, usual = float(distances.min()), self.fleet.weights[rows]
        weights = usual * (distances / least) ** (-points / 2)
        mixed = float(usual @ (distances / least) ** (-(points - 1) / 2) / usual.sum())
        likelihood = math.log(mixed) - ((points - 1) * math.log(points * least) + math.log(points)) / 2
        return float((self.fleet.logs[rows, column] + offsets) @ weights / weights.sum()), likelihood


@dataclass(frozen=True, slots=True)
class Catalogued:
    """A device among the fleets that have most of its points, the likeliest fleet first."""

    known: Sequence[_OnFleet]

    @property
    def equation(self) -> str:
        """The fleet that the device is compared with."""
        if not self.known:
            return ""
        fleet = self.known[0].fleet
        groups = len(set(fleet.groups.tolist())) - bool(fleet.elsewhere)
        own = f", and on {fleet.elsewhere} with other runtimes" if fleet.elsewhere else ""
        return f"as on {groups} kinds of hardware with {fleet.title}{own} (atlas: {', '.join(fleet.tables)})"

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Fitted.lacking`."""
        if self._place(subject)[0] is None:
            return "no fleet of the atlas has it together with the measured models"
        return ""

    def predict(self, subjects: Sequence[Subject]) -> tuple[Floats, Floats]:
        """As `edgewise.predicting.base.Fitted.predict`."""
        places: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for at, subject in enumerate(subjects):
            number, column = self._place(subject)
            if number is None or column is None:
                raise ValueError(f"{subject.name} is in no fleet")
            places[number].append((at, column))
        found = np.zeros((len(subjects), 2))
        for number, wanted in places.items():
            for first in range(0, len(wanted), MOST_OTHERS):
                part = wanted[first : first + MOST_OTHERS]
                self.known[number].learn([column for _, column in part])
                for at, column in part:
                    found[at] = self.known[number].predict(column, _profile(subjects[at]))
        return found[:, 0], found[:, 1]

    def _place(self, subject: Subject) -> tuple[int | None, int | None]:
        """Return the first fleet that has `subject`, and its column there."""
        columns = ((at, each.fleet.find(subject.name)) for at, each in enumerate(self.known))
        return next(((at, column) for at, column in columns if column is not None), (None, None))


def _profile(subject: Subject) -> OperatorProfile | None:
    """Return what the operators of `subject` do; None where that can't be counted."""
    return None if lacks_profile(subject) else subject.profile


class Catalogue:
    """What the model takes on other devices that ran the measured models too.

    Args:
        known: the fleets; None takes those of the user's atlas, as it is at each call.
    """

    name = "catalogue"
    title = "what the model takes on other devices of the atlas"
    prior_error = 0.15
    automatic = True

    def __init__(self, known: Sequence[Fleet] | None = None) -> None:
        self._known = known

    def _fleets(self, device: str = "") -> Sequence[Fleet]:
        if self._known is None:
            return fleets_of(device, stamp())
        return self._known if not device else [each.with_runtimes_of(device, self._known) for each in self._known]

    def lacking(self, subject: Subject) -> str:
        """As `edgewise.predicting.base.Predictor.lacking`."""
        if any(fleet.find(subject.name) is not None for fleet in self._fleets()):
            return ""
        return "it is not in the atlas"

    def fit(self, points: Sequence[Point]) -> Catalogued:
        """As `edgewise.predicting.base.Predictor.fit`."""
        found = []
        for fleet in self._fleets(points[0].device):
            columns = [(fleet.find(point.subject.name), point) for point in points]
            placed = [(column, point) for column, point in columns if column is not None]
            logs = np.array([math.log(point.value) for _, point in placed])
            profiles = [_profile(point.subject) for _, point in placed]
            found.append(_OnFleet(fleet, [column for column, _ in placed], logs, profiles))
        most = max((len(each.columns) for each in found), default=0)
        found = [each for each in found if len(each.columns) == most > 0]
        return Catalogued(sorted(found, key=_OnFleet.likelihood, reverse=True))


@lru_cache(maxsize=2)
def fleets_at(state: Stamp) -> tuple[Fleet, ...]:
    """Return the fleets of the atlas as it is at `state`, which is `stamp()`."""
    return fleets(tables(state))


@lru_cache(maxsize=4)
def fleets_of(device: str, state: Stamp) -> tuple[Fleet, ...]:
    """As `fleets_at`; with a `device`, each has what that device takes with other runtimes."""
    known = fleets_at(state)
    return tuple(each.with_runtimes_of(device, known) for each in known) if device else known


def fleets(found: Mapping[str, Sequence[AtlasRow]]) -> tuple[Fleet, ...]:
    """Return the fleets of tables by name: rows with the same runtime, precision and unit, batched or not."""
    by_conditions: dict[tuple[str, ...], list[tuple[str, AtlasRow]]] = defaultdict(list)
    for table, rows in found.items():
        for row in rows:
            batched = "several inputs at a time" if row.batch > 1 else ""
            by_conditions[row.runtime, row.precision, row.unit, batched].append((table, row))
    made = (_fleet(conditions, rows) for conditions, rows in by_conditions.items())
    return tuple(fleet for fleet in made if fleet is not None)


def _fleet(conditions: Sequence[str], rows: Sequence[tuple[str, AtlasRow]]) -> Fleet | None:
    """Return the fleet of `rows`, without models that one device alone has; None where it has too little hardware."""
    cells: dict[tuple[tuple[str, str, str], str], list[float]] = defaultdict(list)
    short: dict[str, str] = {}
    for _, row in rows:
        full = normal(f"{row.model} {row.variant}")
        short[full] = normal(row.model)
        cells[(row.device, row.setting, row.group), full].append(row.latency_s)
    shared = Counter(full for _, full in cells)
    models = {full: at for at, full in enumerate(sorted(full for full, count in shared.items() if count > 1))}
    devices = sorted({device for device, full in cells if full in models})
    groups = sorted({group for _, _, group in devices})
    if len(groups) < FEWEST_GROUPS:
        return None
    logs = np.full((len(devices), len(models)), np.nan)
    places = {device: at for at, device in enumerate(devices)}
    for (device, full), values in cells.items():
        if full in models:
            logs[places[device], models[full]] = np.log(np.median(values))
    by_short: dict[str, list[int]] = defaultdict(list)
    for full, at in models.items():
        by_short[short[full]].append(at)
    return Fleet(
        conditions=tuple(conditions),
        devices=[(name, setting) for name, setting, _ in devices],
        tables=tuple(sorted({table for table, _ in rows})),
        models=models,
        short=by_short,
        logs=logs,
        groups=np.array([groups.index(group) for _, _, group in devices]),
    )
