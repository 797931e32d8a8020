"""TFLite's layers: convolutions, matrix products, pooling, normalisations, embeddings, quantisation.

Layouts are those of the kernels' documentation in tensorflow/lite/schema/schema.fbs and tensorflow/lite/kernels:
activations [batch, height, width, channels]; filters [output, height, width, input] (convolutions), [1, height, width,
channels] (depthwise), [depth, height, width, input, output] (three dimensions) and [output, input] (fully connected).
"""

from __future__ import annotations

from math import log2

from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    add,
    counted,
    elements,
    mean,
    moving,
    multiply,
    per_element,
    shape_of,
    size_of,
    unknown,
)

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
_FUSED = {
    "NONE": "none", "RELU": "clamp", "RELU_N1_TO_1": "clamp", "RELU6": "clamp", "TANH": "tanh", "SIGN_BIT": "sign",
}  # fmt: skip
"""ActivationFunctionType → function of `edgewise.model.cost.ACTIVATIONS`."""


def fused(raw: RawOperator) -> str:
    """The function that is applied to the outputs; the schema's own name where it is a newer one."""
    name = str(raw.attributes.get("fused_activation_function", "NONE"))
    return _FUSED.get(name, name)


def positive(raw: RawOperator, option: str) -> int | None:
    """An option that is a size."""
    value = raw.attributes.get(option)
    return value if isinstance(value, int) and value > 0 else None


def _product(*axes: int, kind: str = "convolution", bias: int = 2, data: int | None = None) -> Rule:
    """The rule of an operator whose sums have one product for each place in these dimensions of its filter."""

    def read(raw: RawOperator) -> Semantics:
        depthwise = None
        if raw.op == "CONV_2D":
            # The filter's input channels are those of one group.
            depthwise = size_of(raw.input(1), 3) == 1 and (size_of(raw.input(0), -1) or 0) > 1
        elif raw.op == "DEPTHWISE_CONV_2D":
            depthwise = True
        return mean(
            kind,
            reduction=multiply(*(size_of(raw.input(1), axis) for axis in axes)),
            depthwise=depthwise,
            data=data,
            bias=raw.given(bias),
            activation=fused(raw),
            weights=(1, bias),
        )

    return read


PRODUCTS: dict[str, Rule] = {
    "CONV_2D": _product(1, 2, 3),
    "DEPTHWISE_CONV_2D": _product(1, 2),
    "CONV_3D": _product(0, 1, 2, 3),
    "TRANSPOSE_CONV": _product(0, 1, 2, kind="transposed-convolution", bias=3, data=2),
    "CONV_3D_TRANSPOSE": _product(0, 1, 2, 3, kind="transposed-convolution", bias=3, data=2),
    "FULLY_CONNECTED": _product(-1, kind="matrix-multiplication"),
}
"""Operator → its meaning: data and a filter. Transposed ones have the output's shape as their first input."""

convolve_transposed_bias = _product(0, 1, 2, kind="transposed-convolution")
"""MediaPipe's Convolution2DTransposeBias: data, filter [output, height, width, input], bias."""


def multiply_matrices(raw: RawOperator) -> Semantics:
    """BATCH_MATMUL."""
    inner = size_of(raw.input(0), -2 if raw.attributes.get("adj_x") else -1)
    return mean("matrix-multiplication", reduction=inner, weights=(0, 1))


def _window(raw: RawOperator) -> int | None:
    return multiply(positive(raw, "filter_height"), positive(raw, "filter_width"))


def pool(raw: RawOperator) -> Semantics:
    """AVERAGE_POOL_2D, MAX_POOL_2D."""
    return mean("pooling", window=_window(raw), average=raw.op == "AVERAGE_POOL_2D", activation=fused(raw))


def pool_squares(raw: RawOperator) -> Semantics:
    """L2_POOL_2D: the root of the mean of the squares, which are a product added to a sum."""
    outputs = elements(raw.output())
    macs = multiply(outputs, _window(raw))
    return counted(macs, add(multiply(2, macs), multiply(2, outputs)))


def pool_by_function(raw: RawOperator) -> Semantics:
    """REDUCE_WINDOW: data, initial value, window shape, strides, dilations."""
    if raw.attributes.get("reduce_function", "UNSUPPORTED") == "UNSUPPORTED":
        return unknown("its function is unknown")
    window = raw.values(2)
    fits = window is not None and all(size > 0 for size in window)
    return mean("pooling", window=multiply(*map(int, window or ())) if fits else None)


def normalize_length(raw: RawOperator) -> Semantics:
    """L2_NORMALIZATION: square, add, multiply by the reciprocal root, which is found once per row."""
    return mean("normalization", per_element=3, activation=fused(raw))


def normalize_locally(raw: RawOperator) -> Semantics:
    """LOCAL_RESPONSE_NORMALIZATION: n = 2 r + 1 products and n − 1 sums, then scale, bias, power and division."""
    radius = raw.attributes.get("radius")
    operations = 2 * (2 * radius + 1) + 3 if isinstance(radius, int) and radius >= 0 else None
    return per_element(operations, kind="normalization")


def look_up(raw: RawOperator) -> Semantics:
    """EMBEDDING_LOOKUP: rows of a table, de-quantised where the table is quantised and the output is not."""
    table, output = raw.input(1), raw.output()
    if table is not None and output is not None and table.dtype != output.dtype:
        return per_element(2, kind="dequantize", weights=(1,))
    return moving(1)


def look_up_weighted(raw: RawOperator) -> Semantics:
    """EMBEDDING_LOOKUP_SPARSE: ids, indices, shape, weights, table.

    Rows × weights are summed; MEAN divides by the sum of the weights, SQRTN by the root of the sum of their squares,
    once per bag of ids.
    """
    ids, outputs = elements(raw.input(0)), elements(raw.output())
    row = multiply(*shape_of(raw.input(4))[1:]) if ids else None
    macs = multiply(ids, row)
    bags = outputs // row if outputs is not None and row else None
    extra: dict[str, int | None] = {
        "SUM": 0,
        "MEAN": add(ids, outputs),
        "SQRTN": add(multiply(2, ids), bags, outputs),
    }
    ops = add(multiply(2, macs), extra.get(str(raw.attributes.get("combiner", "SUM"))))
    return counted(macs, ops, weights=(4,))


def quantize(raw: RawOperator) -> Semantics:
    """QUANTIZE, from a float or from another quantisation."""
    source = raw.input(0)
    return per_element(None if source is None else 4 if source.dtype in _FLOATS else 6, kind="quantize")


def dequantize(raw: RawOperator) -> Semantics:
    """DEQUANTIZE. Of a constant it is done once, when the model is loaded; of float16 it is a conversion."""
    source = raw.input(0)
    if source is not None and source.dtype in _FLOATS and not source.constant:
        return per_element(1)
    return per_element(0 if source is not None and source.constant else 2, kind="dequantize")


def transform_rows(raw: RawOperator) -> Semantics:
    """RFFT2D: 2.5 n log₂ n operations for a real transform of n points, as http://www.fftw.org/speed/method.html."""
    lengths, data = raw.values(1), raw.input(0)
    whole, plane = elements(data), multiply(size_of(data, -2), size_of(data, -1))
    points = multiply(*map(int, lengths)) if lengths else None
    if not points or points < 0 or whole is None or not plane:
        return mean("counted")
    return counted(0, round(whole // plane * 2.5 * points * log2(points)))


def scatter(raw: RawOperator) -> Semantics:
    """SCATTER_ND: indices, updates, shape; updates to one place are added."""
    return counted(0, elements(raw.input(1)))
