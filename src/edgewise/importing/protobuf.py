"""Protobuf messages as documents like those of JSON, by the fields that a layout names. The bytes may be hostile."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from edgewise.wire import BYTES, FIXED32, VARINT, Damaged, read_fields, read_varint

Layouts = Mapping[str, Mapping[int, str]]
"""Message → number of a field → ``name:type``. A type is float, int, text or a message; ``[…]`` repeats."""
MOST_ITEMS = 1_000_000


def decode_message(
    content: bytes, layouts: Layouts, name: str, start: int = 0, end: int | None = None
) -> dict[str, Any]:
    """Return the fields of the message `name` in content[start:end] that its layout has. Raises `Damaged`."""
    document: dict[str, Any] = {}
    for _, number, wire, begin, after in read_fields(content, start, len(content) if end is None else end):
        if number not in layouts[name]:
            continue
        key, _, kind = layouts[name][number].partition(":")
        one = kind.strip("[]")
        if wire != {"float": FIXED32, "int": VARINT}.get(one, BYTES):
            raise Damaged(f"{name}.{key} has another type")
        value: Any
        if one == "float":
            # Seven digits are what it has: 3.71 and not 3.7100000381.
            value = float(f"{struct.unpack_from('<f', content, begin)[0]:.7g}")
        elif one == "int":
            value, _ = read_varint(content, begin, after)
        elif one == "text":
            value = content[begin:after].decode("utf-8", "replace")
        else:
            value = decode_message(content, layouts, one, begin, after)
        if one == kind:
            document[key] = value
            continue
        items = document.setdefault(key, [])
        if len(items) >= MOST_ITEMS:
            raise Damaged(f"{name}.{key} has more than {MOST_ITEMS} items")
        items.append(value)
    return document
