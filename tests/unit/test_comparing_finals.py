"""Runs that can't be told apart, measured in turns: which ratios they get, and when it ends."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.comparing import finals
from edgewise.comparing.comparison import Comparison, Side, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.finals import _told, can_take_turns, with_turns
from edgewise.comparing.turns import compare_in_turns
from edgewise.progress import Event, reporting_to
from edgewise.record import InTurns, Measurement, Run, Stopping, TargetSpec
from edgewise.record.job import Scenario
from edgewise.run import interleaving
from edgewise.run.plan import Axes, make_plan
from edgewise.stats.between_runs import Scatter
from edgewise.testing import write_fake_model
from messages import has, says
from sample_runs import make_run, run_id
from threaded_workers import install

MS = 1_000_000


@pytest.fixture(autouse=True)
def transport(monkeypatch, clock):
    """Workers are threads with clocks of their own."""
    yield install(monkeypatch, turns=8)


def run_of(number: int, folder: Path, milliseconds: float) -> Run:
    path = write_fake_model(folder / f"m{number}", latency_ns=[round(milliseconds * MS)])
    plan = make_plan(
        [path],
        axes=Axes(runtimes=("fake",)),
        scenario=Scenario(),
        stopping=Stopping(timeout_s=60.0),
        target=TargetSpec(),
    )
    row = Measurement.of("latency", milliseconds / 1e3, "made up")
    return Run(
        id=run_id(number), created_at="2026-01-01T00:00:00.000+00:00", job=plan.jobs[0], status="done",
        measurements=(row,),
    )  # fmt: skip


def test_ratios_of_finalists_are_those_of_their_turns(tmp_path):
    first, second, third = (run_of(number, tmp_path, ms) for number, ms in ((1, 1.0), (2, 1.09), (3, 1.0)))
    events: list[Event] = []
    with reporting_to(events.append):
        found = with_turns([first, second, third], lambda machine: [])
    assert [run.id for run in found] == [first.id, second.id, third.id]
    told = {run.id: {one.against: one for one in run.in_turns} for run in found}
    assert told[second.id][first.id].ratio == pytest.approx(1.09, rel=1e-6)
    assert told[first.id][second.id].ratio == pytest.approx(1 / 1.09, rel=1e-6)
    assert (told[first.id][second.id].verdict, told[second.id][first.id].verdict) == ("faster", "slower")
    assert (told[first.id][third.id].verdict, told[third.id][first.id].verdict) == ("same", "same")
    low, high = (getattr(told[first.id][second.id], name) for name in ("low", "high"))
    assert low <= 1 / 1.09 + 1e-9 and high >= 1 / 1.09 - 1e-9
    assert re.search(says("fresh-processes", pairs=has("pairs")), told[first.id][second.id].method)
    ends = told[second.id][first.id].rerun_low, told[second.id][first.id].rerun_high
    assert ends[0] < 1.09 < ends[1]  # what compare says of another time
    assert (told[first.id][second.id].rerun_low, told[first.id][second.id].rerun_high) == pytest.approx(
        (1 / ends[1], 1 / ends[0])
    )
    assert not events  # rows of progress would look like a second run


def test_ratios_with_runs_that_take_no_turns_now_are_kept(tmp_path):
    first, second = (run_of(number, tmp_path, 1.0) for number in (1, 2))
    old = InTurns(against=run_id(9), ratio=0.5, low=0.4, high=0.6, verdict="faster", method="earlier")
    stale = replace(old, against=second.id)
    found, _ = with_turns([replace(first, in_turns=(stale, old)), second], lambda machine: [])
    assert [one.against for one in found.in_turns] == [second.id, old.against]
    assert found.in_turns[0].ratio == pytest.approx(1.0, rel=1e-6) and found.in_turns[1] == old


def test_it_ends_once_the_leader_is_known(tmp_path, monkeypatch):
    rounds = []

    def count(schedule):
        rounds.append(1)
        return schedule

    taken = interleaving._State.take_places
    monkeypatch.setattr(interleaving._State, "take_places", lambda state: (count(state), taken(state))[1])
    with_turns([run_of(1, tmp_path, 1.0), run_of(2, tmp_path, 2.0)], lambda machine: [])
    assert len(rounds) == 5


def test_one_that_is_proven_slower_is_out_and_the_rest_is_measured_on(tmp_path, monkeypatch):
    scatter = {1: 0.0, 2: 0.1, 3: 0.0}
    runs = [run_of(1, tmp_path, 1.0), run_of(2, tmp_path, 1.05), run_of(3, tmp_path, 3.0)]
    known = {run.id: Scatter(scatter[place] ** 2, 100.0) for place, run in enumerate(runs, 1) if scatter[place]}
    monkeypatch.setattr(finals, "scatter_of_processes", lambda run: known.get(run.id))
    found = with_turns(runs, lambda machine: [])
    pairs = {
        (one, two): int(re.search(r"(\d+) pairs", runs_told.method)[1])
        for one, run in enumerate(found, 1)
        for two, other in enumerate(runs, 1)
        if (runs_told := run.turns_against(other)) is not None
    }
    assert pairs[1, 3] == pairs[2, 3] == pairs[3, 1] == pairs[3, 2] == 5
    assert pairs[1, 2] == pairs[2, 1] > 5
    assert (found[2].turns_against(runs[0]).verdict, found[2].turns_against(runs[1]).verdict) == ("slower", "slower")


def told_by(rows: dict[tuple[str, str], str]):
    """What compares pairs by these verdicts: (A, B) → that of B."""

    def compare(variants, pairs, metrics, *, criteria):
        return [
            Comparison(
                a=variants[a].label, b=variants[b].label, metric="latency", before=Side(value=1.0),
                after=Side(value=1.0), ratio=1.0, verdict=rows.get((variants[a].label, variants[b].label), "inconclusive"),
            )
            for a, b in pairs
        ]  # fmt: skip

    return compare


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        ({}, set()),
        ({("a", "c"): "slower"}, {"c"}),
        ({("a", "b"): "faster"}, {"a"}),  # the leader itself: who leads is not known before
        ({("a", "b"): "slower", ("a", "c"): "slower"}, "it is decided which are the fastest"),
        ({("a", "b"): "same", ("a", "c"): "slower"}, "it is decided which are the fastest"),
        ({("a", "b"): "faster", ("b", "c"): "slower"}, "it is decided which are the fastest"),
        ({("a", "b"): "same", ("a", "c"): "same"}, "it is decided which are the fastest"),
    ],
)
def test_who_is_out_and_when_it_ends(monkeypatch, verdicts, told):
    opposite = {"faster": "slower", "slower": "faster"}
    both = verdicts | {(b, a): opposite.get(verdict, verdict) for (a, b), verdict in verdicts.items()}
    monkeypatch.setattr(finals, "compare_pairs", told_by(both))
    monkeypatch.setattr(finals, "rows_with_reruns", lambda rows, variants, history: list(rows))
    bracket = finals._Bracket(Criteria(metrics=("latency",)), lambda machine: [])
    variants = [Variant(label=label, run=make_run(number)) for number, label in enumerate("abc", 1)]
    assert bracket.settle(variants) == told
    pairs = [frozenset((row.a, row.b)) for row in bracket.end(variants)]
    assert len(pairs) == len(set(pairs)) == 3


def test_a_finalist_that_fails_leaves_the_others_as_they_were(tmp_path):
    first, second = run_of(1, tmp_path, 1.0), run_of(2, tmp_path, 1.0)
    Path(second.job.model.path).write_text("{}")
    found = with_turns([first, second], lambda machine: [])
    assert [run.in_turns for run in found] == [(), ()]


def test_programs_and_tools_of_devices_take_no_turns():
    assert can_take_turns(make_run(1))
    assert not can_take_turns(make_run(1, runtime="benchmark_model"))


def test_where_the_interval_leaves_1_out_without_a_proof_the_one_that_decides_is_kept():
    row = Comparison(
        a="a", b="b", metric="latency", before=Side(value=1.0), after=Side(value=4.0), verdict="inconclusive", ratio=4.0,
        low=1.6, high=10.0, proof_low=0.8, proof_high=20.0, design="interleaved",
    )  # fmt: skip
    told = {own: _told(row, own) for own in ("a", "b")}
    assert (told["b"].low, told["b"].proof_low, told["b"].proof_high) == (1.6, 0.8, 20.0)
    assert (told["a"].ratio, told["a"].proof_low, told["a"].proof_high) == (0.25, 0.05, 1.25)
    run = replace(make_run(1), in_turns=(replace(told["b"], against=run_id(2)),))
    found = compare_in_turns(Variant(label="a", run=make_run(2)), Variant(label="b", run=run))
    assert found is not None and (found.proof_low, found.proof_high) == (0.8, 20.0)
