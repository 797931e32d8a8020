"""An engine's own shapes for given inputs, in a process of its own.

``python -m edgewise.model.readers.shape_worker`` reads ``{"engine": …, "path": …, "shapes": …}`` from stdin and answers
with what the engine's function below returns. Where the network can't take the shapes the answer is
``{"refused": reason}``.
"""

from __future__ import annotations

from typing import Any

from edgewise.model.readers.isolated import Refused, answer_requests

CPU_SECONDS = 60
MEMORY_BYTES = 4 * 2**30
"""Of private memory, and eight times the file's size on top: LiteRT makes room for activations, and runs models."""

_BODIES = {
    "Loop": {"body": "get_function"},
    "TensorIterator": {"body": "get_body"},
    "If": {"then_body": "get_then_body", "else_body": "get_else_body"},
}


def infer_with_openvino(request: dict[str, Any]) -> dict[str, Any]:
    """Infer the shapes of an OpenVINO IR; ``shapes`` of the request are by names of Parameters.

    The answer is ``{"shapes": {path of a network: {name of a layer: [shape of each output]}}, "trips": {path of a loop:
    iterations}}``. The path of the whole network is "", that of a body ``name of its layer/body``.
    """
    import openvino

    model = openvino.Core().read_model(request["path"])
    inputs = {each.get_friendly_name(): each for each in model.get_parameters()}
    try:
        wanted = {inputs[name].output(0): openvino.PartialShape(sizes) for name, sizes in request["shapes"].items()}
        model.reshape(wanted)
    except RuntimeError as error:
        raise Refused(_explain(str(error))) from error
    shapes: dict[str, dict[str, list[Any]]] = {}
    trips: dict[str, int] = {}
    _collect(model, "", shapes, trips)
    return {"shapes": shapes, "trips": trips}


def _explain(message: str) -> str:
    """Return the two lines of OpenVINO's message that say which layer failed and why."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    reasons = [line for line in lines if "failed at" not in line and not line.startswith("Exception from")]
    return " ".join(reasons)[:1000] or message[:1000]


def _collect(model: Any, path: str, shapes: dict[str, dict[str, list[Any]]], trips: dict[str, int]) -> None:
    found = shapes.setdefault(path, {})
    for node in model.get_ordered_ops():
        name = node.get_friendly_name()
        # A name that two layers have does not tell which of them is meant.
        found[name] = [] if name in found else [_read_sizes(each.get_partial_shape()) for each in node.outputs()]
        inner = f"{path}/{name}" if path else name
        for body, get in _BODIES.get(node.get_type_name(), {}).items():
            if hasattr(node, get):
                _collect(getattr(node, get)(), f"{inner}/{body}", shapes, trips)
        if hasattr(node, "get_num_iterations"):
            trips[inner] = node.get_num_iterations()


def _read_sizes(shape: Any) -> list[int | None] | None:
    if shape.rank.is_dynamic:
        return None
    return [size.get_length() if size.is_static else None for size in shape]


def infer_with_litert(request: dict[str, Any]) -> dict[str, Any]:
    """Infer the shapes of a TFLite file; ``shapes`` of the request are pairs of a tensor's index and its sizes.

    The answer is ``{"shapes": [shape of each tensor of the first subgraph]}``, null for one that follows from data.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # A delegate would take operators away, and the tensors between them.
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(request["path"], experimental_op_resolver_type=plain, num_threads=1)
    interpreter.allocate_tensors()  # what fails here is not the fault of the shapes
    try:
        for index, sizes in request["shapes"]:
            interpreter.resize_tensor_input(index, sizes)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError, OverflowError) as error:
        raise Refused(str(error)) from error
    shapes = _run_twice(interpreter)
    return {"shapes": [shapes.get(index) for index in range(max(shapes, default=-1) + 1)]}


def _run_twice(interpreter: Any) -> dict[int, list[Any] | None]:
    """Index of a tensor → its shape, as far as two runs on different data agree in it: what differs follows from data.

    Allocating alone does not tell: the targets of reshapes that LiteRT computes on the way, and all that follows, keep
    the shapes that the converter wrote until the model has run.
    """
    import numpy as np

    found: list[dict[int, list[Any]]] = []
    random = np.random.default_rng(0)
    for fill in (np.zeros, lambda shape: np.abs(random.standard_normal(shape)) * 2):
        for each in interpreter.get_input_details():
            interpreter.set_tensor(each["index"], np.asarray(fill(each["shape"])).astype(each["dtype"]))
        interpreter.invoke()
        found.append({each["index"]: list(map(int, each["shape"])) for each in interpreter.get_tensor_details()})
    first, second = found
    return {index: _agree(shape, second.get(index)) for index, shape in first.items()}


def _agree(one: list[Any], other: list[Any] | None) -> list[Any] | None:
    """Return what two shapes have in common; open where they differ."""
    if other is None or len(one) != len(other):
        return None
    return [size if size == again else None for size, again in zip(one, other, strict=True)]


_ENGINES = {"openvino": infer_with_openvino, "litert": infer_with_litert}

if __name__ == "__main__":
    raise SystemExit(
        answer_requests(
            lambda request: _ENGINES[request["engine"]](request),
            cpu_seconds=CPU_SECONDS, memory_bytes=MEMORY_BYTES, per_file_byte=8,
        )
    )  # fmt: skip
