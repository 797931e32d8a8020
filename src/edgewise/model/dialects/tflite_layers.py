"""TFLite's layers: convolutions, matrix products, pooling, normalisations, embeddings, quantisation.

Layouts are those of the kernels' documentation in tensorflow/lite/schema/schema.fbs and tensorflow/lite/kernels:
activations [batch, height, width, channels]; filters [output, height, width, input] (convolutions), [1, height, width,
channels] (depthwise), [depth, height, width, input, output] (three dimensions) and [output, input] (fully connected).
"""

from __future__ import annotations

from math import log2

from edgewise.model.dialects.base import Meaning, Question
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


def convolve(question: Question) -> Meaning:
    """CONV_2D. The filter's input channels are those of one group."""
    channels, inputs = size_at(question, 1, 3), size_at(question, 0, -1)
    return Meaning(
        kind="convolution",
        geometry=known(
            reduction=product(size_at(question, 1, 1), size_at(question, 1, 2), channels),
            depthwise=channels == 1 and (inputs or 0) > 1,
            bias=_has(question, 2),
            activation=fused(question),
        ),
        weights=(1, 2),
    )


def convolve_depthwise(question: Question) -> Meaning:
    """DEPTHWISE_CONV_2D: every output channel sees one input channel."""
    reduction = product(size_at(question, 1, 1), size_at(question, 1, 2))
    geometry = known(reduction=reduction, depthwise=True, bias=_has(question, 2), activation=fused(question))
    return Meaning(kind="convolution", geometry=geometry, weights=(1, 2))


def convolve_volume(question: Question) -> Meaning:
    """CONV_3D."""
    reduction = product(*(size_at(question, 1, axis) for axis in range(4)))
    geometry = known(reduction=reduction, bias=_has(question, 2), activation=fused(question))
    return Meaning(kind="convolution", geometry=geometry, weights=(1, 2))


def convolve_transposed(question: Question) -> Meaning:
    """TRANSPOSE_CONV: output shape, filter [output, height, width, input], data, bias."""
    reduction = product(*(size_at(question, 1, axis) for axis in range(3)))
    geometry = known(reduction=reduction, data=2, bias=_has(question, 3), activation=fused(question))
    return Meaning(kind="transposed-convolution", geometry=geometry, weights=(1, 3))


def convolve_transposed_volume(question: Question) -> Meaning:
    """CONV_3D_TRANSPOSE: output shape, filter [depth, height, width, output, input], data, bias."""
    reduction = product(*(size_at(question, 1, axis) for axis in range(4)))
    geometry = known(reduction=reduction, data=2, bias=_has(question, 3), activation=fused(question))
    return Meaning(kind="transposed-convolution", geometry=geometry, weights=(1, 3))


def convolve_transposed_bias(question: Question) -> Meaning:
    """MediaPipe's Convolution2DTransposeBias: data, filter [output, height, width, input], bias; no activation."""
    reduction = product(*(size_at(question, 1, axis) for axis in range(3)))
    geometry = known(reduction=reduction, data=0, bias=_has(question, 2), activation="none")
    return Meaning(kind="transposed-convolution", geometry=geometry, weights=(1, 2))


def connect(question: Question) -> Meaning:
    """FULLY_CONNECTED."""
    geometry = known(reduction=size_at(question, 1, -1), bias=_has(question, 2), activation=fused(question))
    return Meaning(kind="matrix-multiplication", geometry=geometry, weights=(1, 2))


def multiply_matrices(question: Question) -> Meaning:
    """BATCH_MATMUL."""
    inner = size_at(question, 0, -2 if question.attributes.get("adj_x") else -1)
    geometry = known(reduction=inner, bias=False, activation="none")
    return Meaning(kind="matrix-multiplication", geometry=geometry, weights=parameters(question, 0, 1))


def pool(question: Question) -> Meaning:
    """AVERAGE_POOL_2D, MAX_POOL_2D."""
    window = product(positive(question, "filter_height"), positive(question, "filter_width"))
    average = question.op == "AVERAGE_POOL_2D"
    return Meaning(kind="pooling", geometry=known(window=window, average=average, activation=fused(question)))


def pool_squares(question: Question) -> Meaning:
    """L2_POOL_2D: the root of the mean of the squares, which are a product added to a sum."""
    outputs = outputs_of(question)
    window = product(positive(question, "filter_height"), positive(question, "filter_width"))
    macs = product(outputs, window)
    return Meaning(kind="counted", geometry=known(macs=macs, ops=total(product(2, macs), product(2, outputs))))


def pool_by_function(question: Question) -> Meaning:
    """REDUCE_WINDOW: data, initial value, window shape, strides, dilations."""
    window = question.values(2)
    if question.attributes.get("reduce_function", "UNSUPPORTED") == "UNSUPPORTED":
        return Meaning(why="its function is not known")
    sizes = [int(size) for size in window or () if size > 0]
    fits = window is not None and len(sizes) == len(window)
    return Meaning(kind="pooling", geometry=known(window=product(*sizes) if fits else None, average=False))


def normalize_length(question: Question) -> Meaning:
    """L2_NORMALIZATION: square, add, multiply by the reciprocal root, which is found once per row."""
    return Meaning(kind="normalization", geometry={"per_element": 3, "activation": fused(question)})


def normalize_locally(question: Question) -> Meaning:
    """LOCAL_RESPONSE_NORMALIZATION: n = 2 r + 1 products and n − 1 sums, then scale, bias, power and division."""
    radius = question.attributes.get("radius")
    per_element = 2 * (2 * radius + 1) + 3 if isinstance(radius, int) and radius >= 0 else None
    return Meaning(kind="normalization", geometry=known(per_element=per_element, activation="none"))


def look_up(question: Question) -> Meaning:
    """EMBEDDING_LOOKUP: rows of a table, de-quantised where the table is quantised and the output is not."""
    table, output = tensor_at(question.inputs, 1), tensor_at(question.outputs, 0)
    if table is not None and output is not None and table.dtype != output.dtype:
        return Meaning(kind="dequantize", geometry={"per_element": 2}, weights=(1,))
    return Meaning(kind="movement", weights=(1,))


def look_up_weighted(question: Question) -> Meaning:
    """EMBEDDING_LOOKUP_SPARSE: ids, indices, shape, weights, table.

    Rows × weights are summed; MEAN divides by the sum of the weights, SQRTN by the root of the sum of their squares,
    once per bag of ids.
    """
    ids, outputs = elements_at(question.inputs, 0), outputs_of(question)
    row = product(*(size_at(question, 4, axis) for axis in range(1, len(shape_at(question, 4))))) if ids else None
    macs = product(ids, row)
    bags = outputs // row if outputs is not None and row else None
    extra: dict[str, int | None] = {
        "SUM": 0,
        "MEAN": total(ids, outputs),
        "SQRTN": total(product(2, ids), bags, outputs),
    }
    ops = total(product(2, macs), extra.get(str(question.attributes.get("combiner", "SUM"))))
    return Meaning(kind="counted", geometry=known(macs=macs, ops=ops), weights=(4,))


def quantize(question: Question) -> Meaning:
    """QUANTIZE, from a float or from another quantisation."""
    source = tensor_at(question.inputs, 0)
    if source is None:
        return Meaning(kind="quantize")
    return Meaning(kind="quantize", geometry={"per_element": 4 if source.dtype in _FLOATS else 6})


def dequantize(question: Question) -> Meaning:
    """DEQUANTIZE. Of a constant it is done once, when the model is loaded; of float16 it is a conversion."""
    source = tensor_at(question.inputs, 0)
    if source is not None and source.constant:
        return Meaning(kind="dequantize", geometry={"per_element": 0})
    if source is not None and source.dtype in _FLOATS:
        return Meaning(kind="elementwise", geometry={"per_element": 1})
    return Meaning(kind="dequantize", geometry={"per_element": 2})


def transform_rows(question: Question) -> Meaning:
    """RFFT2D: 2.5 n log₂ n operations for a real transform of n points, as http://www.fftw.org/speed/method.html."""
    lengths = question.values(1)
    whole = elements_at(question.inputs, 0)
    height, width = size_at(question, 0, -2), size_at(question, 0, -1)
    points = product(*(int(length) for length in lengths)) if lengths else None
    if not points or points < 0 or whole is None or not height or not width:
        return Meaning(kind="counted")
    planes = whole // (height * width)
    return Meaning(kind="counted", geometry={"macs": 0, "ops": round(planes * 2.5 * points * log2(points))})


def scatter(question: Question) -> Meaning:
    """SCATTER_ND: indices, updates, shape; updates to one place are added."""
    updates = elements_at(question.inputs, 1)
    return Meaning(kind="counted", geometry=known(macs=0 if updates is not None else None, ops=updates))


def _has(question: Question, at: int) -> bool:
    return tensor_at(question.inputs, at) is not None
