"""Bodies of OpenVINO's loops and branches: what they take from outside, and how often they run.

The rules are those of https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/loop-5.html
and of ``tensor-iterator-1`` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgewise.model.graph import Tensor
from edgewise.model.readers.base import Wrong
from edgewise.model.readers.openvino_layers import IrLayer, IrNetwork
from edgewise.model.readers.openvino_options import read_option

Values = Callable[[str], tuple[int | float, ...] | None]
"""Name of a tensor → its elements, where it is a small constant."""


def check_map(layer: IrLayer, body: str) -> None:
    """Refuse a map of ports that leads nowhere. Raises `Wrong`."""
    inner = {each.id: each.type for each in layer.bodies[body].layers}
    outer = {"input": {port.id for port in layer.inputs}, "output": {port.id for port in layer.outputs} | {"-1"}}
    wanted = {"input": "Parameter", "output": "Result"}
    for entry in layer.mapping(body):
        direction = entry["direction"]
        inside, outside = entry.get("internal_layer_id", ""), entry.get("external_port_id", "")
        unused = direction == "input" and outside == "-1" and entry.get("purpose") == "current_iteration"
        if inner.get(inside) != wanted[direction] or not (outside in outer[direction] or unused):
            raise Wrong(f"the {direction}s of a body of {layer.name!r} do not match its connections")
    for source, target in layer.back_edges:
        if body == "body" and (inner.get(source) != "Result" or inner.get(target) != "Parameter"):
            raise Wrong(f"a loop-carried value of {layer.name!r} has no source or no destination")


def find_captured(layer: IrLayer, body: str, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Ids of the body's Parameter layers that are the same constant in every iteration → that constant."""
    outside = dict(zip((port.id for port in layer.inputs), inputs, strict=True))
    carried = {target for _, target in layer.back_edges}
    found: dict[str, Tensor] = {}
    for entry in layer.mapping(body):
        tensor = outside.get(entry.get("external_port_id", ""))
        sliced = entry["direction"] != "input" or "axis" in entry
        if tensor is not None and tensor.constant and not sliced and entry["internal_layer_id"] not in carried:
            found[entry["internal_layer_id"]] = tensor
    return found


def count_trips(
    layer: IrLayer, inputs: Sequence[Tensor], *, values: Values, condition: tuple[int | float, ...] | None
) -> int | None:
    """How often the body of a Loop or TensorIterator runs; None where that depends on data.

    Args:
        values: of the tensors outside.
        condition: what the body answers to whether to go on, where that is a constant.
    """
    sliced = _count_slices(layer, inputs)
    if layer.type != "Loop":
        return sliced
    if len(inputs) < 2:
        return None
    begin, limit = values(inputs[1].name), values(inputs[0].name)
    if not begin or not condition or len(begin) != 1 or len(condition) != 1:
        return None
    trips = int(limit[0]) if limit and len(limit) == 1 and limit[0] >= 0 else None
    if trips is None and (limit is None or sliced is None):
        return None  # -1 has no limit but the inputs that are cut into slices
    trips = sliced if trips is None else trips
    if not begin[0]:
        return 0
    return trips if condition[0] or trips is None else min(trips, 1)


def find_condition(layer: IrLayer) -> str | None:
    """Id of the body's Result layer that says whether a Loop goes on."""
    for entry in layer.mapping("body") if "body" in layer.bodies else ():
        if entry.get("purpose") == "execution_condition" and entry["direction"] == "output":
            return entry.get("internal_layer_id")
    return None


def place_of_result(body: IrNetwork, identity: str) -> int:
    """Which of the body's results, in their order, the Result layer with this id is."""
    results = [layer.id for layer in body.layers if layer.type == "Result"]
    return results.index(identity)


def _count_slices(layer: IrLayer, inputs: Sequence[Tensor]) -> int | None:
    """Slices that the first cut input has: (|end − start| + 1) / part size, ends counted from behind if negative."""
    outside = dict(zip((port.id for port in layer.inputs), inputs, strict=True))
    for entry in layer.mapping("body") if "body" in layer.bodies else ():
        if entry["direction"] != "input" or "axis" not in entry:
            continue
        tensor = outside.get(entry.get("external_port_id", ""))
        words = [read_option(entry.get(key, other)) for key, other in _SLICE]
        if tensor is None or tensor.shape is None or not all(type(word) is int for word in words):
            return None
        axis, start, end, part = words
        if not -len(tensor.shape) <= axis < len(tensor.shape) or part < 1:
            return None
        size = tensor.shape[axis]
        if not isinstance(size, int):
            return None
        start, end = (at + size if at < 0 else at for at in (start, end))
        if not (0 <= start < size and 0 <= end < size):
            return None
        return int(abs(end - start) + 1) // int(part)
    return None


_SLICE = (("axis", "0"), ("start", "0"), ("end", "-1"), ("part_size", "1"))
