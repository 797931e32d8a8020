"""Passes on TFLite files as converters write them: old codes, float16 weights, several entry points, open batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.model.readers.tflite import TfliteReader
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.passes.litert_dynamic import LitertDynamic
from edgewise.optimizing.passes.litert_files import read_float_model
from edgewise.optimizing.passes.litert_static import LitertStatic
from edgewise.optimizing.passes.litert_weights import LitertWeights
from edgewise.testing.passes import check_pass
from litert_networks import (
    NetworkWriter,
    apply_in,
    dtypes,
    facts_of,
    infer,
    interface,
    names_of,
    snr_db,
    write_samples,
)

pytest.importorskip("ai_edge_quantizer", reason="ai-edge-quantizer is not installed")
pytestmark = pytest.mark.engine

STATIC, DYNAMIC, WEIGHTS = LitertStatic(), LitertDynamic(), LitertWeights()
EVERY = pytest.mark.parametrize("one", [STATIC, DYNAMIC, WEIGHTS], ids=lambda one: one.name)
SHAPE = (1, 8, 8, 4)
DIGITS = bundled("digits_cnn.tflite")


@pytest.fixture
def apply(tmp_path):
    return apply_in(tmp_path)


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
    result = apply(one, path, samples)
    x = np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)
    assert snr_db(infer(path, x), infer(result.model, x)) >= 25
    assert interface(result.model) == interface(path)
    assert "activations that were fused into the operator before them: 2" in result.notes
    assert any("float16" in note for note in result.notes) == options.get("half", False)
    assert dtypes(result.model)["CONV_2D"] == (["int8", "int8"] if one is STATIC else ["float32", "float32"])
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
    assert "2 HARD_SWISH stay in float, because XNNPACK has no int8 kernel" in fast.notes[-1]
    x = np.random.default_rng(2).normal(0, 1, SHAPE).astype(np.float32)
    for result in (every, fast):
        assert snr_db(infer(path, x), infer(result.model, x)) >= 25
        assert interface(result.model) == interface(path)


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
    result = apply(STATIC, path, samples)
    assert interface(result.model) == interface(path)
    one = feed()
    expected, got = infer(path, *one), infer(result.model, *one)
    assert [snr_db([e], [g]) >= 25 for e, g in zip(expected, got, strict=True)] == [True, True]


@pytest.mark.parametrize(("batch", "count"), [(4, 32), (4, 3), (-1, 16)])
def test_a_model_of_a_fixed_or_open_batch_takes_samples_in_batches(apply, tmp_path, batch, count):
    path = write_chain(tmp_path / "chain.tflite", batch=batch)
    samples = write_samples(tmp_path / "samples.npz", SHAPE, count=count)
    result = apply(STATIC, path, samples)
    x = np.random.default_rng(2).normal(0, 1, (max(batch, 2), *SHAPE[1:])).astype(np.float32)
    assert snr_db(infer(path, x), infer(result.model, x)) >= 20
    assert interface(result.model) == interface(path)


@EVERY
def test_every_pass_keeps_its_contract(tmp_path, one):
    path = write_chain(tmp_path / "chain.tflite")
    samples = write_samples(tmp_path / "samples.npz", SHAPE)
    rules = check_pass(one, facts_of(path), calibration=samples)
    assert {"metadata", "import", "recipes", "result", "keep_float"} <= set(rules)


def test_recipes_follow_the_network(tmp_path):
    found = STATIC.recipes(facts_of(DIGITS))
    labels = [recipe.label for recipe in found]
    scopes = {
        (recipe.settings.activations, recipe.settings.io): recipe.settings.scope for recipe in found if recipe.rank != 1
    }
    assert scopes == {(8, "float"): "accelerated", (8, "int8"): "all", (16, "float"): "all"}, (
        "no int16 operator would be left among the accelerated ones"
    )
    assert labels[0] == ""
    assert "first convolution in float" in labels
    plain = facts_of(write_chain(tmp_path / "chain.tflite"))
    assert "first convolution in float" not in [recipe.label for recipe in STATIC.recipes(plain)]
    half = facts_of(write_chain(tmp_path / "half.tflite", half=True))
    assert [recipe.label for recipe in WEIGHTS.recipes(plain)] == ["int8", "float16", "int4"]
    assert [recipe.label for recipe in WEIGHTS.recipes(half)] == ["int8", "int4"]
    bare = replace(plain, graph=replace(plain.graph, operators=()))
    assert not any(one.recipes(bare) for one in (STATIC, DYNAMIC, WEIGHTS))
