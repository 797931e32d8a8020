"""Arenas: the one of a lowered network, and the size of tflite-micro's with pointers of 32 bits.

tflite-micro tells what its arena holds on this machine. `arena_on_32_bits` takes off what larger pointers add, from the
sizes of its structures (tensorflow/lite/c/common.h, tensorflow/lite/micro/micro_allocator.h). What an operator's own
data loses was found by comparison with tflite-micro built for 32-bit WebAssembly (the package mcufit 0.5.2, less the
2,128 B that its benchmark keeps for states and records): the totals of the five int8 models of MLPerf Tiny agree within
0.4 %, those of 53 generated networks, one per operator, within 1.5 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from edgewise.errors import RunFailed
from edgewise.estimating.mcu.emit import CanNotLower
from edgewise.estimating.mcu.network import IntNetwork, IntTensor
from edgewise.estimating.mcu.reference import Reference
from edgewise.model.memory_plan import ALIGNMENT, MemoryPlan, plan_tensors

MOST_BYTES = 64 * 2**20
_PER_STRUCTURE = {
    "TfLiteEvalTensor data": 24 - 12,
    "Persistent TfLiteTensor data": 64 - 40,
    # Of the two parts per tensor, the one with pointers shrinks from 24 to 12 bytes.
    "Persistent TfLiteTensor quantization data": (24 - 12) / 2,
    "NodeAndRegistration struct": 64 - 32,
}
_PER_OPERATOR = {
    "CONCATENATION": 56, "CONV_2D": 24, "DEPTHWISE_CONV_2D": 24, "FULLY_CONNECTED": 40, "MEAN": 16, "SOFTMAX": 24,
    "SUM": 16, "TRANSPOSE_CONV": 24, "VAR_HANDLE": 28,
}  # fmt: skip
_BUFFERS = "Persistent buffer data"
_PADDING = 3
"""Bytes lost to the alignment of a buffer on 32 bits, on average."""
_INTERPRETER = 372
"""What the interpreter's own objects lose, 112 of it the records of allocations that a product does without."""


def arena_on_32_bits(reference: Reference, network: IntNetwork) -> int:
    """Size of tflite-micro's arena with 32-bit pointers, bytes."""
    shrunk = float(reference.arena_bytes - _INTERPRETER)
    for name, each in reference.sections.items():
        shrunk -= _PER_STRUCTURE.get(name, 0) * each.count
        if name == _BUFFERS:
            shrunk -= each.used - each.requested - _PADDING * each.count
    return round(shrunk) - sum(_PER_OPERATOR.get(operator.code, 0) for operator in network.operators)


def find_smallest(runs_in: Callable[[int], bool], near: int) -> int:
    """Return the smallest multiple of 16 B in which a model runs, by bisection; `near` is a guess, which is mostly
    exact.

    Raises `RunFailed` where it does not run in 1 GiB.
    """
    low, high = 0, -(-near // ALIGNMENT)
    while not runs_in(high * ALIGNMENT):
        low, high = high, 2 * high
        if high * ALIGNMENT > 2**30:
            raise RunFailed("tflite-micro executes the model in no arena of up to 1 GiB")
    guess = high - 1
    while high - low > 1:
        low, high = (low, guess) if runs_in(guess * ALIGNMENT) else (guess, high)
        guess = (low + high) // 2
    return high * ALIGNMENT


def plan_arena(network: IntNetwork) -> tuple[MemoryPlan, Mapping[int, int]]:
    """Plan the activations and states of `network`.

    Returns:
        The plan, and the offset in bytes of each tensor by its index.

    Raises:
        CanNotLower: too many tensors live at the same time, or more than 64 MiB; or an input or output is constant.
    """
    tensors, spans, end = _lifetimes(network)
    for tensor in (*network.inputs, *network.outputs):
        if tensor.index not in spans:
            raise CanNotLower(f"{tensor.name}, an input or output, is constant")
    names = _names(tensors)
    plan = plan_tensors(
        {names[index]: tensor.bytes for index, tensor in tensors.items()},
        {names[index]: span for index, span in spans.items()},
        operators=end + 1,
    )
    if plan.arena_bytes is None:
        raise CanNotLower("its memory can't be planned: too many tensors live at the same time")
    if plan.arena_bytes > MOST_BYTES:
        raise CanNotLower(f"its activations need {plan.arena_bytes:,} B, more than any microcontroller has")
    placed = {each.tensor: each.offset for each in plan.placements}
    states = sum(tensor.bytes for tensor in network.variables)
    return replace(plan, persistent_bytes=states), {index: placed[name] for index, name in names.items()}


def _lifetimes(network: IntNetwork) -> tuple[dict[int, IntTensor], dict[int, tuple[int, int]], int]:
    """Return the tensors that need memory, their first and last operator, and the last operator of all."""
    end = max(len(network.operators) - 1, 0)
    tensors: dict[int, IntTensor] = {}
    spans: dict[int, tuple[int, int]] = {}

    def live(tensor: IntTensor | None, first: int, last: int) -> None:
        if tensor is not None and tensor.data is None:
            tensors[tensor.index] = tensor
            before, after = spans.get(tensor.index, (first, last))
            spans[tensor.index] = min(before, first), max(after, last)

    for tensor in network.inputs:
        live(tensor, 0, 0)
    for operator in network.operators:
        for each in (*operator.inputs, *operator.outputs):
            live(each, operator.index, operator.index)
    for tensor in network.outputs:
        live(tensor, end, end)
    for tensor in network.variables:
        live(tensor, 0, end)
    return tensors, spans, end


def _names(tensors: Mapping[int, IntTensor]) -> dict[int, str]:
    """Return the names of tensors, made unique with their index."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for index, tensor in tensors.items():
        found[index] = tensor.name if tensor.name not in taken else f"{tensor.name} ({index})"
        taken.add(found[index])
    return found
