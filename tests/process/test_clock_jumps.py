"""A device whose clocks jump while a job runs there: durations are right, or they are absent."""

from __future__ import annotations

import json
import re

import pytest

from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.clock import MachineClock, timed_by
from edgewise.device import target
from edgewise.device.link import ClockOffset, Link
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.dispatch import Dispatcher
from edgewise.run.host_protocol import HostProtocol
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF
from far_targets import far_device, far_python  # noqa: F401

pytestmark = pytest.mark.engine
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")

MODEL = data.path("digits_cnn.onnx")
HOUR_S = 3600.0
DRIFT_S = 0.1
"""More than the clocks of the far target and of this machine drift apart in a session."""
AHEAD_S = 2 * HOUR_S
"""What the device's clocks are ahead by: its monotonic clock stays above zero when it jumps back on a host that has
just started."""
UNTIMED = {"model_size", "macs", "ops", "parameters", "parameters_size", "depth", "memory_activations"}


class HostClock(MachineClock):
    """The host's clock, which may skip what the host waits for next."""

    ahead_s, skips = 0.0, False

    def now(self):
        return super().now() + self.ahead_s

    def wait(self, descriptors, event, seconds, *, alarm):
        if not self.skips:
            return super().wait(descriptors, event, seconds, alarm=alarm)
        self.skips, self.ahead_s = False, self.ahead_s + seconds
        return set()

    def skip(self):
        self.skips = True


@pytest.fixture
def far(far_device, monkeypatch):  # noqa: F811
    """A function that makes the far target, whose clocks jump once a worker is in a phase of a session."""

    def make(phase="steady", *, session=0, then=None, **jump):
        far_device(clock_offset_s=AHEAD_S)
        there, begun = target.find_target("far"), []
        understand = HostProtocol._understand

        def watch(self, message):
            understand(self, message)
            if message["kind"] == "phase" and message["event"] == "begin" and message["name"] == phase:
                begun.append(phase)
                if len(begun) == session + 1:
                    there.transport.jump(**jump)
                    if then is not None:
                        then()

        monkeypatch.setattr(HostProtocol, "_understand", watch)

    return make


def bench(*, scenario=None, **stopping):
    plan = make_plan(
        [MODEL],
        axes=Axes(runtimes=("onnxruntime",)),
        scenario=scenario or Scenario(),
        stopping=Stopping(**{"duration_s": 1.0, "warmup": 1, "sessions": 1, **stopping}),
        target=TargetSpec(device="far", transport="far"),
    )
    (run,) = Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(plan)
    return run


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(HOUR_S, id="forward"),
        pytest.param(-HOUR_S, id="backward"),
        pytest.param(2.0, id="little"),
    ],
)
def test_a_monotonic_clock_that_jumps_fails_the_session(far, seconds, monkeypatch):
    offsets, measure, clock = [], Link.measure_clock, HostClock()
    monkeypatch.setattr(Link, "measure_clock", lambda self: offsets.append(measure(self)) or offsets[-1])
    # A loop that waits for a clock that went back is ended by the host, whose deadline comes at once.
    far(then=clock.skip if seconds < 0 else None, monotonic_s=seconds)
    with timed_by(clock):
        run = bench(timeout_s=60.0)
    assert run.status == "failed" and run.failure.cause == "ClockJumped", run.failure
    told = float(run.failure.message.partition("apart by ")[2].partition(" s")[0])
    # How exact that is depends on the link, whose answers a busy machine delays: each offset states it.
    errors = sorted(each.error_s for each in offsets)[-2:]
    assert abs(told - seconds) <= sum(errors) + DRIFT_S and run.failure.advice
    assert {row.metric for row in run.measurements if row.value is not None} <= UNTIMED
    assert not run.sessions


@pytest.mark.parametrize("drift", [0.5, -0.5], ids=["fast", "slow"])
def test_a_clock_that_runs_at_another_rate_gives_no_times(far_device, drift):  # noqa: F811
    far_device(clock_drift=drift)
    run = bench(duration_s=2.0)
    assert run.status == "failed" and run.failure.cause == "ClockJumped", run.failure
    assert run.value("latency") is None


def test_a_jump_over_a_restart_of_the_device_is_none_of_a_session(far_device):  # noqa: F811
    far_device(clock_offset_s=AHEAD_S)
    assert bench().status == "done"
    there = target.find_target("far")
    there.transport.jump(monotonic_s=-HOUR_S)
    there.close()
    run = bench()
    assert run.status == "done", run.failure
    assert 0 < run.value("latency") < HOUR_S / 2
    assert run.sessions[0].facts["link"]["clock_offset_s"] == pytest.approx(AHEAD_S - HOUR_S, abs=1.0)


def test_sessions_before_the_jump_keep_their_times(far):
    far(monotonic_s=HOUR_S, session=1)
    run = bench(duration_s=None, iterations=200, sessions=3)
    assert run.status == "failed" and run.failure.cause == "ClockJumped"
    assert len(run.sessions) == 1 and 0 < run.value("latency") < HOUR_S / 2
    assert all(0 <= seconds < HOUR_S / 2 for seconds in run.sessions[0].phases.values())


def test_a_sustained_measurement_keeps_no_bins_of_a_session_whose_clock_jumped(far):
    far(monotonic_s=HOUR_S)
    run = bench(scenario=Scenario(sustained_s=3.0), duration_s=None, warmup=None)
    assert run.status == "failed" and run.failure.cause == "ClockJumped"
    assert run.sustained is None and run.value("latency") is None


def test_a_time_of_day_that_jumps_changes_no_duration(far):
    far(wall_s=-HOUR_S)
    run = bench()
    assert run.status == "done", run.failure
    assert 0 < run.value("latency") < HOUR_S / 2 and 0 < run.value("startup_time") < HOUR_S / 2
    # Its readings of the reference kernels have times of day of two clocks.
    assert "reference" not in run.sessions[0].facts


def test_accuracy_needs_no_clock(far, capsys):
    far("samples", monotonic_s=HOUR_S)
    words = (
        "evaluate", MODEL, "--data", data.path("digits_test.npz"), "--task", "classification", "--no-latency",
        "-d", "far", "-r", "onnxruntime", "--limit", "50",
    )  # fmt: skip
    assert edgewise_command([*map(str, words), "--json", "--no-store", "--quiet"]) == 0
    rows = {row["metric"]: row for row in json.loads(capsys.readouterr().out)["run"]["measurements"]}
    assert rows["accuracy_top1"]["value"] > 0.9
    assert rows["inference_time"]["value"] is None
    told = re.search(r"moved apart by (\S+) s", rows["inference_time"]["absent_because"])
    assert told and float(told[1]) == pytest.approx(HOUR_S, abs=60)  # the reading itself takes time


def test_layers_are_absent_where_the_clock_jumps_while_they_are_timed(far, capsys):
    far("profile", monotonic_s=HOUR_S)
    words = ("profile", MODEL, "-r", "onnxruntime", "-d", "far", "--iterations", "10", "--sessions", "1")
    edgewise_command([*map(str, words), "--json", "--no-store", "--quiet"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert not run["layers"] and run["profile_absent_because"].startswith("ClockJumped: ")
    (latency,) = [row["value"] for row in run["measurements"] if row["metric"] == "latency"]
    assert 0 < latency < HOUR_S / 2


def offset(seconds, *, at, wall=0.0, error=0.01):
    return ClockOffset(monotonic_ns=round(seconds * 1e9), wall_s=wall, error_s=error, at=at)


@pytest.mark.parametrize(
    ("later", "jumps"),
    [
        (offset(5.0, at=100.0), (0.0, 0.0)),
        (offset(5.069, at=200.0), (0.0, 0.0)),  # the errors of both, and 0.05 s of drift in 100 s
        (offset(5.071, at=200.0), (pytest.approx(0.071), 0.0)),
        (offset(4.9, at=100.0, wall=-7.0), (pytest.approx(-0.1), pytest.approx(-7.0))),
        (offset(5.1, at=100.0, error=0.2), (0.0, 0.0)),
    ],
)
def test_a_jump_is_what_neither_error_nor_drift_explains(later, jumps):
    assert offset(5.0, at=100.0).jumps(later) == jumps
