"""Constants of an OpenVINO IR: where they lie in the ``.bin`` file, and the values of the small ones."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from edgewise.model.graph import BITS, StoredData, Tensor
from edgewise.model.readers.base import check_inside, damaged, missing_weights
from edgewise.model.readers.openvino_layers import IrLayer, name_dtype, read_number, read_shape

MAX_VALUE_BYTES = 1024
"""Of a constant whose values are read; larger ones are weights and stay in their file."""

_CODES = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "B",
}  # fmt: skip


class Weights:
    """The ``.bin`` file beside an IR; opened only for the values of small constants."""

    def __init__(self, path: Path) -> None:
        self.model = path
        self.path = path.with_suffix(".bin")
        check_inside(path, self.path)
        self.size = self.path.stat().st_size if self.path.is_file() else None

    def describe(self, layer: IrLayer) -> Tensor:
        """Return the constant that `layer` is. Raises `BadModel` where it does not fit its file, type or shape."""
        options = layer.options
        if not {"shape", "element_type", "offset", "size"} <= set(options):
            raise damaged(self.model, f"constant {layer.name!r} has no shape, element type, offset or size")
        shape = read_shape(self.model, options["shape"])
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise damaged(self.model, f"constant {layer.name!r} has an open shape")
        dtype = name_dtype(options["element_type"])
        offset, size = (read_number(self.model, options[name]) for name in ("offset", "size"))
        if self.size is None:
            raise missing_weights(self.model, self.path.name, offset + size)
        if offset + size > self.size:
            raise damaged(
                self.model,
                f"{self.path.name} is truncated: {self.size} bytes, but constant {layer.name!r} ends at "
                f"{offset + size}",
            )
        data = StoredData(dtype=dtype, file=str(self.path), offset=offset, size=size)
        constant = Tensor(name=layer.name, shape=shape, dtype=dtype, constant=True, data=data)
        needed = constant.size_bytes
        if needed is not None and size < needed:
            raise damaged(self.model, f"constant {layer.name!r} has {size} bytes, fewer than its shape needs")
        # An empty constant is written as one byte.
        plain = dtype in BITS and (size == needed or not constant.elements)
        return constant if plain else replace(constant, stored_bytes=size)

    def read_values(self, constant: Tensor, *, first: bool = False) -> tuple[int | float, ...] | None:
        """Return the elements, flattened; None for large or packed constants and for types without a Python value.

        Args:
            first: only the first element, of a constant of any size.
        """
        code, data, count = _CODES.get(constant.dtype), constant.data, constant.elements or 0
        if code is None or data is None or data.dtype != constant.dtype or constant.scales:
            return None
        count = min(count, 1) if first else count
        layout = f"<{count}{code}"
        size = struct.calcsize(layout)
        if size > MAX_VALUE_BYTES:
            return None
        with self.path.open("rb") as file:
            file.seek(data.offset)
            content = file.read(size)
        if len(content) < size:
            raise damaged(self.model, f"{self.path.name} became shorter while it was read")
        return struct.unpack(layout, content)

    def read_first(self, constant: Tensor) -> int | float | None:
        """Return the first element, of 4-bit integers too; None where there is none or its type has no Python value."""
        if constant.dtype in ("int4", "uint4") and constant.elements and constant.data is not None:
            data = replace(constant.data, dtype="uint8")
            byte = self.read_values(replace(constant, dtype="uint8", data=data), first=True)
            low = int(byte[0]) & 15 if byte else 0  # the first of two is in the lower half
            return low - 16 if constant.dtype == "int4" and low > 7 else low
        values = self.read_values(constant, first=True)
        return values[0] if values else None
