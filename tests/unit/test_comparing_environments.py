"""Where conditions differ, and which hardware is the same."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace

import pytest

from edgewise.comparing.environments import MOST_DIFFERENCES, environment_differences, same_hardware
from edgewise.store.codec import from_document, to_document
from sample_runs import make_run

BOARD = {
    "architecture": "aarch64",
    "device": {"vendor": None, "model": "Raspberry Pi 5 Model B Rev 1.0"},
    "cpu": {
        "model": "Cortex-A76",
        "vendor": None,
        "logical_cores": 4,
        "physical_cores": 4,
        "usable_cores": 4,
        "quota_cores": None,
        "smt_active": False,
        "flags": ["asimd", "asimddp"],
        "caches": [{"level": 1, "type": "data", "size_bytes": 65536, "shared_by": 1}],
    },
    "memory": {"total_bytes": 8_000_000_000, "limit_bytes": None},
    "clock": {
        "governor": "ondemand",
        "driver": "cpufreq-dt",
        "min_hz": 1.5e9,
        "max_hz": 2.4e9,
        "boost": None,
        "limit_hz": None,
    },
    "os": {"name": "Debian GNU/Linux 12", "kernel": "6.6.31", "libc": "glibc 2.36"},
    "python": "CPython 3.11.7",
    "state": {"load_average": [0.1, 0.2, 0.3], "clock_hz": 2.4e9, "swap_used_bytes": 0, "on_mains": True},
    "absent": {"device.vendor": "not reported"},
}


def on(number=1, *, runtime="onnxruntime", effective=None, **changes):
    """A run on the board; `changes` are dotted paths with __ for the dots."""
    environment = deepcopy(BOARD)
    for path, value in changes.items():
        *groups, name = path.split("__")
        place = environment
        for group in groups:
            place = place[group]
        place[name] = value
    run = replace(make_run(number, runtime=runtime), environment=environment)
    return replace(run, effective=run.effective | (effective or {}))


def rows(a, b):
    return [(one.name, one.a, one.b) for one in environment_differences(a, b)]


def test_equal_environments_differ_in_nothing():
    assert rows(on(1), on(2)) == []


def test_another_call_of_the_engine_is_a_difference_where_both_say_which():
    bound, run = on(1, effective={"call": "run_with_iobinding"}), on(2, effective={"call": "run"})
    assert rows(bound, run) == [("in force: call", "run_with_iobinding", "run")]
    assert rows(on(1), run) == rows(run, on(1)) == []


def test_what_the_tables_tell_of_file_and_inputs_is_no_difference_in_the_environment():
    one = on(1, effective={"file_precision": "float32", "inputs_handed_over": "before the timing"})
    assert rows(one, on(2, effective={"file_precision": "int8", "inputs_handed_over": "with each call"})) == []


def test_what_changes_from_moment_to_moment_is_no_difference():
    changed = on(2, state__load_average=[9.0, 9.0, 9.0], state__clock_hz=1.5e9, absent={"clock.boost": "other words"})
    assert rows(on(1), changed) == []


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"clock__governor": "performance"}, ("clock governor", "ondemand", "performance")),
        ({"clock__governor": None}, ("clock governor", "ondemand", "not known")),
        ({"clock__max_hz": 1.8e9}, ("highest clock", "2.40 GHz", "1.80 GHz")),
        ({"clock__limit_hz": 1.2e9}, ("clock limit", "no limit", "1.20 GHz")),
        ({"os__kernel": "6.12.1"}, ("kernel", "6.6.31", "6.12.1")),
        ({"python": "CPython 3.13.1"}, ("Python", "CPython 3.11.7", "CPython 3.13.1")),
        ({"cpu__model": "Cortex-A72"}, ("processor", "Cortex-A76", "Cortex-A72")),
        ({"cpu__smt_active": True}, ("simultaneous multithreading", "no", "yes")),
        ({"cpu__quota_cores": 1.5}, ("quota of cores", "no limit", "1.5")),
        ({"memory__limit_bytes": 10**9}, ("memory limit of the container", "no limit", "954 MiB")),
        ({"memory__total_bytes": 4 * 10**9}, ("memory", "7.45 GiB", "3.73 GiB")),
        ({"state__on_mains": False}, ("mains power", "yes", "no")),
        (
            {"cpu__flags": ["asimd", "i8mm"]},
            ("instruction sets", "with asimddp, without i8mm", "with i8mm, without asimddp"),
        ),
        ({"cpu__flags": ["asimddp", "asimd", "i8mm"]}, ("instruction sets", "without i8mm", "with i8mm")),
        ({"fan_speed": 3}, ("fan speed", "not known", "3")),
        (
            {"cpu__caches": [{"level": 1, "type": "data", "size_bytes": 32768, "shared_by": 1}]},
            (
                "caches",
                "with level 1 type data size bytes 64.0 KiB shared by 1, without level 1 type data size bytes 32.0 KiB shared by 1",
                "with level 1 type data size bytes 32.0 KiB shared by 1, without level 1 type data size bytes 64.0 KiB shared by 1",
            ),
        ),
    ],
)
def test_a_difference_reads_as_a_person_says_it(changes, row):
    assert rows(on(1), on(2, **changes)) == [row]


def test_a_quota_that_could_not_be_read_is_not_no_limit():
    blind = on(2, absent={"cpu.quota_cores": "no cgroup"})
    assert rows(on(1), blind) == [("quota of cores", "no limit", "not known")]


def test_sizes_that_read_the_same_are_no_difference():
    assert rows(on(1), on(2, memory__total_bytes=8_000_100_000)) == []


def test_versions_and_settings_in_force_count_for_one_engine_only():
    newer = {"engine_version": "1.3.0", "graph_optimization": "ORT_ENABLE_BASIC", "threads": 2, "operators": 31}
    assert rows(on(1), on(2, effective=newer)) == [
        ("onnxruntime version", "1.2.3", "1.3.0"),
        ("in force: graph optimization", "not known", "ORT_ENABLE_BASIC"),
    ]
    assert rows(on(1), on(2, runtime="openvino", effective=newer)) == []


def test_hostile_environments_stay_short_printable_lines():
    hostile = on(2)
    deep = "leaf"
    for _ in range(150):
        deep = {"down": deep}
    hostile.environment.update(
        {
            "\x1b[31mred\n": "a\x07b\nc",
            "long": "x" * 10_000,
            "huge_bytes": 10**400,
            "deep": deep,
            "list": [[deep]],
            "cpu": "one word",
        }
    )
    hostile.environment["memory"] = [10**400]
    for a, b in ((on(1), hostile), (hostile, on(1))):
        found = environment_differences(a, b)
        texts = [text for one in found for text in (one.name, one.a, one.b)]
        assert all(text.isprintable() and 0 < len(text) <= 200 for text in texts)
        assert {"[31mred", "long", "huge bytes"} <= {one.name for one in found}
        assert same_hardware(a, b)[0] is False


def test_a_flood_of_conditions_is_cut_and_says_so():
    flood = replace(on(2), environment={**BOARD, **{f"fact_{index}": index for index in range(500)}})
    found = environment_differences(on(1), flood)
    assert len(found) == MOST_DIFFERENCES + 1
    assert found[-1].name == f"{500 - MOST_DIFFERENCES} further conditions"


def test_a_record_that_was_written_and_read_again_differs_in_nothing():
    run = on(1)
    assert rows(run, from_document(json.loads(json.dumps(to_document(run))))) == []


def test_the_same_board_is_the_same_hardware():
    assert same_hardware(
        on(1), on(2, os__kernel="7.0", clock__governor="performance", memory__total_bytes=7_700_000_000)
    ) == (
        True,
        (),
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "x86_64"}, "architecture: aarch64 against x86_64"),
        ({"device__model": "Jetson"}, "machine: Raspberry Pi 5 Model B Rev 1.0 against Jetson"),
        ({"cpu__model": "Cortex-A72"}, "processor: Cortex-A76 against Cortex-A72"),
        ({"cpu__logical_cores": 8}, "logical cores: 4 against 8"),
        ({"cpu__usable_cores": 2}, "usable cores: 4 against 2"),
        ({"cpu__quota_cores": 1.0}, "quota of cores: no limit against 1"),
        ({"cpu__flags": ["asimd"]}, "instruction sets: with asimddp against without asimddp"),
        ({"memory__total_bytes": 7_500_000_000}, "memory: 7.45 GiB against 6.98 GiB"),
    ],
)
def test_other_hardware_is_told_with_the_reason(changes, reason):
    assert same_hardware(on(1), on(2, **changes)) == (False, (reason,))


def test_what_one_run_does_not_tell_leaves_it_open():
    assert same_hardware(on(1), on(2, cpu__model=None)) == (None, ("processor: only one run records it (Cortex-A76)",))
    both = same_hardware(on(1, memory__total_bytes=None), on(2, memory__total_bytes=None))
    assert both == (None, ("memory: neither run records it",))


def test_a_known_difference_outweighs_what_is_not_told():
    found = same_hardware(on(1, cpu__model=None), on(2, architecture="x86_64"))
    assert found == (False, ("architecture: aarch64 against x86_64",))


def test_virtual_machines_without_a_maker_can_be_the_same_hardware():
    nameless = {"device__model": None, "cpu__physical_cores": None}
    assert same_hardware(on(1, **nameless), on(2, **nameless)) == (True, ())


def test_an_empty_environment_tells_nothing():
    blank = replace(on(2), environment={})
    answer, reasons = same_hardware(blank, blank)
    assert answer is None
    assert len(reasons) == 5
