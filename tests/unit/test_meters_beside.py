"""A power meter beside the host is read over the windows that the worker tells."""

from __future__ import annotations

import pytest

from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.registry import Availability
from edgewise.run.dispatch import Dispatcher
from edgewise.run.meters.base import Reading
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import Sensors
from edgewise.testing import write_fake_model


class Meter:
    """Notes when its windows begin and end, by a scripted clock."""

    name, title, metrics, place = "board", "board's supply", ("energy",), "host"

    def __init__(self, clock):
        self.clock, self.windows, self.begun = clock, [], 0.0

    def availability(self):
        return Availability(True)

    def begin(self):
        self.begun = self.clock.now()

    def sample(self):
        pass

    def end(self):
        self.windows.append(self.clock.now() - self.begun)
        return [Reading(metric="energy", value=2.0 * self.windows[-1], method="board's supply")]


def test_its_windows_are_those_of_the_worker(tmp_path, threads, clock):
    lengths = [2.0, 3.0, 4.5]

    def part(line):
        line.say_hello()
        line.sleep(1.0)
        for place, seconds in enumerate(lengths):
            name = ("idle", "load", "prompt")[place]
            line.send("window", name=name, event="begin")
            line.sleep(seconds)
            line.send("window", name=name, event="end")
            line.sleep(0.5)
        line.send("failed", cause="EngineError", message="enough")

    threads.parts = {("m.fake", 0): part}
    path, meter = write_fake_model(tmp_path / "m.fake"), Meter(clock)
    stopping = Stopping(iterations=3, warmup=1, sessions=1)
    plan = make_plan([path], axes=Axes(), scenario=Scenario(), stopping=stopping, target=TargetSpec())
    (run,) = Dispatcher(save=lambda run: None, sensors=Sensors(beside=(meter,), absences={})).execute(plan)
    assert run.failure.message == "enough"
    assert meter.windows == pytest.approx(lengths)
