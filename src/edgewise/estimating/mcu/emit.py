"""What the C of an operator is put together from: constants, addresses, fixed-point numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadModel
from edgewise.estimating.mcu.fixed_point import activation_range, quantize_multiplier
from edgewise.estimating.mcu.network import IntOperator, IntTensor

ALIGNMENT = 16


class CanNotLower(BadModel):
    """A network that there is no C for."""


class OperatorRefused(CanNotLower):
    """An operator that there is no C for; `why` goes on after its name."""

    def __init__(self, operator: IntOperator, why: str) -> None:
        super().__init__(f"operator {operator.index} ({operator.code}) {why}")
        self.operator, self.why = operator, why


@dataclass(slots=True)
class Emitter:
    """Collects constants, and knows the addresses of tensors.

    Attributes:
        offsets: index of an activation → its place in the arena, bytes.
        constants: the bytes that ``ew_constants`` holds.
    """

    offsets: Mapping[int, int]
    constants: bytearray = field(default_factory=bytearray)
    _placed: dict[int, str] = field(default_factory=dict)

    def constant(self, array: NDArray[np.generic]) -> str:
        """Return the address of `array` among the constants."""
        self.constants += bytes(-len(self.constants) % ALIGNMENT)
        at = len(self.constants)
        self.constants += np.ascontiguousarray(array).tobytes()
        return f"(ew_constants + {at})"

    def words(self, values: Sequence[int]) -> str:
        """Return the address of 32-bit numbers."""
        return f"((int32_t *){self.constant(np.asarray(values, '<i4'))})"

    def at(self, tensor: IntTensor, offset: int = 0) -> str:
        """Return the address of the byte `offset` of a tensor. Raises `CanNotLower` where it has no memory."""
        if tensor.data is not None:
            if tensor.index not in self._placed:
                self._placed[tensor.index] = self.constant(tensor.data)
            return f"((const int8_t *){self._placed[tensor.index]} + {offset})"
        if tensor.index not in self.offsets:
            raise CanNotLower(f"{tensor.name} follows from constants alone, which is not supported")
        return f"(ew_arena + {self.offsets[tensor.index] + offset})"


Lowering = Callable[[Emitter, IntOperator], str]
"""Returns the C statement of an operator; "" where there is nothing to execute."""


def refuse(operator: IntOperator, why: str) -> CanNotLower:
    """Return the error for an operator; `why` goes on after its name."""
    return OperatorRefused(operator, why)


def check_int8(operator: IntOperator, *tensors: IntTensor) -> None:
    """Raise `CanNotLower` unless all `tensors` are quantised int8."""
    for tensor in tensors:
        if tensor.dtype != "int8" or not len(tensor.scales):
            raise refuse(operator, f"works on {tensor.dtype}, not on quantised int8")


def check_size(operator: IntOperator, wanted: int, out: IntTensor) -> None:
    """Raise `CanNotLower` unless `out` has `wanted` elements."""
    if out.elements != wanted:
        raise refuse(operator, f"makes {wanted} elements, and its output has {out.elements}")


def scale_of(tensor: IntTensor) -> float:
    """Return the scale of a tensor that has one."""
    return float(tensor.scales[0])


def numbers(operator: IntOperator, place: int) -> list[int]:
    """Return the integers of an input that must be constant. Raises `CanNotLower`."""
    tensor = operator.input(place)
    if tensor.data is None or tensor.data.dtype.kind != "i":
        raise refuse(operator, f"has an input {place} that is not constant")
    return [int(each) for each in tensor.data.ravel()]


def axis_of(operator: IntOperator, axis: int, tensor: IntTensor) -> int:
    """Return the dimension of `tensor` that `axis` names; a negative one counts from the last. Raises `CanNotLower`."""
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise refuse(operator, f"has the axis {axis} of {rank} dimensions")
    return axis % rank


def scaled(offset: int, real: float) -> str:
    """Return an ``ew_scaled``: what is added, and a factor in fixed point."""
    multiplier, shift = quantize_multiplier(real)
    return f"{{{offset}, {multiplier}, {shift}}}"


def activation(operator: IntOperator, out: IntTensor) -> tuple[int, int]:
    """Return the range of int8 that the fused activation leaves. Raises `CanNotLower` for one that is not a range."""
    function = str(operator.options.get("fused_activation_function", "NONE"))
    if function not in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
        raise refuse(operator, f"has the activation {function}")
    return activation_range(function, scale_of(out), out.zero_point)


def padding_of(operator: IntOperator, sizes: Sequence[tuple[int, int, int, int, int]]) -> list[int]:
    """Return padding before the first element, per dimension of ``(input, output, kernel, stride, dilation)``.

    Raises `CanNotLower` where the output has another size than they give.
    """
    valid = operator.options.get("padding") == "VALID"
    for size, out, kernel, stride, dilation in sizes:
        if min(kernel, stride, dilation) < 1:
            raise refuse(operator, f"has the kernel {kernel}, the stride {stride} and the dilation {dilation}")
        made = -(-(size - (kernel - 1) * dilation if valid else size) // stride)
        if made != out:
            raise refuse(operator, f"makes {made} rows or columns of {size}, and its output has {out}")
    if valid:
        return [0 for _ in sizes]
    return [max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size) // 2
            for size, out, kernel, stride, dilation in sizes]  # fmt: skip


def image_of(operator: IntOperator, tensor: IntTensor) -> tuple[int, int, int, int]:
    """Return the shape of images: batch × height × width × channels. Raises `CanNotLower`."""
    if len(tensor.shape) != 4:
        raise refuse(operator, f"has the shape {tensor.shape}, not N×H×W×C")
    return tensor.shape


def per_image(emitter: Emitter, batch: int, source: IntTensor, out: IntTensor, call: Callable[[str, str], str]) -> str:
    """Statements that execute `call`, which gets the addresses of an input and an output, for each of a batch."""
    sizes = source.bytes // batch, out.bytes // batch
    return " ".join(call(emitter.at(source, at * sizes[0]), emitter.at(out, at * sizes[1])) for at in range(batch))


def channel_factors(emitter: Emitter, source: IntTensor, weights: IntTensor, out: IntTensor, channels: int) -> str:
    """Addresses of the multipliers and of the shifts of a convolution, one of each per channel."""
    scales = np.broadcast_to(weights.scales, (channels,)).astype(float)
    pairs = [quantize_multiplier(scale_of(source) * float(each) / scale_of(out)) for each in scales]
    return ", ".join(emitter.words([pair[place] for pair in pairs]) for place in (0, 1))


def bias_of(emitter: Emitter, operator: IntOperator, channels: int, place: int = 2) -> str:
    """Return the address of the bias, the input `place`, which may be left out. Raises `CanNotLower`."""
    found = operator.inputs[place] if len(operator.inputs) > place else None
    if found is None:
        return emitter.words([0] * channels)
    if found.data is None or found.dtype != "int32" or found.elements != channels:
        raise refuse(operator, f"has a bias that is not a constant of {channels} int32")
    return emitter.words(found.data.ravel().tolist())


def weights_of(operator: IntOperator) -> IntTensor:
    """Return the input 1, which must be constant and symmetric. Raises `CanNotLower`."""
    weights = operator.input(1)
    check_int8(operator, weights)
    if weights.data is None or weights.zero_point:
        raise refuse(operator, "has weights that are computed or asymmetric")
    return weights
