"""TFLite files whose weights stand behind the flatbuffer, as those above 2 GB must have them."""

from __future__ import annotations

from pathlib import Path

from edgewise.errors import EdgewiseError
from edgewise.model.readers.tflite_tables import open_tables

NOT_IN_OPENVINO = (
    "OpenVINO does not read weights that stand behind the flatbuffer, as in .tflite files above 2 GB; LiteRT does"
)


def has_buffers_behind(path: Path) -> bool:
    """Return whether a buffer of the TFLite file at `path` names a place in the file instead of holding its data.

    False where it is another file, or damaged.
    """
    try:
        with open_tables(path) as tables:
            # 1 is what a writer puts there before it knows the place.
            return tables.buffer[4:8] == b"TFL3" and any(
                buffer["offset"] > 1 for buffer in tables.read_model()["buffers"]
            )
    except (OSError, EdgewiseError):
        return False
