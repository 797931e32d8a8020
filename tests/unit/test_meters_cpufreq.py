import pytest

from edgewise.run.meters.cpufreq import CpuFrequencyMeter
from messages import wording

KHZ = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


def put(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def thread(root, number, *, ticks, core, name="worker"):
    # Fields 3 … 39 of proc_pid_stat(5), the third being the state.
    fields = ["S"] + ["0"] * 36
    fields[11], fields[12], fields[36] = str(ticks), "0", str(core)
    put(root, f"proc/self/task/{number}/stat", f"{number} ({name}) {' '.join(fields)}\n")


@pytest.fixture
def root(tmp_path):
    put(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0-3\n")
    put(tmp_path, "sys/devices/system/cpu/online", "0-2\n")
    for core, khz in enumerate((800_000, 2_400_000, 1_200_000, 9_000_000)):
        put(tmp_path, KHZ.format(core), f"{khz}\n")
    return tmp_path


def test_the_clock_of_the_cores_that_did_the_work(root):
    thread(root, 10, ticks=5, core=0, name="a) S (b")
    thread(root, 11, ticks=7, core=1)
    meter = CpuFrequencyMeter(root)
    assert meter.availability()
    meter.begin()
    thread(root, 11, ticks=9, core=1)
    meter.sample()
    thread(root, 11, ticks=12, core=1)
    put(root, KHZ.format(1), "2000000\n")
    (reading,) = meter.end()
    assert (reading.metric, reading.value, reading.low, reading.high) == ("clock_rate", 2.2e9, 2.0e9, 2.4e9)
    assert reading.method == "scaling_cur_freq, median over samples of the cores that ran this process"


def test_while_idle_the_clock_of_the_usable_cores(root):
    thread(root, 10, ticks=5, core=0)
    meter = CpuFrequencyMeter(root)
    meter.begin()
    (reading,) = meter.end()
    assert (reading.value, reading.low, reading.high) == (1.2e9, 0.8e9, 2.4e9)
    assert reading.method.endswith("usable cores; this process was idle")


CPUINFO = "processor\t: {}\ncpu MHz\t\t: {}\nflags\t\t: fpu {}\n\n"


def without_cpufreq(root, flag):
    put(root, "proc/self/status", "Cpus_allowed_list:\t0-1\n")
    put(root, "proc/cpuinfo", "".join(CPUINFO.format(core, mhz, flag) for core, mhz in enumerate((1000.5, 3000, 5000))))


def test_cpuinfo_counts_where_it_is_measured(tmp_path):
    without_cpufreq(tmp_path, "aperfmperf")
    meter = CpuFrequencyMeter(tmp_path)
    assert meter.availability()
    meter.begin()
    (reading,) = meter.end()
    assert reading.value == pytest.approx(2.00025e9)
    assert (reading.low, reading.high) == (1.0005e9, 3e9)
    assert reading.method.startswith("cpu MHz of /proc/cpuinfo")


def test_a_nominal_constant_is_no_measurement(tmp_path):
    without_cpufreq(tmp_path, "hypervisor")
    meter = CpuFrequencyMeter(tmp_path)
    assert meter.availability().reason == (
        "no /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq, and 'cpu MHz' of /proc/cpuinfo is a constant on "
        "this machine (no aperfmperf)"
    )
    meter.begin()
    meter.sample()
    assert meter.end() == ()


def test_nothing_there(tmp_path):
    meter = CpuFrequencyMeter(tmp_path)
    assert meter.availability().reason == wording("proc-self-status-does-not")
    put(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0\n")
    assert meter.availability().reason == wording("no-cpu-cpufreq-scaling-cur", cpus="/sys/devices/system/cpu")


@pytest.mark.parametrize("text", ["0", "", "<unknown>", "-5"])
def test_a_clock_that_is_no_clock_is_left_out(tmp_path, text):
    put(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0\n")
    put(tmp_path, KHZ.format(0), text)
    meter = CpuFrequencyMeter(tmp_path)
    assert not meter.availability()
    meter.begin()
    assert meter.end() == ()
