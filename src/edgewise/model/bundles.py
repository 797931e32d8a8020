"""Which models a zip archive holds, such as MediaPipe's ``.task``. Nothing is written to a disk."""

from __future__ import annotations

from io import BytesIO
from pathlib import PurePosixPath
from zipfile import ZipInfo

from edgewise.errors import BadModel
from edgewise.model.readers.archive import Archive, open_archive

TASK = ".task"
MODELS = (".tflite", ".lite", ".onnx", ".ort", ".xml", ".pb", ".pt2", ".pte", ".keras", ".pdmodel", ".mlmodel")
MOST_ENTRIES = 256
"""Entries of one archive that are looked at."""
MOST_INNER = 8
"""Bundles inside a bundle that are looked at; MediaPipe's gesture recogniser has two."""
MOST_INNER_BYTES = 64 * 2**20


def models_in(archive: Archive) -> list[tuple[str, ...]]:
    """Return the models in `archive`: for each the names of the archives that hold it, from the outside in, then
    its own.

    Names that lead out of a folder, and what is damaged, are left out: an archive may be hostile. A bundle in which no
    model is found stands for itself.
    """
    entries = {each.filename: each for each in archive.entries[:MOST_ENTRIES] if is_plain(each.filename)}
    found: list[tuple[str, ...]] = [
        (name,) for name, entry in entries.items() if name.endswith(MODELS) or _is_tflite(archive, entry)
    ]
    for bundle in [name for name in entries if name.endswith(TASK)][:MOST_INNER]:
        found += [(bundle, name) for name in _models_of_inner(archive, bundle)] or [(bundle,)]
    return found


def is_plain(name: str) -> bool:
    """Whether a name is a path below a folder that can be printed."""
    parts = name.split("/")
    return name.isprintable() and not {"", ".", ".."} & {*parts} and not {"\\", ":"} & {*name}


def _is_tflite(archive: Archive, entry: ZipInfo) -> bool:
    """Whether an entry is a LiteRT model: those of language models have no ending."""
    if PurePosixPath(entry.filename).suffix:
        return False
    try:
        return next(archive.blocks(entry, entry.file_size), b"")[4:8] == b"TFL3"
    except BadModel:
        return False


def _models_of_inner(archive: Archive, bundle: str) -> list[str]:
    try:
        content = archive.read(bundle, MOST_INNER_BYTES)
        with open_archive(archive.path, content=BytesIO(content)) as inner:
            return [name for name in inner.names[:MOST_ENTRIES] if is_plain(name) and name.endswith(MODELS)]
    except BadModel:
        return []
