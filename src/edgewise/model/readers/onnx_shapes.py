"""Shapes of every value of an ONNX model, by the onnx package's shape inference, without trusting the model.

Shape inference is C++ that believes what it reads: ten nodes can make it fill the memory (each doubling the rank of the
one before, by Gather; each doubling a shape's entries, by Concat), an attribute of the wrong type crashes it. So it
runs in a process of its own with limits (`edgewise.model.readers.onnx_isolated`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from edgewise.child_process import Outcome, run_child
from edgewise.errors import BadInput
from edgewise.model.readers import onnx_isolated
from edgewise.model.readers.base import check_shapes
from edgewise.model.readers.onnx_blocks import Block, inner_blocks
from edgewise.model.readers.onnx_types import Proto, Shapes, read_shape, read_type
from edgewise.model.readers.onnx_wire import MAX_DESCRIPTION

_SHAPED = frozenset({"ConstantOfShape", "Range", "Shape", "Size"})
"""Operators with which arithmetic on shapes begins."""
_MOST_KEPT, _MOST_BYTES = 32, 2**20
"""Answers kept in memory, and the size of the largest model whose answer is kept."""
_kept: dict[tuple[str, str, bytes], bytes] = {}
"""Answers that were models, by what was asked: a search reads the same network again and again."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """A model whose values have shapes.

    Attributes:
        why: why shape inference told nothing or gave up somewhere, "" where it did not.
    """

    model: Proto
    why: str = ""


def set_input_shapes(inputs: list[Proto], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write concrete shapes into the types of graph inputs.

    Raises:
        BadInput: an unknown name, or a shape that does not fit what the file says.
    """
    known = {info.name: info.type for info in inputs}
    for name in shapes:
        if name in known and known[name].WhichOneof("value") != "tensor_type":
            raise BadInput(f"input {name!r} is not a tensor, so it has no shape", advice="omit its shape")
    check_shapes({name: read_shape(kind.tensor_type) for name, kind in known.items()}, shapes)
    for name, shape in shapes.items():
        dims = known[name].tensor_type.shape.dim
        del dims[:]
        for size in shape:
            dims.add().dim_value = size


def inline_functions(model: Proto) -> Inferred:
    """Return the model with its own functions written out where they are called; as it was, where that fails."""
    answer, why = _ask_process(model, "inline")
    return Inferred(model if answer is None else answer, why)


def infer_shapes(model: Proto, block: Block) -> Inferred:
    """Return the model with the shapes that follow from its inputs' shapes.

    Shapes that the file declares for results are not used: they go stale, and a wrong one would stop the inference.
    Only those of operators that are not ONNX's own are kept, as nothing else can tell them.
    """
    for each in inner_blocks(block):
        _forget_shapes(each)
    # Weights that old files list as inputs too are no inputs, and the rules of newer files say so.
    model.ir_version = max(model.ir_version, 10)
    answer, why = _ask_process(model, "infer")
    if answer is None:
        return Inferred(model, why)
    # Where it says nothing of ONNX's own operators, the strict mode tells why.
    return Inferred(answer, "" if _is_complete(answer.graph, block) else _ask_process(model, "strict")[1])


def _forget_shapes(block: Block) -> None:
    graph = block.proto
    foreign = {name for step in block.steps if step.domain for name in step.outputs}
    kept = [info for info in graph.value_info if info.name in foreign] if foreign else []
    if len(kept) < len(graph.value_info):
        copies = [type(info).FromString(info.SerializeToString()) for info in kept]
        del graph.value_info[:]
        graph.value_info.extend(copies)
    for info in graph.output:
        if info.name not in foreign and info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")


def _is_complete(graph: Proto, block: Block) -> bool:
    """Whether the first output of every operator of ONNX's own has a shape."""
    known: set[str] = {info.name for info in graph.value_info if info.type.tensor_type.HasField("shape")}
    known.update(info.name for info in graph.output if info.type.tensor_type.HasField("shape"))
    known.add("")
    return all(step.domain or not step.outputs or step.outputs[0] in known for step in block.steps)


def follow_values(model: Proto, block: Block, dtypes: Mapping[int, str]) -> Shapes:
    """Types and shapes that follow from the inputs' shapes by arithmetic on values, which the package does not follow.

    ONNX Runtime's symbolic inference is asked, where it is installed. Only the outermost graph's values are told.

    Args:
        block: of the model as the package inferred it. Where it leaves nothing open, or an input is open, the answer is
            empty.
    """
    graph = block.proto
    weights = {tensor.name for tensor in graph.initializer}
    if not all(_is_fixed(info) for info in graph.input if info.name not in weights):
        return {}
    fixed = {info.name for info in (*graph.value_info, *graph.output) if _is_fixed(info)}
    wanted = {name for step in block.steps if not step.is_constant for name in step.outputs if name} - fixed
    if not wanted or not any(step.op in _SHAPED for step in block.steps):
        return {}
    answer, _ = _ask_process(model, "symbolic")
    if answer is None:
        return {}
    found = (info for info in (*answer.graph.value_info, *answer.graph.output) if info.name in wanted)
    return {info.name: read_type(info.type, dtypes) for info in found if _is_fixed(info)}


def _is_fixed(info: Proto) -> bool:
    kind = info.type.tensor_type
    return kind.HasField("shape") and all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in kind.shape.dim)


def _ask_process(model: Proto, mode: str) -> tuple[Proto | None, str]:
    """Return what another process makes of the model, or None and why it made nothing of it."""
    noun = "inlining its functions" if mode == "inline" else "shape inference"
    file = _find_script() if mode == "symbolic" else _find_extension()
    if file is None:
        return None, "ONNX Runtime is not installed"
    request = model.SerializeToString()
    key = mode, file, request
    if key in _kept:
        return type(model).FromString(_kept[key]), ""
    done = _run(mode, file, request)
    if done.cause == "exit" and done.tail:
        return None, done.tail.splitlines()[-1]
    if done.failure:
        return None, f"{noun} {done.failure}"
    try:
        answer = type(model).FromString(done.output)
    except Exception:  # protobuf's DecodeError, which implementations derive differently
        return None, f"{noun} returned no model"
    if len(request) <= _MOST_BYTES:
        if len(_kept) >= _MOST_KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[key] = done.output
    return answer, ""


def _run(mode: str, file: str, request: bytes) -> Outcome:
    """Return what the process says of the model in `request`, and how it ended."""
    plain = ["-I"] if mode == "symbolic" else ["-I", "-S"]
    with tempfile.TemporaryDirectory(prefix=f"edgewise-{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        return run_child(
            [sys.executable, *plain, onnx_isolated.__file__, mode, file],
            request=request,
            seconds=2 * onnx_isolated.CPU_SECONDS,
            folder=Path(folder),  # the script leaves a file where it does not get to the end
            environment={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
            },  # whose threads would take the memory that is given
            max_output=2 * MAX_DESCRIPTION,
        )


def _find_extension() -> str:
    from onnx import onnx_cpp2py_export

    return str(onnx_cpp2py_export.__file__)


def _find_script() -> str | None:
    """ONNX Runtime's script for symbolic shape inference, found without importing the engine."""
    spec = find_spec("onnxruntime")
    places = [
        Path(each) / "tools" / "symbolic_shape_infer.py" for each in (spec and spec.submodule_search_locations) or ()
    ]
    return next((str(place) for place in places if place.is_file()), None)
