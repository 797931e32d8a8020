"""Rounding, intervals, reasons of absence, and the names that tell runs apart."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from edgewise.formatting import plus_minus
from edgewise.metrics import SHARES
from edgewise.record.facts import precision_of, threads_of
from edgewise.report.bench.document import bench_document
from edgewise.report.bench.tables import bench_table
from edgewise.report.document import Cell, Column, Table, number_notes
from edgewise.report.document.csv import render_csv
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.text import print_document
from edgewise.report.runs.cells import cell_of, cell_of_measurement, failure_of, reason_of_absence, times
from edgewise.report.runs.conditions import engine_of, flatten, labels_of, platform_of, processing_unit_of
from edgewise.text import one_line
from messages import says
from sample_runs import all_runs, failed_run, make_run, measured, same_model_runs


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.4213, 0.4105, 0.4321, "0.421 ± 0.012"),  # 0.4321 − 0.421 = 0.0111, rounded up
        (0.42, 0.409, 0.431, "0.420 ± 0.011"),
        (0.42, 0.41, 0.46, "0.420 [0.410, 0.460]"),  # never ± 0.040, which begins at 0.380
        (68.9, 57.5, 82.7, "68.9 [57.5, 82.7]"),
        (100.0, 99.0, 101.3, "100 ± 2"),  # one step apart
        (100.0, 99.0, 102.3, "100 [99.0, 103]"),  # two steps apart
        (2.0, 0.0, 4.0, "2.00 [0, 4.00]"),  # to 0 and beyond
        (25.04, 25.03, 25.05, "25.0 ± 0.1"),  # never ± 0.0 where there is a width
        (1234.0, 1230.0, 1240.0, "1230 ± 10"),
        (1.39, 0.502, 3.84, "1.39 [0.502, 3.84]"),  # never 1.39 ± 2.45
        (339.2, 275.9, 760.1, "339 [275, 761]"),  # the ends hold the interval
        (381.0, 362.4, 5791.0, "381 [362, 5800]"),
        (1.0, 0.8, 1.2, "1.00 ± 0.20"),
        (2.5, 2.5, 2.5, "2.50 ± 0"),
        (0.0, 0.0, 0.0, "0 ± 0"),
        (2.5, None, 2.6, "2.50"),
        (1.2e-7, 1.1e-7, 1.3e-7, "1.20e-07 ± 1.00e-08"),
    ],
)
def test_a_value_is_printed_with_its_interval(value, low, high, expected):
    assert plus_minus(value, low, high) == expected


@pytest.mark.parametrize(
    ("metric", "value", "low", "high", "expected"),
    [
        ("accuracy_top1", 1.0, 0.9901, 1.0, "100.00 [99.01, 100.00]"),  # never 100 ± 1 %
        ("agreement_top1", 0.9997, 0.9968, 1.0, "99.97 [99.68, 100.00]"),  # not all never reads as 100
        ("error_rate", 0.0, 0.0, 0.0099, "0.00 [0.00, 0.99]"),
        ("deadline_miss_rate", 0.0833, 0.0412, 0.161, "8.33 [4.12, 16.10]"),
        ("score:f2", 0.999, 0.9971, 1.0, "0.999 [0.997, 1.000]"),
        ("r2", 0.98, 0.97, 0.985, "0.980 [0.970, 0.985]"),
        ("accuracy_top1", 0.5, None, None, "50.00"),
    ],
)
def test_a_score_is_printed_with_the_ends_of_its_interval(metric, value, low, high, expected):
    row = replace(measured(metric, value), low=low, high=high)
    scale = times(100.0) if metric in SHARES else times(1.0)
    assert cell_of_measurement(row, scale=scale).text == expected


@given(
    value=st.floats(1e-3, 1e6),
    below=st.floats(0, 0.5),
    above=st.floats(0, 0.5),
)
def test_the_printed_interval_contains_the_real_one(value, below, above):
    low, high = value * (1 - below), value * (1 + above)
    text = plus_minus(value, low, high)
    if lopsided := re.fullmatch(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", text):
        # Both ends, rounded outwards, where ± would claim something else.
        first, last = map(float, lopsided.groups()[1:])
        assert float(lopsided[1]) == pytest.approx(value, rel=6e-3)
        # What is left of binary fractions behind the twelfth digit moves no end.
        assert low * 0.99 <= first <= low * (1 + 1e-11) and high * (1 - 1e-11) <= last <= high * 1.0101
        return
    match = re.fullmatch(r"([\d.]+) ± ([\d.]+)", text)
    assert match is not None
    shown, half = float(match[1]), float(match[2])
    slack = 1e-6 * value
    if not low == high == value:
        assert shown - half <= low + slack
        assert shown + half >= high - slack
    # … and neither side is wider than the interval's and two steps of the third digit of what is shown (999,999.9
    # shows seven): one by which the sides differ, one by which they are rounded up.
    third_digit = 10.0 ** (math.floor(math.log10(shown) + 1e-9) - 2)
    assert half <= min(shown - low, high - shown) + 2.0 * third_digit + slack


def test_absent_values_say_why_in_the_runs_own_words():
    run = make_run(1)
    cell = cell_of(run, "energy")
    assert (cell.text, cell.value) == ("n/a", None)
    assert cell.notes == ("rapl: /sys/class/powercap has no intel-rapl domain",)
    assert cell_of(run, "accuracy_top1").notes == ("not measured by this run",)
    assert reason_of_absence(failed_run(), "latency") == (
        "the run failed in phase load: Unsupported: operator 'Einsum' is not supported; try another runtime"
    )
    assert "cancelled" in reason_of_absence(replace(run, status="cancelled", measurements=()), "latency")
    assert failure_of(run) == ""


def test_values_that_are_no_numbers_are_absent():
    run = replace(make_run(1), measurements=(measured("latency", float("nan")),))
    assert cell_of(run, "latency").text == "n/a"


def test_a_simulated_value_says_so():
    row = replace(measured("latency", 0.002), basis="simulated", method="cycle model of a Cortex-M4")
    cell = cell_of(replace(make_run(1), measurements=(row,)), "latency", scale=times(1e3))
    assert cell.text == "2.00"
    assert cell.notes == ("simulated: cycle model of a Cortex-M4",)


def test_labels_have_just_the_words_that_tell_runs_apart():
    assert labels_of(same_model_runs()) == ["onnxruntime/cpu", "openvino/cpu", "fake/cpu", "litert/interpreter"]
    assert labels_of([make_run(1), make_run(2, threads=2), make_run(3, runtime="openvino")]) == [
        "onnxruntime/cpu · 1 thread",
        "onnxruntime/cpu · 2 threads",
        "openvino/cpu · 1 thread",
    ]
    assert labels_of([make_run(1), make_run(2)]) == ["onnxruntime/cpu · #1", "onnxruntime/cpu · #2"]
    assert labels_of(all_runs())[4:] == [
        "vww.tflite · litert/interpreter · single-stream",
        "vww.tflite · litert/interpreter · paced 30 fps",
        "vww.tflite · openvino/cpu",
    ]
    assert labels_of([]) == []


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 3), st.integers(1, 2)), max_size=7))
def test_labels_are_never_the_same(settings):
    runs = [
        make_run(index, runtime=runtime, threads=threads, batch=batch)
        for index, (runtime, threads, batch) in enumerate(settings)
    ]
    assert len(set(labels_of(runs))) == len(runs)


def test_conditions_are_told_from_the_record_or_not_at_all():
    run = make_run(1)
    assert engine_of(run) == "onnxruntime 1.2.3"
    assert (
        platform_of(run) == "Debian GNU/Linux 12 x86_64, Example CPU @ 2.00 GHz, onnxruntime 1.2.3 (cpu, 1 thread, f32)"
    )
    assert platform_of(replace(run, environment={})) is None
    assert processing_unit_of(run) == "CPU"
    cuda = replace(run, job=replace(run.job, runtime=replace(run.job.runtime, provider="cuda:0")))
    assert processing_unit_of(cuda) == "GPU"
    unknown = replace(run, job=replace(run.job, runtime=replace(run.job.runtime, provider="auto")))
    assert processing_unit_of(unknown) is None
    assert processing_unit_of(replace(unknown, effective={"device": "NPU.0"})) == "NPU"
    assert threads_of(replace(run, effective={"threads": 3})) == 3
    assert precision_of(replace(run, effective={})) is None
    shapes = {"precision": "f32", "precision_of_operators": {"f32": 9, "u8": 2}}
    assert precision_of(replace(run, effective=shapes | {"precision_of_products": {"f32": 3}})) == "f32"
    assert precision_of(replace(run, effective=shapes | {"precision_of_products": {"u8": 3}})) == "int8 + f32"
    assert precision_of(replace(run, effective=shapes)) == "int8 + f32"  # a record of before products were counted


def test_environments_are_flattened_in_words():
    document = {
        "memory": {"total_bytes": 25_276_502_016},
        "clock": {"max_hz": 2.4e9, "governor": None},
        "smt": True,
        "caches": [{"level": 1, "size_bytes": 32_768}],
        "flags": [],
    }
    assert dict(flatten(document)) == {
        "memory.total_bytes": "23.5 GiB",
        "clock.max_hz": "2.40 GHz",
        "clock.governor": "not known",
        "smt": "yes",
        "caches": "level 1 size bytes 32.0 KiB",
        "flags": "none",
    }


def test_rows_must_fit_their_columns():
    with pytest.raises(ValueError, match=says("row-cells-columns", row_count=2, columns_count=1)):
        Table(title="t", columns=(Column(title="a"),), rows=((Cell(text="1"), Cell(text="2")),))


def test_the_same_footnote_has_one_number():
    columns = (Column(title="a"), Column(title="b"))
    rows = (
        (Cell(text="1", notes=("x",)), Cell(text="2", notes=("y", "x"))),
        (Cell(text="3", notes=("y",)), Cell(text="4")),
    )
    table = Table(title="t", columns=columns, rows=rows)
    assert number_notes([table]) == {"x": 1, "y": 2}
    assert number_notes([table], columns=(1,)) == {"y": 1, "x": 2}


def test_names_become_one_printable_line():
    assert one_line("a\nb\t\x1b[31mc\x00\u202ed\udc80 ") == "a b [31mc d"


def test_a_value_says_within_which_factor_it_is_known_whether_or_not_its_interval_is_printed():
    """8750 /s stood bare in the table, while its interval reached from 0.304 to 251,829,434 /s."""
    wide = replace(measured("throughput", 8750.0), low=290.0, high=110_000.0)
    narrow = measured("throughput", 8750.0, half=100.0)
    runs = [
        replace(run, measurements=(*(row for row in run.measurements if row.metric != "throughput"), told))
        for run, told in ((make_run(1), wide), (make_run(2, runtime="openvino"), narrow))
    ]
    note = "not even known within a factor of 10, by its 95 % interval"
    assert cell_of(runs[0], "throughput", interval=False).notes == (note,)
    assert cell_of(runs[0], "throughput").notes == (note,)
    assert cell_of(runs[1], "throughput", interval=False).notes == cell_of(runs[1], "throughput").notes == ()
    nothing = replace(measured("throughput", 0.0), low=0.0, high=9.0)
    below = replace(measured("throughput", -3.0), low=-3.1, high=-2.9)
    assert cell_of_measurement(nothing).notes == cell_of_measurement(below).notes == ()
    assert cell_of_measurement(replace(below, low=-7.0)).notes == (
        "known only within a factor of 3, by its 95 % interval",
    )
    assert f"Throughput (1/s): {note}" in render_csv(bench_table(runs)).splitlines()[1]
    document = bench_document(runs)
    assert note in render_markdown(document)
    console = Console(file=io.StringIO(), width=120)
    print_document(document, console, details=True)
    assert note in one_line(console.file.getvalue())
