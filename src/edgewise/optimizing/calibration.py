"""Samples for passes, prepared and in one file: what is fed to the model, and labels where there are some.

Read inside pass processes, so it needs the standard library and numpy only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Attributes:
    arrays: per input in the model's order, samples along the first axis, as the float model is fed them.
    labels: class indices (int64) or None.
    """

    arrays: tuple[Array, ...]
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.arrays[0]) if self.arrays else 0

    def feeds(self, limit: int | None = None) -> Iterator[list[Array]]:
        """Sample after sample: one array per input, each with a leading dimension of 1."""
        for index in range(len(self) if limit is None else min(limit, len(self))):
            yield [array[index : index + 1] for array in self.arrays]


def write_calibration(path: Path, feeds: Sequence[Sequence[Array]], labels: Sequence[int] | None) -> None:
    """Keep `feeds` (per sample: one array per input, leading dimension 1) and their labels at `path`."""
    import numpy as np

    columns = [np.concatenate([feed[index] for feed in feeds]) for index in range(len(feeds[0]))]
    named = {f"input_{index}": column for index, column in enumerate(columns)}
    if labels is not None:
        named["labels"] = np.asarray(labels, dtype=np.int64)
    np.savez(path, allow_pickle=False, **named)


def read_calibration(path: Path) -> Calibration:
    """What `write_calibration` wrote."""
    import numpy as np

    with np.load(path, allow_pickle=False) as data:
        count = sum(name.startswith("input_") for name in data.files)
        arrays = tuple(data[f"input_{index}"] for index in range(count))
        return Calibration(arrays, data["labels"] if "labels" in data.files else None)
