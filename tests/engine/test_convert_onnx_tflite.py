"""``edgewise convert X.onnx --to tflite`` by onnx2tf itself, whose environment ``EDGEWISE_TEST_ONNX2TF`` names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import edgewise

pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference here")
pytest.importorskip("ai_edge_litert", reason="LiteRT runs the result")
pytestmark = [pytest.mark.engine, pytest.mark.long]


@pytest.fixture(autouse=True)
def onnx2tf(tmp_path, monkeypatch):
    folder = os.environ.get("EDGEWISE_TEST_ONNX2TF")
    if not folder:
        pytest.skip("no onnx2tf: EDGEWISE_TEST_ONNX2TF=FOLDER of an environment with onnx2tf==2.6.9 (Python 3.12)")
    monkeypatch.setenv("PATH", str(Path(folder).absolute() / "bin"), prepend=":")
    monkeypatch.chdir(tmp_path)


def test_pictures_and_maps_get_channels_last_a_signal_keeps_its_layout_and_the_outputs_agree():
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal(shape).astype("float32")
               for name, shape in (("w", (8, 3, 3, 3)), ("v", (5, 8, 1, 1)), ("u", (4, 6, 3)))}  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["map"]),
        helper.make_node("Conv", ["signal", "u"], ["c"]),
        helper.make_node("ReduceMean", ["c"], ["mean"], axes=[2], keepdims=0),
    ]
    shapes = {"x": ["N", 3, 16, 12], "signal": ["N", 6, 20], "map": ["N", 5, 16, 12], "mean": ["N", 4]}
    info = {name: helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(nodes, "net", [info["x"], info["signal"]], [info["map"], info["mean"]],
                              [numpy_helper.from_array(each, name) for name, each in weights.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    before = Path("net.onnx").read_bytes()

    made = edgewise.convert("net.onnx", to="litert")

    assert made.accepted and made.agreement.close and [each.name for each in made.agreement.outputs] == ["map", "mean"]
    assert "input x has its channels last: N×3×16×12 → 1×16×12×3" in made.lost
    assert "output map has its channels last: N×5×16×12 → 1×16×12×5" in made.lost
    assert "open dimensions of input signal are fixed: N×6×20 → 1×6×20" in made.lost
    assert made.steps == ("onnx2tf; version 2.6.9",) and Path("net.onnx").read_bytes() == before


def test_the_accuracy_stays_that_of_the_onnx_file():
    data = Path(edgewise.__file__).parent / "data"
    edgewise.convert(data / "digits_cnn.onnx", to="tflite", output="made.tflite")
    found = [
        edgewise.evaluate(
            name, data=data / "digits_test.npz", task="classification", prepare=["scale=1/255"], latency=False
        )
        for name in (data / "digits_cnn.onnx", "made.tflite")
    ]
    first, second = (each.runs[0].measurement("accuracy_top1").value for each in found)
    assert first == second > 0.9
