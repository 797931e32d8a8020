"""LiteRT's own shapes for given inputs, in a process of its own.

``python -m edgewise.model.readers.tflite_isolated`` reads ``{"path": …, "shapes": [[index of a tensor, sizes], …]}``
from stdin and answers ``{"shapes": [shape of each tensor of the first subgraph]}``; a shape that follows from the data
is null. Where the network can't take the shapes the answer is ``{"refused": reason}``.
"""

from __future__ import annotations

from typing import Any

from edgewise.model.readers.isolated import Refused, answer_requests

CPU_SECONDS = 60
MEMORY_BYTES = 4 * 2**30
"""Of private memory, and the size of the file on top: LiteRT makes room for activations, and may run the model."""


def allocate(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer one request. Raises what LiteRT raises where it can't read the file."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # A delegate would take operators away, and the tensors between them.
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(asked["path"], experimental_op_resolver_type=plain, num_threads=1)
    interpreter.allocate_tensors()  # what fails here is not the fault of the shapes
    try:
        for index, sizes in asked["shapes"]:
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
    """What two shapes have in common; open where they differ."""
    if other is None or len(one) != len(other):
        return None
    return [size if size == again else None for size, again in zip(one, other, strict=True)]


if __name__ == "__main__":
    raise SystemExit(answer_requests(allocate, cpu_seconds=CPU_SECONDS, memory_bytes=MEMORY_BYTES, per_file_byte=1))
