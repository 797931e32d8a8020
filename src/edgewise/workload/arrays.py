"""Arrays in files: headers are read at once, data on demand. Nothing is ever unpickled.

Also used inside the worker, so it needs the standard library and numpy only.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from edgewise.errors import BadInput

Array = np.ndarray[Any, np.dtype[Any]]

MAX_FILE_BYTES = 4 * 2**30
"""Largest size of the arrays of a file when they are unpacked."""
MAX_FILE_ARRAYS = 10_000

_HEADER_BYTES = 2**14
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_DAMAGE = (OSError, zipfile.BadZipFile, ValueError, EOFError, RuntimeError, struct.error, zlib.error)
_KINDS = "biufU"
"""Kinds of numpy's types that inputs and labels are made of: truth values, numbers and text."""


@contextmanager
def explain_damage(what: str) -> Iterator[None]:
    """Turn the errors of reading a broken file into a `BadInput` about `what`."""
    try:
        yield
    except _DAMAGE as error:
        raise BadInput(f"{what} is damaged: {error}", advice="write or fetch it again") from error


@dataclass(kw_only=True)
class StoredArray:
    """One array in a file.

    Attributes:
        name: of the array; that of the file, where it holds only one.
        offset: where its data begins, in bytes from the beginning of the file; None where it is packed: then it is
            unpacked once, on first use.
        unpack: opens its data.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False
    offset: int | None
    unpack: Callable[[], AbstractContextManager[IO[bytes]]]
    _whole: Array | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    @property
    def place(self) -> str:
        """The array in messages."""
        return self.name if self.name == self.path.name else f"{self.path.name}, array {self.name!r}"

    def row(self, index: int) -> Array:
        """Return row `index` of the first axis. Raises `BadInput` for a damaged file."""
        if self.offset is None or self.fortran or len(self.shape) == 1:
            row: Array = self.whole()[index]
            return row
        size = math.prod(self.shape[1:]) * self.dtype.itemsize
        with explain_damage(self.place), self.path.open("rb") as stream:
            stream.seek(self.offset + index * size)
            return _to_array(stream.read(size), self.dtype, self.shape[1:])

    def whole(self) -> Array:
        """Return the whole array. Raises `BadInput` for a damaged file."""
        if self._whole is None:
            size = math.prod(self.shape) * self.dtype.itemsize
            with explain_damage(self.place), self.unpack() as stream:
                data = stream.read(size)
                if stream.read(1):  # reading to the end also makes zipfile and gzip compare their checksums
                    raise ValueError(f"it has more data than the {size} bytes it declares")
                self._whole = _to_array(data, self.dtype, self.shape, fortran=self.fortran)
        return self._whole


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read the header of an array in numpy's format, version 1 or 2.

    Returns:
        Its shape, whether columns come first, its type, and where its data begins, in bytes.

    Raises:
        ValueError: not an array, Python objects, records, or numbers of a kind that no model is fed.
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
    return tuple(shape), bool(fortran), dtype, data.tell()


def open_array(path: Path) -> StoredArray:
    """Open a ``.npy`` file. Raises `ValueError` where it is no array, or truncated, and `OSError`."""
    with path.open("rb") as stream:
        shape, fortran, dtype, offset = read_header(stream)
        there, size = stream.seek(0, io.SEEK_END) - offset, math.prod(shape) * dtype.itemsize
    if size > MAX_FILE_BYTES or size > there:
        raise ValueError(f"truncated: {there} of {size} bytes are there")
    return StoredArray(
        path=path, name=path.name, shape=shape, fortran=fortran, dtype=dtype, offset=offset,
        unpack=partial(_open_at, path, offset),
    )  # fmt: skip


def open_archive(path: Path) -> dict[str, StoredArray]:
    """Return the arrays of an ``.npz`` file by name: headers are read, data is not.

    Raises:
        BadInput: no such file, not an archive, damaged, too large, or with an entry that is not an array of numbers.
    """
    if not path.is_file() or not zipfile.is_zipfile(path):
        what = "is not an .npz file" if path.exists() else "is not there"
        raise BadInput(f"{path} {what}", advice="write one with numpy.savez('data.npz', NAME=array, …)")
    with explain_damage(path.name), zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        declared = sum(entry.file_size for entry in entries)
        if declared > MAX_FILE_BYTES or len(entries) > MAX_FILE_ARRAYS:
            raise BadInput(
                f"{path.name} would unpack to {declared} bytes in {len(entries)} arrays",
                advice=f"at most {MAX_FILE_BYTES} bytes and {MAX_FILE_ARRAYS} arrays; larger data as files in folders",
            )
        return {entry.filename.removesuffix(".npy"): _open_entry(path, archive, entry) for entry in entries}


def _open_entry(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> StoredArray:
    name = entry.filename.removesuffix(".npy")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or name == entry.filename:
        raise BadInput(
            f"{entry.filename} in {path.name} is not written by numpy: not a .npy file, or of another compression",
            advice="write it with numpy.savez",
        )
    try:
        with archive.open(entry) as stream:
            shape, fortran, dtype, begin = read_header(stream)
    except ValueError as error:
        raise BadInput(
            f"{entry.filename} in {path.name} can't be read: {error}",
            advice="write plain arrays of numbers with numpy.savez",
        ) from error
    size, there = math.prod(shape) * dtype.itemsize, entry.file_size - begin
    if size != there:
        raise BadInput(
            f"{entry.filename} in {path.name} declares {size} bytes of data and has {there}",
            advice="write it again with numpy.savez",
        )
    plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
    return StoredArray(
        path=path, name=name, shape=shape, fortran=fortran, dtype=dtype,
        offset=_find_data(path, entry) + begin if plain else None,
        unpack=partial(_open_packed, path, entry.filename, begin),
    )  # fmt: skip


def _find_data(path: Path, entry: zipfile.ZipInfo) -> int:
    """Return where an entry that is not compressed begins. Raises `BadZipFile` where it is incomplete."""
    with path.open("rb") as stream:
        end = stream.seek(0, io.SEEK_END)
        stream.seek(entry.header_offset)
        _, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    start: int = entry.header_offset + _LOCAL_HEADER.size + name + extra
    if entry.compress_size != entry.file_size or start + entry.file_size > end:
        raise zipfile.BadZipFile(f"{entry.filename} is incomplete")
    return start


@contextmanager
def _open_packed(path: Path, name: str, begin: int) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(name) as stream:
        stream.seek(begin)
        yield stream


@contextmanager
def _open_at(path: Path, begin: int) -> Iterator[IO[bytes]]:
    with path.open("rb") as stream:
        stream.seek(begin)
        yield stream


def _to_array(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], *, fortran: bool = False) -> Array:
    """Return `data` as an array in the machine's own byte order. Raises `ValueError` where bytes are missing."""
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError("it is truncated")
    array = np.frombuffer(data, dtype)
    return array.astype(dtype.newbyteorder("=")).reshape(shape, order="F" if fortran else "C")
