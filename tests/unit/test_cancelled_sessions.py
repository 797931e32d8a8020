"""A cancel token ends a session at once and keeps what is finished, wherever the host waits."""

from dataclasses import replace

import pytest

from edgewise.cancellation import CancelToken, cancellable
from edgewise.progress import SessionStarted, reporting_to
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.interleaving import Interleaver, Schedule
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF
from edgewise.testing import write_fake_model
from threaded_workers import play_worker


def jobs_of(tmp_path, *, sessions=2, spread_s=None, hang_after=None):
    path = tmp_path / "m.fake"
    behaviour = {} if hang_after is None else {"behaviour": {"at": "invoke", "after": hang_after, "do": "hang"}}
    write_fake_model(path, latency_ns=[1_000_000], **behaviour)
    stopping = Stopping(iterations=3, warmup=1, sessions=sessions, spread_s=spread_s)
    return make_plan([path], axes=Axes(), scenario=Scenario(), stopping=stopping, target=TargetSpec())


@pytest.fixture
def cancelled(threads, clock):
    """What a plan leaves that is cancelled `seconds` after its begin, by the clock; `progress` is told its events."""

    def execute(plan, *, seconds, progress=None):
        token, saved, begin = CancelToken(), [], clock.now()
        clock.after(seconds, lambda: token.cancel("enough"))
        with cancellable(token), reporting_to(progress), pytest.raises(Interrupted) as stopped:
            Dispatcher(save=saved.append, sensors=METERS_OFF).execute(plan)
        assert clock.now() - begin == seconds
        assert len(threads.ended) == len(threads.jobs)
        (run,) = stopped.value.runs
        assert saved[-1].id == run.id
        return run

    return execute


def test_a_token_ends_a_silent_worker_and_keeps_the_finished_session(tmp_path, cancelled):
    def progress(event):
        if isinstance(event, SessionStarted) and event.index == 1:
            behaviour = {"at": "invoke", "after": 0, "do": "hang"}
            write_fake_model(tmp_path / "m.fake", latency_ns=[1_000_000], behaviour=behaviour)

    run = cancelled(jobs_of(tmp_path, sessions=3), seconds=0.5, progress=progress)
    assert run.status == "cancelled" and len(run.sessions) == 1 and run.value("latency") == 1e-3


def test_a_token_ends_the_wait_between_sessions_that_lie_apart(tmp_path, cancelled):
    run = cancelled(jobs_of(tmp_path, sessions=2, spread_s=300.0), seconds=299.0)
    assert run.status == "cancelled" and len(run.sessions) == 1 and run.value("latency") == 1e-3


def test_sessions_that_lie_apart_begin_at_their_times(tmp_path, threads, clock):
    begins, begin = [], clock.now()

    def progress(event):
        if isinstance(event, SessionStarted):
            begins.append(clock.now() - begin)
            clock.let_pass(7.0)

    with reporting_to(progress):
        (run,) = Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(
            jobs_of(tmp_path, sessions=4, spread_s=300.0)
        )
    assert run.status == "done" and len(run.sessions) == 4
    assert begins == pytest.approx([0.0, 100.0, 200.0, 300.0])


@pytest.mark.parametrize(("budget_s", "sessions"), [(25.0, 2), (5.0, 0), (1000.0, 4)])
def test_a_budget_ends_a_plan_with_the_sessions_that_fit(tmp_path, threads, clock, budget_s, sessions):
    """Each session takes 10 s."""

    def slow(line):
        line.sleep(10.0)
        play_worker(line)

    threads.parts = {("m.fake", number): slow for number in range(4)}
    begin = clock.now()
    (run,) = Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(
        jobs_of(tmp_path, sessions=4), budget_s=budget_s
    )
    assert clock.now() - begin == min(budget_s, 40.0)
    assert len(run.sessions) == sessions
    assert ("fewer-sessions" in {one.code for one in run.cautions}) == (sessions == 2)
    assert run.status == ("done" if sessions else "failed")


@pytest.mark.parametrize(("sessions_s", "sessions"), [(50.0, [3, 2]), (1.0, [2, 2]), (1000.0, [4, 4])])
def test_jobs_share_the_time_of_their_sessions_and_have_two(tmp_path, threads, sessions_s, sessions):
    """Each session takes 10 s: the first job has half of the time, and the second what is left."""

    def slow(line):
        line.sleep(10.0)
        play_worker(line)

    threads.parts = {("m.fake", number): slow for number in range(8)}
    plan = jobs_of(tmp_path, sessions=4)
    twice = replace(plan, jobs=plan.jobs * 2)
    runs = Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(twice, sessions_s=sessions_s)
    assert [len(run.sessions) for run in runs] == sessions
    for run, count in zip(runs, sessions, strict=True):
        said = {caution.code: caution.message for caution in run.cautions}
        few = f"only {count} of 4 sessions fit into the time budget"
        assert run.status == "done" and said.get("fewer-sessions") == (few if count < 4 else None)


def test_a_token_ends_workers_that_take_turns(tmp_path, threads, clock):
    (job,) = jobs_of(tmp_path, hang_after=0).jobs
    token, begin = CancelToken(), clock.now()
    clock.after(0.5, token.cancel)
    with cancellable(token), pytest.raises(Interrupted):
        Interleaver(save=lambda run: None, sensors=METERS_OFF).execute(
            [job, job], Schedule(budget_s=60.0, most_rounds=1), lambda runs: None
        )
    assert clock.now() - begin == 0.5
    assert len(threads.ended) == len(threads.jobs)
