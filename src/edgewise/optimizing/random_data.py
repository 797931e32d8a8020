"""Random inputs, where there is no data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.evaluating.dataset import Kind, Sample
from edgewise.record import InputSpec
from edgewise.workload.inputs import make_arrays


class RandomData:
    """Random inputs, where there is no data: enough to see whether two models compute the same."""

    name = "random inputs"
    path: Path | None = None
    format = "random"
    split = "all"
    kind: Kind = "array"
    classes: Sequence[str] = ()
    labelled = False

    def __init__(self, specs: Sequence[InputSpec], count: int) -> None:
        self._specs, self._count = specs, count

    def __len__(self) -> int:
        return self._count

    def read(self, index: int) -> Sample:
        """Arrays as the model is fed them."""
        arrays = make_arrays(self._specs, seed=index)
        data: Any = {spec.name: array for spec, array in zip(self._specs, arrays, strict=True)}
        return Sample(index=index, name=f"random[{index}]", data=data if len(arrays) > 1 else arrays[0])

    def stamp(self) -> str:
        """Nothing of it is stored."""
        return ""
