"""What a run was judged on: the data, how it was prepared, and what became of every sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRef:
    """A data set's identity.

    Attributes:
        name: the file's or folder's name without what is above it.
        path: absolute path on the machine that asked; None where a function made the data.
        format: of the reader: ``npz``, ``folders``, ``csv``, ``coco`` …
        split: ``test``, ``train``, ``all`` …
        size: samples in the split.
        sha256: over the samples that were judged, in order, decoded, with their labels: two runs with the same one
            were asked the same questions.
    """

    name: str
    path: str | None
    format: str
    split: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A sample that could not be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The conditions of a run's accuracy. The numbers themselves are measurements of the run.

    Attributes:
        task: ``classification``, ``detection`` …
        n: samples judged.
        limit: how many were asked for; None is all of them.
        seed: of the choice of samples and of the bootstrap.
        preprocessing: as its YAML has it; what was done to every sample, in order.
        preprocessing_from: where that came from, in words.
        settings: of the task: how outputs were read.
        classes: names, where they are known.
        confusion: [label][answer] → samples; None where the task has none or there are more than 200 classes.
        skipped: of samples that could not be used, the first 100.
        skipped_count: all of them.
        reference: of an agreement without labels: sha256 of the model whose outputs were taken as right.
        seconds: of the pass over the data, preparing included.
        example: of tasks whose answers are classes with scores, what the model said of one sample: ``sample`` (its
            name), ``label``, and ``top``, its best classes as ``[class, score]``; else None.
    """

    task: str
    data: DataRef
    n: int
    limit: int | None = None
    seed: int = 0
    preprocessing: dict[str, Any] = field(default_factory=dict)
    preprocessing_from: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] | None = None
    skipped: tuple[Skipped, ...] = ()
    skipped_count: int = 0
    reference: str | None = None
    seconds: float | None = None
    example: dict[str, Any] | None = None
