"""The sensors' pass on a fake clock: idle first, then load, energy above idle exactly."""

import pytest

from edgewise.run.measurements import _energy_above_idle
from edgewise.run.metering import BLOCK_S, IDLE_S, LOAD_S, read_meters
from edgewise.run.meters import Reading


class FakeTime:
    def __init__(self):
        self.ns = 0

    def now(self):
        return self.ns

    def sleep(self, seconds):
        self.ns += round(seconds * 1e9)


class FakeMeter:
    """5 W idle, 9 W while inferring."""

    name, title, metrics = "fake", "Fake", ("energy",)

    def __init__(self, time):
        self.time, self.samples, self.windows = time, 0, 0

    def begin(self):
        self.start = self.time.ns

    def sample(self):
        self.samples += 1

    def end(self):
        watts = 5.0 if self.windows == 0 else 9.0
        self.windows += 1
        joules = watts * (self.time.ns - self.start) / 1e9
        return [Reading(metric="energy", value=joules, method="fake energy")]


def test_energy_per_inference_is_what_is_above_idle():
    time = FakeTime()
    meter = FakeMeter(time)
    facts = read_meters([meter], lambda: time.sleep(0.01), now=time.now, sleep=time.sleep)
    assert facts["idle"]["seconds"] == pytest.approx(IDLE_S)
    assert facts["load"]["seconds"] == pytest.approx(LOAD_S)
    assert facts["load"]["inferences"] == round(LOAD_S / 0.01)
    assert meter.samples == round(IDLE_S / BLOCK_S) + round(LOAD_S / BLOCK_S)
    joules, method, watts = _energy_above_idle(facts)
    assert watts == pytest.approx(4.0)
    assert joules == pytest.approx(0.04)
    assert method == "fake energy"


def test_a_meter_that_gave_nothing_gives_no_energy():
    facts = {
        "idle": {"seconds": 1.0, "readings": []},
        "load": {"seconds": 1.0, "inferences": 3, "readings": [{"metric": "energy", "value": 1.0, "method": ""}]},
    }
    assert _energy_above_idle(facts) is None
