"""Which engines support an operator: tables found by trying, asked without any engine."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from edgewise.model.inspection import inspect_graph
from edgewise.model.operator_sets import (
    LiteRtInterpreter,
    OnnxRuntimeCpu,
    OpenVinoIr,
    OpenVinoOnnx,
    OpenVinoTflite,
    TorchPrograms,
)
from edgewise.model.support import AdmitsUnknown, judge, operator_sets
from edgewise.report.inspection.tables import support_table
from graphs import graph, op, tensor
from messages import says, wording


@pytest.fixture(autouse=True)
def tried_engines(monkeypatch, request):
    """The engines that were tried are the installed ones."""
    monkeypatch.setattr("edgewise.model.operator_sets.version", lambda package: getattr(request, "param", "0.0"))


def answer(
    asked, name, *, dtype="float32", version="opset 17", number=0, domain="", custom=False, metadata=None, kind="",
    **options,
):  # fmt: skip
    made = op(name, kind, ["x"], ["y"], op=name)
    operator = replace(made, version=number, domain=domain, custom=custom, attributes=options)
    made = replace(
        graph([tensor("x", 1, dtype=dtype), tensor("y", 1)], [operator]), version=version, metadata=metadata or {}
    )
    assert isinstance(asked, AdmitsUnknown)
    return asked.refusal(made.operators[0], made), asked.unknown(made.operators[0], made)


def ask(asked, name, **settings):
    refused, unknown = answer(asked, name, **settings)
    assert unknown is None
    return refused


def unsure(asked, name, **settings):
    refused, unknown = answer(asked, name, **settings)
    assert refused is None
    return unknown


ML3 = {"ir_version": 8, "opsets": {"ai.onnx": 13, "ai.onnx.ml": 3}}


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("Conv", {}, None),
        ("Conv", {"dtype": "float64"}, "no kernel for Conv on float64"),
        ("Frobnicate", {}, "has no operator Frobnicate"),
        ("ImageDecoder", {"version": "opset 20"}, "no kernel"),
        ("ImageDecoder", {"version": "opset 17"}, "not defined in opset 17"),
        ("Conv", {"version": "opset 99"}, "up to opset"),
        ("QLinearAdd", {"domain": "com.microsoft"}, None),
        ("Frobnicate", {"domain": "com.example"}, "com.example.Frobnicate"),
        ("Normalizer", {"domain": "ai.onnx.ml"}, None),
        ("TreeEnsembleClassifier", {"domain": "ai.onnx.ml", "metadata": ML3}, None),
        ("TreeEnsembleClassifier", {"domain": "ai.onnx.ml", "metadata": {"opsets": {"ai.onnx.ml": 5}}}, "of opset 5"),
        ("Scaler", {"domain": "ai.onnx.ml"}, None),
        ("LinearClassifier", {"domain": "ai.onnx.ml"}, None),
        ("DynamicQuantizeLSTM", {"domain": "com.microsoft"}, None),
        ("QAttention", {"domain": "com.microsoft", "dtype": "uint8"}, None),
        ("GroupNorm", {"domain": "com.microsoft"}, "no kernel"),  # CUDA alone has one
        ("Conv", {"metadata": {"ir_version": 90}}, "up to IR version"),
        ("Conv", {"metadata": {"opsets": {"ai.onnx": 90}}}, "ai.onnx up to opset"),
        ("Conv", {"metadata": {"opsets": {"ai.onnx": 17, "ai.onnx.ml": 6}}}, "ai.onnx.ml up to opset 5, not 6"),
        ("Identity", {"dtype": "seq(tensor(float))"}, None),
    ],
)
def test_onnxruntime(name, settings, word):
    found = ask(OnnxRuntimeCpu(), name, **settings)
    assert found is None if word is None else word in found


def test_openvino_converts_types_but_not_every_operator():
    assert ask(OpenVinoOnnx(), "Conv", dtype="float64") is None
    assert "MaxUnpool" in ask(OpenVinoOnnx(), "MaxUnpool")
    assert "conversion rule" in ask(OpenVinoOnnx(), "Scaler", domain="ai.onnx.ml")


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("BitCast", {"version": "opset 26"}, "conversion rule"),
        ("TensorScatter", {"version": "opset 24"}, "conversion rule"),
        ("SequenceMap", {}, "conversion rule"),
        ("OptionalGetElement", {"version": "opset 18"}, "conversion rule"),
        ("GridSample", {"domain": "com.microsoft"}, "conversion rule"),
        ("Unique", {"domain": "com.microsoft"}, "conversion rule"),
        ("ConcatFromSequence", {"dtype": "seq(tensor(float))"}, None),
        ("Attention", {"domain": "com.microsoft"}, None),
        ("Bernoulli", {}, "conversion rule"),  # read from memory, it is replaced by its body
        ("Loop", {"dtype": "int64"}, None),
        ("Pad", {"version": "opset 19", "mode": "wrap"}, "with mode=wrap"),
        ("Pad", {"version": "opset 19", "mode": "edge"}, None),
        ("Dropout", {"kind": "elementwise"}, "in training mode"),
        ("Dropout", {"kind": "movement"}, None),
        ("Cast", {"dtype": "float8_e4m3fnuz"}, "reads no tensors of float8e4m3fnuz"),
    ],
)
def test_openvino_takes_operators_in_the_models_and_with_the_options_that_were_tried(name, settings, word):
    found = ask(OpenVinoOnnx(), name, **settings)
    assert found is None if word is None else word in found


@pytest.mark.parametrize("name", ["ZipMap", "CastMap", "DictVectorizer"])
def test_onnx_runtime_takes_the_operators_on_maps(name):
    assert ask(OnnxRuntimeCpu(), name, domain="ai.onnx.ml") is None
    assert unsure(OnnxRuntimeCpu(), name, domain="ai.onnx.ml") is None


def test_what_was_not_tried_is_unknown_and_never_a_refusal():
    assert re.search(says("not-tried"), unsure(OpenVinoOnnx(), "Frobnicate", domain="com.example", custom=True))
    assert re.search(
        says("trial-inconclusive"), unsure(OnnxRuntimeCpu(), "CenterCropPad", version="opset 18", dtype="float64")
    )
    assert re.search(says("trial-opset-inconclusive"), unsure(OnnxRuntimeCpu(), "SequenceMap", version="opset 17"))
    assert re.search(says("which-depends-input"), unsure(OpenVinoOnnx(), "Dropout"))
    assert re.search(says("custom-operator-not-tried"), unsure(LiteRtInterpreter(), "MyOp", custom=True))
    assert re.search(says("not-tried"), unsure(LiteRtInterpreter(), "A_BUILTIN_OF_TOMORROW"))
    assert re.search(says("custom-operator-not-tried"), unsure(OpenVinoTflite(), "MyOp", custom=True))
    assert re.search(says("operator-set-without-number-not"), unsure(OpenVinoIr(), "Convolution"))


def test_litert_knows_versions_of_its_kernels():
    assert ask(LiteRtInterpreter(), "CONV_2D", number=3) is None
    assert re.search(says("up-version-not"), ask(LiteRtInterpreter(), "CONV_2D", number=99))
    assert re.search(says("no-kernel"), ask(LiteRtInterpreter(), "STABLEHLO_SORT", number=1))
    assert ask(LiteRtInterpreter(), "Convolution2DTransposeBias", custom=True) is None
    assert "Flex" in ask(LiteRtInterpreter(), "FlexSomething", custom=True)
    assert re.search(
        says("operator-tensorflow-itself-needs-tensorflow"), ask(LiteRtInterpreter(), "FlexSomething", custom=True)
    )


def test_openvino_translates_tflite():
    assert ask(OpenVinoTflite(), "CONV_2D") is None
    assert "translator" in ask(OpenVinoTflite(), "SVDF")
    assert re.search(
        says("does-not-custom-operator-application"), ask(OpenVinoTflite(), "Convolution2DTransposeBias", custom=True)
    )


def test_openvino_knows_its_own_operations():
    assert ask(OpenVinoIr(), "Convolution", number=1, version="IR 11") is None
    assert re.search(says("no-operator-set-needs-extension"), ask(OpenVinoIr(), "Frobnicate"))
    assert "extension" in ask(OpenVinoIr(), "Convolution", custom=True)
    assert "1, 3 to 16" in ask(OpenVinoIr(), "RNNCell", number=2)
    assert re.search(
        says("reads-ir-versions-not", first=10, last=11, version=9),
        ask(OpenVinoIr(), "Convolution", number=1, version="IR 9"),
    )


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


def test_an_inspection_tells_unknown_from_no():
    mine = replace(op("mine", "", ["x"], ["y"], op="Mine"), domain="com.example", custom=True)
    made = replace(graph([tensor("x", 1), tensor("y", 1)], [mine]), format="onnx", version="opset 17")
    found = inspect_graph(made, source={"name": "m"}, sets=[OnnxRuntimeCpu(), OpenVinoOnnx()])
    document = found.to_dict()
    (layer,) = document["layers"]
    assert layer["supported_by"] == []
    assert list(layer["unsupported_by"]) == ["onnxruntime/cpu"]
    assert list(layer["support_unknown"]) == ["openvino/cpu"]
    assert [(each["unsupported"], each["unknown"]) for each in document["support"]] == [(1, 0), (0, 1)]
    rows = [[cell.text for cell in row] for row in support_table(found.support, found).rows]
    assert rows[0][:4] == ["onnxruntime/cpu", "0 of 1", "1", ""]
    assert rows[1][:4] == ["openvino/cpu", "0 of 1", "", "1"]


def test_what_stands_in_a_branch_counts_for_the_operator_that_runs_it():
    branch = graph([tensor("x", 1), tensor("y", 1)], [op("u", "", ["x"], ["y"], op="MaxUnpool")])
    step = op("if", "branch", ["x"], ["z"], op="If", subgraphs=["if.then"])
    made = graph([tensor("x", 1, dtype="bool"), tensor("z", 1)], [step], subgraphs={"if.then": branch})
    (answered,) = judge(replace(made, format="onnx", version="opset 17"), [OpenVinoOnnx()])
    assert "in if.then: " in answered.refusals[0] and "MaxUnpool" in answered.refusals[0]


@pytest.mark.parametrize(
    ("tried_engines", "is_newer"),
    [("1.0", False), ("1.32.0", False), ("1.32.9", False), ("1.33.0rc1", True), ("2.0", True)],
    indirect=["tried_engines"],
)
def test_what_an_older_release_refused_is_unknown_of_a_newer_one(tried_engines, is_newer, request):
    """A release adds operators and formats; a patch of one does not."""
    installed = request.node.callspec.params["tried_engines"]
    asked = OnnxRuntimeCpu()
    asked.__dict__["table"] = asked.table | {"engine": "ONNX Runtime 1.32.0"}
    refused, unknown = answer(asked, "Relu", version="opset 99", metadata={"ir_version": 8, "opsets": {"ai.onnx": 99}})
    limit = asked.table["newest_opsets"]["ai.onnx"]
    reason = f"ONNX Runtime 1.32.0 reads ai.onnx up to opset {limit}, not 99"
    if is_newer:
        assert (refused, unknown) == (None, f"{reason}; the installed ONNX Runtime {installed} was not tried")
    else:
        assert (refused, unknown) == (reason, None)
    assert answer(asked, "Relu") == (None, None)


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["onnxruntime.json", "openvino_onnx.json", "litert.json", "openvino_tflite.json", "openvino_ir.json"]
)
def test_the_tables_are_those_of_the_installed_engines(name, monkeypatch):
    """With the engine's version of the table, trying a fifth of the operators again must give what is in it."""
    import json
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    root = Path(__file__).parents[2]
    table = json.loads((root / "src/edgewise/data/operators" / name).read_text())
    packages = {"ONNX Runtime": "onnxruntime", "LiteRT": "ai-edge-litert", "OpenVINO": "openvino"}
    for needed in filter(None, [table["engine"], table.get("defined_by")]):
        engine, _, tried = needed.rpartition(" ")
        try:
            installed = version(packages[engine])
        except PackageNotFoundError:
            pytest.skip(f"{engine} is not installed")
        if installed != tried:
            pytest.skip(f"the table was made with {needed}, installed is {installed}")
    monkeypatch.syspath_prepend(root / "tools")  # the processes that the trials run in import it too
    import operator_tables
    from edgewise.model.dialects import openvino

    schemas = operator_tables.schemas()[::5]
    monkeypatch.setattr(operator_tables, "to_try", lambda: schemas)
    operations = dict(list(openvino.OPERATIONS.items())[::5])
    monkeypatch.setattr(openvino, "OPERATIONS", operations)
    again = json.loads(json.dumps(getattr(operator_tables, f"{name.removesuffix('.json')}_table")()))
    if table["format"] == "onnx":
        tried = {(operator_tables.name_of(one), str(one.since_version)) for one in schemas}
        kept = {op: {since: told for since, told in rows.items() if (op, since) in tried}
                for op, rows in table["operators"].items()}  # fmt: skip
        table["operators"] = {op: rows for op, rows in kept.items() if rows}
    elif table["format"] == "openvino":
        table["operations"] = {op: spans for op, spans in table["operations"].items() if op in operations}
    assert again == table and len(again.get("operators", again.get("operations", "x"))) > 0


@pytest.mark.parametrize("tried_engines", ["2.13.0"], indirect=True)
def test_pytorch_supports_the_operators_of_its_own_programs(tried_engines):
    made = graph([tensor("x", 1), tensor("y", 1)], [op("aten.relu.default", "", ["x"], ["y"])])
    custom = replace(made.operators[0], op="mylib.op.default", custom=True)
    asked = TorchPrograms()
    told = replace(made, producer="PyTorch 2.13.1")
    assert asked.refusal(made.operators[0], told) is asked.unknown(made.operators[0], told) is None
    assert "mylib.op" in asked.unknown(custom, told)
    newer = replace(made, producer="PyTorch 2.14.0")
    assert wording("program-exported-pytorch-installed-one", exported="2.14.0", installed="2.13.0") in asked.unknown(
        made.operators[0], newer
    )
