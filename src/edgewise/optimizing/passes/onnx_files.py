"""Reads and writes ONNX files for passes: with weights inside or beside them, and a name for every node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgewise.model.readers.base import order_by_needs
from edgewise.model.readers.onnx import MAX_BYTES, OnnxReader
from edgewise.model.readers.onnx_blocks import replace_nodes
from edgewise.optimizing.libraries import CannotApply, refusing

MAX_INSIDE = 2**30
"""Larger models, in bytes, are written with their weights in a separate file: protobuf holds less than 2 GiB."""
NATIVE = ("", "ai.onnx")
_PER_CHANNEL_OPSET = 13
"""First operator set in which QuantizeLinear and DequantizeLinear support a scale per channel."""


def load_model(path: str | Path) -> Any:
    """Return the ``onnx.ModelProto`` at `path` with its weights, its functions inlined, its nodes named (`name_nodes`).

    Raises:
        BadModel: weights are outside the model's folder, missing or too short.
        CannotApply: the model is too large for protobuf.
    """
    import onnx

    path = Path(path)
    files = OnnxReader().weight_files(path)
    if sum(file.stat().st_size for file in (path, *files)) > MAX_BYTES:
        raise CannotApply("the model with its weights has more than 2 GiB, the limit of protobuf")
    model = onnx.load(str(path))
    if model.functions:
        import onnx.inliner

        model = onnx.inliner.inline_local_functions(model)
    name_nodes(model, path)
    return model


def save_model(model: Any, path: Path) -> Path:
    """Write `model` to `path`; big weights go to a file beside it. Returns `path`."""
    import onnx

    if model.ByteSize() > MAX_INSIDE:
        onnx.save_model(model, str(path), save_as_external_data=True, location=f"{path.name}.data")
    else:
        onnx.save_model(model, str(path))
    return path


def name_nodes(model: Any, path: Path) -> None:
    """Give every node of the main graph the name of its operator in edgewise's graph: its own, else its output's.

    Args:
        path: the file of `model`, which is read again if names are not unique.
    """
    wanted = [node.name or first_output(node) for node in model.graph.node]
    if model.functions or len(set(wanted)) != len(wanted):
        # The reader numbers equal names.
        graph = OnnxReader().read_graph(path)
        told = {next(filter(None, each.outputs), ""): each.name for each in graph.operators}
        wanted = _complete([told.get(first_output(node)) for node in model.graph.node], wanted)
    for node, name in zip(model.graph.node, wanted, strict=True):
        node.name = name


def _complete(told: Sequence[str | None], wanted: Sequence[str]) -> list[str]:
    """`told`; for constants, which are not operators, `wanted`, with a number if that name is taken."""
    taken = {name for name in told if name is not None}
    names = []
    for name, other in zip(told, wanted, strict=True):
        unique, count = name if name is not None else other, 1
        while name is None and unique in taken:
            count += 1
            unique = f"{other} #{count}"
        taken.add(unique)
        names.append(unique)
    return names


def first_output(node: Any) -> str:
    """Return the name of the first output; "" where there is none."""
    return next(filter(None, node.output), "")


def opset(model: Any) -> int:
    """Return the version of ONNX's own operator set; 0 where the model uses none."""
    return max((each.version for each in model.opset_import if each.domain in NATIVE), default=0)


def raise_opset(model: Any) -> Any:
    """Return the model with an operator set that has scales per channel.

    Raises `CannotApply` if the conversion fails.
    """
    if opset(model) >= _PER_CHANNEL_OPSET:
        return model
    from onnx import version_converter

    _free_weights_of_inputs(model)
    with refusing(f"its operator set {opset(model)} can't be raised to {_PER_CHANNEL_OPSET}"):
        return version_converter.convert_version(model, _PER_CHANNEL_OPSET)


def _free_weights_of_inputs(model: Any) -> None:
    """Remove weights from the inputs, where old files list them: optimisers don't fold inputs."""
    weights = {tensor.name for tensor in model.graph.initializer}
    kept = [info for info in model.graph.input if info.name not in weights]
    if len(kept) < len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(kept)
        model.ir_version = max(model.ir_version, 4)


def sort_nodes(model: Any) -> Any:
    """Sort the nodes of the main graph topologically, as ONNX requires, in place. Returns `model`."""
    replace_nodes(model.graph, in_order(model.graph.node))
    return model


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Return the nodes in topological order, otherwise in their own. Some tools append new nodes at the end.

    Raises:
        CannotApply: the nodes form a cycle.
    """
    made = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    order, _ = order_by_needs([{made[name] for name in _taken(node) if name in made} for node in nodes])
    if len(order) < len(nodes):
        raise CannotApply("its nodes form a cycle")
    return [nodes[index] for index in order]


def _taken(node: Any) -> Iterator[str]:
    """Tensors that a node and the graphs within it read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _taken(inner)


def copy_model(model: Any) -> Any:
    """Return a copy of an ``onnx.ModelProto``."""
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def count_nodes(model: Any) -> Counter[str]:
    """Type of operator → number of nodes in the main graph."""
    return Counter(node.op_type for node in model.graph.node)
