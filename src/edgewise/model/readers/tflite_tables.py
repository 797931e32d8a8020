"""Reads the tables of a flatbuffer, a TFLite model or an ExecuTorch program, and believes none of its offsets.

The layout of flatbuffers is described at https://flatbuffers.dev/internals/. A flatbuffer is a web of offsets: every
one of them, every length and every count is checked against the file before it is followed. Vectors of numbers stay
where they are until somebody asks for them, for most of the file is weights.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from edgewise.model.readers.base import MAX_NAME_CHARACTERS, Wrong, damaged, explain_damage
from edgewise.model.readers.tflite_schema import SCHEMA, Field, name_value

MAX_TABLES = 300_000
"""Tables and references to them; a model of ten thousand operators has about fifty thousand."""

MAX_ITEMS = 1_000_000
"""Numbers that are read out of vectors: shapes, inputs and outputs, options; never weights."""

MAX_CHARACTERS = 32_000_000
"""Of all names together, in bytes."""

_PROSE = frozenset({"description", "backend_config"})
"""Text that may be long and is cut instead of refused."""

_APPENDED = {
    "Buffer": (("offset", "size"),),
    "Operator": (("large_custom_options_offset", "large_custom_options_size"),),
}

Table = dict[str, Any]
"""A table's fields by name: numbers, text, `Vector`, tables, lists of tables, a union's member with its table."""


class Vector(NamedTuple):
    """A vector of numbers in the file.

    Attributes:
        start: of the first item, in bytes from the file's start.
        length: items.
        layout: `struct`'s letter of an item.
        width: bytes of an item.
        table: the enumeration whose values they are, or "".
    """

    start: int
    length: int
    layout: str
    width: int
    table: str = ""


Layouts = Mapping[str, tuple[Mapping[int, Field], Mapping[str, Any]]]
"""Table → its fields by number, and what they are where they are left out."""


def lay_out(schema: Mapping[str, Sequence[Field]]) -> Layouts:
    """Return the layouts of the tables of `schema`."""
    return {
        name: ({field.slot: field for field in fields}, {field.name: _default(field) for field in fields})
        for name, fields in schema.items()
    }


def _default(field: Field) -> Any:
    match field.kind:
        case "number":
            return field.default
        case "text":
            return ""
        case "tables":
            return ()
    return None


TFLITE = lay_out(SCHEMA)


@contextmanager
def open_tables(path: Path, layouts: Layouts = TFLITE) -> Iterator[Tables]:
    """Open the tables of the file at `path`. Raises `BadModel`, for what is `Wrong` later too, or OSError."""
    # Mapped, not read: a signature needs a few pages of a file that may be gigabytes of weights.
    with path.open("rb") as file:
        try:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise damaged(path, "it is empty") from error
    with explain_damage(path), buffer:
        yield Tables(path, buffer, layouts)


class Tables:
    """The tables of one file."""

    def __init__(self, path: Path, buffer: mmap.mmap | bytes, layouts: Layouts) -> None:
        self.path = path
        self._layouts = layouts
        self.buffer = buffer
        self.size = len(buffer)
        self._references = 0
        self._items = 0
        self._characters = 0
        self._read: dict[tuple[str, int], Table] = {}

    def read_model(self) -> Table:
        """Return the model with everything below it.

        Raises:
            BadModel: an offset or a length leaves the file, or there are absurdly many of them.
        """
        return self.read_root("Model", 0)

    def read_root(self, name: str, base: int) -> Table:
        """Return the flatbuffer that begins at byte `base`, whose root is a table of the type `name`."""
        return self._table(name, base + self._unsigned(base))

    def numbers(self, vector: Vector | None) -> tuple[Any, ...]:
        """Return the elements of a vector: enumerations by name, NaN and infinity as text."""
        if vector is None:
            return ()
        self._items += vector.length
        if self._items > MAX_ITEMS:
            raise Wrong(f"its lists have more than {MAX_ITEMS} items")
        found = struct.unpack_from(f"<{vector.length}{vector.layout}", self.buffer, vector.start)
        if vector.table:
            return tuple(name_value(vector.table, number) for number in found)
        return tuple(map(printable, found)) if vector.layout == "f" else found

    def _table(self, name: str, at: int) -> Table:
        self._references += 1
        if self._references > MAX_TABLES:
            raise Wrong(f"it has more than {MAX_TABLES} tables")
        known = self._read.get((name, at))
        if known is not None:
            return known
        slots, table_bytes = self._layout_of(at)
        fields, defaults = self._layouts[name]
        table: Table = dict(defaults)
        for slot, offset in enumerate(slots):
            field = fields.get(slot) if offset else None
            if field is None:
                continue
            width = field.width if field.kind == "number" else 4
            if not 4 <= offset <= table_bytes - width:
                raise self._broken()
            # A union's type is the field before it.
            union_type = table[fields[slot - 1].name] if field.kind == "union" else 0
            table[field.name] = self._value(field, at + offset, union_type)
        for start, length in _APPENDED.get(name, ()):
            # Models of more than 2 GiB keep such bytes behind the flatbuffer; 0 and 1 stand for "not there".
            if table[start] > 1:
                self.check_span(table[start], table[length])
                if name == "Buffer":
                    table["data"] = Vector(table[start], table[length], "B", 1)
        self._read[name, at] = table
        return table

    def _layout_of(self, at: int) -> tuple[tuple[int, ...], int]:
        """Offsets of a table's fields within it, 0 for those left out, and its size."""
        vtable = at - self._signed(at)
        self.check_span(vtable, 4)
        vtable_bytes, table_bytes = struct.unpack_from("<HH", self.buffer, vtable)
        if vtable_bytes < 4 or vtable_bytes % 2 or table_bytes < 4:
            raise self._broken()
        self.check_span(vtable, vtable_bytes)
        self.check_span(at, table_bytes)
        return struct.unpack_from(f"<{(vtable_bytes - 4) // 2}H", self.buffer, vtable + 4), table_bytes

    def _value(self, field: Field, at: int, union_type: int) -> Any:
        if field.kind == "number":
            return self._scalar(field, at)
        start = at + self._unsigned(at)
        if field.kind == "table":
            return self._table(field.table, start)
        if field.kind == "union":
            # A newer schema has members that this one does not know; what they hold can't be followed.
            known = 0 < union_type < len(field.union)
            return (field.union[union_type], self._table(field.union[union_type], start)) if known else None
        count = self._unsigned(start)
        if field.kind == "text":
            return self._text(start + 4, count, cut=field.name in _PROSE)
        self.check_span(start + 4, count * field.width)
        if field.kind == "vector":
            return Vector(start + 4, count, field.layout, field.width, field.table)
        if self._references + count > MAX_TABLES:
            raise Wrong(f"it has more than {MAX_TABLES} tables")
        offsets = struct.unpack_from(f"<{count}I", self.buffer, start + 4)
        return [self._table(field.table, start + 4 + 4 * item + offset) for item, offset in enumerate(offsets)]

    def _scalar(self, field: Field, at: int) -> Any:
        if field.layout == "?":
            return self.buffer[at] != 0
        (value,) = struct.unpack_from(f"<{field.layout}", self.buffer, at)
        if field.table:
            return name_value(field.table, value)
        return printable(value) if field.layout in "fd" else value

    def _text(self, start: int, count: int, *, cut: bool) -> str:
        # Text ends with a NUL that its length does not count.
        self.check_span(start, count + 1)
        self._characters += count
        if self._characters > MAX_CHARACTERS:
            raise Wrong(f"its names take more than {MAX_CHARACTERS} bytes")
        text = self.buffer[start : start + count].decode()
        if cut:
            return text[:MAX_NAME_CHARACTERS]
        if len(text) > MAX_NAME_CHARACTERS:
            raise Wrong(f"one of its names has {len(text)} characters, more than {MAX_NAME_CHARACTERS}")
        return text

    def check_span(self, start: int, length: int) -> None:
        """Raise `BadModel` where these bytes are not all in the file."""
        if start < 0 or start + length > self.size:
            raise self._broken()

    def _unsigned(self, at: int) -> int:
        self.check_span(at, 4)
        return int(struct.unpack_from("<I", self.buffer, at)[0])

    def _signed(self, at: int) -> int:
        self.check_span(at, 4)
        return int(struct.unpack_from("<i", self.buffer, at)[0])

    def _broken(self) -> Wrong:
        return Wrong("it is truncated or corrupt (an offset points outside the file)")


def printable(value: float) -> float | str:
    """JSON has no infinities."""
    return value if isfinite(value) else str(value)
