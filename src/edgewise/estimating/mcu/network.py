"""An int8 TFLite network with its constants and scales, as the lowering needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadModel
from edgewise.model.readers.tflite_schema import DTYPES, OPERATORS
from edgewise.model.readers.tflite_tables import Table, Tables, Vector, open_tables
from edgewise.text import one_line

LAYOUTS = {
    "float32": "<f4",
    "int8": "<i1",
    "uint8": "<u1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "bool": "?",
}
_ZERO_POINTS = {"int8": range(-128, 128), "uint8": range(256), "int16": range(-(2**15), 2**15)}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntTensor:
    """A tensor.

    Attributes:
        shape: with open dimensions set to 1, as tflite-micro does.
        scales: one per tensor or per channel; empty where it is not quantised.
        zero_point: of the first channel.
        axis: along which `scales` differ.
        data: elements of a constant; None for an activation.
        variable: whether it keeps its value from one inference to the next.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: NDArray[np.float32]
    zero_point: int = 0
    axis: int = 0
    data: NDArray[Any] | None = None
    variable: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    @property
    def bytes(self) -> int:
        """Size of its elements."""
        return self.elements * np.dtype(LAYOUTS.get(self.dtype, "<i4")).itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class IntOperator:
    """An operator: its builtin code by name, its tensors (None for an optional one that is left out), its options.

    Attributes:
        body: operators of the subgraph that CALL_ONCE executes.
    """

    index: int
    code: str
    inputs: tuple[IntTensor | None, ...]
    outputs: tuple[IntTensor, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    body: tuple[IntOperator, ...] = ()

    def input(self, place: int) -> IntTensor:
        """Return an input that must be there. Raises `BadModel`."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise BadModel(f"operator {self.index} ({self.code}) has no input {place}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class IntNetwork:
    """The first subgraph of a file, and the subgraphs that it calls once.

    A handle of a state (VAR_HANDLE) is replaced with the state itself, a variable tensor.
    """

    operators: tuple[IntOperator, ...]
    inputs: tuple[IntTensor, ...]
    outputs: tuple[IntTensor, ...]

    @property
    def variables(self) -> tuple[IntTensor, ...]:
        """Tensors that keep their value from one inference to the next, each once."""
        operators = [each for operator in self.operators for each in (operator, *operator.body)]
        used = (tensor for each in operators for tensor in (*each.inputs, *each.outputs) if tensor is not None)
        return tuple({tensor.index: tensor for tensor in used if tensor.variable}.values())


def read_network(path: Path) -> IntNetwork:
    """Return the network in a TFLite file. Raises `BadModel` where it is damaged."""
    with open_tables(path) as tables:
        model = tables.read_model()
        codes = [_code(each) for each in model["operator_codes"]]
        graphs: list[tuple[tuple[IntTensor, ...], list[IntOperator]]] = []
        for graph in model["subgraphs"]:
            before = sum(len(tensors) for tensors, _ in graphs)
            tensors = tuple(_tensor(tables, model, before + at, record) for at, record in enumerate(graph["tensors"]))
            operators = [_operator(tables, codes, tensors, at, each) for at, each in enumerate(graph["operators"])]
            graphs.append((tensors, operators))
        _resolve_states([operators for _, operators in graphs])
        tensors, operators = graphs[0]
        for at, operator in enumerate(operators):
            called = operator.options.get("init_subgraph_index", 0) if operator.code == "CALL_ONCE" else 0
            if 0 < called < len(graphs):
                operators[at] = replace(operator, body=tuple(graphs[called][1]))
        graph = model["subgraphs"][0]
        return IntNetwork(
            operators=tuple(operators),
            inputs=tuple(tensors[i] for i in tables.numbers(graph["inputs"])),
            outputs=tuple(tensors[i] for i in tables.numbers(graph["outputs"])),
        )


def _operator(
    tables: Tables, codes: Sequence[str], tensors: Sequence[IntTensor], at: int, record: Table
) -> IntOperator:
    return IntOperator(
        index=at,
        code=codes[record["opcode_index"]] if record["opcode_index"] < len(codes) else "?",
        inputs=tuple(tensors[i] if 0 <= i < len(tensors) else None for i in tables.numbers(record["inputs"])),
        outputs=tuple(tensors[i] for i in tables.numbers(record["outputs"])),
        options=record["builtin_options"][1] if record["builtin_options"] else {},
    )


def _resolve_states(graphs: Sequence[list[IntOperator]]) -> None:
    """Replace handles in place. A state has the type and shape of the first value that is assigned to it."""
    names: dict[int, tuple[str, str]] = {}
    states: dict[tuple[str, str], IntTensor] = {}
    for operators in graphs:
        for operator in operators:
            if operator.code == "VAR_HANDLE" and operator.outputs:
                name = str(operator.options.get("container") or ""), str(operator.options.get("shared_name") or "")
                names[operator.outputs[0].index] = name
    for operator in chain.from_iterable(graphs):
        handle = operator.inputs[0] if operator.inputs else None
        if operator.code == "ASSIGN_VARIABLE" and handle is not None and handle.index in names:
            name = names[handle.index]
            like = replace(operator.input(1), index=-1 - len(states), name=name[1] or "state", data=None, variable=True)
            states.setdefault(name, like)
    known = {index: states[name] for index, name in names.items() if name in states}
    for operators in graphs:
        for at, operator in enumerate(operators):
            operators[at] = replace(
                operator,
                inputs=tuple(each and known.get(each.index, each) for each in operator.inputs),
                outputs=tuple(known.get(each.index, each) for each in operator.outputs),
            )


def _code(record: Table) -> str:
    number = max(record["deprecated_builtin_code"], record["builtin_code"])
    name = OPERATORS[number] if 0 <= number < len(OPERATORS) else f"operator {number}"
    return f"custom operator {one_line(str(record['custom_code']))}" if name == "CUSTOM" else name


def _tensor(tables: Tables, model: Table, at: int, record: Table) -> IntTensor:
    dtype = DTYPES.get(record["type"], f"type {record['type']}")
    shape = tuple(max(1, size) for size in tables.numbers(record["shape"]))
    quantization = record["quantization"] or {}
    scales = _array(tables, quantization.get("scale"), "<f4")
    zeros = _array(tables, quantization.get("zero_point"), "<i8")
    zero = int(zeros[0]) if len(zeros) else 0
    if zero not in _ZERO_POINTS.get(dtype, (zero,)):
        raise BadModel(f"{tables.path.name}: tensor {at} has the zero point {zero}, which {dtype} can't have")
    data = None
    buffer = model["buffers"][record["buffer"]] if record["buffer"] < len(model["buffers"]) else None
    stored = buffer["data"] if buffer else None
    if stored is not None and stored.length and dtype in LAYOUTS:
        raw = bytes(tables.buffer[stored.start : stored.start + stored.length])
        if len(raw) != max(1, int(np.prod(shape, dtype=np.int64))) * np.dtype(LAYOUTS[dtype]).itemsize:
            raise BadModel(f"{tables.path.name}: tensor {at} has {len(raw)} bytes, which its shape {shape} does not")
        data = np.frombuffer(raw, LAYOUTS[dtype]).reshape(shape)
    return IntTensor(
        index=at,
        name=record["name"] or f"tensor_{at}",
        shape=shape,
        dtype=dtype,
        scales=scales.astype(np.float32),
        zero_point=zero,
        axis=quantization.get("quantized_dimension", 0),
        data=data,
        variable=bool(record["is_variable"]),
    )


def _array(tables: Tables, vector: Vector | None, layout: str) -> NDArray[Any]:
    if vector is None:
        return np.zeros(0, layout)
    size = vector.length * np.dtype(layout).itemsize
    return np.frombuffer(bytes(tables.buffer[vector.start : vector.start + size]), layout)
