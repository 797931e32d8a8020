"""A model on Silicon Labs' MVP whose last operators its Cortex-M33 executes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import edgewise

pytestmark = pytest.mark.engine
RESULTS = Path(__file__).parents[3] / "shared" / "data" / "mlperf_tiny.csv"


def test_the_processor_executes_the_rest(shared_models):
    path = shared_models / "kws_ref_model.tflite"
    found, alone = edgewise.estimate(path, "xg24"), edgewise.estimate(path, "cortex-m33@78MHz")
    softmax = found.layers[-1]
    assert (softmax.op, softmax.unit, softmax.because) == (
        "SOFTMAX", "CPU", "the MVP's driver has no program for this operator",
    )  # fmt: skip
    assert softmax.time == alone.layers[12].time and softmax.instructions == alone.layers[12].instructions > 0
    latency = found.measurement("latency")
    assert latency.value == pytest.approx(sum(layer.time or 0 for layer in found.layers))
    assert found.measurement("cpu_cycles").value < latency.value * 78e6 < alone.measurement("cpu_cycles").value


@pytest.mark.parametrize(("version", "software"), [("v0.7", "gecko-sdk-4.0"), ("v1.0", "gecko-sdk-4.1")])
@pytest.mark.parametrize(
    ("name", "file"), [("ic", "pretrainedResnet_quant"), ("kws", "kws_ref_model"), ("vww", "vww_96_int8")]
)
def test_intervals_contain_what_was_published(shared_models, name, file, version, software):
    if not RESULTS.is_file():
        pytest.skip("the published results (../shared/data/mlperf_tiny.csv) are not here")
    rows = csv.DictReader(RESULTS.read_text(encoding="utf-8").splitlines())
    wanted = ("silicon_labs", version, name)
    (row,) = (each for each in rows if (each["submitter"], each["round"], each["benchmark"]) == wanted)
    found = edgewise.estimate(shared_models / f"{file}.tflite", "xg24-dk2601b", settings={"software": software})
    for metric, published in (("latency", float(row["latency_ms"]) / 1e3), ("energy", float(row["energy_uJ"]) / 1e6)):
        estimated = found.measurement(metric)
        assert estimated.low < published < estimated.high and estimated.value == pytest.approx(published, rel=0.12)
