"""The latencies that the shipped fit estimates, against published ones."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mcu.timing import fitted

pytestmark = pytest.mark.engine
pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
if not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"):
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)

MODELS = {"ad": "ad01_int8", "ic": "pretrainedResnet_quant", "kws": "kws_ref_model", "vww": "vww_96_int8"}


def measurements(shared_models, name):
    """The rows of a file of published measurements."""
    file = shared_models.parents[1] / "data" / name
    if not file.is_file():
        pytest.skip(f"the shared measurements (../shared/data/{name}) are not here")
    return csv.DictReader(file.read_text(encoding="utf-8").splitlines())


def published(shared_models, **wanted):
    """Model → latencies in s of the rows of MLPerf Tiny with these words in these columns."""
    found = {name: [] for name in MODELS}
    for row in measurements(shared_models, "mlperf_tiny.csv"):
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


def test_the_rebuilt_networks_of_edgemark_have_the_published_number_of_weights(shared_models, tmp_path, monkeypatch):
    """A float weight takes 3 bytes of flash more than an int8 weight; scales per channel take a few back."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    from mcu_networks import NETWORKS, write_network

    flash = {name: {} for name in NETWORKS}
    for row in measurements(shared_models, "edgemark.csv"):
        if row["runtime"] == "TFLM + STM" and row["model"] in flash:
            flash[row["model"]][row["precision"]] = float(row["flash_kb"]) * 1024
    for name, sizes in flash.items():
        network = read_network(write_network(name, tmp_path))
        layers = [each.inputs for each in network.operators if each.code in ("CONV_2D", "FULLY_CONNECTED")]
        weights, channels = (sum(inputs[place].elements for inputs in layers) for place in (1, 2))
        published = (sizes["basic"] - sizes["q_full_int_only"]) / 3
        assert published == pytest.approx(weights, abs=250 + 8 * channels), name
