"""Models that LiteRT has loaded: into its interpreter, or compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgewise.model.readers.tflite_entry import EntryPoint, read_entry
from edgewise.model.signature import TensorSpec
from edgewise.runtime.arrays import check_dtypes, closed, own_copies
from edgewise.runtime.base import INPUTS_FIRST, LoadOptions

#: provider → name of the interpreter's set of kernels
RESOLVERS = {
    "interpreter": "AUTO",
    "interpreter-noxnnpack": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "interpreter-reference": "BUILTIN_REF",
}


class InterpreterSession:
    """A model in LiteRT's interpreter. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(self, interpreter: Any, options: LoadOptions, *, path: Path) -> None:
        self._path, self._signature = path, options.signature or None
        self._interpreter = interpreter
        inputs, outputs = self._list_tensors()
        self.inputs: Sequence[TensorSpec] = tuple(map(spec_of, inputs))
        self.outputs: Sequence[TensorSpec] = tuple(map(spec_of, outputs))
        check_dtypes(self.inputs, self.outputs)
        self.invoke: Callable[[], object] = closed
        self._provider = options.provider
        self._input_indices = [detail["index"] for detail in inputs]
        self._output_indices = [detail["index"] for detail in outputs]

    def _list_tensors(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """LiteRT's details of the inputs and of the outputs."""
        return self._interpreter.get_input_details(), self._interpreter.get_output_details()

    @cached_property
    def _entry(self) -> EntryPoint:
        return read_entry(self._path, self._signature)

    @property
    def states(self) -> Sequence[str]:
        """Names of the variable tensors and resource variables."""
        return (*self._entry.variables, *self._entry.resources)

    def reset_state(self) -> bool:
        """Give variable tensors their initial value; False where there are resource variables, which LiteRT keeps."""
        self._interpreter.reset_all_variables()
        return not self._entry.resources

    @cached_property
    def effective(self) -> Mapping[str, Any]:
        """The kernels in force; read late, so that asking is no part of the loading time. LiteRT tells no threads."""
        operators, delegates, delegated = _count_delegated(self._interpreter)
        return {
            "provider": self._provider, "precision": None, "threads": None, "streams": None,
            "op_resolver": RESOLVERS[self._provider], "delegate": "XNNPACK" if delegates else None,
            "delegate_partitions": delegates, "operators": operators, "operators_delegated": delegated, **INPUTS_FIRST,
        }  # fmt: skip

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into the interpreter's tensors. Raises ValueError where they don't fit."""
        for index, array in zip(self._input_indices, own_copies(arrays, self.inputs), strict=True):
            self._interpreter.set_tensor(index, array)
        # The public method first looks for arrays that still point into the interpreter; this session makes none.
        inner = getattr(self._interpreter, "_interpreter", None)
        self.invoke = getattr(inner, "Invoke", None) or self._interpreter.invoke

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        return [self._interpreter.get_tensor(index) for index in self._output_indices]

    def close(self) -> None:
        """Release the interpreter."""
        self.invoke = closed
        self._interpreter = None


class SignatureSession(InterpreterSession):
    """A signature of another subgraph than the first, which only methods below the public interpreter reach."""

    def _list_tensors(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """LiteRT's details of the inputs and of the outputs."""
        entry, read = self._entry, self._interpreter._get_tensor_details
        inputs, outputs = ([read(at, entry.subgraph) for at in each] for each in (entry.inputs, entry.outputs))
        return inputs, outputs

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into the interpreter's tensors. Raises ValueError where they don't fit."""
        inner, subgraph = self._interpreter._interpreter, self._entry.subgraph
        for index, array in zip(self._input_indices, own_copies(arrays, self.inputs), strict=True):
            inner.SetTensor(index, array, subgraph)
        self.invoke = partial(inner.Invoke, subgraph)

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        return [self._interpreter.get_tensor(index, self._entry.subgraph) for index in self._output_indices]


class CompiledSession:
    """A model compiled by LiteRT for the CPU. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(
        self,
        model: Any,
        *,
        path: Path,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        signature: str = "",
    ) -> None:
        self._path = path
        self.inputs = inputs
        self.outputs = outputs
        self.invoke: Callable[[], object] = closed
        self._model = model
        self._signature = signature
        self._index = model.get_signature_index(signature) if signature else 0
        self._input_buffers: list[Any] = model.create_input_buffers(self._index)
        self._output_buffers: list[Any] = model.create_output_buffers(self._index)
        self.effective: Mapping[str, Any] = {
            "provider": "compiled", "precision": None, "threads": None, "streams": None, "accelerator": "CPU",
            "fully_accelerated": bool(model.is_fully_accelerated()), **INPUTS_FIRST,
        }  # fmt: skip

    @cached_property
    def states(self) -> Sequence[str]:
        """Names of the variable tensors and resource variables."""
        entry = read_entry(self._path, self._signature or None)
        return (*entry.variables, *entry.resources)

    def reset_state(self) -> bool:
        """Return False: a compiled model's states can't be reset."""
        return False

    def bind(self, arrays: Sequence[Any]) -> None:
        """Write one array per input into the engine's buffers. Raises ValueError where they don't fit."""
        import numpy as np

        for buffer, array in zip(self._input_buffers, own_copies(arrays, self.inputs), strict=True):
            # As bytes: the buffer's own `write` knows fewer types than models have (no int64).
            buffer.write(array.reshape(-1).view(np.uint8))
        # The public call, as LiteRT's own benchmark tool and every application makes it; the wrapped one underneath
        # would be 0.5 µs shorter.
        self.invoke = partial(self._model.run_by_index, self._index, self._input_buffers, self._output_buffers)

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        import numpy as np

        arrays = []
        for buffer, spec in zip(self._output_buffers, self.outputs, strict=True):
            shape = tuple(buffer.get_tensor_details()["shape"])
            dtype = np.dtype(spec.dtype)
            count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            arrays.append(buffer.read(count, np.uint8).view(dtype).reshape(shape))
        return arrays

    def close(self) -> None:
        """Release buffers and model, in this order."""
        self.invoke = closed
        for buffer in (*self._input_buffers, *self._output_buffers):
            buffer.destroy()
        self._input_buffers = self._output_buffers = []
        if self._model is not None:
            self._model.close()
        self._model = None


def _count_delegated(interpreter: Any) -> tuple[int | None, int | None, int | None]:
    """Operators of the model, partitions that a delegate took, and operators inside them; None if not told.

    A delegate's partition stands in the list of operators beside those it replaced.
    """
    try:
        nodes = interpreter._get_ops_details()
    except (AttributeError, RuntimeError, ValueError):
        return None, None, None
    operators = [node for node in nodes if node["op_name"] != "DELEGATE"]
    partitions = [node for node in nodes if node["op_name"] == "DELEGATE"]
    producers = {int(tensor): node for node in operators for tensor in node["outputs"]}
    replaced = set[int]().union(*(replaced_by(partition, producers) for partition in partitions))
    return len(operators), len(partitions), len(replaced)


def replaced_by(partition: Mapping[str, Any], producers: Mapping[int, Mapping[str, Any]]) -> set[int]:
    """Return indices of the operators that a delegate's partition replaces: those between its outputs and its inputs.

    `producers`: tensor → the operator that makes it, as the interpreter lists them.
    """
    border = {int(tensor) for tensor in partition["inputs"]}
    open_tensors = [int(tensor) for tensor in partition["outputs"]]
    replaced: set[int] = set()
    while open_tensors:
        node = producers.get(open_tensors.pop())
        if node is not None and int(node["index"]) not in replaced:
            replaced.add(int(node["index"]))
            open_tensors.extend(int(tensor) for tensor in node["inputs"] if int(tensor) not in border)
    return replaced


def spec_of(detail: Mapping[str, Any]) -> TensorSpec:
    """Return an input or output of the engine."""
    import numpy as np

    shape = tuple(int(size) for size in detail["shape"])
    return TensorSpec(name=detail["name"], shape=shape, dtype=np.dtype(detail["dtype"]).name)
