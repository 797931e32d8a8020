from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.run.meters import rapl
from edgewise.run.meters.base import NoReading
from edgewise.run.meters.rapl import RaplMeter
from messages import says, wording

RANGE = 262_143_328_850


class Tree:
    """A powercap tree in a folder, and a clock that goes on by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_ns = 0

    def domain(self, folder: str, name: str, energy: int, limit: int = RANGE) -> None:
        place = self.root / "sys/class/powercap" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "name").write_text(f"{name}\n")
        (place / "max_energy_range_uj").write_text(f"{limit}\n")
        self.set(folder, energy)

    def set(self, folder: str, energy: int) -> None:
        (self.root / "sys/class/powercap" / folder / "energy_uj").write_text(f"{energy}\n")

    def meter(self) -> RaplMeter:
        return RaplMeter(self.root, clock=lambda: self.now_ns)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_energy_of_a_window_in_joules(tree):
    tree.domain("intel-rapl:0", "package-0", 1_000_000)
    meter = tree.meter()
    assert meter.availability()
    meter.begin()
    tree.set("intel-rapl:0", 3_500_000)
    meter.sample()
    tree.set("intel-rapl:0", 5_000_000)
    tree.now_ns = 2_000_000_000
    (reading,) = meter.end()
    assert (reading.metric, reading.value, reading.low, reading.high) == ("energy", 4.0, None, None)
    assert reading.method == "RAPL counters through powercap: package-0"
    assert (reading.covers, reading.seconds) == ("processor", 2.0)


def test_packages_and_dram_are_added_and_nothing_twice(tree):
    folders = {
        "intel-rapl:0": "package-0",
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "uncore",
        "intel-rapl:0:2": "dram",
        "intel-rapl:1": "package-1",
        "intel-rapl:2": "psys",
        "intel-rapl-mmio:0": "package-0",
    }
    for folder, name in folders.items():
        tree.domain(folder, name, 0)
    meter = tree.meter()
    meter.begin()
    for exponent, folder in enumerate(folders):
        tree.set(folder, 10**exponent * 1_000_000)
    (reading,) = meter.end()
    assert reading.value == 1 + 1000 + 10_000
    assert reading.method.endswith("package-0 + dram-0 + package-1")


def test_a_wrap_is_counted_through(tree):
    tree.domain("intel-rapl:0", "package-0", RANGE - 400_000)
    meter = tree.meter()
    meter.begin()
    tree.now_ns = 50_000_000
    tree.set("intel-rapl:0", 600_000)
    (reading,) = meter.end()
    assert reading.value == 1.0


@given(st.integers(0, 10**9 - 1), st.lists(st.integers(0, 10**9 - 1), min_size=1, max_size=20).filter(any))
def test_any_chain_of_single_wraps_adds_up(tmp_path_factory, start, steps):
    tree = Tree(tmp_path_factory.mktemp("rapl"))
    tree.domain("intel-rapl:0", "package-0", start, limit=10**9)
    meter = tree.meter()
    meter.begin()
    for total in (start + sum(steps[: count + 1]) for count in range(len(steps))):
        tree.set("intel-rapl:0", total % 10**9)
        meter.sample()
    readings = meter.end()
    assert [reading.value for reading in readings] == [sum(steps) / 1e6]


def test_where_two_wraps_are_possible_there_is_no_reading(tree):
    tree.domain("intel-rapl:0", "package-0", 0, limit=1_000_000_000)  # 1000 J last 1 s at the most
    meter = tree.meter()
    meter.begin()
    tree.now_ns = 999_000_000
    tree.set("intel-rapl:0", 5_000_000)
    meter.sample()
    tree.now_ns += 1_000_000_000
    tree.set("intel-rapl:0", 6_000_000)
    with pytest.raises(NoReading, match=says("rapl-counter-may-wrapped-around", seconds=1)):
        meter.end()


def test_a_window_after_a_failed_one_is_good_again(tree):
    tree.domain("intel-rapl:0", "package-0", 0)
    meter = tree.meter()
    meter.begin()
    tree.set("intel-rapl:0", "gone")
    with pytest.raises(NoReading, match=says("rapl-counter-cant-read")):
        meter.end()
    tree.set("intel-rapl:0", 10)
    meter.begin()
    tree.set("intel-rapl:0", 2_000_010)
    assert [reading.value for reading in meter.end()] == [2.0]


def test_a_counter_that_stands_still_is_no_energy_of_0(tree):
    tree.domain("intel-rapl:0", "package-0", 77)
    meter = tree.meter()
    meter.begin()
    meter.sample()
    with pytest.raises(NoReading, match=says("rapl-counters-stood-still-window")):
        meter.end()


def test_end_without_begin_reads_nothing(tree):
    tree.domain("intel-rapl:0", "package-0", 77)
    assert tree.meter().end() == ()


def test_no_powercap(tree):
    availability = tree.meter().availability()
    assert not availability
    assert availability.reason == wording("no-kernel-exposes-no-energy", powercap="/sys/class/powercap")
    assert availability.install_hint == wording("sudo-modprobe-intel-rapl-msr")


def test_no_powercap_in_a_virtual_machine_has_no_cure(tree):
    (tree.root / "proc").mkdir()
    (tree.root / "proc/cpuinfo").write_text("processor : 0\nflags\t\t: fpu hypervisor\n")
    availability = tree.meter().availability()
    assert availability.reason == wording("no-virtual-machine-no-access", powercap="/sys/class/powercap")
    assert availability.install_hint == ""


def test_powercap_without_a_package(tree):
    tree.domain("intel-rapl:0", "psys", 0)
    assert tree.meter().availability().reason == wording(
        "no-readable-package-domain-intel", powercap="/sys/class/powercap"
    )


def test_rights_are_what_is_missing(tree, monkeypatch):
    tree.domain("intel-rapl:0", "package-0", 0)

    def refuse(folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rapl, "read_energy", refuse)
    meter = tree.meter()
    availability = meter.availability()
    assert availability.reason == "/sys/class/powercap/intel-rapl:0/energy_uj may be read by root only"
    assert availability.install_hint == wording("sudo-chmod-o-r-intel", powercap="/sys/class/powercap")
    with pytest.raises(NoReading, match="Permission denied"):
        meter.begin()


def test_an_unreadable_counter_is_named(tree):
    tree.domain("intel-rapl:0", "package-0", 0)
    tree.set("intel-rapl:0", "")
    assert tree.meter().availability().reason == "/sys/class/powercap/intel-rapl:0/energy_uj can't be read"
