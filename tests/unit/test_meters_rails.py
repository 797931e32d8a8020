"""Meters of power rails on made-up folders of the kernel, with power and energy that are known."""

import pytest

from edgewise.run.meters.base import NoReading, traits_of
from edgewise.run.meters.battery import BatteryMeter
from edgewise.run.meters.hwmon import HwmonMeter
from edgewise.run.meters.jetson import JetsonMeter
from edgewise.testing.meter import check_meter
from messages import has, says


class Tree:
    """A root folder with files, and a clock that goes on by hand."""

    def __init__(self, root):
        self.root, self.now = root, 100.0

    def put(self, folder, **files):
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (self.root / folder / name).write_text(f"{text}\n")

    def read(self, kind, *steps):
        """The readings of `kind` by part, of a window in which each step passes half a second and then sets files."""
        meter = kind(self.root, clock=lambda: self.now)
        assert meter.availability(), meter.availability().reason
        meter.begin()
        for folder, files in steps:
            self.now += 0.5
            self.put(folder, **files)
            meter.sample()
        return by_part(meter)


def by_part(meter):
    """The readings by part, without those that are missing. Raises `NoReading` where all are."""
    try:
        readings = meter.end()
    except NoReading as reason:
        if not reason.readings:
            raise
        readings = reason.readings
    return {reading.part: reading for reading in readings}


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


HWMON = "sys/class/hwmon/hwmon3"


# --- hardware monitors ---


def test_power_is_integrated_by_the_trapezoid_rule(tree):
    tree.put(HWMON, name="ina226", power1_input=2_000_000)
    readings = tree.read(HwmonMeter, (HWMON, {"power1_input": 4_000_000}), (HWMON, {"power1_input": 1_000_000}))
    reading = readings["ina226 power1"]
    assert reading.value == pytest.approx((2 + 4) / 2 * 0.5 + (4 + 1) / 2 * 0.5)
    assert (reading.seconds, reading.covers) == (pytest.approx(1.0), "part")
    assert reading.method == "/sys/class/hwmon: ina226 power1, sampled and integrated by the trapezoid rule"


def test_a_counter_is_preferred_to_the_power_of_its_channel(tree):
    tree.put(HWMON, name="xe", energy1_input=1_000_000, power1_input=9, energy1_label="card", power2_average=3_000_000)
    steps = [(HWMON, {"energy1_input": 1_500_000}), (HWMON, {"energy1_input": 8_000_000})]
    readings = tree.read(HwmonMeter, *steps)
    assert {part: reading.value for part, reading in readings.items()} == {
        "xe card": pytest.approx(7.0),
        "xe power2": pytest.approx(3.0),
    }
    assert {reading.covers for reading in readings.values()} == {"accelerator"}


def test_ina3221_rails_are_voltage_times_current_and_the_input_covers_the_device(tree):
    rails = {"in1_label": "VDD_IN", "in1_input": 5000, "curr1_input": 2000, "in2_label": "VDD_CPU_GPU_CV"}
    more = {
        "in2_input": 5000,
        "curr2_input": 500,
        "in3_label": "off",
        "in3_input": 5000,
        "curr3_input": 9,
        "in3_enable": 0,
    }
    tree.put(HWMON, name="ina3221", update_interval=4, shunt1_resistor=5000, shunt2_resistor=10000, **rails, **more)
    tree.put(HWMON, in7_input=1, curr4_input=99)  # the sum of the channels has no voltage of its own
    readings = tree.read(HwmonMeter, (HWMON, {}), (HWMON, {}))
    assert {part: (reading.value, reading.covers) for part, reading in readings.items()} == {
        "ina3221 VDD_IN": (pytest.approx(10.0), "device"),
        "ina3221 VDD_CPU_GPU_CV": (pytest.approx(2.5), "part"),
    }
    traits = traits_of(HwmonMeter(tree.root))
    assert traits.rate_hz == 250.0
    assert traits.resolution == {"power": pytest.approx(40e-6 / 5e-3 * 5.0)}  # 8 mA at 5 V


def test_rails_with_one_label_stay_apart_and_batteries_are_left_out(tree):
    for number, watts in ((1, 1), (2, 2)):
        tree.put(f"sys/class/hwmon/hwmon{number}", name="amdgpu", power1_average=watts * 10**6, power1_label="PPT")
    tree.put("sys/class/hwmon/hwmon4", name="BAT0", power1_input=5)
    tree.put("sys/class/hwmon/hwmon4/device", type="Battery")
    tree.put("sys/class/hwmon/hwmon5", name="nct6775", in1_input=1, curr1_input=1)  # no pair is known of these
    step = ("sys/class/hwmon/hwmon1", {})
    readings = tree.read(HwmonMeter, step, step)
    values = {part: reading.value for part, reading in readings.items()}
    assert values == pytest.approx({"amdgpu PPT": 1.0, "amdgpu PPT (hwmon2)": 2.0})


def test_a_rail_that_fails_in_the_middle_loses_its_own_reading(tree):
    tree.put(HWMON, name="ina226", power1_input=2_000_000, power2_input=2_000_000)
    readings = tree.read(HwmonMeter, (HWMON, {"power1_input": "gone"}), (HWMON, {"power1_input": 2_000_000}))
    assert list(readings) == ["ina226 power2"]


@pytest.mark.parametrize(
    ("text", "step_s", "reason"),
    [("gone", 0.5, says("holds-not-number", text=has("'gone"))), (5, 1.5, says("s-between-two-power-samples", step="1.5")), (5, -0.5, says("time-stamps-power-samples-went", value="0.5")),
     (0, 0.5, says("power-samples-add-up-j", joules=0))],
)  # fmt: skip
def test_a_window_without_any_rail_says_why(tree, text, step_s, reason):
    tree.put(HWMON, name="ina226", power1_input=0)
    meter = HwmonMeter(tree.root, clock=lambda: tree.now)
    meter.begin()
    tree.now += step_s
    tree.put(HWMON, power1_input=text)
    meter.sample()
    with pytest.raises(NoReading, match=reason):
        meter.end()


@pytest.mark.parametrize(
    ("later", "reason"),
    [(999, says("energy-counter-went-back-j", last="1e-06")), (1000, says("energy-counter-stood-still-window"))],
)
def test_a_counter_that_wraps_around_or_stands_still_gives_nothing(tree, later, reason):
    tree.put(HWMON, name="xe", energy1_input=1000)
    meter = HwmonMeter(tree.root, clock=lambda: tree.now)
    meter.begin()
    tree.now += 0.5
    tree.put(HWMON, energy1_input=later)
    with pytest.raises(NoReading, match=reason):
        meter.end()


def test_an_unreadable_sensor_is_named(tree):
    tree.put(HWMON, name="ina226", power1_input="")
    assert "hwmon3/power1_input holds" in HwmonMeter(tree.root).availability().reason


# --- Jetson with JetPack 4 ---


def test_jetson_rails_of_the_older_driver(tree):
    folder = "sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0"
    tree.put(folder, rail_name_0="POM_5V_IN", rail_name_1="POM_5V_GPU", rail_name_2="NC", in_power0_input=4000)
    tree.put(folder, in_power1_input=1500, in_power2_input=7)
    readings = tree.read(JetsonMeter, (folder, {"in_power0_input": 6000}), (folder, {"in_power0_input": 6000}))
    assert {part: (reading.value, reading.covers) for part, reading in readings.items()} == {
        "POM_5V_IN": (pytest.approx(5.5), "device"),
        "POM_5V_GPU": (pytest.approx(1.5), "part"),
    }


# --- battery ---

BATTERY = "sys/class/power_supply/BAT0"


def test_power_of_two_batteries_is_added_and_that_of_a_mouse_is_not(tree):
    tree.put(BATTERY, type="Battery", status="Discharging", power_now=6_000_000, energy_now=5)
    tree.put("sys/class/power_supply/BAT1", type="Battery", status="Unknown", power_now=1_000_000)
    tree.put("sys/class/power_supply/mouse", type="Battery", scope="Device", status="Charging", power_now=10**9)
    tree.put("sys/class/power_supply/AC", type="Mains", online=0)
    (reading,) = tree.read(BatteryMeter, (BATTERY, {}), (BATTERY, {"power_now": 8_000_000})).values()
    assert reading.value == pytest.approx(7 * 0.5 + (7 + 9) / 2 * 0.5)
    assert (reading.part, reading.covers) == ("", "device")
    assert "BAT0/power_now, BAT1/power_now" in reading.method


@pytest.mark.parametrize("amperes", [2_000_000, -2_000_000])
def test_current_times_voltage_whatever_the_sign(tree, amperes):
    tree.put(BATTERY, type="Battery", status="Discharging", current_now=amperes, voltage_now=4_000_000)
    (reading,) = tree.read(BatteryMeter, (BATTERY, {}), (BATTERY, {})).values()
    assert reading.value == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("files", "later"),
    [({"energy_now": 50_000}, {"energy_now": 49_000}),
     ({"charge_now": 25_000, "voltage_now": 2_000_000}, {"charge_now": 24_500, "voltage_now": 1_900_000})],
)  # fmt: skip
def test_counters_of_what_is_left_give_what_was_used(tree, files, later):
    tree.put(BATTERY, type="Battery", status="Discharging", **files)
    (reading,) = tree.read(BatteryMeter, (BATTERY, {}), (BATTERY, later)).values()
    assert reading.value == pytest.approx(3.6)  # 1 mWh
    assert "difference of a counter" in reading.method


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ({"BAT0": "Charging"}, "BAT0 is charging; a reading needs a discharging battery: unplug the charger"),
        ({"BAT0": "Full"}, "BAT0 is full"),
        ({"BAT0": "Discharging", "BAT1": "Charging"}, "BAT1 is charging"),
    ],
)
def test_a_battery_that_does_not_feed_the_device_is_not_read(tree, states, reason):
    for name, status in states.items():
        tree.put(f"sys/class/power_supply/{name}", type="Battery", status=status, power_now=1_000_000)
    meter = BatteryMeter(tree.root)
    assert reason in meter.availability().reason
    assert check_meter(meter) == ()
    with pytest.raises(NoReading):
        meter.begin()


def test_a_charger_that_is_plugged_in_in_the_middle_ends_the_window(tree):
    charger = "sys/class/power_supply/usb"
    tree.put(BATTERY, type="Battery", status="Discharging", power_now=1_000_000)
    tree.put(charger, type="USB", online=0)
    with pytest.raises(NoReading, match=says("feeds-device-too-unplug-charger", name="usb")):
        tree.read(BatteryMeter, (charger, {"online": 1}), (charger, {"online": 0}))


# --- nothing there ---


@pytest.mark.parametrize(
    ("kind", "file"),
    [(HwmonMeter, "/sys/class/hwmon/hwmon*"), (JetsonMeter, "/sys/bus/i2c/drivers/ina3221x"),
     (BatteryMeter, "/sys/class/power_supply")],
)  # fmt: skip
def test_what_is_absent_names_the_files(tmp_path, kind, file):
    availability = kind(tmp_path).availability()
    assert not availability and file in availability.reason
    assert check_meter(kind(tmp_path)) == ()


@pytest.mark.parametrize("kind", [HwmonMeter, JetsonMeter, BatteryMeter])
def test_the_real_sensors_here(kind):
    meter = kind()
    if not meter.availability():
        pytest.skip(f"no sensor here: {meter.availability().reason}")
    check_meter(meter)
