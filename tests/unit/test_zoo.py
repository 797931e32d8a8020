"""Reference networks: their published sizes, their files, and what they compute."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgewise.errors import BadInput, Unavailable
from edgewise.model.cost import total_of
from edgewise.verbs.zoo.work import build
from edgewise.workload.resolved_graph import read_resolved_graph
from edgewise.zoo.layers import divisible
from edgewise.zoo.networks import REFERENCES, Reference, make
from edgewise.zoo.onnx import to_onnx
from edgewise.zoo.tflite import to_tflite
from messages import says

#: Published numbers of which the source does not say what they count in; all others agree to 3 %.
TOLERANCE = {"efficientnet-lite0": 0.06}


def rough(reference: Reference) -> dict[str, float]:
    """Settings of a small variant, as arguments of `make`."""
    return {"width": 0.25, **({"resolution": 48} if reference.resizable else {})}


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=lambda row: row.name)
def test_macs_and_parameters_are_the_published_ones(reference: Reference, tmp_path: Path):
    net = make(reference, seed=None)
    path = tmp_path / "m.onnx"
    path.write_bytes(to_onnx(net, name=reference.name, weights=False))
    total = total_of(read_resolved_graph(path, shapes={}).graph)
    assert total.why == ""
    bound = TOLERANCE.get(reference.name, 0.03)
    assert total.macs == pytest.approx(reference.macs, rel=bound)
    parameters = sum(array.size for layer in net.rows for array in layer.weights)
    assert parameters == pytest.approx(reference.parameters, rel=0.03)


def test_files_with_weights_cost_the_same(tmp_path: Path):
    (path,) = build(["ds-cnn"], tmp_path)
    (other,) = build(["ds-cnn"], tmp_path, format="tflite")
    for file in (path, other):
        total = total_of(read_resolved_graph(file, shapes={}).graph)
        assert (total.macs, total.parameters) == (2_656_768, 22_604)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(Unavailable, match=says("tflite-files-cant-written")) as caught:
        build(["resnet-8"], tmp_path, format="tflite")
    assert "edgewise[litert]" in caught.value.advice


def outputs(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """What ONNX Runtime computes for two inputs."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(content)
    (wanted,) = session.get_inputs()
    random = np.random.default_rng(0)
    arrays = [
        random.integers(0, 30522, wanted.shape)
        if "int64" in wanted.type
        else random.random(wanted.shape, dtype=np.float32) * np.float32(brightness)
        for brightness in (1, 0.25)
    ]
    one, other = (session.run(None, {wanted.name: array})[0] for array in arrays)
    return one, other


def check_outputs(content: bytes) -> None:
    """Finite, not constant, and neither lost nor grown in the depth of the network."""
    one, other = outputs(content)
    assert np.isfinite(one).all()
    assert 0.02 < one.std() < 20
    assert np.abs(one - other).max() > 0.01 * one.std()


@pytest.mark.engine
@pytest.mark.parametrize("reference", REFERENCES.values(), ids=lambda row: row.name)
def test_small_variants_run(reference: Reference):
    content = to_onnx(make(reference, **rough(reference)), name="m")
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    check_outputs(content)


@pytest.mark.engine
@pytest.mark.parametrize("reference", REFERENCES.values(), ids=lambda row: row.name)
def test_both_formats_compute_the_same(reference: Reference):
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    runtime = pytest.importorskip("onnxruntime")
    net = make(reference, **rough(reference))
    content = to_tflite(net, name="m")
    assert content == to_tflite(net, name="m")
    interpreter = litert.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    (place,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert (place["name"], result["name"]) == ("input", "output")
    random = np.random.default_rng(1)
    if reference.family == "text":
        given = random.integers(0, 30522, place["shape"], dtype=np.int32)
        wanted = given.astype(np.int64)
    else:
        given = random.random(place["shape"], dtype=np.float32)
        wanted = given if given.ndim == 2 else np.moveaxis(given, -1, 1)
    interpreter.set_tensor(place["index"], given)
    interpreter.invoke()
    (oracle,) = runtime.InferenceSession(to_onnx(net, name="m")).run(None, {"input": wanted})
    np.testing.assert_allclose(interpreter.get_tensor(result["index"]), oracle, atol=1e-3 * oracle.std())


@pytest.mark.long
@pytest.mark.engine
@pytest.mark.parametrize("reference", REFERENCES.values(), ids=lambda row: row.name)
def test_full_networks_run(reference: Reference):
    check_outputs(to_onnx(make(reference), name="m"))


def test_the_same_settings_give_the_same_bytes(tmp_path: Path):
    names = ["resnet-8", "autoencoder"]
    one, other = build(names, tmp_path / "a"), build(names, tmp_path / "b")
    assert [path.name for path in one] == ["resnet-8.onnx", "autoencoder.onnx"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    (reseeded,) = build(["resnet-8"], tmp_path, seed=1, width=0.5)
    assert reseeded.name == "resnet-8-w0.5-s1.onnx"
    assert build(names, tmp_path / "a") == one  # equal content stays


def test_another_file_is_overwritten_only_on_request(tmp_path: Path):
    path = tmp_path / "ds-cnn.onnx"
    path.write_bytes(b"mine")
    with pytest.raises(BadInput):
        build(["ds-cnn"], tmp_path)
    assert path.read_bytes() == b"mine"
    assert build(["ds-cnn"], tmp_path, overwrite=True) == [path]


def test_width_scales_channels_and_resolution_the_input():
    full, half = (make(REFERENCES["mobilenet-v1"], width=width, resolution=96, seed=None) for width in (1.0, 0.5))
    assert half.shape(0) == (3, 96, 96)
    assert half.shape(-2) == (512,) and full.shape(-2) == (1024,)
    assert half.shape(-1) == full.shape(-1) == (1000,)


@pytest.mark.parametrize(("channels", "rounded"), [(9, 16), (8.8, 8), (11.9, 16), (12, 16), (24, 24), (1, 8)])
def test_rounding_of_channels(channels: float, rounded: int):
    assert divisible(channels) == rounded


@pytest.mark.parametrize(
    ("names", "settings", "words"),
    [
        (["lenet"], {}, says("no-reference-network", name="lenet")),
        (["ds-cnn"], {"resolution": 64}, says("resolution-does-not-apply-input", name="ds-cnn")),
        (["resnet-8"], {"width": 5.0}, says("width-out-range", width=5)),
        (["resnet-8"], {"width": math.nan}, says("width-out-range", width="nan")),
        (["resnet-18"], {"resolution": 4}, says("resolution-out-range", resolution=4)),
        (["squeezenet-1.1"], {"resolution": 16}, says("input-too-small-layer-no")),
        (["resnet-8"], {"seed": -1}, says("seed-must-least-0-not", seed=-1)),
        (["resnet-8"], {"format": "ncnn"}, says("format-unknown", format="ncnn")),
    ],
)
def test_mistakes_are_found_before_anything_is_written(tmp_path: Path, names, settings, words):
    with pytest.raises(BadInput, match=words):
        build(["resnet-18", *names], tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()
