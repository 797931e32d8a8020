"""The battery model: values computed by hand, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from edgewise.errors import BadInput, Unavailable
from edgewise.run.battery import DAY_S, Quantity, battery_life, energy_of
from edgewise.units import ENERGIES, POWERS, parse_capacity, parse_interval
from messages import says
from sample_runs import make_run, measured


def exact(value):
    return Quantity(value, value, value)


def life(*, capacity_j=36_000.0, idle=exact(0.05), energy=exact(3.0), per_hour=60.0, **more):
    return battery_life(capacity_j=capacity_j, idle_power=idle, energy=energy, per_hour=per_hour, **more)


def test_the_life_is_the_capacity_divided_by_the_mean_power():
    # 60 × 3 J in 3600 s is 50 mW, beside 50 mW idle: 0.1 W, and 36 kJ last 100 h.
    found = life()
    assert found.mean_power.value == pytest.approx(0.1)
    assert found.life.value == pytest.approx(360_000.0) and found.life.value / DAY_S == pytest.approx(100 / 24)
    assert found.inference_share == pytest.approx(0.5)
    assert "36.0 kJ / (idle power 50.0 mW + 60 inferences an hour × 3.00 J)" in found.method


def test_the_ends_of_all_intervals_count_together():
    found = life(idle=Quantity(0.05, 0.04, 0.06), energy=Quantity(3.0, 2.4, 3.6))
    assert (found.mean_power.low, found.mean_power.high) == (pytest.approx(0.08), pytest.approx(0.12))
    assert (found.life.low, found.life.high) == (pytest.approx(300_000.0), pytest.approx(450_000.0))


def test_values_without_any_interval_give_a_life_without_one():
    found = life()
    assert (found.life.low, found.life.high) == (None, None) and "no interval is known" in found.method


def test_an_energy_whose_interval_is_not_known_gives_no_interval():
    found = life(idle=Quantity(0.05, 0.04, 0.06), energy=Quantity(3.0, None, None))
    assert found.life.value == pytest.approx(360_000.0) and found.life.low is None


def test_an_interval_below_zero_counts_as_zero():
    found = life(energy=Quantity(3.0, -1.0, 7.0))
    assert found.mean_power.low == pytest.approx(0.05) and found.life.high == pytest.approx(720_000.0)


def test_without_a_least_power_the_life_has_no_upper_end():
    found = life(idle=exact(0.0), energy=Quantity(3.0, 0.0, 6.0))
    assert found.life.high == float("inf") and found.to_document()["life"]["high"] is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"capacity_j": 0.0}, "capacity"),
        ({"per_hour": -1.0}, "negative"),
        ({"idle": exact(-0.1)}, "negative"),
        ({"energy": exact(0.0)}, says("energy-j-per-inference-cant")),
        ({"idle": exact(0.0), "per_hour": 0.0}, says("idle-power-number-inferences-hour")),
        (
            {"latency_s": 61.0},
            says("inferences-do-not-fit-into", per_hour=60, format_duration="61.0 s", hour_s=59),
        ),
    ],
)
def test_what_can_not_be(changed, why):
    with pytest.raises(BadInput) as caught:
        life(**changed)
    assert re.search(why, caught.value.message)


def test_a_latency_that_just_fits_is_no_error():
    assert life(latency_s=60.0).life.value == pytest.approx(360_000.0)


def test_the_energy_of_a_run_with_its_interval():
    run = make_run(1)
    with pytest.raises(Unavailable) as caught:
        energy_of(run)
    why = run.measurement("energy").absent_because
    assert caught.value.message == f"nothing measured the energy of an inference in run {run.id}: {why}"
    assert caught.value.advice == (
        "measure it with bench where a meter is (edgewise doctor lists those here), or with a power meter or a "
        "trace of power of your own (docs/power-meters.md); or give it with --energy, such as --energy 3mJ"
    )
    rows = tuple(measured("energy", 3e-3, half=1e-3) if row.metric == "energy" else row for row in run.measurements)
    assert energy_of(replace(run, measurements=rows)) == Quantity(3e-3, 2e-3, 4e-3)


@pytest.mark.parametrize(
    ("text", "joules"),
    [("10Wh", 36_000.0), ("36 kJ", 36_000.0), ("5mWh", 18.0), ("2000mAh@3.7V", 26_640.0), ("2Ah@3700mV", 26_640.0)],
)
def test_capacities(text, joules):
    assert parse_capacity(text) == pytest.approx(joules)


@pytest.mark.parametrize("text", ["10", "2000mAh", "10Wh@3V", "2000mAh@", "10W", "x", "", "-5Wh"])
def test_capacities_that_are_none(text):
    with pytest.raises(BadInput):
        parse_capacity(text)


@pytest.mark.parametrize(
    ("text", "units", "expected"),
    [
        ("50mW", POWERS, (0.05, 0.05, 0.05)),
        ("50mW±5", POWERS, (0.05, 0.045, 0.055)),
        ("50mW ± 5000 uW", POWERS, (0.05, 0.045, 0.055)),
        ("50mW+-10%", POWERS, (0.05, 0.045, 0.055)),
        ("3mJ±200%", ENERGIES, (0.003, 0.0, 0.009)),
    ],
)
def test_values_with_their_uncertainty(text, units, expected):
    assert parse_interval(text, units, what="quantity") == pytest.approx(expected)


@pytest.mark.parametrize("text", ["50", "50mW±", "50mW±x", "±5mW", "50mW±5mJ", "50±5mW"])
def test_values_that_are_none(text):
    with pytest.raises(BadInput):
        parse_interval(text, POWERS, what="power")
