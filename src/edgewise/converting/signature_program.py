"""One signature of a SavedModel, or one program of a ``.pt2`` archive, as a model of its own. Needs no framework."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from edgewise.model.identity import SAVED_MODEL, list_files
from edgewise.model.readers.base import damaged
from edgewise.wire import BYTES, Damaged, encode_varint, read_fields

_META_GRAPH, _SIGNATURE, _KEY = 2, 5, 1
"""Fields of ``SavedModel``, ``MetaGraphDef`` and the entries of its map ``signature_def``."""
_OF_PROGRAM = (
    "models/{}.json", "data/sample_inputs/{}.pt", "data/weights/{}_weights_config.json",
    "data/constants/{}_constants_config.json",
)  # fmt: skip
"""Entries of a ``.pt2`` archive that belong to one program; ``torch/export/pt2_archive/constants.py`` names them."""
_SHARED = re.compile(r"archive_format|archive_version|byteorder|\.data/.*")


def write_program(source: Path, name: str, target: Path) -> None:
    """Write the program `name` of a ``.pt2`` archive alone, with its weights. Raises `BadModel` for a damaged one."""
    renamed = {each.format(name): each.format("model") for each in _OF_PROGRAM}
    try:
        with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as made:
            entries = {each.filename.partition("/")[2]: each for each in archive.infolist()}
            for own in list(renamed):
                if own.endswith("_config.json") and own in entries:
                    folder = own.rpartition("/")[0]
                    config = json.loads(archive.read(entries[own]))["config"]
                    payloads = (f"{folder}/{each['path_name']}" for each in config.values())
                    renamed |= {payload: payload for payload in payloads}
            for own, entry in entries.items():
                if own in renamed or _SHARED.fullmatch(own):
                    if entry.compress_type != zipfile.ZIP_STORED:
                        raise damaged(source, f"{entry.filename} in it is compressed")
                    new = zipfile.ZipInfo(f"archive/{renamed.get(own, own)}")
                    new.file_size = entry.file_size
                    with archive.open(entry) as stream, made.open(new, "w") as out:
                        shutil.copyfileobj(stream, out)
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(source, f"its program {name} can't be taken out of it") from error


def write_saved_model(source: Path, name: str, folder: Path) -> None:
    """Write the SavedModel whose ``saved_model.pb`` is `source` to `folder`, with the signature `name` alone.

    Its variables and assets are copied whole. Raises `BadModel`: the file is damaged, or has a link to a file outside
    its folder.
    """
    folder.mkdir()
    for file in list_files(source)[1:]:
        copy = folder / file.relative_to(source.absolute().parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    try:
        (folder / SAVED_MODEL).write_bytes(b"".join(_keep_signature(source.read_bytes(), name.encode())))
    except Damaged as error:
        raise damaged(source, f"its signature {name} can't be taken out of it: {error}") from error


def _keep_signature(data: bytes, name: bytes) -> Iterator[bytes]:
    """Yield the parts of a ``SavedModel`` with one signature; names that begin with ``__`` are TensorFlow's own."""
    for begin, number, wire, value, after in read_fields(data, 0, len(data)):
        if number != _META_GRAPH or wire != BYTES:
            yield data[begin:after]
            continue
        kept = [
            data[at:end]
            for at, field, kind, inner, end in read_fields(data, value, after)
            if field != _SIGNATURE or kind != BYTES or (key := _key(data, inner, end)) == name or key.startswith(b"__")
        ]
        yield encode_varint(_META_GRAPH << 3 | BYTES) + encode_varint(sum(map(len, kept)))
        yield from kept


def _key(data: bytes, begin: int, end: int) -> bytes:
    return next((data[at:after] for _, field, _, at, after in read_fields(data, begin, end) if field == _KEY), b"")
