"""Which place is the best of a model in a sweep: the one that reports recommend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.record import Caution
from edgewise.report.bench.ranking import finalists, rank_models
from edgewise.verbs.rows import rows_of_runs
from edgewise.verbs.sweep.standing import standings_of
from edgewise.verbs.sweep.values import values_of
from sample_runs import MISMATCH, VWW, make_run


def standings(runs, held=None):
    """Of each model by its name; the places are the ids of runs."""
    rows = [{"named": row["model"], **row} for row in rows_of_runs(runs)]
    places = [row["run"] for row in rows]
    known = {run.id: run for run in (runs if held is None else held)}
    return standings_of("latency", values_of(rows, places, "latency", known))


def test_of_runs_that_cant_be_told_apart_the_one_that_reports_recommend_is_the_best():
    """The better value has the larger memory; of the other model the better value has more threads."""
    quick = make_run(1, latency=4.0e-4, half=3e-5, memory=90e6, grade="A")
    lean = make_run(2, runtime="openvino", latency=4.2e-4, half=3e-5, memory=40e6, grade="A")
    two = make_run(3, latency=4.0e-4, half=3e-5, threads=2, model=VWW)
    one = make_run(4, latency=4.1e-4, half=3e-5, threads=1, model=VWW)
    far = make_run(5, latency=9.0e-4, half=1e-6, runtime="litert", model=VWW)
    runs = [quick, lean, two, one, far]
    found = standings(runs)
    first, second = found[lean.job.model.name], found[VWW.name]
    assert (first.best, first.alike, first.unranked) == (lean.id, {quick.id}, {}) and first.is_judged
    assert (second.best, second.alike) == (one.id, {two.id})
    assert {each.run.id for each in rank_models(runs)} == {first.best, second.best}


def test_what_reports_leave_out_is_not_ranked_and_says_why():
    good, vague = make_run(1, latency=4e-4), make_run(2, latency=3e-4, runtime="litert", grade="D")
    wrong = make_run(3, latency=2e-4, runtime="openvino")
    wrong = replace(wrong, cautions=(*wrong.cautions, Caution.of("output-mismatch", MISMATCH)))
    slow = make_run(4, latency=9e-4, runtime="tvm")
    (found,) = standings([vague, wrong, good, slow]).values()
    assert (found.best, found.alike, found.sole) == (good.id, frozenset(), None)
    assert found.unranked == {vague.id: "grade D, looks better", wrong.id: "outputs differ"}
    assert [each.run.id for each in rank_models([vague, wrong, good, slow])] == [good.id]
    (none,) = standings([vague, wrong]).values()
    assert (
        none.best is None and none.sole is None and none.unranked == {vague.id: "grade D", wrong.id: "outputs differ"}
    )


@pytest.mark.parametrize("is_held", [True, False])
def test_a_value_that_prints_as_the_best_one_does_not_look_better(is_held):
    good, slow = make_run(1, latency=2.084e-4), make_run(2, latency=9e-4, runtime="tvm")
    vague = make_run(3, latency=2.081e-4, runtime="litert", grade="D")
    (found,) = standings([vague, good, slow], held=None if is_held else []).values()
    assert (found.best, found.unranked) == (good.id, {vague.id: "grade D, may be as good"})


@pytest.mark.parametrize("is_held", [True, False])
def test_the_only_place_that_could_be_ranked_is_no_best(is_held):
    good, vague = make_run(1, latency=4e-4), make_run(2, latency=9e-4, runtime="litert", grade="D")
    (found,) = standings([vague, good], held=None if is_held else []).values()
    assert (found.best, found.sole, found.alike) == (None, good.id, frozenset())
    assert found.unranked == {vague.id: "grade D"} and found.is_judged == is_held


@pytest.mark.parametrize("is_held", [True, False])
def test_a_place_of_grade_d_whose_interval_reaches_the_best_may_be_as_good(is_held):
    good, slow = make_run(1, latency=4e-4), make_run(2, latency=9e-4, runtime="litert")
    near = make_run(3, latency=6e-4, half=2e-4, runtime="openvino", grade="D")
    far = make_run(4, latency=6e-4, half=1e-5, runtime="tvm", grade="D")
    (found,) = standings([good, slow, near, far], held=None if is_held else []).values()
    assert found.best == good.id and found.unranked == {near.id: "grade D, may be as good"}


def test_what_drift_may_have_put_behind_takes_turns_too():
    """The values of a night in which the speed of a machine changed by a factor of 1.6."""
    best = make_run(1, latency=2.51e-4, half=3e-5, grade="C")
    slow = make_run(2, latency=3.57e-4, half=5e-5, runtime="openvino", grade="C")
    far = make_run(3, latency=5.1e-4, half=1e-5, runtime="tvm", grade="C")
    vague = make_run(4, latency=6e-4, half=4e-4, runtime="litert", grade="D")
    runs = [far, vague, slow, best]
    assert finalists([far, slow, best]) == []
    assert finalists(runs, drifted=True) == [[best, slow, vague]]
    assert finalists([best, far], drifted=True) == []
    (found,) = standings(runs).values()
    assert [run.id for run in found.without_turns] == [best.id, slow.id, vague.id]
    (found,) = standings([best, far]).values()
    assert (found.best, found.why, found.without_turns) == (best.id, "proven by their processes", ())


def test_values_decide_where_a_run_is_not_at_hand():
    quick, lean = make_run(1, latency=4.0e-4, half=3e-5), make_run(2, runtime="litert", latency=4.2e-4, half=3e-5)
    (found,) = standings([quick, lean], held=[quick]).values()
    assert (found.best, found.alike, found.is_judged) == (quick.id, {lean.id}, False)
