"""``edgewise convert --precision int8``: the plain file, with ranges from samples, for everything that computes in int8."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.errors import BadInput, ExitCode
from edgewise.model.identity import read_graph
from edgewise.optimizing.planning import is_quantized
from messages import has, says, wording

pytestmark = pytest.mark.engine
PACKAGES = {"tflite": "ai_edge_quantizer", "onnx": "onnxruntime"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run(["example", "."]) == ExitCode.DONE
    Path("model.yaml").unlink()  # with it the pixels need no preparation
    (tmp_path / "model_int8.tflite").unlink()
    return tmp_path


@pytest.mark.parametrize("form", PACKAGES)
def test_the_plain_file_agrees_with_its_source_and_tells_its_samples(form, capsys):
    pytest.importorskip(PACKAGES[form])
    capsys.readouterr()
    words = ["convert", f"model.{form}", "--precision", "int8", "--data", "digits.npz", "--prepare", "scale=1/255"]
    assert run([*words, "--limit", "40", "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == f"model_int8.{form}" and found["to"] == form and found["accepted"]
    (output,) = found["agreement"]["outputs"]
    assert output["close"] and output["snr_db"] > 20 and output["top1"] == 1.0
    assert found["agreement"]["inputs"] == "16 samples of the calibration"
    assert "ranges of the activations: 40 samples of digits.npz, split train" in found["lost"]
    assert any(line.startswith("inputs and outputs stay float32: ") for line in found["lost"])
    assert Path(f"model_int8.{form}").stat().st_size < 0.4 * Path(f"model.{form}").stat().st_size
    assert is_quantized(read_graph(Path(f"model_int8.{form}")))
    kept = json.loads(Path(f"model_int8.{form}.provenance.json").read_text())
    assert kept["parent"]["sha256"] == found["source"]["sha256"] and "--precision int8" in kept["command"]
    assert len(kept["calibration"].pop("samples")) == 40
    assert len(kept["calibration"].pop("sha256")) == 64
    assert kept["calibration"] == {"name": "digits.npz", "split": "train"}
    assert (
        run([*words, "--json"]) == ExitCode.BAD_INPUT and "--force" in capsys.readouterr().err
    )  # nothing is overwritten


@pytest.mark.parametrize("form", PACKAGES)
def test_an_evaluation_says_how_many_samples_also_calibrated_the_file(form, capsys):
    pytest.importorskip(PACKAGES[form])
    words = ["--data", "digits.npz", "--prepare", "scale=1/255"]
    assert run(["convert", f"model.{form}", "--precision", "int8", *words, "--limit", "40"]) == ExitCode.DONE
    capsys.readouterr()
    settings = {"data": "digits.npz", "task": "classification", "prepare": ["scale=1/255"], "latency": False}
    one = edgewise.evaluate(f"model_int8.{form}", split="train", **settings)
    evaluation = one.models[0].run.evaluation
    assert evaluation.calibrated.samples == 40 and evaluation.calibrated.n == evaluation.n - 40 > 0
    test = edgewise.evaluate(f"model_int8.{form}", split="test", **settings)
    assert test.models[0].run.evaluation.calibrated is None


def test_every_operator_computes_in_int8():
    pytest.importorskip("ai_edge_quantizer")
    found = edgewise.convert("model.tflite", precision="int8", data="digits.npz", prepare=["scale=1/255"])
    operators = read_graph(found.path).operators
    assert {operator.op for operator in operators if operator.op in ("QUANTIZE", "DEQUANTIZE")} == {
        "QUANTIZE",
        "DEQUANTIZE",
    }
    assert any("10 of 10 operators compute in int8" in line for line in found.lost)
    with pytest.raises(BadInput, match=says("already-quantised-tensors-hold-scaled")) as caught:
        edgewise.convert(found.path, precision="int8", data="digits.npz", prepare=["scale=1/255"], output="b.tflite")
    assert caught.value.advice == wording("use-file-give-network-float")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--precision", "int8"], says("add-data-file-folder-samples", named_data="--data")),
        (
            ["--precision", "int8", "--data", "digits.npz", "--to", "openvino"],
            says("precision-int8-applies-only-tflite"),
        ),
        (
            ["--precision", "int8", "--data", "digits.npz", "--input-data", "digits.npz"],
            says("input-data-does-not-apply", named_data=has("--data")),
        ),
        (["--precision", "int8", "--data", "digits.npz", "--limit", "0"], "--limit"),
        (["--precision", "int8", "--data", "digits.npz"], says("values-outside-0-1-input")),
        (["--precision", "int8", "--data", "none.npz"], "none.npz"),
        (["--precision", "int4", "--to", "openvino"], says("precision-must-f32-f16-int8")),
        (
            ["--to", "openvino", "--data", "digits.npz"],
            says("opset-applies-only-onnx", named_opset=has("--data"), named_to=has("--precision int8")),
        ),
    ],
)
def test_bad_input_is_one_error(words, said, capsys):
    capsys.readouterr()
    assert run(["convert", "model.onnx", *words]) == ExitCode.BAD_INPUT
    err = " ".join(capsys.readouterr().err.split())
    assert (
        re.search(said, err)
        and err.count("error:") == 1
        and "Traceback" not in err
        and not Path("model_int8.onnx").exists()
    )
