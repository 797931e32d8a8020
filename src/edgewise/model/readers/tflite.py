"""TensorFlow Lite and LiteRT: a flatbuffer whose identifier is ``TFL3``.

The schema is tensorflow/lite/schema/schema.fbs; the layout of flatbuffers is described at
https://flatbuffers.dev/internals/. A flatbuffer is a web of offsets, and the generated classes follow them without
looking; so every offset and length is first checked against the file (`_Verifier`), and only then are they used.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edgewise.errors import BadModel
from edgewise.model.readers.base import damaged, make_signature
from edgewise.model.signature import Dimension, Signature, TensorSpec

IDENTIFIER = b"TFL3"
MAX_TABLES = 300_000
"""Tables and references to them; a model of ten thousand operators has about fifty thousand."""

#: schema's TensorType by number; numpy's name, or the format's own in lower case where numpy has none.
_DTYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 5: "string", 6: "bool", 7: "int16",
    8: "complex64", 9: "int8", 10: "float64", 11: "complex128", 12: "uint64", 13: "resource", 14: "variant",
    15: "uint32", 16: "uint16", 17: "int4", 18: "bfloat16", 19: "int2", 20: "uint4",
}  # fmt: skip


class TfliteReader:
    """Reads TFLite models."""

    format = "tflite"
    title = "TFLite"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the flatbuffer's identifier is there."""
        del path
        return head[4:8] == IDENTIFIER

    def read_signature(self, path: Path) -> Signature:
        """Inputs and outputs of the first subgraph, in its order and by its tensors' names; −1 is an open dimension."""
        # Mapped, not read: a signature needs a few pages of a file that may be gigabytes of weights.
        with path.open("rb") as file:
            try:
                buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise damaged(path, "it is empty") from error
        _Verifier(path, buffer).check_model()
        try:
            return _read_signature(path, buffer)
        except (struct.error, IndexError, TypeError, ValueError) as error:
            raise damaged(path, f"it is corrupt ({error})") from error

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """None: all weights are inside."""
        del path
        return ()


def _read_signature(path: Path, buffer: mmap.mmap) -> Signature:
    """The signature in a `buffer` that has been verified."""
    from tflite.Model import Model

    model = Model.GetRootAs(buffer, 0)
    if model.SubgraphsLength() == 0:
        raise damaged(path, "it has no subgraph")
    graph = model.Subgraphs(0)
    return make_signature(
        path,
        inputs=[_read_tensor(path, graph, graph.Inputs(at)) for at in range(graph.InputsLength())],
        outputs=[_read_tensor(path, graph, graph.Outputs(at)) for at in range(graph.OutputsLength())],
    )


def _read_tensor(path: Path, graph: Any, index: int) -> TensorSpec:
    if not 0 <= index < graph.TensorsLength():
        raise damaged(path, f"it refers to tensor {index} of {graph.TensorsLength()}")
    tensor = graph.Tensors(index)
    try:
        name = (tensor.Name() or b"").decode()
    except UnicodeDecodeError as error:
        raise damaged(path, f"the name of tensor {index} is not UTF-8") from error
    shape = [tensor.Shape(axis) for axis in range(tensor.ShapeLength())]
    # `shape` holds 1 where `shape_signature` holds -1; older files have only the former.
    marks = [tensor.ShapeSignature(axis) for axis in range(tensor.ShapeSignatureLength())]
    sizes = marks if len(marks) == len(shape) else shape
    return TensorSpec(
        name=name or f"tensor_{index}",
        shape=tuple(_read_size(path, name, size) for size in sizes),
        dtype=_DTYPES.get(tensor.Type(), f"tflite-type-{tensor.Type()}"),
    )


def _read_size(path: Path, name: str, size: int) -> Dimension:
    if size < -1:
        raise damaged(path, f"{name!r} has a dimension of size {size}")
    return size if size >= 0 else None


@dataclass(frozen=True, slots=True)
class _Field:
    """What a field holds: a scalar of `size` bytes, a vector of items of `size` bytes, text, or tables."""

    kind: Literal["scalar", "vector", "text", "table", "tables"]
    size: int = 1
    table: str = ""


_I8, _I32, _U64 = _Field("scalar", 1), _Field("scalar", 4), _Field("scalar", 8)
_TEXT, _BYTES, _WORDS, _LONGS = _Field("text"), _Field("vector", 1), _Field("vector", 4), _Field("vector", 8)


def _tables(name: str) -> _Field:
    return _Field("tables", 4, name)


#: table → field number → what it holds, after schema.fbs. Options of operators and sparsity are not followed.
_SCHEMA: Mapping[str, Mapping[int, _Field]] = {
    "Model": {
        0: _I32, 1: _tables("OperatorCode"), 2: _tables("SubGraph"), 3: _TEXT, 4: _tables("Buffer"), 5: _WORDS,
        6: _tables("Metadata"), 7: _tables("SignatureDef"),
    },
    "OperatorCode": {0: _I8, 1: _TEXT, 2: _I32, 3: _I32},
    "SubGraph": {0: _tables("Tensor"), 1: _WORDS, 2: _WORDS, 3: _tables("Operator"), 4: _TEXT},
    "Tensor": {
        0: _WORDS, 1: _I8, 2: _I32, 3: _TEXT, 4: _Field("table", 4, "Quantization"), 5: _I8, 7: _WORDS, 8: _I8,
    },
    "Quantization": {0: _WORDS, 1: _WORDS, 2: _WORDS, 3: _LONGS, 4: _I8, 6: _I32},
    "Operator": {
        0: _I32, 1: _WORDS, 2: _WORDS, 3: _I8, 4: _Field("table", 4, "Options"), 5: _BYTES, 6: _I8, 7: _BYTES,
        8: _WORDS, 9: _U64, 10: _U64, 11: _I8, 12: _Field("table", 4, "Options"),
    },
    "Options": {},
    "Buffer": {0: _BYTES, 1: _U64, 2: _U64},
    "Metadata": {0: _TEXT, 1: _I32},
    "SignatureDef": {0: _tables("TensorMap"), 1: _tables("TensorMap"), 2: _TEXT, 4: _I32},
    "TensorMap": {0: _TEXT, 1: _I32},
}  # fmt: skip


class _Verifier:
    """Follows every offset of the schema once and sees that it stays within the file."""

    def __init__(self, path: Path, buffer: mmap.mmap) -> None:
        self.path = path
        self.buffer = buffer
        self.size = len(buffer)
        self.references = 0
        self.todo: list[tuple[str, int]] = []
        self.seen: set[tuple[str, int]] = set()

    def check_model(self) -> None:
        """Raises `BadModel` where an offset or a length leaves the file, or there are absurdly many of them."""
        self._visit("Model", self._unsigned(0))
        while self.todo:
            self._check_table(*self.todo.pop())

    def _check_table(self, name: str, at: int) -> None:
        vtable = at - self._signed(at)
        vtable_bytes, table_bytes = self._short(vtable), self._short(vtable + 2)
        if vtable_bytes < 4 or vtable_bytes % 2 or table_bytes < 4:
            raise self._broken()
        self._check_span(vtable, vtable_bytes)
        self._check_span(at, table_bytes)
        for number, held in _SCHEMA[name].items():
            slot = 4 + 2 * number
            offset = self._short(vtable + slot) if slot < vtable_bytes else 0
            if offset:
                width = held.size if held.kind == "scalar" else 4
                if not 4 <= offset <= table_bytes - width:
                    raise self._broken()
                self._check_field(held, at + offset)
        if name == "Buffer":
            self._check_appended(at, vtable, vtable_bytes)

    def _check_field(self, held: _Field, at: int) -> None:
        if held.kind == "scalar":
            return
        start = at + self._unsigned(at)
        if held.kind == "table":
            self._visit(held.table, start)
            return
        count = self._unsigned(start)
        # Text ends with a NUL that its length does not count.
        self._check_span(start + 4, count * held.size + (held.kind == "text"))
        if held.kind == "tables":
            if self.references + count > MAX_TABLES:
                raise damaged(self.path, f"it has more than {MAX_TABLES} tables")
            for item in range(start + 4, start + 4 + 4 * count, 4):
                self._visit(held.table, item + self._unsigned(item))

    def _check_appended(self, at: int, vtable: int, vtable_bytes: int) -> None:
        """Models of more than 2 GiB keep a buffer's bytes after the flatbuffer, at an offset from the file's start."""
        slots = [self._short(vtable + slot) if slot < vtable_bytes else 0 for slot in (6, 8)]
        offset, size = (self._long(at + slot) if slot else 0 for slot in slots)
        # The schema reserves 0 and 1 for "not appended".
        if offset > 1:
            self._check_span(offset, size)

    def _visit(self, name: str, at: int) -> None:
        self.references += 1
        if self.references > MAX_TABLES:
            raise damaged(self.path, f"it has more than {MAX_TABLES} tables")
        if (name, at) not in self.seen:
            self.seen.add((name, at))
            self.todo.append((name, at))

    def _check_span(self, start: int, length: int) -> None:
        if start < 0 or start + length > self.size:
            raise self._broken()

    def _short(self, at: int) -> int:
        return self._number("<H", 2, at)

    def _unsigned(self, at: int) -> int:
        return self._number("<I", 4, at)

    def _signed(self, at: int) -> int:
        return self._number("<i", 4, at)

    def _long(self, at: int) -> int:
        return self._number("<Q", 8, at)

    def _number(self, layout: str, width: int, at: int) -> int:
        self._check_span(at, width)
        return int(struct.unpack_from(layout, self.buffer, at)[0])

    def _broken(self) -> BadModel:
        return damaged(self.path, "it is truncated or corrupt (an offset leads out of the file)")
