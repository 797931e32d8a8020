"""Energy above idle from windows with known power: exact values, pairing, resolution, and reasons for its absence."""

import re

import pytest

from edgewise.metrics import METRICS
from edgewise.run.energy import energy_rows
from edgewise.run.run_builder import is_metered
from messages import says

IDLE_W, LOAD_W = 5.0, 9.0
NOISE = (0.1, -0.1, 0.2, -0.2, 0.1, -0.1)


def facts(meters, *, rounds=6, inferences=100, problems=()):
    """Windows of 0.5 s idle and 2 s loaded.

    Args:
        meters: name → (power of the idle windows, power of the loaded ones, changes of the readings, traits).
    """
    found = {kind: {"windows": [], "readings": [], "problems": []} for kind in ("idle", "load")}
    for kind, seconds, count in (("idle", 0.5, 0), ("load", 2.0, inferences)):
        found[kind]["windows"] = [{"seconds": seconds, "inferences": count}] * rounds
    for name, (idle, load, changes, _) in meters.items():
        meter, _, part = name.partition("/")
        for kind, powers, seconds in (("idle", idle, 0.5), ("load", load, 2.0)):
            found[kind]["readings"] += [
                {
                    "meter": meter,
                    "metric": "energy",
                    "value": watts * seconds,
                    "method": f"{meter} sensor",
                    "seconds": None,
                    "part": part,
                    "covers": "",
                    "window": window,
                    **changes,
                }
                for window, watts in enumerate(powers)
            ]
    found["load"]["problems"] += problems
    known = {name.partition("/")[0]: traits for name, (*_, traits) in meters.items()}
    names = known.keys() | {problem["meter"] for problem in problems}
    sensors = [{"name": name, "metrics": ["energy"], **known.get(name, {})} for name in sorted(names)]
    return {"sensors": sensors, **found}


def steady(idle=IDLE_W, load=LOAD_W, noise=NOISE, traits=None, **changes):
    return [idle] * len(noise), [load + each for each in noise], changes, traits or {}


def rows_of(*sessions, absence="none"):
    rows = energy_rows(sessions, absence)
    assert all(METRICS[row.metric].unit == row.unit for row in rows)
    return {row.metric: row for row in rows}


def test_energy_of_an_inference_is_what_is_above_idle_with_an_interval_of_the_pairs():
    rows = rows_of(facts({"rapl": steady(covers="processor", traits={"cannot_see": "the board"})}))
    energy, power = rows.pop("energy"), rows.pop("power")
    assert not rows
    assert power.value == pytest.approx(4.0)
    assert energy.value == pytest.approx(4.0 * 2.0 / 100)
    assert energy.samples == pytest.approx([(4.0 + each) * 0.02 for each in NOISE])
    # t(5) = 2.5706; s of the noise = 0.15492; / sqrt(6)
    assert (power.low, power.high) == pytest.approx((4 - 0.16258, 4 + 0.16258), abs=1e-4)
    assert (energy.low, energy.high) == pytest.approx((0.08 - 0.0032516, 0.08 + 0.0032516), abs=1e-6)
    assert energy.method.startswith(
        "rapl sensor; sees the processor, not the board; mean of 6 pairs of a loaded and an "
    )
    assert (energy.basis, power.basis) == ("measured", "derived")


def test_a_meter_that_reads_mean_power_gives_the_same():
    idle, load, _, _ = steady()
    both = facts({"w": ([watts / 0.5 for watts in idle], [watts / 2.0 for watts in load], {"metric": "power"}, {})})
    assert rows_of(both)["energy"].value == pytest.approx(0.08)


def test_the_time_that_a_meter_saw_is_the_time_of_its_power():
    watched = facts({"m": steady()})
    for kind in ("idle", "load"):
        for each in watched[kind]["readings"]:
            each["seconds"], each["value"] = watched[kind]["windows"][0]["seconds"] / 2, each["value"] / 2
    assert rows_of(watched)["energy"].value == pytest.approx(0.08)


def test_processes_are_replicates():
    rows = rows_of(*(facts({"m": steady(load=load)}) for load in (9.0, 9.2, 9.4)))
    assert rows["power"].value == pytest.approx(4.2)
    # t(2) = 4.3027; standard error of 4.0, 4.2, 4.4 = 0.11547
    assert (rows["power"].low, rows["power"].high) == pytest.approx((4.2 - 0.49684, 4.2 + 0.49684), abs=1e-4)
    assert rows["power"].session_lengths == (6, 6, 6)
    assert "between the means of 3 processes" in rows["power"].method


def test_the_idle_power_of_another_meter_is_never_used():
    mixed = facts({"rapl": steady(), "battery": steady(idle=7.0)})
    for kind, missing in (("idle", "rapl"), ("load", "battery")):
        mixed[kind]["readings"] = [each for each in mixed[kind]["readings"] if each["meter"] != missing]
    rows = rows_of(mixed, absence="no pairs")
    assert rows["energy"].value is None and rows["energy"].absent_because == "no pairs"


def test_the_meter_that_sees_most_is_the_headline_and_all_have_a_row():
    meters = {
        "battery": steady(idle=10.0, load=16.0, covers="device"),
        "rapl": steady(covers="processor"),
        "hwmon/VDD_CPU": steady(idle=1.0, load=3.0, covers="part"),
    }
    rows = rows_of(facts(meters))
    assert list(rows) == ["energy", "power", "energy:battery", "energy:rapl", "energy:hwmon/VDD_CPU"]
    values = {metric: row.value for metric, row in rows.items()}
    assert values == pytest.approx(
        {"energy": 0.12, "power": 6.0, "energy:battery": 0.12, "energy:rapl": 0.08, "energy:hwmon/VDD_CPU": 0.04}
    )
    words = "battery sees the most of the device (other meters: rapl, hwmon/VDD_CPU)"
    assert words in rows["energy"].method and words in rows["power"].method
    assert METRICS["energy:hwmon/VDD_CPU"].label == "Energy (hwmon/VDD_CPU)"


def test_the_headline_falls_to_the_next_meter_where_the_first_can_not_tell():
    rows = rows_of(facts({"battery": steady(load=5.01, covers="device"), "rapl": steady(covers="processor")}))
    assert rows["energy"].value == pytest.approx(0.08)
    assert re.search(says("meters-value-sees-most-device", name="rapl"), rows["energy"].method)
    assert re.search(says("above-idle-cant-told-0"), rows["energy:battery"].absent_because)


def test_energy_that_can_not_be_told_from_0_is_absent_with_the_numbers():
    rows = rows_of(facts({"rapl": steady(load=5.1)}))
    assert rows["energy"].value is None
    assert rows["energy"].absent_because == (
        "rapl: 2.00 [-1.26, 5.26] mJ above idle can't be told from 0: 6 pairs of a loaded and an idle "
        "window in 1 process(es)"
    )


@pytest.mark.parametrize(
    ("resolution", "off_w"),
    [({"power": 0.5}, 0.5), ({"energy": 0.1}, 0.1 / 0.5 + 0.1 / 2.0), ({"power": 0.5, "energy": 0.1}, 0.75)],
)
def test_the_resolution_of_the_sensor_widens_the_interval(resolution, off_w):
    plain = rows_of(facts({"m": steady()}))
    wide = rows_of(facts({"m": steady(traits={"resolution": resolution})}))
    assert plain["power"].low - wide["power"].low == pytest.approx(off_w)
    assert wide["energy"].high - plain["energy"].high == pytest.approx(off_w * 0.02)
    assert re.search(says("widened-sensor-resolution"), wide["energy"].method)


def test_less_than_the_resolution_can_not_be_told_from_0():
    """A sensor with steps of 1 W: readings without any scatter say nothing about less than a step."""
    rows = rows_of(facts({"m": steady(load=5.9, noise=(0.0,) * 6, traits={"resolution": {"power": 1.0}})}))
    assert re.search(says("above-idle-cant-told-0"), rows["energy"].absent_because)
    assert re.search(says("above-idle-cant-told-0"), rows["power"].absent_because)


def test_a_meter_that_stopped_leaves_its_reason():
    stopped = [{"meter": "m", "window": 2, "reason": "the cable was pulled"}]
    rows = rows_of(facts({"m": steady(noise=NOISE[:2])}, problems=stopped))
    assert rows["energy"].absent_because == "m: 2 of at least 3 pairs of windows; the cable was pulled"


def test_a_meter_that_read_nothing_leaves_its_reason_beside_one_that_did():
    silent = [{"meter": "battery", "window": 0, "reason": "it is charging"}]
    rows = rows_of(facts({"m": steady()}, problems=silent))
    assert rows["energy"].value == pytest.approx(0.08)
    assert rows["energy:battery"].absent_because == "it is charging"
    assert rows_of(facts({}, problems=silent))["energy"].absent_because == "battery: it is charging"


def test_the_energy_of_one_meter_is_a_metric_that_only_sensors_measure():
    assert all(map(is_metered, ("energy", "energy:rapl", "energy:hwmon/ina3221 VDD_IN", "power", "gpu_utilization")))
    assert not any(map(is_metered, ("latency", "energetic", "model_size", "")))
    assert METRICS["energy:rapl"].unit == "J" and METRICS["energy:rapl"].better == "lower"
    assert "energy:" not in METRICS and "energy:a\nb" not in METRICS
