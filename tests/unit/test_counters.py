import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.constraints.hierarchy import cgroup_folders
from edgewise.run.counters import (
    Counters,
    memory_figures,
    parse_cpu_list,
    read_counters,
    reset_peak_memory,
    usable_cores,
)

TICK = os.sysconf("SC_CLK_TCK")
EARLIER = Counters(
    monotonic_ns=5_000_000_000,
    process_cpu_s=10.0,
    voluntary_switches=100,
    involuntary_switches=20,
    minor_faults=1000,
    major_faults=1,
    cores=(0, 1),
    busy_s=50.0,
    idle_s=150.0,
    iowait_s=8.0,
    steal_s=2.0,
    throttled_s=(0.5, 3.0),
    cpu_pressure_us=400_000,
    memory_pressure_us=0,
    io_pressure_us=5,
)
LATER = Counters(
    monotonic_ns=7_000_000_000,
    process_cpu_s=11.0,
    voluntary_switches=104,
    involuntary_switches=26,
    minor_faults=1010,
    major_faults=1,
    cores=(0, 1),
    busy_s=52.0,
    idle_s=151.5,
    iowait_s=8.25,
    steal_s=2.25,
    throttled_s=(0.75, 4.0),
    cpu_pressure_us=900_000,
    memory_pressure_us=1_000_000,
    io_pressure_us=2_500_005,
)


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_delta_has_exact_values():
    assert LATER.delta(EARLIER) == {
        "wall_s": 2.0,
        "process_cpu_s": 1.0,
        "busy_share": 0.5,
        "busy_share_of_others": 0.25,
        "iowait_share": 0.0625,
        "steal_share": 0.0625,
        "cpu_pressure_share": 0.25,
        "memory_pressure_share": 0.5,
        "io_pressure_share": 1.0,
        "voluntary_per_s": 2.0,
        "involuntary_per_s": 3.0,
        "minor_faults": 10,
        "major_faults": 0,
        "throttled_s": 1.0,
    }


def test_delta_of_what_no_system_told_is_none_but_for_the_wall():
    delta = Counters(monotonic_ns=3_000_000_000).delta(Counters(monotonic_ns=1_000_000_000))
    assert delta.pop("wall_s") == 2.0
    assert len(delta) == 13
    assert set(delta.values()) == {None}


SHARES = ("busy_share", "busy_share_of_others", "iowait_share", "steal_share")


@pytest.mark.parametrize(
    "later",
    [
        replace(LATER, monotonic_ns=EARLIER.monotonic_ns + 99_000_000),
        replace(LATER, cores=(0,)),
        replace(LATER, steal_s=None),
        replace(LATER, busy_s=50.0, idle_s=150.0, iowait_s=8.0, steal_s=2.0),
    ],
    ids=["window too short", "cores changed", "steal not told", "no time booked"],
)
def test_shares_that_would_mislead_are_none(later):
    delta = later.delta(EARLIER)
    assert [delta[name] for name in SHARES] == [None] * 4


def test_without_the_process_time_others_are_unknown_and_the_rest_known():
    delta = replace(LATER, process_cpu_s=None).delta(EARLIER)
    assert (delta["busy_share"], delta["busy_share_of_others"]) == (0.5, None)


def test_a_counter_that_steps_back_counts_as_still():
    delta = replace(LATER, iowait_s=7.99).delta(EARLIER)
    assert delta["iowait_share"] == 0.0
    assert delta["busy_share"] == 2.0 / 3.75


def test_throttling_is_unknown_where_the_cgroups_differ():
    assert replace(LATER, throttled_s=(0.75,)).delta(EARLIER)["throttled_s"] is None


@given(
    st.lists(st.floats(0, 1e6), min_size=8, max_size=8),
    st.floats(0, 1e6),
    st.integers(100_000_000, 10**15),
)
def test_shares_stay_between_0_and_1(values, process, window):
    first, second = values[:4], values[4:]
    names = ("busy_s", "idle_s", "iowait_s", "steal_s")
    then = Counters(monotonic_ns=0, process_cpu_s=0.0, cores=(0,), **dict(zip(names, first, strict=True)))
    now = Counters(monotonic_ns=window, process_cpu_s=process, cores=(0,), **dict(zip(names, second, strict=True)))
    shares = [now.delta(then)[name] for name in SHARES]
    assert all(share is None or 0 <= share <= 1 for share in shares)


def test_reads_a_tree_exactly(tmp_path):
    put(tmp_path, "proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-2\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
    put(tmp_path, "sys/devices/system/cpu/online", "0-2\n")
    put(
        tmp_path,
        "proc/stat",
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 900 0 0 0 0 0 0 0 0 0\n"
        "cpu1 10 20 30 400 5 6 7 8 10 0\ncpu2 1 2 3 40 50 6 7 80 1 0\nintr 5\n",
    )
    put(tmp_path, "proc/pressure/memory", "some avg10=0 avg60=0 avg300=0 total=12\n")
    put(tmp_path, "proc/pressure/cpu", "some avg10=0.36 avg60=2.14 avg300=0.79 total=7160129\nfull avg10=0 total=3\n")
    counters = read_counters(tmp_path)
    assert counters.cores == (1, 2)
    assert counters.busy_s == pytest.approx((10 + 20 + 30 + 6 + 7 + 1 + 2 + 3 + 6 + 7) / TICK)
    assert counters.idle_s == pytest.approx(440 / TICK)
    assert counters.iowait_s == pytest.approx(55 / TICK)
    assert counters.steal_s == pytest.approx(88 / TICK)
    assert (counters.cpu_pressure_us, counters.memory_pressure_us, counters.io_pressure_us) == (7160129, 12, None)
    assert counters.throttled_s == ()


def test_an_empty_tree_gives_none(tmp_path):
    counters = read_counters(tmp_path)
    assert counters.cores == ()
    assert counters.busy_s is counters.steal_s is counters.cpu_pressure_us is None
    assert set(memory_figures(tmp_path).values()) == {None}


@pytest.mark.parametrize("stat", ["cpu0 1 2 3\n", "cpu0 a b c d e f g h\n", "", "cpu0 \n"])
def test_a_strange_proc_stat_is_unknown(tmp_path, stat):
    put(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0\n")
    put(tmp_path, "proc/stat", stat)
    assert read_counters(tmp_path).busy_s is None


def test_this_process_has_counters():
    figures = memory_figures()
    assert figures["VmHWM"] >= figures["VmRSS"] > 2**20
    now = read_counters()
    assert now.process_cpu_s > 0
    assert now.cores == tuple(sorted(os.sched_getaffinity(0)))


RESET = """
from edgewise.run.counters import memory_figures, reset_peak_memory
block = bytearray(64 * 2**20)
block[::4096] = b"x" * len(block[::4096])
high = memory_figures()["VmHWM"]
del block
print(reset_peak_memory(), high - memory_figures()["VmHWM"])
"""


def test_the_peak_can_be_reset():
    # In a process of its own: one that has run other tests has had higher peaks.
    done = subprocess.run([sys.executable, "-c", RESET], capture_output=True, text=True, check=True)
    possible, fell = done.stdout.split()
    if possible == "False":
        pytest.skip("this kernel has no writable /proc/self/clear_refs")
    assert int(fell) >= 32 * 2**20


def test_reset_says_no_where_it_cannot_and_makes_no_file(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    assert reset_peak_memory(tmp_path) is False
    assert list((tmp_path / "proc/self").iterdir()) == []


def test_reset_writes_a_five(tmp_path):
    put(tmp_path, "proc/self/clear_refs", "")
    assert reset_peak_memory(tmp_path) is True
    assert (tmp_path / "proc/self/clear_refs").read_text() == "5"


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("0", (0,)),
        ("0-3\n", (0, 1, 2, 3)),
        ("5,0-1", (0, 1, 5)),
        ("", ()),
        ("x", ()),
        ("1,", ()),
        ("3-1", ()),
        ("0-99999999", ()),
    ],
)
def test_parse_cpu_list(text, cores):
    assert parse_cpu_list(text) == cores


@given(st.sets(st.integers(0, 4096)))
def test_parse_cpu_list_reads_what_the_kernel_writes(cores):
    assert parse_cpu_list(",".join(map(str, sorted(cores)))) == tuple(sorted(cores))


def test_cores_that_are_allowed_but_not_there_are_not_usable(tmp_path):
    put(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0-127\n")
    assert len(usable_cores(tmp_path)) == 128
    put(tmp_path, "sys/devices/system/cpu/online", "0-1,3\n")
    assert usable_cores(tmp_path) == (0, 1, 3)


def unified(root: Path, path: str, *, top: str = "/") -> None:
    put(root, "proc/self/cgroup", f"0::{path}\n")
    put(root, "proc/self/mountinfo", f"30 23 0:26 {top} /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n")


def test_unified_cgroups_from_the_own_one_up(tmp_path):
    unified(tmp_path, "/user.slice/app.scope")
    mount = tmp_path / "sys/fs/cgroup"
    assert cgroup_folders("cpu", tmp_path) == (mount / "user.slice/app.scope", mount / "user.slice", mount)


def test_a_container_sees_its_own_part_only(tmp_path):
    unified(tmp_path, "/docker/abc/sub", top="/docker/abc")
    mount = tmp_path / "sys/fs/cgroup"
    assert cgroup_folders("memory", tmp_path) == (mount / "sub", mount)


def test_a_cgroup_outside_of_the_mount_leaves_the_mount(tmp_path):
    unified(tmp_path, "/../../other")
    assert cgroup_folders("cpu", tmp_path) == (tmp_path / "sys/fs/cgroup",)


def test_version_1_wins_where_it_has_the_controller(tmp_path):
    put(tmp_path, "proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job/one\n1:name=systemd:/\n0::/\n")
    put(
        tmp_path,
        "proc/self/mountinfo",
        "33 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "32 31 0:30 / /sys/fs/cgroup/my\\040cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n",
    )
    mount = tmp_path / "sys/fs/cgroup/my cpu"
    assert cgroup_folders("cpu", tmp_path) == (mount / "job/one", mount / "job", mount)
    assert cgroup_folders("memory", tmp_path) == ()


@pytest.mark.parametrize(
    ("line", "seconds"), [("throttled_usec 1500000", 1.5), ("nr_periods 4\nthrottled_time 2500000000", 2.5)]
)
def test_throttled_time_of_both_versions(tmp_path, line, seconds):
    unified(tmp_path, "/job")
    put(tmp_path, "sys/fs/cgroup/job/cpu.stat", f"usage_usec 3\n{line}\n")
    assert read_counters(tmp_path).throttled_s == (seconds,)


def test_no_cgroup_files_no_folders(tmp_path):
    assert cgroup_folders("cpu", tmp_path) == ()
