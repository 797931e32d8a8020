"""TFLite's layers: convolutions, matrix products, pooling, normalisations, embeddings, quantisation.

Layouts are those of the kernels' documentation in tensorflow/lite/schema/schema.fbs and tensorflow/lite/kernels:
activations [batch, height, width, channels]; filters [output, height, width, input] (convolutions), [1, height, width,
channels] (depthwise), [depth, height, width, input, output] (three dimensions) and [output, input] (fully connected).
"""

from __future__ import annotations

from math import log2

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.tflite_sizes import (
    elements_at,
    fused,
    known,
    outputs_of,
    parameters,
    positive,
    product,
    shape_at,
    size_at,
    tensor_at,
    total,
)

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})


def convolve(raw: RawOperator) -> Semantics:
    """CONV_2D. The filter's input channels are those of one group."""
    channels, inputs = size_at(raw, 1, 3), size_at(raw, 0, -1)
    return Semantics(
        kind="convolution",
        geometry=known(
            reduction=product(size_at(raw, 1, 1), size_at(raw, 1, 2), channels),
            depthwise=channels == 1 and (inputs or 0) > 1,
            bias=_has(raw, 2),
            activation=fused(raw),
        ),
        weights=(1, 2),
    )


def convolve_depthwise(raw: RawOperator) -> Semantics:
    """DEPTHWISE_CONV_2D: every output channel sees one input channel."""
    reduction = product(size_at(raw, 1, 1), size_at(raw, 1, 2))
    geometry = known(reduction=reduction, depthwise=True, bias=_has(raw, 2), activation=fused(raw))
    return Semantics(kind="convolution", geometry=geometry, weights=(1, 2))


def convolve_volume(raw: RawOperator) -> Semantics:
    """CONV_3D."""
    reduction = product(*(size_at(raw, 1, axis) for axis in range(4)))
    geometry = known(reduction=reduction, bias=_has(raw, 2), activation=fused(raw))
    return Semantics(kind="convolution", geometry=geometry, weights=(1, 2))


def convolve_transposed(raw: RawOperator) -> Semantics:
    """TRANSPOSE_CONV: output shape, filter [output, height, width, input], data, bias."""
    reduction = product(*(size_at(raw, 1, axis) for axis in range(3)))
    geometry = known(reduction=reduction, data=2, bias=_has(raw, 3), activation=fused(raw))
    return Semantics(kind="transposed-convolution", geometry=geometry, weights=(1, 3))


def convolve_transposed_volume(raw: RawOperator) -> Semantics:
    """CONV_3D_TRANSPOSE: output shape, filter [depth, height, width, output, input], data, bias."""
    reduction = product(*(size_at(raw, 1, axis) for axis in range(4)))
    geometry = known(reduction=reduction, data=2, bias=_has(raw, 3), activation=fused(raw))
    return Semantics(kind="transposed-convolution", geometry=geometry, weights=(1, 3))


def convolve_transposed_bias(raw: RawOperator) -> Semantics:
    """MediaPipe's Convolution2DTransposeBias: data, filter [output, height, width, input], bias; no activation."""
    reduction = product(*(size_at(raw, 1, axis) for axis in range(3)))
    geometry = known(reduction=reduction, data=0, bias=_has(raw, 2), activation="none")
    return Semantics(kind="transposed-convolution", geometry=geometry, weights=(1, 2))


def connect(raw: RawOperator) -> Semantics:
    """FULLY_CONNECTED."""
    geometry = known(reduction=size_at(raw, 1, -1), bias=_has(raw, 2), activation=fused(raw))
    return Semantics(kind="matrix-multiplication", geometry=geometry, weights=(1, 2))


def multiply_matrices(raw: RawOperator) -> Semantics:
    """BATCH_MATMUL."""
    inner = size_at(raw, 0, -2 if raw.attributes.get("adj_x") else -1)
    geometry = known(reduction=inner, bias=False, activation="none")
    return Semantics(kind="matrix-multiplication", geometry=geometry, weights=parameters(raw, 0, 1))


def pool(raw: RawOperator) -> Semantics:
    """AVERAGE_POOL_2D, MAX_POOL_2D."""
    window = product(positive(raw, "filter_height"), positive(raw, "filter_width"))
    average = raw.op == "AVERAGE_POOL_2D"
    return Semantics(kind="pooling", geometry=known(window=window, average=average, activation=fused(raw)))


def pool_squares(raw: RawOperator) -> Semantics:
    """L2_POOL_2D: the root of the mean of the squares, which are a product added to a sum."""
    outputs = outputs_of(raw)
    window = product(positive(raw, "filter_height"), positive(raw, "filter_width"))
    macs = product(outputs, window)
    return Semantics(kind="counted", geometry=known(macs=macs, ops=total(product(2, macs), product(2, outputs))))


def pool_by_function(raw: RawOperator) -> Semantics:
    """REDUCE_WINDOW: data, initial value, window shape, strides, dilations."""
    window = raw.values(2)
    if raw.attributes.get("reduce_function", "UNSUPPORTED") == "UNSUPPORTED":
        return Semantics(why="its function is unknown")
    sizes = [int(size) for size in window or () if size > 0]
    fits = window is not None and len(sizes) == len(window)
    return Semantics(kind="pooling", geometry=known(window=product(*sizes) if fits else None, average=False))


def normalize_length(raw: RawOperator) -> Semantics:
    """L2_NORMALIZATION: square, add, multiply by the reciprocal root, which is found once per row."""
    return Semantics(kind="normalization", geometry={"per_element": 3, "activation": fused(raw)})


def normalize_locally(raw: RawOperator) -> Semantics:
    """LOCAL_RESPONSE_NORMALIZATION: n = 2 r + 1 products and n − 1 sums, then scale, bias, power and division."""
    radius = raw.attributes.get("radius")
    per_element = 2 * (2 * radius + 1) + 3 if isinstance(radius, int) and radius >= 0 else None
    return Semantics(kind="normalization", geometry=known(per_element=per_element, activation="none"))


def look_up(raw: RawOperator) -> Semantics:
    """EMBEDDING_LOOKUP: rows of a table, de-quantised where the table is quantised and the output is not."""
    table, output = tensor_at(raw.inputs, 1), tensor_at(raw.outputs, 0)
    if table is not None and output is not None and table.dtype != output.dtype:
        return Semantics(kind="dequantize", geometry={"per_element": 2}, weights=(1,))
    return Semantics(kind="movement", weights=(1,))


def look_up_weighted(raw: RawOperator) -> Semantics:
    """EMBEDDING_LOOKUP_SPARSE: ids, indices, shape, weights, table.

    Rows × weights are summed; MEAN divides by the sum of the weights, SQRTN by the root of the sum of their squares,
    once per bag of ids.
    """
    ids, outputs = elements_at(raw.inputs, 0), outputs_of(raw)
    row = product(*(size_at(raw, 4, axis) for axis in range(1, len(shape_at(raw, 4))))) if ids else None
    macs = product(ids, row)
    bags = outputs // row if outputs is not None and row else None
    extra: dict[str, int | None] = {
        "SUM": 0,
        "MEAN": total(ids, outputs),
        "SQRTN": total(product(2, ids), bags, outputs),
    }
    ops = total(product(2, macs), extra.get(str(raw.attributes.get("combiner", "SUM"))))
    return Semantics(kind="counted", geometry=known(macs=macs, ops=ops), weights=(4,))


def quantize(raw: RawOperator) -> Semantics:
    """QUANTIZE, from a float or from another quantisation."""
    source = tensor_at(raw.inputs, 0)
    if source is None:
        return Semantics(kind="quantize")
    return Semantics(kind="quantize", geometry={"per_element": 4 if source.dtype in _FLOATS else 6})


def dequantize(raw: RawOperator) -> Semantics:
    """DEQUANTIZE. Of a constant it is done once, when the model is loaded; of float16 it is a conversion."""
    source = tensor_at(raw.inputs, 0)
    if source is not None and source.constant:
        return Semantics(kind="dequantize", geometry={"per_element": 0})
    if source is not None and source.dtype in _FLOATS:
        return Semantics(kind="elementwise", geometry={"per_element": 1})
    return Semantics(kind="dequantize", geometry={"per_element": 2})


def transform_rows(raw: RawOperator) -> Semantics:
    """RFFT2D: 2.5 n log₂ n operations for a real transform of n points, as http://www.fftw.org/speed/method.html."""
    lengths = raw.values(1)
    whole = elements_at(raw.inputs, 0)
    height, width = size_at(raw, 0, -2), size_at(raw, 0, -1)
    points = product(*(int(length) for length in lengths)) if lengths else None
    if not points or points < 0 or whole is None or not height or not width:
        return Semantics(kind="counted")
    planes = whole // (height * width)
    return Semantics(kind="counted", geometry={"macs": 0, "ops": round(planes * 2.5 * points * log2(points))})


def scatter(raw: RawOperator) -> Semantics:
    """SCATTER_ND: indices, updates, shape; updates to one place are added."""
    updates = elements_at(raw.inputs, 1)
    return Semantics(kind="counted", geometry=known(macs=0 if updates is not None else None, ops=updates))


def _has(raw: RawOperator, at: int) -> bool:
    return tensor_at(raw.inputs, at) is not None
