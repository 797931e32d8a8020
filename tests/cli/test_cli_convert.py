"""``edgewise convert`` with the engines' own converters: what is written, what is refused, and which operator is named."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import edgewise
from edgewise.cli.main import run
from edgewise.errors import BadInput, ExitCode
from edgewise.run.agreement import NOT_FINITE
from messages import has, is_in, says, wording

pytest.importorskip("openvino", reason="OpenVINO converts here")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference here")
pytestmark = pytest.mark.engine

LIAR = """
import edgewise.converting.openvino_ir as own

write = own.write_from_file

def lie(source, path, options):
    import onnx
    model = onnx.load(str(source))
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Sigmoid"
    changed = path.with_name("changed.onnx")
    onnx.save(model, str(changed))
    write(changed, path, options)

own.write_from_file = lie
"""
"""A converter that takes every Relu for a Sigmoid, planted into each process by Python's own hook."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_net(path: Path, *, large: float = 1.0, batch: int | str = "N") -> Path:
    """x → MatMul "first" → Relu "relu" → MatMul "second", one of whose weights is `large`, → MatMul "third" → y."""
    random = np.random.default_rng(0)
    weights = [random.standard_normal(shape).astype("float32") for shape in ((16, 32), (32, 32), (32, 10))]
    weights[1][3, 4] = large
    names = ["x", "a", "b", "c", "y"]
    kinds = [("MatMul", "first", 0), ("Relu", "relu", None), ("MatMul", "second", 1), ("MatMul", "third", 2)]
    nodes = [
        helper.make_node(op, [names[at], *([] if weight is None else [f"w{weight}"])], [names[at + 1]], name=name)
        for at, (op, name, weight) in enumerate(kinds)
    ]
    info = [helper.make_tensor_value_info(name, 1, [batch, size]) for name, size in (("x", 16), ("y", 10))]
    constants = [numpy_helper.from_array(each, f"w{at}") for at, each in enumerate(weights)]
    graph = helper.make_graph(nodes, "net", info[:1], info[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def convert(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict, str]:
    code = run(["convert", *words, "--json", "-q"])
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out else {}, told.err


def test_a_result_that_agrees_is_written_with_its_provenance(place: Path, capsys):
    write_net(place / "net.onnx")
    code, document, _ = convert(capsys, "net.onnx", "--to", "openvino")
    assert code == ExitCode.DONE and document["accepted"]
    assert sorted(each.name for each in place.iterdir()) == [
        "net.bin",
        "net.onnx",
        "net.xml",
        "net.xml.provenance.json",
    ]
    (output,) = document["agreement"]["outputs"]
    assert output["name"] == "y" and output["close"] and output["top1"] == 1.0 and output["max_rel"] < 1e-5
    assert document["agreement"]["source_engine"].startswith("onnxruntime ")
    assert document["agreement"]["result_engine"].startswith("openvino ")
    provenance = json.loads((place / "net.xml.provenance.json").read_text())
    assert provenance["parent"]["sha256"] == hashlib.sha256((place / "net.onnx").read_bytes()).hexdigest()
    content = (place / "net.xml").read_bytes() + (place / "net.bin").read_bytes()
    assert provenance["model"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert provenance["command"] == "edgewise convert net.onnx --to openvino"
    assert provenance["steps"] == document["steps"] and provenance["steps"][0].startswith("openvino.convert_model (")


def test_files_are_overwritten_only_with_force(place: Path, capsys):
    write_net(place / "net.onnx")
    (place / "net.xml").write_text("mine")
    assert convert(capsys, "net.onnx", "-o", "net.xml")[0] == ExitCode.BAD_INPUT
    (place / "net.xml").unlink()
    (place / "net.bin").write_text("mine")
    code, _, errors = convert(capsys, "net.onnx", "-o", "net.xml")
    assert code == ExitCode.BAD_INPUT and re.search(says("exists-already", output=has("net.bin")), errors)
    assert (place / "net.bin").read_text() == "mine" and not (place / "net.xml").exists()
    assert convert(capsys, "net.onnx", "-o", "net.xml", "--force")[0] == ExitCode.DONE


def write_root(path: Path, *, finite: bool = False) -> Path:
    """r = √(low − 9), m = x · w · r: NaN for each random `low`; with `finite`, x · w is an output too."""
    nodes = [
        helper.make_node("Sub", ["low", "nine"], ["less"]),
        helper.make_node("Sqrt", ["less"], ["r"]),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Mul", ["m", "r"], ["y"]),
    ]
    infos = {name: helper.make_tensor_value_info(name, 1, shape) for name, shape in
             {"x": [1, 4], "low": [], "y": [1, 4], "m": [1, 4]}.items()}  # fmt: skip
    constants = [numpy_helper.from_array(np.float32(9), "nine"), numpy_helper.from_array(np.eye(4, dtype="f4"), "w")]
    outputs = [infos[name] for name in (("y", "m") if finite else ("y",))]
    graph = helper.make_graph(nodes, "net", [infos["x"], infos["low"]], outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_outputs_that_are_nan_on_random_inputs_are_not_called_equal(place: Path, capsys):
    write_root(place / "net.onnx")
    code, document, _ = convert(capsys, "net.onnx", "--to", "openvino")
    assert code == ExitCode.DONE and document["agreement"]["close"] is None
    assert document["agreement"]["absent_because"] == (
        f"{NOT_FINITE} (3 random inputs, seeds 0 to 2): give real inputs with --input-data"
    )
    np.savez(place / "real.npz", x=np.ones((1, 4), "f4"), low=np.float32(13))
    code, document, _ = convert(capsys, "net.onnx", "--to", "openvino", "--force", "--input-data", "real.npz")
    (output,) = document["agreement"]["outputs"]
    assert code == ExitCode.DONE and output["close"] and output["max_abs"] == 0


def test_one_output_of_nan_beside_another_says_why_it_was_not_compared(place: Path, capsys):
    write_root(place / "net.onnx", finite=True)
    assert run(["convert", "net.onnx", "--to", "openvino"]) == ExitCode.DONE
    told = capsys.readouterr().out
    assert re.search(r"y +n/a \[1\].*not compared", told) and re.search(r"m +0 .*yes", told)
    assert NOT_FINITE in " ".join(told.split())


@pytest.mark.long
def test_weights_that_overflow_in_f16_are_found(place: Path, capsys):
    """OpenVINO stores a weight of 3e6 in f16 as 65504."""
    write_net(place / "net.onnx", large=3e6)
    code, document, errors = convert(capsys, "net.onnx", "-o", "net.xml", "--precision", "f16")
    assert code == ExitCode.RUN_FAILED and not document["accepted"] and document["path"] is None
    assert (document["wrong_operator"]["operator"], document["wrong_operator"]["op"]) == ("second", "MatMul")
    assert "nothing was written: output y" in errors and "without --precision f16" in errors
    assert [each.name for each in place.iterdir()] == ["net.onnx"]
    assert convert(capsys, "net.onnx", "-o", "net.xml")[0] == ExitCode.DONE


@pytest.mark.cold
def test_a_converter_that_lies_is_refused_and_its_operator_named(place: Path, capsys, monkeypatch):
    write_net(place / "net.onnx")
    hook = place / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(LIAR)
    monkeypatch.setenv("PYTHONPATH", str(hook), prepend=":")
    code, document, _ = convert(capsys, "net.onnx", "--to", "openvino")
    assert code == ExitCode.RUN_FAILED
    assert (document["wrong_operator"]["operator"], document["wrong_operator"]["op"]) == ("relu", "Relu")
    assert re.search(says("output-differs-though-inputs-agree"), document["wrong_operator"]["why"])
    assert not (place / "net.xml").exists()


def test_two_nodes_of_one_name_convert_and_are_compared_by_the_engine_that_runs_them(place: Path, capsys):
    """ONNX Runtime refuses such a file; OpenVINO converts it, and runs it."""
    model = onnx.load(str(write_net(place / "net.onnx")))
    model.graph.node[2].name = model.graph.node[0].name
    onnx.save(model, "net.onnx")
    code, document, errors = convert(capsys, "net.onnx", "--to", "openvino")
    assert (code, document["accepted"]) == (ExitCode.DONE, True), errors
    assert document["agreement"]["close"]
    assert document["agreement"]["source_engine"].startswith("openvino ")


def test_a_source_that_draws_random_numbers_converts_without_blame(place: Path, capsys):
    """No result can have the same outputs: the operator is named, and nothing is called wrong."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"], name="sample"),
        helper.make_node("Add", ["x", "n"], ["y"], name="add"),
    ]
    info = [helper.make_tensor_value_info(name, 1, [1, 64]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", info[:1], info[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    code, document, errors = convert(capsys, "net.onnx", "--to", "openvino")
    assert (code, document["accepted"], document["wrong_operator"]) == (ExitCode.DONE, True, None), errors
    assert document["agreement"]["close"] is None
    assert "sample (RandomNormalLike)" in document["agreement"]["absent_because"]
    assert (place / "net.xml").is_file()


def test_ort_and_given_inputs(place: Path, capsys):
    write_net(place / "net.onnx")
    np.savez(place / "x.npz", x=np.ones((5, 16), "float32"))
    code, document, _ = convert(capsys, "net.onnx", "-o", "small.ort", "--input-data", "x.npz")
    assert code == ExitCode.DONE and document["model"]["format"] == "ort"
    assert document["agreement"]["inputs"] == "x.npz" and document["agreement"]["outputs"][0]["max_abs"] < 1e-3


def test_shapes_close_open_dimensions_and_the_report_says_so(place: Path, capsys):
    write_net(place / "net.onnx")
    assert run(["convert", "net.onnx", "--to", "openvino", "--shape", "x=4x16", "-q"]) == ExitCode.DONE
    shown = " ".join(capsys.readouterr().out.split())
    assert "open dimensions of input x are fixed: N×16 → 4×16" in shown
    assert re.search(says("wrote-provenance", path="net.xml"), shown) and "onnxruntime" in shown


def test_tflite_becomes_openvino(capsys):
    bundled = Path(edgewise.__file__).parent / "data" / "digits_cnn.tflite"
    code, document, errors = convert(capsys, str(bundled), "-o", "out.xml")
    assert code == ExitCode.DONE, errors
    assert document["source"]["format"] == "tflite" and document["agreement"]["close"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["net.onnx", "--to", "onnx"], ExitCode.BAD_INPUT, "is ONNX already"),
        (
            ["net.onnx", "--to", "executorch"],
            ExitCode.UNAVAILABLE,
            wording("edgewise-knows-no-converter-source", title="ExecuTorch"),
        ),
        (["net.onnx", "--to", "gguf"], ExitCode.BAD_INPUT, says("must-one-not", targets=has("onnx"))),
        (["net.onnx"], ExitCode.BAD_INPUT, says("required-one", named_to=has("--to"))),
        (
            ["net.onnx", "--to", "openvino", "-o", "net.tflite"],
            ExitCode.BAD_INPUT,
            says("name-output-must-end-does", suffix=".xml"),
        ),
        (
            ["net.onnx", "--to", "ort", "--precision", "f16"],
            ExitCode.BAD_INPUT,
            says("opset-applies-only-onnx", named_to=has("--to openvino")),
        ),
        (
            ["net.onnx", "--to", "openvino", "--opset", "17"],
            ExitCode.BAD_INPUT,
            says("opset-applies-only-onnx", named_to=has("--to onnx")),
        ),
        (["net.onnx", "--to", "openvino", "-o", "no/net.xml"], ExitCode.BAD_INPUT, "there is no folder no"),
        (["none.onnx", "--to", "openvino"], ExitCode.BAD_INPUT, says("no-such-file-in-identity")),
        (["cut.onnx", "--to", "openvino"], ExitCode.BAD_INPUT, "cut.onnx"),
        (["net.onnx", "--to", "openvino", "--shape", "z=1x3"], ExitCode.BAD_INPUT, "z"),
    ],
)
def test_errors_say_what_to_do(words: list[str], code: int, said: str, place: Path, capsys):
    path = write_net(place / "net.onnx")
    (place / "cut.onnx").write_bytes(path.read_bytes()[:900])
    found, _, errors = convert(capsys, *words)
    assert found == code and is_in(said, errors) and "try:" in errors
    assert sorted(each.name for each in place.iterdir()) == ["cut.onnx", "net.onnx"]


def test_an_operator_that_openvino_lacks_is_named(place: Path, capsys):
    info = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy"]
    node = helper.make_node("Whirl", ["x"], ["y"], domain="own.ops", name="whirl")
    graph = helper.make_graph([node], "net", info[:1], info[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(place / "own.onnx"))
    code, _, errors = convert(capsys, "own.onnx", "--to", "openvino")
    assert code == ExitCode.UNAVAILABLE and "OpenVINO can't write IR" in errors and "Whirl" in errors


def test_a_converter_that_takes_too_long_is_ended(place: Path, capsys):
    write_net(place / "net.onnx")
    code, _, errors = convert(capsys, "net.onnx", "--to", "openvino", "--timeout", "50ms")
    assert (
        code == ExitCode.RUN_FAILED
        and wording("took-longer-than-s-in-renderer", draw_s="0.05") in errors
        and "--timeout" in errors
    )


def test_a_dry_run_writes_nothing(place: Path, capsys):
    write_net(place / "net.onnx")
    assert run(["convert", "net.onnx", "--to", "openvino", "--dry-run"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("would run: edgewise convert net.onnx --to openvino")
    assert [each.name for each in place.iterdir()] == ["net.onnx"]


def test_python_converts_too(place: Path):
    write_net(place / "net.onnx", batch=1)
    found = edgewise.convert(place / "net.onnx", output=place / "out.xml")
    assert found.accepted and found.path == place / "out.xml" and found.path.is_file()
    with pytest.raises(BadInput, match=says("must-one-not-in-converting", named_to="to")):
        edgewise.convert(place / "net.onnx", to="gguf")
