"""The files of MNIST and its family: ``train-images-idx3-ubyte`` beside ``train-labels-idx1-ubyte``, gzipped or not."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset, Sample
from edgewise.evaluating.formats.labels import check_indices
from edgewise.evaluating.formats.listing import list_folder
from edgewise.evaluating.formats.recognition import IDX_NAME, BuiltInFormat
from edgewise.evaluating.formats.split import ALL, Split, check_options, find_split, stamp_files
from edgewise.workload.inputs import MAX_FILE_BYTES

Array = np.ndarray[Any, np.dtype[Any]]

#: Third byte of a file → type of its values, big-endian; see http://yann.lecun.com/exdb/mnist/
_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_MAX_DIMENSIONS = 8


@dataclass(kw_only=True)
class IdxFile:
    """An array in a file. A gzipped one is unpacked once, on first use."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    _whole: Array | None = field(default=None, repr=False)

    def row(self, index: int) -> Array:
        """Number `index` along the first axis. Raises `BadInput` for a damaged file."""
        if _is_packed(self.path):
            row: Array = self.whole()[index]
            return row
        shape = self.shape[1:]
        size = math.prod(shape) * self.dtype.itemsize
        with self.path.open("rb") as stream:
            stream.seek(self.offset + index * size)
            data = stream.read(size)
        return self._to_array(data, shape)

    def whole(self) -> Array:
        """All of it. Raises `BadInput` for a damaged file."""
        if self._whole is None:
            size = math.prod(self.shape) * self.dtype.itemsize
            try:
                with _open(self.path) as stream:
                    stream.read(self.offset)
                    data = stream.read(size)
                    more = stream.read(1)  # reading to the end has gzip check what it unpacked
            except (OSError, EOFError, zlib.error) as error:
                raise _damaged(self.path, str(error)) from error
            if more:
                raise _damaged(self.path, f"it has more data than the {size} bytes it declares")
            self._whole = self._to_array(data, self.shape)
        return self._whole

    def _to_array(self, data: bytes, shape: tuple[int, ...]) -> Array:
        if len(data) != math.prod(shape) * self.dtype.itemsize:
            raise _damaged(self.path, "it is truncated")
        return np.frombuffer(data, self.dtype).astype(self.dtype.newbyteorder("=")).reshape(shape)


@dataclass(kw_only=True)
class IdxRows(Split):
    """Rows of an IDX file and their labels."""

    images: IdxFile
    labels: Sequence[int] | None
    files: Sequence[Path]

    def __len__(self) -> int:
        return self.images.shape[0]

    def read(self, index: int) -> Sample:
        """The sample, read now. Raises `BadInput` where the file is damaged."""
        row = self.images.row(index)
        data = row[:, :, None] if self.kind == "image" and row.ndim == 2 else row
        label = None if self.labels is None else self.labels[index]
        return Sample(index=index, name=f"{self.images.path.name}[{index}]", data=data, label=label)

    def stamp(self) -> str:
        """From names, sizes and times."""
        return stamp_files(self.files[0].parent, [file.name for file in self.files], extra=self.split)


class Idx(BuiltInFormat):
    """A folder of IDX files, ``train-…`` and ``t10k-…`` or ``test-…``, or one file of images, its labels beside it.

    Options: ``prefix``, which data set of several in one folder: ``emnist-letters`` of
    ``emnist-letters-train-images-idx3-ubyte``.
    """

    name = "idx"
    title = "IDX files: MNIST and its family"

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Its splits. Raises `BadInput`, `Unavailable`."""
        check_options(options, known=("prefix",), form=self.name)
        if path.is_dir():
            return {
                split: _open_split(path, split, images, labels)
                for split, (images, labels) in _find_pairs(path, options.get("prefix")).items()
            }
        found = IDX_NAME.fullmatch(path.name)
        if found is None or not path.is_file():
            raise BadInput(
                f"{path} is not an IDX file",
                advice="give a file named like train-images-idx3-ubyte, or a folder of them",
            )
        pairs = _pair_names(list_folder(path.absolute().parent)[1])
        images, labels = pairs.get(found["stem"], (None, None))
        if found["what"].lower() == "images":
            images = path.name
        if images is None:
            raise BadInput(f"{path} has labels only", advice="its images are named like train-images-idx3-ubyte")
        split = _split_of(found["stem"])[1]
        beside = path.parent
        return {split: _open_split(path, split, beside / images, beside / labels if labels else None)}


def _find_pairs(folder: Path, prefix: str | None) -> dict[str, tuple[Path, Path | None]]:
    """Split → files of images and labels."""
    pairs = _pair_names(list_folder(folder)[1])
    prefixes = sorted({_split_of(stem)[0] for stem, (images, _) in pairs.items() if images})
    if not prefixes:
        raise BadInput(f"{folder} has no IDX files of images", advice="they are named like train-images-idx3-ubyte")
    if prefix is None and len(prefixes) > 1:
        raise BadInput(f"{folder} holds {len(prefixes)} data sets", advice=f"prefix= one of: {', '.join(prefixes)}")
    wanted = prefixes[0] if prefix is None else prefix.removesuffix("-")
    if wanted not in prefixes:
        raise BadInput(f"{folder} holds no files of {wanted!r}", advice=f"prefix= one of: {', '.join(prefixes)}")
    found: dict[str, tuple[Path, Path | None]] = {}
    for stem, (images, labels) in sorted(pairs.items()):
        own, split = _split_of(stem)
        if own == wanted and images:
            found[split] = folder / images, folder / labels if labels else None
    return found


def _pair_names(names: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
    """Stem → names of its images and labels; of a file that is there both packed and not, the one that is not."""
    pairs: dict[str, tuple[str | None, str | None]] = {}
    for name in sorted(names, key=lambda each: (_is_packed(Path(each)), each)):
        found = IDX_NAME.fullmatch(name)
        if found:
            images, labels = pairs.get(found["stem"], (None, None))
            if found["what"].lower() == "images":
                images = images or name
            else:
                labels = labels or name
            pairs[found["stem"]] = images, labels
    return pairs


def _split_of(stem: str) -> tuple[str, str]:
    """``emnist-letters-train`` → ``emnist-letters`` and ``train``."""
    before, _, last = stem.rpartition("-")
    if last.lower() == "t10k":
        return before, "test"
    split = find_split(last)
    return (before, split) if split else (stem, ALL)


def _open_split(path: Path, split: str, images: Path, labels: Path | None) -> IdxRows:
    rows = _open_file(images)
    values = None
    if labels is not None:
        found = _open_file(labels)
        if len(found.shape) != 1 or found.shape[0] != rows.shape[0]:
            raise BadInput(
                f"{labels.name} has the shape {list(found.shape)}, {images.name} has {rows.shape[0]} samples",
                advice="one label a sample: take both files from the same place",
            )
        if found.dtype.kind == "f":
            raise BadInput(f"the labels of {labels.name} are fractions", advice="class indices are whole numbers")
        values = check_indices(found.whole(), lambda index: f"{labels.name}[{index}]")
    is_image = rows.dtype == np.dtype(">u1") and (
        len(rows.shape) == 3 or (len(rows.shape) == 4 and rows.shape[3] in (1, 3, 4))
    )
    return IdxRows(
        name=path.name, path=path, format="idx", split=split, kind="image" if is_image else "array",
        labelled=values is not None, images=rows, labels=values, files=[images] if labels is None else [images, labels],
    )  # fmt: skip


def _open_file(path: Path) -> IdxFile:
    """Reads the header, and checks it against the size of the file."""
    try:
        with _open(path) as stream:
            magic = stream.read(4)
            if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
                raise _damaged(path, "it does not begin like an IDX file")
            if not 1 <= magic[3] <= _MAX_DIMENSIONS:
                raise _damaged(path, f"it declares {magic[3]} dimensions")
            shape = struct.unpack(f">{magic[3]}I", stream.read(4 * magic[3]))
        size = path.stat().st_size
        if _is_packed(path):
            with path.open("rb") as stream:
                stream.seek(-min(4, size), os.SEEK_END)
                (size,) = struct.unpack("<I", stream.read(4))  # of what was packed, as the end of a gzip file has it
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise _damaged(path, str(error)) from error
    dtype = np.dtype(_TYPES[magic[2]])
    offset = 4 + 4 * len(shape)
    promised = offset + math.prod(shape) * dtype.itemsize
    if promised > MAX_FILE_BYTES:
        raise BadInput(f"{path.name} would unpack to {promised} bytes", advice=f"at most {MAX_FILE_BYTES}")
    if size != promised % 2**32 and (size != promised or _is_packed(path)):
        raise _damaged(path, f"it declares {promised} bytes and has {size}")
    return IdxFile(path=path, shape=shape, dtype=dtype, offset=offset)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if _is_packed(path) else path.open("rb")


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _damaged(path: Path, reason: str) -> BadInput:
    return BadInput(f"{path.name} is damaged: {reason}", advice="fetch it again")
