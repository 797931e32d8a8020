"""A time budget is shared by the sessions of several jobs and the turns that decide their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from edgewise.record import InTurns, Run, Stopping, TargetSpec
from edgewise.record.job import Scenario
from edgewise.run.plan import Axes, Plan, make_plan
from edgewise.testing import write_fake_model
from edgewise.verbs.context import Context
from edgewise.verbs.measuring import execute
from sample_runs import make_run, run_id

BUDGET_S = 60.0


class Machine:
    """Sessions that take a given time, and turns that find one run faster; what both were asked for."""

    def __init__(self, clock, *, takes_s: float, finds: bool = True) -> None:
        self.clock, self.takes_s, self.finds = clock, takes_s, finds
        self.sessions_s: list[float | None] = []
        self.each_s: list[float] = []

    def execute(self, plan: Plan, *, sessions_s: float | None) -> list[Run]:
        self.sessions_s.append(sessions_s)
        self.clock.let_pass(self.takes_s)
        return [replace(make_run(1), id=run_id(at), job=job) for at, job in enumerate(plan.jobs)]

    def with_turns(self, few: Sequence[Run], history, *, each_s: float) -> list[Run]:
        self.each_s.append(each_s)
        found = InTurns(against="", ratio=1.0, low=0.9, high=1.1, verdict="inconclusive", method="m")
        return [
            replace(run, in_turns=tuple(replace(found, against=one.id) for one in few if one is not run and self.finds))
            for run in few
        ]


@pytest.fixture
def measured(monkeypatch, clock, tmp_path):
    def measure(count: int, *, takes_s: float, budget_s: float | None = BUDGET_S, finds: bool = True):
        machine = Machine(clock, takes_s=takes_s, finds=finds)
        monkeypatch.setattr("edgewise.verbs.measuring.Dispatcher", lambda **given: machine)
        monkeypatch.setattr("edgewise.verbs.measuring._compare_files", lambda runs, save: runs)
        monkeypatch.setattr("edgewise.comparing.finals.with_turns", machine.with_turns)
        paths = [write_fake_model(tmp_path / f"m{number}", latency_ns=[1_000_000]) for number in range(count)]
        plan = make_plan(
            paths, axes=Axes(runtimes=("fake",)), scenario=Scenario(), stopping=Stopping(), target=TargetSpec()
        )
        found = execute(plan, Context(keep=False), meters=False, turns="finalists", budget_s=budget_s)
        return machine, found

    return measure


def test_sessions_leave_a_part_of_the_budget_for_turns_which_get_what_is_left(measured):
    machine, found = measured(3, takes_s=42.0)
    assert machine.sessions_s == [36.0]
    assert machine.each_s == [6.0]  # 18 s are left for three
    assert found.skipped == () and all(len(run.in_turns) == 2 for run in found.runs)
    assert measured(2, takes_s=1.0)[0].each_s == [15.0]  # never more than without a budget
    assert measured(2, takes_s=100.0, budget_s=None)[0].each_s == [15.0]


def test_one_job_has_the_whole_budget(measured):
    machine, found = measured(1, takes_s=60.0)
    assert machine.sessions_s == [BUDGET_S] and machine.each_s == [] and found.skipped == ()


def test_a_budget_that_the_sessions_used_up_is_told(measured):
    told = (
        "in turns, which of m0 · fake/cpu and m1 · fake/cpu is faster: the sessions left too little of the time budget of "
        "1 min → raise --time-budget"
    )
    machine, found = measured(2, takes_s=60.0)
    assert machine.each_s == [] and found.skipped == (told,)
    machine, found = measured(2, takes_s=59.0, finds=False)  # no round fits
    assert machine.each_s == [0.5] and found.skipped == (told,)
