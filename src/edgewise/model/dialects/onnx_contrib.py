"""Operators of onnxruntime's own sets, which its optimiser and quantisers write into models.

Their definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Integer forms count as
the real ones they stand for, as in `edgewise.model.dialects.onnx_network`.
"""

from __future__ import annotations

from edgewise.model.dialects import onnx_sequence
from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    counted,
    data_dependent,
    each,
    elements,
    function,
    mean,
    moving,
    multiply,
    per_element,
    rank,
    rare,
    reducing,
    size,
    unknown,
)  # fmt: skip
from edgewise.model.dialects.onnx_arithmetic import read_gelu
from edgewise.model.dialects.onnx_network import (
    fused_function,
    inner_dimension,
    interpolation,
    read_convolution,
    read_gemm,
    read_global_pooling,
    read_grid_sample,
    read_pooling,
    read_product,
    read_resize,
    read_transposed_convolution,
)


def read_fused_product(raw: RawOperator) -> Semantics:
    """Return the product α · A · B of turned matrices, then a function."""
    if raw.integer("transBatchA", 0) or raw.integer("transBatchB", 0):
        return rare(0, 1, macs=None)
    left, right = raw.input(0), raw.input(1)
    reduction = size(left, -2 if raw.integer("transA", 0) and rank(left) != 1 else -1)
    if reduction is None:
        reduction = size(right, -1 if raw.integer("transB", 0) or rank(right) == 1 else -2)
    scaled = raw.number("alpha", 1.0) != 1.0
    activation = fused_function(raw)
    return mean(
        "matrix-multiplication", reduction=reduction, further=int(scaled), activation=activation, weights=(0, 1)
    )


def read_packed_product(raw: RawOperator) -> Semantics:
    """Return a product with weights of few bits: K says what it sums over, as the weights' own shape does not."""
    inner = raw.natural("K", 0)
    if inner < 1:
        raise Unclear("it has no equation")
    added = raw.op == "MatMulNBits" and raw.given(5)
    return mean("matrix-multiplication", reduction=inner, bias=added, weights=(1, 5))


def read_gelu_product(raw: RawOperator) -> Semantics:
    """Return the product X · W + bias, then GELU with a hyperbolic tangent."""
    return mean(
        "matrix-multiplication",
        reduction=inner_dimension(raw.input(0), raw.input(1)),
        bias=raw.given(2),
        activation="gelu-tanh",
        weights=(1, 2),
    )


def read_fast_gelu(raw: RawOperator) -> Semantics:
    """GELU with a hyperbolic tangent, of x + bias where there is one."""
    return mean("elementwise", per_element=int(raw.given(1)), activation="gelu-tanh", weights=(1,))


def read_quick_gelu(raw: RawOperator) -> Semantics:
    """Swish with its own α: x · sigmoid(α · x)."""
    scaled = raw.number("alpha", 1.702) != 1.0
    return mean("elementwise", per_element=int(scaled), activation="silu", weights=(0,))


def read_skip_normalization(raw: RawOperator) -> Semantics:
    """Return the sum x + skip (+ bias), normalised over mean and variance, scaled, and shifted where there is a
    shift.
    """
    operations = 7 + raw.given(3) + 1 + raw.given(4)
    return per_element(operations, kind="normalization", weights=(0, 1, 2, 3, 4))


def read_skip_root_normalization(raw: RawOperator) -> Semantics:
    """Return the sum x + skip (+ bias), normalised over its mean square and scaled."""
    return per_element(4 + 1 + raw.given(3), kind="normalization", weights=(0, 1, 2, 3))


def read_group_normalization(raw: RawOperator) -> Semantics:
    """Eight operations per element, the sums before it in the `Skip` form, and SiLU where `activation` is 1."""
    added = (raw.given(3) + raw.given(4)) if raw.op == "SkipGroupNorm" else 0
    activation = {0: "none", 1: "silu"}.get(raw.integer("activation", 0))
    if activation is None:
        raise Unclear("its function is neither none nor SiLU")
    weights = (1, 2, 4) if added else (1, 2)
    return mean("normalization", per_element=8 + added, activation=activation, weights=weights)


_GENERATION = "it runs a decoder until the text ends, which depends on the data"
_OPAQUE = "it contains a program compiled for one device"

MICROSOFT: dict[str, Rule] = {
    **onnx_sequence.CONTRIBUTED,
    "FusedConv": lambda raw: read_convolution(raw, residual=3),
    "NhwcConv": lambda raw: read_convolution(raw, channels_first=False),
    "NhwcFusedConv": lambda raw: read_convolution(raw, residual=3, channels_first=False),
    "QLinearConv": lambda raw: read_convolution(
        raw, weight=3, bias=8, channels_first=not raw.integer("channels_last", 0)
    ),
    "ConvTransposeWithDynamicPads": lambda raw: read_transposed_convolution(raw, bias=3),
    "CausalConvWithState": lambda raw: read_convolution(raw, depthwise=True),
    **each("FusedMatMul FusedMatMulActivation TransposeMatMul", read_fused_product),
    "FusedGemm": read_gemm,
    "GemmFloat8": read_gemm,
    "GemmFastGelu": read_gelu_product,
    "QGemm": lambda raw: read_gemm(raw, right=3, bias=6),
    "MatMulInteger16": read_product,
    "MatMulIntegerToFloat": lambda raw: read_product(raw, bias=6),
    "DynamicQuantizeMatMul": lambda raw: read_product(raw, bias=4),
    **each("MatMulNBits MatMulBnb4", read_packed_product),
    # Its weight's shape is packed.
    "MatMulFpQ4": lambda raw: mean("matrix-multiplication", reduction=size(raw.input(0), -1), weights=(1,)),
    "QLinearAdd": per_element(1, weights=(0, 3)),
    "QLinearMul": per_element(1, weights=(0, 3)),
    "QLinearWhere": per_element(1, weights=(1, 4)),
    "MulInteger": per_element(1, weights=(0, 2)),
    "QLinearSigmoid": function("sigmoid", weights=(0,)),
    "QLinearLeakyRelu": function("leaky-relu", weights=(0,)),
    "QLinearSoftmax": Semantics(kind="softmax"),
    "QLinearReduceMean": reducing(1, 1),
    "ReduceSumInteger": reducing(),
    "QLinearAveragePool": lambda raw: read_pooling(raw, average=True),
    "QLinearGlobalAveragePool": lambda raw: read_global_pooling(
        raw, average=True, channels_first=not raw.integer("channels_last", 0)
    ),
    # Inputs come in threes (data, scale, zero point) after the output's scale and zero point.
    "QLinearConcat": lambda raw: moving(*range(2, len(raw.inputs), 3)),
    "QuantizeLinear": per_element(4, kind="quantize", weights=(0,)),
    "DequantizeLinear": per_element(2, kind="dequantize", weights=(0,)),
    "GatherBlockQuantized": per_element(2, kind="dequantize", weights=(0,)),
    "Gelu": read_gelu,
    "FastGelu": read_fast_gelu,
    "BiasGelu": mean("elementwise", per_element=1, activation="gelu", weights=(1,)),
    "QuickGelu": read_quick_gelu,
    # Bias on both halves, GELU of the right one, times the left one: per element of the result.
    "BiasSplitGelu": mean("elementwise", per_element=3, activation="gelu", weights=(1,)),
    "BiasAdd": per_element(2, weights=(1,)),  # bias and skip
    "BiasSoftmax": lambda raw: counted(0, multiply(6, elements(raw.output()))),  # A softmax of x + bias
    "BiasDropout": rare(1),
    "SkipLayerNormalization": read_skip_normalization,
    "SkipSimplifiedLayerNormalization": read_skip_root_normalization,
    "SimplifiedLayerNormalization": per_element(4, kind="normalization", weights=(1,)),
    **each("GroupNorm SkipGroupNorm", read_group_normalization),
    "NhwcMaxPool": read_pooling,
    "GridSample": read_grid_sample,
    # Interpolation in the two dimensions of each region.
    "CropAndResize": lambda raw: mean("resize", per_element=interpolation(raw.text("mode", "bilinear"), 2)),
    "Inverse": rare(macs=None),
    **each("Rfft Irfft", rare()),
    # (a + bi)(c + di) is four products and two sums for two numbers.
    **each("ComplexMul ComplexMulConj", per_element(3, weights=(0, 1))),
    "CDist": rare(0, 1),
    **each("ExpandDims GatherND TorchEmbedding Trilu Pad UnfoldTensor RemovePadding RestorePadding", moving(0)),
    "Range": moving(),
    "Unique": data_dependent(),
    **each("BeamSearch GreedySearch Sampling WhisperBeamSearch", unknown(_GENERATION)),
    **each("EPContext Snpe", unknown(_OPAQUE)),
    "Tokenizer": data_dependent("it works on strings, whose lengths depend on the data"),
}
"""Operator of ``com.microsoft`` → what it means."""

BLOCKED: dict[str, Rule] = {
    "Conv": lambda raw: read_convolution(raw, residual=3),
    "MaxPool": read_pooling,
    "AveragePool": lambda raw: read_pooling(raw, average=True),
    "GlobalMaxPool": read_global_pooling,
    "GlobalAveragePool": lambda raw: read_global_pooling(raw, average=True),
    "Upsample": read_resize,
    **each("ReorderInput ReorderOutput", moving(0)),
}
"""Operator of ``com.microsoft.nchwc`` (channels in blocks of the processor's vectors; a block's rest is padding)."""
