"""An int8 TFLite network with its constants and scales, as the lowering needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadModel
from edgewise.model.readers.tflite_schema import DTYPES, OPERATORS
from edgewise.model.readers.tflite_tables import Table, Tables, Vector, open_tables

LAYOUTS = {
    "float32": "<f4",
    "int8": "<i1",
    "uint8": "<u1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "bool": "?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntTensor:
    """A tensor.

    Attributes:
        shape: with open dimensions set to 1, as tflite-micro does.
        scales: one per tensor or per channel; empty where it is not quantised.
        zero_point: of the first channel.
        axis: along which `scales` differ.
        data: elements of a constant; None for an activation.
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
    """An operator: its builtin code by name, its tensors (None for an optional one that is left out), its options."""

    index: int
    code: str
    inputs: tuple[IntTensor | None, ...]
    outputs: tuple[IntTensor, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def input(self, place: int) -> IntTensor:
        """An input that must be there. Raises `BadModel`."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise BadModel(f"operator {self.index} ({self.code}) has no input {place}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class IntNetwork:
    """The first subgraph of a file."""

    tensors: tuple[IntTensor, ...]
    operators: tuple[IntOperator, ...]
    inputs: tuple[IntTensor, ...]
    outputs: tuple[IntTensor, ...]


def read_network(path: Path) -> IntNetwork:
    """The network in a TFLite file. Raises `BadModel` where it is damaged or has several subgraphs."""
    with open_tables(path) as tables:
        model = tables.read_model()
        if len(model["subgraphs"]) != 1:
            raise BadModel(f"{path.name}: it has {len(model['subgraphs'])} subgraphs; only one can be lowered")
        graph = model["subgraphs"][0]
        tensors = tuple(_tensor(tables, model, at, record) for at, record in enumerate(graph["tensors"]))
        codes = [_code(each) for each in model["operator_codes"]]
        operators = tuple(
            IntOperator(
                index=at,
                code=codes[record["opcode_index"]] if record["opcode_index"] < len(codes) else "?",
                inputs=tuple(tensors[i] if 0 <= i < len(tensors) else None for i in tables.numbers(record["inputs"])),
                outputs=tuple(tensors[i] for i in tables.numbers(record["outputs"])),
                options=record["builtin_options"][1] if record["builtin_options"] else {},
            )
            for at, record in enumerate(graph["operators"])
        )
        return IntNetwork(
            tensors=tensors,
            operators=operators,
            inputs=tuple(tensors[i] for i in tables.numbers(graph["inputs"])),
            outputs=tuple(tensors[i] for i in tables.numbers(graph["outputs"])),
        )


def _code(record: Table) -> str:
    number = max(record["deprecated_builtin_code"], record["builtin_code"])
    return OPERATORS[number] if 0 <= number < len(OPERATORS) else f"operator {number}"


def _tensor(tables: Tables, model: Table, at: int, record: Table) -> IntTensor:
    dtype = DTYPES.get(record["type"], f"type {record['type']}")
    shape = tuple(max(1, size) for size in tables.numbers(record["shape"]))
    quantization = record["quantization"] or {}
    scales = _array(tables, quantization.get("scale"), "<f4")
    zeros = _array(tables, quantization.get("zero_point"), "<i8")
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
        zero_point=int(zeros[0]) if len(zeros) else 0,
        axis=quantization.get("quantized_dimension", 0),
        data=data,
        variable=bool(record["is_variable"]),
    )


def _array(tables: Tables, vector: Vector | None, layout: str) -> NDArray[Any]:
    if vector is None:
        return np.zeros(0, layout)
    size = vector.length * np.dtype(layout).itemsize
    return np.frombuffer(bytes(tables.buffer[vector.start : vector.start + size]), layout)
