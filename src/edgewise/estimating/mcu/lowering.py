"""An int8 network as C: a call of CMSIS-NN or of our own kernels per operator, constants in a binary file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadModel
from edgewise.estimating.mcu.fixed_point import activation_range, quantize_multiplier, softmax_scaling
from edgewise.estimating.mcu.network import IntNetwork, IntOperator, IntTensor

ALIGNMENT = 16


class CanNotLower(BadModel):
    """An operator that there is no C for."""


@dataclass(slots=True)
class Lowered:
    """C code of a network.

    Attributes:
        calls: one statement per operator, in order; "" where there is nothing to execute.
        kernels: what executes each: ``CMSIS-NN``, ``C``, or "".
        constants: the bytes that ``ew_constants`` holds.
    """

    calls: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)


def lower(network: IntNetwork, offsets: Mapping[int, int]) -> Lowered:
    """The C code of `network`.

    Args:
        offsets: index of an activation → its place in the arena, bytes.

    Raises:
        CanNotLower: with the operator and the reason.
    """
    lowering = _Lowering(offsets)
    for operator in network.operators:
        make = _LOWERINGS.get(operator.code)
        if make is None:
            raise CanNotLower(f"operator {operator.index} is {operator.code}, which is not supported yet")
        kernel, call = make(lowering, operator)
        lowering.result.calls.append(call)
        lowering.result.kernels.append(kernel)
    return lowering.result


class _Lowering:
    def __init__(self, offsets: Mapping[int, int]) -> None:
        self.result = Lowered()
        self._offsets = offsets
        self._placed: dict[int, str] = {}

    def constant(self, array: NDArray[np.generic]) -> str:
        """The address of `array` among the constants."""
        data = self.result.constants
        data += bytes(-len(data) % ALIGNMENT)
        at = len(data)
        data += np.ascontiguousarray(array).tobytes()
        return f"(ew_constants + {at})"

    def words(self, values: Sequence[int]) -> str:
        """The address of 32-bit numbers."""
        return f"((int32_t *){self.constant(np.asarray(values, '<i4'))})"

    def at(self, tensor: IntTensor) -> str:
        """The address of an int8 tensor."""
        if tensor.data is not None:
            if tensor.index not in self._placed:
                self._placed[tensor.index] = self.constant(tensor.data)
            return f"((const int8_t *){self._placed[tensor.index]})"
        return f"(ew_arena + {self._offsets[tensor.index]})"


def _int8(operator: IntOperator, *tensors: IntTensor) -> None:
    for tensor in tensors:
        if tensor.dtype != "int8" or not len(tensor.scales):
            raise CanNotLower(f"operator {operator.index} ({operator.code}) works on {tensor.dtype}, not on int8")


def _scale(tensor: IntTensor) -> float:
    return float(tensor.scales[0])


def _dims(n: int, h: int, w: int, c: int) -> str:
    return f"&(cmsis_nn_dims){{{n}, {h}, {w}, {c}}}"


def _padding(operator: IntOperator, sizes: Sequence[tuple[int, int, int, int, int]]) -> list[int]:
    """Padding before the first element, per dimension of ``(input, output, kernel, stride, dilation)``."""
    if operator.options.get("padding") == "VALID":
        return [0 for _ in sizes]
    return [max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size) // 2
            for size, out, kernel, stride, dilation in sizes]  # fmt: skip


def _activation(operator: IntOperator, out: IntTensor) -> tuple[int, int]:
    function = str(operator.options.get("fused_activation_function", "NONE"))
    if function not in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
        raise CanNotLower(f"operator {operator.index} ({operator.code}) has the activation {function}")
    return activation_range(function, _scale(out), out.zero_point)


def _nhwc(operator: IntOperator, tensor: IntTensor) -> tuple[int, int, int, int]:
    if len(tensor.shape) != 4 or tensor.shape[0] != 1:
        raise CanNotLower(f"operator {operator.index} ({operator.code}) has the shape {tensor.shape}, not 1×H×W×C")
    return tensor.shape


def _multipliers(lowering: _Lowering, source: IntTensor, weights: IntTensor, out: IntTensor, channels: int) -> str:
    """Per-channel multipliers and shifts of a convolution."""
    scales = np.broadcast_to(weights.scales, (channels,)).astype(float)
    pairs = [quantize_multiplier(_scale(source) * float(each) / _scale(out)) for each in scales]
    multipliers, shifts = (lowering.words([pair[place] for pair in pairs]) for place in (0, 1))
    return f"&(cmsis_nn_per_channel_quant_params){{{multipliers}, {shifts}}}"


def _bias(lowering: _Lowering, operator: IntOperator, channels: int) -> str:
    found = operator.inputs[2] if len(operator.inputs) > 2 else None
    if found is None:
        return lowering.words([0] * channels)
    if found.data is None or found.dtype != "int32":
        raise CanNotLower(f"operator {operator.index} ({operator.code}) has a bias that is no int32 constant")
    return lowering.words(found.data.ravel().tolist())


def _weights(operator: IntOperator) -> IntTensor:
    weights = operator.input(1)
    _int8(operator, weights)
    if weights.data is None or weights.zero_point:
        raise CanNotLower(f"operator {operator.index} ({operator.code}) has weights that are computed or asymmetric")
    return weights


def _convolution(lowering: _Lowering, operator: IntOperator, *, depthwise: bool) -> tuple[str, str]:
    source, weights, (out,) = operator.input(0), _weights(operator), operator.outputs
    _int8(operator, source, out)
    (_, in_h, in_w, in_c), (_, out_h, out_w, out_c) = _nhwc(operator, source), _nhwc(operator, out)
    _, k_h, k_w, _ = weights.shape
    options = operator.options
    strides = options["stride_h"], options["stride_w"]
    dilations = options["dilation_h_factor"], options["dilation_w_factor"]
    if not depthwise and weights.shape[3] != in_c:
        raise CanNotLower(f"operator {operator.index} is a grouped convolution")
    before = _padding(
        operator, [(in_h, out_h, k_h, strides[0], dilations[0]), (in_w, out_w, k_w, strides[1], dilations[1])]
    )
    low, high = _activation(operator, out)
    tiles = ", ".join(f"{{{w}, {h}}}" for h, w in (strides, before, dilations))
    multiple = f"{out_c // in_c}, " if depthwise else ""
    kind = "dw_conv" if depthwise else "conv"
    parameters = (
        f"&(cmsis_nn_{kind}_params){{{-source.zero_point}, {out.zero_point}, {multiple}{tiles}, {{{low}, {high}}}}}"
    )
    shapes = (
        _dims(1, in_h, in_w, in_c),
        _dims(1, k_h, k_w, out_c) if depthwise else _dims(out_c, k_h, k_w, in_c),
        _dims(1, out_h, out_w, out_c),
    )
    name = "arm_depthwise_conv_wrapper_s8" if depthwise else "arm_convolve_wrapper_s8"
    call = (
        f"ew_check({name}(ew_scratch({name}_get_buffer_size({parameters}, {', '.join(shapes)})), {parameters}, "
        f"{_multipliers(lowering, source, weights, out, out_c)}, {shapes[0]}, {lowering.at(source)}, {shapes[1]}, "
        f"{lowering.at(weights)}, {_dims(1, 1, 1, out_c)}, {_bias(lowering, operator, out_c)}, {shapes[2]}, "
        f"{lowering.at(out)}));"
    )
    return "CMSIS-NN", call


def _fully_connected(lowering: _Lowering, operator: IntOperator) -> tuple[str, str]:
    source, weights, (out,) = operator.input(0), _weights(operator), operator.outputs
    _int8(operator, source, out)
    if len(weights.scales) != 1:
        raise CanNotLower(f"operator {operator.index} (FULLY_CONNECTED) has scales per channel")
    columns, depth = weights.shape
    rows = source.elements // depth
    # TFLite multiplies the scales in float here, unlike in convolutions.
    product = float(np.float32(_scale(source)) * np.float32(_scale(weights)))
    multiplier, shift = quantize_multiplier(product / _scale(out))
    low, high = _activation(operator, out)
    shapes = _dims(rows, 1, 1, depth), _dims(depth, 1, 1, columns), _dims(rows, 1, 1, columns)
    call = (
        f"ew_check(arm_fully_connected_s8(ew_scratch(arm_fully_connected_s8_get_buffer_size({shapes[1]})), "
        f"&(cmsis_nn_fc_params){{{-source.zero_point}, 0, {out.zero_point}, {{{low}, {high}}}}}, "
        f"&(cmsis_nn_per_tensor_quant_params){{{multiplier}, {shift}}}, {shapes[0]}, {lowering.at(source)}, "
        f"{shapes[1]}, {lowering.at(weights)}, {_dims(1, 1, 1, columns)}, {_bias(lowering, operator, columns)}, "
        f"{shapes[2]}, {lowering.at(out)}));"
    )
    return "CMSIS-NN", call


def _pool(lowering: _Lowering, operator: IntOperator, *, name: str) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    _int8(operator, source, out)
    (_, in_h, in_w, in_c), (_, out_h, out_w, out_c) = _nhwc(operator, source), _nhwc(operator, out)
    options = operator.options
    k_h, k_w, s_h, s_w = (options[key] for key in ("filter_height", "filter_width", "stride_h", "stride_w"))
    before_h, before_w = _padding(operator, [(in_h, out_h, k_h, s_h, 1), (in_w, out_w, k_w, s_w, 1)])
    low, high = _activation(operator, out)
    scratch = f"arm_avgpool_s8_get_buffer_size({out_w}, {in_c})" if name == "arm_avgpool_s8" else "0"
    call = (
        f"ew_check({name}(ew_scratch({scratch}), &(cmsis_nn_pool_params){{{{{s_w}, {s_h}}}, "
        f"{{{before_w}, {before_h}}}, {{{low}, {high}}}}}, {_dims(1, in_h, in_w, in_c)}, {lowering.at(source)}, "
        f"{_dims(1, k_h, k_w, 1)}, "
        f"{_dims(1, out_h, out_w, out_c)}, {lowering.at(out)}));"
    )
    return "CMSIS-NN", call


def _scaled(offset: int, real: float) -> str:
    multiplier, shift = quantize_multiplier(real)
    return f"&(ew_scaled){{{offset}, {multiplier}, {shift}}}"


def _steps(operator: IntOperator, *tensors: IntTensor) -> list[int]:
    """1 for an input with an element per output, 0 for a single one that all outputs share."""
    count = operator.outputs[0].elements
    if any(each.elements not in (1, count) for each in tensors):
        shapes = " and ".join(str(each.shape) for each in tensors)
        raise CanNotLower(f"operator {operator.index} ({operator.code}) broadcasts {shapes}")
    return [int(each.elements == count) for each in tensors]


def _add(lowering: _Lowering, operator: IntOperator) -> tuple[str, str]:
    a, b, (out,) = operator.input(0), operator.input(1), operator.outputs
    _int8(operator, a, b, out)
    steps, (low, high) = _steps(operator, a, b), _activation(operator, out)
    widest = 2 * max(_scale(a), _scale(b))
    call = (
        f"ew_add_s8({lowering.at(a)}, {_scaled(-a.zero_point, _scale(a) / widest)}, {steps[0]}, {lowering.at(b)}, "
        f"{_scaled(-b.zero_point, _scale(b) / widest)}, {steps[1]}, "
        f"{_scaled(out.zero_point, widest / ((1 << 20) * _scale(out)))}, {low}, {high}, {lowering.at(out)}, "
        f"{out.elements});"
    )
    return "C", call


def _mul(lowering: _Lowering, operator: IntOperator) -> tuple[str, str]:
    a, b, (out,) = operator.input(0), operator.input(1), operator.outputs
    _int8(operator, a, b, out)
    steps, (low, high) = _steps(operator, a, b), _activation(operator, out)
    product = float(np.float32(_scale(a)) * np.float32(_scale(b)))
    call = (
        f"ew_mul_s8({lowering.at(a)}, {-a.zero_point}, {steps[0]}, {lowering.at(b)}, {-b.zero_point}, {steps[1]}, "
        f"{_scaled(out.zero_point, product / _scale(out))}, {low}, {high}, {lowering.at(out)}, {out.elements});"
    )
    return "C", call


def _softmax(lowering: _Lowering, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    _int8(operator, source, out)
    if _scale(out) != 1 / 256 or out.zero_point != -128:
        raise CanNotLower(f"operator {operator.index} (SOFTMAX) has an output that is not in steps of 1/256")
    multiplier, shift, least = softmax_scaling(operator.options["beta"], _scale(source))
    columns = source.shape[-1]
    call = (
        f"ew_softmax_s8({lowering.at(source)}, {source.elements // columns}, {columns}, {multiplier}, {shift}, "
        f"{least}, {lowering.at(out)});"
    )
    return "C", call


def _reshape(lowering: _Lowering, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    if source.bytes != out.bytes:
        raise CanNotLower(f"operator {operator.index} ({operator.code}) changes the number of elements")
    here, there = lowering.at(source), lowering.at(out)
    return ("", "") if here == there else ("C", f"ew_copy({here}, {there}, {out.bytes});")


def _quantize(lowering: _Lowering, operator: IntOperator) -> tuple[str, str]:
    source, (out,) = operator.input(0), operator.outputs
    _int8(operator, source, out)
    by = _scaled(out.zero_point, _scale(source) / _scale(out))
    return (
        "C",
        f"ew_requantize_s8({lowering.at(source)}, {-source.zero_point}, {by}, {lowering.at(out)}, {out.elements});",
    )


_LOWERINGS: Mapping[str, Callable[[_Lowering, IntOperator], tuple[str, str]]] = {
    "ADD": _add,
    "AVERAGE_POOL_2D": lambda lowering, operator: _pool(lowering, operator, name="arm_avgpool_s8"),
    "CONV_2D": lambda lowering, operator: _convolution(lowering, operator, depthwise=False),
    "DEPTHWISE_CONV_2D": lambda lowering, operator: _convolution(lowering, operator, depthwise=True),
    "EXPAND_DIMS": _reshape,
    "FULLY_CONNECTED": _fully_connected,
    "MAX_POOL_2D": lambda lowering, operator: _pool(lowering, operator, name="arm_max_pool_s8"),
    "MUL": _mul,
    "QUANTIZE": _quantize,
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "SQUEEZE": _reshape,
}
