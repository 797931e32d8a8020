"""Models that use an operator as networks do: ONNX's own examples of it, and those of `WRITTEN`.

An operator that stands alone, on inputs of unknown rank, may be refused for what surrounds it: a sequence that nothing
takes apart, an axis that is no constant.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Model = onnx.ModelProto
Key = tuple[str, str]
"""Domain and name of an operator."""

#: operator → graphs with it, in ONNX's text form; where the newest version has another form, those of each opset
WRITTEN: dict[str, tuple[str, ...]] = {
    "Affine": ("(float[2] x) => (float[2] y) {y = Affine <alpha = 2.0, beta = 1.0> (x)}",),
    "ConcatFromSequence": (
        "(float[2] a, float[2] b) => (float[4] y) {s = SequenceConstruct (a, b) y = ConcatFromSequence <axis = 0> (s)}",
        "(float[4] x) => (float[4] y) {s = SplitToSequence (x) y = ConcatFromSequence <axis = 0> (s)}",
    ),
    "Crop": (
        "(float[1,1,4,4] x) => (float[1,1,2,2] y) {y = Crop <border = [1, 1, 1, 1]> (x)}",
        "(float[1,1,4,4] x) => (float[1,1,2,2] y) {y = Crop <border = [1, 1, 1, 1], scale = [2, 2]> (x)}",
    ),
    "DepthToSpace": ("(float[1,4,2,2] x) => (float[1,1,4,4] y) {y = DepthToSpace <blocksize = 2> (x)}",),
    "Dropout in training": ("(float[4] x) => (float[4] y) <float r = {0.5}, bool t = {1}> {y = Dropout (x, r, t)}",),
    "Dropout": ("(float[4] x) => (float[4] y) {y = Dropout <is_test = 1> (x)}",),
    "GlobalLpPool": ("(float[1,2,4,4] x) => (float[1,2,1,1] y) {y = GlobalLpPool (x)}",),
    "ImageScaler": ("(float[1,2,4,4] x) => (float[1,2,4,4] y) {y = ImageScaler <bias = [0.5, 0.5], scale = 2.0> (x)}",),
    "Loop": (
        "(float[4] x) => (float[4] y) {n = Constant <value_int = 3> () c = Constant <value = bool {1}> () y = Loop "
        "<body = b (int64 i, bool p, float[4] a) => (bool q, float[4] d) {q = Identity (p) d = Add (a, a)}> (n, c, x)}",
    ),
    "LpPool": ("(float[1,2,4,4] x) => (float[1,2,2,2] y) {y = LpPool <kernel_shape = [2, 2], strides = [2, 2]> (x)}",),
    "Optional": ("(float[4] x) => (float[4] y) {o = Optional (x) y = OptionalGetElement (o)}",),
    "OptionalGetElement": ("(float[4] x) => (float[4] y) {o = Optional (x) y = OptionalGetElement (o)}",),
    "OptionalHasElement": ("(float[4] x) => (bool y) {o = Optional (x) y = OptionalHasElement (o)}",),
    "Pad": (
        "(float[2,2] x) => (float[4,2] y) {y = Pad <paddings = [1, 0, 1, 0]> (x)}",
        "(float[2,2] x) => (float[4,2] y) {y = Pad <pads = [1, 0, 1, 0]> (x)}",
    ),
    "Reshape": ("(float[4] x) => (float[2,2] y) {y = Reshape <shape = [2, 2]> (x)}",),
    "SequenceAt": (
        "(float[2] a, float[2] b) => (float[2] y) "
        "{i = Constant <value_int = 1> () s = SequenceConstruct (a, b) y = SequenceAt (s, i)}",
        "(float[4] x) => (float[1] y) {i = Constant <value_int = 1> () s = SplitToSequence (x) y = SequenceAt (s, i)}",
    ),
    "SequenceConstruct": (
        "(float[2] a, float[2] b) => (float[4] y) {s = SequenceConstruct (a, b) y = ConcatFromSequence <axis = 0> (s)}",
    ),
    "SequenceEmpty": (
        "(float[2] a) => (float[2] y) "
        "{e = SequenceEmpty () s = SequenceInsert (e, a) y = ConcatFromSequence <axis = 0> (s)}",
    ),
    "SequenceErase": (
        "(float[2] a, float[2] b) => (float[2] y) {i = Constant <value_int = 0> () s = SequenceConstruct (a, b) "
        "t = SequenceErase (s, i) y = ConcatFromSequence <axis = 0> (t)}",
    ),
    "SequenceInsert": (
        "(float[2] a, float[2] b) => (float[4] y) "
        "{s = SequenceConstruct (a) t = SequenceInsert (s, b) y = ConcatFromSequence <axis = 0> (t)}",
    ),
    "SequenceLength": ("(float[2] a, float[2] b) => (int64 y) {s = SequenceConstruct (a, b) y = SequenceLength (s)}",),
    "SplitToSequence": (
        "(float[4] x) => (float[4] y) {s = SplitToSequence (x) y = ConcatFromSequence <axis = 0> (s)}",
        "(float[4] x) => (float[1] y) {i = Constant <value_int = 1> () s = SplitToSequence (x) y = SequenceAt (s, i)}",
    ),
    "Upsample": (
        "(float[1,1,2,2] x) => (float[1,1,4,4] y) {y = Upsample <height_scale = 2.0, width_scale = 2.0> (x)}",
        "(float[1,1,2,2] x) => (float[1,1,4,4] y) {y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x)}",
    ),
    "com.microsoft.Attention": (
        "(float[1,2,4] x) => (float[1,2,4] y) <float[4,12] w = {#48}, float[12] b = {#12}> "
        "{y = com.microsoft.Attention <num_heads = 2> (x, w, b)}",
    ),
    "com.microsoft.BiasAdd": (
        "(float[1,4,8] x, float[8] b, float[1,4,8] s) => (float[1,4,8] y) {y = com.microsoft.BiasAdd (x, b, s)}",
    ),
    "com.microsoft.DequantizeLinear": (
        "(uint8[4] x) => (float[4] y) <float s = {0.5}, uint8 z = {0}> {y = com.microsoft.DequantizeLinear (x, s, z)}",
    ),
    "com.microsoft.DynamicQuantizeLSTM": (
        "(float[2,1,3] x) => (float[2,1,1,4] y) <int8[1,3,16] w = {#48}, int8[1,4,16] r = {#64}, "
        "float[1,32] b = {#32}, float[1] s = {1}, int8[1] z = {0}> "
        '{y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4> (x, w, r, b, "", "", "", "", s, z, s, z)}',
    ),
    "com.microsoft.EmbedLayerNormalization": (
        "(int32[1,2] i, int32[1,2] s) => (float[1,2,2] y, int32[1] m) "
        "<float[2,2] w = {1, 2, 3, 4}, float[2,2] p = {1, 2, 3, 4}, float[2,2] q = {1, 2, 3, 4}, float[2] g = {1, 1}, "
        "float[2] b = {0, 0}> {y, m = com.microsoft.EmbedLayerNormalization <epsilon = 0.1> (i, s, w, p, q, g, b)}",
    ),
    "com.microsoft.FusedConv": (
        "(float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,1,1] w = {2}> "
        '{y = com.microsoft.FusedConv <activation = "Relu"> (x, w)}',
    ),
    "com.microsoft.GatherBlockQuantized": (
        "(int64[2] i) => (float[2,16] y) <uint8[2,16] d = {#32}, float[2,1] s = {1, 1}> {y = "
        "com.microsoft.GatherBlockQuantized <bits = 8, block_size = 16, quantize_axis = 1, gather_axis = 0> (d, i, s)}",
    ),
    "com.microsoft.GroupQueryAttention": (
        "(float[1,1,16] q, float[1,1,16] k, float[1,1,16] v, float[1,2,4,8] pk, float[1,2,4,8] pv, int32[1] n, int32 t)"
        " => (float[1,1,16] y, float[1,2,N,8] ok, float[1,2,M,8] ov) {y, ok, ov = com.microsoft.GroupQueryAttention "
        "<num_heads = 2, kv_num_heads = 2> (q, k, v, pk, pv, n, t)}",
    ),
    "com.microsoft.MatMulNBits": (
        "(float[1,16] x) => (float[1,2] y) <uint8[2,1,8] w = {#16}, float[2] s = {1, 1}> {y = "
        "com.microsoft.MatMulNBits <K = 16, N = 2, bits = 4, block_size = 16> (x, w, s)}",
    ),
    "com.microsoft.QLinearAveragePool": (
        "(uint8[1,1,4,4] x) => (uint8[1,1,2,2] y) <float s = {0.5}, uint8 z = {0}> {y = "
        "com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x, s, z, s, z)}",
    ),
    "com.microsoft.QLinearConcat": (
        "(uint8[2] a, uint8[2] b) => (uint8[4] y) <float s = {0.5}, uint8 z = {0}> "
        "{y = com.microsoft.QLinearConcat <axis = 0> (s, z, a, s, z, b, s, z)}",
    ),
    "com.microsoft.QLinearLeakyRelu": (
        "(uint8[4] x) => (uint8[4] y) <float s = {0.5}, uint8 z = {0}> "
        "{y = com.microsoft.QLinearLeakyRelu <alpha = 0.5> (x, s, z, s, z)}",
    ),
    "com.microsoft.QLinearReduceMean": (
        "(uint8[2,2] x) => (uint8[2,1] y) <float s = {0.5}, uint8 z = {0}> "
        "{y = com.microsoft.QLinearReduceMean <axes = [1], keepdims = 1> (x, s, z, s, z)}",
    ),
    "com.microsoft.QLinearSigmoid": (
        "(uint8[4] x) => (uint8[4] y) <float s = {0.5}, uint8 z = {0}> "
        "{y = com.microsoft.QLinearSigmoid (x, s, z, s, z)}",
    ),
    "com.microsoft.RotaryEmbedding": (
        "(float[1,2,2,4] x, int64[1,2] p) => (float[1,2,2,4] y) <float[2,2] c = {1, 1, 1, 1}, float[2,2] s = "
        "{0, 0, 0, 0}> {y = com.microsoft.RotaryEmbedding <interleaved = 0> (x, p, c, s)}",
    ),
}


@cache
def _collected() -> dict[Key, list[Model]]:
    """Operator → ONNX's examples of it, each with its inputs as inputs, and with all but the first as constants."""
    from onnx.backend.test.case.node import collect_testcases

    np.random.seed(0)
    found: dict[Key, list[Model]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        if case.model is None or "_expanded" in case.name:
            continue
        for key in _operators(case.model.graph):
            found.setdefault(key, []).extend((case.model, *_with_constants(case)))
    return found


def _operators(graph: onnx.GraphProto) -> dict[Key, None]:
    """Return the operators of a graph, without those of its subgraphs."""
    return dict.fromkeys((node.domain, node.op_type) for node in graph.node)


def _with_constants(case: Any) -> Iterator[Model]:
    """Yield the example with all inputs but the first as constants; none where it has one input."""
    model = Model()
    model.CopyFrom(case.model)
    for info, value in list(zip(model.graph.input, case.data_sets[0][0], strict=False))[1:]:
        if isinstance(value, np.ndarray) and info.type.HasField("tensor_type"):
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
            model.graph.input.remove(info)
    if len(model.graph.input) < len(case.model.graph.input):
        yield model


def _read(text: str, opset: int) -> Model:
    """Return the model of a graph in text form; ``#8`` stands for eight numbers."""
    graph = re.sub(r"#(\d+)", lambda count: ", ".join("1" * int(count[1])), text)
    sets = f'["": {opset}, "com.microsoft": 1]'
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: {sets}> g {graph}")


def contexts(domain: str, name: str, opset: int) -> Iterator[Model]:
    """Yield valid models of operator set `opset` that use an operator; none where there is no example of it."""
    qualified = f"{domain}.{name}" if domain else name
    written = [_read(text, opset if not domain else 17) for text in WRITTEN.get(qualified, ())]
    for model in [*written, *_collected().get((domain, name), ())]:
        stamped = Model()
        stamped.CopyFrom(model)
        for each in stamped.opset_import:
            if each.domain == domain:
                each.version = opset
        try:
            onnx.checker.check_model(stamped)
        except onnx.checker.ValidationError:
            continue  # the example is of another version
        yield stamped


def with_option(model: Model, name: str, option: str, value: str | None) -> Iterator[Model]:
    """Yield the same model with another value of an option, None for none; nothing where that is no valid model."""
    changed = Model()
    changed.CopyFrom(model)
    node = next(each for each in changed.graph.node if each.op_type == name)
    kept = [each for each in node.attribute if each.name != option]
    del node.attribute[:]
    node.attribute.extend(kept + ([] if value is None else [onnx.helper.make_attribute(option, value)]))
    with suppress(onnx.checker.ValidationError):
        onnx.checker.check_model(changed)
        yield changed
