"""Operators that edgewise's own C kernels compute (kernels.c). A function of one int8 is a table of 256."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgewise.estimating.mcu.emit import (
    Emitter,
    Lowering,
    activation,
    axis_of,
    bias_of,
    channel_factors,
    check_int8,
    check_size,
    image_of,
    numbers,
    padding_of,
    per_image,
    refuse,
    scale_of,
    scaled,
    weights_of,
)  # fmt: skip
from edgewise.estimating.mcu.fixed_point import (
    activation_range,
    hard_swish,
    interpolation,
    logistic,
    mean_multiplier,
    multiply,
    quantize_multiplier,
    sigmoid_table,
    softmax_scaling,
    tanh,
)  # fmt: skip
from edgewise.estimating.mcu.moving import loops_of, plan_of, view_of
from edgewise.estimating.mcu.network import IntOperator, IntTensor


def _binary(kernel: str, factors: Callable[[IntTensor, IntTensor, IntTensor], tuple[float, float, float]]) -> Lowering:
    """Return an operator of two inputs, one of which may be broadcast; `factors` scale the inputs and the result."""

    def make(emitter: Emitter, operator: IntOperator) -> str:
        a, b, (out,) = operator.input(0), operator.input(1), operator.outputs
        check_int8(operator, a, b, out)
        low, high = activation(operator, out)
        by = factors(a, b, out)
        made = view_of(out)
        try:
            views = [np.broadcast_to(view_of(each), out.shape) for each in (a, b)]
        except ValueError:
            raise refuse(operator, f"broadcasts {a.shape} and {b.shape} to {out.shape}") from None
        terms = ", ".join(
            scaled(offset, each)
            for offset, each in zip((-a.zero_point, -b.zero_point, out.zero_point), by, strict=True)
        )
        return (
            f"ew_broadcast({kernel}, {emitter.at(a)}, {emitter.at(b)}, &(ew_pair){{{terms}, {low}, {high}}}, "
            f"{emitter.at(out)}, {plan_of(emitter, loops_of(*views, made))});"
        )

    return make


def _sum_factors(a: IntTensor, b: IntTensor, out: IntTensor) -> tuple[float, float, float]:
    widest = 2 * max(scale_of(a), scale_of(b))
    return scale_of(a) / widest, scale_of(b) / widest, widest / ((1 << 20) * scale_of(out))


def _product_factors(a: IntTensor, b: IntTensor, out: IntTensor) -> tuple[float, float, float]:
    return 1.0, 1.0, _product(a, b, out)


def _prelu_factors(a: IntTensor, b: IntTensor, out: IntTensor) -> tuple[float, float, float]:
    return scale_of(a) / scale_of(out), scale_of(a) * scale_of(b) / scale_of(out), 1.0


def _squared_factors(a: IntTensor, b: IntTensor, out: IntTensor) -> tuple[float, float, float]:
    widest = 2 * max(scale_of(a), scale_of(b))
    return scale_of(a) / widest, scale_of(b) / widest, widest**2 / ((1 << 14) * scale_of(out))


def _product(a: IntTensor, b: IntTensor, out: IntTensor) -> float:
    """Return the factor of a sum of products; TFLite multiplies the scales in float."""
    return float(np.float32(scale_of(a)) * np.float32(scale_of(b))) / scale_of(out)


def _matmul(emitter: Emitter, operator: IntOperator) -> str:
    a, b, (out,), options = operator.input(0), operator.input(1), operator.outputs, operator.options
    check_int8(operator, a, b, out)
    left, right, made = view_of(a), view_of(b), view_of(out)
    left, right = (
        np.swapaxes(view, -1, -2) if options.get(key) else view for view, key in ((left, "adj_x"), (right, "adj_y"))
    )
    if left.shape[-1] != right.shape[-2] or made.shape[-2:] != (left.shape[-2], right.shape[-1]):
        raise refuse(operator, f"multiplies {a.shape} and {b.shape} to {out.shape}")
    sizes = (left.shape[-2], left.shape[-1], right.shape[-1])
    steps = (*left.strides[-2:], *right.strides[-2:])
    batches = made[..., 0, 0]
    views = [np.broadcast_to(view[..., 0, 0], batches.shape) for view in (left, right)]
    low_high = f"{-a.zero_point}, {-b.zero_point}, {scaled(out.zero_point, _product(a, b, out))}"
    return (
        f"ew_matmul_s8({emitter.at(a)}, {emitter.at(b)}, &(ew_product){{{{{', '.join(map(str, sizes))}}}, "
        f"{{{', '.join(map(str, steps))}}}, {low_high}}}, {emitter.at(out)}, "
        f"{plan_of(emitter, loops_of(*views, batches))});"
    )


def _transpose_conv(emitter: Emitter, operator: IntOperator) -> str:
    weights, source, (out,) = weights_of(operator), operator.input(2), operator.outputs
    check_int8(operator, source, out)
    (batch, *into), (_, *made), options = image_of(operator, source), image_of(operator, out), operator.options
    channels, *kernel, depth = weights.shape
    strides = [options["stride_h"], options["stride_w"]]
    if depth != into[2] or channels != made[2] or out.shape[0] != batch:
        raise refuse(operator, f"has weights of the shape {weights.shape}")
    # The padding is that of the convolution from the output to the input.
    before = padding_of(operator, [(made[at], into[at], kernel[at], strides[at], 1) for at in (0, 1)])
    fields = ", ".join(f"{{{', '.join(map(str, each))}}}" for each in (into, kernel, made, strides, before))
    low, high = activation(operator, out)
    parameters = (
        f"{emitter.at(weights)}, &(ew_transposed){{{fields}, {-source.zero_point}, {out.zero_point}, {low}, {high}, "
        f"{channel_factors(emitter, source, weights, out, channels)}, {bias_of(emitter, operator, channels, 3)}}}"
    )
    return per_image(
        emitter, batch, source, out, lambda here, there: f"ew_transpose_conv_s8({here}, {parameters}, {there});"
    )


def _softmax(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source, out)
    check_size(operator, source.elements, out)
    if scale_of(out) != 1 / 256 or out.zero_point != -128:
        raise refuse(operator, "has an output that is not in steps of 1/256")
    multiplier, shift, least = softmax_scaling(operator.options["beta"], scale_of(source))
    columns = source.shape[-1]
    call = (
        f"ew_softmax_s8({emitter.at(source)}, {source.elements // columns}, {columns}, {multiplier}, {shift}, "
        f"{least}, {emitter.at(out)});"
    )
    return call


def _reduction(emitter: Emitter, operator: IntOperator) -> tuple[str, str, int]:
    """Return the loops over the axes that are reduced and over the others, and the number of elements that become
    one.
    """
    source = operator.input(0)
    check_int8(operator, source, *operator.outputs)
    axes = {axis_of(operator, axis, source) for axis in numbers(operator, 1)}
    kept = [axis for axis in range(len(source.shape)) if axis not in axes]
    base = view_of(source)
    outer, inner = ([(source.shape[axis], base.strides[axis]) for axis in which] for which in (kept, sorted(axes)))
    made = np.empty([size for size, _ in outer], np.int8)
    loops = [(size, step, there) for (size, step), there in zip(outer, made.strides, strict=True)] or [(1, 1, 1)]
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    check_size(operator, source.elements // count, operator.outputs[0])
    return plan_of(emitter, inner or [(1, 1)]), plan_of(emitter, loops), count


def _mean(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    inner, outer, count = _reduction(emitter, operator)
    real = scale_of(source) / scale_of(out)
    multiplier, shift = mean_multiplier(real, count) if operator.code == "MEAN" else quantize_multiplier(real)
    return (
        f"ew_sum_s8({emitter.at(source)}, {inner}, {count * source.zero_point}, "
        f"&(ew_scaled){{{out.zero_point}, {multiplier}, {shift}}}, {emitter.at(out)}, {outer});"
    )


def _extreme(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    inner, outer, _ = _reduction(emitter, operator)
    if (scale_of(source), source.zero_point) != (scale_of(out), out.zero_point):
        raise refuse(operator, "changes the scale")
    sign = 1 if operator.code == "REDUCE_MAX" else -1
    return f"ew_extreme_s8({emitter.at(source)}, {inner}, {sign}, {emitter.at(out)}, {outer});"


def _arg(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,), (axis,) = operator.input(0), operator.outputs, numbers(operator, 1)
    check_int8(operator, source)
    if out.dtype != "int32":
        raise refuse(operator, f"makes {out.dtype}, not int32")
    axis = axis_of(operator, axis, source)
    outer, inner = (int(np.prod(shape, dtype=np.int64)) for shape in (source.shape[:axis], source.shape[axis + 1 :]))
    check_size(operator, outer * inner, out)
    sign = 1 if operator.code == "ARG_MAX" else -1
    return (
        f"ew_arg_s8({emitter.at(source)}, {outer}, {source.shape[axis]}, {inner}, {sign}, "
        f"(int32_t *){emitter.at(out)});"
    )


def _l2_normalization(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source, out)
    check_size(operator, source.elements, out)
    if activation(operator, out) != (-128, 127):
        raise refuse(operator, "has an activation")
    depth = source.shape[-1]
    return (
        f"ew_l2_normalization_s8({emitter.at(source)}, {source.elements // depth}, {depth}, {source.zero_point}, "
        f"{emitter.at(out)});"
    )


def _rsqrt(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source, out)
    check_size(operator, source.elements, out)
    by = scaled(out.zero_point, 1.0 / (math.sqrt(scale_of(source)) * scale_of(out)))
    return (
        f"ew_rsqrt_s8({emitter.at(source)}, {source.zero_point}, &(ew_scaled){by}, {emitter.at(out)}, {out.elements});"
    )


def _resize_bilinear(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,), options = operator.input(0), operator.outputs, operator.options
    check_int8(operator, source, out)
    (batch, *sizes, channels), made = image_of(operator, source), image_of(operator, out)[1:3]
    check_size(operator, batch * made[0] * made[1] * channels, out)
    tables = [
        interpolation(
            size, to, corners=bool(options.get("align_corners")), half=bool(options.get("half_pixel_centers"))
        )
        for size, to in zip(sizes, made, strict=True)
    ]
    words = ", ".join(emitter.words([number for row in table for number in row]) for table in tables)
    return (
        f"ew_resize_bilinear_s8({emitter.at(source)}, {batch}, {sizes[0]}, {sizes[1]}, {channels}, {made[0]}, "
        f"{made[1]}, {words}, {emitter.at(out)});"
    )


def _table(function: Callable[[IntOperator, IntTensor, IntTensor], Sequence[int]]) -> Lowering:
    """Return a function of one int8, given as the table of its values."""

    def make(emitter: Emitter, operator: IntOperator) -> str:
        source, (out,) = operator.input(0), operator.outputs
        check_int8(operator, source, out)
        check_size(operator, source.elements, out)
        return _look_up(emitter, source, out, function(operator, source, out))

    return make


def _look_up(emitter: Emitter, source: IntTensor, out: IntTensor, values: Sequence[int]) -> str:
    """Return the call with a table of the values of the bytes -128 to 127, in order."""
    table = emitter.constant(np.asarray(values).astype(np.int8))
    return f"ew_lookup_s8({emitter.at(source)}, (const int8_t *){table}, {emitter.at(out)}, {out.elements});"


def _rescaled(source: IntTensor, out: IntTensor, low: int = -128, high: int = 127, *, slope: float = 1.0) -> list[int]:
    """Every byte of `source` at the scale of `out`; `slope` is that of negative values, in float as TFLite has it."""
    above = quantize_multiplier(scale_of(source) / scale_of(out))
    below = above
    if slope != 1.0:
        above = quantize_multiplier(float(np.float32(scale_of(source)) / np.float32(scale_of(out))))
        product = np.float32(scale_of(source)) * np.float32(slope)
        below = quantize_multiplier(float(product / np.float32(scale_of(out))))
    signed = source.dtype != "uint8"
    values = ((value if signed else value % 256) - source.zero_point for value in range(-128, 128))
    found = (multiply(value, *(above if value >= 0 else below)) + out.zero_point for value in values)
    return [max(low, min(high, value)) for value in found]


def _sigmoid(operator: IntOperator, source: IntTensor, out: IntTensor) -> list[int]:
    function, bits, zero = (logistic, 8, -128) if operator.code == "LOGISTIC" else (tanh, 7, 0)
    if scale_of(out) != 2.0**-bits or out.zero_point != zero:
        raise refuse(operator, f"has an output that is not in steps of 1/{2**bits} from {zero}")
    return sigmoid_table(function, scale_of(source), source.zero_point, bits=bits, out_zero=zero)


def _abs(operator: IntOperator, source: IntTensor, out: IntTensor) -> list[int]:
    multiplier = quantize_multiplier(scale_of(source) / scale_of(out))
    distances = (abs(value - source.zero_point) for value in range(-128, 128))
    if scale_of(source) != scale_of(out):
        distances = (multiply(value, *multiplier) for value in distances)
    return [max(-128, min(127, value + out.zero_point)) for value in distances]


def _elu(operator: IntOperator, source: IntTensor, out: IntTensor) -> list[int]:
    # TFLite computes the table in float.
    x = np.float32(scale_of(source)) * (np.arange(-128, 128) - source.zero_point).astype(np.float32)
    y = np.where(x < 0, np.exp(x) - np.float32(1), x) * (np.float32(1) / np.float32(scale_of(out)))
    whole = np.trunc(y + np.copysign(np.float32(0.5), y))
    return [int(value) for value in np.clip(whole + out.zero_point, -128, 127)]


def _relu6(operator: IntOperator, source: IntTensor, out: IntTensor) -> list[int]:
    # tflite-micro clamps and does not rescale.
    low, high = activation_range("RELU6", scale_of(source), source.zero_point)
    return [max(low, min(high, value)) for value in range(-128, 128)]


def _quantize(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    check_size(operator, source.elements, out)
    if {source.dtype, out.dtype} == {"int8", "uint8"} and len(source.scales) and len(out.scales):
        low, high = (-128, 127) if out.dtype == "int8" else (0, 255)
        return _look_up(emitter, source, out, _rescaled(source, out, low, high))
    if source.dtype != "float32":
        return _table(lambda _, source, out: _rescaled(source, out))(emitter, operator)
    check_int8(operator, out)
    call = f"ew_quantize_f32((const float *){emitter.at(source)}, {_float(scale_of(out))}, {out.zero_point}, "
    return f"{call}{emitter.at(out)}, {out.elements});"


def _dequantize(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source)
    check_size(operator, source.elements, out)
    if out.dtype != "float32":
        raise refuse(operator, f"makes {out.dtype}, not float32")
    call = f"ew_dequantize_f32({emitter.at(source)}, {_float(scale_of(source))}, {source.zero_point}, "
    return f"{call}(float *){emitter.at(out)}, {out.elements});"


def _float(value: float) -> str:
    return f"{float(np.float32(value)).hex()}f"


PORTABLE: Mapping[str, Lowering] = {
    "ABS": _table(_abs),
    "ADD": _binary("ew_add_s8", _sum_factors),
    "ARG_MAX": _arg,
    "ARG_MIN": _arg,
    "BATCH_MATMUL": _matmul,
    "DEQUANTIZE": _dequantize,
    "ELU": _table(_elu),
    "HARD_SWISH": _table(
        lambda _, source, out: [
            hard_swish(value - source.zero_point, scale_of(source), scale_of(out), out.zero_point)
            for value in range(-128, 128)
        ]
    ),
    "L2_NORMALIZATION": _l2_normalization,
    "LEAKY_RELU": _table(lambda operator, source, out: _rescaled(source, out, slope=operator.options["alpha"])),
    "LOGISTIC": _table(_sigmoid),
    "MAXIMUM": _binary("ew_maximum_s8", lambda a, b, out: (1.0, 1.0, 1.0)),
    "MEAN": _mean,
    "MINIMUM": _binary("ew_minimum_s8", lambda a, b, out: (1.0, 1.0, 1.0)),
    "MUL": _binary("ew_mul_s8", _product_factors),
    "PRELU": _binary("ew_prelu_s8", _prelu_factors),
    "QUANTIZE": _quantize,
    "REDUCE_MAX": _extreme,
    "REDUCE_MIN": _extreme,
    "RELU": _table(
        lambda _, source, out: _rescaled(source, out, *activation_range("RELU", scale_of(out), out.zero_point))
    ),
    "RELU6": _table(_relu6),
    "RESIZE_BILINEAR": _resize_bilinear,
    "RSQRT": _rsqrt,
    "SOFTMAX": _softmax,
    "SQUARED_DIFFERENCE": _binary("ew_squared_difference_s8", _squared_factors),
    "SUB": _binary("ew_sub_s8", _sum_factors),
    "SUM": _mean,
    "TANH": _table(_sigmoid),
    "TRANSPOSE_CONV": _transpose_conv,
}
