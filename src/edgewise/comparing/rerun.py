"""How far a ratio may be from its value at another time: turns cancel only what slows both sides alike.

Caches and memory that other programs use slow one engine or model more than another. Recorded comparisons of one pair,
minutes apart on a busy machine, had ratios that varied by 0.2 % (a network in the cache) to 25 % (one beyond it), while
the reference kernels' ratio of arithmetic to copying varied by 25 to 40 % beside all of them: it tells how busy the
memory was, and not how much that moves a ratio. So the interval for a re-run rests on earlier comparisons of the same
pair, on how the rounds of this one differ, and on how much more one side's own times vary than the other's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from edgewise.comparing.comparison import Comparison, ComparisonResult, Variant
from edgewise.errors import StoreError
from edgewise.record import Run, Variation
from edgewise.record.reference import KERNELS, Reading, machine_key, readings_of
from edgewise.run.reference import VERSION
from edgewise.run.variation import (
    BEYOND,
    FLOOR,
    GUESS,
    LEAST_OWN,
    MOST_OWN,
    TOO_FEW,
    History,
    assumed,
    long_time,
    prior_of,
)
from edgewise.stats.autocorrelation import split_sessions
from edgewise.stats.between_runs import BetweenRuns, ReadingBlocks, Scatter, add, estimate_between_runs, pool
from edgewise.stats.distributions import t_quantile

LEAST_READINGS = 8
"""Earlier readings of a kernel whose median is its usual time."""


def with_reruns(findings: ComparisonResult, history: History) -> ComparisonResult:
    """Return `findings` with the interval of each headline ratio for another time, and the machine's state meanwhile.

    Args:
        history: readings of earlier runs on a machine, given its key.
    """
    runs = {variant.label: variant.run for variant in findings.variants}
    if not any(row.design == "interleaved" for row in findings.comparisons):
        return findings
    earlier = _earlier(list(runs.values()), history)
    rows = tuple(_with_rerun(row, runs, earlier) for row in findings.comparisons)
    return replace(findings, comparisons=rows, conditions=tuple(_kernel_lines(list(runs.values()), earlier)))


def rows_with_reruns(rows: Sequence[Comparison], variants: Sequence[Variant], history: History) -> list[Comparison]:
    """`rows` of `variants` that took turns, each with its interval for another time; `history` as of `with_reruns`."""
    runs = {variant.label: variant.run for variant in variants}
    earlier = _earlier(list(runs.values()), history)
    return [_with_rerun(row, runs, earlier) for row in rows]


def _earlier(runs: Sequence[Run], history: History) -> list[Reading]:
    """Return the readings of earlier commands on the machine of `runs`; a store that can't be read tells none."""
    key = machine_key(runs[0].environment) if runs else None
    with suppress(StoreError):
        return [] if key is None else [each for each in history(key) if each.group != runs[0].group]
    return []


def _with_rerun(row: Comparison, runs: Mapping[str, Run], earlier: Sequence[Reading]) -> Comparison:
    """`row` with its interval for another time, where its sides took turns and the metric is their headline."""
    a, b = runs.get(row.a), runs.get(row.b)
    if row.rerun_low is not None:  # known since their turns
        return row
    if a is None or b is None or row.design != "interleaved" or row.metric != a.headline:
        return row
    if row.ratio is None or row.low is None or row.high is None or row.low <= 0.0:
        return row
    scatter, method = scatter_of_ratio(a, b, earlier)
    reach = t_quantile(0.975, scatter.degrees) * math.sqrt(scatter.variance)
    below, above = (math.exp(math.hypot(math.log(end), reach)) for end in (row.ratio / row.low, row.high / row.ratio))
    sigma = math.hypot(math.log(row.high / row.low) / (2 * 1.96), math.sqrt(scatter.variance))
    return replace(
        row, rerun_low=row.ratio / below, rerun_high=row.ratio * above, rerun_sigma=sigma, rerun_method=method
    )


def scatter_of_ratio(a: Run, b: Run, earlier: Sequence[Reading]) -> tuple[Scatter, str]:
    """Return the variance of the logarithm of a ratio between comparisons, beyond the interval within one; and its
    method.
    """
    prior = prior_of(a.environment)
    parts, words = [Scatter(prior.unseen**2, GUESS)], []
    if (rounds := _scatter_of_rounds(a, b)) is not None:
        parts.append(rounds)
        words.append("how its rounds differ")
    if a.variation is not None and b.variation is not None:
        one, two = _alike(a, b, earlier) or (a.variation, b.variation)
        degrees = min((each.degrees for each in (one, two) if each.degrees is not None), default=GUESS)
        parts.append(Scatter(max((one.sigma - two.sigma) ** 2, FLOOR**2), degrees))
        words.append("how much more one side's own times vary than the other's")
    found = add(parts)
    own = _own_ratios(a, b, earlier)
    if own is None:
        return found, f"assumed for {prior.kind}, and from {' and '.join(words) or 'nothing else'}: too few comparisons"
    told = f"learnt from {own.blocks} comparisons of the two over {long_time(own.span_s)}"
    if own.is_learnt:
        return Scatter(max(own.sigma, FLOOR) ** 2, own.degrees), told
    return pool([found, own.scatter], floor=FLOOR**2), " and from ".join([told, *words])


def _alike(a: Run, b: Run, earlier: Sequence[Reading]) -> tuple[Variation, Variation] | None:
    """How both sides vary by this comparison alone, where the variation of one rests on earlier runs of its own job.

    That of the other rests on the kind of machine: the two would differ by what is known, not by how they vary.
    """
    runs = (a, b)
    counts = [len({each.run for each in earlier if each.job == run.job.key and each.value}) for run in runs]
    if (counts[0] < LEAST_OWN - 1) == (counts[1] < LEAST_OWN - 1):
        return None
    one, two = (assumed(prior_of(run.environment), TOO_FEW, row=run.measurement(run.headline)) for run in runs)
    return one, two


def _scatter_of_rounds(a: Run, b: Run) -> Scatter | None:
    """Return what the ratios of the rounds' medians tell; None with fewer than three rounds."""
    sides = [run.measurement(run.headline) for run in (a, b)]
    medians = [
        np.array([np.median(each) for each in split_sessions(row.samples, row.session_lengths)])
        for row in sides
        if row is not None and row.samples
    ]
    if len(medians) < 2 or len(medians[0]) != len(medians[1]) or len(medians[0]) < 3:
        return None
    if min(map(np.min, medians)) <= 0.0:
        return None
    ratios = np.log(medians[1]) - np.log(medians[0])
    return Scatter(max(BEYOND * float(ratios.var(ddof=1)), FLOOR**2), GUESS)


def _own_ratios(a: Run, b: Run, earlier: Sequence[Reading]) -> BetweenRuns | None:
    """Return what comparisons of the same two jobs differ by, this one included; None while there are too few."""
    groups: dict[str, dict[str, Reading]] = {}
    for each in earlier:
        if each.group and each.job in (a.job.key, b.job.key) and each.value:
            groups.setdefault(each.group, {})[each.job or ""] = each
    pairs = [(found[a.job.key], found[b.job.key]) for found in groups.values() if len(found) == 2]
    ratios = sorted((one.at, math.log(two.value / one.value)) for one, two in pairs if one.value and two.value)
    values = [row.value for run in (a, b) if (row := run.measurement(run.headline)) is not None]
    now = readings_of(a.sessions)
    if len(values) == 2 and values[0] and values[1] and now:
        ratios.append((now[0].at, math.log(values[1] / values[0])))
    if len(ratios) < LEAST_OWN or a.job.key == b.job.key:
        return None
    times, levels = np.array(ratios[-MOST_OWN:]).T
    return estimate_between_runs(ReadingBlocks(levels=levels, noise=0.0, starts=times, ends=times))


def _kernel_lines(runs: Sequence[Run], earlier: Sequence[Reading]) -> list[str]:
    """How long the reference kernels took meanwhile, beside their usual times on this machine where they are known."""
    now = [each for run in runs for each in readings_of(run.sessions) if each.version == VERSION]
    usual = [each for each in earlier if each.version == VERSION]
    if not now:
        return []
    told = []
    for kernel in KERNELS:
        logs = np.log([getattr(each, kernel) for each in now])
        low, high = np.quantile(logs, (0.1, 0.9))
        words = [f"readings within {math.exp(float(high - low)):.2f}×"] if len(logs) >= LEAST_READINGS else []
        if len(usual) >= LEAST_READINGS:
            level = float(np.median(logs)) - float(np.median(np.log([getattr(each, kernel) for each in usual])))
            words.insert(0, f"{math.exp(level):.2f}× its usual time")
        told.append(f"{_KERNELS[kernel]}: {', '.join(words)}" if words else "")
    return [line for line in told if line]


_KERNELS = {"compute": "arithmetic in the cache", "copy": "copying in memory"}
