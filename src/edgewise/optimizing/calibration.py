"""Prepared samples for passes in one file: the inputs of the model, and labels where the data has some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import as_flag

if TYPE_CHECKING:
    import numpy as np

    from edgewise.optimizing.base import PassTask

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Prepared samples.

    Attributes:
        arrays: per input in the model's order, for the float model, with the samples along the first axis.
        count: number of samples.
        labels: class indices (int64) or None.
    """

    arrays: tuple[Array, ...]
    count: int
    labels: Array | None = None

    def __len__(self) -> int:
        return self.count

    def feeds(self, limit: int | None = None) -> Iterator[list[Array]]:
        """Per sample, one array per input, each of the input's shape."""
        rows = [len(array) // max(1, len(self)) for array in self.arrays]
        for index in range(len(self) if limit is None else min(limit, len(self))):
            yield [array[index * own : (index + 1) * own] for array, own in zip(self.arrays, rows, strict=True)]


def make_probes(
    examples: Sequence[Array], samples: Calibration | None, *, seed: int, count: int = 2
) -> list[list[Array]]:
    """`count` inputs of the shapes and types of `examples`: samples, or random numbers where there are none.

    Integers without samples are those of the examples, since other values may be invalid.
    """
    import numpy as np

    if samples is None:
        random = np.random.default_rng(seed)
        return [
            [np.asarray(random.standard_normal(each.shape), each.dtype) if each.dtype.kind == "f" else each
             for each in examples]
            for _ in range(count)
        ]  # fmt: skip
    probes = []
    for start in range(count):
        probe = []
        for array, example in zip(samples.arrays, examples, strict=True):
            batch = len(example) if example.ndim else 1
            chosen = [(start * batch + offset) % len(array) for offset in range(batch)]
            probe.append(array[chosen].reshape(example.shape).astype(example.dtype))
        probes.append(probe)
    return probes


def write_calibration(path: Path, feeds: Sequence[Sequence[Array]], labels: Sequence[int] | None) -> None:
    """Write `feeds` (per sample: one array per input, of the input's shape) and labels to `path`."""
    import numpy as np

    columns = [np.concatenate([feed[index] for feed in feeds]) for index in range(len(feeds[0]))]
    named = {f"input_{index}": column for index, column in enumerate(columns)}
    named["count"] = np.array(len(feeds))
    if labels is not None:
        named["labels"] = np.asarray(labels, dtype=np.int64)
    np.savez(path, allow_pickle=False, **named)


def read_calibration(path: Path) -> Calibration:
    """Read a file of `write_calibration`."""
    import numpy as np

    with np.load(path, allow_pickle=False) as data:
        inputs = sum(name.startswith("input_") for name in data.files)
        arrays = tuple(data[f"input_{index}"] for index in range(inputs))
        labels = data["labels"] if "labels" in data.files else None
        return Calibration(arrays, int(data["count"]), labels)


def load_calibration(task: PassTask[Any], *, inputs: int) -> Calibration:
    """Return the samples of a task.

    Raises `CannotApply` without samples or with another number of arrays than inputs.
    """
    from edgewise.optimizing.base import CannotApply

    if task.calibration is None:
        raise CannotApply(f"it needs samples to calibrate on ({as_flag('data')})")
    calibration = read_calibration(task.calibration)
    if not len(calibration):
        raise CannotApply("there are no samples to calibrate on")
    if len(calibration.arrays) != inputs:
        raise CannotApply(f"each sample has {len(calibration.arrays)} arrays, but the model has {inputs} inputs")
    return calibration
