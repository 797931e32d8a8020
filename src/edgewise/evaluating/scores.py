"""From tables to numbers with intervals, and from two tables of the same samples to a paired difference.

A table may offer more than `MetricTable` asks for, each as a Protocol of its own: `ExplainsAbsence`, `NoInterval`,
`HasParts`, `TellsUnlike`, and for resampling `edgewise.evaluating.table_bootstrap.HasGroups` and `LimitsResamples`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from edgewise.errors import BadInput
from edgewise.evaluating.task import HasConfusion, MetricTable, Table

if TYPE_CHECKING:
    from edgewise.evaluating.table_bootstrap import BootstrapEstimate
    from edgewise.workload.arrays import Array

SHARE = (0.0, 1.0)
"""Bounds of a metric for which the table names no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One metric with its 95 % interval.

    Attributes:
        value: None where it is not defined, for the reason `absent_because`.
        low, high: None where there is no value, or no interval, for the reason in `method`.
        n: samples behind it.
        method: how value and interval came about, in words.
        outcomes: of a proportion: 1.0 or 0.0 per sample, in order; of others `HasParts.parts`, or empty.
    """

    metric: str
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    method: str = ""
    outcomes: tuple[float, ...] = ()
    absent_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDifference:
    """B's metric less A's, on the same samples, with its 95 % interval.

    Attributes:
        p_value: of no difference.
        method: ``McNemar's exact test …`` or ``paired bootstrap …``.
    """

    metric: str
    n: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    method: str = ""
    absent_because: str | None = None


@runtime_checkable
class ExplainsAbsence(Protocol):
    """A table that explains why a metric is not defined."""

    def explain(self, metric: str) -> str | None:
        """Return why `metric` is NaN; None where there is nothing to add."""


@runtime_checkable
class NoInterval(Protocol):
    """A table with metrics for which resampling makes no sense.

    Attributes:
        no_interval: metric → why there is no interval.
    """

    no_interval: Mapping[str, str]


@runtime_checkable
class HasParts(Protocol):
    """A table with metrics that are the geometric mean of one positive number per sample.

    Attributes:
        parts: metric → these numbers, float64 (n,).
    """

    parts: Mapping[str, Array]


@runtime_checkable
class TellsUnlike(Protocol):
    """A table with metrics that are another quantity for some other models."""

    def unlike(self, other: object, metric: str) -> str:
        """Return why `metric` of the table `other`, of the same samples, can't be compared; "" where it can."""


class JoinedTable(Table):
    """Tables of the same samples side by side, each with its own resamples; no metric is in two of them."""

    def __init__(self, parts: Sequence[MetricTable]) -> None:
        self.parts = parts
        self.n = parts[0].n
        self.proportions = {key: each for part in parts for key, each in part.proportions.items()}
        self.bounds = {key: each for part in parts for key, each in part.bounds.items()}
        confusing = next((part for part in parts if isinstance(part, HasConfusion)), None)
        if confusing is not None:
            self.confusion = confusing.confusion

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """As `MetricTable.values`."""
        return {name: value for part in self.parts for name, value in part.values(weights).items()}


def split_table(table: MetricTable) -> Sequence[MetricTable]:
    """Return the parts of a joined table; of another, the table itself."""
    return table.parts if isinstance(table, JoinedTable) else [table]


def score(table: MetricTable, *, seed: int = 0, only: Sequence[str] | None = None) -> tuple[Score, ...]:
    """Return every metric of `table`: Wilson's interval for proportions, else a BCa bootstrap over samples.

    The number of resamples is the largest of a few that fits a few seconds; `Score.method` has it. `only`: the metrics
    that are bootstrapped; of others that need it no interval is worked out. None: all of them.
    """
    from edgewise.evaluating.table_bootstrap import resample

    if isinstance(table, JoinedTable):
        return tuple(each for part in table.parts for each in score(part, seed=seed, only=only))
    values = table.values()
    reasons = {
        name: _why_no_interval(table, name) or ("" if only is None or name in only else "not requested")
        for name in values
    }
    wanted = [
        name for name, value in values.items()
        if name not in table.proportions and math.isfinite(value) and not reasons[name]
    ]  # fmt: skip
    estimates = resample([table], wanted, seed=seed) if wanted else {}
    found = []
    for name, value in values.items():
        if name in table.proportions:
            found.append(_score_proportion(name, table.proportions[name]))
        elif not math.isfinite(value):
            found.append(Score(metric=name, n=table.n, absent_because=_why_undefined(table, name, value)))
        else:
            bounds = table.bounds.get(name, SHARE)
            low, high, method = _interval(estimates.get(name), reasons[name], bounds, value)
            parts = tuple(table.parts.get(name, ())) if isinstance(table, HasParts) else ()
            each = tuple(map(float, parts))
            found.append(
                Score(metric=name, value=float(value), low=low, high=high, n=table.n, method=method, outcomes=each)
            )
    return tuple(found)


def _interval(
    estimate: BootstrapEstimate | None, reason: str, bounds: tuple[float, float], value: float
) -> tuple[float | None, float | None, str]:
    """Return the interval, and the method; None twice where there is none for `reason` or the estimate's own."""
    if estimate is None or estimate.bootstrap is None:
        return None, None, f"no interval: {reason if estimate is None else estimate.method}"
    low, high = estimate.bootstrap.interval()
    # Rounding can put a mean of ones a hair above 1: the value itself is always inside.
    return min(max(low, bounds[0]), float(value)), max(min(high, bounds[1]), float(value)), estimate.method


def compare_tables(
    a: MetricTable, b: MetricTable, *, seed: int = 0, only: Sequence[str] | None = None
) -> tuple[MetricDifference, ...]:
    """Return every metric that both have, B less A; sample i of both is the same sample.

    Proportions as `difference_of_outcomes`; others by percentiles of a bootstrap in which both count the same samples
    equally often, its p-value the least risk at which the interval leaves out 0 (twice the share of resamples on the
    other side of 0). `only`: as for `score`; others that need a bootstrap are left out. Raises `BadInput`: unequal n.
    """
    from edgewise.evaluating.table_bootstrap import resample

    if a.n != b.n:
        raise BadInput(
            f"{a.n} samples of the one and {b.n} of the other can't be compared in pairs",
            advice="evaluate both models on the same samples",
        )
    if isinstance(a, JoinedTable) or isinstance(b, JoinedTable):
        pairs = [(one, other) for one in split_table(a) for other in split_table(b)]
        return tuple(each for one, other in pairs for each in compare_tables(one, other, seed=seed, only=only))
    first, second = a.values(), b.values()
    outcomes = [name for name in first if name in a.proportions and name in b.proportions]
    shared = [name for name in first if name in second and (only is None or name in only or name in outcomes)]
    wanted = [
        name for name in shared
        if name not in outcomes and math.isfinite(first[name]) and math.isfinite(second[name])
        and not _why_no_interval(a, name) and not _why_no_interval(b, name)
    ]  # fmt: skip
    estimates = resample([a, b], wanted, seed=seed) if wanted else {}
    found = []
    for name in shared:
        sides = [(side, table, values[name]) for side, table, values in (("A", a, first), ("B", b, second))]
        undefined = next((each for each in sides if not math.isfinite(each[2])), None)
        if isinstance(a, TellsUnlike) and (why := a.unlike(b, name)):
            found.append(MetricDifference(metric=name, n=a.n, absent_because=why))
        elif name in outcomes:
            found.append(difference_of_outcomes(*(list(map(float, t.proportions[name])) for t in (a, b)), metric=name))
        elif undefined is not None:
            side, table, value = undefined
            reason = f"{side} has no value: {_why_undefined(table, name, value)}"
            found.append(MetricDifference(metric=name, n=a.n, absent_because=reason))
        else:
            found.append(_estimated_difference(name, a, b, second[name] - first[name], estimates.get(name)))
    return tuple(found)


def _estimated_difference(
    metric: str, a: MetricTable, b: MetricTable, value: float, estimate: BootstrapEstimate | None
) -> MetricDifference:
    one, other = (table.bounds.get(metric, SHARE) for table in (a, b))
    reason = _why_no_interval(a, metric) or _why_no_interval(b, metric)
    low, high, method = _interval(estimate, reason, (other[0] - one[1], other[1] - one[0]), value)
    p_value = None
    if estimate is not None and estimate.bootstrap is not None:
        p_value = estimate.bootstrap.p_value()
        method = f"paired {method}; p-value by inverting the interval"
    elif estimate is not None and estimate.constant and value == 0.0:
        p_value = 1.0
    return MetricDifference(
        metric=metric, difference=float(value), low=low, high=high, p_value=p_value, n=a.n, method=method
    )


def difference_of_outcomes(a: Sequence[float], b: Sequence[float], *, metric: str) -> MetricDifference:
    """Return the difference of two proportions on the same samples, from outcomes of 1.0 or 0.0, with McNemar's test.

    The p-value is McNemar's exact one; the interval, Fay and Lumbard's, leaves out 0 where that is below 0.05.

    Raises:
        BadInput: an outcome that is neither 0 nor 1.
        ValueError: unequal lengths.
    """
    from edgewise.stats.proportions import mcnemar_exact, paired_interval

    if not {*a, *b} <= {0.0, 1.0}:
        raise BadInput(f"{metric}: outcomes are 1 or 0, and some are neither")
    method = "McNemar's exact test; Fay and Lumbard's interval of the paired difference"
    if not len(a):
        return MetricDifference(metric=metric, n=0, method=method, absent_because="there are no samples")
    lost = sum(1 for one, other in zip(a, b, strict=True) if one > other)
    gained = sum(1 for one, other in zip(a, b, strict=True) if one < other)
    low, high = paired_interval(lost, gained, len(a))
    return MetricDifference(
        metric=metric, difference=(gained - lost) / len(a), low=low, high=high,
        p_value=mcnemar_exact(lost, gained), n=len(a), method=f"{method}; {gained} gained, {lost} lost",
    )  # fmt: skip


def _score_proportion(metric: str, outcomes: Array) -> Score:
    from edgewise.stats.proportions import wilson_interval

    kept = tuple(map(float, outcomes))
    method = "share of samples, Wilson's 95 % interval"
    if not kept:
        return Score(metric=metric, n=0, method=method, absent_because="there are no samples")
    hits = int(sum(kept))
    low, high = wilson_interval(hits, len(kept))
    return Score(metric=metric, value=hits / len(kept), low=low, high=high, n=len(kept), method=method, outcomes=kept)


def _why_undefined(table: MetricTable, metric: str, value: float) -> str:
    if table.n == 0:
        return "there are no samples"
    reason = table.explain(metric) if isinstance(table, ExplainsAbsence) else None
    return reason or f"it is not {'defined' if math.isnan(value) else 'finite'} for these samples"


def _why_no_interval(table: MetricTable, metric: str) -> str:
    return table.no_interval.get(metric, "") if isinstance(table, NoInterval) else ""
