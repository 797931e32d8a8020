"""GPU utilisation on made-up folders; NVML through a library with the calls and units of nvidia-ml-py."""

import re
from types import SimpleNamespace

import pytest

from edgewise.run.meters.base import NoReading
from edgewise.run.meters.gpu import GpuMeter
from edgewise.run.meters.nvml import NvmlMeter
from edgewise.testing.meter import check_meter
from messages import says, wording


@pytest.mark.parametrize(
    ("path", "texts", "share"),
    [
        ("sys/class/drm/card1/device/gpu_busy_percent", ("20\n", "40\n"), 0.3),
        ("sys/devices/gpu.0/load", ("1000\n", "500\n"), 0.75),
        ("sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", ("0 %\n", "100 %\n"), 0.5),
        ("sys/class/devfreq/fb000000.gpu/load", ("10@800000000Hz\n", "30@200000000Hz\n"), 0.2),
    ],
)
def test_utilization_is_the_mean_of_the_samples(tmp_path, path, texts, share):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(texts[0])
    meter = GpuMeter(tmp_path)
    assert meter.availability()
    meter.begin()
    file.write_text(texts[1])
    (reading,) = meter.end()
    assert (reading.metric, reading.value) == ("gpu_utilization", pytest.approx(share))
    assert reading.low <= reading.value <= reading.high
    assert str(file) in reading.method
    check_meter(meter)


@pytest.mark.parametrize("text", ["", "busy", "101", "-1", "12 W"])
def test_a_load_that_can_not_be_is_no_reading(tmp_path, text):
    file = tmp_path / "sys/class/drm/card0/device/gpu_busy_percent"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert re.search(says("holds-no-load-0", full=100), GpuMeter(tmp_path).availability().reason)
    meter = GpuMeter(tmp_path)
    meter.begin()
    with pytest.raises(NoReading, match="gpu_busy_percent"):
        meter.end()


def test_without_a_gpu_the_files_are_named(tmp_path):
    assert "/sys/devices/gpu.0/load" in GpuMeter(tmp_path).availability().reason


class Nvml:
    """Two GPUs with the calls and units of nvidia-ml-py: mJ, mW, percent. The first has no counter of energy."""

    class NVMLError(Exception):
        pass

    def __init__(self):
        self.joules, self.watts, self.gone = 1000.0, 50.0, False

    def nvmlInit(self):
        pass

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, device):
        return f"Board {device}"

    def nvmlDeviceGetTotalEnergyConsumption(self, device):
        if self.gone:
            raise self.NVMLError("GPU is lost")
        if device == 0:
            raise self.NVMLError("Not Supported")
        return int(self.joules * 1000)

    def nvmlDeviceGetPowerUsage(self, device):
        if self.gone:
            raise self.NVMLError("GPU is lost")
        return int(self.watts * 1000)

    def nvmlDeviceGetUtilizationRates(self, device):
        return SimpleNamespace(gpu=25 if device == 0 else 75, memory=1)


def test_energy_of_gpus_with_and_without_a_counter():
    library, now = Nvml(), [0.0]
    meter = NvmlMeter(lambda: library, clock=lambda: now[0])
    assert meter.availability()
    meter.begin()
    now[0], library.joules, library.watts = 0.5, 1010.0, 150.0
    readings = {(reading.metric, reading.part): reading for reading in meter.end()}
    assert {key: reading.value for key, reading in readings.items()} == pytest.approx(
        {
            ("energy", "GPU 0"): 50.0,
            ("energy", "GPU 1"): 10.0,
            ("gpu_utilization", "GPU 0"): 0.25,
            ("gpu_utilization", "GPU 1"): 0.75,
        }
    )
    assert readings["energy", "GPU 1"].method.startswith("NVML of GPU 1, Board 1: total energy, difference")
    assert {readings["energy", part].covers for part in ("GPU 0", "GPU 1")} == {"accelerator"}


def test_a_gpu_that_is_lost_in_the_middle_is_a_reason():
    library = Nvml()
    meter = NvmlMeter(lambda: library)
    meter.begin()
    library.gone = True
    with pytest.raises(NoReading, match="GPU is lost") as caught:
        meter.end()
    # The other calls still answer: the reason comes with their readings.
    assert {reading.metric for reading in caught.value.readings} == {"gpu_utilization"}


def test_a_missing_package_is_named():
    def fail():
        raise ImportError("No module named 'pynvml'")

    availability = NvmlMeter(fail).availability()
    assert availability.reason == wording("package-nvidia-ml-py-not")
    assert availability.install_hint == wording("pip-install-edgewise-nvml")
    assert check_meter(NvmlMeter(fail)) == ()


def test_the_real_library_here():
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    meter = NvmlMeter()
    if not meter.availability():
        assert "NVML" in meter.availability().reason
        pytest.skip(f"no NVIDIA GPU here: {meter.availability().reason}")
    check_meter(meter)
