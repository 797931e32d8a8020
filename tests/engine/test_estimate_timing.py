"""The latencies that the shipped fit estimates, against published ones."""

from __future__ import annotations

import csv
import shutil

import numpy as np
import pytest

import edgewise
from edgewise.estimating.mcu.timing import fitted

pytestmark = pytest.mark.engine
pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
if not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"):
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)

MODELS = {"ad": "ad01_int8", "ic": "pretrainedResnet_quant", "kws": "kws_ref_model", "vww": "vww_96_int8"}


def published(shared_models, **wanted):
    """Model → latencies in s of the rows of MLPerf Tiny with these words in these columns."""
    file = shared_models.parents[1] / "data" / "mlperf_tiny.csv"
    if not file.is_file():
        pytest.skip("the shared measurements (../shared/data/mlperf_tiny.csv) are not here")
    found = {name: [] for name in MODELS}
    for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
        if row["division"] == "closed" and all(word in row[column].lower() for column, word in wanted.items()):
            found[row["benchmark"]].append(float(row["latency_ms"]) * 1e-3)
    return found


@pytest.mark.parametrize(
    ("software", "wanted"),
    [("cmsis-nn", {"system": "cmsis", "submitter": "octoml"}), ("tflm-reference", {"is_reference": "1"}),
     ("vendor", {"board": "nucleo-l4r5zi", "compiler": "x-cube-ai"})],
)  # fmt: skip
def test_the_estimates_are_those_that_were_published_within_their_error(shared_models, software, wanted):
    errors = []
    for name, latencies in published(shared_models, **wanted).items():
        path = shared_models / f"{MODELS[name]}.tflite"
        row = edgewise.estimate(path, "nucleo-l4r5zi", settings={"software": software}).measurement("latency")
        assert latencies and row.basis == "estimated" and row.low < row.value < row.high
        errors += [abs(row.value / latency - 1) for latency in latencies]
        inside = [row.low <= latency <= row.high for latency in latencies]
        assert any(inside), (name, row, latencies)
    entry = fitted()["software"][software]
    # One engine of several: the mean error is at most about the half of an interval that contains 90 %.
    assert np.mean(errors) < np.expm1(entry["half_width"])
