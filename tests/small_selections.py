"""Small data sets, judges and jobs for tests of everything that asks models about samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.evaluating.dataset import CorruptSample, Sample
from edgewise.evaluating.evaluator import ModelUnderTest, SampleSelection
from edgewise.evaluating.instructions import Instructions
from edgewise.record import Job, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF, RunBuilder

NET = {"operators": [{"name": "mix", "op": "Mix", "kind": "elementwise", "inputs": ["x"], "outputs": ["y"]}]}
"""The network of a fake model with the usual input and output."""


class Rows:
    """A data set of rows in memory.

    Args:
        data: one sample a row.
        on_read: called with each number before it is read; what it raises is raised.
        mark: what `stamp` tells.
    """

    format = "memory"
    kind = "array"

    def __init__(
        self,
        data: Sequence[Any],
        labels: Sequence[Any] | None = None,
        *,
        split: str = "test",
        on_read: Callable[[int], object] | None = None,
        mark: str = "",
        classes: Sequence[str] = (),
    ) -> None:
        self.name, self.path, self.split, self.classes = "rows", None, split, classes
        self.labelled = labels is not None
        self.data, self.labels, self.on_read, self.mark = data, labels, on_read, mark
        self.read_numbers: list[int] = []

    def __len__(self) -> int:
        return len(self.data)

    def read(self, index: int) -> Sample:
        self.read_numbers.append(index)
        if self.on_read is not None:
            self.on_read(index)
        label = None if self.labels is None else self.labels[index]
        return Sample(index=index, name=f"row[{index}]", data=self.data[index], label=label)

    def stamp(self) -> str:
        return self.mark


def corrupt(*numbers: int) -> Callable[[int], None]:
    """For `Rows.on_read`: these can't be read."""

    def read(index: int) -> None:
        if index in numbers:
            raise CorruptSample(f"row[{index}]", "scratched")

    return read


class Recorder:
    """A judge that keeps the outputs."""

    headline = "mae"

    def __init__(self, **settings: Any) -> None:
        self.settings: Mapping[str, Any] = settings

    def record(self, outputs, sample, preparation):
        return [np.asarray(array).tolist() for array in outputs]

    def tabulate(self, records):
        raise AssertionError("nothing is scored here")


def rows(count: int, width: int = 4, *, seed: int = 0) -> np.ndarray:
    """Float32 [count, width]."""
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def job_of(path: Path, *, runtime: str = "fake", batch: int = 1, memory_limit: int | None = None) -> Job:
    """How a model is run."""
    plan = make_plan(
        [path],
        axes=Axes(runtimes=(runtime,), threads=(1,), batches=(batch,)),
        scenario=Scenario(),
        stopping=Stopping(timeout_s=60.0),
        target=TargetSpec(memory_limit_bytes=memory_limit),
    )
    return plan.jobs[0]


def model_under_test(path: Path, **settings: Any) -> ModelUnderTest:
    """A model that is fed what is stored."""
    return ModelUnderTest(job=job_of(path, **settings), instructions=Instructions())


def selection(
    data: Rows, indices: Sequence[int] | None = None, *, strict: bool = False, seed: int = 0
) -> SampleSelection:
    """All samples, or those with these numbers."""
    chosen = tuple(range(len(data))) if indices is None else tuple(indices)
    return SampleSelection(data=data, indices=chosen, strict=strict, seed=seed)


def run_builder() -> RunBuilder:
    """One that saves nothing."""
    return RunBuilder(save=lambda run: None, sensors=METERS_OFF)
