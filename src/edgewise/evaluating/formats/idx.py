"""The files of MNIST and its family: ``train-images-idx3-ubyte`` beside ``train-labels-idx1-ubyte``, gzipped or not."""

from __future__ import annotations

import gzip
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, ClassVar, cast

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset
from edgewise.evaluating.formats.labels import Labels, check_indices
from edgewise.evaluating.formats.listing import list_folder
from edgewise.evaluating.formats.recognition import IDX_NAME, BuiltInFormat
from edgewise.evaluating.formats.rows import ArrayRows, is_picture
from edgewise.evaluating.formats.split import ALL, find_split
from edgewise.workload.arrays import MAX_FILE_BYTES, StoredArray, explain_damage

#: Third byte of a file → type of its values, big-endian; see http://yann.lecun.com/exdb/mnist/
_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_MAX_DIMENSIONS = 8


class Idx(BuiltInFormat):
    """A folder of IDX files, ``train-…`` and ``t10k-…`` or ``test-…``, or one file of images, its labels beside it.

    Options: ``prefix``, which data set of several in one folder: ``emnist-letters`` of
    ``emnist-letters-train-images-idx3-ubyte``.
    """

    name = "idx"
    title = "IDX files: MNIST and its family"
    options: ClassVar = {"prefix": ()}

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        if path.is_dir():
            pairs = _find_pairs(path, options.get("prefix"))
            return {split: _open_split(path, split, path, pair) for split, pair in pairs.items()}
        found = IDX_NAME.fullmatch(path.name)
        if found is None or not path.is_file():
            raise BadInput(
                f"{path} is not an IDX file",
                advice="give a file named like train-images-idx3-ubyte, or a folder of them",
            )
        pair = _pair_names(list_folder(path.absolute().parent)[1])[found["stem"]]
        if found["what"].lower() == "images":
            pair["images"] = path.name
        if "images" not in pair:
            raise BadInput(f"{path} has labels only", advice="its images are named like train-images-idx3-ubyte")
        split = _split_stem(found["stem"])[1]
        return {split: _open_split(path, split, path.parent, pair)}


def _find_pairs(folder: Path, prefix: str | None) -> dict[str, dict[str, str]]:
    """Return split → names of the files of its images and, where there are any, its labels. Raises `BadInput`."""
    pairs = {stem: pair for stem, pair in _pair_names(list_folder(folder)[1]).items() if "images" in pair}
    prefixes = sorted({_split_stem(stem)[0] for stem in pairs})
    if not prefixes:
        raise BadInput(f"{folder} has no IDX files of images", advice="they are named like train-images-idx3-ubyte")
    if prefix is None and len(prefixes) > 1:
        raise BadInput(f"{folder} holds {len(prefixes)} data sets", advice=f"prefix= one of: {', '.join(prefixes)}")
    wanted = prefixes[0] if prefix is None else prefix.removesuffix("-")
    if wanted not in prefixes:
        raise BadInput(f"{folder} holds no files of {wanted!r}", advice=f"prefix= one of: {', '.join(prefixes)}")
    return {_split_stem(stem)[1]: pairs[stem] for stem in sorted(pairs) if _split_stem(stem)[0] == wanted}


def _pair_names(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return stem → ``images`` and ``labels`` → name; of a file that is there packed and not, the one that is not."""
    pairs: dict[str, dict[str, str]] = {}
    for name in sorted(names, key=lambda name: (_is_packed(Path(name)), name)):
        if match := IDX_NAME.fullmatch(name):
            pairs.setdefault(match["stem"], {}).setdefault(match["what"].lower(), name)
    return pairs


def _split_stem(stem: str) -> tuple[str, str]:
    """Return prefix and split of a stem: ``emnist-letters`` and ``train`` of ``emnist-letters-train``."""
    before, _, last = stem.rpartition("-")
    if last.lower() == "t10k":
        return before, "test"
    split = find_split(last)
    return (before, split) if split else (stem, ALL)


def _open_split(path: Path, split: str, folder: Path, pair: Mapping[str, str]) -> ArrayRows:
    images = folder / pair["images"]
    rows = _open_file(images)
    values = None
    if "labels" in pair:
        labels = folder / pair["labels"]
        found = _open_file(labels)
        if len(found.shape) != 1 or len(found) != len(rows):
            raise BadInput(
                f"{labels.name} has the shape {list(found.shape)}, {images.name} has {len(rows)} samples",
                advice="one label a sample: take both files from the same place",
            )
        if found.dtype.kind == "f":
            raise BadInput(f"the labels of {labels.name} are fractions", advice="class indices are whole numbers")
        values = Labels(values=check_indices(found.whole(), lambda index: f"{labels.name}[{index}]"))
    return ArrayRows(
        name=path.name, path=path, format="idx", split=split, inputs={images.name: rows}, labels=values,
        kind="image" if is_picture(rows.dtype, rows.shape[1:]) else "array",
        stored=[folder / pair[what] for what in ("images", "labels") if what in pair],
    )  # fmt: skip


def _open_file(path: Path) -> StoredArray:
    """Read the header, and compare it with the size of the file. Raises `BadInput`."""
    with explain_damage(path.name):
        with _open(path) as stream:
            magic = stream.read(4)
            if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
                raise ValueError("it does not begin like an IDX file")
            if not 1 <= magic[3] <= _MAX_DIMENSIONS:
                raise ValueError(f"it declares {magic[3]} dimensions")
            shape = struct.unpack(f">{magic[3]}I", stream.read(4 * magic[3]))
        size = path.stat().st_size
        if _is_packed(path):
            with path.open("rb") as stream:
                stream.seek(-min(4, size), os.SEEK_END)
                (size,) = struct.unpack("<I", stream.read(4))  # the end of a gzip file has the size of the content
        dtype, offset = np.dtype(_TYPES[magic[2]]), 4 + 4 * len(shape)
        promised = offset + math.prod(shape) * dtype.itemsize
        if promised > MAX_FILE_BYTES:
            raise BadInput(f"{path.name} would unpack to {promised} bytes", advice=f"at most {MAX_FILE_BYTES}")
        if size != promised % 2**32 and (size != promised or _is_packed(path)):
            raise ValueError(f"it declares {promised} bytes and has {size}")
    return StoredArray(
        path=path, name=path.name, shape=shape, dtype=dtype, offset=None if _is_packed(path) else offset,
        unpack=partial(_open, path, offset),
    )  # fmt: skip


@contextmanager
def _open(path: Path, begin: int = 0) -> Iterator[IO[bytes]]:
    with gzip.open(path, "rb") if _is_packed(path) else path.open("rb") as stream:
        stream.read(begin)
        yield cast(IO[bytes], stream)


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"
