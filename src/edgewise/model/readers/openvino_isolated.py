"""OpenVINO's own shape inference, in a process of its own.

``python -m edgewise.model.readers.openvino_isolated`` reads ``{"path": …, "shapes": {name of a Parameter: sizes}}``
from stdin and answers ``{"shapes": {path of a network: {name of a layer: [shape of each output]}}, "trips": {path of
a loop: iterations}}``. The path of the whole network is "", that of a body ``name of its layer/body``. Where the
network can't take the shapes the answer is ``{"refused": reason}``.
"""

from __future__ import annotations

from typing import Any

from edgewise.model.readers.isolated import Refused, answer_requests

CPU_SECONDS = 60
MEMORY_BYTES = 2 * 2**30
"""Of private memory, and eight times the size of the XML on top; weights are mapped and don't count."""

_BODIES = {
    "Loop": {"body": "get_function"},
    "TensorIterator": {"body": "get_body"},
    "If": {"then_body": "get_then_body", "else_body": "get_else_body"},
}


def infer_shapes(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer one request. Raises what OpenVINO raises where it can't read the file."""
    import openvino

    model = openvino.Core().read_model(asked["path"])
    inputs = {each.get_friendly_name(): each for each in model.get_parameters()}
    try:
        wanted = {inputs[name].output(0): openvino.PartialShape(sizes) for name, sizes in asked["shapes"].items()}
        model.reshape(wanted)
    except RuntimeError as error:
        raise Refused(_explain(str(error))) from error
    shapes: dict[str, dict[str, list[Any]]] = {}
    trips: dict[str, int] = {}
    _collect(model, "", shapes, trips)
    return {"shapes": shapes, "trips": trips}


def _explain(message: str) -> str:
    """The two lines of OpenVINO's message that say which layer failed and why."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line for line in lines if "failed at" not in line and not line.startswith("Exception from")]
    return " ".join(told)[:1000] or message[:1000]


def _collect(model: Any, path: str, shapes: dict[str, dict[str, list[Any]]], trips: dict[str, int]) -> None:
    found = shapes.setdefault(path, {})
    for node in model.get_ordered_ops():
        name = node.get_friendly_name()
        # Of two layers with one name nobody could say which is meant.
        found[name] = [] if name in found else [_sizes(each.get_partial_shape()) for each in node.outputs()]
        inner = f"{path}/{name}" if path else name
        for body, get in _BODIES.get(node.get_type_name(), {}).items():
            if hasattr(node, get):
                _collect(getattr(node, get)(), f"{inner}/{body}", shapes, trips)
        if hasattr(node, "get_num_iterations"):
            trips[inner] = node.get_num_iterations()


def _sizes(shape: Any) -> list[int | None] | None:
    if shape.rank.is_dynamic:
        return None
    return [size.get_length() if size.is_static else None for size in shape]


if __name__ == "__main__":
    raise SystemExit(answer_requests(infer_shapes, cpu_seconds=CPU_SECONDS, memory_bytes=MEMORY_BYTES, per_file_byte=8))
