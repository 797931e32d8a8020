"""An ONNX file's description without its weights: the protobuf is walked on disk and big payloads are left out.

The wire format is described at https://protobuf.dev/programming-guides/encoding/, the field numbers are those of
``onnx.proto`` (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto). What comes out is a valid ModelProto of a size
that follows the number of nodes and not the weights. The walk is also where hostile files end: the work and the memory
of every later step is bounded by the number of fields and messages that are let through here.
"""

from __future__ import annotations

import mmap
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.model.readers.base import Wrong, explain_damage
from edgewise.wire import BYTES, FIXED32, RUN, VARINT, Damaged, encode_varint, read_fields

BIG = 1024
"""Messages above this many bytes are walked into, and their payloads left out; smaller ones are copied whole."""
MAX_FIELDS = 2_000_000
"""Protobuf fields that are looked at one by one (some two seconds)."""
MAX_MESSAGES = 1_000_000
"""In the description; each takes some 150 B once parsed. A model of 100,000 nodes has about half as many."""
_TOO_MANY = f"it has more than {MAX_MESSAGES} protobuf messages"
MAX_DESCRIPTION = 64 * 2**20
"""Bytes of the description; the largest real ones have some ten million."""
MAX_DEPTH = 100
"""Messages inside one another: protobuf's own limit."""
_FEW = 2**20
"""A description of so many bytes can't hold more messages than are allowed, so they are not counted."""

# Message types → {field number: type of the message in it}. Leaves that hold no messages of their own are "leaf".
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "leaf", 14: "leaf", 20: "training", 25: "function", 26: "device"},
    "training": {1: "graph", 2: "graph", 3: "leaf", 4: "leaf"},
    "device": {},
    "graph": {
        1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 14: "annotation", 15: "sparse", 16: "leaf",
    },
    "annotation": {2: "leaf"},
    "node": {5: "attribute", 9: "leaf", 10: "device"},
    "attribute": {
        5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 14: "type", 15: "type", 22: "sparse", 23: "sparse",
    },
    "tensor": {3: "leaf", 13: "leaf", 16: "leaf"},
    "sparse": {1: "tensor", 2: "tensor"},
    "value": {2: "type", 4: "leaf"},
    "type": {1: "shaped", 4: "element", 5: "map", 8: "shaped", 9: "element"},
    "element": {1: "type"},
    "map": {2: "type"},
    "shaped": {2: "shape"},
    "shape": {1: "leaf"},
    "function": {7: "node", 9: "leaf", 11: "attribute", 12: "value", 14: "leaf"},
    "leaf": {},
}  # fmt: skip

#: What is walked into when it is big. Others are small in sane models, and what they add up to is bounded as a whole.
_WALKED = {"model", "training", "graph", "node", "attribute", "tensor", "sparse", "function"}
#: Left out wherever they are met in a walk: texts for people, and traces that exporters leave on every node.
_TEXTS: dict[str, frozenset[int]] = {
    "graph": frozenset({10, 14, 16}),
    "node": frozenset({6, 9, 10}),
    "function": frozenset({8, 14}),
    "tensor": frozenset({12, 16}),
    "attribute": frozenset({13}),
}
#: Of the model itself: kept unless they are long.
_MODEL_TEXTS = frozenset({6, 14})
MAX_TEXT = 2**16
_TENSOR_DATA = {4: "float_data", 5: "int32_data", 6: "string_data", 7: "int64_data", 9: "raw_data", 10: "double_data",
                11: "uint64_data"}  # fmt: skip
_ATTRIBUTE_DATA = {4: "s", 7: "floats", 8: "ints", 9: "strings"}
_DATA = {"tensor": _TENSOR_DATA, "attribute": _ATTRIBUTE_DATA}
_NOTE = {"tensor": 12, "attribute": 13}
"""doc_string: where the number of what was left out of a message is noted."""
#: An attribute's lists of numbers have a key before each number (a forest of decision trees: millions of them).
_FLOATS_KEY, _INTS_KEY = 7 << 3 | FIXED32, 8 << 3 | VARINT
_RUNS = {
    "attribute": {
        _FLOATS_KEY: re.compile(rb"(?:\x3d.{4}){1,65536}+", re.DOTALL),
        _INTS_KEY: re.compile(rb"(?:\x40[\x80-\xff]{0,9}+[\x00-\x7f]){1,65536}+"),
    }
}
_NO_RUNS: dict[int, re.Pattern[bytes]] = {}
_NO_FIELDS: frozenset[int] = frozenset()
_NO_CONTINUATION = bytes(range(128, 256))


@dataclass(slots=True)
class LeftOut:
    """The payload of one tensor or attribute.

    Attributes:
        stored_bytes: what it takes in the file, without the fields' tags and lengths.
        field: the last field that held some of it (``raw_data``, ``ints``).
        count: elements of an attribute's list.
        start: where the payload begins in the file; None for several fields.
    """

    stored_bytes: int = 0
    field: str = ""
    count: int = 0
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """A ModelProto without big payloads.

    Attributes:
        data: its bytes.
        left_out: what is not in it.
        path: the file that it describes.
    """

    data: bytes
    left_out: tuple[LeftOut, ...]
    mark: str
    path: Path

    def look_up(self, message: Any) -> LeftOut | None:
        """Return what was left out of `message` (a TensorProto or AttributeProto of this description); None:
        nothing.
        """
        note = message.doc_string
        # The mark is drawn anew for every walk, so no file can claim to have been cut.
        if not note or not isinstance(note, str) or not note.startswith(self.mark):
            return None
        return self.left_out[int(note[len(self.mark) :])]


class _Walk:
    """One pass over a file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.mark = secrets.token_hex(12) + ":"
        self.left_out: list[LeftOut] = []
        self.fields_left = MAX_FIELDS
        self.messages_left = MAX_MESSAGES
        self.kept = 0

    def copy(self, kind: str, start: int, end: int, *, depth: int = 0) -> list[bytes]:
        """Return the message of type `kind` in data[start:end], in pieces, without what is big and not needed."""
        if depth > MAX_DEPTH:
            raise Wrong(f"its messages are nested more than {MAX_DEPTH} deep")
        messages, texts, payloads = _MESSAGES[kind], _TEXTS.get(kind, _NO_FIELDS), _DATA.get(kind, {})
        gone = LeftOut()
        pieces: list[bytes] = []
        kept = start
        for begin, number, wire, value, after in read_fields(self.data, start, end, _RUNS.get(kind, _NO_RUNS)):
            self.fields_left -= 1
            if self.fields_left < 0:
                raise Wrong(f"it has more than {MAX_FIELDS} fields")
            if number in texts or number in payloads:
                self.keep(pieces, kept, begin)
                kept = after
                if number in payloads:
                    self.leave_out(gone, payloads[number], wire, (value, after))
            elif kind == "model" and number in _MODEL_TEXTS and after - value > MAX_TEXT:
                self.keep(pieces, kept, begin)
                kept = after
            elif wire == BYTES and number in messages:
                self.messages_left -= 1
                if self.messages_left < 0:
                    raise Wrong(_TOO_MANY)
                if after - value <= BIG or messages[number] not in _WALKED:
                    continue
                self.keep(pieces, kept, begin)
                kept = after
                inner = self.copy(messages[number], value, after, depth=depth + 1)
                pieces += (encode_varint(number << 3 | BYTES), encode_varint(sum(map(len, inner))), *inner)
        self.keep(pieces, kept, end)
        if gone.field:
            note = f"{self.mark}{len(self.left_out)}".encode()
            self.left_out.append(gone)
            pieces.append(encode_varint(_NOTE[kind] << 3 | BYTES) + encode_varint(len(note)) + note)
        return pieces

    def keep(self, pieces: list[bytes], start: int, end: int) -> None:
        """Copy data[start:end] to the description."""
        if end > start:
            self.kept += end - start
            if self.kept > MAX_DESCRIPTION:
                raise Wrong(f"its description, without weights, takes more than {MAX_DESCRIPTION // 2**20} MiB")
            pieces.append(self.data[start:end])

    def leave_out(self, gone: LeftOut, field: str, wire: int, place: tuple[int, int]) -> None:
        """Note a payload at `place` instead of copying it."""
        start, after = place
        gone.start = None if gone.field else start
        gone.field = field
        if wire == RUN:
            size = after - start
            # Every number of a run of integers has two bytes without continuation: its key and its last.
            count = size // 5 if field == "floats" else self.count_varints(start, after) // 2
            gone.count += count
            gone.stored_bytes += size - count
            return
        gone.stored_bytes += after - start
        if wire == BYTES and field == "ints":
            gone.count += self.count_varints(start, after)
        elif wire == BYTES and field == "floats":
            gone.count += (after - start) // 4
        else:
            gone.count += 1

    def count_varints(self, start: int, end: int) -> int:
        chunks = range(start, end, 2**20)
        return sum(len(self.data[at : min(at + 2**20, end)].translate(None, _NO_CONTINUATION)) for at in chunks)


def describe_file(path: Path) -> Description:
    """Return the description in the file at `path`. What it keeps in memory does not depend on the size of the weights.

    Raises:
        BadModel: it is no protobuf, or there is absurdly much in it.
        OSError: it can't be opened.
    """
    with explain_damage(path):
        try:
            with _map(path) as data:
                walk = _Walk(data)
                description = b"".join(walk.copy("model", 0, len(data)))
            if len(description) > _FEW:
                _check_messages(description)
        except Damaged as error:
            raise Wrong(f"it is truncated or corrupt (not a whole ONNX protobuf: {error})") from error
    return Description(description, tuple(walk.left_out), walk.mark, path)


@contextmanager
def _map(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise Wrong("it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _check_messages(data: bytes) -> None:
    """Raise `Wrong` for more messages than `MAX_MESSAGES`: small ones cost a hundred times their bytes."""
    count = 0
    todo = [("model", 0, len(data))]
    while todo:
        kind, start, end = todo.pop()
        messages = _MESSAGES[kind]
        for _, number, wire, value, after in read_fields(data, start, end):
            if wire == BYTES and number in messages:
                count += 1
                if count > MAX_MESSAGES:
                    raise Wrong(_TOO_MANY)
                if after > value and _MESSAGES[messages[number]]:
                    todo.append((messages[number], value, after))
