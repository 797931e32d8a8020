"""Bootstraps of whole tables: every metric from the same resamples, as many as a few seconds have room for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgewise.cancellation import check
from edgewise.evaluating.task import MetricTable
from edgewise.stats.resampling import Bootstrap, Resampler, bootstrap, joint_groups, percentiles

Floats = NDArray[np.float64]

LEAST_SAMPLES = 10
"""Below, resamples are too alike for an interval to hold what it claims."""

RUNGS = (1999, 999, 499, 199)
"""Numbers of resamples: by chance alone the ends of an interval are off by 3, 4, 6 and 10 % of its half-width (one
standard deviation, for a normal distribution). Few numbers, far apart: the same machine comes to the same one again."""

SECONDS = 5.0
"""What resampling may take, where it can be done in that time."""
MOST_SECONDS = 60.0
"""What the least number of resamples may take."""

TRIALS = 3
PARTS = 200
"""Parts that are left out in turn to find the acceleration; a tenth of the resamples at most."""

MOST_UNDEFINED = 0.05
"""Share of resamples without a value beyond which there is no interval."""

SAME = 1e-12


@runtime_checkable
class HasGroups(Protocol):
    """A table with groups of interchangeable samples, so that resamples are counts of a few groups.

    Attributes:
        groups: intp (n,): of each sample the number of its group, from 0, every number used.
    """

    groups: NDArray[Any]

    def values_of(self, counts: NDArray[Any]) -> Mapping[str, float]:
        """As `MetricTable.values`, where group i counts counts[i] times: float64 (groups,)."""


@runtime_checkable
class LimitsResamples(Protocol):
    """A table whose values are slow to compute.

    Attributes:
        most_resamples: at most, and no acceleration is computed.
        most_seconds: how long all of that may take.
    """

    most_resamples: int
    most_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapEstimate:
    """The bootstrap of one metric.

    Attributes:
        bootstrap: None where there is none.
        method: how, or why not, in words.
        constant: whether every resample gives the same value.
    """

    bootstrap: Bootstrap | None
    method: str
    constant: bool = False


def resample(tables: Sequence[MetricTable], metrics: Sequence[str], *, seed: int) -> dict[str, BootstrapEstimate]:
    """Bootstrap each metric of one table, or the differences between two on the same samples, second less first."""
    n = tables[0].n
    if n < LEAST_SAMPLES:
        reason = f"{n} samples are too few to resample; the minimum is {LEAST_SAMPLES}"
        return {name: BootstrapEstimate(bootstrap=None, method=reason) for name in metrics}
    groups, evaluate = _make_statistic(tables, metrics)
    resampler = Resampler(groups, seed=seed)
    draws = resampler.draw()
    first, seconds = zip(*[_time_next(evaluate, draws) for _ in range(TRIALS)], strict=True)
    each = min(seconds)  # other load makes it longer, never shorter
    costly = [table for table in tables if isinstance(table, LimitsResamples)]
    most = min([table.most_resamples for table in costly], default=RUNGS[0])
    size = _choose_size(each, most, seconds=min([table.most_seconds for table in costly], default=MOST_SECONDS))
    if size is None:
        reason = f"one resample takes {each:.2g} s, and there is no time for {min(RUNGS[-1], most)} of them"
        return {name: BootstrapEstimate(bootstrap=None, method=reason) for name in metrics}
    replicates = np.array([*first, *(evaluate(counts) for counts in islice(draws, size - TRIALS))])
    value = evaluate(resampler.sizes)
    if len(tables) > 1:
        return {name: _estimate(value[index], replicates[:, index]) for index, name in enumerate(metrics)}
    left_out, counts = _leave_out(resampler, evaluate, 0 if costly else min(PARTS, size // 10))
    return {
        name: _estimate(value[index], replicates[:, index], (left_out[:, index], counts))
        for index, name in enumerate(metrics)
    }


def _estimate(value: float, replicates: Floats, left_out: tuple[Floats, Floats] | None = None) -> BootstrapEstimate:
    """Return a corrected bootstrap where samples were left out; plain percentiles for a difference (None)."""
    finite = replicates[np.isfinite(replicates)]
    undefined = 1.0 - finite.size / replicates.size
    if undefined > MOST_UNDEFINED:
        reason = f"{undefined:.0%} of {replicates.size} resamples have no value, such as one without one of the classes"
        return BootstrapEstimate(bootstrap=None, method=reason)
    largest = max(abs(value), float(np.abs(finite).max()))
    if float(np.ptp(finite)) <= SAME * largest:
        return BootstrapEstimate(
            bootstrap=None, method="every resample of these samples gives the same value", constant=True
        )
    aside = f", {replicates.size - finite.size} without a value left out" if undefined else ""
    if left_out is None:
        kind, found = "percentile", percentiles(value, finite)
    else:
        kind, found = "BCa" if left_out[0].size else "bias-corrected", bootstrap(value, finite, *left_out)
    return BootstrapEstimate(
        bootstrap=found, method=f"{kind} bootstrap over samples, {replicates.size} resamples{aside}, 95 % interval"
    )


def _choose_size(each: float, most: int, *, seconds: float) -> int | None:
    """Return how many resamples fit, of `each` seconds and at most `most`; None where the least take too long."""
    allowed = [rung for rung in RUNGS if rung <= most] or [most]
    fitting = [rung for rung in allowed if rung * each <= SECONDS]
    if fitting:
        return fitting[0]
    return allowed[-1] if allowed[-1] * each <= seconds else None


def _time_next(evaluate: Callable[[Floats], Floats], draws: Iterator[Floats]) -> tuple[Floats, float]:
    """Return the statistics of the next resample, and how many seconds it took."""
    started = time.perf_counter()
    found = evaluate(next(draws))
    return found, time.perf_counter() - started


def _leave_out(resampler: Resampler, evaluate: Callable[[Floats], Floats], parts: int) -> tuple[Floats, Floats]:
    if parts < 2:
        width = evaluate(resampler.sizes).size
        return np.empty((0, width)), np.empty(0)
    pairs = [(evaluate(counts), many) for counts, many in resampler.leave_out(parts)]
    return np.array([row for row, _ in pairs]), np.array([many for _, many in pairs])


def _make_statistic(
    tables: Sequence[MetricTable], metrics: Sequence[str]
) -> tuple[NDArray[np.intp], Callable[[Floats], Floats]]:
    """Return groups of samples, and a function from their counts to the metrics, or to differences of two tables."""

    def row(values: Mapping[str, float]) -> Floats:
        return np.array([values[name] for name in metrics], dtype=np.float64)

    if len(tables) == 1:
        groups, values = _find_groups(tables[0])

        def statistics(counts: Floats) -> Floats:
            check()
            return row(values(counts))

        return groups, statistics
    (first, values_a), (second, values_b) = _find_groups(tables[0]), _find_groups(tables[1])
    groups, of_a, of_b = joint_groups(first, second)
    width_a, width_b = int(first.max()) + 1, int(second.max()) + 1

    def difference(counts: Floats) -> Floats:
        check()
        a = values_a(np.bincount(of_a, weights=counts, minlength=width_a))
        b = values_b(np.bincount(of_b, weights=counts, minlength=width_b))
        with np.errstate(invalid="ignore"):  # infinity less infinity has no value, and is left out later
            return row(b) - row(a)

    return groups, difference


def _find_groups(table: MetricTable) -> tuple[NDArray[np.intp], Callable[[Any], Mapping[str, float]]]:
    if isinstance(table, HasGroups):
        return np.asarray(table.groups, dtype=np.intp), table.values_of
    return np.arange(table.n, dtype=np.intp), table.values
