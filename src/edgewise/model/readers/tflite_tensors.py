"""Tensors of a TFLite file: shapes, constants and what they take, quantisation, sparsity, small values."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from edgewise.model.cost import stored_size
from edgewise.model.graph import BITS, Quantization, StoredData, Tensor
from edgewise.model.readers.base import MAX_RANK, Wrong, read_first
from edgewise.model.readers.tflite_schema import DTYPES
from edgewise.model.readers.tflite_tables import Table, Tables, Vector
from edgewise.model.signature import Dimension

MAX_TENSOR_BYTES = 2**63 - 1


class TensorReader:
    """Reads the tensors of one model."""

    def __init__(self, tables: Tables, model: Table) -> None:
        self.tables = tables
        self.buffers: list[Table] = model["buffers"]
        self.external = {each["id"]: each["length"] for each in model["external_buffers"]}

    def read_all(self, records: list[Table]) -> list[Tensor]:
        """Tensors of a subgraph in its order, by the names the file gives them, which need not be unique.

        Raises:
            BadModel: a shape, a buffer, a quantisation or a size can't be.
        """
        found = [self._read(at, record) for at, record in enumerate(records)]
        return [self._quantize(each, record, found) for each, record in zip(found, records, strict=True)]

    def read_shape(self, record: Table, name: str) -> tuple[Dimension, ...]:
        """Return the shape with open dimensions; the file's `shape` holds 1 where `shape_signature` holds −1."""
        shape, marks = record["shape"], record["shape_signature"]
        for vector in (shape, marks):
            if vector is not None and vector.length > MAX_RANK:
                raise Wrong(f"{name!r} has {vector.length} dimensions, more than {MAX_RANK}")
        sizes, opened = self.tables.numbers(shape), self.tables.numbers(marks)
        # Older files have only the former.
        return tuple(self._read_size(name, size) for size in (opened if len(opened) == len(sizes) else sizes))

    def check_size(self, tensor: Tensor) -> None:
        """Raise `BadModel` where no machine could hold it."""
        bits, elements = BITS.get(tensor.dtype, 8), tensor.elements
        if elements is not None and elements * bits > 8 * MAX_TENSOR_BYTES:
            raise Wrong(f"{tensor.name!r} would have more than {MAX_TENSOR_BYTES} bytes")

    def _read(self, at: int, record: Table) -> Tensor:
        name = record["name"] or f"tensor_{at}"
        dtype = DTYPES.get(record["type"], f"tflite-type-{record['type']}")
        shape = self.read_shape(record, name)
        tensor = Tensor(name=name, shape=shape, dtype=dtype, variable=record["is_variable"])
        self.check_size(tensor)
        start, length = self._locate(name, record)
        if not length or tensor.variable:
            return tensor
        # A constant's shape is the one it was stored with.
        fixed = tuple(self._read_size(name, size) for size in self.tables.numbers(record["shape"]))
        place = None
        if start is not None:
            place = StoredData(dtype=dtype, file=str(self.tables.path), offset=start, size=length)
        constant = replace(tensor, shape=fixed, constant=True, data=place)
        self.check_size(constant)
        if record["sparsity"] is not None:
            return self._thin(constant, record["sparsity"], length)
        needed = constant.size_bytes
        if needed is not None and length < needed:
            raise Wrong(f"the constant {name!r} has only {length} of {needed} bytes")
        return constant if length == needed else replace(constant, stored_bytes=length)

    def _locate(self, name: str, record: Table) -> tuple[int | None, int | None]:
        """Start and length of a tensor's bytes."""
        if record["external_buffer"]:
            if record["external_buffer"] not in self.external:
                raise Wrong(f"{name!r} refers to an external buffer that is not listed")
            return None, self.external[record["external_buffer"]]
        if record["buffer"] == 0:
            return None, None  # the schema's mark for "no buffer"
        if record["buffer"] >= len(self.buffers):
            raise Wrong(f"{name!r} refers to buffer {record['buffer']} of {len(self.buffers)}")
        buffer = self.buffers[record["buffer"]]
        data: Vector | None = buffer["data"]
        return (data.start, data.length) if data is not None else (None, None)

    def _thin(self, tensor: Tensor, sparsity: Table, length: int) -> Tensor:
        """Return a constant in the sparse encoding of TFLite: its elements' bytes and the vectors that say
        where they are.
        """
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
                raise Wrong(f"the sparse constant {tensor.name!r} has more elements than its shape")
        return replace(tensor, stored_bytes=length + indices, sparsity=share)

    def _quantize(self, tensor: Tensor, record: Table, found: list[Tensor]) -> Tensor:
        """`tensor` with its quantisation, whose scales may lie in another tensor."""
        parameters = record["quantization"]
        if parameters is None:
            return tensor
        name, union = tensor.name, parameters["details"]
        if union and union[0] == "BlockwiseQuantization":
            quantization = self._read_blocks(name, union[1], parameters["quantized_dimension"], found)
            tensors = [found[union[1][each]] for each in ("scales", "zero_points") if union[1][each] > 0]
            scales = {each.name: stored_size(each) for each in tensors}
        else:
            quantization = self._read_scales(tensor, parameters)
            vectors = [each for each in (parameters["scale"], parameters["zero_point"]) if each]
            scales = {f"scales of {name}": sum(each.length * each.width for each in vectors)} if vectors else {}
        return replace(tensor, quantization=quantization, scales=scales if tensor.constant else {})

    def _read_scales(self, tensor: Tensor, parameters: Table) -> Quantization | None:
        scales: Vector | None = parameters["scale"]
        if scales is None or not scales.length:
            return None
        zeros: Vector | None = parameters["zero_point"]
        (scale,) = self.tables.numbers(scales._replace(length=1))
        if not isinstance(scale, float):
            raise Wrong(f"{tensor.name!r} has the quantisation scale {scale}")
        axis = parameters["quantized_dimension"]
        if scales.length > 1 and not 0 <= axis < len(tensor.shape or ()):
            raise Wrong(f"{tensor.name!r} is quantised along dimension {axis}, which it does not have")
        return Quantization(
            scale=scale,
            zero_point=self.tables.numbers(zeros._replace(length=1))[0] if zeros and zeros.length else 0,
            channels=scales.length,
            axis=axis if scales.length > 1 else None,
        )

    def _read_blocks(self, name: str, blocks: Table, axis: int, found: list[Tensor]) -> Quantization | None:
        """Block-wise quantisation keeps scales and zero points in tensors of their own."""
        for index in (blocks["scales"], blocks["zero_points"]):
            # −1 and 0 stand for "no zero points".
            if not -1 <= index < len(found):
                raise Wrong(f"the scales of {name!r} are in tensor {index} of {len(found)}")
        scales = found[max(blocks["scales"], 0)]
        scale = read_first(scales)
        zero = read_first(found[blocks["zero_points"]]) if blocks["zero_points"] > 0 else 0
        if scale is None or zero is None or not scales.elements:
            return None  # what is no constant of this file can't be told
        if not isfinite(scale):
            raise Wrong(f"{name!r} has the quantisation scale {scale}")
        channels, block = scales.elements, blocks["block_size"]
        return Quantization(scale=float(scale), zero_point=int(zero), channels=channels, axis=axis, block=block)

    def _read_size(self, name: str, size: int) -> Dimension:
        if size < -1:
            raise Wrong(f"{name!r} has a dimension of size {size}")
        return size if size >= 0 else None
