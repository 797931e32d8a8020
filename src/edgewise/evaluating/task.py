"""Tasks: from outputs and labels to metrics, with intervals and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgewise.evaluating.dataset import Dataset, Kind, Sample
from edgewise.model.signature import Signature
from edgewise.registry import Registry

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

Record = Any
"""What a task keeps of one sample: small and JSON-shaped, so that an evaluation can be resumed and two models can be
compared sample by sample."""

ClassAnswer = tuple[int | None, float | None]
"""Number of a class, None where the outputs were NaN; and its score, None where the model gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How a sample was prepared: what a task needs to map outputs back to the sample as stored.

    Attributes:
        scale: (x, y): stored pixels → pixels of the input; None where the sample is no image.
        offset: (x, y): pixels of padding left and above, after scaling (negative: cropped away).
        size: (width, height) of the image as stored.
        input_size: (width, height) of the image as fed.
        fed: the arrays as they were fed, one per input, as real numbers; empty where they were not kept.
        changes: what was changed or cut off that no step names, each in a few words.
    """

    scale: tuple[float, float] | None = None
    offset: tuple[float, float] = (0.0, 0.0)
    size: tuple[int, int] | None = None
    input_size: tuple[int, int] | None = None
    fed: tuple[Array, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What a task needs before it reads outputs.

    Attributes:
        signature: of the model; outputs are in its order.
        data: the data set.
        options: ``--task-option NAME=VALUE``.
        classes: names in the order of the model's outputs, from the model or the user; empty where neither has them.
        classes_from: their source where that is the model's own file, in words; else empty.
        classes_given: where the user's request has them, as a marked field; else empty.
        language: whether the model is a language model, which is asked about texts and has no inputs and outputs.
        longest: tokens that a language model takes at most; None where its file does not say.
    """

    signature: Signature
    data: Dataset
    options: Mapping[str, str] = field(default_factory=dict)
    classes: Sequence[str] = ()
    classes_from: str = ""
    classes_given: str = ""
    language: bool = False
    longest: int | None = None


class MetricTable(Protocol):
    """Records of many samples, whose metrics can be computed again and again with other weights.

    Attributes:
        n: samples.
        proportions: metrics that are a share of samples → whether each sample counts for it. These get Wilson's
            interval, and McNemar's test between two models; all others are bootstrapped.
        bounds: lowest and highest value of a metric by its definition, where these are any other than 0 and 1.
    """

    n: int
    proportions: Mapping[str, Array]
    bounds: Mapping[str, tuple[float, float]]

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """Return every metric of the task, in the order in which they are shown; NaN where it is not defined.

        `weights`: how often each sample counts, float64 of length n; None: once.
        """


class Table:
    """Base of the built-in tables, which set what they have: proportions, and bounds other than 0 and 1."""

    n: int
    proportions: Mapping[str, Array] = {}
    bounds: Mapping[str, tuple[float, float]] = {}

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """As `MetricTable.values`."""
        import numpy as np

        return self._calculate(np.ones(self.n) if weights is None else np.asarray(weights, dtype=np.float64))

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        """Return every metric; `counts` is how often each sample counts, float64 (n,)."""
        raise NotImplementedError


class Scorer(Protocol):
    """Turns the outputs of one model on one data set into metrics.

    Attributes:
        headline: id of the task's main metric.
        settings: how outputs are read, JSON-shaped, including what was detected.
    """

    headline: str
    settings: Mapping[str, Any]

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """Return the record of one sample.

        `outputs`: of this sample alone, the leading batch dimension of size 1 included, floats (quantised outputs were
        brought back to real numbers), in the order of the signature. Raises `BadInput`: outputs or a label that the
        task can't read, which ends the evaluation; `CorruptSample`: this one has no answer.
        """

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """Return the records of one model, or of a part of the samples."""


@runtime_checkable
class HasConfusion(Protocol):
    """A table with a confusion matrix."""

    def confusion(self) -> Sequence[Sequence[int]]:
        """Return [label][answer] → samples; empty where there are too many classes to show."""


@runtime_checkable
class RunsModel(Protocol):
    """A scorer that runs the model itself, more than once per sample (text generation)."""

    def run_model(self, infer: Any, arrays: Sequence[Array], sample: Sample) -> Sequence[Array]:
        """Return the outputs of one sample. `infer(arrays) -> outputs` runs the model once."""


@runtime_checkable
class AsksLanguageModel(Protocol):
    """A scorer of a language model, whose outputs are the answers to its questions."""

    def question(self, sample: Sample) -> Mapping[str, Any]:
        """Return a question of `edgewise.run.language_samples`. Raises `BadInput` for a sample of another kind."""


@runtime_checkable
class ReadsAhead(Protocol):
    """A scorer with work to do before each batch (running a reference model)."""

    def begin_batch(self, samples: Sequence[Sample]) -> None:
        """Do that work for the samples of the next batch."""


@runtime_checkable
class RanksClasses(Protocol):
    """A scorer whose answers are classes with scores."""

    def top_classes(self, outputs: Sequence[Array], sample: Sample) -> Mapping[str, Any]:
        """Return ``label`` and ``top``, the best classes as ``[class, score]``, best first; empty without scores.

        `Scorer.record` has read the same outputs before.
        """


@runtime_checkable
class HasClasses(Protocol):
    """A scorer whose records hold one class per sample."""

    def classes_of(self, before: Record, after: Record) -> tuple[int | None, ClassAnswer, ClassAnswer] | None:
        """Return a sample's label and the answers in the records of two models; None where there is none."""


@runtime_checkable
class HasAnswers(Protocol):
    """A scorer whose records hold the answer and the reference."""

    def answer(self, record: Record) -> tuple[Any, Any]:
        """Return answer and reference: class numbers, or a text and the list of texts that are right."""


class Task(Protocol):
    """A task, in the entry-point group ``edgewise.tasks``.

    Attributes:
        name: the value of ``--task``.
        title: as tables of the field print it.
        kinds: of samples that it supports.
        metrics: ids, the main one first.

    A task may also have `language_models`, True where its scorers are `AsksLanguageModel` for these.
    """

    name: str
    title: str
    kinds: Sequence[Kind]
    metrics: Sequence[str]

    def prepare(self, context: TaskContext) -> Scorer:
        """Return the scorer. Raises `BadInput` for a model, labels or options that don't fit, `Unavailable`."""


def tasks() -> Registry[Task]:
    """Return all tasks, built-in and plugged in."""
    return Registry("edgewise.tasks", "task")
