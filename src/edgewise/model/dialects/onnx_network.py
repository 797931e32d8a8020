"""ONNX operators that networks are made of: convolutions, products of matrices, pooling, norms, resizing, quantisation.

Integer forms (`QLinearConv`, `MatMulInteger`, …) count as the real ones they stand for: MACs and bias. Zero points and
the rescaling of sums are not counted, as in TFLite's kernels. How coordinates are found is not counted either.
"""

from __future__ import annotations

from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    divide,
    each,
    elements,
    mean,
    multiply,
    per_element,
    product_of,
    rank,
    rare,
    size,
    unknown,
)  # fmt: skip
from edgewise.model.dialects.einsum import read_einsum
from edgewise.model.graph import Tensor
from edgewise.model.signature import Dimension

_FUSED = {
    "": "none", "Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "LeakyRelu": "leaky-relu", "Clip": "clamp",
    "HardSigmoid": "hard-sigmoid", "HardSwish": "hard-swish", "Gelu": "gelu", "Elu": "elu", "Selu": "selu",
    "Softplus": "softplus", "Softsign": "softsign", "ThresholdedRelu": "threshold", "SiLU": "silu",
    "silu": "silu", "swish": "silu", "none": "none",
}  # fmt: skip


def fused_function(raw: RawOperator) -> str:
    """Return the function that an operator applies to its outputs, of `ACTIVATIONS`, or the file's name for another."""
    name = raw.text("activation", "")
    return _FUSED.get(name, name)


def _reduction_of(raw: RawOperator, data: Tensor | None, weight: Tensor | None) -> int | None:
    """MACs per output of a convolution: the weight's dimensions after the first, or channels of a group × kernel."""
    found = product_of(weight, 1)
    if found is not None:
        return found
    kernel, group = raw.sizes("kernel_shape"), raw.natural("group", 1)
    return None if kernel is None else multiply(divide(size(data, 1), group), *kernel)


def read_convolution(
    raw: RawOperator,
    *,
    data: int = 0,
    weight: int = 1,
    bias: int = 2,
    residual: int | None = None,
    channels_first: bool = True,
    depthwise: bool = False,
) -> Semantics:
    """Weight [M, C/group, kernel…]; `residual` is an input that is added to the outputs.

    An operator whose filters have one channel each by definition is `depthwise`; others say so by their groups.
    """
    filters = raw.input(weight)
    if rank(filters) in (0, 1, 2):
        raise Unclear(f"its weight {filters.name if filters else ''!r} has no kernel")
    image = raw.input(data) if channels_first else None
    reduction, kernel = _reduction_of(raw, image, filters), raw.sizes("kernel_shape")
    window = product_of(filters, 2) if kernel is None else multiply(*kernel)
    return mean(
        "convolution",
        reduction=reduction,
        bias=raw.given(bias),
        further=int(raw.given(residual)),
        activation=fused_function(raw),
        depthwise=depthwise or (raw.natural("group", 1) > 1 and reduction is not None and reduction == window),
        weights=(weight, bias),
    )


def read_transposed_convolution(raw: RawOperator, *, bias: int = 2) -> Semantics:
    """Weight [C, M/group, kernel…]: each input element is multiplied with all that follows the first dimension."""
    filters = raw.input(1)
    if rank(filters) in (0, 1, 2):
        raise Unclear(f"its weight {filters.name if filters else ''!r} has no kernel")
    reduction = product_of(filters, 1)
    if reduction is None and (kernel := raw.sizes("kernel_shape")) is not None:
        channels = divide(size(raw.output(), 1), raw.natural("group", 1))
        reduction = multiply(channels, *kernel)
    return mean(
        "transposed-convolution",
        reduction=reduction,
        bias=raw.given(bias),
        activation=fused_function(raw),
        weights=(1, bias),
    )


def read_deformable_convolution(raw: RawOperator) -> Semantics:
    """Return a convolution whose inputs are interpolated; the interpolation is not counted."""
    reduction = _reduction_of(raw, raw.input(0), raw.input(1))
    return rare(1, 3, macs=multiply(elements(raw.output()), reduction))


def inner_dimension(left: Tensor | None, right: Tensor | None) -> int | None:
    """Return what a matrix product sums over, as numpy's `matmul` defines it for any ranks."""
    found = size(left, -1)
    if found is not None:
        return found
    return size(right, -1 if rank(right) == 1 else -2)


def read_product(raw: RawOperator, *, right: int = 1, bias: int | None = None) -> Semantics:
    """Return a product of the input 0 and the input `right`, vectors, matrices or batches of them."""
    added = raw.given(bias)
    weights = (0, right) if bias is None else (0, right, bias)
    reduction = inner_dimension(raw.input(0), raw.input(right))
    return mean("matrix-multiplication", reduction=reduction, bias=added, weights=weights)


def read_gemm(raw: RawOperator, *, right: int = 1, bias: int = 2, activation: str = "") -> Semantics:
    """α·A·B + β·C of matrices: a factor that is not 1 is one more operation per output."""
    added = raw.given(bias) and raw.number("beta", 1.0) != 0.0
    further = (raw.number("alpha", 1.0) != 1.0) + (added and raw.number("beta", 1.0) != 1.0)
    reduction = size(raw.input(0), -2 if raw.integer("transA", 0) else -1)
    if reduction is None:
        reduction = size(raw.input(right), -1 if raw.integer("transB", 0) else -2)
    return mean(
        "matrix-multiplication",
        reduction=reduction,
        bias=added,
        further=further,
        activation=activation or fused_function(raw),
        weights=(0, right, bias),
    )


def read_pooling(raw: RawOperator, *, average: bool = False) -> Semantics:
    """Return a window's maximum or mean."""
    kernel = raw.sizes("kernel_shape")
    window = None if kernel is None else multiply(*kernel)
    return mean("pooling", window=window, average=average)


def read_global_pooling(raw: RawOperator, *, average: bool = False, channels_first: bool = True) -> Semantics:
    """Pooling of all that a channel has."""
    image = raw.input(0)
    window = product_of(image, 2) if channels_first else product_of(image, 1, -1)
    return mean("pooling", window=window, average=average)


def read_batch_normalization(raw: RawOperator) -> Semantics:
    """Two operations per element; eight in training, where mean and variance are computed."""
    if raw.version and raw.version < 14:
        training = sum(tensor is not None for tensor in raw.outputs) > 1
    else:
        training = bool(raw.integer("training_mode", 0))
    return per_element(8 if training else 2, kind="normalization", weights=(1, 2, 3, 4))


def read_local_normalization(raw: RawOperator) -> Semantics:
    """LRN: x / (bias + α/n · Σ x²)^β over n channels: n products, n − 1 sums, scale, bias, power, division."""
    channels = raw.integer("size", 0)
    if channels < 1:
        raise Unclear(f"it normalises over {channels} channels")
    return per_element(2 * channels + 3, kind="normalization")


def interpolation(mode: str, dimensions: int | None) -> int | None:
    """Operations per output: 2 × taps − 1 where `dimensions` change, 0 where none does or the nearest is taken.

    Raises:
        Unclear: no such mode.
    """
    if mode == "nearest":
        return 0
    taps = {"linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(mode)
    if taps is None:
        raise Unclear(f"it has no mode {mode!r}")
    if dimensions is None or dimensions > 16:
        return None
    return 2 * taps**dimensions - 1 if dimensions else 0


def _changes(old: Dimension, new: Dimension) -> bool | None:
    """Whether a dimension is resized; open ones of the same name are equal, whatever they are."""
    if isinstance(old, int) and isinstance(new, int):
        return old != new
    return False if isinstance(old, str) and old == new else None


def _changing(raw: RawOperator) -> int | None:
    """How many dimensions a resizing changes, from the shapes or else the scales."""
    before, after = raw.input(0), raw.output()
    if before is not None and after is not None and before.shape is not None and after.shape is not None:
        if len(before.shape) != len(after.shape):
            raise Unclear("its input and output differ in rank")
        changes = [_changes(old, new) for old, new in zip(before.shape, after.shape, strict=True)]
        if None not in changes:
            return changes.count(True)
    scales = raw.listed("scales") or raw.values(1 if raw.op == "Upsample" else 2)
    return sum(scale != 1 for scale in scales) if scales else None


def read_resize(raw: RawOperator) -> Semantics:
    """Interpolation in the dimensions that change."""
    if raw.integer("antialias", 0):
        return unknown("the number of elements in an antialiased output is the engine's choice")
    mode = raw.text("mode", "nearest")
    if raw.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" and mode != "nearest":
        return unknown("how many dimensions it interpolates depends on the regions that it crops")
    return mean("resize", per_element=interpolation(mode, _changing(raw)))


def read_grid_sample(raw: RawOperator) -> Semantics:
    """Interpolation at the grid's points, in all dimensions after the first two."""
    dimensions = rank(raw.input(0))
    mode = raw.text("mode", "linear")
    return mean("resize", per_element=interpolation(mode, None if dimensions is None else max(dimensions - 2, 0)))


TABLE: dict[str, Rule] = {
    "Conv": read_convolution,
    "ConvInteger": lambda raw: read_convolution(raw, bias=len(raw.inputs)),
    "QLinearConv": lambda raw: read_convolution(raw, weight=3, bias=8),
    "ConvTranspose": read_transposed_convolution,
    "DeformConv": read_deformable_convolution,
    "CausalConvWithState": lambda raw: read_convolution(raw, depthwise=True),
    "MatMul": read_product,
    "MatMulInteger": read_product,
    "QLinearMatMul": lambda raw: read_product(raw, right=3),
    "Gemm": read_gemm,
    "Einsum": read_einsum,
    "MaxPool": read_pooling,
    "AveragePool": lambda raw: read_pooling(raw, average=True),
    **each("LpPool GlobalLpPool", rare()),
    "GlobalMaxPool": read_global_pooling,
    "GlobalAveragePool": lambda raw: read_global_pooling(raw, average=True),
    "BatchNormalization": read_batch_normalization,
    # Eight operations per element, seven without the shift.
    "LayerNormalization": lambda raw: per_element(7 + raw.given(2), kind="normalization", weights=(1, 2)),
    **each("InstanceNormalization GroupNormalization", per_element(8, kind="normalization", weights=(1, 2))),
    # Mean of squares (multiply, add), normalise, scale. `Simplified…` is onnxruntime's name for it.
    **each("RMSNormalization SimplifiedLayerNormalization", per_element(4, kind="normalization", weights=(1,))),
    "MeanVarianceNormalization": per_element(6, kind="normalization"),
    "LpNormalization": per_element(3, kind="normalization"),  # absolute value or square, add, divide
    "LRN": read_local_normalization,
    "Softmax": Semantics(kind="softmax"),
    "LogSoftmax": mean("softmax", logarithm=True),
    **each("Resize Upsample", read_resize),
    "GridSample": read_grid_sample,
    "QuantizeLinear": per_element(4, kind="quantize", weights=(0,)),
    "DequantizeLinear": per_element(2, kind="dequantize", weights=(0,)),
    # Minimum and maximum of all elements, then quantised; the few operations for the scale itself are not counted.
    "DynamicQuantizeLinear": per_element(6, kind="quantize"),
}
"""Operator of the standard set → what it means."""
