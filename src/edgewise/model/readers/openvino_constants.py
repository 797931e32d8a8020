"""Constants of an OpenVINO IR: where they lie in the ``.bin`` file, and the values of the small ones."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

from edgewise.model.graph import BITS, StoredData
from edgewise.model.readers.base import check_inside, damaged, missing_weights
from edgewise.model.readers.openvino_layers import IrLayer, name_dtype, read_number, read_shape

MAX_VALUE_BYTES = 1024
"""Of a constant whose values are read; larger ones are weights and stay in their file."""

_CODES = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "B",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Constant:
    """Bytes of a file that are a tensor."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int

    @property
    def elements(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    @property
    def stored_bytes(self) -> int | None:
        """What it takes in the file; None where that is what its elements take."""
        bits = BITS.get(self.dtype)
        # An empty constant is written as one byte.
        return self.size if bits is None or (self.elements and self.size != (self.elements * bits + 7) // 8) else None


class Weights:
    """The ``.bin`` file beside an IR; opened only for the values of small constants."""

    def __init__(self, path: Path) -> None:
        self.model = path
        self.path = path.with_suffix(".bin")
        check_inside(path, self.path)
        self.size = self.path.stat().st_size if self.path.is_file() else None

    def describe(self, layer: IrLayer) -> Constant:
        """The constant that `layer` is. Raises `BadModel` where it does not fit its file, type or shape."""
        options = layer.options
        if not {"shape", "element_type", "offset", "size"} <= set(options):
            raise damaged(self.model, f"constant {layer.name!r} has no shape, element type, offset or size")
        shape = read_shape(self.model, options["shape"]) if options["shape"].strip() else ()
        sizes = tuple(size for size in shape or () if isinstance(size, int))
        if shape is None or len(sizes) != len(shape):
            raise damaged(self.model, f"constant {layer.name!r} has an open shape")
        constant = Constant(
            dtype=name_dtype(options["element_type"]),
            shape=sizes,
            offset=read_number(self.model, options["offset"]),
            size=read_number(self.model, options["size"]),
        )
        self._check(layer.name, constant)
        return constant

    def _check(self, name: str, constant: Constant) -> None:
        if self.size is None:
            raise missing_weights(self.model, self.path.name, constant.offset + constant.size)
        if constant.offset + constant.size > self.size:
            raise damaged(
                self.model,
                f"{self.path.name} is truncated: {self.size} bytes, but constant {name!r} ends at "
                f"{constant.offset + constant.size}",
            )
        bits = BITS.get(constant.dtype)
        if bits is not None and constant.size < (constant.elements * bits + 7) // 8:
            raise damaged(self.model, f"constant {name!r} has {constant.size} bytes, fewer than its shape needs")

    def place(self, constant: Constant) -> StoredData:
        """Where the elements of `constant` lie."""
        return StoredData(dtype=constant.dtype, file=str(self.path), offset=constant.offset, size=constant.size)

    def read_values(self, constant: Constant, *, first: bool = False) -> tuple[int | float, ...] | None:
        """The elements, flattened; None for large constants and for types without a Python value.

        Args:
            first: only the first element, of a constant of any size.
        """
        code = _CODES.get(constant.dtype)
        count = min(constant.elements, 1) if first else constant.elements
        if code is None or count * struct.calcsize(f"<{code}") > MAX_VALUE_BYTES:
            return None
        layout = f"<{count}{code}"
        with self.path.open("rb") as file:
            file.seek(constant.offset)
            data = file.read(struct.calcsize(layout))
        if len(data) < struct.calcsize(layout):
            raise damaged(self.model, f"{self.path.name} became shorter while it was read")
        return struct.unpack(layout, data)

    def read_first(self, constant: Constant) -> int | float | None:
        """The first element, of 4-bit integers too; None where there is none or its type has no Python value."""
        if constant.dtype in ("int4", "uint4") and constant.elements:
            byte = self.read_values(Constant("uint8", (1,), constant.offset, 1))
            low = int(byte[0]) & 15 if byte else 0  # the first of two is in the lower half
            return low - 16 if constant.dtype == "int4" and low > 7 else low
        values = self.read_values(constant, first=True)
        return values[0] if values else None
