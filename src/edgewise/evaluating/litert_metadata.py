"""TensorFlow Lite Metadata of a ``.tflite``, read without any package.

The metadata is a flatbuffer with the identifier ``M001`` in the buffer that the model's list of metadata calls
``TFLITE_METADATA``; its fields are in `edgewise.model.readers.tflite_schema`. Files that it names (labels) are entries
of a zip archive that is appended to the model.

Only the preparation of inputs and the meaning of outputs are read: the normalisation (x − mean) / std of raw pixels,
colours, and labels. The schema does not cover resizing, so none is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, BadModel
from edgewise.evaluating.class_names import parse_names
from edgewise.model.readers.archive import open_archive
from edgewise.model.readers.base import damaged
from edgewise.model.readers.tflite_tables import Table, Tables, Vector, open_tables
from edgewise.safe_yaml import read_lines

NAME = "TFLITE_METADATA"
IDENTIFIER = b"M001"

_GRAYSCALE = 2
"""Of ColorSpaceType."""
_LABELS = (2, 3)
"""Of AssociatedFileType: labels of an axis, and of values."""
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
    """Return the metadata of the model at `path`; None where it has none.

    Raises `BadInput`: it has some, and they are damaged; or it is no TFLite model or can't be read.
    """
    try:
        with open_tables(path) as tables:
            found = _read(path, tables)
    except BadModel as error:
        reason = error.message.partition("can't be used: ")[2] or error.message
        raise BadModel(
            f"the metadata in {path.name} can't be read: {reason}", advice="export it again, or without metadata"
        ) from error
    except OSError as error:
        raise BadModel(f"can't read {path}: {error.strerror}", advice="check the path to the model") from error
    if found is None:
        return None
    steps, labels = found
    return LitertMetadata(steps=steps, classes=() if labels is None else _read_labels(path, labels))


def _read(path: Path, tables: Tables) -> tuple[dict[str, tuple[tuple[str, Any], ...]], str | None] | None:
    """Return steps of the inputs, and the name of the file with labels; None where the model has no metadata."""
    model = tables.read_model()
    place = next((entry["buffer"] for entry in model["metadata"] if entry["name"] == NAME), None)
    if place is None:
        return None
    if place >= len(model["buffers"]):
        raise damaged(path, "they are in a buffer that is not there")
    data = model["buffers"][place]["data"]
    if data is None or tables.buffer[data.start + 4 : data.start + 8] != IDENTIFIER:
        raise damaged(path, f"they have no identifier {IDENTIFIER.decode()}")
    graph = next(iter(tables.read_root("ModelMetadata", data.start)["subgraph_metadata"]), None)
    if graph is None:
        return {}, None
    names, listed = _input_names(path, tables, model), graph["input_tensor_metadata"]
    if listed and len(listed) != len(names):
        raise damaged(path, f"they describe {len(listed)} inputs of {len(names)}")
    found = {name: _read_steps(path, tables, tensor) for name, tensor in zip(names, listed, strict=False)}
    steps = {"" if len(names) == 1 else name: each for name, each in found.items() if each}
    return steps, _find_labels(graph)


def _input_names(path: Path, tables: Tables, model: Table) -> list[str]:
    graph = next(iter(model["subgraphs"]), None)
    if graph is None:
        return []
    inputs = tables.numbers(graph["inputs"])
    if any(not 0 <= index < len(graph["tensors"]) for index in inputs):
        raise damaged(path, "an input is not there")
    return [graph["tensors"][index]["name"] for index in inputs]


def _read_steps(path: Path, tables: Tables, tensor: Table) -> tuple[tuple[str, Any], ...]:
    steps: list[tuple[str, Any]] = []
    properties = tensor["content"] and tensor["content"]["content_properties"]
    if properties and properties[0] == "ImageProperties" and properties[1]["color_space"] == _GRAYSCALE:
        steps.append(("color", "gray"))
    for unit in tensor["process_units"]:
        if unit["options"] is None or unit["options"][0] != "NormalizationOptions":
            continue
        mean, std = (_floats(path, tables, unit["options"][1][name]) for name in ("mean", "std"))
        if any(isinstance(number, str) for number in (*mean, *std)) or 0 in std:
            raise damaged(path, "a mean or standard deviation is not a number, or is 0")
        if mean and std:
            steps.append(("normalize", {"mean": list(mean), "std": list(std)}))
    return tuple(steps)


def _floats(path: Path, tables: Tables, vector: Vector | None) -> tuple[Any, ...]:
    if vector is not None and vector.length > _MAX_CHANNELS:
        raise damaged(path, "a list is too long")
    return tables.numbers(vector)


def _find_labels(graph: Table) -> str | None:
    for tensor in graph["output_tensor_metadata"]:
        files = [file for file in tensor["associated_files"] if file["type"] in _LABELS]
        if files:
            # Of translations, the one without a language is the first choice, as the schema's code generator takes it.
            name: str = next((file for file in files if not file["locale"]), files[0])["name"]
            return name
    return None


def _read_labels(path: Path, name: str) -> tuple[str, ...]:
    with open_archive(path) as archive:
        content = archive.read(name, _MAX_LABEL_BYTES)
    try:
        text = content.decode("utf-8-sig")
        # Ultralytics stores its whole metadata, with the names, as the file of labels.
        return parse_names(text) or tuple(read_lines(text))
    except UnicodeDecodeError as error:
        raise BadInput(f"the labels {name!r} in {path.name} are not UTF-8", advice="export it again") from error
