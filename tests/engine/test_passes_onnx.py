"""Passes by onnxruntime and onnxslim on real networks: what they make loads, agrees, and changes what it was told to."""

import re
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from edgewise import data
from edgewise.errors import BadModel
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import CannotApply, Facts, PassTask, Recipe, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.passes import ort_calibration
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.onnxruntime import OnnxRuntime
from edgewise.testing.passes import check_pass
from messages import says
from pass_settings import settings_of
from tiny_models import write_tiny_onnx

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnxslim", reason="onnxslim is not installed")
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
CONVOLUTIONS = [f"/features/features.{index}/features.{index}.0/Conv" for index in range(5)]


def describe(path, **changes):
    model = open_model(path)
    fields = {"format": model.ref.format, "quantized": False, "runtimes": ("onnxruntime",), "cores": 1} | changes
    return Facts(path=Path(path), graph=read_graph(path), signature=model.signature, **fields)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    with np.load(data.path("digits_calibration.npz"), allow_pickle=False) as stored:
        images, labels = stored["x"].astype(np.float32) / np.float32(255), stored["y"]
    samples = tmp_path_factory.mktemp("samples") / "calibration.npz"
    write_calibration(samples, [[image[None]] for image in images[:48]], [int(each) for each in labels[:48]])
    return describe(data.path("digits_cnn.onnx")), samples


@pytest.fixture(scope="module")
def test_images():
    with np.load(data.path("digits_test.npz"), allow_pickle=False) as stored:
        return stored["x"].astype(np.float32) / np.float32(255), stored["y"]


def apply(name, facts, folder, *, samples=None, settings=None, **fields):
    one = passes().get(name)
    folder.mkdir(exist_ok=True)
    settings = one.recipes(facts)[0].settings if settings is None else settings_of(one, **settings)
    task = PassTask(
        model=str(facts.path), format=facts.format, settings=settings, folder=folder, calibration=samples, **fields
    )
    return one.apply(task)


def infer(path, arrays):
    options = LoadOptions(provider="cpu", threads=1)
    session = OnnxRuntime().load(Path(path), options)
    try:
        session.bind(arrays)
        session.invoke()
        return [np.array(each) for each in session.read_outputs()]
    finally:
        session.close()


def snr_db(reference, other):
    """Signal to noise of `other` against `reference`, dB."""
    noise = np.sum((reference.astype(np.float64) - other) ** 2)
    return np.inf if noise == 0 else 10 * np.log10(np.sum(reference.astype(np.float64) ** 2) / noise)


def quantized_convolutions(path):
    """Names of convolutions with quantised weights."""
    model = onnx.load(str(path))
    made = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    return {node.name for node in model.graph.node if node.op_type == "Conv" and node.input[1] in made}


@pytest.mark.parametrize("name", ["onnx-simplify", "ort-fuse", "ort-static", "ort-dynamic", "onnx-fp16", "tune"])
def test_passes_keep_their_contract(digits, name):
    facts, samples = digits
    rules = check_pass(passes().get(name), facts, calibration=samples)
    assert {"metadata", "import", "recipes"} < set(rules) or name == "tune"


def test_the_4_bit_pass_keeps_its_contract(tmp_path):
    assert "result" in check_pass(passes().get("ort-int4"), describe(write_tiny_onnx(tmp_path / "m.onnx")))


@pytest.mark.parametrize(
    ("name", "least_db"), [("onnx-simplify", 100), ("ort-fuse", 100), ("onnx-fp16", 50), ("ort-dynamic", 25)]
)
def test_results_agree_with_the_original(digits, test_images, tmp_path, name, least_db):
    facts, _ = digits
    result = apply(name, facts, tmp_path / "made")
    images, _ = test_images
    expected, got = infer(facts.path, [images[:64]])[0], infer(result.model, [images[:64]])[0]
    assert snr_db(expected, got) >= least_db


@pytest.mark.long
def test_every_static_recipe_classifies_as_well_as_the_original(digits, test_images, tmp_path):
    facts, samples = digits
    images, labels = test_images[0][:150], test_images[1][:150]
    expected = infer(facts.path, [images])[0]
    right = np.mean(expected.argmax(1) == labels)
    for number, recipe in enumerate(passes().get("ort-static").recipes(facts)):
        settings = {**recipe.settings.to_document(), "samples": 24}
        result = apply("ort-static", facts, tmp_path / str(number), samples=samples, settings=settings)
        got = infer(result.model, [images])[0]
        assert abs(np.mean(got.argmax(1) == labels) - right) <= 0.01, recipe.label
        assert snr_db(expected, got) >= 25, recipe.label


def test_static_quantisation_takes_everything_but_the_stem(digits, tmp_path):
    facts, samples = digits
    plain = apply("ort-static", facts, tmp_path / "plain", samples=samples, settings={"float_stem": False})
    stem = apply("ort-static", facts, tmp_path / "stem", samples=samples, settings={"float_stem": True})
    assert quantized_convolutions(plain.model) == set(CONVOLUTIONS)
    assert quantized_convolutions(stem.model) == set(CONVOLUTIONS[1:])
    assert re.search(says("heavy-operators", lower=6, total=6, value="quantised"), plain.notes[0])
    assert re.search(says("heavy-operators", lower=5, total=6, value="quantised"), stem.notes[0])
    assert any(CONVOLUTIONS[0] in note for note in stem.notes)
    assert set(plain.versions) == {"onnxruntime", "onnx"}


def test_an_average_has_the_scale_of_its_own_range(digits, tmp_path):
    facts, samples = digits
    made = apply("ort-static", facts, tmp_path / "made", samples=samples, settings={"method": "minmax"})
    model = onnx.load(str(made.model))
    numbers = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    takers = {node.input[0]: node for node in model.graph.node}
    makers = {output: node for node in model.graph.node for output in node.output}
    pool = next(node for node in model.graph.node if node.op_type == "AveragePool")
    before, after = makers[pool.input[0]], takers[pool.output[0]]
    assert (before.op_type, after.op_type) == ("DequantizeLinear", "QuantizeLinear")
    # The largest average of the 48 samples is the highest of the 256 levels.
    whole = onnx.load(str(facts.path))
    known = next(node.output[0] for node in whole.graph.node if node.op_type == "AveragePool")
    whole.graph.output.append(onnx.helper.make_tensor_value_info(known, onnx.TensorProto.FLOAT, None))
    onnx.save(whole, tmp_path / "averages.onnx")
    with np.load(samples) as kept:
        averages = infer(tmp_path / "averages.onnx", [kept["input_0"]])[1]
    assert numbers[after.input[1]] == pytest.approx(averages.max() / 255, rel=1e-5)
    assert numbers[before.input[1]] > 1.5 * numbers[after.input[1]]


def test_layers_to_keep_stay_float_and_the_only_ones_to_change_change_alone(digits, test_images, tmp_path):
    facts, samples = digits
    settings = {"float_stem": False}
    kept = apply(
        "ort-static", facts, tmp_path / "kept", samples=samples, settings=settings, keep_float=(CONVOLUTIONS[2],)
    )
    only = apply("ort-static", facts, tmp_path / "only", samples=samples, settings=settings, only=(CONVOLUTIONS[2],))
    every = apply("ort-static", facts, tmp_path / "every", samples=samples, settings=settings)
    assert quantized_convolutions(kept.model) == set(CONVOLUTIONS) - {CONVOLUTIONS[2]}
    assert quantized_convolutions(only.model) == {CONVOLUTIONS[2]}
    # A layer alone costs no more than the whole network.
    images, _ = test_images
    expected = infer(facts.path, [images[:64]])[0]
    alone, whole = (snr_db(expected, infer(made.model, [images[:64]])[0]) for made in (only, every))
    assert alone > whole
    # Its ReLU is quantised with it, so that the whole range of 8 bits is left for what lies above 0.
    model = onnx.load(str(only.model))
    zeros = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    outputs = [
        node for node in model.graph.node if node.op_type == "QuantizeLinear" and "features.2.2" in node.input[0]
    ]
    outputs = outputs or [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert int(zeros[outputs[-1].input[2]]) == 0


def test_dynamic_quantisation_leaves_named_layers_alone_a_split_gemm_too(digits, tmp_path):
    facts, _ = digits
    result = apply("ort-dynamic", facts, tmp_path / "made", keep_float=("/classifier/Gemm", CONVOLUTIONS[0]))
    counts = Counter(node.op_type for node in onnx.load(str(result.model)).graph.node)
    assert (counts["ConvInteger"], counts["MatMulInteger"], counts["Conv"]) == (4, 0, 1)
    only = apply("ort-dynamic", facts, tmp_path / "only", only=("/classifier/Gemm",))
    counts = Counter(node.op_type for node in onnx.load(str(only.model)).graph.node)
    assert (counts["ConvInteger"], counts["MatMulInteger"]) == (0, 1)


def test_dynamic_quantisation_takes_transposed_gemms_of_different_sizes(tmp_path):
    """The quantiser transposes their weights, and must not trip over shapes that were inferred before."""
    rng = np.random.default_rng(0)
    sizes = (24, 48, 10)
    constants = [
        onnx.numpy_helper.from_array(rng.standard_normal((after, before), np.float32), f"w{before}")
        for before, after in pairwise(sizes)
    ]
    helper = onnx.helper
    nodes = [
        helper.make_node("Gemm", ["x", "w24"], ["h"], name="first", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "w48"], ["y"], name="second", transB=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [1, 24])], [value("y", 1, [1, 10])], initializer=constants,
        value_info=[value("w24", 1, [48, 24]), value("w48", 1, [10, 48])],
    )  # fmt: skip
    path = tmp_path / "gemm.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    result = apply("ort-dynamic", describe(path), tmp_path / "out", settings={"weights": "int8"})
    assert result.notes[0] == "quantised operators: 2 MatMulInteger"
    x = rng.standard_normal((1, 24), np.float32)
    assert snr_db(infer(path, [x])[0], infer(result.model, [x])[0]) > 30.0


def test_half_precision_leaves_named_layers_in_float32(digits, tmp_path):
    facts, _ = digits
    result = apply("onnx-fp16", facts, tmp_path / "made", keep_float=(CONVOLUTIONS[1],))
    model = onnx.load(str(result.model))
    types = {each.name: each.data_type for each in model.graph.initializer}
    kinds = {node.name: types[node.input[1]] for node in model.graph.node if node.op_type == "Conv"}
    assert kinds.pop(CONVOLUTIONS[1]) == onnx.TensorProto.FLOAT
    assert set(kinds.values()) == {onnx.TensorProto.FLOAT16}


def test_names_that_are_in_no_layer_cannot_be_the_only_ones(digits, tmp_path):
    facts, samples = digits
    with pytest.raises(CannotApply, match=says("none-named-layers-left-after")):
        apply("ort-static", facts, tmp_path / "made", samples=samples, only=("nobody",))


def test_calibration_looks_at_no_more_samples_than_allowed(digits, tmp_path, monkeypatch):
    facts, samples = digits
    seen = []
    plain = ort_calibration.FeedReader
    monkeypatch.setattr(ort_calibration, "FeedReader", lambda feeds: seen.append(len(feeds)) or plain(feeds))
    ort_calibration._LAST.clear()
    apply("ort-static", facts, tmp_path / "a", samples=samples, settings={"samples": 7})
    assert sum(seen) == 7 and set(seen) == {1}
    # The same model and samples again: ranges are known.
    apply("ort-static", facts, tmp_path / "b", samples=samples, settings={"samples": 7}, only=(CONVOLUTIONS[1],))
    assert sum(seen) == 7


def test_histograms_are_fed_in_chunks_and_find_what_they_find_at_once(digits, tmp_path, monkeypatch):
    facts, samples = digits
    settings = {"method": "percentile", "samples": 16}
    ort_calibration._LAST.clear()
    whole = apply("ort-static", facts, tmp_path / "a", samples=samples, settings=settings)
    ort_calibration._LAST.clear()
    monkeypatch.setattr(ort_calibration, "CHUNK_BYTES", 2 * 10**6)
    parts = apply("ort-static", facts, tmp_path / "b", samples=samples, settings=settings)

    def scales(path):
        model = onnx.load(str(path))
        return {e.name: onnx.numpy_helper.to_array(e) for e in model.graph.initializer if e.name.endswith("_scale")}

    first, second = scales(whole.model), scales(parts.model)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=0.02, err_msg=name)


@pytest.mark.parametrize("name", ["squeezenet", pytest.param("shufflenet", marks=pytest.mark.long)])
def test_networks_of_old_operator_sets_are_quantised(tmp_path, name):
    path = LIGHT / f"light_{name}.onnx"
    facts = describe(path)
    before = sha256(path.read_bytes()).hexdigest()
    samples = tmp_path / "samples.npz"
    shape = [1, *facts.signature.inputs[0].shape[1:]]
    image = np.random.default_rng(3).random(shape, dtype=np.float32)
    write_calibration(samples, [[image]], None)
    result = apply("ort-static", facts, tmp_path / "made", samples=samples)
    assert sha256(path.read_bytes()).hexdigest() == before
    heavy = sum(node.op_type in ("Conv", "Gemm") for node in onnx.load(str(path)).graph.node)
    assert re.search(says("heavy-operators", total=heavy), result.notes[0])
    assert infer(result.model, [image])[0].shape == infer(path, [image])[0].shape


def test_a_bias_that_is_one_row_of_a_matrix_is_quantised(tmp_path):
    random = np.random.default_rng(0)
    weights, bias = random.normal(size=(8, 3)).astype(np.float32), random.normal(size=(1, 3)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="product")],
        "row",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 8])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(bias, "b")],
    )
    path = tmp_path / "row.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    feeds = [random.normal(size=(1, 8)).astype(np.float32) for _ in range(8)]
    samples = tmp_path / "samples.npz"
    write_calibration(samples, [[feed] for feed in feeds], None)
    made = apply("ort-static", describe(path), tmp_path / "made", samples=samples, settings={"per_channel": True})
    assert "1 of 1 heavy operators quantised (Gemm)" in made.notes
    assert snr_db(feeds[0] @ weights + bias, infer(made.model, [feeds[0]])[0]) > 25


def test_batch_normalisation_is_merged_and_names_still_find_their_layers(tmp_path):
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(5)

    def weight(name, *shape):
        return numpy_helper.from_array(rng.random(shape, dtype=np.float32) + np.float32(0.1), name)

    norm = ["scale", "shift", "mean", "var"]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], kernel_shape=[1, 1]),
        helper.make_node("BatchNormalization", ["a", *norm], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w1"], ["y"], kernel_shape=[1, 1]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [1, 8, 4, 4])], [value("y", TensorProto.FLOAT, [1, 8, 4, 4])],
        [weight("w0", 8, 8, 1, 1), weight("w1", 8, 8, 1, 1), *(weight(name, 8) for name in norm)],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    facts = describe(path)
    samples = tmp_path / "samples.npz"
    feeds = [[rng.random((1, 8, 4, 4), dtype=np.float32)] for _ in range(8)]
    write_calibration(samples, feeds, None)
    # Neither node has a name, so they go by their outputs; "a" is gone once both are one.
    assert [operator.name for operator in facts.graph.operators] == ["a", "b", "c", "y"]
    for kept in ("a", "b"):
        result = apply("ort-static", facts, tmp_path / kept, samples=samples, keep_float=(kept,))
        assert len(quantized_convolutions(result.model)) == 1
        assert re.search(says("heavy-operators", lower=1, total=2), result.notes[0])
        assert snr_db(infer(path, feeds[0])[0], infer(result.model, feeds[0])[0]) > 25
    assert "1 of 4 nodes folded or merged" in result.notes[1]


def test_4_bit_weights_need_a_product_of_matrices(digits, tmp_path):
    facts, _ = digits
    with pytest.raises(CannotApply, match=says("no-matmul-constant-matrix-only")):
        apply("ort-int4", facts, tmp_path, settings={})


def test_4_bit_weights_leave_named_products_alone(tmp_path):
    path = write_matmuls(tmp_path / "m.onnx")
    facts = describe(path)
    result = apply("ort-int4", facts, tmp_path / "made", keep_float=("second",))
    kinds = {node.name: node.op_type for node in onnx.load(str(result.model)).graph.node}
    assert kinds["second"] == "MatMul"
    assert "MatMulNBits" in kinds.values()
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    assert snr_db(infer(path, [x])[0], infer(result.model, [x])[0]) > 15


def write_matmuls(path):
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), name) for name in ("w1", "w2")]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, ["n", 64])], [value("y", TensorProto.FLOAT, ["n", 64])], weights
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_weights_beside_the_model_are_taken_along_and_none_from_elsewhere(tmp_path):
    path = write_tiny_onnx(tmp_path / "m.onnx", external=True)
    result = apply("onnx-simplify", describe(path), tmp_path / "made")
    x = np.array([[1, 2, 3, 4]], np.float32)
    np.testing.assert_array_equal(infer(path, [x])[0], infer(result.model, [x])[0])
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "m.onnx").write_bytes(path.read_bytes().replace(b"weights.bin", b"../ghts.bin"))
    for name in ("onnx-simplify", "ort-static", "onnx-to-openvino"):
        settings = settings_of(passes().get(name))
        task = PassTask(model=str(inner / "m.onnx"), format="onnx", settings=settings, folder=tmp_path / "made")
        with pytest.raises(BadModel, match=says("weights-outside-model-folder")):
            passes().get(name).apply(task)


def test_a_model_that_the_engine_does_not_know_cannot_be_changed(tmp_path):
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    node = helper.make_node("Unheard", ["x"], ["y"], domain="of.mine")
    graph = helper.make_graph(
        [node], "g", [value("x", TensorProto.FLOAT, [1, 4])], [value("y", TensorProto.FLOAT, [1, 4])]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("of.mine", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    for name in ("ort-fuse", "ort-static", "ort-dynamic"):
        task = PassTask(model=str(path), format="onnx", settings=settings_of(passes().get(name)), folder=tmp_path)
        with pytest.raises(CannotApply, match=says("onnxruntime-does-not-load-model")):
            passes().get(name).apply(task)


def test_samples_of_another_number_of_inputs_are_refused(digits, tmp_path):
    facts, _ = digits
    samples = tmp_path / "samples.npz"
    image = np.zeros((1, 1, 32, 32), np.float32)
    write_calibration(samples, [[image, image]], None)
    with pytest.raises(CannotApply, match=says("each-sample-arrays-model-inputs", arrays_count=2, inputs=1)):
        apply("ort-static", facts, tmp_path / "made", samples=samples)


def test_a_pass_that_breaks_its_contract_is_found_out(digits):
    facts, _ = digits

    class Liar(type(passes().get("onnx-simplify"))):
        def apply(self, task):
            result = super().apply(task)
            (task.folder / "rubbish").write_text("left over")
            return replace(result, unchanged=False)

    # A fresh process imports it by its name, and there it is its base.
    Liar.__qualname__, Liar.__module__ = "OnnxSimplify", "edgewise.optimizing.passes.onnx_simplify"
    with pytest.raises(AssertionError, match="files are left over: \\['rubbish'\\]"):
        check_pass(Liar(), facts, recipe=Recipe())


@pytest.mark.parametrize("name", ["onnx", "tflite", "openvino"])
def test_every_setting_that_tuning_offers_is_one_that_its_engine_takes(name, tmp_path):
    from edgewise.runtime.base import runtimes

    paths = {"onnx": data.path("digits_cnn.onnx"), "tflite": data.path("digits_cnn.tflite")}
    path = paths.get(name) or _convert(tmp_path)
    facts = describe(path, runtimes=("onnxruntime", "openvino", "litert"), cores=2)
    recipes = passes().get("tune").recipes(facts)
    assert recipes
    for recipe in recipes:
        runtime = runtimes().get(recipe.settings.runtime)
        if not runtime.availability():
            continue
        options = LoadOptions(
            provider=recipe.settings.provider or runtime.providers[0].name,
            threads=recipe.settings.threads or 1,
            precision=recipe.settings.precision,
            shapes={facts.signature.inputs[0].name: (1, 1, 32, 32)},
            extra=recipe.settings.options,
        )
        session = runtime.load(path, options)
        session.bind([np.zeros((1, 1, 32, 32), np.float32)])
        session.invoke()
        session.close()


def _convert(folder):
    pytest.importorskip("openvino", reason="openvino is not installed")
    facts = describe(data.path("digits_cnn.onnx"))
    return apply("onnx-to-openvino", facts, folder / "ir").model
