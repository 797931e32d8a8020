"""Operators on CMSIS-NN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgewise.estimating.mcu.emit import (
    Emitter,
    Lowering,
    activation,
    bias_of,
    channel_factors,
    check_int8,
    check_size,
    image_of,
    padding_of,
    per_image,
    refuse,
    scale_of,
    weights_of,
)
from edgewise.estimating.mcu.fixed_point import quantize_multiplier
from edgewise.estimating.mcu.network import IntOperator


def _dims(n: int, h: int, w: int, c: int) -> str:
    return f"&(cmsis_nn_dims){{{n}, {h}, {w}, {c}}}"


def _convolution(emitter: Emitter, operator: IntOperator, *, depthwise: bool) -> str:
    source, weights, (out,) = operator.input(0), weights_of(operator), operator.outputs
    check_int8(operator, source, out)
    into, made = image_of(operator, source), image_of(operator, out)
    _, k_h, k_w, in_c = weights.shape
    options = operator.options
    strides = options["stride_h"], options["stride_w"]
    dilations = options["dilation_h_factor"], options["dilation_w_factor"]
    if not depthwise and in_c != into[3]:
        raise refuse(operator, "is a grouped convolution")
    channels = weights.shape[3 if depthwise else 0]
    if (made[0], made[3]) != (into[0], channels) or (depthwise and channels % into[3]):
        raise refuse(operator, f"has weights of the shape {weights.shape}, and makes {made} of {into}")
    before = padding_of(
        operator, [(into[1], made[1], k_h, strides[0], dilations[0]), (into[2], made[2], k_w, strides[1], dilations[1])]
    )
    kernel = (1, k_h, k_w, made[3]) if depthwise else (made[3], k_h, k_w, in_c)
    return _convolve(
        emitter, operator, padding=before, strides=strides, dilations=dilations, shapes=(into, kernel, made),
        depthwise=depthwise,
    )  # fmt: skip


def _convolve(
    emitter: Emitter, operator: IntOperator, *, padding: Sequence[int], strides: tuple[int, int],
    dilations: tuple[int, int], shapes: Sequence[tuple[int, int, int, int]], depthwise: bool = False,
) -> str:  # fmt: skip
    """Return the call of a convolution; `shapes` are those of its input, weights and output, others height and
    width.
    """
    source, weights, (out,) = operator.input(0), weights_of(operator), operator.outputs
    low, high = activation(operator, out)
    channels = shapes[2][3]
    tiles = ", ".join(f"{{{w}, {h}}}" for h, w in (strides, padding, dilations))
    multiple = f"{channels // shapes[0][3]}, " if depthwise else ""
    kind = "dw_conv" if depthwise else "conv"
    parameters = (
        f"&(cmsis_nn_{kind}_params){{{-source.zero_point}, {out.zero_point}, {multiple}{tiles}, {{{low}, {high}}}}}"
    )
    factors = f"&(cmsis_nn_per_channel_quant_params){{{channel_factors(emitter, source, weights, out, channels)}}}"
    (batch, *image), kernel, (_, *made) = shapes
    sizes = [_dims(*each) for each in ((1, *image), kernel, (1, *made))]
    name = "arm_depthwise_conv_wrapper_s8" if depthwise else "arm_convolve_wrapper_s8"
    before = (
        f"ew_check({name}(ew_scratch({name}_get_buffer_size({parameters}, {', '.join(sizes)})), {parameters}, "
        f"{factors}, {sizes[0]}, "
    )
    after = (
        f", {sizes[1]}, {emitter.at(weights)}, {_dims(1, 1, 1, channels)}, {bias_of(emitter, operator, channels)}, "
        f"{sizes[2]}, "
    )
    return per_image(emitter, batch, source, out, lambda here, there: f"{before}{here}{after}{there}));")


def _fully_connected(emitter: Emitter, operator: IntOperator) -> str:
    source, weights, (out,) = operator.input(0), weights_of(operator), operator.outputs
    check_int8(operator, source, out)
    columns, depth = weights.shape
    rows = source.elements // depth
    check_size(operator, rows * columns, out)
    if out.shape[-1:] != (columns,):
        raise refuse(operator, f"has {columns} columns, and an output of the shape {out.shape}")
    low, high = activation(operator, out)
    if len(weights.scales) > 1:  # CMSIS-NN's fully connected kernel has one scale: a 1×1 convolution computes the same
        return _convolve(
            emitter,
            operator,
            padding=[0, 0],
            strides=(1, 1),
            dilations=(1, 1),
            shapes=((1, 1, rows, depth), (columns, 1, 1, depth), (1, 1, rows, columns)),
        )
    # TFLite multiplies the scales in float here, unlike in convolutions.
    product = float(np.float32(scale_of(source)) * np.float32(scale_of(weights)))
    multiplier, shift = quantize_multiplier(product / scale_of(out))
    shapes = _dims(rows, 1, 1, depth), _dims(depth, 1, 1, columns), _dims(rows, 1, 1, columns)
    call = (
        f"ew_check(arm_fully_connected_s8(ew_scratch(arm_fully_connected_s8_get_buffer_size({shapes[1]})), "
        f"&(cmsis_nn_fc_params){{{-source.zero_point}, 0, {out.zero_point}, {{{low}, {high}}}}}, "
        f"&(cmsis_nn_per_tensor_quant_params){{{multiplier}, {shift}}}, {shapes[0]}, {emitter.at(source)}, "
        f"{shapes[1]}, {emitter.at(weights)}, {_dims(1, 1, 1, columns)}, {bias_of(emitter, operator, columns)}, "
        f"{shapes[2]}, {emitter.at(out)}));"
    )
    return call


def _pool(emitter: Emitter, operator: IntOperator, *, name: str) -> str:
    source, (out,) = operator.input(0), operator.outputs
    check_int8(operator, source, out)
    (batch, in_h, in_w, in_c), (out_batch, out_h, out_w, out_c) = image_of(operator, source), image_of(operator, out)
    if (in_c, batch) != (out_c, out_batch):
        raise refuse(operator, f"makes {out.shape} of {source.shape}")
    options = operator.options
    k_h, k_w, s_h, s_w = (options[key] for key in ("filter_height", "filter_width", "stride_h", "stride_w"))
    before_h, before_w = padding_of(operator, [(in_h, out_h, k_h, s_h, 1), (in_w, out_w, k_w, s_w, 1)])
    low, high = activation(operator, out)
    scratch = f"arm_avgpool_s8_get_buffer_size({out_w}, {in_c})" if name == "arm_avgpool_s8" else "0"
    before = (
        f"ew_check({name}(ew_scratch({scratch}), &(cmsis_nn_pool_params){{{{{s_w}, {s_h}}}, "
        f"{{{before_w}, {before_h}}}, {{{low}, {high}}}}}, {_dims(1, in_h, in_w, in_c)}, "
    )
    after = f", {_dims(1, k_h, k_w, 1)}, {_dims(1, out_h, out_w, out_c)}, "
    return per_image(emitter, batch, source, out, lambda here, there: f"{before}{here}{after}{there}));")


CMSIS_NN: Mapping[str, Lowering] = {
    "AVERAGE_POOL_2D": lambda emitter, operator: _pool(emitter, operator, name="arm_avgpool_s8"),
    "CONV_2D": lambda emitter, operator: _convolution(emitter, operator, depthwise=False),
    "DEPTHWISE_CONV_2D": lambda emitter, operator: _convolution(emitter, operator, depthwise=True),
    "FULLY_CONNECTED": _fully_connected,
    "MAX_POOL_2D": lambda emitter, operator: _pool(emitter, operator, name="arm_max_pool_s8"),
}
