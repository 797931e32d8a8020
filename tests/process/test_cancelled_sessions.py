"""A cancel token ends a session at once, kills its worker and keeps what is finished."""

import threading
import time

import pytest

import warm_start
from edgewise.cancellation import CancelToken, cancellable, sleep
from edgewise.progress import SessionStarted, reporting_to
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run import dispatch
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.interleaving import Interleaver, Schedule
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF
from edgewise.testing import write_fake_model

SEEN_S = 30.0
"""Far from the timeouts and the budget that would end these sessions, a minute and more; a busy machine takes its time."""
HANG_S = 0.4


def jobs_of(tmp_path, *, sessions=2, spread_s=None, hang_after=None):
    path = tmp_path / "m.fake"
    behaviour = {} if hang_after is None else {"behaviour": {"at": "invoke", "after": hang_after, "do": "hang"}}
    write_fake_model(path, latency_ns=[1_000_000], **behaviour)
    stopping = Stopping(iterations=3, warmup=1, sessions=sessions, spread_s=spread_s)
    return make_plan([path], axes=Axes(), scenario=Scenario(), stopping=stopping, target=TargetSpec())


class CancelLater:
    """Cancels a token some time after session `number` began."""

    def __init__(self, number):
        self.token, self.number, self.at = CancelToken(), number, 0.0

    def __call__(self, event):
        if isinstance(event, SessionStarted) and event.index == self.number:
            threading.Timer(HANG_S, self.cancel).start()

    def cancel(self):
        self.at = time.monotonic()
        self.token.cancel("enough")


def cancel_and_check(plan, late, progress):
    saved = []
    with cancellable(late.token), reporting_to(progress), pytest.raises(Interrupted) as stopped:
        Dispatcher(save=saved.append, sensors=METERS_OFF).execute(plan)
    assert time.monotonic() - late.at < SEEN_S
    (run,) = stopped.value.runs
    assert run.status == "cancelled" and len(run.sessions) == 1 and run.value("latency") == 1e-3
    assert saved[-1].id == run.id
    assert not warm_start.children()


def test_a_token_ends_a_silent_worker_and_keeps_the_finished_session(tmp_path):
    plan, late = jobs_of(tmp_path, sessions=3), CancelLater(1)

    def progress(event):
        if isinstance(event, SessionStarted) and event.index == 1:
            behaviour = {"at": "invoke", "after": 0, "do": "hang"}
            write_fake_model(tmp_path / "m.fake", latency_ns=[1_000_000], behaviour=behaviour)
        late(event)

    cancel_and_check(plan, late, progress)


def test_a_token_ends_the_wait_between_sessions_that_lie_apart(tmp_path, monkeypatch):
    plan, late = jobs_of(tmp_path, sessions=2, spread_s=300.0), CancelLater(0)

    def wait(seconds):
        if seconds > 1.0:
            threading.Timer(HANG_S, late.cancel).start()
        sleep(seconds)

    monkeypatch.setattr(dispatch, "sleep", wait)
    cancel_and_check(plan, late, None)


def test_a_token_ends_workers_that_take_turns(tmp_path):
    (job,) = jobs_of(tmp_path, hang_after=0).jobs
    late = CancelLater(0)
    with cancellable(late.token), reporting_to(late), pytest.raises(Interrupted):
        Interleaver(save=lambda run: None, sensors=METERS_OFF).execute(
            [job, job], Schedule(budget_s=60.0, most_rounds=1), lambda runs: None
        )
    assert time.monotonic() - late.at < SEEN_S
    assert not warm_start.children()
