"""The conditions of an accuracy: the data set, how samples were prepared, and which samples were skipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRef:
    """The identity of a data set.

    Attributes:
        name: name of the file or folder, without its path.
        path: absolute path on the host; None if a function made the data.
        format: name of the reader: ``npz``, ``folders``, ``csv``, ``coco`` …
        split: ``test``, ``train``, ``all`` …
        size: number of samples in the split.
        sha256: hash of the evaluated samples, decoded, in order, with their labels. Runs with equal hashes used the
            same samples.
        data_sha256: the same of all samples that were chosen from the data, also those that `optimize` set apart to
            calibrate with: the identity of the data, wherever its folder is. Empty in older records.
    """

    name: str
    path: str | None
    format: str
    split: str
    size: int
    sha256: str
    data_sha256: str = ""

    def hashes(self, digits: int = 16) -> str:
        """Return ``"data sha256 0123456789abcdef"``; with that of the samples where these are a part."""
        whole = f"data sha256 {(self.data_sha256 or self.sha256)[:digits]}"
        part = "" if self.data_sha256 in ("", self.sha256) else f", of these samples {self.sha256[:digits]}"
        return whole + part


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A sample that could not be used, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedPart:
    """Evaluated samples on which the model was also calibrated, and its accuracy without them.

    Attributes:
        samples: number of evaluated samples that also calibrated the model.
        metric: the metric that the task is about.
        n: number of the other samples.
        value, low, high: of `metric` on the other samples, with its 95 % interval; None where it is not known.
    """

    samples: int
    metric: str
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The conditions of a run's accuracy. The values themselves are measurements of the run.

    Attributes:
        task: ``classification``, ``detection`` …
        n: number of evaluated samples.
        limit: number of samples requested; None means all.
        seed: random seed of the choice of samples and of the bootstrap.
        preprocessing: the preparation steps of every sample in order, as in the YAML file.
        preprocessing_from: where the steps come from, in words.
        settings: options of the task: how outputs were read.
        classes: names of the classes; empty if unknown.
        confusion: [label][answer] → number of samples; None if the task has no classes or more than 200.
        skipped: the first 100 samples that could not be used.
        skipped_count: number of all samples that could not be used.
        changes: what was changed or cut off that no preparation step names, such as ``converted from CMYK to RGB`` →
            number of evaluated samples.
        reference: for an agreement without labels, the sha256 of the model whose outputs were taken as right.
        seconds: time of the evaluation, preparation included.
        example: the model's answer for one sample, if answers are classes with scores: ``sample`` (its name),
            ``label``, and ``top``, the best classes as ``[class, score]``. Otherwise None.
        hosts: where hosts of a lab ran the samples: host → their number. Otherwise empty.
        calibrated: samples that also calibrated the model, as the provenance beside its file tells; None where none is
            known of.
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
    changes: dict[str, int] = field(default_factory=dict)
    reference: str | None = None
    seconds: float | None = None
    example: dict[str, Any] | None = None
    hosts: dict[str, int] = field(default_factory=dict)
    calibrated: CalibratedPart | None = None
