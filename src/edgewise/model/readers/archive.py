"""Zip archives and the JSON inside them, read with limits: nothing is unpickled or believed."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO, FileIO
from pathlib import Path
from typing import Any

from edgewise.model.readers.base import damaged
from edgewise.text import first_line

MAX_DIRECTORY_BYTES = 8 * 2**20
"""Of an archive's list of entries: some 80,000 of them."""
MAX_JSON_BYTES = 128 * 2**20
MAX_JSON_VALUES = 4_000_000
"""Rough count of values in a document: what bounds the memory that it takes."""

SHORT_LIST = 64
"""Values of an option that is a list, as it is shown."""
SHORT_TEXT = 500
"""Characters of an option that is a text."""
_LARGEST = 2**63
_MAGIC = b"PK\x03\x04"
_LOCAL_HEADER = 30
"""Bytes of an entry's header before its name."""
_BLOCK = 2**20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: What `zipfile` raises for archives that lie about themselves; places before a file's start are an `OSError`.
_BAD = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError, OverflowError)


class Archive:
    """An open archive. Entries are found by name and never written anywhere, so that names can do no harm."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self.path = path
        self._file = file
        self.names = tuple(dict.fromkeys(file.namelist()))

    @property
    def entries(self) -> tuple[zipfile.ZipInfo, ...]:
        """What the directory says of every entry; two may have one name."""
        return tuple(self._file.infolist())

    def read(self, name: str, limit: int) -> bytes:
        """Return the bytes of the entry `name`.

        Raises `BadModel` where there are more than `limit` or they are damaged.
        """
        try:
            entry = self._file.getinfo(name)
        except KeyError:
            raise damaged(self.path, f"it has no {name!r}") from None
        return b"".join(self.blocks(entry, limit))

    def blocks(self, entry: zipfile.ZipInfo, limit: int) -> Iterator[bytes]:
        """Yield the bytes of `entry` in blocks. Raises as `read`."""
        name = entry.filename
        if entry.file_size > limit:
            raise damaged(self.path, f"{name!r} in it is of {entry.file_size} bytes, more than {limit}")
        if entry.compress_type not in _METHODS or entry.flag_bits & 1:
            raise damaged(self.path, f"{name!r} in it is encrypted or packed in an unusual way")
        try:
            with self._file.open(entry) as stream:
                size = 0
                while block := stream.read(_BLOCK):
                    size += len(block)
                    if size > limit:  # the directory may lie about sizes
                        raise damaged(self.path, f"{name!r} in it is of more than {limit} bytes")
                    yield block
        except _BAD as error:
            raise damaged(self.path, f"{name!r} in it is damaged: {first_line(error)}") from error

    def locate(self, name: str) -> tuple[int, int] | None:
        """Offset and size of the entry `name` in the file, in bytes; None if it is missing, packed or damaged."""
        entry = self._file.NameToInfo.get(name)
        if entry is None or entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            return None
        with self.path.open("rb") as stream:
            try:
                stream.seek(entry.header_offset)
                header = stream.read(_LOCAL_HEADER)
            except (OSError, ValueError):  # the directory may lie about places
                return None
        if len(header) < _LOCAL_HEADER or not header.startswith(_MAGIC):
            return None
        name_bytes, extra_bytes = struct.unpack_from("<HH", header, 26)
        return entry.header_offset + _LOCAL_HEADER + name_bytes + extra_bytes, entry.file_size

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in the entry `name`. Raises `BadModel`."""
        return parse_json(self.path, name, self.read(name, MAX_JSON_BYTES))


def looks_zipped(head: bytes) -> bool:
    """Whether a file starts as an archive does."""
    return head.startswith(_MAGIC)


def first_name(head: bytes) -> str:
    """Return the name of an archive's first entry, from the file's first bytes alone."""
    length = int.from_bytes(head[26:28], "little")
    return head[30 : 30 + length].decode("utf-8", "replace") if looks_zipped(head) else ""


@contextmanager
def open_archive(path: Path, *, content: BytesIO | None = None) -> Iterator[Archive]:
    """Yield the archive at `path`, or one inside it. Raises `BadModel` where it is none or its directory is absurd.

    Args:
        content: the bytes of an archive that is an entry of the one at `path`.
    """
    with _Bounded(FileIO(path)) if content is None else content as stream:
        try:
            file = zipfile.ZipFile(stream)
        except _BAD as error:
            raise damaged(path, f"it is not a complete zip archive: {first_line(error)}") from error
        with file:
            yield Archive(path, file)


class _Bounded(BufferedReader):
    """A file that refuses to be read in one piece, however large its directory says that it is."""

    def read(self, size: int | None = -1, /) -> bytes:
        everything = size is None or size < 0
        data = super().read(
            MAX_DIRECTORY_BYTES + 1 if everything or size is None else min(size, MAX_DIRECTORY_BYTES + 1)
        )
        if len(data) > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile("its directory is too large")
        return data


def parse_json(path: Path, name: str, data: bytes) -> dict[str, Any]:
    """Return a JSON object of a size that can be borne. Raises `BadModel`."""
    if sum(data.count(mark) for mark in (b",", b"[", b"{")) > MAX_JSON_VALUES:
        raise damaged(path, f"{name!r} in it has more than {MAX_JSON_VALUES} values")
    try:
        document = json.loads(data)
        if re.search(rb"\\u[dD][89a-fA-F]", data):
            # Half a surrogate pair is text that can't be written anywhere.
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"{name!r} in it is not JSON: {first_line(error)}") from error
    if not isinstance(document, dict):
        raise damaged(path, f"{name!r} in it is not a JSON object")
    return document


def shorten(value: Any) -> Any:
    """Return an option of an operator, JSON-shaped and small."""
    if isinstance(value, str):
        return value[:SHORT_TEXT]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST else "out of range"
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, list):
        if len(value) > SHORT_LIST:
            return f"{len(value)} values"
        plain = all(each is None or isinstance(each, int | float | str | bool) for each in value)
        return [shorten(each) for each in value] if plain else f"{len(value)} values"
    return f"{len(value)} values" if isinstance(value, dict) else str(type(value).__name__)
