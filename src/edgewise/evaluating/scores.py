"""From tables to numbers with intervals, and from two tables of the same samples to a paired difference.

A table may say more than `Table` asks for; each talent is a Protocol of its own: `Groups`, `Explains`, `NoInterval`,
`Costly`, `Composed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgewise.errors import BadInput
from edgewise.evaluating.task import Table

if TYPE_CHECKING:
    import numpy as np

    from edgewise.evaluating.resampled import Estimate

    Array = np.ndarray[Any, np.dtype[Any]]

SHARE = (0.0, 1.0)
"""Bounds of a metric for which the table names no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric with its 95 % interval.

    Attributes:
        value: None where it is not defined, and then `absent_because` says why.
        low, high: None where there is no value, or no interval: `method` then says why.
        n: samples behind it.
        method: how value and interval came about, in words.
        outcomes: of a proportion: 1.0 or 0.0 per sample, in order; else empty.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    outcomes: tuple[float, ...] = ()
    absent_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """B's metric less A's, on the same samples, with its 95 % interval.

    Attributes:
        p_value: of no difference.
        method: ``McNemar's exact test …`` or ``paired bootstrap …``.
    """

    metric: str
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    method: str
    absent_because: str | None = None


@runtime_checkable
class Groups(Protocol):
    """A table that knows which samples are interchangeable, so that resamples are counts of a few groups.

    Attributes:
        groups: intp (n,): of each sample the number of its group, from 0, every number used.
    """

    groups: Array

    def values_of(self, counts: Array) -> Mapping[str, float]:
        """As `Table.values`, where group i counts counts[i] times: float64 (groups,)."""


@runtime_checkable
class Explains(Protocol):
    """A table that knows why a metric is not defined."""

    def explain(self, metric: str) -> str | None:
        """Why `metric` is NaN; None where there is nothing to add."""


@runtime_checkable
class NoInterval(Protocol):
    """A table with metrics for which resampling makes no sense.

    Attributes:
        no_interval: metric → why there is no interval.
    """

    no_interval: Mapping[str, str]


@runtime_checkable
class Costly(Protocol):
    """A table that must not be asked for its values too often.

    Attributes:
        most_resamples: how often a bootstrap may ask; without an acceleration, which would ask more.
        most_seconds: how long all of that may take.
    """

    most_resamples: int
    most_seconds: float


@runtime_checkable
class Composed(Protocol):
    """A table made of tables of the same samples, each with resamples of its own.

    Attributes:
        parts: in the order in which they are shown; no metric is in two.
    """

    parts: Sequence[Table]


def score(table: Table, *, seed: int = 0, only: Sequence[str] | None = None) -> tuple[Score, ...]:
    """Every metric of `table`: Wilson's interval for proportions, else a BCa bootstrap over samples.

    The number of resamples is the largest of a few that fits a few seconds; `Score.method` tells it.

    Args:
        only: the metrics that are bootstrapped; of others that need it no interval is worked out. None: all of them.
    """
    from edgewise.evaluating.resampled import resample

    if isinstance(table, Composed):
        return tuple(each for part in table.parts for each in score(part, seed=seed, only=only))
    values = table.values()
    reasons = {name: _why_no_interval(table, name) or _unasked(name, only) for name in values}
    wanted = [
        name for name, value in values.items()
        if name not in table.proportions and math.isfinite(value) and reasons[name] is None
    ]  # fmt: skip
    estimates = resample([table], wanted, seed=seed) if wanted else {}
    found = []
    for name, value in values.items():
        if name in table.proportions:
            found.append(_score_proportion(name, table.proportions[name]))
        elif not math.isfinite(value):
            found.append(_absent(name, table, value))
        elif (reason := reasons[name]) is not None:
            found.append(
                Score(metric=name, value=float(value), low=None, high=None, n=table.n, method=f"no interval: {reason}")
            )
        else:
            found.append(_score_estimate(name, value, estimates[name], bounds=_bounds(table, name), n=table.n))
    return tuple(found)


def _unasked(name: str, only: Sequence[str] | None) -> str | None:
    return None if only is None or name in only else "it was not asked for"


def compare_tables(a: Table, b: Table, *, seed: int = 0, only: Sequence[str] | None = None) -> tuple[Gap, ...]:
    """Every metric that both have, B less A; sample i of both is the same sample.

    Proportions as `gap_of_outcomes`; others by percentiles of a bootstrap in which both count the same samples the
    same number of times, its p-value the least risk at which the interval leaves out 0 (twice the share of resamples
    on the other side of 0).

    Args:
        only: as for `score`; others that need a bootstrap are left out.

    Raises:
        BadInput: unequal n.
    """
    from edgewise.evaluating.resampled import resample

    if a.n != b.n:
        raise BadInput(
            f"{a.n} samples of the one and {b.n} of the other can't be compared in pairs",
            advice="judge both models on the same samples",
        )
    if isinstance(a, Composed) or isinstance(b, Composed):
        return tuple(
            gap for one in _parts(a) for other in _parts(b) for gap in compare_tables(one, other, seed=seed, only=only)
        )  # fmt: skip
    first, second = a.values(), b.values()
    shared = [
        name for name in first
        if name in second and (only is None or name in only or (name in a.proportions and name in b.proportions))
    ]  # fmt: skip
    wanted = [
        name for name in shared
        if not (name in a.proportions and name in b.proportions)
        and math.isfinite(first[name]) and math.isfinite(second[name])
        and _why_no_interval(a, name) is None and _why_no_interval(b, name) is None
    ]  # fmt: skip
    estimates = resample([a, b], wanted, seed=seed) if wanted else {}
    found = []
    for name in shared:
        if name in a.proportions and name in b.proportions:
            found.append(gap_of_outcomes(_floats(a.proportions[name]), _floats(b.proportions[name]), metric=name))
        elif name in estimates:
            found.append(_gap_estimate(name, second[name] - first[name], estimates[name], _gap_bounds(a, b, name), a.n))
        else:
            found.append(_gap_without_interval(name, a, b, (first[name], second[name])))
    return tuple(found)


def gap_of_outcomes(a: Sequence[float], b: Sequence[float], *, metric: str) -> Gap:
    """The difference of two proportions on the same samples, from their outcomes (1.0 or 0.0), with McNemar's test.

    The p-value is McNemar's exact one, the interval Tango's score interval, which is a little less careful: near the
    edge it can leave out 0 where p is still above 0.05.

    Raises:
        BadInput: unequal lengths, or an outcome that is neither 0 nor 1.
    """
    from edgewise.stats.proportions import mcnemar_exact, paired_interval

    if len(a) != len(b):
        raise BadInput(
            f"{metric}: {len(a)} outcomes of the one and {len(b)} of the other can't be compared in pairs",
            advice="judge both models on the same samples",
        )
    if not set(a) | set(b) <= {0.0, 1.0}:
        raise BadInput(f"{metric}: outcomes are 1 or 0, and some are neither")
    method = "McNemar's exact test; Tango's score interval of the paired difference"
    if not len(a):
        return Gap(metric=metric, difference=None, low=None, high=None, p_value=None, n=0, method=method,
                   absent_because="there are no samples")  # fmt: skip
    lost = sum(1 for one, other in zip(a, b, strict=True) if one > other)
    gained = sum(1 for one, other in zip(a, b, strict=True) if one < other)
    low, high = paired_interval(lost, gained, len(a))
    return Gap(
        metric=metric, difference=(gained - lost) / len(a), low=low, high=high,
        p_value=mcnemar_exact(lost, gained), n=len(a), method=f"{method}; {gained} gained, {lost} lost",
    )  # fmt: skip


def _parts(table: Table) -> Sequence[Table]:
    return table.parts if isinstance(table, Composed) else [table]


def _score_proportion(metric: str, outcomes: Array) -> Score:
    from edgewise.stats.proportions import wilson_interval

    kept = _floats(outcomes)
    method = "share of samples, Wilson's 95 % interval"
    if not kept:
        return Score(metric=metric, value=None, low=None, high=None, n=0, method=method,
                     absent_because="there are no samples")  # fmt: skip
    hits = int(sum(kept))
    low, high = wilson_interval(hits, len(kept))
    return Score(metric=metric, value=hits / len(kept), low=low, high=high, n=len(kept), method=method, outcomes=kept)


def _score_estimate(
    metric: str, value: float, estimate: Estimate, *, bounds: tuple[float, float], n: int
) -> Score:  # fmt: skip
    if estimate.bootstrap is None:
        return Score(
            metric=metric, value=float(value), low=None, high=None, n=n, method=f"no interval: {estimate.method}"
        )
    low, high = _inside(estimate.bootstrap.interval(), bounds, value)
    return Score(metric=metric, value=float(value), low=low, high=high, n=n, method=estimate.method)


def _gap_estimate(metric: str, value: float, estimate: Estimate, bounds: tuple[float, float], n: int) -> Gap:
    if estimate.bootstrap is None:
        return Gap(metric=metric, difference=float(value), low=None, high=None,
                   p_value=1.0 if estimate.constant and value == 0.0 else None, n=n,
                   method=f"no interval: {estimate.method}")  # fmt: skip
    low, high = _inside(estimate.bootstrap.interval(), bounds, value)
    return Gap(
        metric=metric, difference=float(value), low=low, high=high, p_value=estimate.bootstrap.p_value(), n=n,
        method=f"paired {estimate.method}; p-value by inverting the interval",
    )  # fmt: skip


def _gap_without_interval(metric: str, a: Table, b: Table, values: tuple[float, float]) -> Gap:
    for side, table, value in (("A", a, values[0]), ("B", b, values[1])):
        if not math.isfinite(value):
            reason = _why_undefined(table, metric, value)
            return Gap(metric=metric, difference=None, low=None, high=None, p_value=None, n=a.n, method="",
                       absent_because=f"{side} has no value: {reason}")  # fmt: skip
    reason = _why_no_interval(a, metric) or _why_no_interval(b, metric) or ""
    return Gap(metric=metric, difference=values[1] - values[0], low=None, high=None, p_value=None, n=a.n,
               method=f"no interval: {reason}")  # fmt: skip


def _absent(metric: str, table: Table, value: float) -> Score:
    return Score(metric=metric, value=None, low=None, high=None, n=table.n, method="",
                 absent_because=_why_undefined(table, metric, value))  # fmt: skip


def _why_undefined(table: Table, metric: str, value: float) -> str:
    if table.n == 0:
        return "there are no samples"
    reason = table.explain(metric) if isinstance(table, Explains) else None
    if reason is not None:
        return reason
    return "it is not defined for these samples" if math.isnan(value) else "it is not finite for these samples"


def _why_no_interval(table: Table, metric: str) -> str | None:
    return table.no_interval.get(metric) if isinstance(table, NoInterval) else None


def _bounds(table: Table, metric: str) -> tuple[float, float]:
    return table.bounds.get(metric, SHARE)


def _gap_bounds(a: Table, b: Table, metric: str) -> tuple[float, float]:
    first, second = _bounds(a, metric), _bounds(b, metric)
    return second[0] - first[1], second[1] - first[0]


def _inside(interval: tuple[float, float], bounds: tuple[float, float], value: float) -> tuple[float, float]:
    # Rounding can put a mean of ones a hair above 1: the value itself is never cut off.
    low, high = max(interval[0], bounds[0]), min(interval[1], bounds[1])
    return min(low, float(value)), max(high, float(value))


def _floats(outcomes: Array) -> tuple[float, ...]:
    return tuple(float(each) for each in outcomes)
