"""Passes on TFLite models: what they make runs, agrees with the float model, and spares what it is told to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.errors import BadModel
from edgewise.model.readers.tflite import TfliteReader
from edgewise.optimizing.base import CannotApply
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.passes.litert_dynamic import LitertDynamic
from edgewise.optimizing.passes.litert_static import LitertStatic
from edgewise.optimizing.passes.litert_weights import LitertWeights
from litert_networks import apply_in, dtypes, facts_of, infer_all, interface, names_of, snr_db, write_samples

pytest.importorskip("ai_edge_quantizer", reason="ai-edge-quantizer is not installed")
pytestmark = pytest.mark.engine

STATIC, DYNAMIC, WEIGHTS = LitertStatic(), LitertDynamic(), LitertWeights()
EVERY = pytest.mark.parametrize("one", [STATIC, DYNAMIC, WEIGHTS], ids=lambda one: one.name)
SHAPE = (1, 8, 8, 4)
DIGITS = bundled("digits_cnn.tflite")


def read_digits(name):
    with np.load(bundled(name)) as data:
        return data["x"].astype(np.float32) / np.float32(255), data["y"]


@pytest.fixture(scope="module")
def digits_samples(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples") / "digits.npz"
    images, labels = (each[:64] for each in read_digits("digits_calibration.npz"))
    write_calibration(path, [[image[None]] for image in images], [int(label) for label in labels])
    return path


@pytest.fixture
def apply(tmp_path):
    return apply_in(tmp_path)


def logits(path, images):
    return np.concatenate([result[0] for result in infer_all(path, [[image[None]] for image in images])])


# The bundled network, on its test images ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "settings", "least_snr", "most_bytes"),
    [
        (STATIC, {}, 33, 125_000),
        (STATIC, {"scope": "all"}, 33, 125_000),
        (STATIC, {"ranges": "moving-average"}, 20, 125_000),
        (STATIC, {"stem": "float"}, 33, 125_000),
        (DYNAMIC, {}, 35, 120_000),
        (DYNAMIC, {"weights": 4}, 16, 70_000),
        (WEIGHTS, {}, 38, 120_000),
        (WEIGHTS, {"weights": "float16"}, 60, 220_000),
        (WEIGHTS, {"weights": "int4"}, 16, 70_000),
    ],
)
def test_the_digits_network_agrees_and_keeps_accuracy(apply, digits_samples, one, settings, least_snr, most_bytes):
    result = apply(one, DIGITS, digits_samples, **settings)
    images, labels = read_digits("digits_test.npz")
    images, labels = images[:200], labels[:200]
    before, after = logits(DIGITS, images), logits(result.model, images)
    assert snr_db([before], [after]) >= least_snr
    assert np.mean(after.argmax(1) == labels) >= np.mean(before.argmax(1) == labels) - 0.005
    assert result.model.stat().st_size <= most_bytes
    assert interface(result.model) == interface(DIGITS)
    assert set(result.versions) == {"ai-edge-quantizer", "ai-edge-litert"}
    assert not result.unchanged


@pytest.mark.long
def test_the_widest_ranges_beat_the_moving_average_on_few_samples(apply, digits_samples):
    images, _ = read_digits("digits_test.npz")
    before = [logits(DIGITS, images[:64])]
    wide, average = (
        apply(STATIC, DIGITS, digits_samples, ranges=ranges).model for ranges in ("minmax", "moving-average")
    )
    assert snr_db(before, [logits(wide, images[:64])]) > snr_db(before, [logits(average, images[:64])]) + 6


def test_static_computes_in_integers_between_float_borders(apply, digits_samples):
    result = apply(STATIC, DIGITS, digits_samples, scope="all")
    found = dtypes(result.model)
    assert found.pop("QUANTIZE") == ["int8"]
    assert found.pop("DEQUANTIZE") == ["float32"]
    assert {dtype for each in found.values() for dtype in each} == {"int8"}
    assert result.notes == ("10 of 10 operators compute in int8, ranges from 64 samples (minmax)",)


def test_int8_in_and_out_changes_the_interface_as_asked(apply, digits_samples):
    result = apply(STATIC, DIGITS, digits_samples, io="int8", scope="all")
    inputs, outputs, keys = interface(result.model)
    before = interface(DIGITS)
    assert [spec.dtype for spec in (*inputs, *outputs)] == ["int8", "int8"]
    assert [spec.name for spec in (*inputs, *outputs)] == [spec.name for spec in (*before[0], *before[1])]
    assert keys == before[2]
    assert not {"QUANTIZE", "DEQUANTIZE"} & dtypes(result.model).keys()
    images, _ = read_digits("digits_test.npz")
    assert snr_db([logits(DIGITS, images[:64])], [logits(result.model, images[:64])]) >= 33


def test_int16_activations_are_finer(apply, digits_samples):
    result = apply(STATIC, DIGITS, digits_samples, activations=16, scope="all")
    assert set(dtypes(result.model)["CONV_2D"]) == {"int16"}
    images, _ = read_digits("digits_test.npz")
    assert snr_db([logits(DIGITS, images[:8])], [logits(result.model, images[:8])]) >= 36


# What is spared -------------------------------------------------------------------------------------------------------


def test_static_keeps_the_named_layers_in_float(apply, digits_samples):
    convolutions = names_of(DIGITS, "CONV_2D")
    result = apply(STATIC, DIGITS, digits_samples, keep=[convolutions[1]])
    assert dtypes(result.model)["CONV_2D"] == ["int8", "float32", "int8", "int8"]
    graph = TfliteReader().read_graph(result.model)
    spared = [each for each in graph.operators if each.op == "CONV_2D"][1]
    assert {graph.tensors[name].dtype for name in spared.weights} == {"float32"}
    assert "operators with weights that stay in float: 1 CONV_2D" in result.notes


def test_static_changes_only_the_named_layers(apply, digits_samples):
    convolutions = names_of(DIGITS, "CONV_2D")
    result = apply(STATIC, DIGITS, digits_samples, only=[convolutions[2]])
    found = dtypes(result.model)
    assert found["CONV_2D"] == ["float32", "float32", "int8", "float32"]
    assert found["FULLY_CONNECTED"] == ["float32"]
    assert result.notes[0].startswith("1 of 10 operators")
    images, _ = read_digits("digits_test.npz")
    assert snr_db([logits(DIGITS, images[:64])], [logits(result.model, images[:64])]) >= 35


@pytest.mark.parametrize("one", [DYNAMIC, WEIGHTS], ids=lambda one: one.name)
def test_weights_of_named_layers_stay_or_change_alone(apply, one):
    convolutions = names_of(DIGITS, "CONV_2D")

    def small(path):
        graph = TfliteReader().read_graph(path)
        size = {"int8": 1, "float32": 4}
        return [
            min(graph.tensors[name].stored_bytes or size[graph.tensors[name].dtype] * graph.tensors[name].elements
                for name in (operator.weights[0],)) == graph.tensors[operator.weights[0]].elements
            for operator in graph.operators if operator.op == "CONV_2D"
        ]  # fmt: skip

    assert small(apply(one, DIGITS, keep=convolutions[:1]).model) == [False, True, True, True]
    assert small(apply(one, DIGITS, only=convolutions[:1]).model) == [True, False, False, False]


@EVERY
def test_names_that_no_operator_has_are_refused(apply, digits_samples, one):
    with pytest.raises(CannotApply, match="no operator called nobody"):
        apply(one, DIGITS, digits_samples, keep=["nobody"])
    with pytest.raises(CannotApply, match="no operator called nobody"):
        apply(one, DIGITS, digits_samples, only=["nobody"])


def test_only_operators_without_such_arithmetic_is_refused(apply):
    with pytest.raises(CannotApply, match="none of the operators to change can be"):
        apply(DYNAMIC, DIGITS, only=names_of(DIGITS, "PAD"))


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits_static(tmp_path_factory, digits_samples):
    """The digits network, quantised."""
    return apply_in(tmp_path_factory.mktemp("static"))(STATIC, DIGITS, digits_samples).model


@EVERY
def test_a_quantised_model_is_refused_and_offered_nothing(apply, digits_samples, digits_static, one):
    made = digits_static
    with pytest.raises(CannotApply, match="already quantised"):
        apply(one, made, digits_samples)
    assert not one.recipes(facts_of(made, quantized=True))
    assert one.recipes(facts_of(DIGITS))


@EVERY
def test_a_damaged_file_is_a_bad_model(apply, digits_samples, tmp_path, one):
    path = tmp_path / "cut.tflite"
    path.write_bytes(DIGITS.read_bytes()[:5000])
    with pytest.raises(BadModel):
        apply(one, path, digits_samples)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((3, 1, 28, 28), np.float32)], "has shape .*; the model takes 1×1×32×32"),
        ([np.zeros((3, 1, 32, 32), np.float64)], "are float64, not float32"),
        ([np.zeros((3, 1, 32, 32), np.float32)] * 2, "each sample has 2 arrays, but the model has 1 inputs"),
        ([np.full((3, 1, 32, 32), np.nan, np.float32)], "not finite"),
        ([np.full((3, 1, 32, 32), 3e38, np.float32)], "has values that are not finite"),
        ([np.zeros((0, 1, 32, 32), np.float32)], "no samples to calibrate on"),
    ],
)
def test_samples_that_do_not_fit_are_refused(apply, tmp_path, arrays, message):
    samples = tmp_path / "samples.npz"
    np.savez(samples, count=len(arrays[0]), **{f"input_{at}": array for at, array in enumerate(arrays)})
    with pytest.raises(CannotApply, match=message):
        apply(STATIC, DIGITS, samples)


def test_without_samples_it_refuses(apply):
    with pytest.raises(CannotApply, match="needs samples"):
        apply(STATIC, DIGITS)


@EVERY
def test_what_is_made_loads_in_openvino_too(apply, digits_samples, one):
    """It looks for operator codes in the old field only, which the quantizer leaves empty."""
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    result = apply(one, DIGITS, digits_samples)
    images, _ = read_digits("digits_test.npz")
    core = openvino.Core()

    def answer(path):
        compiled = core.compile_model(core.read_model(str(path)), "CPU", {"INFERENCE_NUM_THREADS": 1})
        return np.concatenate([compiled(image[None])[0] for image in images[:32]])

    assert snr_db([answer(DIGITS)], [answer(result.model)]) >= 30


# Networks of others ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "least"), [("ad01_fp32", 20), ("vww_96_float", 15)])
def test_mlperf_tiny_networks_without_entry_points(apply, shared_models, tmp_path, name, least):
    path = shared_models / f"{name}.tflite"
    _, *sizes = TfliteReader().read_signature(path).inputs[0].shape
    samples = write_samples(tmp_path / "samples.npz", (1, *sizes), count=8)
    result = apply(STATIC, path, samples)
    with np.load(samples) as data:
        feeds = data["input_0"]
    assert snr_db([logits(path, feeds)], [logits(result.model, feeds)]) >= least
    assert interface(result.model) == interface(path)


def test_mlperf_tiny_quantised_networks_are_refused(apply, shared_models, digits_samples):
    for path in sorted(Path(shared_models).glob("*int8.tflite")):
        with pytest.raises(CannotApply, match="already quantised"):
            apply(STATIC, path, digits_samples)
