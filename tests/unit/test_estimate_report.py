"""Estimates in which the time of some layers is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.estimating.base import EstimatedLayer
from edgewise.record import Measurement
from edgewise.report.estimate.document import estimate_document, layer_table
from estimates import estimated, on_board


@pytest.fixture
def partly(tmp_path):
    """282 µs on the NPU in three layers, and two layers on a core without a time."""
    npu = [
        EstimatedLayer(index=at, name=f"n{at}", op="CONV_2D", unit="NPU", cycles=1e3 * us, time=1e-6 * us)
        for at, us in enumerate((100, 12, 170))
    ]
    core = [EstimatedLayer(index=at, name=f"c{at}", op="MEAN", unit="CPU") for at in (3, 4)]
    merged = EstimatedLayer(index=5, name="m", op="RELU", unit="", because="merged")
    whole = estimated(tmp_path)
    reason = "2 operator(s) are executed by the CPU (MEAN), whose time is not known: no latencies are published"
    return replace(
        whole,
        device=replace(whole.device, settings={"cpu": "cortex-m55"}),
        measurements=(Measurement.absent("latency", reason),),
        layers=(*npu, *core, merged),
        at_least={"latency": 282e-6},
    )


def test_the_most_expensive_layers_are_those_whose_time_is_known(partly):
    table = layer_table(partly, top=2)
    assert [row[1].text for row in table.rows] == ["n0", "n2", "… 4 more layers"]
    assert table.title == "The 2 most expensive of 6 layers, in order of execution; the cost of 2 is not known"
    # What the runtime does besides is none of the model's layers, which inspect counts, too.
    start = EstimatedLayer(index=None, name="start", op="", unit="CPU", time=1e-6)
    table = layer_table(replace(partly, layers=(*partly.layers, start)), top=2)
    assert table.title.startswith("The 2 most expensive of 6 layers and the start, in order of execution")


def test_what_is_known_of_a_latency_is_said_first_and_in_its_cell(partly):
    document = estimate_document(partly)
    assert document.answer == ("Latency: at least 282 µs on the NPU, and MEAN on cortex-m55, whose time is not known.",)
    cell = document.tables[0].rows[0][1]
    assert cell.text == "≥ 282 µs" and cell.value is None and "no latencies are published" in cell.notes[0]
    (row,) = partly.to_document()["estimates"]
    assert row["value"] is None and row["at_least"] == 282e-6 and row["absent_because"]
    assert estimate_document(replace(partly, at_least={})).answer == ()


def test_the_latency_with_its_interval_and_the_fit_come_first(tmp_path):
    whole = replace(estimated(tmp_path), coverage={"latency": 0.9})
    assert estimate_document(whole).answer == ("1.00 ms on toy-core, 90%: ± 0.10 ms (estimated)",)
    assert estimate_document(on_board("toy", ram=65536, needed=1024, latency=1e-3)).answer == (
        "1.00 ms on toy, ± 0.10 ms (estimated)",
        "fits: RAM 1 of 64 KiB, 63 left; flash 2 of 4 KiB, 2 left",
    )
    assert estimate_document(replace(whole, refused="the model does not fit")).answer == ()


def test_cycles_without_a_clock_say_how_to_get_a_latency(tmp_path):
    whole = estimated(tmp_path)
    clockless = Measurement.absent("latency", "no clock is given: --device toy-core@120MHz, for example")
    (answer,) = estimate_document(replace(whole, measurements=(clockless, *whole.measurements[1:]))).answer
    assert answer == (
        "1,000 CPU cycles on toy-core, no interval is known (estimated); "
        "no latency: no clock is given: --device toy-core@120MHz, for example"
    )


def test_the_parts_of_the_ram_add_up_and_other_sizes_are_details():
    one = on_board("b", ram=4096, needed=1024, latency=0.1)
    sizes = {"memory_arena_tflm_32bit": 700, "memory_scratch": 200, "memory_stack": 124, "memory_sram": 1024}
    aside = {"memory_sram_least": 500, "memory_arena": 176, "memory_arena_tflm": 900}
    rows = [Measurement.of(metric, size, "m", basis="derived") for metric, size in (sizes | aside).items()]
    document = estimate_document(replace(one, measurements=(*one.measurements, *rows)))
    parts, whole = document.tables[:2]
    told = [(row[0].text, row[1].value, row[2].text) for row in parts.rows]
    assert told == [
        ("Arena of tflite-micro", 700, "0.7"), ("Scratch memory", 200, "0.2"), ("Stack", 124, "0.1"),
        ("RAM", 1024, "1"), ("RAM of b", 4096, "4"), ("RAM left", 3072, "3"),
    ]  # fmt: skip
    assert sum(size for _, size, _ in told[:3]) == told[3][1] == told[4][1] - told[5][1]
    assert not {row[0].text for row in whole.rows} & {"RAM", "Arena", "Stack", "RAM without an interpreter"}
    assert told[3][0] not in {row[0].text for table in document.tables[1:] for row in table.rows}
