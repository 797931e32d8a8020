"""The arena of a lowered network: which tensor lies where, and when."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.estimating.mcu.emit import CanNotLower
from edgewise.estimating.mcu.network import IntNetwork, IntTensor
from edgewise.model.memory_plan import MemoryPlan, plan_tensors


def plan_arena(network: IntNetwork) -> tuple[MemoryPlan, Mapping[int, int]]:
    """Plan the activations and states of `network`.

    Returns:
        The plan, and the offset in bytes of each tensor by its index.

    Raises:
        CanNotLower: too many tensors live at the same time, or an input or output is constant.
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
    placed = {each.tensor: each.offset for each in plan.placements}
    return plan, {index: placed[name] for index, name in names.items()}


def _lifetimes(network: IntNetwork) -> tuple[dict[int, IntTensor], dict[int, tuple[int, int]], int]:
    """The tensors that need memory, their first and last operator, and the last operator of all."""
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
    """The names of tensors, made unique with their index."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for index, tensor in tensors.items():
        found[index] = tensor.name if tensor.name not in taken else f"{tensor.name} ({index})"
        taken.add(found[index])
    return found
