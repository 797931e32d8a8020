"""PyTorch modules and exports as files: ``.pt2``, ONNX and TFLite, by PyTorch's own exporters and litert-torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.converting.base import ConvertOptions, calling, plain_shape
from edgewise.model.build_network import BuiltModel, export_program

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


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
        """A new module of the export, made without running code that a file may bring."""
        from edgewise.runtime.torch_program import guarded

        with guarded():
            return self.program.module()

    @property
    def runnable(self) -> Callable[..., Any]:
        """The module, or that of the export."""
        return self.trace() if self.module is None else self.module  # type: ignore[no-any-return]


def load_torch(path: Path) -> TorchSource:
    """The program in a ``.pt2`` file, loaded with guards against code in it; raises as the runtime PyTorch does."""
    from edgewise.runtime.torch_program import load_program

    return TorchSource(load_program(path))


def export_built(built: BuiltModel) -> TorchSource:
    """The PyTorch network that a function made, with the inputs with which its graph was read. Raises `BadInput`."""
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


def run_torch(source: TorchSource, feed: Sequence[Array]) -> list[Array]:
    """The outputs of the network on one array per input, in inference mode."""
    import torch

    with torch.no_grad():
        made = source.runnable(*(torch.from_numpy(array) for array in feed))
    return [each.detach().numpy() for each in torch.utils._pytree.tree_leaves(made)]
