"""Tensors of a TFLite file: shapes, constants and what they take, quantisation, sparsity, small values."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from edgewise.model.cost import stored_size
from edgewise.model.graph import BITS, Quantization, StoredData, Tensor
from edgewise.model.readers.base import MAX_RANK, damaged
from edgewise.model.readers.tflite_schema import DTYPES
from edgewise.model.readers.tflite_tables import Table, Tables, Vector
from edgewise.model.signature import Dimension

MAX_VALUE_BYTES = 1024
"""Constants of at most this size are read, for shapes, axes and the like; bigger ones are weights."""

MAX_TENSOR_BYTES = 2**63 - 1

#: dtype → `struct`'s letter, of the types whose values can be read.
_LETTERS = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor with what only this file knows of it.

    Attributes:
        buffer: index of its buffer; 0 is none.
        start, length: its constant's bytes in the file, else None; both are None where they lie in another file.
        dense: whether its elements lie there as they are.
    """

    tensor: Tensor
    buffer: int
    start: int | None = None
    length: int | None = None
    dense: bool = True


class TensorReader:
    """Reads the tensors of one model."""

    def __init__(self, path: Path, tables: Tables, model: Table) -> None:
        self.path = path
        self.tables = tables
        self.buffers: list[Table] = model["buffers"]
        self.external = {each["id"]: each["length"] for each in model["external_buffers"]}

    def read_all(self, records: list[Table]) -> list[Stored]:
        """Tensors of a subgraph in its order, by the names the file gives them, which need not be unique.

        Raises:
            BadModel: a shape, a buffer, a quantisation or a size can't be.
        """
        found = [self._read(at, record) for at, record in enumerate(records)]
        return [self._quantize(each, record, found) for each, record in zip(found, records, strict=True)]

    def read_shape(self, record: Table, name: str) -> tuple[Dimension, ...]:
        """The shape with open dimensions; the file's `shape` holds 1 where `shape_signature` holds −1."""
        shape, marks = record["shape"], record["shape_signature"]
        for vector in (shape, marks):
            if vector is not None and vector.length > MAX_RANK:
                raise damaged(self.path, f"{name!r} has {vector.length} dimensions, more than {MAX_RANK}")
        sizes, opened = self.tables.numbers(shape), self.tables.numbers(marks)
        # Older files have only the former.
        return tuple(self._read_size(name, size) for size in (opened if len(opened) == len(sizes) else sizes))

    def values(self, stored: Stored) -> tuple[int | float, ...] | None:
        """Elements of a small constant, flattened; None where it is none, or big, or packed."""
        letter = _LETTERS.get(stored.tensor.dtype)
        if letter is None or stored.start is None or not stored.length or not stored.dense:
            return None
        count = stored.length // struct.calcsize(f"<{letter}")
        if stored.length > MAX_VALUE_BYTES or count != stored.tensor.elements:
            return None
        return struct.unpack_from(f"<{count}{letter}", self.tables.buffer, stored.start)

    def check_size(self, tensor: Tensor) -> None:
        """Raises `BadModel` where no machine could hold it."""
        bits, elements = BITS.get(tensor.dtype, 8), tensor.elements
        if elements is not None and elements * bits > 8 * MAX_TENSOR_BYTES:
            raise damaged(self.path, f"{tensor.name!r} would have more than {MAX_TENSOR_BYTES} bytes")

    def _read(self, at: int, record: Table) -> Stored:
        name = record["name"] or f"tensor_{at}"
        dtype = DTYPES.get(record["type"], f"tflite-type-{record['type']}")
        shape = self.read_shape(record, name)
        tensor = Tensor(name=name, shape=shape, dtype=dtype, variable=record["is_variable"])
        self.check_size(tensor)
        start, length = self._locate(name, record)
        if not length or tensor.variable:
            return Stored(tensor, record["buffer"])
        # A constant's shape is the one it was stored with.
        fixed = tuple(self._read_size(name, size) for size in self.tables.numbers(record["shape"]))
        place = None
        if start is not None:
            place = StoredData(dtype=dtype, file=str(self.path), offset=start, size=length)
        constant = replace(tensor, shape=fixed, constant=True, data=place)
        self.check_size(constant)
        if record["sparsity"] is not None:
            return Stored(
                self._thin(constant, record["sparsity"], length), record["buffer"], start, length, dense=False
            )
        needed = constant.size_bytes
        if needed is not None and length < needed:
            raise damaged(self.path, f"the constant {name!r} has only {length} of {needed} bytes")
        constant = replace(constant, stored_bytes=None if length == needed else length)
        return Stored(constant, record["buffer"], start, length, dense=length == needed)

    def _locate(self, name: str, record: Table) -> tuple[int | None, int | None]:
        """Start and length of a tensor's bytes."""
        if record["external_buffer"]:
            if record["external_buffer"] not in self.external:
                raise damaged(self.path, f"{name!r} refers to an external buffer that is not listed")
            return None, self.external[record["external_buffer"]]
        if record["buffer"] == 0:
            return None, None  # the schema's mark for "no buffer"
        if record["buffer"] >= len(self.buffers):
            raise damaged(self.path, f"{name!r} refers to buffer {record['buffer']} of {len(self.buffers)}")
        buffer = self.buffers[record["buffer"]]
        data: Vector | None = buffer["data"]
        return (data.start, data.length) if data is not None else (None, None)

    def _thin(self, tensor: Tensor, sparsity: Table, length: int) -> Tensor:
        """A constant in the sparse encoding of TFLite: its elements' bytes and the vectors that say where they are."""
        indices = 0
        for dimension in sparsity["dim_metadata"]:
            for union in (dimension["array_segments"], dimension["array_indices"]):
                vector: Vector | None = union[1]["values"] if union else None
                indices += vector.length * vector.width if vector else 0
        bits, elements = BITS.get(tensor.dtype), tensor.elements
        share = None
        if bits and elements:
            share = 1 - (length * 8 // bits) / elements
            if share < 0:
                raise damaged(self.path, f"the sparse constant {tensor.name!r} has more elements than its shape")
        return replace(tensor, stored_bytes=length + indices, sparsity=share)

    def _quantize(self, stored: Stored, record: Table, found: list[Stored]) -> Stored:
        """`stored` with its quantisation, whose scales may lie in another tensor."""
        parameters = record["quantization"]
        if parameters is None:
            return stored
        name, union = stored.tensor.name, parameters["details"]
        if union and union[0] == "BlockwiseQuantization":
            quantization = self._read_blocks(name, union[1], parameters["quantized_dimension"], found)
            tensors = [found[union[1][each]].tensor for each in ("scales", "zero_points") if union[1][each] > 0]
            scales = {each.name: stored_size(each) for each in tensors}
        else:
            quantization = self._read_scales(stored.tensor, parameters)
            vectors = [each for each in (parameters["scale"], parameters["zero_point"]) if each]
            scales = {f"scales of {name}": sum(each.length * each.width for each in vectors)} if vectors else {}
        tensor = replace(stored.tensor, quantization=quantization, scales=scales if stored.tensor.constant else {})
        return replace(stored, tensor=tensor)

    def _read_scales(self, tensor: Tensor, parameters: Table) -> Quantization | None:
        scales: Vector | None = parameters["scale"]
        if scales is None or not scales.length:
            return None
        zeros: Vector | None = parameters["zero_point"]
        (scale,) = self.tables.numbers(scales._replace(length=1))
        if not isinstance(scale, float):
            raise damaged(self.path, f"{tensor.name!r} has the quantisation scale {scale}")
        axis = parameters["quantized_dimension"]
        if scales.length > 1 and not 0 <= axis < len(tensor.shape or ()):
            raise damaged(self.path, f"{tensor.name!r} is quantised along dimension {axis}, which it does not have")
        return Quantization(
            scale=scale,
            zero_point=self.tables.numbers(zeros._replace(length=1))[0] if zeros and zeros.length else 0,
            channels=scales.length,
            axis=axis if scales.length > 1 else None,
        )

    def _read_blocks(self, name: str, blocks: Table, axis: int, found: list[Stored]) -> Quantization | None:
        """Block-wise quantisation keeps scales and zero points in tensors of their own."""
        for index in (blocks["scales"], blocks["zero_points"]):
            # −1 and 0 stand for "no zero points".
            if not -1 <= index < len(found):
                raise damaged(self.path, f"the scales of {name!r} are in tensor {index} of {len(found)}")
        scales = found[max(blocks["scales"], 0)]
        scale = self._first(scales)
        zero = self._first(found[blocks["zero_points"]]) if blocks["zero_points"] > 0 else 0
        if scale is None or zero is None or not scales.tensor.elements:
            return None  # what is no constant of this file can't be told
        if not isfinite(scale):
            raise damaged(self.path, f"{name!r} has the quantisation scale {scale}")
        channels, block = scales.tensor.elements, blocks["block_size"]
        return Quantization(scale=float(scale), zero_point=int(zero), channels=channels, axis=axis, block=block)

    def _first(self, stored: Stored) -> int | float | None:
        letter = _LETTERS.get(stored.tensor.dtype)
        if letter is None or stored.start is None or not stored.dense:
            return None
        value: int | float = struct.unpack_from(f"<{letter}", self.tables.buffer, stored.start)[0]
        return value

    def _read_size(self, name: str, size: int) -> Dimension:
        if size < -1:
            raise damaged(self.path, f"{name!r} has a dimension of size {size}")
        return size if size >= 0 else None
