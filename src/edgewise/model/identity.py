"""A model's identity: its format from its content, its signature, its files, their hash and their size."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, BadModel, as_flag
from edgewise.folders import absolute_path
from edgewise.model.graph import Graph
from edgewise.model.readers.base import (
    HEAD_BYTES,
    HasSignatures,
    Reader,
    ReadsGraph,
    ReadsGraphs,
    identify_version,
    readers,
)
from edgewise.model.readers.onnx_genai import CONFIG
from edgewise.model.readers.openvino import DECODER, makes_text
from edgewise.model.readers.openvino_genai import check_tokenizer
from edgewise.model.recognition import advise_conversion, recognise_file, recognise_folder
from edgewise.model.signature import Signature
from edgewise.record import ModelRef
from edgewise.registry import FOR_TESTS

SAVED_MODEL = "saved_model.pb"
_OF_FOLDERS = {"savedmodel": SAVED_MODEL, "onnx-genai": CONFIG, "openvino-genai": DECODER}
"""Format whose models are folders → the file that such a folder is read by."""
_BLOCK_BYTES = 2**20
_SETTLED_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that can be read.

    Attributes:
        ref: its identity, as records keep it.
        files: the model file, then its weight files in the order in which they enter `ref.sha256`.
    """

    ref: ModelRef
    signature: Signature
    files: tuple[Path, ...]


def open_model(path: str | os.PathLike[str] | ModelRef, signature: str = "") -> Model:
    """Find out what `path` is, from its content and whatever its name.

    The SHA-256 is that of the model file followed by its weight files: for one file, what ``sha256sum`` prints.

    Args:
        path: a path, or the identity of a model that was opened before.
        signature: name of the entry point of a file that has several; "" is the default.

    Raises:
        BadInput: the file has no such `signature`.
        BadModel: it is missing, not a file, empty, truncated, corrupt, refused, or of a format that is not read.
    """
    if isinstance(path, ModelRef):
        signature = signature or path.signature
        path = path.path
    file = find_file(path)
    with _readable(file):
        reader = _find_reader(file)
        known = reader.read_signatures(file) if isinstance(reader, HasSignatures) else {}
        chosen = _choose_signature(reader, file, known, signature)
        described = known[chosen] if chosen else reader.read_signature(file)
        files = _list_files(reader, file)
        digest, size = _hash_files(files)
    name, several = _name(reader, file), tuple(known) if len(known) > 1 else ()
    ref = ModelRef(
        name=f"{name}:{chosen or several[0]}" if several else name,
        path=str(files[0]),
        format=reader.format,
        sha256=sha256(f"{digest} {chosen}".encode()).hexdigest() if chosen else digest,
        size_bytes=size,
        signature=chosen,
        signatures=several,
    )
    return Model(ref=ref, signature=described, files=files)


def _choose_signature(reader: Reader, file: Path, known: Mapping[str, Signature], wanted: str) -> str:
    """Return the name of the entry point `wanted`; "" for the default. Raises `BadInput`."""
    if wanted and wanted not in known:
        has = f"its signatures: {', '.join(known)}" if known else f"{reader.title} files have one network: omit it"
        raise BadInput(f"{_name(reader, file)} has no signature {wanted!r}", advice=has)
    return "" if wanted == next(iter(known), "") else wanted


class NoLayers(BadModel):
    """A model of a format whose layers edgewise can't read."""


def read_graph(
    path: str | os.PathLike[str] | ModelRef,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    signature: str = "",
) -> Graph:
    """Return the network of the model at `path`, whatever its format.

    Args:
        path: a path, or the identity of a model that was opened before.
        signature: as `open_model` takes it.
        shapes: input name → concrete shape, for inputs with open dimensions.

    Raises:
        BadModel: as `open_model`, or its reader tells no network.
        BadInput: a name in `shapes` is no input, or a shape does not fit.
    """
    if isinstance(path, ModelRef):
        signature = signature or path.signature
        path = path.path
    file = find_file(path)
    with _readable(file):
        reader = _find_reader(file)
        if signature:
            known = reader.read_signatures(file) if isinstance(reader, HasSignatures) else {}
            chosen = _choose_signature(reader, file, known, signature)
            if chosen and isinstance(reader, ReadsGraphs):
                return reader.read_graph(file, shapes=shapes, signature=chosen)
        if not isinstance(reader, ReadsGraph):
            raise NoLayers(
                f"{_name(reader, file)}: edgewise can't read the layers of the format {reader.title}",
                advice=advise_conversion(reader.format, file) or "update the plug-in that reads it",
            )
        return reader.read_graph(file, shapes=shapes)


def describe_file(path: str | os.PathLike[str], *, read_all: bool) -> dict[str, Any]:
    """Name, path, format, size and hash of a model's files, JSON-shaped.

    Args:
        read_all: read weight files too. Without it the hash of a model that has some is absent, with the reason.

    Raises:
        BadModel: as `open_model`.
    """
    file = find_file(path)
    reader = _find_reader(file)
    files = _list_files(reader, file)
    size = sum(each.stat().st_size for each in files)
    document: dict[str, Any] = {
        "name": _name(reader, file), "path": str(files[0]), "format": reader.format, "size_bytes": size, "sha256": None,
    }  # fmt: skip
    if len(files) == 1 or read_all:
        return {**document, "sha256": _hash_files(files)[0]}
    others = f"{len(files) - 1} weight file(s) of {size - files[0].stat().st_size:,} B were not read"
    return {**document, "sha256_absent_because": f"{others}; {as_flag('hash')} reads them"}


def format_of(path: str | os.PathLike[str]) -> tuple[str, Path]:
    """Return the format of the model at `path` and its file, from its beginning: no file is read to its end.

    Raises `BadModel`.
    """
    file = find_file(path)
    with _readable(file):
        return _find_reader(file).format, file


def list_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Return the model file at `path` and its weight files, as `Model.files`. Raises `BadModel`."""
    file = find_file(path)
    with _readable(file):
        return _list_files(_find_reader(file), file)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn what goes wrong while `file` is read into `BadModel`."""
    try:
        yield
    except OSError as error:
        raise BadModel(
            f"can't read {file}: {error.strerror or error}", advice="check the file's permissions"
        ) from error
    except (MemoryError, RecursionError) as error:
        raise BadModel(
            f"reading {file.name} needs more memory than available", advice="check that it is a model"
        ) from error


def find_file(path: str | os.PathLike[str]) -> Path:
    """Return the model file that `path` names: itself, or the file of a folder that is a model.

    Raises:
        BadModel: it is missing, empty, no regular file, or a folder that is no model that can be read.
    """
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode) and (inside := _file_of_folder(file)):
            file = inside
            mode = file.stat().st_mode
            if file.name == DECODER:
                check_tokenizer(file)
    except FileNotFoundError:
        raise BadModel(f"no such file: {file}", advice="check the path to the model") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise BadModel(f"can't read {str(file)!r}: {reason}", advice="check the path to the model") from error
    if stat.S_ISDIR(mode):
        if known := recognise_folder(file):
            raise known.refuse(file)
        patterns = ("*.onnx", "*.tflite", "*.pdmodel", "*.ort", "*.pb", "*.xml")
        inside = next((each for pattern in patterns for each in sorted(file.glob(pattern))), None)
        advice = f"give the model file inside it ({inside or _list_formats()})"
        raise BadModel(f"{file} is a folder, not a model file", advice=advice)
    if not stat.S_ISREG(mode):
        # A named pipe or a device would block or never end.
        raise BadModel(f"{file} is not a regular file", advice="give a model file")
    if file.stat().st_size == 0:
        raise BadModel(f"{file} is empty", advice="export or download it again")
    return file


def is_model_folder(path: Path) -> bool:
    """Whether `path` is a folder of a kind that is known to hold a model."""
    return path.is_dir() and (_file_of_folder(path) is not None or recognise_folder(path) is not None)


def _file_of_folder(folder: Path) -> Path | None:
    """Return the file that a folder is read by which is a model; None for others."""
    files = (folder / name for name in _OF_FOLDERS.values())
    return next((each for each in files if each.is_file() and (each.name != DECODER or makes_text(each))), None)


def _name(reader: Reader, file: Path) -> str:
    """Return what the model is called: its file's name, or its folder's where every file has the same name."""
    return absolute_path(file).parent.name if reader.format in _OF_FOLDERS else file.name


def _list_files(reader: Reader, file: Path) -> tuple[Path, ...]:
    """Return the model file and its weight files; the same file under two spellings counts once.

    They are not resolved: weights are looked for beside the name that was given, by us and by every engine.
    """
    return tuple(dict.fromkeys(absolute_path(each) for each in (file, *reader.weight_files(file))))


def _find_reader(file: Path) -> Reader:
    with file.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    for _, reader in readers():
        if reader.sniff(head, file):
            return reader
    raise _explain_unknown(head, file)


def _hash_files(files: Sequence[Path]) -> tuple[str, int]:
    """SHA-256 over the files' bytes in order, and how many there were; read once as long as no file changes."""
    newest = max((file.stat().st_mtime for file in files), default=0.0)
    # What was written just now may be written again within the same tick of the file system's clock.
    if time.time() - newest < _SETTLED_S:
        return _read_files(files)
    return _hash_versions(tuple(identify_version(file) for file in files))


@lru_cache(maxsize=256)
def _hash_versions(versions: tuple[tuple[Path, int, int, int], ...]) -> tuple[str, int]:
    return _read_files([version[0] for version in versions])


def _read_files(files: Sequence[Path]) -> tuple[str, int]:
    digest = sha256()
    size = 0
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
    return digest.hexdigest(), size


def _list_formats() -> str:
    """Return the formats that are read, for advice: without those for tests, and ``eager``, which only edgewise
    writes.
    """
    left_out = {*FOR_TESTS, "eager"}
    return "formats that edgewise reads: " + ", ".join(
        reader.title for name, reader in readers() if name not in left_out
    )


def _explain_unknown(head: bytes, file: Path) -> BadModel:
    """Return what a file that no reader wants seems to be, and what to do about it."""
    if known := recognise_file(head, file):
        return known.refuse(file)
    expected = {".onnx": "ONNX", ".tflite": "TFLite", ".lite": "TFLite", ".xml": "OpenVINO IR", ".keras": "Keras"}.get(
        file.suffix.lower()
    )
    if file.suffix == ".py":
        return BadModel(
            f"{file.name} is Python code, and no function in it is named",
            advice=f"give a function that makes the model: {file}:FUNCTION",
        )
    if expected:
        return BadModel(
            f"the content of {file.name} is not {expected}, although its name suggests it",
            advice="export or download it again",
        )
    return BadModel(f"{file.name} has an unknown format", advice=_list_formats())
