"""Results of sweeps, without a suite."""

from __future__ import annotations

from edgewise.verbs.outcome import Outcome
from edgewise.verbs.sweep.cells import Cell
from edgewise.verbs.sweep.result import SweepResult


def around(value, share=0.01):
    """A value with the ends of its interval."""
    return value, value * (1 - share), value * (1 + share)


def evaluated(values, **others):
    """A sweep of ``evaluate``: of each model the latency and the accuracy, both with their ends; None for a failure."""
    cells = [Cell(model=model, device="local", runtime="fake", threads="1") for model in values]
    outcomes = [_outcome(cell, given, others) for cell, given in zip(cells, values.values(), strict=True)]
    return SweepResult(suite="s", verb="evaluate", folder="f", cells=cells, outcomes=outcomes)


def _outcome(cell, given, others):
    if given is None:
        return Outcome(key=cell.name, cell=cell.name, status="failed", seconds=1, finished=1, cause="it broke")
    metrics = {
        metric: {"value": value, "low": low, "high": high, "unit": unit, "basis": "measured"}
        for metric, unit, (value, low, high) in zip(("latency", "accuracy_top1"), "s1", given, strict=False)
    }
    row = {"model": "m", "device": "local", "runtime": "fake", "threads": 1, "precision": None, "status": "done",
           "headlines": ["latency", "accuracy_top1"], "grade": "B", "metrics": metrics, **others}  # fmt: skip
    return Outcome(key=cell.name, cell=cell.name, status="done", seconds=1, finished=1, rows=[row])


def with_front():
    """Models on the front, behind it and beside it, one with one value and one that failed."""
    return evaluated({
        "slow": (around(4e-3), around(0.9)), "fast": (around(1e-3), around(0.7)),
        "worse": (around(5e-3), around(0.6)), "alike": (around(4.01e-3), around(0.899)),
        "same": (around(9e-3), around(0.9)), "half": (around(2e-3),), "broken": None,
    })  # fmt: skip
