"""An ONNX model as a `edgewise.model.graph.Graph`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.model.cost import add_known, stored_size
from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.onnx import OPTION_WEIGHTS, interpret
from edgewise.model.graph import BITS, Graph, Operator, Quantization, Tensor
from edgewise.model.readers import onnx_packed
from edgewise.model.readers.base import Wrong, read_first
from edgewise.model.readers.onnx_blocks import NATIVE, Block, OnnxNode, as_tensor, inner_blocks
from edgewise.model.readers.onnx_types import (
    Proto,
    Shapes,
    find_data,
    merge_shapes,
    read_attribute,
    read_constant,
    read_text,
    read_type,
    read_values,
)
from edgewise.model.readers.onnx_wire import Description, LeftOut
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


def read_declared(block: Block, dtypes: Mapping[int, str]) -> Shapes:
    """Return what a graph, and those inside it, declare of their values."""
    declared: Shapes = {}
    for each in inner_blocks(block):
        for info in (*each.proto.value_info, *each.proto.output):
            if info.HasField("type"):
                declared.setdefault(read_text(info.name), read_type(info.type, dtypes))
    return declared


def make_graph(model: Proto, block: Block, source: Source, *, notes: tuple[str, ...] = ()) -> Graph:
    """Return the graph of a model whose nodes stand in order.

    Args:
        notes: why shapes may be missing; they become its metadata `shape_inference`.

    Raises:
        Wrong: a constant that can't be.
        UnicodeDecodeError: a name that is no text.
    """
    graph = _GraphReader(source).read(block)
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


@dataclass(slots=True)
class _GraphReader:
    """Reads one graph of a model.

    Attributes:
        outer: tensors of the graphs around it.
        constants: messages of constants, those of the graphs around it with them.
        path: of the graph, as `Observed` has it.
        tensors: of this graph.
        inputs: names of its inputs that are no constants.
        made_by: value → the node that makes it.
    """

    source: Source
    outer: Mapping[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Proto] = field(default_factory=dict)
    path: str = ""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    made_by: dict[str, OnnxNode] = field(default_factory=dict)

    def read(self, block: Block) -> Graph:
        """Return the graph of `block`. Raises as `make_graph`."""
        graph = block.proto
        observed = self.source.observed.shapes.get(self.path, {})
        inputs = self.inputs = self._read_constants_and_inputs(block, observed)
        self.made_by = {name: step for step in block.steps for name in step.outputs}
        types = {info.name: read_type(info.type, self.source.dtypes) for info in (*graph.value_info, *graph.output)}
        for step in block.steps:
            for name in step.outputs:
                if name and name not in self.tensors:
                    self.tensors[name] = _read_result(name, types, (observed, self.source.declared))
            if step.op == "Dropout" and len(step.outputs) == 2:
                self._complete_mask(step)
            if step.op in _QUANTIZED:
                self._quantize(step)
            if step.op in onnx_packed.SCALES and step.domain == "com.microsoft":
                self._unpack(step)
        operators: list[Operator] = []
        subgraphs: dict[str, Graph] = {}
        names = UniqueNames("{} ({})", longest=sys.maxsize)
        results = {info.name for info in graph.output}
        for step in block.steps:
            if not step.is_constant and not (step.op == "ConstantOfShape" and self._fill(step, results)):
                name = names.take(read_text(step.proto.name) or next(filter(None, step.outputs), "") or step.op)
                inner = self._read_inner(step, name) if step.inner else {}
                subgraphs |= inner
                operators.append(self._read_operator(step, name, len(operators), subgraphs=tuple(inner)))
        outputs = tuple(dict.fromkeys([info.name for info in graph.output]))
        for name in outputs:
            self._look_up(name)
        for name, tensor in self.tensors.items():
            if (tensor.elements or 0) > MAX_ELEMENTS:
                raise Wrong(f"{read_text(name)!r} has {tensor.elements} elements")
            read_text(name)
        return Graph(
            name=read_text(graph.name),
            format="onnx",
            tensors=self.tensors,
            operators=tuple(operators),
            inputs=tuple(inputs),
            outputs=outputs,
            subgraphs=subgraphs,
        )

    def _look_up(self, name: str) -> Tensor:
        """Return the tensor; one from outside becomes a tensor of this graph too."""
        tensor = self.tensors.get(name)
        if tensor is None:
            tensor = self.outer.get(name) or Tensor(name=name, shape=None, dtype="undefined")
            self.tensors[name] = tensor
        return tensor

    def _left_out(self, message: Proto) -> LeftOut | None:
        return self.source.description.look_up(message)

    def _read_constants_and_inputs(self, block: Block, observed: Shapes) -> list[str]:
        graph = block.proto
        for tensor in graph.initializer:
            if tensor.name:
                self._add_constant(tensor, tensor.name)
        for sparse in graph.sparse_initializer:
            if sparse.values.name:
                self._add_sparse(sparse, sparse.values.name)
        for step in block.steps:
            if step.is_constant:
                attribute, name = step.attributes[0], step.outputs[0]
                if attribute.name == "sparse_value":
                    self._add_sparse(attribute.sparse_tensor, name)
                else:
                    self._add_constant(as_tensor(attribute, self._left_out(attribute)), name)
        inputs = []
        for info in graph.input:
            if info.name not in self.tensors:
                types = {info.name: read_type(info.type, self.source.dtypes)}
                self.tensors[info.name] = _read_result(info.name, types, [observed])
                inputs.append(info.name)
        return inputs

    def _add_constant(self, tensor: Proto, name: str) -> None:
        gone = self._left_out(tensor)
        found = read_constant(tensor, name, gone, self.source.dtypes)
        data = find_data(tensor, found.dtype, gone, self.source.description.path)
        self.tensors[name] = replace(found, data=data)
        self.constants[name] = tensor

    def _add_sparse(self, sparse: Proto, name: str) -> None:
        parts = [
            read_constant(each, name, self._left_out(each), self.source.dtypes)
            for each in (sparse.values, sparse.indices)
        ]
        dense = read_constant(type(sparse.values)(dims=sparse.dims), name, None, self.source.dtypes)
        filled, elements = parts[0].elements or 0, dense.elements
        self.tensors[name] = Tensor(
            name=name,
            shape=dense.shape,
            dtype=parts[0].dtype,
            constant=True,
            stored_bytes=add_known([stored_size(part) for part in parts]),
            sparsity=max(0.0, 1 - filled / elements) if elements else None,
            data=find_data(sparse.values, parts[0].dtype, self._left_out(sparse.values), self.source.description.path),
        )

    def _complete_mask(self, step: OnnxNode) -> None:
        """Give the mask of a Dropout the data's shape, of which the inference for old opsets says nothing."""
        data, mask = self.tensors.get(step.outputs[0]), self.tensors.get(step.outputs[1])
        if data is not None and mask is not None and mask.shape is None:
            dtype = "bool" if mask.dtype == "undefined" else mask.dtype
            self.tensors[mask.name] = replace(mask, shape=data.shape, dtype=dtype)

    def _fill(self, step: OnnxNode, results: Set[str]) -> bool:
        """Make a constant of what a ConstantOfShape of a constant shape makes: a weight of one value throughout.

        Returns whether it is one; where its shape is computed it stays an operator.
        """
        if step.domain not in NATIVE or len(step.inputs) != 1 or len(step.outputs) != 1:
            return False
        made = self.tensors.get(step.outputs[0])
        if step.inputs[0] not in self.constants or made is None or made.size_bytes is None or made.name in results:
            return False
        element = BITS.get(made.dtype, 0) // 8
        self.tensors[made.name] = replace(made, constant=True, stored_bytes=element, repeated=True)
        return True

    def _read_inner(self, step: OnnxNode, name: str) -> dict[str, Graph]:
        visible = {**self.outer, **self.tensors}
        return {
            f"{name}.{key}": _GraphReader(
                self.source, visible, dict(self.constants), name_inner(self.path, step.outputs, key)
            ).read(block)
            for key, block in step.inner
        }

    def _read_operator(self, step: OnnxNode, name: str, index: int, *, subgraphs: tuple[str, ...]) -> Operator:
        plain, shown = self._read_attributes(step.attributes) if step.attributes else ({}, {})
        long = [(each.name, self._left_out(each)) for each in step.attributes] if step.domain == "ai.onnx.ml" else []
        inputs, outputs = step.inputs, step.outputs
        semantics = interpret(
            RawOperator(
                op=step.op,
                domain=step.domain,
                version=self.source.versions.get(step.domain, 0),
                attributes=plain,
                inputs=[self._look_up(each) if each else None for each in inputs],
                outputs=[self._look_up(each) if each else None for each in outputs],
                values=lambda at: self._read_values(inputs, at),
                lengths={name: gone.count for name, gone in long if gone is not None and gone.field},
            )
        )
        there = [inputs[at] for at in semantics.weights if at < len(inputs) and inputs[at]]
        if step.op == "Mul" and any(self._is_scale(each) for each in inputs):
            there = []  # the scale of a weight, by which that of the data is multiplied
        weights = tuple([each for each in there if self.tensors[each].constant])
        geometry = semantics.geometry
        if step.inner:
            geometry = self._read_repetitions(step, name, geometry)
        return Operator(
            index=index,
            name=name,
            op=step.op,
            kind=semantics.kind,
            inputs=inputs,
            outputs=outputs,
            weights=weights,
            option_weights=self._find_option_weights(step, name) if step.domain == "ai.onnx.ml" else (),
            geometry=geometry,
            attributes=shown,
            domain=step.domain,
            custom=step.domain not in STANDARD,
            subgraphs=subgraphs,
            unknown_because=semantics.why or self._name_source(step),
            label=_find_label(step, name, weights) or step.path,
        )

    def _is_scale(self, name: str) -> bool:
        """Whether a value is the scale that dynamic quantisation finds."""
        maker = self.made_by.get(name)
        return maker is not None and maker.op == "DynamicQuantizeLinear" and maker.outputs[1:2] == (name,)

    def _read_repetitions(self, step: OnnxNode, name: str, geometry: Mapping[str, Any]) -> Mapping[str, Any]:
        """`geometry` with the branch that runs and how often a body does, where that was observed."""
        observed = self.source.observed.times
        times = {key: observed.get(name_inner(self.path, step.outputs, key)) for key, _ in step.inner}
        if step.op == "If" and sorted(map(str, times.values())) == ["0", "1"]:
            return {**geometry, "branch": next(f"{name}.{key}" for key, count in times.items() if count)}
        if step.op == "Loop" and None not in times.values():
            return {**geometry, "trips": sum(count or 0 for count in times.values())}
        if step.op == "Loop" and _may_stop(step):
            return {key: value for key, value in geometry.items() if key != "trips"}
        return geometry

    def _name_source(self, step: OnnxNode) -> str:
        """Which input of the model decides how often a loop runs or which branch does; "" where none does directly."""
        noun = {"Loop": "the number of repetitions", "If": "the branch that runs"}.get(step.op)
        name = step.inputs[0] if noun and step.inputs and not self.path else ""
        for _ in range(len(_SAME_VALUE)):
            before = self.made_by.get(name)
            if before is None or before.op not in _SAME_VALUE or not before.inputs:
                break
            name = before.inputs[0]
        return f"{noun} is decided by the input {name!r}" if name in self.inputs else ""

    def _find_option_weights(self, step: OnnxNode, name: str) -> tuple[str, ...]:
        """Add the parameters that stand in an operator's options to the constants, and name them."""
        found = []
        for attribute in step.attributes:
            if attribute.name not in OPTION_WEIGHTS.get(step.op, ()):
                continue
            own, gone = f"{name}.{attribute.name}", self._left_out(attribute)
            while own in self.tensors:
                own += "'"
            if attribute.HasField("t"):
                tensor = attribute.t
                self.tensors[own] = read_constant(tensor, own, self._left_out(tensor), self.source.dtypes)
            else:
                length = gone.count if gone is not None and gone.field else len(attribute.floats) + len(attribute.ints)
                dtype = "int64" if attribute.name.endswith("int64s") else "float32"
                self.tensors[own] = Tensor(name=own, shape=(length,), dtype=dtype, constant=True)
            found.append(own)
        return tuple(found)

    def _read_attributes(self, attributes: Iterable[Proto]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Plain values of attributes for formulas, and the values as an operator shows them."""
        plain: dict[str, Any] = {}
        shown: dict[str, Any] = {}
        for attribute in attributes:
            value, short = read_attribute(attribute, self._left_out(attribute), self.source.dtypes)
            if value is not None:
                plain[attribute.name] = value
            if short is not None:
                shown[attribute.name] = short
        return plain, shown

    def _read_values(self, inputs: tuple[str, ...], at: int) -> tuple[int | float, ...] | None:
        tensor = self.constants.get(inputs[at]) if at < len(inputs) else None
        return None if tensor is None else read_values(tensor, self._left_out(tensor))

    def _read_first(self, name: str) -> int | float | None:
        """Return the first element of the constant `name`, None where it can't be told."""
        tensor = self.constants.get(name)
        if tensor is None:
            return None
        if self._left_out(tensor) is not None:
            return read_first(self.tensors.get(name) or self.outer[name])
        values = read_values(tensor, None)
        return values[0] if values else None

    def _quantize(self, step: OnnxNode) -> None:
        """Note on every value that a node quantises, or takes as quantised, what its integers stand for."""
        for at, scale, zero in _QUANTIZED[step.op]:
            names = step.outputs if at < 0 else step.inputs
            name = names[max(at, 0)] if len(names) > max(at, 0) else ""
            tensor = self._look_up(name) if name else None
            if tensor is not None and tensor.constant:
                self.tensors[name] = tensor = replace(tensor, scales=self._find_scales(step, (scale, zero)))
            if tensor is not None and tensor.quantization is None:
                found = self._read_quantization(step, scale, zero)
                if found is not None:
                    self.tensors[name] = replace(tensor, quantization=found)

    def _find_scales(self, step: OnnxNode, positions: Iterable[int]) -> dict[str, int | None]:
        """Return the constants among the inputs at `positions`, and what they take in the file, bytes."""
        names = [step.inputs[at] for at in positions if at < len(step.inputs)]
        found = {name: self._look_up(name) for name in names if name}
        return {name: stored_size(tensor) for name, tensor in found.items() if tensor.constant}

    def _unpack(self, step: OnnxNode) -> None:
        """Describe a weight in bytes as the weight of few bits that the operator takes from it."""
        at = onnx_packed.WEIGHTS.get(step.op, 1)
        if not len(step.inputs) > max(at, 2):
            return
        options, _ = self._read_attributes(step.attributes)
        inputs = [self._look_up(name) if name else None for name in step.inputs]
        numbers = self._read_first(step.inputs[2]), self._read_values(step.inputs, 2)
        found = onnx_packed.unpack(step.op, options, inputs, numbers)
        if found is not None and not self.tensors[found.name].container:
            self.tensors[found.name] = replace(found, scales=self._find_scales(step, onnx_packed.SCALES[step.op]))

    def _read_quantization(self, step: OnnxNode, scale: int, zero: int) -> Quantization | None:
        names = [step.inputs[at] if at < len(step.inputs) else "" for at in (scale, zero)]
        first, point = map(self._read_first, names)
        if first is None or (names[1] and point is None):
            return None
        channels = self._look_up(names[0]).elements or 1
        options, _ = self._read_attributes(step.attributes)
        block = options.get("block_size")
        axis = options.get("axis", 1) if step.op in ("QuantizeLinear", "DequantizeLinear") else 0
        if isinstance(axis, int) and axis < 0:
            axis += len(self._look_up(step.inputs[0]).shape or ())
        zeros = self._look_up(names[1]) if names[1] else None
        return Quantization(
            scale=float(first),
            zero_point=int(point or 0),
            channels=channels,
            axis=axis if channels > 1 and isinstance(axis, int) else None,
            block=block if isinstance(block, int) and block > 0 else None,
            zero_points=zeros.data if zeros is not None and zeros.elements != 1 else None,
        )


def _read_result(name: str, types: Shapes, others: Iterable[Shapes]) -> Tensor:
    """Return the value as inferred; what that leaves open as the first of `others` that knows it tells."""
    dtype, shape = types.get(name, ("undefined", None))
    other_dtype, other_shape = next((each[name] for each in others if name in each), ("undefined", None))
    return Tensor(
        name=name, shape=merge_shapes(shape, other_shape), dtype=other_dtype if dtype == "undefined" else dtype
    )


def _find_label(step: OnnxNode, name: str, weights: Sequence[str]) -> str:
    """Return the module of a PyTorch network that an operator comes from, and its name, as ``torch.onnx.export``
    tells them.

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


_SAME_VALUE = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that leave a number as it is."""


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
