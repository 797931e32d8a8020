"""The JSON program inside a PyTorch export, as ``torch.export.save`` writes it.

The schema is PyTorch's own, ``torch/_export/serde/schema.py``; versions 5 (PyTorch 2.3) to 8 are alike in what is read
here. Values in it are unions: an object of one key that names the kind (``as_tensor``, ``as_int``) of its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from edgewise.model.graph import Tensor
from edgewise.model.readers.archive import Archive
from edgewise.model.readers.base import MAX_DIMENSION, MAX_NAME_CHARACTERS, MAX_RANK, damaged
from edgewise.model.readers.torch_shapes import size_of
from edgewise.model.signature import Dimension

OLD_PROGRAM = "serialized_exported_program.json"
PROGRAM = re.compile(r"[^/]+/models/([^/]+)\.json|models/([^/]+)\.json")

#: ``ScalarType`` → numpy's name, or PyTorch's where numpy has none.
DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0",
    34: "uint32", 35: "uint64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refuse:
    """Says that the file at `path` is damaged, wherever something in it is not what it must be."""

    path: Path

    def __call__(self, reason: str) -> NoReturn:
        """Raise `BadModel`."""
        raise damaged(self.path, reason)

    def mapping(self, value: Any, what: str) -> dict[str, Any]:
        """`value`, which must be an object."""
        return value if isinstance(value, dict) else self(f"{what} in its program is not an object")

    def items(self, value: Any, what: str) -> list[Any]:
        """Return `value`. Raises where it is not a list."""
        return value if isinstance(value, list) else self(f"{what} in its program is not a list")

    def name(self, value: Any, what: str) -> str:
        """Return `value`. Raises for an empty name, and for one that is too long."""
        if not isinstance(value, str) or not value or len(value) > MAX_NAME_CHARACTERS:
            self(f"{what} in its program has no valid name")
        return value

    def union(self, value: Any, what: str) -> tuple[str, Any]:
        """Kind and value of a union, one of `value`'s keys; the others of some versions are null."""
        found = [(key, each) for key, each in self.mapping(value, what).items() if each is not None]
        return found[0] if found else ("as_none", True)


def find_programs(archive: Archive) -> dict[str, str]:
    """Model's name → entry that holds its program, the main one first."""
    if OLD_PROGRAM in archive.names:
        return {"model": OLD_PROGRAM}
    matches = (PROGRAM.fullmatch(name) for name in archive.names)
    found = {match[1] or match[2]: match[0] for match in matches if match}
    return dict(sorted(found.items(), key=lambda item: (item[0] != "model", item[0])))


def read_dimension(value: Any, bindings: Mapping[str, int], refuse: Refuse) -> Dimension:
    """Return a size that is a ``SymInt``."""
    kind, content = refuse.union(value, "a size")
    if kind == "as_int":
        if isinstance(content, bool) or not isinstance(content, int) or not 0 <= content <= MAX_DIMENSION:
            refuse(f"a size in its program is {str(content)[:40]}")
        return content
    if kind == "as_expr":
        text = refuse.mapping(content, "a size").get("expr_str")
        return size_of(text, bindings) if isinstance(text, str) else None
    return refuse("a size in its program is not a number")


def expression_of(value: Any) -> str | None:
    """Return the text of a ``SymInt`` that is an expression."""
    match value:
        case {"as_expr": {"expr_str": str(text)}}:
            return text
    return None


def read_tensor(name: str, meta: Any, bindings: Mapping[str, int], refuse: Refuse) -> Tensor:
    """Return a tensor from its metadata, a ``TensorMeta``."""
    fields = refuse.mapping(meta, f"the type of {name[:40]!r}")
    number = fields.get("dtype")
    dtype = DTYPES.get(number, f"torch-type-{number}"[:40]) if isinstance(number, int) else "unknown"
    sizes = refuse.items(fields.get("sizes"), f"the shape of {name[:40]!r}")
    if len(sizes) > MAX_RANK:
        refuse(f"{name[:40]!r} has {len(sizes)} dimensions, more than {MAX_RANK}")
    tensor = Tensor(name=name, shape=tuple(read_dimension(size, bindings, refuse) for size in sizes), dtype=dtype)
    if (tensor.elements or 0) > MAX_DIMENSION:
        refuse(f"{name[:40]!r} has more elements than any tensor can have")
    return tensor
