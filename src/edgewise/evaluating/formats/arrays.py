"""Arrays in files, sample by sample: ``.npy`` files, and the entries of an ``.npz``. Nothing is ever unpickled."""

from __future__ import annotations

import io
import math
import struct
import warnings
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample
from edgewise.workload.inputs import MAX_FILE_ARRAYS, MAX_FILE_BYTES

Array = np.ndarray[Any, np.dtype[Any]]

_HEADER_BYTES = 2**14
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_DAMAGE = (
    OSError,
    zipfile.BadZipFile,
    ValueError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    struct.error,
    zlib.error,
)
_KINDS = "biufU"
"""Kinds of numpy's types that samples and labels are made of: truth values, numbers and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of an array; its data begins after `offset` bytes."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def size(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes]) -> Header:
    """The header of an array in numpy's format, version 1 or 2.

    Raises:
        ValueError: no array, Python objects, records, or numbers of a kind that no model is fed.
    """
    with warnings.catch_warnings(action="ignore"):
        data = io.BytesIO(stream.read(_HEADER_BYTES))
        try:
            readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, fortran, dtype = readers[np.lib.format.read_magic(data)](data)
        except Exception as error:  # numpy reads headers with Python's own tokeniser, which has errors of many kinds
            raise ValueError("no array in numpy's format") from error
    if dtype.hasobject:
        raise ValueError("Python objects, which are never unpickled")
    if dtype.names or dtype.subdtype or dtype.kind not in _KINDS:
        raise ValueError(f"values of the type {dtype}")
    return Header(shape=tuple(shape), fortran=bool(fortran), dtype=dtype, offset=data.tell())


def read_array_file(path: Path, name: str) -> Array:
    """The array of a ``.npy`` file.

    Raises:
        CorruptSample: no such file, no array, Python objects, truncated, or of more than `MAX_FILE_BYTES`.
    """
    try:
        if not path.is_file():
            raise CorruptSample(name, "no such file")
        with path.open("rb") as stream:
            header = read_header(stream)
            there = stream.seek(0, io.SEEK_END) - header.offset
            if header.size > MAX_FILE_BYTES or header.size > there:
                raise CorruptSample(name, f"truncated: {there} of {header.size} bytes are there")
            stream.seek(header.offset)
            return _shape(stream.read(header.size), header, header.shape)
    except (OSError, ValueError) as error:
        raise CorruptSample(name, f"not a .npy file that can be read: {error}") from error


@dataclass(kw_only=True)
class Entry:
    """One array of an ``.npz`` file.

    Attributes:
        stored: where its data begins in the file, if it is not compressed; else it is unpacked once, on first
            use.
    """

    path: Path
    name: str
    header: Header
    stored: int | None
    _whole: Array | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.header.shape[0] if self.header.shape else 0

    def row(self, index: int) -> Array:
        """Number `index` along the first axis. Raises `BadInput` for a damaged file."""
        if self.stored is None or self.header.fortran or len(self.header.shape) == 1:
            row: Array = self.whole()[index]
            return row
        shape = self.header.shape[1:]
        size = math.prod(shape) * self.header.dtype.itemsize
        with self._explained(), self.path.open("rb") as stream:
            stream.seek(self.stored + index * size)
            return _shape(stream.read(size), self.header, shape)

    def whole(self) -> Array:
        """All of it. Raises `BadInput` for a damaged file."""
        if self._whole is None:
            with self._explained(), zipfile.ZipFile(self.path) as archive, archive.open(f"{self.name}.npy") as stream:
                stream.seek(self.header.offset)
                data = stream.read(self.header.size)
                stream.read(1)  # at the end of an entry zipfile checks its CRC
                self._whole = _shape(data, self.header, self.header.shape)
        return self._whole

    def _explained(self) -> explained_damage:
        return explained_damage(self.path, f"array {self.name!r}")


class explained_damage:  # noqa: N801 - reads as a statement
    """Errors of reading an archive as `BadInput`."""

    def __init__(self, path: Path, what: str = "") -> None:
        self.path = path
        self.what = f", {what}" if what else ""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _DAMAGE):
            raise BadInput(
                f"{self.path.name}{self.what} is damaged: {error}", advice="write it again with numpy.savez"
            ) from error


def open_archive(path: Path) -> dict[str, Entry]:
    """The arrays of an ``.npz`` file by name: headers are read, data is not.

    Raises:
        BadInput: no such file, not an archive, damaged, too large, or with an entry that is not an array of numbers.
    """
    if not path.is_file() or not zipfile.is_zipfile(path):
        what = "is not an .npz file" if path.exists() else "is not there"
        raise BadInput(f"{path} {what}", advice="write one with numpy.savez('data.npz', x=…, y=…)")
    with explained_damage(path), zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        declared = sum(info.file_size for info in infos)
        if declared > MAX_FILE_BYTES or len(infos) > MAX_FILE_ARRAYS:
            raise BadInput(
                f"{path.name} would unpack to {declared} bytes in {len(infos)} arrays",
                advice=f"at most {MAX_FILE_BYTES} bytes and {MAX_FILE_ARRAYS} arrays; larger data as files in folders",
            )
        return {info.filename.removesuffix(".npy"): _open_entry(path, archive, info) for info in infos}


def _open_entry(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    name = info.filename.removesuffix(".npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or name == info.filename:
        raise BadInput(f"{info.filename} in {path.name} is not written by numpy", advice="write it with numpy.savez")
    try:
        with archive.open(info) as stream:
            header = read_header(stream)
    except ValueError as error:
        raise BadInput(
            f"{info.filename} in {path.name} can't be read: {error}",
            advice="write plain arrays of numbers with numpy.savez",
        ) from error
    if header.size != info.file_size - header.offset:
        raise BadInput(
            f"{info.filename} in {path.name} declares {header.size} bytes of data and has "
            f"{info.file_size - header.offset}",
            advice="write it again with numpy.savez",
        )
    plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
    return Entry(path=path, name=name, header=header, stored=_find_data(path, info, header) if plain else None)


def _find_data(path: Path, info: zipfile.ZipInfo, header: Header) -> int:
    """Where the data of an entry that is not compressed begins. Raises `BadZipFile` where it is not all there."""
    with path.open("rb") as stream:
        end = stream.seek(0, io.SEEK_END)
        stream.seek(info.header_offset)
        _, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    start: int = info.header_offset + _LOCAL_HEADER.size + name + extra + header.offset
    if info.compress_size != info.file_size or start + header.size > end:
        raise zipfile.BadZipFile(f"{info.filename} is not all there")
    return start


def _shape(data: bytes, header: Header, shape: tuple[int, ...]) -> Array:
    """`data` as an array in the machine's own byte order. Raises `ValueError` where bytes are missing."""
    array = np.frombuffer(data, header.dtype)
    order = "F" if header.fortran else "C"
    return array.astype(header.dtype.newbyteorder("=")).reshape(shape, order=order)  # type: ignore[call-overload,no-any-return]
