"""Source networks with intermediate tensors as further outputs, to find the operator that a converter gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.converting.paths import KERAS_MODEL, MODULE
from edgewise.converting.torch_program import TorchSource
from edgewise.errors import Unavailable
from edgewise.model.identity import read_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A floating-point tensor that an operator makes, and that can become an output.

    Attributes:
        tensor: its name.
        operator: name of the operator that makes it, the type of the operator in `op`.
        inputs: tensors that the operator reads.
        output: its place among the outputs of the source; None for an intermediate tensor.
    """

    tensor: str
    operator: str
    op: str
    inputs: tuple[str, ...]
    output: int | None = None


def find_points(kind: str, source: Any) -> list[Point]:
    """Return the tensors of a source that can be exposed, in the order of computation.

    Args:
        kind: of the source, as `edgewise.converting.paths.paths_from` has it.
        source: as `edgewise.converting.conversion.open_source` gives it.

    Raises `Unavailable`: a network in this format can't be cut, with the reason.
    """
    if kind == MODULE:
        return _torch_points(source)
    if kind == KERAS_MODEL:
        return _keras_points(source)
    if kind not in _FILES:
        raise Unavailable(f"edgewise can't add outputs to a model in the format {kind}")
    graph = read_graph(source)
    # Tensors of functions have other names in an ONNX file.
    own = _onnx_names(source) if kind == "onnx" else graph.tensors
    return [
        Point(
            tensor=name, operator=each.label or each.name, op=each.op, inputs=tuple(filter(None, each.inputs)),
            output=_place(name, graph.outputs),
        )
        for each in graph.operators
        for name in each.outputs
        if name in own and graph.tensors[name].dtype.startswith(("float", "bfloat"))
    ]  # fmt: skip


def _place(name: str, outputs: Sequence[str]) -> int | None:
    return list(outputs).index(name) if name in outputs else None


def expose(kind: str, source: Any, tensors: Sequence[str], folder: Path) -> Any:
    """Return the same source with `tensors` as outputs behind its own; a file is written to `folder`.

    Raises `Unavailable`: the network can't be cut.
    """
    try:
        if kind == MODULE:
            return _expose_torch(source, tensors)
        if kind == KERAS_MODEL:
            import keras

            outputs = (source.get_layer(name).output for name in tensors)
            return keras.Model(source.inputs, [*source.outputs, *outputs])
        path = folder / Path(source).name
        _FILES[kind](source, path, tensors)
        return path
    except Exception as error:  # a library may raise anything about a generated graph
        raise Unavailable(f"intermediate tensors of the source can't be made outputs: {error}") from error


def _torch_points(source: TorchSource) -> list[Point]:
    found = []
    nodes = source.trace().graph.nodes
    outputs = [each.name for node in nodes if node.op == "output" for each in node.all_input_nodes]
    for node in nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and getattr(getattr(value, "dtype", None), "is_floating_point", False):
            scopes = node.meta.get("nn_module_stack") or {}
            scope = next((path for path, _ in reversed(list(scopes.values())) if path), "")
            name = f"{scope}/{node.name}" if scope else node.name
            inputs = tuple(each.name for each in node.all_input_nodes)
            found.append(
                Point(
                    tensor=node.name, operator=name, op=str(node.target), inputs=inputs,
                    output=_place(node.name, outputs),
                )
            )  # fmt: skip
    return found


def _expose_torch(source: TorchSource, tensors: Sequence[str]) -> TorchSource:
    import torch

    module = source.trace()
    nodes = {node.name: node for node in module.graph.nodes}
    (last,) = (node for node in module.graph.nodes if node.op == "output")
    own = torch.utils._pytree.tree_leaves(last.args[0])
    last.args = ((*own, *(nodes[name] for name in tensors)),)
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    module.recompile()
    plain = torch.fx.GraphModule(module, module.graph)
    with torch.no_grad():
        return TorchSource(torch.export.export(plain, source.inputs), plain)


def _keras_points(model: Any) -> list[Point]:
    makers: dict[int, str] = {}
    found = []
    outputs = [id(each) for each in model.outputs]
    for layer in model.layers:
        for node in layer._inbound_nodes[:1]:
            tensors, inputs = node.output_tensors, node.input_tensors
            if len(tensors) == 1 and str(tensors[0].dtype).startswith("float") and inputs:
                makers[id(tensors[0])] = layer.name
                read = tuple(makers[id(each)] for each in inputs if id(each) in makers)
                place = outputs.index(id(tensors[0])) if id(tensors[0]) in outputs else None
                found.append(
                    Point(tensor=layer.name, operator=layer.name, op=type(layer).__name__, inputs=read, output=place)
                )
    return found


def _onnx_names(source: Path) -> set[str]:
    """Tensors of the main graph."""
    import onnx

    return {name for node in onnx.load(str(source), load_external_data=False).graph.node for name in node.output}


def add_onnx_outputs(model: Any, tensors: Sequence[str], *, typed: Mapping[str, Any] | None = None) -> list[str]:
    """Make tensors of an ONNX model outputs behind its own; those of them that its nodes make.

    `typed`: what is known of them; an engine finds the types of the others.
    """
    import onnx

    made = {name for node in model.graph.node for name in node.output}
    there = {each.name for each in model.graph.output}
    found = [name for name in tensors if name in made]
    known = typed or {}
    more = [known.get(name) or onnx.ValueInfoProto(name=name) for name in found if name not in there]
    model.graph.output.extend(more)
    return found


def _expose_onnx(source: Path, path: Path, tensors: Sequence[str]) -> None:
    import onnx

    model = onnx.load(str(source))
    known = {info.name: info for info in onnx.shape_inference.infer_shapes(model).graph.value_info}
    plain = {name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in tensors}
    add_onnx_outputs(model, tensors, typed=plain | known)
    onnx.save(model, str(path), save_as_external_data=model.ByteSize() > 2**30)


def _expose_tflite(source: Path, path: Path, tensors: Sequence[str]) -> None:
    from ai_edge_litert.tools import flatbuffer_utils

    model = flatbuffer_utils.read_model(str(source))
    graph = model.subgraphs[0]
    places = {
        name: int(place)
        for each in read_graph(source).operators
        for name, place in zip(each.outputs, graph.operators[each.index].outputs, strict=True)
    }
    graph.outputs = [*(int(place) for place in graph.outputs), *(places[name] for name in tensors)]
    model.signatureDefs = None
    flatbuffer_utils.write_model(model, str(path))


_FILES: dict[str, Callable[[Path, Path, Sequence[str]], None]] = {"onnx": _expose_onnx, "tflite": _expose_tflite}
"""Format of a file → the function that adds outputs."""
