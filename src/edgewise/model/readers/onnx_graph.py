"""An ONNX model as a `edgewise.model.graph.Graph`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.model.cost import stored_size
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.onnx import interpret
from edgewise.model.dialects.onnx_ml import OPTION_WEIGHTS
from edgewise.model.graph import BITS, Graph, Operator, Quantization, StoredData, Tensor
from edgewise.model.readers import onnx_packed
from edgewise.model.readers.onnx_blocks import NATIVE, Block, OnnxNode, as_tensor, inner_blocks
from edgewise.model.readers.onnx_types import (
    Proto,
    Shapes,
    Wrong,
    find_data,
    merge_shapes,
    read_attribute,
    read_constant,
    read_first,
    read_text,
    read_type,
    read_values,
)
from edgewise.model.readers.onnx_wire import Description
from edgewise.model.readers.unique_names import UniqueNames

STANDARD = frozenset({*NATIVE, "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training"})
"""Operator sets of the ONNX standard; operators of others are custom."""

#: Operator → which value a scale and a zero point describe: an input (≥ 0) or the output (-1), scale, zero point.
_QUANTIZED: dict[str, tuple[tuple[int, int, int], ...]] = {
    "QuantizeLinear": ((-1, 1, 2),),
    "DequantizeLinear": ((0, 1, 2),),
    "QLinearConv": ((0, 1, 2), (3, 4, 5), (-1, 6, 7)),
    "QLinearMatMul": ((0, 1, 2), (3, 4, 5), (-1, 6, 7)),
    "QLinearAdd": ((0, 1, 2), (3, 4, 5), (-1, 6, 7)),
    "QLinearMul": ((0, 1, 2), (3, 4, 5), (-1, 6, 7)),
    "QLinearGlobalAveragePool": ((0, 1, 2), (-1, 3, 4)),
    "QLinearAveragePool": ((0, 1, 2), (-1, 3, 4)),
    "QLinearLeakyRelu": ((0, 1, 2), (-1, 3, 4)),
    "QLinearSigmoid": ((0, 1, 2), (-1, 3, 4)),
}
_MAX_TEXT = 1000
MAX_ELEMENTS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a model's values beside what the package's shape inference tells.

    Graphs are called by paths: "" is the outermost one; the graph in attribute ``body`` of the node whose first output
    is ``y`` in the graph ``p`` is ``p/y.body``.

    Attributes:
        shapes: path of a graph → its values.
        times: path of an inner graph → how often it ran each time its node ran, where that is always the same.
    """

    shapes: Mapping[str, Shapes] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)


def name_inner(path: str, outputs: Sequence[str], key: str) -> str:
    """Path of the graph in attribute `key` of the node with these outputs in the graph `path`."""
    return f"{path}/{next(filter(None, outputs), '')}.{key}"


@dataclass(frozen=True, slots=True)
class Source:
    """What graphs are read from.

    Attributes:
        description: tells what was left out of the model.
        dtypes: number of an element type → its name.
        versions: domain → version of its operator set.
        declared: what the file itself says of values.
    """

    description: Description
    dtypes: Mapping[int, str]
    versions: Mapping[str, int]
    declared: Shapes
    observed: Observed = Observed()


@dataclass(slots=True)
class _Scope:
    """What is known of the values that one graph's nodes can see.

    Attributes:
        tensors: of this graph.
        outer: of the graphs around it.
        constants: messages of constants, those of the graphs around it with them.
        path: of the graph, as `Observed` has it.
    """

    tensors: dict[str, Tensor]
    outer: Mapping[str, Tensor]
    constants: dict[str, Proto]
    path: str = ""

    def look_up(self, name: str) -> Tensor:
        """The tensor; one from outside becomes a tensor of this graph too."""
        tensor = self.tensors.get(name)
        if tensor is None:
            tensor = self.outer.get(name) or Tensor(name=name, shape=None, dtype="undefined")
            self.tensors[name] = tensor
        return tensor


def read_declared(block: Block, dtypes: Mapping[int, str]) -> Shapes:
    """What a graph, and those inside it, declare of their values."""
    declared: Shapes = {}
    for each in inner_blocks(block):
        for info in (*each.proto.value_info, *each.proto.output):
            if info.HasField("type"):
                declared.setdefault(read_text(info.name), read_type(info.type, dtypes))
    return declared


def make_graph(model: Proto, block: Block, source: Source, *, notes: tuple[str, ...] = ()) -> Graph:
    """The graph of a model whose nodes stand in order.

    Args:
        notes: why shapes may be missing; they become its metadata `shape_inference`.

    Raises:
        Wrong: a constant that can't be.
        UnicodeDecodeError: a name that is no text.
    """
    graph = _make(block, source, _Scope({}, {}, {}))
    opset = source.versions.get("")
    metadata: dict[str, Any] = {
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in source.versions.items()},
        "properties": {_cut(entry.key): _cut(entry.value) for entry in model.metadata_props[:100]},
    }
    for name in ("producer_version", "domain", "doc_string"):
        if getattr(model, name):
            metadata[name] = _cut(getattr(model, name))
    if model.model_version:
        metadata["model_version"] = model.model_version
    if notes:
        metadata["shape_inference"] = "; ".join(map(_cut, notes))
    return replace(
        graph,
        producer=_cut(model.producer_name),
        version=f"opset {opset}" if opset is not None else f"IR {model.ir_version}",
        metadata=metadata,
    )


def _cut(text: str | bytes) -> str:
    text = read_text(text)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _make(block: Block, source: Source, scope: _Scope) -> Graph:
    graph = block.proto
    inputs = _read_constants_and_inputs(block, source, scope)
    types: Shapes = {}
    for info in (*graph.value_info, *graph.output):
        types[info.name] = read_type(info.type, source.dtypes)
    observed = source.observed.shapes.get(scope.path, {})
    for step in block.steps:
        for name in step.outputs:
            if name and name not in scope.tensors:
                scope.tensors[name] = _read_result(name, types, (observed, source.declared))
        if step.op == "Dropout" and len(step.outputs) == 2:
            _complete_mask(step, scope)
        if step.op in _QUANTIZED:
            _quantize(step, source, scope)
        if step.op in onnx_packed.SCALES and step.domain == "com.microsoft":
            _unpack(step, source, scope)
    operators: list[Operator] = []
    subgraphs: dict[str, Graph] = {}
    names = UniqueNames("{} ({})", longest=sys.maxsize)
    results = {info.name for info in graph.output}
    for step in block.steps:
        if not step.is_constant and not (step.op == "ConstantOfShape" and _fill(step, scope, results)):
            name = names.take(read_text(step.proto.name) or next(filter(None, step.outputs), "") or step.op)
            inner = _read_inner(step, name, source, scope) if step.inner else {}
            subgraphs |= inner
            operators.append(_read_operator(step, name, tuple(inner), (len(operators), source, scope)))
    outputs = tuple(dict.fromkeys([info.name for info in graph.output]))
    for name in outputs:
        scope.look_up(name)
    for name, tensor in scope.tensors.items():
        if (tensor.elements or 0) > MAX_ELEMENTS:
            raise Wrong(f"{read_text(name)!r} has {tensor.elements} elements")
        read_text(name)
    return Graph(
        name=read_text(graph.name),
        format="onnx",
        tensors=scope.tensors,
        operators=tuple(operators),
        inputs=tuple(inputs),
        outputs=outputs,
        subgraphs=subgraphs,
    )


def _read_constants_and_inputs(block: Block, source: Source, scope: _Scope) -> list[str]:
    look_up, graph = source.description.look_up, block.proto
    for tensor in graph.initializer:
        if tensor.name:
            _add_constant(tensor, tensor.name, source, scope)
    for sparse in graph.sparse_initializer:
        if sparse.values.name:
            _add_sparse(sparse, sparse.values.name, source, scope)
    for step in block.steps:
        if step.is_constant:
            attribute, name = step.attributes[0], step.outputs[0]
            if attribute.name == "sparse_value":
                _add_sparse(attribute.sparse_tensor, name, source, scope)
            else:
                _add_constant(as_tensor(attribute, look_up(attribute)), name, source, scope)
    inputs = []
    for info in graph.input:
        if info.name not in scope.tensors:
            types = {info.name: read_type(info.type, source.dtypes)}
            scope.tensors[info.name] = _read_result(info.name, types, [source.observed.shapes.get(scope.path, {})])
            inputs.append(info.name)
    return inputs


def _add_constant(tensor: Proto, name: str, source: Source, scope: _Scope) -> None:
    gone = source.description.look_up(tensor)
    found = read_constant(tensor, name, gone, source.dtypes)
    scope.tensors[name] = replace(found, data=find_data(tensor, found.dtype, gone, source.description.path))
    scope.constants[name] = tensor


def _add_sparse(sparse: Proto, name: str, source: Source, scope: _Scope) -> None:
    look_up = source.description.look_up
    parts = [read_constant(each, name, look_up(each), source.dtypes) for each in (sparse.values, sparse.indices)]
    dense = read_constant(type(sparse.values)(dims=sparse.dims), name, None, source.dtypes)
    sizes = [part.size_bytes if part.stored_bytes is None else part.stored_bytes for part in parts]
    stored = None if None in sizes else sum(size or 0 for size in sizes)
    filled, elements = parts[0].elements or 0, dense.elements
    scope.tensors[name] = Tensor(
        name=name,
        shape=dense.shape,
        dtype=parts[0].dtype,
        constant=True,
        stored_bytes=stored,
        sparsity=max(0.0, 1 - filled / elements) if elements else None,
        data=find_data(sparse.values, parts[0].dtype, look_up(sparse.values), source.description.path),
    )


def _read_result(name: str, types: Shapes, others: Iterable[Shapes]) -> Tensor:
    """The value as inferred; what that leaves open as the first of `others` that knows it tells."""
    dtype, shape = types.get(name, ("undefined", None))
    told, other = next((each[name] for each in others if name in each), ("undefined", None))
    return Tensor(name=name, shape=merge_shapes(shape, other), dtype=told if dtype == "undefined" else dtype)


def _complete_mask(step: OnnxNode, scope: _Scope) -> None:
    """Gives the mask of a Dropout the data's shape, of which the package's inference for old opsets says nothing."""
    data, mask = scope.tensors.get(step.outputs[0]), scope.tensors.get(step.outputs[1])
    if data is not None and mask is not None and mask.shape is None:
        dtype = "bool" if mask.dtype == "undefined" else mask.dtype
        scope.tensors[mask.name] = replace(mask, shape=data.shape, dtype=dtype)


def _fill(step: OnnxNode, scope: _Scope, results: Set[str]) -> bool:
    """Makes a constant of what a ConstantOfShape of a constant shape makes: a weight of one value throughout.

    Returns whether it is one; where its shape is computed it stays an operator.
    """
    if step.domain not in NATIVE or len(step.inputs) != 1 or len(step.outputs) != 1:
        return False
    made = scope.tensors.get(step.outputs[0])
    if step.inputs[0] not in scope.constants or made is None or made.size_bytes is None or made.name in results:
        return False
    element = BITS.get(made.dtype, 0) // 8
    scope.tensors[made.name] = replace(made, constant=True, stored_bytes=element)
    return True


def _read_inner(step: OnnxNode, name: str, source: Source, scope: _Scope) -> dict[str, Graph]:
    visible = {**scope.outer, **scope.tensors}
    return {
        f"{name}.{key}": _make(
            block, source, _Scope({}, visible, dict(scope.constants), name_inner(scope.path, step.outputs, key))
        )
        for key, block in step.inner
    }


def _read_operator(
    step: OnnxNode, name: str, subgraphs: tuple[str, ...], place: tuple[int, Source, _Scope]
) -> Operator:
    index, source, scope = place
    plain, shown = _read_attributes(step.attributes, source) if step.attributes else ({}, {})
    inputs, outputs, look_up = step.inputs, step.outputs, scope.look_up
    semantics = interpret(
        RawOperator(
            op=step.op,
            domain=step.domain,
            version=source.versions.get(step.domain, 0),
            attributes=plain,
            inputs=[look_up(each) if each else None for each in inputs],
            outputs=[look_up(each) if each else None for each in outputs],
            values=lambda at: _read_input(inputs, at, source, scope),
        )
    )
    weights = _find_weights(semantics, inputs, scope) if semantics.weights else ()
    geometry = semantics.geometry
    if step.inner:
        geometry = _read_repetitions(step, name, geometry, (source, scope))
    return Operator(
        index=index,
        name=name,
        op=step.op,
        kind=semantics.kind,
        inputs=inputs,
        outputs=outputs,
        weights=weights,
        option_weights=_find_option_weights(step, name, source, scope) if step.domain == "ai.onnx.ml" else (),
        geometry=geometry,
        attributes=shown,
        domain=step.domain,
        custom=step.domain not in STANDARD,
        subgraphs=subgraphs,
        unknown_because=semantics.why,
        label=_find_label(step, name, weights) or step.path,
    )


def _read_repetitions(
    step: OnnxNode, name: str, geometry: Mapping[str, Any], place: tuple[Source, _Scope]
) -> Mapping[str, Any]:
    """`geometry` with the branch that runs and how often a body does, where that was observed."""
    source, scope = place
    times = {key: source.observed.times.get(name_inner(scope.path, step.outputs, key)) for key, _ in step.inner}
    if step.op == "If" and sorted(map(str, times.values())) == ["0", "1"]:
        return {**geometry, "branch": next(f"{name}.{key}" for key, count in times.items() if count)}
    if step.op == "Loop" and None not in times.values():
        return {**geometry, "trips": sum(count or 0 for count in times.values())}
    if step.op == "Loop" and _may_stop(step):
        return {key: value for key, value in geometry.items() if key != "trips"}
    return geometry


def _find_label(step: OnnxNode, name: str, weights: Sequence[str]) -> str:
    """The module of a PyTorch network that an operator comes from, and its name, as ``torch.onnx.export`` tells them.

    The exporter's note lists the modules around it and its own name: ``['', 'features', 'features.17', 'conv2d']``.
    Operators that were made of several, or of a function, lack modules; then their weights have the module's name.
    """
    notes = (entry.value for entry in step.proto.metadata_props if entry.key == "pkg.torch.onnx.name_scopes")
    note = read_text(next(notes, ""))
    own = name.removeprefix("node_")
    if not note and own == name:
        return ""
    modules = [text for text in re.findall(r"'([^']*)'", note[:_MAX_TEXT])[:-1] if text]
    modules = modules or [text for each in weights if (text := each.rpartition(".")[0])]
    return f"{modules[-1]}/{own}" if modules else ""


def _find_weights(semantics: Semantics, inputs: tuple[str, ...], scope: _Scope) -> tuple[str, ...]:
    there = [inputs[at] for at in semantics.weights if at < len(inputs) and inputs[at]]
    return tuple([name for name in there if scope.tensors[name].constant])


def _find_option_weights(step: OnnxNode, name: str, source: Source, scope: _Scope) -> tuple[str, ...]:
    """Adds the parameters that stand in an operator's options to the constants, and names them."""
    found = []
    for attribute in step.attributes:
        if attribute.name not in OPTION_WEIGHTS.get(step.op, ()):
            continue
        own, gone = f"{name}.{attribute.name}", source.description.look_up(attribute)
        while own in scope.tensors:
            own += "'"
        if attribute.HasField("t"):
            tensor = attribute.t
            scope.tensors[own] = read_constant(tensor, own, source.description.look_up(tensor), source.dtypes)
        else:
            length = gone.count if gone is not None and gone.field else len(attribute.floats) + len(attribute.ints)
            dtype = "int64" if attribute.name.endswith("int64s") else "float32"
            scope.tensors[own] = Tensor(name=own, shape=(length,), dtype=dtype, constant=True)
        found.append(own)
    return tuple(found)


def _read_attributes(attributes: Iterable[Proto], source: Source) -> tuple[dict[str, Any], dict[str, Any]]:
    plain: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    for attribute in attributes:
        value, short = read_attribute(attribute, source.description.look_up(attribute), source.dtypes)
        if value is not None:
            plain[attribute.name] = value
        if short is not None:
            shown[attribute.name] = short
    return plain, shown


def _read_input(inputs: tuple[str, ...], at: int, source: Source, scope: _Scope) -> tuple[int | float, ...] | None:
    tensor = scope.constants.get(inputs[at]) if at < len(inputs) else None
    return None if tensor is None else read_values(tensor, source.description.look_up(tensor))


def _may_stop(step: OnnxNode) -> bool:
    """Whether a Loop can end before its trips are done: unless its body hands on the condition or a constant truth."""
    return any(not _goes_on(body) for _, body in step.inner)


def _goes_on(body: Block) -> bool:
    graph = body.proto
    if len(graph.input) < 2 or not graph.output:
        return False
    name = graph.output[0].name
    for step in reversed(body.steps):
        if name in step.outputs:
            if step.is_constant:
                return read_values(as_tensor(step.attributes[0], None), None) in _TRUE
            if step.op != "Identity" or len(step.inputs) != 1:
                return False
            name = step.inputs[0]
    if any(tensor.name == name and read_values(tensor, None) in _TRUE for tensor in graph.initializer):
        return True
    return bool(name == graph.input[1].name)


_TRUE = ((True,), (1,))


def _quantize(step: OnnxNode, source: Source, scope: _Scope) -> None:
    """Notes on every value that a node quantises, or takes as quantised, what its integers stand for."""
    for at, scale, zero in _QUANTIZED[step.op]:
        names = step.outputs if at < 0 else step.inputs
        name = names[max(at, 0)] if len(names) > max(at, 0) else ""
        tensor = scope.look_up(name) if name else None
        if tensor is not None and tensor.constant:
            scope.tensors[name] = tensor = replace(tensor, scales=_find_scales(step, (scale, zero), scope))
        if tensor is not None and tensor.quantization is None:
            found = _read_quantization(step, scale, zero, (source, scope))
            if found is not None:
                scope.tensors[name] = replace(tensor, quantization=found)


def _find_scales(step: OnnxNode, positions: Iterable[int], scope: _Scope) -> dict[str, int | None]:
    """The constants among the inputs at `positions`, and what they take in the file, bytes."""
    names = [step.inputs[at] for at in positions if at < len(step.inputs)]
    found = {name: scope.look_up(name) for name in names if name}
    return {name: stored_size(tensor) for name, tensor in found.items() if tensor.constant}


def _unpack(step: OnnxNode, source: Source, scope: _Scope) -> None:
    """Describes a weight in bytes as the weight of few bits that the operator takes from it."""
    at = onnx_packed.WEIGHTS.get(step.op, 1)
    if not len(step.inputs) > max(at, 2):
        return
    options, _ = _read_attributes(step.attributes, source)
    inputs = [scope.look_up(name) if name else None for name in step.inputs]
    scales = scope.constants.get(step.inputs[2])
    first = None if scales is None else read_first(scales, source.description.look_up(scales))
    found = onnx_packed.unpack(step.op, options, inputs, (first, _read_input(step.inputs, 2, source, scope)))
    if found is not None and not scope.tensors[found.name].container:
        scales_of = _find_scales(step, onnx_packed.SCALES[step.op], scope)
        scope.tensors[found.name] = replace(found, scales=scales_of)


def _read_quantization(step: OnnxNode, scale: int, zero: int, place: tuple[Source, _Scope]) -> Quantization | None:
    source, scope = place
    found: list[int | float | None] = []
    for at in (scale, zero):
        name = step.inputs[at] if at < len(step.inputs) else ""
        tensor = scope.constants.get(name)
        found.append(None if tensor is None else read_first(tensor, source.description.look_up(tensor)))
        if name and found[-1] is None:
            return None
    if found[0] is None:
        return None
    channels = scope.look_up(step.inputs[scale]).elements or 1
    options, _ = _read_attributes(step.attributes, source)
    block = options.get("block_size")
    axis = options.get("axis", 1) if step.op in ("QuantizeLinear", "DequantizeLinear") else 0
    if isinstance(axis, int) and axis < 0:
        axis += len(scope.look_up(step.inputs[0]).shape or ())
    return Quantization(
        scale=float(found[0]),
        zero_point=int(found[1] or 0),
        channels=channels,
        axis=axis if channels > 1 and isinstance(axis, int) else None,
        block=block if isinstance(block, int) and block > 0 else None,
        zero_points=_several_zeros(step, zero, scope),
    )


def _several_zeros(step: OnnxNode, zero: int, scope: _Scope) -> StoredData | None:
    tensor = scope.look_up(step.inputs[zero]) if zero < len(step.inputs) and step.inputs[zero] else None
    return tensor.data if tensor is not None and tensor.elements != 1 else None
