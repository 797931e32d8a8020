"""Who would take an operator: tables found by trying, asked without any engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.model.inspection import inspect_graph
from edgewise.model.operator_sets import LiteRtInterpreter, OnnxRuntimeCpu, OpenVinoIr, OpenVinoOnnx, OpenVinoTflite
from edgewise.model.support import judge, operator_sets
from graphs import graph, op, tensor


def ask(asked, name, *, dtype="float32", version="opset 17", number=0, domain="", custom=False):
    operator = replace(op(name, "", ["x"], ["y"], op=name), version=number, domain=domain, custom=custom)
    made = replace(graph([tensor("x", 1, dtype=dtype), tensor("y", 1)], [operator]), version=version)
    return asked.refusal(made.operators[0], made)


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("Conv", {}, None),
        ("Conv", {"dtype": "float64"}, "no kernel for Conv on float64"),
        ("Frobnicate", {}, "knows no operator Frobnicate"),
        ("ImageDecoder", {"version": "opset 20"}, "no kernel"),
        ("ImageDecoder", {"version": "opset 17"}, "not defined in opset 17"),
        ("Conv", {"version": "opset 99"}, "up to opset"),
        ("QLinearAdd", {"domain": "com.microsoft"}, None),
        ("Frobnicate", {"domain": "com.example"}, "com.example.Frobnicate"),
        ("Normalizer", {"domain": "ai.onnx.ml"}, None),
        ("Identity", {"dtype": "seq(tensor(float))"}, None),
    ],
)
def test_onnxruntime(name, settings, word):
    found = ask(OnnxRuntimeCpu(), name, **settings)
    assert found is None if word is None else word in found


def test_openvino_converts_types_but_not_every_operator():
    assert ask(OpenVinoOnnx(), "Conv", dtype="float64") is None
    assert "MaxUnpool" in ask(OpenVinoOnnx(), "MaxUnpool")


def test_litert_knows_versions_of_its_kernels():
    assert ask(LiteRtInterpreter(), "CONV_2D", number=3) is None
    assert "up to version" in ask(LiteRtInterpreter(), "CONV_2D", number=99)
    assert "no kernel" in ask(LiteRtInterpreter(), "STABLEHLO_SORT", number=1)
    assert "custom" in ask(LiteRtInterpreter(), "MyOp", custom=True)


def test_openvino_translates_tflite():
    assert ask(OpenVinoTflite(), "CONV_2D") is None
    assert "translator" in ask(OpenVinoTflite(), "SVDF")
    assert "translator" in ask(OpenVinoTflite(), "MyOp", custom=True)


def test_openvino_knows_its_own_operations():
    assert ask(OpenVinoIr(), "Convolution") is None
    assert "none of OpenVINO's" in ask(OpenVinoIr(), "Frobnicate")
    assert "extension" in ask(OpenVinoIr(), "Convolution", custom=True)


def test_all_sets_are_plug_ins():
    found = dict(operator_sets())
    assert {"onnxruntime", "openvino-onnx", "openvino-ir", "litert", "openvino-tflite"} <= set(found)
    for each in found.values():
        assert each.name and each.title and each.source and each.formats


def test_an_inspection_names_who_would_not_take_it():
    made = graph([tensor("x", 1), tensor("y", 1)], [op("MaxUnpool0", "", ["x"], ["y"], op="MaxUnpool")])
    made = replace(made, format="onnx", version="opset 17")
    found = inspect_graph(made, source={"name": "m"}, sets=[OnnxRuntimeCpu(), OpenVinoOnnx(), LiteRtInterpreter()])
    (layer,) = found.to_dict()["layers"]
    assert layer["supported_by"] == ["onnxruntime/cpu"]
    assert "openvino/cpu" in layer["unsupported_by"]
    assert [each.name for each in judge(made, [LiteRtInterpreter()])] == []


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("name", ["onnxruntime.json", "openvino_onnx.json", "litert.json", "openvino_tflite.json"])
def test_the_tables_are_those_of_the_installed_engines(name):
    """With the engine's version of the table, trying again must give the same table."""
    import json
    import sys
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    root = Path(__file__).parents[2]
    table = json.loads((root / "src/edgewise/data/operators" / name).read_text())
    package = {"onnxruntime.json": "onnxruntime", "litert.json": "ai-edge-litert"}.get(name, "openvino")
    try:
        installed = version(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if not table["engine"].endswith(f" {installed}"):
        pytest.skip(f"the table is of {table['engine']}, installed is {installed}")
    sys.path.insert(0, str(root / "tools"))
    try:
        import operator_tables
    finally:
        sys.path.pop(0)
    again = getattr(operator_tables, f"{name.removesuffix('.json')}_table")()
    if name in ("onnxruntime.json", "openvino_onnx.json") and len(again["operators"]) != len(table["operators"]):
        pytest.skip("the installed onnx package defines other operators than the one the table was made with")
    assert again == table
