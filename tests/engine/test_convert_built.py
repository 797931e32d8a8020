"""``edgewise convert FILE.py:FUNCTION``: networks of PyTorch and Keras, and converters that change them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.model.identity import open_model

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("litert_torch", reason="litert-torch is not installed")
pytest.importorskip("keras", reason="Keras is not installed")
pytestmark = pytest.mark.engine

NETS = """
import torch

class Two(torch.nn.Module):
    def __init__(self, large=1.0):
        super().__init__()
        self.first, self.drop, self.second = torch.nn.Linear(6, 8), torch.nn.Dropout(), torch.nn.Linear(8, 4)
        with torch.no_grad():
            self.second.weight[1, 2] = large

    def forward(self, image, mask):
        hidden = self.drop(torch.relu(self.first(image)))
        return torch.softmax(self.second(hidden), -1), (hidden * mask).sum(-1, keepdim=True)

class Liar(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.compiler.is_exporting() else x * 3

class Eigen(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eigvalsh(x)

class Plain(Two):
    def forward(self, image):
        return self.second(torch.relu(self.first(image)))

def two():
    return Two(), (torch.zeros(3, 6), torch.ones(3, 8))

def large():
    return Plain(large=1e6), (torch.zeros(3, 6),)

def liar():
    return Liar(), (torch.zeros(2, 3),)

def eigen():
    return Eigen(), (torch.zeros(3, 3),)
"""

KERAS = """
import keras
import numpy as np

def make(large=1e6):
    image = keras.Input((8, 8, 3), batch_size=1, name="image")
    x = keras.layers.Conv2D(4, 3, activation="relu", name="conv")(image)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    head = keras.layers.Dense(5, name="head")
    model = keras.Model(image, keras.layers.Dense(2, name="last")(head(x)))
    weights, biases = head.get_weights()
    weights[1, 2] = large
    head.set_weights([np.abs(weights), biases])
    return model

def small():
    return make(1.0)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    (tmp_path / "net.py").write_text(NETS)
    (tmp_path / "knet.py").write_text(KERAS)
    return tmp_path


def convert(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict, str]:
    code = run(["convert", *words, "--json", "-q"])
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out else {}, told.err


@pytest.mark.parametrize("ending", ["onnx", "tflite"])
def test_a_module_with_two_inputs_and_outputs(ending: str, place: Path, capsys):
    code, document, errors = convert(capsys, "net.py:two", "-o", f"two.{ending}")
    assert code == ExitCode.DONE, errors
    assert [each["close"] for each in document["agreement"]["outputs"]] == [True, True]
    assert document["agreement"]["source_engine"] == "PyTorch"
    assert "layers that compute otherwise in training are in inference mode: Dropout (1)" in document["lost"]
    assert document["source"]["built"]["thing"] == "a PyTorch module"
    provenance = json.loads((place / f"two.{ending}.provenance.json").read_text())
    assert provenance["command"] == f"edgewise convert net.py:two --output two.{ending}"


@pytest.mark.parametrize("ending", ["pt2", "onnx", "tflite", "keras"])
def test_a_file_is_the_same_from_every_folder(ending: str, place: Path, capsys):
    """Layers have the module's own name, and nothing has the source's folder, the time or an address."""
    found = []
    for folder, name in (("here", "one"), ("there", "two")):
        (place / folder).mkdir()
        source = place / folder / "net.py"
        source.write_text(KERAS if ending == "keras" else NETS)
        function = "small" if ending == "keras" else "two"
        assert convert(capsys, f"{source}:{function}", "-o", f"{name}.{ending}")[0] == ExitCode.DONE
        found.append((place / f"{name}.{ending}").read_bytes())
    assert found[0] == found[1]
    assert b"edgewise" not in found[0] and bytes(place) not in found[0]
    assert (b"net.Two" in found[0]) == (ending != "keras")


def test_an_export_is_read_again_and_converted(place: Path, capsys):
    assert convert(capsys, "net.py:two", "-o", "two.pt2")[0] == ExitCode.DONE
    code, document, errors = convert(capsys, "two.pt2", "-o", "two.xml")
    assert code == ExitCode.DONE, errors
    assert document["source"]["format"] == "torch" and document["agreement"]["close"]
    assert document["agreement"]["result_engine"].startswith("openvino ")
    (place / "cut.pt2").write_bytes((place / "two.pt2").read_bytes()[:3000])
    code, _, errors = convert(capsys, "cut.pt2", "-o", "cut.xml")
    assert code == ExitCode.BAD_INPUT and "cut.pt2" in errors


def test_a_program_of_an_archive_is_converted_and_optimised(place: Path, capsys, short_races):
    torch = pytest.importorskip("torch")
    from torch.export.pt2_archive._package import package_pt2

    inputs = (torch.zeros(1, 4),)
    programs = {
        name: torch.export.export(torch.nn.Linear(4, size).eval(), inputs)
        for name, size in (("model", 3), ("decode", 7))
    }
    package_pt2(str(place / "two.pt2"), exported_programs=programs)
    code, document, errors = convert(capsys, "two.pt2", "--signature", "decode", "-o", "decode.onnx")
    assert code == ExitCode.DONE, errors
    assert document["agreement"]["close"]
    assert [each.shape for each in open_model("decode.onnx").signature.outputs] == [(1, 7)]
    assert (
        run(["optimize", "two.pt2", "--signature", "decode", "--passes", "onnx-simplify", "--json", "-q"])
        == ExitCode.DONE
    )
    assert json.loads(capsys.readouterr().out)
    made = place / "two-decode-optimized" / "converted" / "two-decode.onnx"
    assert [each.shape for each in open_model(made).signature.outputs] == [(1, 7)]


def test_an_exported_program_is_optimised(place: Path, capsys, short_races):
    torch = pytest.importorskip("torch")
    torch.export.save(torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.zeros(1, 4),)), "m.pt2")
    assert run(["optimize", "m.pt2", "--passes", "onnx-simplify", "--json", "-q"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)
    made = place / "m-optimized" / "converted" / "m.onnx"
    assert [each.shape for each in open_model(made).signature.outputs] == [(1, 3)]


def test_the_layer_whose_weight_overflows_is_named(place: Path, capsys):
    code, document, _ = convert(capsys, "net.py:large", "-o", "large.xml", "--precision", "f16")
    assert code == ExitCode.RUN_FAILED and not (place / "large.xml").exists()
    assert document["wrong_operator"]["op"] == "aten.linear.default"
    assert document["wrong_operator"]["operator"].startswith("second/")


def test_a_module_that_is_another_one_while_it_is_exported(place: Path, capsys):
    code, document, _ = convert(capsys, "net.py:liar", "-o", "liar.onnx")
    assert code == ExitCode.RUN_FAILED and not (place / "liar.onnx").exists()
    assert "torch.export made already differs from the module" in document["wrong_operator"]["why"]


def test_an_operator_that_a_converter_lacks_is_named(place: Path, capsys):
    code, _, errors = convert(capsys, "net.py:eigen", "-o", "eigen.onnx")
    assert code == ExitCode.UNAVAILABLE and "PyTorch can't write ONNX" in errors and "eig" in errors
    assert not (place / "eigen.onnx").exists()


@pytest.mark.parametrize("ending", ["onnx", "tflite"])
def test_a_keras_model(ending: str, capsys):
    code, document, errors = convert(capsys, "knet.py:small", "-o", f"small.{ending}")
    assert code == ExitCode.DONE, errors
    assert document["agreement"]["close"] and document["agreement"]["source_engine"] == "Keras"


def test_the_keras_layer_whose_weight_overflows_is_named(capsys):
    code, document, _ = convert(capsys, "knet.py:make", "-o", "large.xml", "--precision", "f16")
    assert code == ExitCode.RUN_FAILED
    assert [step.partition(" ")[0] for step in document["steps"]] == ["keras.Model.export", "openvino.convert_model"]
    assert (document["wrong_operator"]["operator"], document["wrong_operator"]["op"]) == ("head", "Dense")
