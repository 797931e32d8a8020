"""A TFLite model as a graph: tensors and operators by name, subgraphs, entry points, and what the file says of itself.

Names: a tensor is called as in the file, a second one of the same name in the same subgraph with its index behind it. A
constant of another subgraph that shares its buffer with one of the first subgraph is the same weight and has the same
name there; one that only happens to be called the same gets its subgraph's name in front.

A tensor that DEQUANTIZE or DENSIFY makes of a constant counts as that constant: the interpreter computes it once, when
the model is loaded, and the operator that takes it is the one whose parameters they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.tflite import interpret
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.base import Wrong, check_shapes, read_values
from edgewise.model.readers.isolated import ask_for_shapes, parse_shape
from edgewise.model.readers.tflite_operators import ABSENT, TfliteOperator, TfliteOperatorReader, order_subgraphs
from edgewise.model.readers.tflite_tables import MAX_CHARACTERS, Table, Tables
from edgewise.model.readers.tflite_tensors import TensorReader
from edgewise.model.readers.unique_names import UniqueNames
from edgewise.model.signature import Shape

_MADE_ON_LOADING = frozenset({"DEQUANTIZE", "DENSIFY"})
_MAX_NOTE_BYTES = 256


def read_network(tables: Tables, model: Table, *, shapes: Mapping[str, tuple[int, ...]], entry: int = 0) -> Graph:
    """Return the graph of a model whose tables have been read: its subgraph `entry`.

    Raises:
        BadModel: an index leads nowhere, or operators are not in an order in which they can run.
        BadInput: `shapes` does not fit the inputs.
    """
    records: list[Table] = model["subgraphs"]
    if len({id(record) for record in records}) < len(records):
        raise Wrong("one subgraph is listed twice")
    reader, step_reader = TensorReader(tables, model), TfliteOperatorReader(tables, model)
    steps = [step_reader.read_all(record) for record in records]
    names = _name_subgraphs(records, entry)
    stored = _name_tensors(tables, records, [reader.read_all(record["tensors"]) for record in records], names)
    graphs: dict[int, Graph] = {}
    for at in order_subgraphs(steps):
        used = {index for step in steps[at] for index in step.subgraphs}
        if 0 in used:
            raise Wrong(f"subgraph {at} runs the first one")
        builder = _GraphBuilder(reader, steps[at], stored[at], names, settles=at == 0)
        given = shapes if at == entry else {}
        graphs[at] = builder.build(tables, records[at], {names[each]: graphs[each] for each in sorted(used)}, given)
    return _describe(tables, model, graphs[entry], entry=entry, stored=stored)


def _name_subgraphs(records: Sequence[Table], entry: int) -> list[str]:
    """Return the file's names, made unique; "" for the network itself."""
    names: list[str] = []
    for at, record in enumerate(records):
        name = "" if at == entry else record["name"] or f"subgraph_{at}"
        while at != entry and name in ("", *names):
            name += f"#{at}"
        names.append(name)
    return names


def _name_tensors(
    tables: Tables, records: Sequence[Table], stored: Sequence[Sequence[Tensor]], names: Sequence[str]
) -> list[list[Tensor]]:
    """Tensors of every subgraph by their names in the graph."""
    answer: dict[int, list[Tensor]] = {}
    weights: dict[tuple[Any, ...], str] = {}
    taken: set[str] = set()
    characters = 0
    for place in sorted(range(len(records)), key=lambda place: names[place] != ""):  # the network itself first
        record, tensors, prefix = records[place], stored[place], names[place]
        named: dict[int, str] = {}
        used: set[str] = set()
        # Inputs and outputs first: their names are a user's handles.
        public = [index for field in ("inputs", "outputs") for index in tables.numbers(record[field])]
        first = [index for index in dict.fromkeys(public) if 0 <= index < len(tensors)]
        for index in dict.fromkeys([*first, *range(len(tensors))]):
            tensor = tensors[index]
            name = tensor.name
            if prefix and tensor.constant:
                shared = weights.get(_identify(tensor), "")
                name = shared or (f"{prefix}/{name}" if name in taken else name)
            while name in used:
                name += f"#{index}"
            named[index] = name
            used.add(name)
            # A long name that thousands of tensors share is small in the file; made unique it is not.
            characters += len(name)
            if characters > MAX_CHARACTERS:
                raise Wrong(f"its names take more than {MAX_CHARACTERS} characters")
        here = [replace(each, name=named[at]) for at, each in enumerate(tensors)]
        if not prefix:
            weights = {_identify(each): each.name for each in here if each.data is not None}
            taken = set(weights.values())
        answer[place] = here
    return [answer[place] for place in range(len(records))]


def _identify(tensor: Tensor) -> tuple[Any, ...]:
    """Return what two tensors have in common that are one weight."""
    return tensor.data and tensor.data.offset, tensor.shape, tensor.dtype


class _GraphBuilder:
    """Makes the graph of one subgraph; `settles`: LiteRT can be asked for its shapes behind open dimensions."""

    def __init__(
        self,
        reader: TensorReader,
        steps: Sequence[TfliteOperator],
        stored: Sequence[Tensor],
        names: Sequence[str],
        *,
        settles: bool,
    ) -> None:
        self.settles = settles
        self.reader = reader
        self.steps = steps
        self.stored = stored
        self.names = names
        self.tensors = list(stored)
        self.taken = {tensor.name for tensor in self.tensors}
        # What is there before the first operator runs. A tensor without elements needs nobody to make it.
        self.ready = [each.constant or each.variable or each.elements == 0 for each in self.tensors]
        self.made = [False] * len(self.tensors)
        self.why = ""

    def build(
        self, tables: Tables, record: Table, inner: Mapping[str, Graph], shapes: Mapping[str, tuple[int, ...]]
    ) -> Graph:
        """Return the graph, whose operators run `inner`, for inputs of the `shapes`."""
        inputs = [self._find(index) for index in tables.numbers(record["inputs"])]
        outputs = [self._find(index) for index in tables.numbers(record["outputs"])]
        inputs = [index for index in dict.fromkeys(inputs) if not self.tensors[index].constant]
        self._infer_shapes({self.tensors[index].name: index for index in inputs}, shapes)
        for index in inputs:
            self.ready[index] = True
        operators = [self._operator(at, step) for at, step in enumerate(self.steps)]
        for index in outputs:
            if not self.ready[index]:
                raise Wrong(f"no operator makes its output {self.tensors[index].name!r}")
        return Graph(
            name=record["name"],
            format="tflite",
            tensors={tensor.name: tensor for tensor in self.tensors},
            operators=_label(operators),
            inputs=tuple(self.tensors[index].name for index in inputs),
            outputs=tuple(self.tensors[index].name for index in outputs),
            subgraphs=dict(inner),
            metadata={"unobserved": self.why} if self.why else {},
        )

    def _infer_shapes(self, inputs: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Give inputs their `shapes`, and all other tensors what LiteRT makes of them. Raises `BadInput`.

        A file holds two shapes of a tensor: `shape_signature`, where −1 is open, and `shape`, where the converter wrote
        1 for every −1, each tensor by itself. Neither tells what an interpreter will allocate.
        """
        check_shapes({name: self.tensors[index].shape for name, index in inputs.items()}, shapes)
        given = {inputs[name]: tuple(shape) for name, shape in shapes.items()}
        if all(self.tensors[index].shape == shape for index, shape in given.items()):
            return
        for index, shape in given.items():
            self._reshape(index, shape)
        answer, self.why = None, "LiteRT tells shapes behind open dimensions for the first subgraph only"
        if self.settles:
            by_index = [[index, list(shape)] for index, shape in given.items()]
            answer, self.why = ask_for_shapes("litert", self.reader.tables.path, by_index, shapes)
        found = [parse_shape(shape) for shape in answer["shapes"]] if answer else []
        for index, tensor in enumerate(self.tensors):
            if index not in given and not tensor.constant and tensor.shape:
                known = found[index] if index < len(found) else None
                # What the file fixes may be of its converter's batch.
                self._reshape(index, (None,) * len(tensor.shape) if known is None else known)

    def _find(self, index: int) -> int:
        if not 0 <= index < len(self.tensors):
            raise Wrong(f"it refers to tensor {index} of {len(self.tensors)}")
        return index

    def _reshape(self, index: int, shape: Shape | None) -> None:
        if shape is not None and shape != self.tensors[index].shape:
            self.tensors[index] = replace(self.tensors[index], shape=shape)
            self.reader.check_size(self.tensors[index])

    def _operator(self, at: int, step: TfliteOperator) -> Operator:
        self._check_order(at, step)
        raw = self._describe_operator(step)
        semantics = interpret(raw)
        if step.code.op in _MADE_ON_LOADING and not step.code.custom:
            self._keep_constant(step)
        weights = [step.inputs[each] for each in semantics.weights if each < len(step.inputs)]
        outputs = self._names(step.outputs)
        return Operator(
            index=at,
            name=next(filter(None, outputs), "") or self._invent_name(f"{step.code.op}#{at}"),
            op=step.code.op,
            kind=semantics.kind,
            inputs=self._names(step.inputs),
            outputs=outputs,
            weights=self._names([index for index in weights if index != ABSENT and self.tensors[index].constant]),
            geometry=semantics.geometry,
            attributes=step.attributes,
            custom=step.code.custom,
            subgraphs=tuple(self.names[index] for index in step.subgraphs),
            unknown_because=semantics.why,
        )

    def _check_order(self, at: int, step: TfliteOperator) -> None:
        for index in step.inputs:
            if index != ABSENT and not self.ready[index]:
                name = self.tensors[index].name
                raise Wrong(f"operator {at} ({step.code.op}) reads {name!r} before it is made")
        for index in step.outputs:
            if index == ABSENT:
                continue
            tensor = self.tensors[index]
            if self.made[index] or tensor.constant or (self.ready[index] and tensor.elements != 0):
                raise Wrong(f"operator {at} ({step.code.op}) makes {tensor.name!r}, which already exists")
            self.made[index] = self.ready[index] = True

    def _describe_operator(self, step: TfliteOperator) -> RawOperator:
        def values(position: int) -> tuple[int | float, ...] | None:
            index = step.inputs[position] if 0 <= position < len(step.inputs) else ABSENT
            return None if index == ABSENT else read_values(self.stored[index])

        return RawOperator(
            op=step.code.op,
            domain="custom" if step.code.custom else "",
            version=step.code.version,
            attributes=step.attributes,
            inputs=[None if index == ABSENT else self.tensors[index] for index in step.inputs],
            outputs=[None if index == ABSENT else self.tensors[index] for index in step.outputs],
            values=values,
        )

    def _keep_constant(self, step: TfliteOperator) -> None:
        """Note that what is computed of a constant on loading is one, and takes in the file what that takes."""
        if len(step.inputs) != 1 or len(step.outputs) != 1 or ABSENT in (*step.inputs, *step.outputs):
            return
        (source,), (target,) = step.inputs, step.outputs
        origin = self.tensors[source]
        if origin.constant and origin.elements == self.tensors[target].elements:
            stored_bytes = origin.stored_bytes or origin.size_bytes
            # Of integers, only those whose zero stands for 0 have the same zeros behind it.
            shifted = origin.quantization is not None and origin.quantization.zero_point != 0
            data = None if shifted else origin.data
            self.tensors[target] = replace(
                self.tensors[target], constant=True, stored_bytes=stored_bytes, sparsity=origin.sparsity, data=data
            )

    def _invent_name(self, name: str) -> str:
        """Return a name for an operator without outputs, which no tensor has."""
        while name in self.taken:
            name += "#"
        return name

    def _names(self, indices: Sequence[int]) -> tuple[str, ...]:
        return tuple("" if index == ABSENT else self.tensors[index].name for index in indices)


_DEFINED_IN = re.compile(r"(?<![^/])(?:\w+\.)+(?=\w)")
"""Of ``__main__.Net_n/torch.nn.modules.conv.Conv2d_0``, all but ``Net_n/Conv2d_0``."""


def _label(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return the operators, with labels where the converter has joined the names of all that it fused
    (``a/Relu;a/Conv2D``).

    An operator's own part is the one that the fewest others have, the last of them, as that is the product's. Of
    modules of PyTorch, the name of the class is kept, and not where it is defined.
    """
    count = Counter(part for operator in operators for part in set(operator.name.split(";")))
    taken = UniqueNames()
    labels: dict[int, str] = {}
    for operator in sorted(operators, key=lambda each: ";" in each.name):
        joined = operator.name.split(";")
        parts = [part for part in joined if part and not part.isdigit() and "ReadVariableOp" not in part]
        own = min(reversed(parts), key=count.__getitem__) if parts else operator.name
        own = taken.take(_DEFINED_IN.sub("", own) if "torch.nn." in own else own)
        labels[operator.index] = own if ";" in operator.name else ""
    return tuple(replace(operator, label=labels[operator.index]) for operator in operators)


def _describe(
    tables: Tables,
    model: Table,
    graph: Graph,
    *,
    entry: int,
    stored: Sequence[Sequence[Tensor]],
) -> Graph:
    """`graph`, which begins at subgraph `entry`, with the entry points and what the file says of itself."""
    signatures: dict[str, tuple[Tensor, ...]] = {}
    own = ""
    handles: dict[str, Any] = {}
    for record in model["signature_defs"]:
        key, at = record["signature_key"], record["subgraph_index"]
        if at >= len(stored):
            raise Wrong(f"its signature {key!r} refers to subgraph {at} of {len(stored)}")
        if key in signatures:
            raise Wrong(f"two of its signatures have the name {key!r}")
        taken = tables.numbers(model["subgraphs"][at]["inputs"])
        signatures[key] = tuple(stored[at][index] for index in taken if 0 <= index < len(stored[at]))
        own = own or (key if at == entry else "")
        handles[key] = {field: _read_handles(key, record[field], stored[at]) for field in ("inputs", "outputs")}
    notes = _read_notes(tables, model)
    metadata: dict[str, Any] = {"metadata": [record["name"] for record in model["metadata"]]}
    if model["description"]:
        metadata["description"] = model["description"]
    if handles:
        metadata["signatures"] = handles
    metadata |= notes
    return replace(
        graph,
        producer=_find_producer(tables, model),
        version=f"schema {model['version']}",
        signatures=signatures,
        signature=own,
        metadata={**metadata, **graph.metadata},
    )


def _read_handles(key: str, maps: Sequence[Table], stored: Sequence[Tensor]) -> dict[str, str]:
    """Return a signature's names → tensors."""
    for each in maps:
        if each["tensor_index"] >= len(stored):
            raise Wrong(f"its signature {key!r} refers to tensor {each['tensor_index']} of {len(stored)}")
    return {each["name"]: stored[each["tensor_index"]].name for each in maps}


def _read_notes(tables: Tables, model: Table) -> dict[str, str]:
    """Return the oldest runtime that runs the file, where it says so."""
    found: dict[str, str] = {}
    for record in model["metadata"]:
        if record["buffer"] >= len(model["buffers"]):
            raise Wrong(f"its metadata refer to buffer {record['buffer']} of {len(model['buffers'])}")
        data = model["buffers"][record["buffer"]]["data"]
        if record["name"] == "min_runtime_version" and data is not None and data.length <= _MAX_NOTE_BYTES:
            text = tables.buffer[data.start : data.start + data.length].split(b"\0")[0].decode(errors="replace")
            if text:
                found["min_runtime_version"] = text
    return found


def _find_producer(tables: Tables, model: Table) -> str:
    """TensorFlow's converter leaves its version in a flatbuffer of its own."""
    for record in model["metadata"]:
        data = model["buffers"][record["buffer"]]["data"]
        if record["name"] == "CONVERSION_METADATA" and data is not None:
            try:
                environment = tables.read_root("ConversionMetadata", data.start)["environment"]
            except (Wrong, UnicodeDecodeError):
                return ""  # a note that nobody runs; a model is not refused for it
            version = environment["tensorflow_version"] if environment else ""
            return f"TensorFlow {version}" if version else ""
    return ""
