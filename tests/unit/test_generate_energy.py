"""Energy per token of a language model: exact values, the prompt told from what follows, and reasons for absence."""

from __future__ import annotations

import pytest
from test_energy import IDLE_W, NOISE, facts, steady
from test_generate import TOLD
from test_metering import FakeTime

from edgewise.metrics import METRICS
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.registry import Availability
from edgewise.report.bench.document import bench_document
from edgewise.run import metering
from edgewise.run.dispatch import Dispatcher
from edgewise.run.energy import TOKEN_ENERGIES, token_energy_rows
from edgewise.run.meters.base import Reading
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import Sensors, is_metered
from edgewise.testing import write_fake_model


def metered(whole, first=None, **given):
    """Windows of whole requests, 20 in each, and of 100 requests that end at their first token."""
    found = facts({"m": whole}, inferences=20, **given)
    if first is not None:
        found["prompt"] = facts({"m": first})["load"]
    return found


def rows_of(found, *, prompt=16, new=5):
    rows = token_energy_rows([found], "no meter", prompt=prompt, new=new)
    assert all(METRICS[row.metric].unit == row.unit == "J/token" for row in rows)
    return {row.metric: row for row in rows}


def test_the_energy_of_a_token_is_that_of_a_request_and_its_parts_are_told_apart():
    """Whole requests take 0.1 s at 4 W above idle, those without decoding 0.02 s at 3 W."""
    rows = rows_of(metered(steady(), steady(load=IDLE_W + 3.0)))
    values = {metric: row.value for metric, row in rows.items()}
    assert values == pytest.approx(
        {"energy_per_token": 0.4 / 5, "prefill_energy": 0.06 / 16, "decode_energy": (0.4 - 0.06) / 4}
    )
    whole, first, rest = rows.values()
    assert whole.samples == pytest.approx([(4.0 + each) * 0.1 / 5 for each in NOISE])
    assert rest.samples == pytest.approx([((4.0 + each) * 0.1 - (3.0 + each) * 0.02) / 4 for each in NOISE])
    # t(5) = 2.5706; s of the noise = 0.15492; / sqrt(6)
    for row, factor in ((whole, 0.1 / 5), (first, 0.02 / 16), (rest, 0.08 / 4)):
        assert (row.value - row.low, row.high - row.value) == pytest.approx((0.16258 * factor,) * 2, rel=1e-4)
    assert "a request, its prompt included, divided by its 5 new tokens; " in whole.method
    assert "divided by the 16 tokens of the prompt; " in first.method
    assert "divided by the 4 tokens behind it; " in rest.method


def test_the_resolution_of_the_sensor_widens_a_difference_by_that_of_both():
    traits = {"resolution": {"power": 0.1}}
    plain = rows_of(metered(steady(), steady(load=IDLE_W + 3.0)))
    wide = rows_of(metered(steady(traits=traits), steady(load=IDLE_W + 3.0, traits=traits)))
    for metric, off in (("energy_per_token", 0.1 * 0.1 / 5), ("decode_energy", 0.1 * (0.1 + 0.02) / 4)):
        assert wide[metric].high - plain[metric].high == pytest.approx(off)


def test_what_the_meter_can_not_tell_from_0_is_absent_with_the_numbers():
    rows = rows_of(metered(steady(), steady(load=IDLE_W + 0.1)))
    assert rows["prefill_energy"].value is None
    assert "J/token above idle can't be told from 0" in rows["prefill_energy"].absent_because
    assert rows["decode_energy"].value == pytest.approx((0.4 - 0.002) / 4)


def test_parts_without_readings_are_absent_with_the_reason():
    for found, prompt, why in (
        (metered(steady()), None, "the prompts have several lengths"),
        (metered(steady()), 16, "m did not read as many requests that end at their first token as whole ones"),
        (metered(steady(), steady(noise=NOISE[:3])), 16, "m did not read as many"),
    ):
        rows = rows_of(found, prompt=prompt)
        assert rows["energy_per_token"].value == pytest.approx(0.08)
        for metric in ("prefill_energy", "decode_energy"):
            assert rows[metric].absent_because.startswith(why)
    (row,) = rows_of(facts({}))
    assert row == "energy_per_token"
    assert rows_of(facts({}))[row].absent_because == "no meter"


def test_only_a_meter_tells_them():
    assert all(map(is_metered, TOKEN_ENERGIES))


class Supply:
    """A meter of the worker: 5 W of the scripted time, and what requests add."""

    name, title, metrics = "supply", "supply", ("energy",)
    time, joules = FakeTime(), 0.0

    def availability(self):
        return Availability(True)

    def energy(self):
        return IDLE_W * self.time.ns / 1e9 + self.joules

    def begin(self):
        self.start = self.energy()

    def sample(self):
        pass

    def end(self):
        return [Reading(metric="energy", value=self.energy() - self.start, method="supply")]


@pytest.fixture
def supply(monkeypatch):
    """A meter, and requests in its windows that take 0.1 s and 2 J, or 0.02 s and 0.5 J up to the first token."""
    read, clock = metering.read_meters, FakeTime()
    monkeypatch.setattr(Supply, "time", clock)
    monkeypatch.setattr(Supply, "joules", 0.0)

    def costs(request, seconds, joules):
        def make():
            request()
            clock.sleep(seconds)
            Supply.joules += joules

        return make

    def read_meters(meters, invoke, *, others, slowest_hz, tell):
        parts = {kind: costs(request, 0.02, 0.5) for kind, request in others.items()}
        whole = costs(invoke, 0.1, 2.0)
        return read(meters, whole, others=parts, tell=tell, now=clock.now, sleep=clock.sleep)

    monkeypatch.setattr(metering, "read_meters", read_meters)
    return f"{__name__}:Supply"


def measured(tmp_path, sensors, **scenario):
    path = write_fake_model(tmp_path / "m.fake", generation=TOLD)
    given = {"kind": "generate", "prompt_tokens": 16, "new_tokens": 5, "depth": 0, **scenario}
    stopping = Stopping(iterations=2, sessions=1)
    plan = make_plan([path], axes=Axes(), scenario=Scenario(**given), stopping=stopping, target=TargetSpec())
    (run,) = Dispatcher(save=lambda run: None, sensors=sensors).execute(plan)
    assert run.status == "done", run.failure
    return run


@pytest.mark.usefixtures("threads")
def test_a_run_with_a_meter_has_the_energy_of_a_request_and_of_a_token(tmp_path, supply):
    run = measured(tmp_path, Sensors(locations=(supply,), absences={"temperature": "no sensor"}))
    assert run.value("energy") == pytest.approx(2.0)
    assert [run.value(metric) for metric in TOKEN_ENERGIES] == pytest.approx([0.4, 0.5 / 16, 1.5 / 4])
    assert run.measurement("energy").low == pytest.approx(2.0)
    assert run.value("power") == pytest.approx(20.0)
    assert run.measurement("temperature").absent_because == "no sensor"
    # The timed requests are as without a meter.
    assert run.measurement("tpot").samples == pytest.approx([10e-3, 30e-3] * 4)
    (table,) = bench_document([run]).tables
    cells = {column.title: cell.text for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert cells["Energy per token"] == "400 mJ/token"
    assert cells["Generation energy"] == "375 mJ/token"


@pytest.mark.usefixtures("threads")
def test_at_a_depth_no_meter_is_read(tmp_path, supply):
    run = measured(tmp_path, Sensors(locations=(supply,), absences={}), depth=64)
    for metric in ("energy", "energy_per_token", "temperature"):
        assert "filling the KV cache" in run.measurement(metric).absent_because
    assert Supply.joules == 0.0


@pytest.mark.usefixtures("threads", "supply")
def test_without_an_energy_no_requests_are_made_for_other_sensors(tmp_path):
    location = "edgewise.run.meters.thermal:ThermalMeter"
    run = measured(tmp_path, Sensors(locations=(location,), absences={"energy": "no meter of energy"}))
    assert run.measurement("energy_per_token").absent_because == "no meter of energy"
    assert "only where a meter reads energy" in run.measurement("temperature").absent_because
    assert Supply.joules == 0.0
