"""PyTorch modules and exports as files, by PyTorch's own exporters, ExecuTorch's and litert-torch."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.converting.base import ConvertOptions, calling, plain_shape
from edgewise.model.build_network import BuiltModel, export_program

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array


@dataclass(frozen=True, slots=True)
class TorchSource:
    """A network of PyTorch.

    Attributes:
        program: a ``torch.export.ExportedProgram``.
        module: the ``torch.nn.Module`` that it was exported from; None where there is only the export.
    """

    program: Any
    module: Any = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Example inputs: its own, or zeros of the shapes that it was exported with. A file may have none."""
        import torch

        if self.program.example_inputs is not None and self.program.example_inputs[0]:
            return tuple(self.program.example_inputs[0])
        names = set(self.program.graph_signature.user_inputs)
        values = [
            node.meta["val"] for node in self.program.graph.nodes if node.op == "placeholder" and node.name in names
        ]
        return tuple(torch.zeros([int(size) for size in each.shape], dtype=each.dtype) for each in values)

    def trace(self) -> Any:
        """Return a new module of the export, made without running code that a file may bring."""
        from edgewise.runtime.torch_program import guarded

        with guarded():
            return self.program.module()

    @property
    def runnable(self) -> Callable[..., Any]:
        """The module, or that of the export."""
        return self.trace() if self.module is None else self.module  # type: ignore[no-any-return]


def load_torch(path: Path) -> TorchSource:
    """Return the program in a ``.pt2`` file, loaded with guards against code; raises as the runtime PyTorch does."""
    from edgewise.runtime.torch_program import load_program

    return TorchSource(load_program(path))


def export_built(built: BuiltModel) -> TorchSource:
    """Return the PyTorch network that a function made, with the inputs its graph was read with. Raises `BadInput`."""
    network = built.made
    if network.kind == "exported":
        return TorchSource(network.value)
    shapes = {name: built.graph.tensors[name].shape for name in built.graph.inputs}
    closed = {name: plain_shape(shape) for name, shape in shapes.items() if shape is not None}
    program = export_program(network, closed if network.inputs is None else {}, built.target)
    return TorchSource(program, network.value.eval())


@contextlib.contextmanager
def _without_places(program: Any) -> Iterator[None]:
    """Without the lines of source that made each operator: they have the folder, so files would differ by it."""
    import torch

    graphs = [each.graph for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)]
    traces = [
        (node.meta, node.meta.pop("stack_trace"))
        for graph in graphs
        for node in graph.nodes
        if "stack_trace" in node.meta
    ]
    try:
        yield
    finally:
        for meta, trace in traces:
            meta["stack_trace"] = trace


def write_pt2(source: TorchSource, path: Path, options: ConvertOptions) -> None:
    """Save the export."""
    del options
    import torch

    with calling("torch.export", to="a .pt2 file"), _without_places(source.program), path.open("wb") as stream:
        torch.export.save(source.program, stream)  # given a path, it writes the file's name into the file


def write_onnx(source: TorchSource, path: Path, options: ConvertOptions) -> None:
    """Export to ONNX; weights are inside the file, and beside it where they exceed protobuf's limit of 2 GiB."""
    import torch

    with calling("PyTorch", to="ONNX"), _without_places(source.program):
        torch.onnx.export(
            source.program, (), path, dynamo=True, verbose=False, external_data=False, opset_version=options.opset
        )


def write_tflite(source: TorchSource, path: Path, options: ConvertOptions) -> None:
    """Convert to TFLite, in float32; the layout of inputs stays the module's."""
    del options
    with calling("litert-torch", to="TFLite"):
        import litert_torch

        litert_torch.convert(source.runnable, source.inputs).export(str(path))


def write_executorch(source: TorchSource, path: Path, options: ConvertOptions) -> str:
    """Lower to ExecuTorch, XNNPACK for what it supports. Returns which operators it does not run, and why."""
    del options
    reasons = _Reasons()
    with calling("ExecuTorch", to="ExecuTorch's format"), _without_places(source.program), reasons:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        lowered = to_edge_transform_and_lower(source.program, partitioner=[XnnpackPartitioner()])
        steps = [each for each in lowered.exported_program().graph.nodes if each.op == "call_function"]
        path.write_bytes(lowered.to_executorch().buffer)
    names = {each.name: op for each in steps if (op := _operator_of(each))}
    words = [f"{op} ({reason})" if (reason := reasons.found.get(name)) else op for name, op in names.items()]
    return f"not run by XNNPACK: {', '.join(dict.fromkeys(words))}" if words else "XNNPACK runs all of its operators"


def _operator_of(node: Any) -> str:
    """``aten.mean.dim``; "" for what is no operator: the call of a delegate, an item of a tuple."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or "::" not in schema.name:
        return ""
    return ".".join(filter(None, (schema.name.replace("::", "."), schema.overload_name)))


class _Reasons(logging.Handler):
    """Why XNNPACK's partitioner leaves operators out, which it only logs.

    Attributes:
        found: name of a step → the first reason.
    """

    _LOGGER = logging.getLogger("executorch.backends.xnnpack.partition")

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the reason of a ``WhyNoPartition``; other records say nothing of a step."""
        node, reason = getattr(record.msg, "node", None), getattr(record.msg, "reason", "")
        if node is not None and reason:
            self.found.setdefault(node.name, " ".join(str(reason).split()).rstrip("."))

    def __enter__(self) -> None:
        self._level, self._passes = self._LOGGER.level, self._LOGGER.propagate
        self._LOGGER.setLevel(logging.DEBUG)
        self._LOGGER.propagate = False
        self._LOGGER.addHandler(self)

    def __exit__(self, *error: object) -> None:
        self._LOGGER.removeHandler(self)
        self._LOGGER.setLevel(self._level)
        self._LOGGER.propagate = self._passes


def run_torch(source: TorchSource, feed: Sequence[Array]) -> list[Array]:
    """Return the outputs of the network on one array per input, in inference mode."""
    import torch

    with torch.no_grad():
        made = source.runnable(*(torch.from_numpy(array) for array in feed))
    return [each.detach().numpy() for each in torch.utils._pytree.tree_leaves(made)]
