"""Programs on a busy machine: which is fastest by all that the load of others touches, or needs the least time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from edgewise.comparing.comparison import Comparison, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_runs
from edgewise.formatting import amount_text, quantity, times_text
from edgewise.record import Run
from edgewise.report.bench.ranking import (
    NOT_TOLD,
    worst_load,
)
from edgewise.report.bench.values import headline_text
from edgewise.stats.turns import Turns, log_ratios
from edgewise.text import enumerate_few, one_line


def is_decided_by_load(runs: Sequence[Run]) -> bool:
    """Whether `runs` are of programs whose order the load of others decides, and whose processor time is known."""
    spent = [run for run in runs if run.status == "done" and run.value("cpu_time")]
    return len(spent) > 1 and all(run.job.command for run in runs) and bool(worst_load(runs))


def line_under_load(runs: Sequence[Run]) -> str:
    """Return which program is fastest on a busy machine, where all that load touches says the same of every other.

    Otherwise which needs the least processor time, and what the total times of executions in turns leave open.
    """
    spent = {run.id: time for run in runs if run.status == "done" and (time := run.value("cpu_time"))}
    first, *others = sorted((run for run in runs if run.id in spent), key=lambda run: spent[run.id])
    variants = [Variant(label=run.id, run=run) for run in (first, *others)]
    rows = compare_runs(variants, Criteria(metrics=("total_time", "cpu_time")))
    found = {(row.b, row.metric): row for row in rows}
    slower = [run for run in others if _is_slower_in_turns(run, first, [row for row in rows if row.b == run.id])]
    best = one_line(first.job.model.name)
    told = [f"{one_line(run.job.model.name)} is {_factor(found[run.id, 'total_time'])} slower" for run in slower]
    if len(slower) == len(others):
        proof = f"in turns within these minutes; processor times say the same ({worst_load(runs)})"
        return f"Fastest: {best}, {headline_text(first)}; {enumerate_few(told)}, {proof}"
    more, alike = [], []
    for run in others:
        row, name = found[run.id, "cpu_time"], one_line(run.job.model.name)
        if row.verdict == "slower" and row.ratio is not None:
            more.append(f"{name} needs {_factor(row)} as much")
        else:
            alike.append(f"{name} ({quantity(spent[run.id], 's')})")
    least = first.measurement("cpu_time")
    text = amount_text("s", spent[first.id], *((least.low, least.high) if least is not None else (None, None)))
    costs = [*([enumerate_few(more)] if more else []), *([f"{enumerate_few(alike)} {NOT_TOLD}"] if alike else [])]
    doubtful = [run for run in others if run not in slower]
    limits = [
        f"above {limit} for {one_line(run.job.model.name)}" for run in doubtful if (limit := _limit_of(found, run.id))
    ]
    said = [f"in total time {enumerate_few(told)} than {best}"] if told else []
    said += [f"excluded are differences of total time from {best} {enumerate_few(limits)}"] if limits else []
    which = f"of {enumerate_few([best, *(one_line(run.job.model.name) for run in doubtful)])} " if told else ""
    return (
        f"Which {which}is fastest can't be told on this busy machine ({worst_load(runs)}); least processor time: "
        f"{best}, {text}; {'; '.join([*costs, *said])}"
    )


def _factor(row: Comparison) -> str:
    return "" if row.ratio is None else times_text(row.ratio, row.low, row.high)


def _limit_of(found: Mapping[tuple[str, str], Comparison], run: str) -> str:
    """``"24 %"``: the difference in total time that the 95 % interval excludes; "" where there is none."""
    row = found[run, "total_time"]
    if row.low is None or row.high is None or row.design != "interleaved" or row.low == row.high:
        return ""
    return f"{math.ceil(max(row.high - 1.0, 1.0 - row.low) * 100)} %"


def _is_slower_in_turns(run: Run, first: Run, rows: Sequence[Comparison]) -> bool:
    """Return whether executions in turns prove `run` slower than `first` in total and in processor time.

    As of inferences in turns, the mean, the shortest tenth and neighbouring executions must not contradict that.
    """
    if any(row.verdict != "slower" or row.design != "interleaved" for row in rows):
        return False
    turns = [_turns_of_executions(each) for each in (first, run)]
    return all(log > 0.0 for logs in log_ratios(turns[:1], turns[1:]).values() for log in logs.tolist())


def _turns_of_executions(run: Run) -> Turns:
    """Return the executions of a program as turns of one inference each."""
    row = run.measurement("total_time")
    times = np.asarray(row.samples if row is not None else ())
    return Turns.of(times, [1] * len(times))
