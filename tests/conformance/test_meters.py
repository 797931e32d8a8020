from collections.abc import Sequence

import pytest

from edgewise.registry import Availability
from edgewise.run.meters.base import Reading, Traits, meters, traits_of
from edgewise.run.meters.cpufreq import CpuFrequencyMeter
from edgewise.run.meters.rapl import RaplMeter
from edgewise.run.meters.thermal import ThermalMeter
from edgewise.testing.meter import check_meter
from messages import says

BUILT_IN = ("battery", "cpufreq", "gpu", "hwmon", "jetson", "nvml", "rapl", "thermal")


def test_the_built_in_meters_are_registered():
    assert set(BUILT_IN) <= set(meters().names())


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_meter_here(name):
    check_meter(meters().get(name))


@pytest.mark.parametrize("kind", [CpuFrequencyMeter, RaplMeter, ThermalMeter])
def test_every_meter_where_there_is_nothing(kind, tmp_path):
    meter = kind(tmp_path)
    assert check_meter(meter) == ()
    assert not meter.availability()


def board(root):
    """A made-up board with every sensor."""
    files = {
        "proc/self/status": "Cpus_allowed_list:\t0\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1500000\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "45000\n",
        "sys/class/powercap/intel-rapl:0/name": "package-0\n",
        "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "1000000000000\n",
        "sys/class/powercap/intel-rapl:0/energy_uj": "0\n",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.mark.parametrize(("kind", "value"), [(CpuFrequencyMeter, 1.5e9), (ThermalMeter, 318.15)])
def test_meters_where_there_is_everything(kind, value, tmp_path):
    board(tmp_path)
    (reading,) = check_meter(kind(tmp_path))
    assert reading.value == pytest.approx(value)


class Plugin:
    """A meter of somebody else, right but for what a test breaks."""

    name = "plugin"
    title = "A plug-in"
    metrics: Sequence[str] = ("temperature",)
    available = Availability(True)
    reading = Reading(metric="temperature", value=300.0, low=290.0, high=300.0, method="a probe")

    def availability(self):
        return self.available

    def begin(self):
        pass

    def sample(self):
        pass

    def end(self):
        return (self.reading,)


def test_a_right_plugin_passes():
    assert check_meter(Plugin()) == (Plugin.reading,)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"name": "Two Words"}, "name"),
        ({"title": ""}, says("title-empty-in-meter")),
        ({"metrics": ()}, says("metrics-empty")),
        ({"metrics": ("heat",)}, says("not-metric-catalogue", metric="heat")),
        ({"available": Availability(False)}, says("not-available-gives-no-reason")),
        ({"available": Availability(False, "broken")}, says("not-available-yet-gives-readings")),
        ({"reading": Reading(metric="energy", value=1.0, method="x")}, says("reads-which-not-among-metrics")),
        ({"reading": Reading(metric="temperature", value=300.0, method="")}, says("no-method-words")),
        ({"reading": Reading(metric="temperature", value=float("nan"), method="x")}, "is nan"),
        ({"reading": Reading(metric="temperature", value=300.0, low=301.0, method="x")}, "outside"),
        ({"reading": Reading(metric="temperature", value=-3.0, method="x")}, "can't be"),
        ({"place": "cloud"}, says("place-neither-target-nor-host")),
        ({"rate_hz": 0.0}, says("rate-hz-not-above-0", rate_hz="0.0")),
        ({"resolution": {"heat": 1.0}}, says("resolution-which-not-metric-catalogue", metric="heat")),
        ({"resolution": {"power": 0.0}}, says("resolution-not-above-0", step="0.0")),
        (
            {"reading": Reading(metric="temperature", value=300.0, method="x", covers="all")},
            says("covers-none", covers="all"),
        ),
        ({"reading": Reading(metric="temperature", value=300.0, method="x", seconds=0.0)}, "temperature of 0.0 s"),
        (
            {"metrics": ("energy",), "reading": Reading(metric="energy", value=0.0, method="x")},
            says("energy-j-reading-should-left"),
        ),
    ],
)
def test_every_breach_is_named(broken, message):
    meter = Plugin()
    for name, value in broken.items():
        setattr(meter, name, value)
    with pytest.raises(AssertionError, match=message):
        check_meter(meter)


class Odd(Plugin):
    """A plug-in whose optional attributes are nonsense."""

    rate_hz = "fast"
    resolution = {"temperature": "fine", "power": 0.5}
    cannot_see = None

    @property
    def place(self):
        raise OSError("no such file")


def test_attributes_that_are_nonsense_are_not_known():
    assert traits_of(Odd()) == Traits(resolution={"power": 0.5})
    assert traits_of(Plugin()) == Traits() == Traits(place="target", rate_hz=None, resolution={}, cannot_see="")
