"""Models that functions make, estimated before they are trained."""

from __future__ import annotations

import json
import re

import pytest

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.data import path as bundled
from edgewise.errors import BadInput, Unavailable
from edgewise.folders import job_folder
from edgewise.model.cost import total_of
from edgewise.model.identity import read_graph
from edgewise.optimizing import untrained
from edgewise.optimizing.base import passes
from edgewise.registry import Availability
from messages import says, wording

pytestmark = pytest.mark.engine
pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")
pytest.importorskip("ai_edge_quantizer", reason="ai-edge-quantizer is not installed")
pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")

FILE = """
import pathlib

HERE = pathlib.Path(__file__).parent

def make_model(copy=0):
    return HERE / ("small.tflite" if copy else "digits_cnn.tflite")

def as_bytes():
    return make_model().read_bytes()

def onnx():
    return HERE / "digits_cnn.onnx"
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    for name in ("digits_cnn.tflite", "digits_cnn.onnx"):
        (tmp_path / name).write_bytes(bundled(name).read_bytes())
    (tmp_path / "small.tflite").write_bytes((tmp_path / "digits_cnn.tflite").read_bytes())
    (tmp_path / "my_models.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return "my_models.py"


def test_a_float_model_becomes_int8_and_keeps_its_layers(functions):
    with job_folder() as folder:
        path, built, notes = untrained.build_int8(f"{functions}:as_bytes", folder, what_if={}, shapes={})
        graph = read_graph(path)
    assert {graph.tensors[name].dtype for name in (*graph.inputs, *graph.outputs)} == {"int8"}
    assert {graph.tensors[name].dtype for each in graph.operators for name in each.outputs} == {"int8"}
    before = read_graph(bundled("digits_cnn.tflite"))
    heavy = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    assert [each.op for each in graph.operators if each.op in heavy] == [
        each.op for each in before.operators if each.op in heavy
    ]
    assert (
        built.target == f"{functions}:as_bytes" and wording("model-quantised-int8-ranges-random", samples=8) in notes[0]
    )


def test_the_model_has_the_name_of_its_function(functions):
    one = edgewise.estimate(f"{functions}:make_model", "ethos-u55-128", what_if={"copy": 1})
    assert one.model["built"]["parameters"] == {"copy": 1}
    assert one.model["name"] == f"{functions}:make_model" and one.model["path"] is None
    assert one.measurement("latency").value > 0 and re.match(
        says("model-quantised-int8-ranges-random"), one.conditions[0]
    )


def test_the_command_builds_and_estimates(functions, capsys):
    words = ["--build", f"{functions}:make_model", "--what-if", "copy=1", "-d", "ethos-u55-128", "--json"]
    assert edgewise_command(["profile", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["model"]["built"]["parameters"] == {"copy": 1} and len(document["layers"]) > 5
    assert edgewise_command(["estimate", *words, "--what-if", "copy=0,1"]) == 2
    assert edgewise_command(["estimate", f"{functions}:onnx", "-d", "ethos-u55-128"]) == 2
    assert re.search(says("vela-compiles-tflite-files-only"), capsys.readouterr().err)
    assert edgewise_command(["estimate", "--build", f"{functions}:nothing", "-d", "ethos-u55-128"]) == 2
    assert "functions in the module: as_bytes, make_model, onnx" in capsys.readouterr().err


def test_a_quantised_model_stays_as_it_is(functions, tmp_path):
    with job_folder() as folder:
        int8 = untrained.build_int8(f"{functions}:make_model", folder, what_if={}, shapes={})[0].read_bytes()
    (tmp_path / "digits_cnn.tflite").write_bytes(int8)
    with job_folder() as folder:
        path, _, notes = untrained.build_int8(f"{functions}:make_model", folder, what_if={}, shapes={})
        assert path.read_bytes() == int8 and notes == ()


def test_a_missing_converter_is_named_with_another_way(functions, monkeypatch):
    one = passes().get(untrained.QUANTISATION)
    monkeypatch.setattr(
        type(one), "availability", lambda self: Availability(False, "x is not installed", "pip install x")
    )
    with pytest.raises(Unavailable, match="x is not installed") as caught:
        edgewise.estimate(f"{functions}:make_model", "ethos-u55-128")
    assert re.search(says("let-function-return-path-int8"), caught.value.advice)


def test_inputs_that_can_not_be_made_are_bad_input(functions):
    with pytest.raises(BadInput):
        edgewise.estimate(f"{functions}:make_model", "ethos-u55-128", shapes={"": (0, 1)})


TORCH = """
import torch

def make_model(width=8):
    layers = [torch.nn.Conv2d(1, width, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(width * 36, 10)]
    return torch.nn.Sequential(*layers), (torch.zeros(1, 1, 8, 8),)
"""
KERAS = """
import keras

def make_model(width=8):
    layers = [keras.layers.Input((8, 8, 1)), keras.layers.Conv2D(width, 3, activation="relu"),
              keras.layers.Flatten(), keras.layers.Dense(10)]
    return keras.Sequential(layers)
"""


@pytest.mark.long
@pytest.mark.parametrize(("name", "source"), [("torch", TORCH), ("keras", KERAS)])
def test_a_network_in_memory_is_converted_and_quantised(tmp_path, monkeypatch, name, source):
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # read when Keras is imported
    for module in dict.fromkeys(("torch", "litert_torch", name)):
        pytest.importorskip(module, reason=f"{module} is not installed")
    (tmp_path / f"a_{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    found = edgewise.estimate(f"a_{name}.py:make_model", "ethos-u55-128")
    assert found.measurement("macs").value == 8 * 36 * 9 + 8 * 36 * 10
    with job_folder() as folder:
        wide, _, notes = untrained.build_int8(f"a_{name}.py:make_model", folder, what_if={"width": 16}, shapes={})
        assert total_of(read_graph(wide)).macs == 16 * 36 * 9 + 16 * 36 * 10
    assert len(notes) == 2 and "float32 .tflite" in notes[0]
