"""TensorFlow Lite Metadata of a ``.tflite``, read without any package.

The metadata is a flatbuffer with the identifier ``M001`` in the buffer that the model's list of metadata calls
``TFLITE_METADATA``. Places of fields are those of metadata_schema.fbs, version 1.1.0:
https://github.com/tensorflow/tflite-support/blob/master/tensorflow_lite_support/metadata/metadata_schema.fbs.
Files that it names (labels) are entries of a zip archive that is appended to the model.

Only the preparation of inputs and the meaning of outputs are read: the normalisation (x − mean) / std of raw pixels,
colours, and labels. The schema does not cover resizing, so none is assumed.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, BadModel
from edgewise.evaluating.safe_yaml import read_lines
from edgewise.model.readers.archive import open_archive
from edgewise.wire import Damaged, Flat

NAME = "TFLITE_METADATA"
IDENTIFIER = b"M001"

_SUBGRAPHS, _BUFFERS, _METADATA = 2, 4, 6  # of Model, in tensorflow/lite/schema/schema.fbs
_TENSORS, _INPUTS = 0, 1  # of SubGraph
_TENSOR_NAME = 3  # of Tensor
_METADATA_NAME, _METADATA_BUFFER = 0, 1  # of Metadata
_DATA = 0  # of Buffer

_SUBGRAPH_METADATA = 3  # of ModelMetadata
_INPUT_METADATA, _OUTPUT_METADATA = 2, 3  # of SubGraphMetadata
_CONTENT, _PROCESS_UNITS, _ASSOCIATED_FILES = 3, 4, 6  # of TensorMetadata
_PROPERTIES_TYPE, _PROPERTIES = 0, 1  # of Content: a union takes two places
_COLOR_SPACE = 0  # of ImageProperties
_OPTIONS_TYPE, _OPTIONS = 0, 1  # of ProcessUnit
_MEAN, _STD = 0, 1  # of NormalizationOptions
_FILE_NAME, _FILE_TYPE, _FILE_LOCALE = 0, 2, 3  # of AssociatedFile
_IMAGE, _GRAYSCALE, _NORMALIZATION, _AXIS_LABELS, _VALUE_LABELS = 2, 2, 1, 2, 3  # of the enumerations

_MAX_TABLES = 10_000
_MAX_PARTS = 64
_MAX_CHANNELS = 4096
_MAX_LABEL_BYTES = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class LitertMetadata:
    """Attributes:
    steps: input name ("" for the only one) → (step, its settings as written) in order.
    classes: labels of the first output that has some.
    """

    steps: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()


def read_litert_metadata(path: Path) -> LitertMetadata | None:
    """The metadata of the model at `path`; None where it has none.

    Raises:
        BadInput: it has some, and they are damaged; or it is no TFLite model or can't be read.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(path, data)
    except Damaged as error:
        raise BadModel(
            f"the metadata in {path.name} can't be read: {error}", advice="export it again, or without metadata"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadModel(f"can't read {path}: {reason}", advice="check the path to the model") from error


class _Metadata(Flat):
    """A flatbuffer with the kinds of fields that metadata have besides those of a network's outline."""

    def floats(self, table: int, slot: int) -> tuple[float, ...]:
        """The 32-bit floats of a vector."""
        start, count = self._vector(table, slot)
        if count > _MAX_CHANNELS or start + 4 * count > len(self._data):
            raise Damaged("a list is too long")
        return struct.unpack_from(f"<{count}f", self._data, start)

    def content(self, table: int, slot: int) -> bytes:
        """The bytes of a vector."""
        start, count = self._vector(table, slot)
        if start + count > len(self._data):
            raise Damaged("a buffer leaves the file")
        return bytes(self._data[start : start + count])

    def table(self, table: int, slot: int) -> int | None:
        """A table; None where it is left out."""
        at = self._field(table, slot)
        return None if at is None else self.at_offset(at)


def _read(path: Path, data: mmap.mmap) -> LitertMetadata | None:
    model = _Metadata(data)
    root = model.at_offset(0)
    blob = _find_buffer(model, root)
    if blob is None:
        return None
    if blob[4:8] != IDENTIFIER:
        raise Damaged(f"they have no identifier {IDENTIFIER.decode()}")
    flat = _Metadata(blob)
    graph = next(flat.tables(flat.at_offset(0), _SUBGRAPH_METADATA, _MAX_PARTS), None)
    if graph is None:
        return LitertMetadata()
    names = _input_names(model, root)
    listed = list(flat.tables(graph, _INPUT_METADATA, _MAX_TABLES))
    if listed and len(listed) != len(names):
        raise Damaged(f"they describe {len(listed)} inputs of {len(names)}")
    steps = {}
    for name, tensor in zip(names, listed, strict=False):
        found = _read_steps(flat, tensor)
        if found:
            steps["" if len(names) == 1 else name] = found
    return LitertMetadata(steps=steps, classes=_read_classes(path, flat, graph))


def _find_buffer(model: _Metadata, root: int) -> bytes | None:
    for entry in model.tables(root, _METADATA, _MAX_TABLES):
        if model.text(entry, _METADATA_NAME) == NAME:
            index = model.number(entry, _METADATA_BUFFER, "<I")
            buffers = list(model.tables(root, _BUFFERS, 1_000_000))
            if index >= len(buffers):
                raise Damaged("they are in a buffer that is not there")
            return model.content(buffers[index], _DATA)
    return None


def _input_names(model: _Metadata, root: int) -> list[str]:
    graph = next(model.tables(root, _SUBGRAPHS, 1000), None)
    if graph is None:
        return []
    names = [model.text(tensor, _TENSOR_NAME) for tensor in model.tables(graph, _TENSORS, 1_000_000)]
    inputs = model.integers(graph, _INPUTS)
    if any(not 0 <= index < len(names) for index in inputs):
        raise Damaged("an input is not there")
    return [names[index] for index in inputs]


def _read_steps(flat: _Metadata, tensor: int) -> tuple[tuple[str, Any], ...]:
    steps: list[tuple[str, Any]] = []
    content = flat.table(tensor, _CONTENT)
    if content is not None and flat.number(content, _PROPERTIES_TYPE, "<B") == _IMAGE:
        image = flat.table(content, _PROPERTIES)
        if image is not None and flat.number(image, _COLOR_SPACE, "<b") == _GRAYSCALE:
            steps.append(("color", "gray"))
    for unit in flat.tables(tensor, _PROCESS_UNITS, _MAX_PARTS):
        options = flat.table(unit, _OPTIONS)
        if flat.number(unit, _OPTIONS_TYPE, "<B") != _NORMALIZATION or options is None:
            continue
        mean, std = flat.floats(options, _MEAN), flat.floats(options, _STD)
        if not all(map(math.isfinite, (*mean, *std))) or 0 in std:
            raise Damaged("a mean or standard deviation is not a number, or is 0")
        if mean and std:
            steps.append(("normalize", {"mean": list(mean), "std": list(std)}))
    return tuple(steps)


def _read_classes(path: Path, flat: _Metadata, graph: int) -> tuple[str, ...]:
    for tensor in flat.tables(graph, _OUTPUT_METADATA, _MAX_TABLES):
        files = [
            file
            for file in flat.tables(tensor, _ASSOCIATED_FILES, _MAX_PARTS)
            if flat.number(file, _FILE_TYPE, "<b") in (_AXIS_LABELS, _VALUE_LABELS)
        ]
        if files:
            # Of translations, the one without a language is the first choice, as the schema's code generator takes it.
            chosen = next((file for file in files if not flat.text(file, _FILE_LOCALE)), files[0])
            return _read_labels(path, flat.text(chosen, _FILE_NAME))
    return ()


def _read_labels(path: Path, name: str) -> tuple[str, ...]:
    with open_archive(path) as archive:
        content = archive.read(name, _MAX_LABEL_BYTES)
    try:
        return tuple(read_lines(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise BadInput(f"the labels {name!r} in {path.name} are not UTF-8", advice="export it again") from error
