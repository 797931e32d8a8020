"""What an OpenVINO IR writes as text: shapes, sizes, names of tensors and of element types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from edgewise.model.readers.base import damaged
from edgewise.model.signature import Dimension

_MAX_NUMBER_CHARACTERS = 19


#: Element types as ``element_type`` spells them, and as ports' ``precision`` does, both in lower case → numpy's names.
_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "fp16": "float16", "fp32": "float32", "fp64": "float64",
    "boolean": "bool", "bool": "bool", "u1": "uint1", "bin": "uint1",
    "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u2": "uint2", "u3": "uint3", "u4": "uint4", "u6": "uint6",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip


def read_shape(path: Path, text: str) -> tuple[Dimension, ...] | None:
    """The shape in ``1,3,?,1..8``; ``...`` is unknown rank and the empty text a scalar. Raises `BadModel`."""
    if text.strip() == "...":
        return None
    return tuple(read_size(path, word) for word in text.split(",")) if text.strip() else ()


def read_size(path: Path, text: str) -> Dimension:
    """A dimension; None where it is open. Raises `BadModel`."""
    word = text.strip()
    if word in ("?", "-1"):
        return None
    low, dots, high = word.partition("..")
    if dots and (low or high):
        # A range is open until a shape is asked for, however narrow; both of its ends must be numbers.
        sizes = {read_number(path, end) for end in (low, high) if end}
        return sizes.pop() if low and high and len(sizes) == 1 else None
    return read_number(path, word)


def read_number(path: Path, text: str) -> int:
    """A number that is not negative. Raises `BadModel`."""
    word = text.strip()
    if not re.fullmatch(r"[0-9]+", word, re.ASCII) or len(word) > _MAX_NUMBER_CHARACTERS:
        raise damaged(path, f"{word[:40]!r} is not a size")
    return int(word)


def choose_name(names: str) -> str:
    """The tensor name OpenVINO calls an input or output by: of several, separated by commas, the smallest."""
    words: list[Any] = re.findall(r"(?:[^,\\]|\\.)+", names)
    return min((re.sub(r"\\(.)", r"\1", word) for word in words), default="")


def name_type(text: str) -> str:
    """The name numpy has for an element type, else the format's own."""
    return _DTYPES.get(text.lower(), text.lower() or "undefined")
