"""Estimates in which the time of some layers is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.estimating.base import EstimatedLayer
from edgewise.record import Measurement
from edgewise.report.estimate import estimate_document, layer_table
from estimates import estimated


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
    assert table.title == "Layers: the 2 most expensive of 6; the cost of 2 is not known"


def test_what_is_known_of_a_latency_is_said_first_and_in_its_cell(partly):
    document = estimate_document(partly)
    assert document.answer == ("Latency: at least 282 µs on the NPU, and MEAN on cortex-m55, whose time is not known.",)
    cell = document.tables[0].rows[0][1]
    assert cell.text == "≥ 282 µs" and cell.value is None and "no latencies are published" in cell.notes[0]
    (row,) = partly.to_document()["estimates"]
    assert row["value"] is None and row["at_least"] == 282e-6 and row["absent_because"]
    assert estimate_document(replace(partly, at_least={})).answer == ()
