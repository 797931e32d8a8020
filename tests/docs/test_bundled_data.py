"""The bundled files are those that their provenance describes, and compute what it claims."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from edgewise.data import NAMES, path
from edgewise.errors import BadInput
from messages import says

CARD = json.loads(path("digits_cnn.json").read_text("utf-8"))


def images() -> tuple[np.ndarray, np.ndarray]:
    with np.load(path("digits_test.npz"), allow_pickle=False) as data:
        return data["x"].astype(np.float32) / np.float32(255), data["y"]


def test_every_name_is_a_file():
    assert sorted(NAMES) == sorted(
        file.name
        for file in path("digits_cnn.json").parent.iterdir()
        if file.suffix[1:] in {"json", "npz", "onnx", "tflite", "yaml"}
    )


@pytest.mark.parametrize("name", ["digits.onnx", "../__init__.py", "", "/etc/passwd"])
def test_other_names_are_refused(name: str):
    with pytest.raises(BadInput, match=says("no-bundled-file-called")):
        path(name)


def test_files_are_those_of_the_provenance():
    # What the script makes; instructions are written by hand.
    assert set(CARD["sha256"]) == set(NAMES) - {"digits_cnn.json", "digits_cnn.yaml"}
    for name, digest in CARD["sha256"].items():
        assert hashlib.sha256(path(name).read_bytes()).hexdigest() == digest, name


def test_files_are_small():
    sizes = {name: path(name).stat().st_size for name in NAMES}
    assert sizes["digits_cnn.onnx"] + sizes["digits_cnn.tflite"] <= 900_000
    assert sizes["digits_cnn_int8.tflite"] <= 120_000
    assert sizes["digits_test.npz"] <= 60_000


def test_data_is_as_described():
    x, y = images()
    assert x.shape == (540, 1, 32, 32)
    assert y.shape == (540,)
    assert set(y.tolist()) == set(range(10))
    assert float(x.min()) == 0.0
    assert float(x.max()) == 1.0
    # Every pixel of the 8×8 original is a 4×4 block.
    assert np.array_equal(x[:, :, ::4, ::4].repeat(4, axis=2).repeat(4, axis=3), x)


def test_test_and_calibration_images_are_disjoint():
    with np.load(path("digits_calibration.npz"), allow_pickle=False) as data:
        calibration = {image.tobytes() for image in data["x"]}
    with np.load(path("digits_test.npz"), allow_pickle=False) as data:
        test = {image.tobytes() for image in data["x"]}
    assert len(calibration) == 128
    assert not calibration & test


def predictions(runtime: str, model: Path, x: np.ndarray) -> np.ndarray:
    if runtime == "onnxruntime":
        engine = pytest.importorskip("onnxruntime")
        session = engine.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        return session.run(None, {"image": x})[0]
    if runtime == "openvino":
        engine = pytest.importorskip("openvino")
        compiled = engine.Core().compile_model(str(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return compiled(x)[0].copy()
    engine = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = engine.Interpreter(str(model), num_threads=1)
    interpreter.allocate_tensors()
    source, target = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    rows = []
    for image in x:
        interpreter.set_tensor(source, image[None])
        interpreter.invoke()
        rows.append(interpreter.get_tensor(target)[0].copy())
    return np.stack(rows)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("runtime", "name"),
    [("onnxruntime", "digits_cnn.onnx"), ("openvino", "digits_cnn.onnx"), ("litert", "digits_cnn.tflite")],
)
def test_accuracy_is_what_the_provenance_says(runtime: str, name: str):
    x, y = images()
    logits = predictions(runtime, path(name), x)
    assert logits.shape == (540, 10)
    assert (logits.argmax(axis=1) == y).mean() == CARD["test_accuracy"] >= 0.98


@pytest.mark.engine
def test_the_int8_file_is_int8_throughout_and_as_accurate_as_the_provenance_says():
    from edgewise.model.identity import read_graph

    graph = read_graph(path("digits_cnn_int8.tflite"))
    assert {graph.tensors[name].dtype for each in graph.operators for name in each.outputs} == {"int8"}
    scheme = graph.tensors[graph.inputs[0]].quantization
    x, y = images()
    fed = np.clip(np.rint(x / np.float32(scheme.scale) + scheme.zero_point), -128, 127).astype(np.int8)
    right = (predictions("litert", path("digits_cnn_int8.tflite"), fed).argmax(axis=1) == y).mean()
    assert right == CARD["int8"]["test_accuracy"] >= 0.98


def test_the_onnx_file_is_as_described():
    import onnx

    model = onnx.load(path("digits_cnn.onnx"))
    onnx.checker.check_model(model)
    (image,) = model.graph.input
    assert image.name == "image"
    assert [size.dim_param or size.dim_value for size in image.type.tensor_type.shape.dim] == ["batch", 1, 32, 32]
    assert model.opset_import[0].version == CARD["onnx_opset"] >= 17
    assert sum(int(np.prod(weight.dims)) for weight in model.graph.initializer) == CARD["parameters"]
