"""Results of every verb in a few numbers: what tables over many results are made of."""

from __future__ import annotations

import json

import pytest

from edgewise.metrics import METRICS
from edgewise.verbs.bench import Bench
from edgewise.verbs.estimate.presentation import EstimatePresentation
from edgewise.verbs.measuring import Measured
from edgewise.verbs.optimize.presentation import OptimizePresentation
from estimates import estimated
from sample_optimizations import found, nothing_found
from sample_runs import failed_run, make_run


def check(rows):
    """What every row has."""
    for row in rows:
        assert {"model", "device", "runtime", "threads", "status", "headlines", "metrics"} <= set(row)
        assert all(name in METRICS for name in row["metrics"])
        if row["status"] == "done":
            assert row["headlines"] and set(row["headlines"]) <= set(row["metrics"])
        assert json.loads(json.dumps(row)) == row
    return rows


def test_runs_give_a_row_each_and_a_failed_one_its_cause():
    done, failed = check(Bench().presentation().rows(Measured(runs=[make_run(1), failed_run(2)])))
    assert done["metrics"]["latency"]["value"] == make_run(1).value("latency") and done["failure"] is None
    assert failed["status"] == "failed" and failed["failure"]["cause"]


def test_an_estimate_gives_one_row_with_its_interval(tmp_path):
    (row,) = check(EstimatePresentation().rows(estimated(tmp_path)))
    assert row["metrics"]["latency"] == pytest.approx(
        {"value": 1e-3, "low": 0.9e-3, "high": 1.1e-3, "unit": "s", "basis": "estimated"}
    )


def test_a_search_gives_its_choice_or_the_original():
    (row,) = check(OptimizePresentation().rows(found()))
    assert row["variant"] == found().chosen
    (row,) = check(OptimizePresentation().rows(nothing_found()))
    assert row["variant"] == nothing_found().baseline.id
