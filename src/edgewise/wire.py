"""The bytes of protobuf messages, read without a library and without trusting them.

The format: https://protobuf.dev/programming-guides/encoding. Every length is checked before it is followed. Standard
library only: devices need this module too.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""
RUN = 8
"""Many fields of one number and of few bytes each, one behind the other."""

MAX_TEXT_BYTES = 65_536

Buffer = bytes | mmap.mmap | memoryview


class Damaged(ValueError):
    """The bytes are no such message."""


_NO_RUNS: dict[int, re.Pattern[bytes]] = {}


def read_fields(
    data: Buffer, start: int, end: int, runs: Mapping[int, re.Pattern[bytes]] = _NO_RUNS
) -> Iterator[tuple[int, int, int, int, int]]:
    """Fields of the message in data[start:end]: where each begins, its number, wire type, its value's begin and end.

    Args:
        runs: key (number and wire type) → fields of that key that are read as one, of the type `RUN`.

    Raises `Damaged` where the bytes end early or make no sense.
    """
    at = start
    while at < end:
        begin = at
        key = data[at]
        at += 1
        if key > 127:
            key, at = read_varint(data, begin, end)
        if key in runs and (run := runs[key].match(data, begin, end)):
            at = run.end()
            yield begin, key >> 3, RUN, begin, at
            continue
        wire, value = key & 7, at
        if key < 8:
            raise Damaged("a field has the number 0")
        if wire == BYTES:
            length, value = read_varint(data, at, end)
            at = value + length
            if at > end:
                raise Damaged("a field is longer than what holds it")
        elif wire == VARINT:
            _, at = read_varint(data, at, end)
        elif wire in (FIXED32, FIXED64):
            at += 4 if wire == FIXED32 else 8
        else:
            raise Damaged(f"a field is of the unknown type {wire}")
        if at > end:
            raise Damaged("a field is cut off")
        yield begin, key >> 3, wire, value, at


def read_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """Return the varint at `at`, which ends before `end`, and the position after it."""
    value = shift = 0
    for position in range(at, min(at + 10, end)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise Damaged("a number is too long" if at + 10 <= end else "a number is cut off")


def encode_varint(value: int) -> bytes:
    """Return a varint's bytes."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
