"""`diff` of PyTorch's programs and modules: every node's value, and the layer of the export that is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
onnx = pytest.importorskip("onnx", reason="needs onnx")
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
pytest.importorskip("onnxscript", reason="needs onnxscript, with which PyTorch exports to ONNX")

# After the checks above, as these import PyTorch.
from edgewise.cli.main import run  # noqa: E402
from edgewise.verbs.diff.engines import TorchTensors  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

CODE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True)
        )
        self.second = torch.nn.Conv2d(8, 16, 3, stride=2)
        self.norm = torch.nn.LayerNorm(16)
        self.last = torch.nn.Linear(16, 10)

    def forward(self, image, *, scale=2.0):
        value = self.second(self.first(image)).relu() * scale
        return self.last(self.norm(value.mean((2, 3))))

def make_model():
    return Net().eval(), (torch.rand(1, 1, 16, 16),)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The module with its code, its exported program, and its export to ONNX."""
    folder = tmp_path_factory.mktemp("net")
    code, program, export = (folder / name for name in ("net.py", "net.pt2", "net.onnx"))
    code.write_text(CODE)
    names: dict = {}
    exec(CODE, names)
    module, inputs = names["make_model"]()
    torch.export.save(torch.export.export(module, inputs), program)
    torch.onnx.export(module, inputs, export, dynamo=True, external_data=False, verbose=False)
    return module, f"{code}:make_model", program, export


def diff(capsys, *words):
    assert run(["diff", *map(str, words), "--limit", "2", "--json", "-q"]) == 0
    return json.loads(capsys.readouterr().out)


def test_values_of_nodes_are_those_that_the_modules_give(files):
    module, _, program, _ = files
    image = np.random.default_rng(0).random((1, 1, 16, 16), np.float32)
    kept = {}
    for name, layer in (("conv2d", module.first[0]), ("conv2d_1", module.second), ("linear", module.last)):
        # Copied, because the activation writes into its input.
        layer.register_forward_hook(lambda _, given, made, name=name: kept.update({name: made.detach().numpy().copy()}))
    with torch.no_grad():
        module(torch.from_numpy(image))
    names = ["image", *kept]
    found = TorchTensors(program, names).run([image], names)
    assert found.keys() == set(names)
    np.testing.assert_array_equal(found["image"], image)
    for name, value in kept.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("source", [1, 2])
def test_a_module_and_a_program_agree_with_their_export(files, capsys, source):
    found = diff(capsys, files[source], files[3])
    assert found["begins"] is None and found["models"][0]["engine"].startswith("torch ")
    assert len(found["layers"]) >= 6 and all(each["exact"] or each["snr_db"] > 90 for each in found["layers"])


@pytest.mark.parametrize("turned", [False, True])
def test_the_layer_that_an_export_changed_is_named(files, tmp_path, capsys, turned):
    model = onnx.load(files[3])
    weights = next(each for each in model.graph.initializer if each.name == "second.weight")
    wrong = onnx.numpy_helper.to_array(weights)[:, :, ::-1].copy()
    weights.CopyFrom(onnx.numpy_helper.from_array(wrong, weights.name))
    onnx.save(model, tmp_path / "wrong.onnx")
    pair = (tmp_path / "wrong.onnx", files[2]) if turned else (files[2], tmp_path / "wrong.onnx")
    assert "conv2d_1" in diff(capsys, *pair)["begins"]


@pytest.mark.parametrize("wrong", [False, True])
def test_a_program_and_the_tflite_file_made_of_it(files, tmp_path, capsys, wrong):
    """A wrong kernel in the second convolution is named; the right file has the values of the program."""
    converter = pytest.importorskip("litert_torch", reason="litert-torch, which writes .tflite, is not installed")
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    names: dict = {}
    exec(CODE, names)
    module, inputs = names["make_model"]()
    if wrong:
        with torch.no_grad():
            module.second.weight.copy_(module.second.weight.flip(2))
    converter.convert(module, inputs).export(str(tmp_path / "net.tflite"))
    capsys.readouterr()  # what the converter printed
    found = diff(capsys, files[2], tmp_path / "net.tflite")
    assert found["models"][1]["engine"].startswith("litert ")
    compared = {each["name"]: each["snr_db"] for each in found["layers"] if each["op"] != "input"}
    assert len(compared) >= 3
    if wrong:
        assert found["begins"] == "second/conv2d_1"
    else:
        assert found["begins"] is None and min(compared.values()) > 90
