"""Operators that edgewise's own C kernels execute (kernels.c).

A function of one int8 is a table of 256. What only moves elements is a view of numpy, whose strides the C gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgewise.estimating.mcu.emit import (
    Emitter,
    Lowering,
    activation,
    bias_of,
    channel_factors,
    check_int8,
    image_of,
    numbers,
    padding_of,
    refuse,
    scale_of,
    scaled,
    weights_of,
)  # fmt: skip
from edgewise.estimating.mcu.fixed_point import (
    activation_range,
    hard_swish,
    logistic,
    mean_multiplier,
    multiply,
    quantize_multiplier,
    sigmoid_table,
    softmax_scaling,
    tanh,
)  # fmt: skip
from edgewise.estimating.mcu.network import IntOperator, IntTensor

View = NDArray[np.int8]


def _view(tensor: IntTensor) -> View:
    """An array of the tensor's shape; only its address and strides matter."""
    return np.empty(tensor.shape, np.int8)


def _loops(*views: View) -> list[tuple[int, ...]]:
    """Loops over arrays of one shape, the outermost first: the count, then the step of each array in bytes."""
    loops: list[tuple[int, ...]] = []
    for count, *steps in zip(views[0].shape, *(view.strides for view in views), strict=True):
        if count == 1:
            continue
        if loops and list(loops[-1][1:]) == [count * step for step in steps]:
            loops[-1] = (loops[-1][0] * count, *steps)
        else:
            loops.append((count, *steps))
    return loops or [(1, *(1 for _ in views))]


def _plan(emitter: Emitter, loops: Sequence[tuple[int, ...]]) -> str:
    return f"{len(loops)}, {emitter.words([number for loop in loops for number in loop])}"


def _start(view: View, base: View) -> int:
    """Bytes between the first element of `base` and that of `view`, a view of it."""
    return int(view.ctypes.data) - int(base.ctypes.data)


def _move(emitter: Emitter, source: IntTensor, out: IntTensor, into: tuple[View, View], made: tuple[View, View]) -> str:
    """Copies the elements of one view to those of another; each comes after the array that it is a view of."""
    here, there = emitter.at(source, _start(*reversed(into))), emitter.at(out, _start(*reversed(made)))
    return f"ew_move({here}, {there}, {_plan(emitter, _loops(into[1], made[1]))});"


def _check_same(operator: IntOperator, *tensors: IntTensor) -> None:
    if len({each.dtype for each in tensors}) != 1:
        raise refuse(operator, "changes the type")
    check_int8(operator, *tensors)


def _rearrange(change: Callable[[IntOperator, View], View]) -> Lowering:
    """An operator with one output, each element of which is an element of its input."""

    def make(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
        source, (out,) = operator.input(0), operator.outputs
        _check_same(operator, source, out)
        base, made = _view(source), _view(out)
        view = change(operator, base)
        if view.size != out.elements:
            raise refuse(operator, f"makes {view.size} elements, and its output has {out.elements}")
        return "C", _move(emitter, source, out, (base, view), (made, made.reshape(view.shape)))

    return make


def _strided_slice(operator: IntOperator, base: View) -> View:
    options = operator.options
    if options.get("ellipsis_mask") or options.get("new_axis_mask"):
        raise refuse(operator, "has an ellipsis or a new axis")
    cuts = []
    for at, (begin, end, step) in enumerate(zip(*(numbers(operator, place) for place in (1, 2, 3)), strict=True)):
        if options.get("shrink_axis_mask", 0) >> at & 1:
            first = begin % base.shape[at]
            cuts.append(slice(first, first + 1))
        else:
            open_begin, open_end = (options.get(key, 0) >> at & 1 for key in ("begin_mask", "end_mask"))
            cuts.append(slice(None if open_begin else begin, None if open_end else end, step))
    return base[tuple(cuts)]


def _slice(operator: IntOperator, base: View) -> View:
    sizes = zip(numbers(operator, 1), numbers(operator, 2), strict=True)
    return base[tuple(slice(begin, None if size < 0 else begin + size) for begin, size in sizes)]


def _nearest(operator: IntOperator, base: View) -> View:
    height, width = numbers(operator, 1)
    batch, in_h, in_w, channels = base.shape
    if operator.options.get("align_corners") or height % in_h or width % in_w:
        raise refuse(operator, "resizes by a factor that is no integer, or aligns corners")
    wide = base[:, :, None, :, None, :]
    return np.broadcast_to(wide, (batch, in_h, height // in_h, in_w, width // in_w, channels))


def _blocks(operator: IntOperator, base: View, *, apart: bool) -> View:
    """SPACE_TO_DEPTH where `apart`, else DEPTH_TO_SPACE."""
    size = operator.options["block_size"]
    batch, height, width, channels = base.shape
    if apart:
        split = base.reshape(batch, height // size, size, width // size, size, channels)
        return split.transpose(0, 1, 3, 2, 4, 5)
    return base.reshape(batch, height, width, size, size, channels // size**2).transpose(0, 1, 3, 2, 4, 5)


def _concatenation(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    (out,), axis = operator.outputs, operator.options.get("axis", 0)
    sources = [operator.input(place) for place in range(len(operator.inputs))]
    _check_same(operator, out, *sources)
    if activation(operator, out) != (-128, 127):
        raise refuse(operator, "has an activation")
    made, at, calls = _view(out), 0, []
    for source in sources:
        base = _view(source)
        if operator.code == "PACK":
            view = np.moveaxis(made, axis, 0)[at]
            at += 1
        else:
            view = np.moveaxis(np.moveaxis(made, axis, 0)[at : at + base.shape[axis]], 0, axis)
            at += base.shape[axis]
        calls.append(_move(emitter, source, out, (base, base.reshape(view.shape)), (made, view)))
    return "C", " ".join(calls)


def _split(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    source = operator.input({"SPLIT": 1}.get(operator.code, 0))
    _check_same(operator, source, *operator.outputs)
    if operator.code == "UNPACK":
        axis = operator.options.get("axis", 0)
    else:
        (axis,) = numbers(operator, {"SPLIT": 0, "SPLIT_V": 2}[operator.code])
    base, at, calls = _view(source), 0, []
    for out in operator.outputs:
        size = 1 if operator.code == "UNPACK" else out.shape[axis]
        view = np.moveaxis(np.moveaxis(base, axis, 0)[at : at + size], 0, axis)
        made = _view(out)
        calls.append(_move(emitter, source, out, (base, view), (made, made.reshape(view.shape))))
        at += size
    return "C", " ".join(calls)


def _pad(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    _check_same(operator, source, out)
    value = numbers(operator, 2)[0] if len(operator.inputs) > 2 else out.zero_point
    before = numbers(operator, 1)[::2]
    base, made = _view(source), _view(out)
    inner = made[tuple(slice(at, at + size) for at, size in zip(before, source.shape, strict=True))]
    return "C", (
        f"ew_fill({emitter.at(out)}, {value}, {out.elements}); "
        f"{_move(emitter, source, out, (base, base), (made, inner))}"
    )


def _binary(kernel: str, factors: Callable[[IntTensor, IntTensor, IntTensor], tuple[float, float, float]]) -> Lowering:
    """An operator of two inputs, one of which may be broadcast; `factors` scale the inputs and the result."""

    def make(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
        a, b, (out,) = operator.input(0), operator.input(1), operator.outputs
        check_int8(operator, a, b, out)
        low, high = activation(operator, out)
        by = factors(a, b, out)
        made = _view(out)
        try:
            views = [np.broadcast_to(_view(each), out.shape) for each in (a, b)]
        except ValueError:
            raise refuse(operator, f"broadcasts {a.shape} and {b.shape} to {out.shape}") from None
        terms = ", ".join(
            scaled(offset, each)
            for offset, each in zip((-a.zero_point, -b.zero_point, out.zero_point), by, strict=True)
        )
        return "C", (
            f"ew_broadcast({kernel}, {emitter.at(a)}, {emitter.at(b)}, &(ew_pair){{{terms}, {low}, {high}}}, "
            f"{emitter.at(out)}, {_plan(emitter, _loops(*views, made))});"
        )

    return make


def _sum_factors(a: IntTensor, b: IntTensor, out: IntTensor) -> tuple[float, float, float]:
    widest = 2 * max(scale_of(a), scale_of(b))
    return scale_of(a) / widest, scale_of(b) / widest, widest / ((1 << 20) * scale_of(out))


def _product_factors(a: IntTensor, b: IntTensor, out: IntTensor) -> tuple[float, float, float]:
    # TFLite multiplies the scales in float.
    return 1.0, 1.0, float(np.float32(scale_of(a)) * np.float32(scale_of(b))) / scale_of(out)


def _prelu_factors(a: IntTensor, b: IntTensor, out: IntTensor) -> tuple[float, float, float]:
    return scale_of(a) / scale_of(out), scale_of(a) * scale_of(b) / scale_of(out), 1.0


def _transpose_conv(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    weights, source, (out,) = weights_of(operator), operator.input(2), operator.outputs
    check_int8(operator, source, out)
    (_, *into), (_, *made), options = image_of(operator, source), image_of(operator, out), operator.options
    channels, *kernel, depth = weights.shape
    strides = [options["stride_h"], options["stride_w"]]
    if depth != into[2] or channels != made[2]:
        raise refuse(operator, f"has weights of the shape {weights.shape}")
    # The padding is that of the convolution from the output to the input.
    before = padding_of(operator, [(made[at], into[at], kernel[at], strides[at], 1) for at in (0, 1)])
    fields = ", ".join(f"{{{', '.join(map(str, each))}}}" for each in (into, kernel, made, strides, before))
    low, high = activation(operator, out)
    return "C", (
        f"ew_transpose_conv_s8({emitter.at(source)}, {emitter.at(weights)}, &(ew_transposed){{{fields}, "
        f"{-source.zero_point}, {out.zero_point}, {low}, {high}, "
        f"{channel_factors(emitter, source, weights, out, channels)}, {bias_of(emitter, operator, channels, 3)}}}, "
        f"{emitter.at(out)});"
    )


def _softmax(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source, out)
    if scale_of(out) != 1 / 256 or out.zero_point != -128:
        raise refuse(operator, "has an output that is not in steps of 1/256")
    multiplier, shift, least = softmax_scaling(operator.options["beta"], scale_of(source))
    columns = source.shape[-1]
    call = (
        f"ew_softmax_s8({emitter.at(source)}, {source.elements // columns}, {columns}, {multiplier}, {shift}, "
        f"{least}, {emitter.at(out)});"
    )
    return "C", call


def _reshape(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    if source.bytes != out.bytes:
        raise refuse(operator, "changes the number of elements")
    here, there = emitter.at(source), emitter.at(out)
    return ("", "") if here == there else ("C", f"ew_copy({here}, {there}, {out.bytes});")


def _mean(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source, out)
    axes = {axis % len(source.shape) for axis in numbers(operator, 1)}
    kept = [axis for axis in range(len(source.shape)) if axis not in axes]
    base = _view(source)
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    outer, inner = ([(source.shape[axis], base.strides[axis]) for axis in which] for which in (kept, sorted(axes)))
    made = np.empty([size for size, _ in outer], np.int8)
    loops = [(size, step, there) for (size, step), there in zip(outer, made.strides, strict=True)] or [(1, 1, 1)]
    real = scale_of(source) / scale_of(out)
    multiplier, shift = mean_multiplier(real, count) if operator.code == "MEAN" else quantize_multiplier(real)
    return "C", (
        f"ew_sum_s8({emitter.at(source)}, {_plan(emitter, inner or [(1, 1)])}, {count * source.zero_point}, "
        f"&(ew_scaled){{{out.zero_point}, {multiplier}, {shift}}}, {emitter.at(out)}, {_plan(emitter, loops)});"
    )


def _table(function: Callable[[IntOperator, IntTensor, IntTensor], Sequence[int]]) -> Lowering:
    """A function of one int8, given as the table of its values."""

    def make(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
        source, (out,) = operator.input(0), operator.outputs
        check_int8(operator, source, out)
        return _look_up(emitter, source, out, function(operator, source, out))

    return make


def _look_up(emitter: Emitter, source: IntTensor, out: IntTensor, values: Sequence[int]) -> tuple[str, str]:
    """The call with a table of the values of the bytes -128 to 127, in order."""
    table = emitter.constant(np.asarray(values).astype(np.int8))
    return "C", (f"ew_lookup_s8({emitter.at(source)}, (const int8_t *){table}, {emitter.at(out)}, {out.elements});")


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


def _relu6(operator: IntOperator, source: IntTensor, out: IntTensor) -> list[int]:
    # tflite-micro clamps and does not rescale.
    low, high = activation_range("RELU6", scale_of(source), source.zero_point)
    return [max(low, min(high, value)) for value in range(-128, 128)]


def _quantize(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    if {source.dtype, out.dtype} == {"int8", "uint8"} and len(source.scales) and len(out.scales):
        low, high = (-128, 127) if out.dtype == "int8" else (0, 255)
        return _look_up(emitter, source, out, _rescaled(source, out, low, high))
    if source.dtype != "float32":
        return _table(lambda _, source, out: _rescaled(source, out))(emitter, operator)
    check_int8(operator, out)
    call = f"ew_quantize_f32((const float *){emitter.at(source)}, {_float(scale_of(out))}, {out.zero_point}, "
    return "C", f"{call}{emitter.at(out)}, {out.elements});"


def _dequantize(emitter: Emitter, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source)
    if out.dtype != "float32":
        raise refuse(operator, f"makes {out.dtype}, not float32")
    call = f"ew_dequantize_f32({emitter.at(source)}, {_float(scale_of(source))}, {source.zero_point}, "
    return "C", f"{call}(float *){emitter.at(out)}, {out.elements});"


def _float(value: float) -> str:
    return f"{float(np.float32(value)).hex()}f"


PORTABLE: Mapping[str, Lowering] = {
    "ADD": _binary("ew_add_s8", _sum_factors),
    "BROADCAST_TO": _rearrange(lambda operator, base: np.broadcast_to(base, operator.outputs[0].shape)),
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _rearrange(lambda operator, base: _blocks(operator, base, apart=False)),
    "DEQUANTIZE": _dequantize,
    "EXPAND_DIMS": _reshape,
    "HARD_SWISH": _table(
        lambda _, source, out: [
            hard_swish(value - source.zero_point, scale_of(source), scale_of(out), out.zero_point)
            for value in range(-128, 128)
        ]
    ),
    "LEAKY_RELU": _table(lambda operator, source, out: _rescaled(source, out, slope=operator.options["alpha"])),
    "LOGISTIC": _table(_sigmoid),
    "MAXIMUM": _binary("ew_maximum_s8", lambda a, b, out: (1.0, 1.0, 1.0)),
    "MEAN": _mean,
    "MINIMUM": _binary("ew_minimum_s8", lambda a, b, out: (1.0, 1.0, 1.0)),
    "MUL": _binary("ew_mul_s8", _product_factors),
    "PACK": _concatenation,
    "PAD": _pad,
    "PADV2": _pad,
    "PRELU": _binary("ew_prelu_s8", _prelu_factors),
    "QUANTIZE": _quantize,
    "RELU": _table(
        lambda _, source, out: _rescaled(source, out, *activation_range("RELU", scale_of(out), out.zero_point))
    ),
    "RELU6": _table(_relu6),
    "RESHAPE": _reshape,
    "RESIZE_NEAREST_NEIGHBOR": _rearrange(_nearest),
    "SLICE": _rearrange(_slice),
    "SOFTMAX": _softmax,
    "SPACE_TO_DEPTH": _rearrange(lambda operator, base: _blocks(operator, base, apart=True)),
    "SPLIT": _split,
    "SPLIT_V": _split,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _rearrange(_strided_slice),
    "SUB": _binary("ew_sub_s8", _sum_factors),
    "SUM": _mean,
    "TANH": _table(_sigmoid),
    "TRANSPOSE": _rearrange(lambda operator, base: base.transpose(numbers(operator, 1))),
    "TRANSPOSE_CONV": _transpose_conv,
    "UNPACK": _split,
}
