import pytest

from edgewise.run.meters.thermal import ThermalMeter
from messages import wording


def zone(root, index, kind, temperature):
    folder = root / f"sys/class/thermal/thermal_zone{index}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "type").write_text(f"{kind}\n")
    (folder / "temp").write_text(f"{temperature}\n")


def monitor(root, index, name, inputs):
    folder = root / f"sys/class/hwmon/hwmon{index}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    for number, (label, temperature) in enumerate(inputs, start=1):
        (folder / f"temp{number}_input").write_text(f"{temperature}\n")
        if label:
            (folder / f"temp{number}_label").write_text(f"{label}\n")


def test_the_hottest_sample_of_the_window_in_kelvin(tmp_path):
    zone(tmp_path, 0, "cpu-thermal", 40_000)
    meter = ThermalMeter(tmp_path)
    assert meter.availability()
    meter.begin()
    for temperature in (61_500, 55_000):
        zone(tmp_path, 0, "cpu-thermal", temperature)
        meter.sample()
    (reading,) = meter.end()
    assert reading.metric == "temperature"
    assert reading.value == reading.high == pytest.approx(334.65)
    assert reading.low == pytest.approx(313.15)
    assert reading.method == "highest of the kernel's processor sensors: cpu-thermal"


def test_only_sensors_on_the_processor_count(tmp_path):
    zone(tmp_path, 0, "acpitz", 90_000)
    zone(tmp_path, 1, "x86_pkg_temp", 50_000)
    monitor(tmp_path, 0, "nvme", [("Composite", 70_000)])
    monitor(tmp_path, 1, "coretemp", [("Package id 0", 49_000), ("Core 0", 52_000)])
    meter = ThermalMeter(tmp_path)
    meter.begin()
    (reading,) = meter.end()
    assert reading.value == pytest.approx(325.15)
    assert reading.method.endswith("coretemp, x86_pkg_temp")


@pytest.mark.parametrize(
    ("inputs", "kelvin"),
    [
        ([("Tctl", 80_000), ("Tdie", 60_000), ("Tccd1", 61_000)], 334.15),
        ([("Tctl", 80_000), ("Tccd1", 61_000)], 353.15),
    ],
)
def test_amd_control_temperature_goes_where_the_true_one_is(tmp_path, inputs, kelvin):
    monitor(tmp_path, 0, "k10temp", inputs)
    meter = ThermalMeter(tmp_path)
    meter.begin()
    assert meter.end()[0].value == pytest.approx(kelvin)


@pytest.mark.parametrize("text", ["0", "-274000", "150000", "x", "", "12.5", "99999999999999"])
def test_what_can_not_be_true_is_left_out(tmp_path, text):
    zone(tmp_path, 0, "cpu-thermal", text)
    meter = ThermalMeter(tmp_path)
    availability = meter.availability()
    assert not availability
    assert availability.reason == wording("no-plausible-temperature", names="cpu-thermal")
    meter.begin()
    assert meter.end() == ()


def test_frost_is_possible(tmp_path):
    zone(tmp_path, 0, "soc-thermal", -12_250)
    meter = ThermalMeter(tmp_path)
    meter.begin()
    assert meter.end()[0].value == pytest.approx(260.9)


def test_absence_names_what_is_there(tmp_path):
    assert ThermalMeter(tmp_path).availability().reason == wording(
        "no-sensor", zones="/sys/class/thermal", monitors="/sys/class/hwmon"
    )
    zone(tmp_path, 0, "acpitz", 40_000)
    monitor(tmp_path, 0, "nvme", [("", 40_000)])
    reason = "no sensor on the processor; other sensors here: acpitz, nvme"
    assert ThermalMeter(tmp_path).availability().reason == reason
