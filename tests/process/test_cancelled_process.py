"""A cancel token ends a real worker that is silent; when and with what it does: tests/unit/test_cancelled_sessions.py."""

import pytest

import warm_start
from edgewise.cancellation import CancelToken, cancellable
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF
from edgewise.testing import write_fake_model


def test_a_token_ends_a_silent_worker(tmp_path, clock):
    reached, token, begin = tmp_path / "reached", CancelToken(), clock.now()
    behaviour = {"at": "invoke", "after": 0, "do": "spin", "touch": str(reached)}
    path = write_fake_model(tmp_path / "m.fake", latency_ns=[1_000_000], behaviour=behaviour)
    stopping = Stopping(iterations=3, warmup=1)
    plan = make_plan([path], axes=Axes(), scenario=Scenario(), stopping=stopping, target=TargetSpec())
    clock.silent_when = reached.exists
    clock.after(5.0, token.cancel)
    with cancellable(token), pytest.raises(Interrupted) as stopped:
        Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(plan)
    assert clock.now() - begin == 5.0
    assert [run.status for run in stopped.value.runs] == ["cancelled"]
    assert not warm_start.children()
