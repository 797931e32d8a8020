"""ONNX files as passes take and make them: weights inside or beside them, every node with its operator's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgewise.model.readers.base import order_by_needs
from edgewise.model.readers.onnx import MAX_BYTES, OnnxReader
from edgewise.model.readers.onnx_order import replace_nodes
from edgewise.optimizing.libraries import CannotApply, refusing

MAX_INSIDE = 2**30
"""Models of more bytes are written with their weights in a file beside them: protobuf holds less than 2 GiB."""
NATIVE = ("", "ai.onnx")
_PER_CHANNEL_OPSET = 13
"""The first in which QuantizeLinear and DequantizeLinear take a scale per channel."""


def load_model(path: str | Path) -> Any:
    """The ``onnx.ModelProto`` at `path` with its weights, its functions written out, its nodes named.

    A node's name is that of its operator in the graph that edgewise reads (`name_nodes`).

    Raises:
        BadModel: weights that lie outside the model's folder, are missing or too short.
        CannotApply: more than protobuf holds.
    """
    import onnx

    path = Path(path)
    files = OnnxReader().weight_files(path)
    if sum(file.stat().st_size for file in (path, *files)) > MAX_BYTES:
        raise CannotApply("the model with its weights has more than 2 GiB, more than passes can hold in one message")
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
    """Give every node of the main graph the name that edgewise's reader gives its operator: its own, else its output's.

    Args:
        path: the file that `model` is from; read again only where names would not be unique.
    """
    wanted = [node.name or first_output(node) for node in model.graph.node]
    if model.functions or len(set(wanted)) != len(wanted):
        # Doubled names get numbers in the order in which the reader comes across them.
        graph = OnnxReader().read_graph(path)
        told = {next(filter(None, each.outputs), ""): each.name for each in graph.operators}
        wanted = _complete([told.get(first_output(node)) for node in model.graph.node], wanted)
    for node, name in zip(model.graph.node, wanted, strict=True):
        node.name = name


def _complete(told: Sequence[str | None], wanted: Sequence[str]) -> list[str]:
    """`told`, and for nodes that are no operators (constants) `wanted` with a number where that name is taken."""
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
    """The name of the first output that is there; "" where there is none."""
    return next(filter(None, node.output), "")


def opset(model: Any) -> int:
    """The version of ONNX's own operator set; 0 where the model uses none."""
    return max((each.version for each in model.opset_import if each.domain in NATIVE), default=0)


def raise_opset(model: Any, least: int = _PER_CHANNEL_OPSET) -> Any:
    """The model with at least this version of ONNX's operator set. Raises `CannotApply` where it can't be converted."""
    if opset(model) >= least:
        return model
    from onnx import version_converter

    _free_weights_of_inputs(model)
    with refusing(f"its operator set {opset(model)} can't be raised to {least}"):
        return version_converter.convert_version(model, least)


def _free_weights_of_inputs(model: Any) -> None:
    """Weights that old files list as inputs too would be inputs that can change, which no optimiser may fold."""
    weights = {tensor.name for tensor in model.graph.initializer}
    kept = [info for info in model.graph.input if info.name not in weights]
    if len(kept) < len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(kept)
        model.ir_version = max(model.ir_version, 4)


def sort_nodes(model: Any) -> Any:
    """Put the nodes of the main graph in the order in which they run, as ONNX wants it, in place. Returns `model`."""
    replace_nodes(model.graph, in_order(model.graph.node))
    return model


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Nodes so that each follows what it reads; otherwise they keep their order.

    Tools append what they add at the end, and engines put up with that.

    Raises:
        CannotApply: some wait for one another.
    """
    made = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    order, _ = order_by_needs([{made[name] for name in _taken(node) if name in made} for node in nodes])
    if len(order) < len(nodes):
        raise CannotApply("its nodes wait for one another")
    return [nodes[index] for index in order]


def _taken(node: Any) -> Iterator[str]:
    """Tensors that a node takes, those of the graphs within it too."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _taken(inner)


def copy_model(model: Any) -> Any:
    """A copy of an ``onnx.ModelProto``."""
    copy = type(model)()
    copy.CopyFrom(model)
    return copy


def count_nodes(model: Any) -> Counter[str]:
    """Type of operator → how many nodes of it the main graph has."""
    return Counter(node.op_type for node in model.graph.node)
