"""`diff` on real engines: the right layer, numbers as the engines' own sessions give them, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgewise import data
from edgewise.cli.main import run
from edgewise.record import InputSpec
from edgewise.registry import Availability
from edgewise.verbs.diff import sides
from edgewise.workload.inputs import make_arrays
from messages import says

pytestmark = pytest.mark.engine
onnx = pytest.importorskip("onnx", reason="needs onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")

FLOAT, LITE, INT8 = (data.path(name) for name in ("digits_cnn.onnx", "digits_cnn.tflite", "digits_cnn_int8.tflite"))


def diff(capsys, *words, code=0):
    """The JSON document of a command."""
    assert run(["diff", *map(str, words), "--json", "-q"]) == code
    return json.loads(capsys.readouterr().out)


def told_of(capsys, tmp_path, *words):
    """The JSON document and the text of one command."""
    assert run(["diff", *map(str, words), "-o", str(tmp_path / "told.json"), "-q"]) == 0
    return json.loads((tmp_path / "told.json").read_bytes()), capsys.readouterr().out


def refused(capsys, *words, code):
    assert run(["diff", *map(str, words)]) == code
    told = capsys.readouterr()
    assert told.out == "" and "Traceback" not in told.err
    return " ".join(told.err.split())


def changed(path: Path, layer: int, change) -> tuple[Path, str]:
    """The float network with the weights of one product changed, and the product's name."""
    model = onnx.load(FLOAT)
    node = [each for each in model.graph.node if each.op_type in ("Conv", "Gemm", "MatMul")][layer]
    tensor = next(each for each in model.graph.initializer if each.name == node.input[1])
    weights = onnx.numpy_helper.to_array(tensor)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(change(weights)), tensor.name))
    onnx.save(model, path)
    return path, node.name


def with_added(path: Path, factor: float) -> Path:
    """The float network with a product by `factor` behind its first activation."""
    model = onnx.load(FLOAT)
    at, relu = next((at, node) for at, node in enumerate(model.graph.node) if node.op_type in ("Relu", "Clip"))
    for node in model.graph.node:
        node.input[:] = ["scaled" if name == relu.output[0] else name for name in node.input]
    added = onnx.helper.make_node("Mul", [relu.output[0], "factor"], ["scaled"], name="scale")
    model.graph.node.insert(at + 1, added)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(factor, dtype=np.float32), "factor"))
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("factor", "exact", "words"),
    [(1.0, True, "; with these inputs it changes no value"), (0.5, False, "; exact before it, 6.0 dB behind it")],
)
def test_an_added_layer_is_held_against_what_it_takes(capsys, tmp_path, factor, exact, words):
    path = with_added(tmp_path / "added.onnx", factor)
    found, said = told_of(capsys, tmp_path, FLOAT, path, "--limit", "2")
    (own,) = [layer for layer in found["layers"] if layer["is_added"]]
    assert (own["name"], own["exact"]) == ("scale", exact) and [one["name"] for one in found["lone"]] == ["scale"]
    assert found["begins"] == (None if exact else "scale")
    said = " ".join(said.split())
    assert "scale (Mul) was added between " in said and words in said


def test_two_files_of_one_name_are_called_as_they_were_typed(capsys, tmp_path):
    folders = [tmp_path / name for name in ("lastweek", "today")]
    for folder in folders:
        folder.mkdir()
        shutil.copy(FLOAT, folder / "net.onnx")
    found = diff(capsys, *(folder / "net.onnx" for folder in folders), "--limit", "1")
    assert [model["name"] for model in found["models"]] == [str(folder / "net.onnx") for folder in folders]


def outputs_of(path: Path, count: int, tensor: str) -> np.ndarray:
    """A tensor over the first random inputs, by a session of its own."""
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name=tensor))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    shape = tuple(size if isinstance(size, int) else 1 for size in given.shape)
    spec = InputSpec(name=given.name, shape=shape, dtype="float32")
    feeds = [make_arrays([spec], seed=number)[0] for number in range(count)]
    return np.stack([session.run(None, {given.name: feed})[0] for feed in feeds]).astype(np.float64)


@pytest.mark.parametrize("layer", [0, 2])  # nothing before it, and layers that are exact
def test_the_layer_with_wrong_weights_is_named_and_its_ratio_is_that_of_its_tensors(tmp_path, capsys, layer):
    wrong, name = changed(tmp_path / "wrong.onnx", layer, lambda weights: weights * np.float32(1.25))
    found = diff(capsys, FLOAT, wrong, "--limit", "3")
    assert found["begins"] == name and found["samples"] == 3
    row = next(each for each in found["layers"] if each["name"] == name)
    right, other = outputs_of(FLOAT, 3, row["tensors"][0]), outputs_of(wrong, 3, row["tensors"][1])
    assert row["snr_db"] == pytest.approx(10 * math.log10(np.sum(right**2) / np.sum((right - other) ** 2)), rel=1e-6)
    assert row["largest"] == pytest.approx(np.max(np.abs(right - other)), rel=1e-6)
    assert row["zeros"] == pytest.approx(np.mean(other == 0))
    before = [each for each in found["layers"] if each["op"] != "input"]
    assert all(each["exact"] for each in before[: before.index(row)])


def test_a_file_and_itself_are_exact(capsys, tmp_path):
    found, said = told_of(capsys, tmp_path, FLOAT, FLOAT, "--limit", "2")
    assert found["begins"] is None and all(layer["exact"] for layer in found["layers"]) and not found["unmatched"]
    assert said.startswith("No layer of digits_cnn.onnx stands out")


def test_layers_of_another_format_and_layout_are_found(capsys):
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    for pair in ((FLOAT, LITE), (LITE, FLOAT)):
        found = diff(capsys, *pair, "--limit", "2")
        assert found["begins"] is None and found["unmatched"] == []
        assert all(layer["exact"] or layer["snr_db"] > 90 for layer in found["layers"])
        assert sum(layer["op"] != "input" for layer in found["layers"]) >= 3


def test_an_int8_network_is_held_against_the_float_one_in_real_numbers(capsys):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT")

    def answers(path):
        session = interpreter.Interpreter(
            str(path), experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
        session.allocate_tensors()
        (given,), (told,) = session.get_input_details(), session.get_output_details()
        spec = InputSpec(name="x", shape=tuple(map(int, given["shape"])), dtype="float32")
        found = []
        for number in range(4):
            (array,) = make_arrays([spec], seed=number)
            if given["dtype"] != np.float32:
                scale, zero = given["quantization"]
                array = np.clip(np.rint(array / np.float32(scale)) + zero, -128, 127).astype(given["dtype"])
            session.set_tensor(given["index"], array)
            session.invoke()
            scale, zero = told["quantization"]
            value = session.get_tensor(told["index"]).astype(np.float64)
            found.append((value - zero) * scale if scale else value)
        return np.stack(found)

    right, other = answers(LITE), answers(INT8)
    found = diff(capsys, LITE, INT8, "--limit", "4")
    (ratio,) = found["outputs"].values()
    assert ratio == pytest.approx(10 * math.log10(np.sum(right**2) / np.sum((right - other) ** 2)), rel=1e-4)
    products = [layer for layer in found["layers"] if "CONV" in layer["op"]]
    assert products and all(0 <= layer["saturated"] <= 1 and 10 < layer["snr_db"] < 60 for layer in products)


def test_samples_of_data_are_prepared_for_each_file(tmp_path, capsys):
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    reports = [tmp_path / f"r.{ending}" for ending in ("html", "csv", "md")]
    words = [word for path in reports for word in ("-o", path)]
    found = diff(capsys, FLOAT, LITE, "--data", data.path("digits_test.npz"), "--limit", "5", *words)
    assert found["samples"] == 5 and "digits_test" in found["inputs"] and found["begins"] is None
    assert re.search(
        r'stands out: [^<]+\.\d dB in [^<]+</p>\n<p class="evidence">Outputs: ', reports[0].read_text("utf-8")
    )
    assert reports[1].read_text("utf-8").count("\n") == len(found["layers"]) + 1


def ir_of(openvino, model: Path, path: Path) -> Path:
    """The network as OpenVINO IR in 32 bits."""
    openvino.save_model(openvino.Core().read_model(str(model)), str(path), compress_to_fp16=False)
    return path


def test_one_model_in_two_engines_agrees_in_every_layer_as_much_as_their_own_sessions_do(capsys):
    openvino = pytest.importorskip("openvino", reason="needs OpenVINO")
    found = diff(capsys, FLOAT, "-r", "onnxruntime,openvino", "--limit", "3")
    assert [model["engine"].split()[0] for model in found["models"]] == ["onnxruntime", "openvino"]
    assert found["begins"] is None and found["unmatched"] == [] and len(found["layers"]) > 10
    assert all(layer["exact"] or layer["snr_db"] > 90 for layer in found["layers"])
    compiled = openvino.Core().compile_model(str(FLOAT), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    spec = InputSpec(name="x", shape=(1, 1, 32, 32), dtype="float32")
    feeds = [make_arrays([spec], seed=number)[0] for number in range(3)]
    other = np.stack([compiled([feed])[0] for feed in feeds]).astype(np.float64)
    right = outputs_of(FLOAT, 3, "logits")
    ratio = 10 * math.log10(np.sum(right**2) / np.sum((right - other) ** 2))
    # Engines may fuse layers where no tensor between them is an output.
    assert found["outputs"]["logits"] == pytest.approx(ratio, abs=12)


@pytest.mark.parametrize("turned", [False, True])
def test_a_wrong_layer_of_openvino_ir_is_named(tmp_path, capsys, turned):
    openvino = pytest.importorskip("openvino", reason="needs OpenVINO")
    wrong, name = changed(tmp_path / "wrong.onnx", 3, lambda weights: weights * np.float32(1.25))
    pair = (
        (ir_of(openvino, FLOAT, tmp_path / "m.xml"), wrong)
        if turned
        else (FLOAT, ir_of(openvino, wrong, tmp_path / "m.xml"))
    )
    found = diff(capsys, *pair, "--limit", "2")
    assert found["begins"] == (f"{name}/WithoutBiases" if turned else name) and found["unmatched"] == []


def test_an_int8_network_in_another_engine_differs_by_rounding_alone(tmp_path, capsys):
    pytest.importorskip("ai_edge_litert", reason="needs LiteRT")
    openvino = pytest.importorskip("openvino", reason="needs OpenVINO")
    for model, least in ((LITE, 90), (INT8, 40)):
        found = diff(capsys, model, ir_of(openvino, model, tmp_path / f"{least}.xml"), "--limit", "3")
        assert found["begins"] is None and found["unmatched"] == []
        assert all(layer["exact"] or layer["snr_db"] > least for layer in found["layers"])
        assert sum(layer["op"] != "input" for layer in found["layers"]) == 6


def test_engines_that_do_not_fit_are_refused(capsys):
    assert re.search(says("one-model-nothing-compared"), refused(capsys, FLOAT, code=2))
    told = refused(capsys, FLOAT, FLOAT, "-r", "litert,litert,litert", code=2)
    assert re.search(says("runtimes-must-one-two-not", runtimes_count=3), told)
    told = refused(capsys, LITE, "-r", "litert,onnxruntime", code=2)
    assert re.search(says("gives-no-tensors-inside", own="onnxruntime", format="tflite"), told)


def test_what_can_not_be_compared_is_refused(tmp_path, capsys):
    other = tmp_path / "other.onnx"
    node = onnx.helper.make_node("Neg", ["in"], ["out"])
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in ("in", "out")]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10), other)
    assert "have no layer in common" in refused(capsys, FLOAT, other, code=2)
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(FLOAT.read_bytes()[:2000])
    assert "cut.onnx can't be used" in refused(capsys, FLOAT, cut, code=2)
    (tmp_path / "m.xml").write_text('<net name="a" version="11"><layers/><edges/></net>')
    assert refused(capsys, FLOAT, tmp_path / "m.xml", code=2)
    assert "--limit must be at least 1" in refused(capsys, FLOAT, FLOAT, "--limit", "0", code=2)


def test_an_engine_that_is_not_installed_is_named_with_its_command(capsys, monkeypatch):
    monkeypatch.setattr(sides, "availability_of", lambda _: Availability(False, "it is gone", "pip install it"))
    told = refused(capsys, FLOAT, LITE, code=3)
    assert "digits_cnn.onnx runs in onnxruntime: it is gone" in told and "try: pip install it" in told


def amplifying(path: Path, factor: float) -> Path:
    """A factor near 1, and the difference from what it was applied to, which has the factor's error many times."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Mul", ["x", "factor"], ["made"], name="factor"),
             helper.make_node("Sub", ["made", "x"], ["y"], name="difference")]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, kind, [64]) for name in ("x", "y")]
    stored = onnx.numpy_helper.from_array(np.full(64, factor, np.float32), "factor")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [stored])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def test_a_layer_that_makes_an_error_larger_is_not_the_one_that_adds_it(tmp_path, capsys):
    right, wrong = amplifying(tmp_path / "right.onnx", 1.01), amplifying(tmp_path / "wrong.onnx", 1.014)
    found = diff(capsys, right, wrong, "--limit", "2")
    _, factor, difference = found["layers"]
    assert factor["snr_db"] == pytest.approx(20 * math.log10(1.01 / 0.004), abs=0.01)
    assert factor["own_loss_db"] == pytest.approx(factor["loss_db"]) == pytest.approx(60 - factor["snr_db"])
    assert difference["loss_db"] == pytest.approx(20 * math.log10(1.01 / 0.01), abs=0.01)
    assert difference["own_loss_db"] == 0 and found["begins"] == "factor"


def test_each_of_two_wrong_layers_has_its_own_loss(tmp_path, capsys):
    wrong, name = changed(tmp_path / "wrong.onnx", 2, lambda weights: weights * np.float32(1.25))
    model = onnx.load(wrong)
    first = next(each for each in model.graph.initializer if each.name.endswith("0.0.weight"))
    first.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(first) * np.float32(1.1), first.name))
    onnx.save(model, wrong)
    rows = {each["name"]: each for each in diff(capsys, FLOAT, wrong, "--limit", "2")["layers"]}
    assert rows[name]["own_loss_db"] > rows[name]["loss_db"] > 0  # alone it gets no error that hides its own
    others = [each["own_loss_db"] for key, each in rows.items() if key != name and each["own_loss_db"] is not None]
    assert max(others) == pytest.approx(rows["/features/features.0/features.0.0/Conv"]["loss_db"], abs=0.1)


def test_values_that_are_not_finite_are_said_and_end_nothing(tmp_path, capsys):
    wrong, name = changed(tmp_path / "wrong.onnx", 1, lambda weights: weights * np.float32(np.nan))
    found, said = told_of(capsys, tmp_path, FLOAT, wrong, "--limit", "2")
    row = next(each for each in found["layers"] if each["name"] == name)
    assert row["snr_db"] is None and row["why"] == "it is NaN or infinite" and found["begins"] == name
    assert f"Values are NaN or infinite from {name} (" in said
