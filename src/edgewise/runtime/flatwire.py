"""The outline of a TFLite file read from its bytes: operators and the tensors between them, and nothing else.

Needs no library, so that it can be sent to devices. Every offset is checked; weights are not read. Places of fields are
those of https://github.com/tensorflow/tensorflow/blob/master/tensorflow/compiler/mlir/lite/schema/schema.fbs.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from edgewise.runtime.lineage import Outline, OutlineNode
from edgewise.runtime.protowire import MAX_NAME_BYTES, MAX_NODES, Damaged

_CODES, _SUBGRAPHS, _BUFFERS = 1, 2, 4  # of Model
_OLD_CODE, _CODE = 0, 3  # of OperatorCode
_TENSORS, _OPERATORS = 0, 3  # of SubGraph
_OPCODE, _INPUTS, _OUTPUTS = 0, 1, 2  # of Operator
_BUFFER, _NAME = 2, 3  # of Tensor
_DATA, _OFFSET = 0, 1  # of Buffer
_MAX_TENSORS = 1_000_000


def read_outline(path: Path) -> Outline:
    """Operators of the first subgraph of the TFLite file at `path`; their types are the schema's numbers as text.

    Tensors without a name, or with another's, are called after their index.

    Raises:
        Damaged: it is no such file.
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise Damaged("it is empty") from error
        with data:
            return parse_outline(data)


def parse_outline(data: bytes | mmap.mmap) -> Outline:
    """The outline of a TFLite model in memory. Raises `Damaged`."""
    flat = Flat(data)
    model = flat.at_offset(0)
    codes = [_type(flat, table) for table in flat.tables(model, _CODES, MAX_NODES)]
    filled = [_has_data(flat, table) for table in flat.tables(model, _BUFFERS, _MAX_TENSORS)]
    graph = next(flat.tables(model, _SUBGRAPHS, 1000), None)
    if graph is None:
        raise Damaged("it has no graph")
    names: list[str] = []
    constants: set[str] = set()
    taken: set[str] = set()
    for index, table in enumerate(flat.tables(graph, _TENSORS, _MAX_TENSORS)):
        name = flat.text(table, _NAME)
        name = f"#{index}" if not name or name in taken else name
        taken.add(name)
        names.append(name)
        buffer = flat.number(table, _BUFFER, "<I")
        if buffer < len(filled) and filled[buffer]:
            constants.add(name)
    nodes = []
    for table in flat.tables(graph, _OPERATORS, MAX_NODES):
        code = flat.number(table, _OPCODE, "<I")
        if code >= len(codes):
            raise Damaged("an operator has a type that is not there")
        ends = [tuple(_named(names, at) for at in flat.integers(table, slot)) for slot in (_INPUTS, _OUTPUTS)]
        nodes.append(OutlineNode(name="", op=str(codes[code]), inputs=ends[0], outputs=ends[1]))
    return Outline(tuple(nodes), frozenset(constants))


def _named(names: list[str], index: int) -> str:
    if index == -1:
        return ""
    if not 0 <= index < len(names):
        raise Damaged("an operator has a tensor that is not there")
    return names[index]


def _type(flat: Flat, table: int) -> int:
    """A type's number: files that knew only a byte keep it in an older field."""
    return max(flat.number(table, _OLD_CODE, "<b"), flat.number(table, _CODE, "<i"))


def _has_data(flat: Flat, table: int) -> bool:
    # A file of more than 2 GB keeps its weights behind the flatbuffer, at an offset.
    return flat.length(table, _DATA) > 0 or flat.number(table, _OFFSET, "<Q") > 1


class Flat:
    """A flatbuffer whose every reading is checked against its end."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data

    def _read(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(form) > len(self._data):
            raise Damaged("an offset leaves the file")
        value: int = struct.unpack_from(form, self._data, at)[0]
        return value

    def at_offset(self, at: int) -> int:
        """Where the offset at `at` points."""
        return at + self._read("<I", at)

    def _field(self, table: int, slot: int) -> int | None:
        """Where the field of `table` in `slot` lies; None where it has none."""
        layout = table - self._read("<i", table)
        place = 4 + 2 * slot
        if place + 2 > self._read("<H", layout):
            return None
        offset = self._read("<H", layout + place)
        return table + offset if offset else None

    def number(self, table: int, slot: int, form: str) -> int:
        """A scalar; 0 where it is left out."""
        at = self._field(table, slot)
        return 0 if at is None else self._read(form, at)

    def _vector(self, table: int, slot: int) -> tuple[int, int]:
        """First place and number of elements of a vector."""
        at = self._field(table, slot)
        if at is None:
            return 0, 0
        start = self.at_offset(at)
        return start + 4, self._read("<I", start)

    def length(self, table: int, slot: int) -> int:
        """How many elements a vector has."""
        return self._vector(table, slot)[1]

    def tables(self, table: int, slot: int, most: int) -> Iterator[int]:
        """The tables of a vector."""
        start, count = self._vector(table, slot)
        if count > most or start + 4 * count > len(self._data):
            raise Damaged("a list is too long")
        for index in range(count):
            yield self.at_offset(start + 4 * index)

    def integers(self, table: int, slot: int) -> tuple[int, ...]:
        """The 32-bit integers of a vector."""
        start, count = self._vector(table, slot)
        if start + 4 * count > len(self._data):
            raise Damaged("a list is too long")
        return struct.unpack_from(f"<{count}i", self._data, start)

    def text(self, table: int, slot: int) -> str:
        """A string."""
        start, count = self._vector(table, slot)
        if count > MAX_NAME_BYTES or start + count > len(self._data):
            raise Damaged("a name is too long")
        return bytes(self._data[start : start + count]).decode("utf-8", "replace")
