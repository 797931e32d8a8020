"""Options of OpenVINO layers as plain values and for people; their bodies, what these take, and how often they run.

The rules of loops are those of
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/infrastructure/loop-5.html
and of ``tensor-iterator-1`` beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgewise.model.dialects.openvino import is_known
from edgewise.model.graph import Tensor
from edgewise.model.readers.base import Wrong
from edgewise.model.readers.openvino_layers import IrLayer, IrNetwork

_MAX_SHOWN_CHARACTERS = 200
_MAX_SHOWN_PORTS = 64


def read_option(text: str) -> Any:
    """Return an option as a plain value: bool, int, float, a tuple of numbers, else the text itself."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    numbers = [_read_number(part.strip()) for part in word.split(",")]
    if any(number is None for number in numbers):
        return text
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _read_number(word: str) -> int | float | None:
    if re.fullmatch(r"[+-]?[0-9]{1,19}", word, re.ASCII):
        return int(word)
    if re.fullmatch(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?", word, re.ASCII):
        number = float(word)
        return number if math.isfinite(number) else None
    return None


def read_version(text: str) -> int:
    """Of ``opset13``; 0 for other sets."""
    found = re.fullmatch(r"opset([0-9]{1,4})", text, re.ASCII)
    return int(found.group(1)) if found else 0


def show_text(text: str) -> str:
    """Short texts as they are, long ones by their length."""
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{len(text)} characters"


def show_attributes(layer: IrLayer, options: Mapping[str, Any]) -> dict[str, Any]:
    """JSON-shaped: options, the layer's operator set, what converters noted (``rt_info``), how bodies are connected."""
    shown: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, str):
            shown[key] = show_text(value)
        elif isinstance(value, tuple):
            shown[key] = list(value) if len(value) <= _MAX_SHOWN_PORTS else f"{len(value)} numbers"
        else:
            shown[key] = value
    if layer.version:
        shown["version"] = layer.version
    if layer.runtime_info:
        shown["rt_info"] = {key: show_text(value) for key, value in layer.runtime_info.items()}
    for name, entries in layer.maps.items():
        shown[name] = [dict(entry) for entry in entries[:_MAX_SHOWN_PORTS]]
    if layer.back_edges:
        shown["back_edges"] = [list(edge) for edge in layer.back_edges[:_MAX_SHOWN_PORTS]]
    return shown


_BY_BODY = {"If", "Loop", "TensorIterator", "ReadValue"}
_BY_VALUE = {"Reshape", "Squeeze", "Unsqueeze", "Broadcast", "Tile", "StridedSlice", "RandomUniform", "Pad"}
"""Layers whose output has as many dimensions as the values of their further inputs say."""


def is_scalar(layer: IrLayer, inputs: Sequence[Tensor]) -> bool:
    """Whether an output without dimensions is a scalar for certain: its rank follows from known ones.

    The file writes a scalar and an unknown rank alike, as a port without dimensions.
    """
    if not is_known(layer.type) or layer.type in _BY_BODY or any(tensor.shape is None for tensor in inputs):
        return False
    if layer.type in _BY_VALUE or layer.type.startswith("Reduce"):
        # Without axes Squeeze takes those dimensions that turn out to be 1.
        return (len(inputs) > 1 or inputs[0].elements == 1 if inputs else False) and all(
            tensor.constant for tensor in inputs[1:]
        )
    return True


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
