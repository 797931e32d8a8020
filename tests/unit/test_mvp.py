"""Silicon Labs' MVP: cycles and programs as its simulator counts them, and the published latencies."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.errors import BadInput, BadModel
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mvp import CLOCK_HZ, cycles_of, fitted, place
from edgewise.estimating.mvp_programs import NotAccelerated, NotModelled, programs_of
from edgewise.model.cost import total_of
from edgewise.model.identity import read_graph
from messages import says, wording
from mvp_graphs import draw_operator, write_operator

RESULTS = Path(__file__).parents[3] / "shared" / "data" / "mlperf_tiny.csv"
MODELS = {"ad": "ad01_int8", "ic": "pretrainedResnet_quant", "kws": "kws_ref_model", "vww": "vww_96_int8"}


def programs(folder, kind, shape, **words):
    network = read_network(write_operator(folder / "m.tflite", kind, shape, **words))
    return programs_of(network.operators[0], scaled_first=True)


def window(kernel, strides=(1, 1), *, same=False, out=1, activation=0):
    return {"kernel": kernel, "strides": strides, "same": same, "out": out, "activation": activation}


# Cycles and programs that the simulator of silabs-mltk 0.20.0 counts: tools/mvp_sweep.py.
SIMULATED = [
    ("add", (1, 3, 2, 17), {}, 255, 1),
    ("add", (1, 11, 16, 17), {"activation": 1}, 8978, 4),
    ("fc", (1, 640), {"out": 128}, 123_392, 1),
    ("fc", (1, 127), {"out": 1024}, 393_216, 1),
    ("fc", (2, 1024), {"out": 10, "activation": 3}, 30_800, 1),
    ("fc", (5, 64), {"out": 64, "activation": 3}, 32_161, 2),
    ("fc", (1, 4096), {"out": 10}, 61_470, 10),
    ("fc", (1, 1025), {"out": 10}, 30_770, 10),
    ("conv", (1, 25, 5, 64), window((1, 1), out=64), 292_064, 2),
    ("conv", (1, 3, 23, 16), window((1, 1), out=16, activation=1), 14_369, 3),
    ("conv", (1, 28, 30, 16), window((3, 5), (3, 1), same=True, out=1, activation=3), 40_342, 17),
    ("conv", (1, 9, 21, 5), window((5, 3), (2, 2), out=32), 75_921, 4),
    ("conv", (1, 12, 20, 1), window((6, 1), same=True, out=3, activation=3), 6574, 13),
    ("dw", (1, 26, 24, 1), window((3, 3), (2, 3)), 2965, 1),
    ("dw", (1, 34, 19, 32), window((3, 3), (3, 1), same=True, out=3), 642_528, 164),
    ("dw", (1, 35, 17, 24), window((3, 3), (2, 2), same=True, out=8), 435_744, 124),
    ("dw", (1, 32, 22, 4), window((1, 3), (3, 3), out=4), 8632, 1),
    ("dw", (1, 151, 107, 7), window((3, 3), same=True, activation=1), 3_525_321, 102),
    ("dw", (1, 12, 20, 128), window((3, 3), (2, 3), activation=1), 59_520, 30),
    ("dw", (1, 17, 12, 4), window((3, 3), (2, 2), activation=1), 4996, 4),
    ("avg", (1, 25, 5, 64), window((25, 5)), 4096, 1),
    ("avg", (1, 20, 30, 2), window((3, 3)), 6048, 3),
    ("avg", (1, 21, 27, 5), window((1, 1), (2, 2), same=True, activation=3), 3850, 5),
    ("avg", (1, 3, 19, 17), window((3, 3), (3, 1), same=True, activation=1), 4097, 19),
    ("max", (1, 31, 34, 4), window((3, 3), same=True, activation=1), 22_416, 22),
    ("max", (1, 22, 4, 17), window((7, 3), (2, 2), same=True), 6783, 136),
    ("max", (1, 33, 31, 8), window((5, 1), (2, 2)), 6720, 12),
]


@pytest.mark.parametrize(("kind", "shape", "words", "cycles", "count"), SIMULATED)
def test_cycles_and_programs_are_those_of_the_simulator(tmp_path, kind, shape, words, cycles, count):
    found = programs(tmp_path, kind, shape, **words)
    assert (found.cycles, found.count) == (cycles, count)


# The simulator leaves these to the CPU, too.
@pytest.mark.parametrize(
    ("kind", "shape", "words", "problem"),
    [
        ("fc", (1, 64), {"out": 1025}, says("dimension-elements-mvp-arrays", max="1,025")),
        ("fc", (1, 4099), {"out": 10}, says("rows-weights-which-cant-folded", depth="4,099")),
        (
            "conv",
            (1, 28, 33, 2),
            window((3, 3), (2, 2), same=True, out=128),
            says("stride-elements-mvp-arrays", max="2,176"),
        ),
        ("conv", (1, 8, 34, 128), window((1, 3), (2, 2), same=True, out=24), says("stride-elements-mvp-arrays")),
        ("conv", (1, 8, 8, 4), {**window((3, 3), out=8), "dilation": 2}, says("mvp-convolution-no-dilation")),
        (
            "dw",
            (1, 5, 10, 128),
            window((3, 3), (2, 2), same=True, out=8),
            says("stride-elements-mvp-arrays", max="2,560"),
        ),
        ("dw", (1, 9, 35, 10), window((1, 7), (3, 2)), says("row-no-whole-number-horizontal")),
        ("dw", (1, 10, 11, 3), window((3, 3), (2, 2), same=True), says("so-little-work-per-program")),
        (
            "dw",
            (1, 49, 158, 3),
            window((3, 3), same=True, out=4),
            says("more-than-nested-loops-instructions", most_steps=8),
        ),
        ("avg", (1, 9, 34, 128), window((3, 6), (3, 1), same=True), says("stride-elements-mvp-arrays", max="2,176")),
        ("max", (1, 2, 154, 64), window((1, 1), (3, 3)), says("stride-elements-mvp-arrays")),
    ],
)
def test_operators_beyond_the_limits_stay_on_the_cpu(tmp_path, kind, shape, words, problem):
    with pytest.raises(NotAccelerated, match=problem):
        programs(tmp_path, kind, shape, **words)


def test_what_is_not_modelled_is_said(tmp_path):
    with pytest.raises(NotModelled, match=says("edgewise-no-model-batch-mvp", batch=2)):
        programs(tmp_path, "max", (2, 4, 4, 2), **window((2, 2)))
    with pytest.raises(NotModelled, match=says("edgewise-no-model-dilated-depthwise")):
        programs(tmp_path, "dw", (1, 9, 9, 8), **window((3, 3)), dilation=2)
    path = write_operator(tmp_path / "b.tflite", "max", (2, 4, 4, 2), **window((2, 2)))
    found = edgewise.estimate(path, "xg24")
    assert found.measurement("latency").value is None and found.measurement("accelerator_cycles").value is None
    assert wording("edgewise-no-model-batch-mvp", batch=2) in found.measurement("latency").absent_because


def test_no_random_operator_takes_less_than_a_cycle_for_two_macs(tmp_path):
    random, accelerated = np.random.default_rng(3), 0
    for large in (False, True) * 60:
        kind, shape, words = draw_operator(random, large=large)
        path = write_operator(tmp_path / "m.tflite", kind, shape, **words)
        try:
            found = programs_of(read_network(path).operators[0], scaled_first=True)
        except NotAccelerated:
            continue
        accelerated += 1
        assert found.count > 0 and found.cycles > 0
        if not words.get("same"):  # Multiplications with padding are counted, and not executed.
            assert 2 * found.cycles >= total_of(read_graph(path)).macs
    assert accelerated > 80


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"options": {}}, "stride_h"),
        ({"stride_h": 0}, says("window-strides")),
        ({"stride_w": -1}, says("window-strides")),
        ({"stride_w": 50}, says("output-input-strides")),
        ({"weights": (8, 3)}, says("shapes-options-cant")),
        ({"out": (1, 2**30, 2**30, 8)}, says("output-input-strides")),
        ({"out": (8,)}, says("shapes-options-cant")),
    ],
)
def test_damaged_operators_are_bad_input_at_once(tmp_path, change, problem):
    path = write_operator(tmp_path / "m.tflite", "conv", (1, 8, 8, 4), **window((3, 3), same=True, out=8))
    (operator,) = read_network(path).operators
    source, weights, *rest = operator.inputs
    (out,) = operator.outputs
    options = change.get("options", {**operator.options, **{k: v for k, v in change.items() if "stride" in k}})
    weights = replace(weights, shape=change.get("weights", weights.shape))
    out = replace(out, shape=change.get("out", out.shape))
    with pytest.raises(BadModel, match=problem):
        programs_of(replace(operator, inputs=(source, weights, *rest), outputs=(out,), options=options),
                    scaled_first=True)  # fmt: skip
    with pytest.raises(NotAccelerated, match=says("dimension-elements-mvp-arrays", max="4,096")):
        programs_of(replace(operator, inputs=(source, replace(weights, shape=(8, 4096, 4096, 4)), *rest)),
                    scaled_first=True)  # fmt: skip


# mltk profile --accelerator MVP; it adds up to 6 cycles where data is not aligned to words.
@pytest.mark.parametrize(
    ("name", "simulated"), [("ad", 402_976), ("kws", 1_882_586), ("ic", 6_453_886), ("vww", 5_827_146)]
)
def test_the_models_of_mlperf_tiny_take_the_simulated_cycles(shared_models, name, simulated):
    placed = place(read_network(shared_models / f"{MODELS[name]}.tflite"), scaled_first=True)
    assert 0 <= simulated - sum(each.cycles for each in placed.programs.values()) <= 6
    assert len(placed.left) == {"ad": 0}.get(name, 2) and not placed.unknown  # RESHAPE and SOFTMAX


def published(name):
    if not RESULTS.is_file():
        pytest.skip("the published results (../shared/data/mlperf_tiny.csv) are not here")
    rows = csv.DictReader(RESULTS.read_text(encoding="utf-8").splitlines())
    return {row["round"]: row for row in rows if (row["submitter"], row["benchmark"]) == ("silicon_labs", name)}


@pytest.mark.parametrize("name", MODELS)
def test_the_published_latencies_of_both_drivers(shared_models, name):
    network = read_network(shared_models / f"{MODELS[name]}.tflite")
    for version, software in (("v0.7", "gecko-sdk-4.0"), ("v1.0", "gecko-sdk-4.1")):
        fit = fitted(software)
        placed = place(network, scaled_first=fit["scaled_first"])
        # The CPU's operators, SOFTMAX and RESHAPE, are less than 0.3 % of the published cycles.
        cycles = sum(cycles_of(each, wait=fit["wait"], start=fit["start"])[0] for each in placed.programs.values())
        assert cycles == pytest.approx(float(published(name)[version]["latency_ms"]) * 1e-3 * CLOCK_HZ, rel=0.035)


def test_an_estimate_contains_what_was_published(shared_models):
    found = edgewise.estimate(shared_models / "ad01_int8.tflite", "xg24")
    row = published("ad")["v1.0"]
    for metric, value in (("latency", float(row["latency_ms"]) / 1e3), ("energy", float(row["energy_uJ"]) / 1e6)):
        measured = found.measurement(metric)
        assert measured.low < value < measured.high and measured.basis == "estimated"
    assert found.measurement("accelerator_cycles").value == sum(layer.cycles for layer in found.layers) == 402_976
    assert {layer.unit for layer in found.layers} == {"MVP"} and found.device.clock_hz == 78e6
    assert found.coverage == {"latency": 0.9}
    assert sum(layer.time for layer in found.layers) == pytest.approx(found.measurement("latency").value)
    # One program per operator, and its call.
    assert found.measurement("cpu_cycles").value == pytest.approx(10 * 2 * fitted("gecko-sdk-4.1")["start"])
    slow = edgewise.estimate(shared_models / "ad01_int8.tflite", "xg24@39MHz")
    assert slow.measurement("latency").value == pytest.approx(2 * found.measurement("latency").value)
    assert (
        slow.measurement("energy").value is None
        and wording("power-published-78-mhz-only") in slow.measurement("energy").absent_because
    )


def test_the_driver_is_a_setting(tmp_path):
    path = write_operator(tmp_path / "m.tflite", "conv", (1, 25, 5, 64), **window((1, 1), out=64))
    new, old = (edgewise.estimate(path, "xg24", settings={"software": each}) for each in
                ("gecko-sdk-4.1", "gecko-sdk-4.0"))  # fmt: skip
    # Without a program that scales the input (125 × 64 / 2 values), and with three cycles per pair instead of one.
    assert old.measurement("accelerator_cycles").value == 292_064 - 4000 + 2 * 64 * 125 * 32
    assert "gecko-sdk-4.0" in old.software and old.measurement("latency").value > new.measurement("latency").value
    for clock in ("100MHz", "1Hz"):
        with pytest.raises(BadInput, match=says("clock-1-78-mhz")):
            edgewise.estimate(path, f"xg24@{clock}")
    with pytest.raises(
        BadInput, match=says("software-must-not-in-mvp", table="gecko-sdk-4.0 or gecko-sdk-4.1", software="tflm")
    ):
        edgewise.estimate(path, "xg24", settings={"software": "tflm"})


def test_a_program_bound_operator_names_the_cpu(tmp_path):
    path = write_operator(tmp_path / "m.tflite", "dw", (1, 24, 24, 64), **window((3, 3), same=True))
    (layer,) = edgewise.estimate(path, "xg24").layers
    assert layer.steps == ("576 programs",) and wording("cpu-takes-longer-start-accelerator") in layer.because
    assert layer.time == pytest.approx(577 * fitted("gecko-sdk-4.1")["start"] / 78e6) and layer.cycles < 577 * 1000


def test_a_model_that_the_accelerator_can_not_execute_is_refused(capsys):
    path = edgewise.__path__[0] + "/data/digits_cnn.tflite"
    assert edgewise_command(["estimate", path, "-d", "xg24", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert "int8, not float32" in document["refused"] and "edgewise optimize" in document["advice"]
    onnx = edgewise.__path__[0] + "/data/digits_cnn.onnx"
    assert edgewise_command(["estimate", onnx, "-d", "xg24"]) == 2
    assert re.search(says("mvp-driver-part-tensorflow-lite"), capsys.readouterr().err)
