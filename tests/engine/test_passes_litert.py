"""Passes on TFLite models: what they make runs, agrees with the float model, and spares what it is told to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.errors import BadModel
from edgewise.model.identity import open_model
from edgewise.model.readers.tflite import TfliteReader
from edgewise.optimizing.base import CannotApply, Facts, Work
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.passes.litert_dynamic import LitertDynamic
from edgewise.optimizing.passes.litert_files import read_float_model
from edgewise.optimizing.passes.litert_static import LitertStatic
from edgewise.optimizing.passes.litert_weights import LitertWeights
from edgewise.testing.passes import check_pass
from litert_networks import NetworkWriter, infer, infer_all, snr_db

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


def write_samples(path, *shapes, count=8, seed=1):
    random = np.random.default_rng(seed)
    write_calibration(path, [[random.normal(0, 1, s).astype(np.float32) for s in shapes] for _ in range(count)], None)
    return path


@pytest.fixture
def apply(tmp_path):
    """Apply a pass to a file; the product, whose file is in a folder of its own."""

    def run(one, model, samples=None, *, keep=(), only=(), **settings):
        folder = tmp_path / f"made{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        work = Work(
            model=str(model), format="tflite", settings=settings, folder=folder, keep_float=tuple(keep),
            only=tuple(only), calibration=samples,
        )  # fmt: skip
        return one.apply(work)

    return run


def facts_of(path, *, quantized=False):
    model, graph = open_model(path), TfliteReader().read_graph(path)
    return Facts(
        path=path, format="tflite", graph=graph, signature=model.signature, quantized=quantized,
        runtimes=("litert",), cores=1,
    )  # fmt: skip


def dtypes(path):
    """Type of operator → dtypes of the results of its operators, in the network's order."""
    graph, found = TfliteReader().read_graph(path), {}
    for operator in graph.operators:
        found.setdefault(operator.op, []).append(next(graph.output_tensors(operator)).dtype)
    return found


def interface(path):
    signature = TfliteReader().read_signature(path)
    entries = TfliteReader().read_graph(path).metadata.get("signatures")
    keys = None if entries is None else {key: [sorted(each[f]) for f in each] for key, each in entries.items()}
    return signature.inputs, signature.outputs, keys


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
    product = apply(one, DIGITS, digits_samples, **settings)
    images, labels = read_digits("digits_test.npz")
    images, labels = images[:200], labels[:200]
    before, after = logits(DIGITS, images), logits(product.model, images)
    assert snr_db([before], [after]) >= least_snr
    assert np.mean(after.argmax(1) == labels) >= np.mean(before.argmax(1) == labels) - 0.005
    assert product.model.stat().st_size <= most_bytes
    assert interface(product.model) == interface(DIGITS)
    assert set(product.versions) == {"ai-edge-quantizer", "ai-edge-litert"}
    assert not product.unchanged


def test_the_widest_ranges_beat_the_moving_average_on_few_samples(apply, digits_samples):
    images, _ = read_digits("digits_test.npz")
    before = [logits(DIGITS, images[:64])]
    wide, average = (
        apply(STATIC, DIGITS, digits_samples, ranges=ranges).model for ranges in ("minmax", "moving-average")
    )
    assert snr_db(before, [logits(wide, images[:64])]) > snr_db(before, [logits(average, images[:64])]) + 6


def test_static_computes_in_integers_between_float_borders(apply, digits_samples):
    product = apply(STATIC, DIGITS, digits_samples, scope="all")
    found = dtypes(product.model)
    assert found.pop("QUANTIZE") == ["int8"]
    assert found.pop("DEQUANTIZE") == ["float32"]
    assert {dtype for each in found.values() for dtype in each} == {"int8"}
    assert product.notes == ("10 of 10 operators compute in int8, ranges from 64 samples (minmax)",)


def test_int8_in_and_out_changes_the_interface_as_asked(apply, digits_samples):
    product = apply(STATIC, DIGITS, digits_samples, io="int8", scope="all")
    inputs, outputs, keys = interface(product.model)
    before = interface(DIGITS)
    assert [spec.dtype for spec in (*inputs, *outputs)] == ["int8", "int8"]
    assert [spec.name for spec in (*inputs, *outputs)] == [spec.name for spec in (*before[0], *before[1])]
    assert keys == before[2]
    assert not {"QUANTIZE", "DEQUANTIZE"} & dtypes(product.model).keys()
    images, _ = read_digits("digits_test.npz")
    assert snr_db([logits(DIGITS, images[:64])], [logits(product.model, images[:64])]) >= 33


def test_int16_activations_are_finer(apply, digits_samples):
    product = apply(STATIC, DIGITS, digits_samples, activations=16, scope="all")
    assert set(dtypes(product.model)["CONV_2D"]) == {"int16"}
    images, _ = read_digits("digits_test.npz")
    assert snr_db([logits(DIGITS, images[:8])], [logits(product.model, images[:8])]) >= 36


# What is spared -------------------------------------------------------------------------------------------------------


def names_of(path, op):
    return [operator.name for operator in TfliteReader().read_graph(path).operators if operator.op == op]


def test_static_keeps_the_named_layers_in_float(apply, digits_samples):
    convolutions = names_of(DIGITS, "CONV_2D")
    product = apply(STATIC, DIGITS, digits_samples, keep=[convolutions[1]])
    assert dtypes(product.model)["CONV_2D"] == ["int8", "float32", "int8", "int8"]
    graph = TfliteReader().read_graph(product.model)
    spared = [each for each in graph.operators if each.op == "CONV_2D"][1]
    assert {graph.tensors[name].dtype for name in spared.weights} == {"float32"}
    assert "operators with weights that stay in float: 1 CONV_2D" in product.notes


def test_static_changes_only_the_named_layers(apply, digits_samples):
    convolutions = names_of(DIGITS, "CONV_2D")
    product = apply(STATIC, DIGITS, digits_samples, only=[convolutions[2]])
    found = dtypes(product.model)
    assert found["CONV_2D"] == ["float32", "float32", "int8", "float32"]
    assert found["FULLY_CONNECTED"] == ["float32"]
    assert product.notes[0].startswith("1 of 10 operators")
    images, _ = read_digits("digits_test.npz")
    assert snr_db([logits(DIGITS, images[:64])], [logits(product.model, images[:64])]) >= 35


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


@EVERY
def test_a_quantised_model_is_refused_and_offered_nothing(apply, digits_samples, one):
    made = apply(STATIC, DIGITS, digits_samples).model
    with pytest.raises(CannotApply, match="quantised already"):
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
        ([np.zeros((3, 1, 32, 32), np.float32)] * 2, "the model has 1 inputs; calibration samples have 2"),
        ([np.full((3, 1, 32, 32), np.nan, np.float32)], "not finite"),
        ([np.full((3, 1, 32, 32), 3e38, np.float32)], "has values that are not finite"),
        ([np.zeros((0, 1, 32, 32), np.float32)], "no calibration samples"),
    ],
)
def test_samples_that_do_not_fit_are_refused(apply, tmp_path, arrays, message):
    samples = tmp_path / "samples.npz"
    np.savez(samples, **{f"input_{at}": array for at, array in enumerate(arrays)})
    with pytest.raises(CannotApply, match=message):
        apply(STATIC, DIGITS, samples)


def test_no_samples_and_unknown_settings_are_refused(apply, digits_samples):
    with pytest.raises(CannotApply, match="needs samples"):
        apply(STATIC, DIGITS)
    for one, name in ((STATIC, "ranges"), (STATIC, "activations"), (STATIC, "io"), (STATIC, "scope"), (STATIC, "stem"),
                      (DYNAMIC, "weights"), (WEIGHTS, "weights")):  # fmt: skip
        with pytest.raises(CannotApply, match=f"the setting {name} is 'odd'"):
            apply(one, DIGITS, digits_samples, **{name: "odd"})


# Files as converters write them ---------------------------------------------------------------------------------------


def write_chain(path, *, half=False, old_codes=False, alike=False, kind="RELU", batch=1, entry=False):
    """x → convolution → activation → convolution → activation → y, activations alone."""
    writer = NetworkWriter()
    shape = (batch, 8, 8, 8)
    x = writer.tensor("x", (*shape[:3], 4))
    first = writer.convolution(x, "first", (*shape[:3], 4), 8, half=half)
    middle = writer.activation(first, "same" if alike else "middle", shape, kind)
    second = writer.convolution(middle, "same" if alike else "second", shape, 8, half=half)
    y = writer.activation(second, "y", shape, kind)
    if old_codes:
        for code in writer.model.operatorCodes:
            code.builtinCode = 0
    if entry:
        writer.entry("other", {"image": x}, {"result": y})
    return writer.save(path, inputs=[x], outputs=[y])


CHAINS = pytest.mark.parametrize(
    "options",
    [{}, {"half": True}, {"old_codes": True}, {"alike": True}, {"entry": True}, {"half": True, "old_codes": True}],
    ids=str,
)


@CHAINS
def test_the_copy_for_the_quantizer_computes_the_same(tmp_path, options):
    path = write_chain(tmp_path / "chain.tflite", **options)
    model = read_float_model(path)
    copy = tmp_path / "copy.tflite"
    copy.write_bytes(model.content)
    x = np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)
    assert np.array_equal(infer(path, x)[0], infer(copy, x)[0])
    assert Counter(each.op for each in TfliteReader().read_graph(copy).operators) == {"CONV_2D": 2}
    addresses = [model.operators[each.name] for each in model.graph.operators if each.op != "DEQUANTIZE"]
    assert addresses[0] == addresses[1] != addresses[2] == addresses[3]


@CHAINS
@EVERY
def test_old_and_odd_files_are_quantised_too(apply, tmp_path, one, options):
    path = write_chain(tmp_path / "chain.tflite", **options)
    samples = write_samples(tmp_path / "samples.npz", SHAPE, count=32)
    product = apply(one, path, samples)
    x = np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)
    assert snr_db(infer(path, x), infer(product.model, x)) >= 25
    assert interface(product.model) == interface(path)
    assert "activations that went into the operator before them: 2" in product.notes
    assert any("float16" in note for note in product.notes) == options.get("half", False)
    assert dtypes(product.model)["CONV_2D"] == (["int8", "int8"] if one is STATIC else ["float32", "float32"])
    kept = apply(one, path, samples, keep=[names_of(path, "RELU")[0]])
    graph = TfliteReader().read_graph(kept.model)
    first = next(each for each in graph.operators if each.op == "CONV_2D")
    assert next(graph.output_tensors(first)).dtype == "float32"
    assert graph.tensors[first.weights[0]].dtype == "float32"
    assert graph.tensors[first.weights[0]].stored_bytes is None


def test_an_activation_that_others_see_the_input_of_stays_alone(tmp_path):
    writer = NetworkWriter()
    x = writer.tensor("x", SHAPE)
    first = writer.convolution(x, "first", SHAPE, 4)
    y = writer.activation(first, "y", SHAPE)
    path = writer.save(tmp_path / "seen.tflite", inputs=[x], outputs=[y, first])
    model = read_float_model(path)
    assert not model.notes
    assert set(model.makers) == {"first", "y"}
    copy = tmp_path / "copy.tflite"
    copy.write_bytes(model.content)
    array = np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)
    assert all(np.array_equal(a, b) for a, b in zip(infer(path, array), infer(copy, array), strict=True))


def test_operators_without_an_int8_kernel_stay_in_float_where_that_is_wanted(apply, tmp_path):
    path = write_chain(tmp_path / "chain.tflite", kind="HARD_SWISH")
    samples = write_samples(tmp_path / "samples.npz", SHAPE, count=32)
    every, fast = apply(STATIC, path, samples, scope="all"), apply(STATIC, path, samples)
    assert dtypes(every.model)["HARD_SWISH"] == ["int8", "int8"]
    assert dtypes(fast.model)["HARD_SWISH"] == ["float32", "float32"]
    assert dtypes(fast.model)["CONV_2D"] == ["int8", "int8"]
    assert "2 HARD_SWISH stay in float, for which XNNPACK has no int8 kernel" in fast.notes[-1]
    x = np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)
    for product in (every, fast):
        assert snr_db(infer(path, x), infer(product.model, x)) >= 25
        assert interface(product.model) == interface(path)


def test_samples_go_to_inputs_in_the_models_order(apply, tmp_path):
    """Ranges of two inputs differ by 1000; swapped, the narrow one would have no levels left."""
    writer = NetworkWriter()
    a, b = writer.tensor("wide", (1, 16)), writer.tensor("narrow", (1, 8))
    y = writer.dense(a, "y", 16, 4)
    z = writer.dense(b, "z", 8, 4)
    writer.entry("swapped", {"second": b, "first": a}, {"z": z, "y": y})
    path = writer.save(tmp_path / "two.tflite", inputs=[b, a], outputs=[y, z])
    random = np.random.default_rng(3)

    def feed():
        return [random.normal(0, 1, (1, 8)).astype(np.float32), random.normal(0, 1000, (1, 16)).astype(np.float32)]

    samples = tmp_path / "samples.npz"
    write_calibration(samples, [feed() for _ in range(64)], None)
    product = apply(STATIC, path, samples)
    assert interface(product.model) == interface(path)
    one = feed()
    expected, got = infer(path, *one), infer(product.model, *one)
    assert [snr_db([e], [g]) >= 25 for e, g in zip(expected, got, strict=True)] == [True, True]


@pytest.mark.parametrize(("batch", "count"), [(4, 32), (4, 3), (-1, 16)])
def test_a_model_of_a_fixed_or_open_batch_takes_samples_in_batches(apply, tmp_path, batch, count):
    path = write_chain(tmp_path / "chain.tflite", batch=batch)
    samples = write_samples(tmp_path / "samples.npz", SHAPE, count=count)
    product = apply(STATIC, path, samples)
    x = np.random.default_rng(2).normal(0, 1, (max(batch, 2), *SHAPE[1:])).astype(np.float32)
    assert snr_db(infer(path, x), infer(product.model, x)) >= 20
    assert interface(product.model) == interface(path)


@EVERY
def test_what_is_made_loads_in_openvino_too(apply, digits_samples, one):
    """It looks for operator codes in the old field only, which the quantizer leaves empty."""
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    product = apply(one, DIGITS, digits_samples)
    images, _ = read_digits("digits_test.npz")
    core = openvino.Core()

    def answer(path):
        compiled = core.compile_model(core.read_model(str(path)), "CPU", {"INFERENCE_NUM_THREADS": 1})
        return np.concatenate([compiled(image[None])[0] for image in images[:32]])

    assert snr_db([answer(DIGITS)], [answer(product.model)]) >= 30


@EVERY
def test_every_pass_keeps_its_contract(tmp_path, one):
    path = write_chain(tmp_path / "chain.tflite")
    samples = write_samples(tmp_path / "samples.npz", SHAPE)
    rules = check_pass(one, facts_of(path), calibration=samples)
    assert {"metadata", "import", "recipes", "product", "keep_float"} <= set(rules)


def test_recipes_follow_the_network(tmp_path):
    found = STATIC.recipes(facts_of(DIGITS))
    labels = [recipe.label for recipe in found]
    assert {recipe.settings["activations"]: recipe.settings["scope"] for recipe in found if recipe.rank != 1} == {
        8: "accelerated",
        16: "all",
    }, "no int16 operator would be left among the accelerated ones"
    assert labels[0] == ""
    assert "first convolution in float" in labels
    plain = facts_of(write_chain(tmp_path / "chain.tflite"))
    assert "first convolution in float" not in [recipe.label for recipe in STATIC.recipes(plain)]
    half = facts_of(write_chain(tmp_path / "half.tflite", half=True))
    assert [recipe.label for recipe in WEIGHTS.recipes(plain)] == ["int8", "float16", "int4"]
    assert [recipe.label for recipe in WEIGHTS.recipes(half)] == ["int8", "int4"]
    bare = replace(plain, graph=replace(plain.graph, operators=()))
    assert not any(one.recipes(bare) for one in (STATIC, DYNAMIC, WEIGHTS))


# Networks of others ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "least"), [("ad01_fp32", 20), ("vww_96_float", 15)])
def test_mlperf_tiny_networks_without_entry_points(apply, shared_models, tmp_path, name, least):
    path = shared_models / f"{name}.tflite"
    _, *sizes = TfliteReader().read_signature(path).inputs[0].shape
    samples = write_samples(tmp_path / "samples.npz", (1, *sizes), count=8)
    product = apply(STATIC, path, samples)
    with np.load(samples) as data:
        feeds = data["input_0"]
    assert snr_db([logits(path, feeds)], [logits(product.model, feeds)]) >= least
    assert interface(product.model) == interface(path)


def test_mlperf_tiny_quantised_networks_are_refused(apply, shared_models, digits_samples):
    for path in sorted(Path(shared_models).glob("*int8.tflite")):
        with pytest.raises(CannotApply, match="quantised already"):
            apply(STATIC, path, digits_samples)
