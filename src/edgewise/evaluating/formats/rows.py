"""Splits whose samples are rows of arrays in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.evaluating.dataset import CorruptSample, Kind, Sample
from edgewise.evaluating.formats.split import Split
from edgewise.workload.arrays import Array, StoredArray


@dataclass(kw_only=True)
class ArrayRows(Split):
    """Rows of arrays.

    Attributes:
        inputs: input → array, all of one length; the only input of most data is named after its array.
        masks: labels that are arrays, read with the sample.
        rate: frames per second of sound.
        stored: the files, all in one folder.
    """

    inputs: Mapping[str, StoredArray]
    masks: StoredArray | None = None
    rate: int | None = None
    stored: Sequence[Path]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.about = self.rate, [(name, array.shape, array.dtype.str) for name, array in self.inputs.items()]

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def read(self, index: int) -> Sample:
        """Return the sample, decoded now. Raises `CorruptSample`, and `BadInput` where a file is damaged."""
        first, array = next(iter(self.inputs.items()))
        name = f"{first}[{index}]"
        data: Array | str | Mapping[str, Array]
        if len(self.inputs) > 1:
            data = {each: array.row(index) for each, array in self.inputs.items()}
        elif self.kind == "text":
            data = str(array.row(index))
        else:
            data = _as_kind(array.row(index), self.kind)
        label = self.label_of(index) if self.masks is None else check_mask(self.masks.row(index), name)
        return Sample(index=index, name=name, data=data, label=label, rate=self.rate)

    def find_files(self) -> tuple[Path, Iterable[str]]:
        """As `Split.find_files`."""
        return self.stored[0].parent, [file.name for file in self.stored]


def is_picture(dtype: np.dtype[Any], shape: Sequence[int]) -> bool:
    """Return whether arrays of this type and shape are pixels: (height, width) or (height, width, 1, 3 or 4)."""
    return dtype == np.uint8 and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)))


def check_mask(mask: Array, name: str) -> Array:
    """Return a label that is an array. Raises `CorruptSample` for one that is not finite or has a negative class."""
    if mask.dtype.kind == "f" and not np.isfinite(mask).all():
        raise CorruptSample(name, "its label holds values that are not finite")
    if mask.dtype.kind == "i" and mask.size and mask.min() < 0:
        raise CorruptSample(name, f"its label holds the class {mask.min()}, and a class is 0 or more")
    return mask


def _as_kind(row: Array, kind: Kind) -> Array:
    """Return a row in the shape and type that samples of its kind have."""
    if kind == "image" and row.ndim == 2:
        return row[:, :, None]
    if kind == "audio":
        scaled = row.astype(np.float32) / np.float32(2**15) if row.dtype == np.int16 else row.astype(np.float32)
        return scaled[:, None] if scaled.ndim == 1 else scaled
    return row
