"""TFLite files whose weights stand behind the flatbuffer, as those above 2 GB must have them."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

NOT_IN_OPENVINO = (
    "OpenVINO does not read weights that stand behind the flatbuffer, as in .tflite files above 2 GB; LiteRT does"
)
_BUFFERS, _OFFSET = 4, 1
"""Numbers of the fields: `buffers` of a model, `offset` of a buffer (tensorflow/lite/schema/schema.fbs)."""


def has_buffers_behind(path: Path) -> bool:
    """Whether a buffer of the TFLite file at `path` names a place in the file instead of holding its data.

    False where it is another file, or damaged.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data[4:8] == b"TFL3" and _has_offsets(data)
    except (OSError, ValueError):  # a folder, or an empty file
        return False


def _has_offsets(data: mmap.mmap) -> bool:
    try:
        model = struct.unpack_from("<I", data)[0]
        if (field := _field(data, model, _BUFFERS)) is None:
            return False
        vector = field + struct.unpack_from("<I", data, field)[0]
        count = struct.unpack_from("<I", data, vector)[0]
        places = range(vector + 4, min(vector + 4 + 4 * count, len(data)), 4)
        tables = (place + struct.unpack_from("<I", data, place)[0] for place in places)
        offsets = (_field(data, table, _OFFSET) for table in tables)
        # 1 is what a writer puts there before it knows the place.
        return any(at is not None and struct.unpack_from("<Q", data, at)[0] > 1 for at in offsets)
    except struct.error:
        return False


def _field(data: mmap.mmap, table: int, number: int) -> int | None:
    """Where the field of this number stands; None where the table does not have it."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, layout)[0]
    slot = 4 + 2 * number
    at = struct.unpack_from("<H", data, layout + slot)[0] if slot + 2 <= size else 0
    return table + at if at else None
