"""A model's identity: its format from its content, its signature, its files, their hash and their size."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgewise.errors import BadModel
from edgewise.model.graph import Graph
from edgewise.model.readers.base import HEAD_BYTES, Reader, ReadsGraph, readers
from edgewise.model.signature import Signature
from edgewise.record import ModelRef

_BLOCK_BYTES = 2**20


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


def open_model(path: str | os.PathLike[str]) -> Model:
    """Find out what `path` is, from its content and whatever its name.

    The SHA-256 is that of the model file followed by its weight files: for one file, what ``sha256sum`` prints.

    Raises:
        BadModel: it is missing, not a file, empty, truncated, corrupt, refused, or of a format that is not read.
    """
    file = Path(path)
    _check_file(file)
    with _readable(file):
        head = _read_head(file)
        reader = _find_reader(head, file)
        signature = reader.read_signature(file)
        # Not resolved: weights are looked for beside the name that was given, by us and by every engine.
        # The same file under two spellings counts once.
        files = tuple(dict.fromkeys(_make_absolute(each) for each in (file, *reader.weight_files(file))))
        digest, size = _hash_files(files)
    ref = ModelRef(name=file.name, path=str(files[0]), format=reader.format, sha256=digest, size_bytes=size)
    return Model(ref=ref, signature=signature, files=files)


def read_graph(path: str | os.PathLike[str], *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """The network of the model at `path`, whatever its format.

    Args:
        shapes: input name → concrete shape, for inputs with open dimensions.

    Raises:
        BadModel: as `open_model`, or its reader tells no network.
        BadInput: a name in `shapes` is no input, or a shape does not fit.
    """
    file = Path(path)
    _check_file(file)
    with _readable(file):
        reader = _find_reader(_read_head(file), file)
        if not isinstance(reader, ReadsGraph):
            raise BadModel(f"the reader of {reader.title} files tells no network", advice="update the plug-in it is in")
        return reader.read_graph(file, shapes=shapes)


def describe_file(path: str | os.PathLike[str], *, read_all: bool) -> dict[str, Any]:
    """Name, path, format, size and hash of a model's files, JSON-shaped.

    Args:
        read_all: read weight files too. Without it the hash of a model that has some is absent, with the reason.

    Raises:
        BadModel: as `open_model`.
    """
    file = Path(path)
    reader = _find_reader(_read_head(file), file)
    files = tuple(dict.fromkeys(_make_absolute(each) for each in (file, *reader.weight_files(file))))
    size = sum(each.stat().st_size for each in files)
    document: dict[str, Any] = {
        "name": file.name, "path": str(files[0]), "format": reader.format, "size_bytes": size, "sha256": None,
    }  # fmt: skip
    if len(files) == 1 or read_all:
        return {**document, "sha256": _hash_files(files)[0]}
    others = f"{len(files) - 1} weight file(s) of {size - files[0].stat().st_size:,} B were not read"
    return {**document, "sha256_absent_because": f"{others}; --hash reads them"}


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turns what goes wrong while `file` is read into `BadModel`."""
    try:
        yield
    except OSError as error:
        raise BadModel(
            f"can't read {file}: {error.strerror or error}", advice="check the file's permissions"
        ) from error
    except (MemoryError, RecursionError) as error:
        raise BadModel(
            f"{file.name} needs more memory to read than there is", advice="is it really a model?"
        ) from error


def _make_absolute(file: Path) -> Path:
    return Path(os.path.abspath(file))  # noqa: PTH100 (resolve would follow links)


def _check_file(file: Path) -> None:
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise BadModel(f"no such file: {file}", advice="check the path to the model") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise BadModel(f"can't read {str(file)!r}: {reason}", advice="check the path to the model") from error
    if stat.S_ISDIR(mode):
        raise BadModel(f"{file} is a folder, not a model file", advice=_advise_on_folder(file))
    if not stat.S_ISREG(mode):
        # A named pipe or a device would block or never end.
        raise BadModel(f"{file} is not a regular file", advice="give a model file")
    if file.stat().st_size == 0:
        raise BadModel(f"{file} is empty", advice="export or download it again")


def _advise_on_folder(folder: Path) -> str:
    if folder.suffix == ".mlpackage":
        return "Core ML packages are not read; export the original model to ONNX"
    if (folder / "saved_model.pb").exists():
        return "this is a TensorFlow SavedModel; convert it with tf2onnx or tf.lite.TFLiteConverter"
    return f"give the model file inside it ({_list_formats()})"


def _read_head(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(HEAD_BYTES)


def _find_reader(head: bytes, file: Path) -> Reader:
    for _, reader in readers():
        if reader.sniff(head, file):
            return reader
    raise _explain_unknown(head, file)


def _hash_files(files: Sequence[Path]) -> tuple[str, int]:
    """SHA-256 over the files' bytes in order, and how many there were."""
    digest = sha256()
    size = 0
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
    return digest.hexdigest(), size


def _list_formats() -> str:
    """The formats that are read, for advice; the fake one is for tests and not offered."""
    return "what is read: " + ", ".join(reader.title for name, reader in readers() if name != "fake")


#: (where, mark, what it is, what to do): formats that are known and not read.
_KNOWN: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"version https://git-lfs", "a Git LFS pointer, not the model itself", "run 'git lfs pull' in its repository"),
    (0, b"GGUF", "a GGUF model", "language models in GGUF run in llama.cpp, not here; export the original to ONNX"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, probably a Keras model or its weights",
     "load it in Keras and call model.export('model.onnx', format='onnx')"),
    (4, b"ET1", "an ExecuTorch program", "export the original model to ONNX or TFLite"),
    (4, b"ORTM", "an ONNX Runtime .ort file", "give the .onnx file it was made from"),
    (0, b"\x1f\x8b", "compressed with gzip", "unpack it first"),
    (0, b"\xfd7zXZ\x00", "compressed with xz", "unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
    (0, b"ptrt", "a TensorRT engine", "engines are bound to one GPU; give the ONNX model it was built from"),
    (0, b"ftrt", "a TensorRT engine", "engines are bound to one GPU; give the ONNX model it was built from"),
    (0, b"RKNN", "an RKNN model", "give the ONNX model it was converted from"),
    (0, b"7767517", "an ncnn .param file", "give the ONNX model it was converted from"),
    (0, b"\x93NUMPY", "a numpy array, not a model", "arrays go to --input-data, as .npz"),
)  # fmt: skip

_TORCH_ADVICE = "export it in PyTorch: torch.onnx.export(model, inputs, 'model.onnx', dynamo=True)"


def _explain_unknown(head: bytes, file: Path) -> BadModel:
    """What a file that no reader wants seems to be, and what to do about it."""
    for what, advice in _recognise(head, file):
        return BadModel(f"{file.name} is {what}; edgewise can't read that", advice=advice)
    expected = {".onnx": "ONNX", ".tflite": "TFLite", ".lite": "TFLite", ".xml": "OpenVINO IR"}.get(file.suffix.lower())
    if expected:
        return BadModel(
            f"{file.name} is not what its name says: its content is not {expected}",
            advice="export or download it again",
        )
    return BadModel(f"{file.name} is of no known model format", advice=_list_formats())


def _recognise(head: bytes, file: Path) -> Iterator[tuple[str, str]]:
    """Every (what, advice) that fits, the surest first."""
    for at, mark, what, advice in _KNOWN:
        if head[at : at + len(mark)] == mark:
            yield what, advice
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        yield _recognise_zip(head, file)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        yield "a Python pickle", f"pickles can run code and are never opened here; {_TORCH_ADVICE}"
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**27:
        yield "a safetensors file, which holds weights and no network", _TORCH_ADVICE
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        yield "a web page, probably of a download that failed", "download it again and look at what arrives"
    if start.startswith(b"{"):
        yield "JSON text", _list_formats()
    if start.startswith(b"<?xml"):
        yield "XML, but not an OpenVINO IR (it has no <net>)", _list_formats()
    yield from _recognise_name(head, file)


def _recognise_zip(head: bytes, file: Path) -> tuple[str, str]:
    """A zip archive by the name of its first entry: cheap, and nothing is unpacked."""
    length = int.from_bytes(head[26:28], "little")
    first = head[30 : 30 + length]
    if first.endswith((b"/data.pkl", b"/version", b"/byteorder", b"/.format_version")) or file.suffix in (
        ".pt",
        ".pth",
    ):
        return "a PyTorch model or its weights", _TORCH_ADVICE
    if first.endswith(b".npy"):
        return "an .npz file of arrays, not a model", "arrays go to --input-data"
    return "a zip archive", "unpack it first"


def _recognise_name(head: bytes, file: Path) -> Iterator[tuple[str, str]]:
    """Formats without a mark, told by what lies beside the file or by its name."""
    beside = file.with_suffix(".xml")
    if file.suffix == ".bin":
        if beside.is_file():
            yield "the weights of an OpenVINO model", f"give the .xml beside it: {beside}"
        else:
            yield "a .bin file of weights, without a network", "for an OpenVINO model give the .xml that belongs to it"
    for owner in (
        file.with_suffix(""),
        file.with_suffix(".onnx"),
        file.with_name(file.name.partition(".onnx")[0] + ".onnx"),
    ):
        if owner != file and owner.suffix == ".onnx" and owner.is_file() and file.suffix not in (".tflite", ".xml"):
            yield "weights that belong to an ONNX model", f"give the .onnx beside it: {owner}"
    if file.suffix == ".mlmodel":
        yield "a Core ML model", "export the original model to ONNX"
    if file.suffix == ".pb" and head[:1] in (b"\x08", b"\x0a"):
        yield "a TensorFlow graph", "convert it with tf2onnx or tf.lite.TFLiteConverter"
    if file.suffix == ".caffemodel":
        yield "a Caffe model", "convert it to ONNX"
