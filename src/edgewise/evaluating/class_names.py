"""Names of a model's classes from its own file, in the order of its outputs.

ONNX: an entry of ``metadata_props`` that Ultralytics calls ``names``: ``{0: 'person', 1: 'bicycle'}``. OpenVINO: the
``labels`` of ``model_info`` in ``rt_info``, separated by spaces, as Model API and Ultralytics write them. TFLite: the
``names`` in ``metadata.json`` of the zip archive that Ultralytics appends; for labels of TensorFlow Lite Metadata see
`edgewise.evaluating.litert_metadata`.
"""

from __future__ import annotations

import ast
import html
import json
import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from edgewise.errors import BadModel
from edgewise.model.readers.archive import open_archive
from edgewise.wire import BYTES, read_fields

_KEYS = ("names", "class_names", "classes", "labels")
_METADATA_PROPS, _KEY, _VALUE = 14, 1, 2
"""Fields of ONNX's ModelProto and StringStringEntryProto."""
_LABELS = re.compile(r'<model_info>(?:(?!</model_info>).)*?<labels value="([^"]*)"', re.DOTALL)
_MOST_CHARACTERS = 2**20


def read_class_names(model: Path, form: str) -> tuple[str, ...]:
    """Return class names in the file of the model; empty where it has none that can be read. `form`: its format."""
    with suppress(OSError, ValueError):  # a damaged file is reported where it is loaded
        if form == "onnx":
            known = dict(_onnx_metadata(model))
            return next(filter(None, (parse_names(known[key]) for key in _KEYS if key in known)), ())
        if form == "openvino":
            return _read_openvino(model)
        if form == "tflite":
            with suppress(BadModel), open_archive(model) as archive:
                return parse_names(archive.read("metadata.json", _MOST_CHARACTERS).decode())
    return ()


def parse_names(text: str) -> tuple[str, ...]:
    """Read a literal of Python or JSON: a list, a mapping of 0, 1, … to names, or a mapping with one of them as names.

    Empty where `text` is anything else.
    """
    found: object = None
    if len(text) <= _MOST_CHARACTERS:
        for read in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                found = found or read(text.strip())
    if isinstance(found, dict) and "names" in found:
        found = found["names"]
    if isinstance(found, dict):
        numbered = {int(key): name for key, name in found.items() if str(key).isdecimal()}
        complete = len(numbered) == len(found) and set(numbered) == set(range(len(numbered)))
        found = [numbered[number] for number in range(len(numbered))] if complete else None
    if isinstance(found, list | tuple) and all(isinstance(name, str) for name in found):
        return tuple(found)
    return ()


def _onnx_metadata(file: Path) -> Iterator[tuple[str, str]]:
    """Yield key and value of each entry; the graph is skipped, not read."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for _, number, kind, begin, end in read_fields(data, 0, len(data)):
            if number == _METADATA_PROPS and kind == BYTES and end - begin <= _MOST_CHARACTERS:
                entry = {
                    field: bytes(data[start:stop]).decode()
                    for _, field, _, start, stop in read_fields(data, begin, end)
                }
                yield entry.get(_KEY, ""), entry.get(_VALUE, "")


def _read_openvino(file: Path) -> tuple[str, ...]:
    """Read the names in the network's ``rt_info``, the end of the file."""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - _MOST_CHARACTERS))
        tail = stream.read().decode(errors="replace")
    found = _LABELS.search(tail)
    words = html.unescape(found[1]) if found else ""
    return parse_names(words) or tuple(words.split())
