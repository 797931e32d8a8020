"""Tasks: how an output becomes an answer, what answers and labels add up to, with intervals and pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgewise.evaluating.dataset import Dataset, Kind, Sample
from edgewise.model.signature import Signature
from edgewise.registry import Registry

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

Record = Any
"""What a task keeps of one sample: small and JSON-shaped, so that a pass over the data can be resumed and two models
can be compared sample by sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """How a sample was brought to the model: what a task needs to find its way back to the sample as stored.

    Attributes:
        scale: (x, y): stored pixels → pixels of the input; None where the sample is no image.
        offset: (x, y): pixels of padding left and above, after scaling (negative: cropped away).
        size: (width, height) of the image as stored.
        input_size: (width, height) of the image as fed.
        fed: the arrays as they were fed, one per input, brought back to real numbers; empty where nobody kept them.
    """

    scale: tuple[float, float] | None = None
    offset: tuple[float, float] = (0.0, 0.0)
    size: tuple[int, int] | None = None
    input_size: tuple[int, int] | None = None
    fed: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a task needs to know before it sees outputs.

    Attributes:
        signature: of the model; outputs are in its order.
        data: the data set that is judged.
        options: of the user, ``--task-option NAME=VALUE``.
        classes: names in the order of the model's outputs, from the model or the user; empty where neither tells.
    """

    signature: Signature
    data: Dataset
    options: Mapping[str, str] = field(default_factory=dict)
    classes: Sequence[str] = ()


class Table(Protocol):
    """Records of many samples, ready to be added up again and again with other weights.

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
        """Every metric of the task, in the order in which they are shown; NaN where it is not defined.

        Args:
            weights: how often each sample counts, float64 of length n; None: once.
        """


class Judge(Protocol):
    """Of one model on one data set.

    Attributes:
        headline: id of the metric that the task is about.
        settings: how outputs are read, JSON-shaped: what was decided by itself included.
    """

    headline: str
    settings: Mapping[str, Any]

    def record(self, outputs: Sequence[Array], sample: Sample, feed: Feed) -> Record:
        """What one sample came to.

        Args:
            outputs: of this sample alone, the leading batch dimension of size 1 included, floats (quantised outputs
                were brought back to real numbers), in the order of the signature.

        Raises:
            BadInput: outputs or a label that the task can't read; it ends the evaluation.
        """

    def tabulate(self, records: Sequence[Record]) -> Table:
        """The records of one model, or of a part of the samples."""


@runtime_checkable
class Confuses(Protocol):
    """A table that knows which class was taken for which."""

    def confusion(self) -> Sequence[Sequence[int]]:
        """[label][answer] → samples."""


@runtime_checkable
class Drives(Protocol):
    """A judge that runs the model itself, more than once per sample (text generation)."""

    def drive(self, infer: Any, arrays: Sequence[Array], sample: Sample) -> Sequence[Array]:
        """The outputs of one sample. `infer(arrays) -> outputs` runs the model once."""


@runtime_checkable
class Watches(Protocol):
    """A judge that has something of its own to do before samples are judged (asking a reference model)."""

    def watch(self, samples: Sequence[Sample]) -> None:
        """These come next."""


@runtime_checkable
class Ranks(Protocol):
    """A judge whose answers are classes with scores."""

    def rank(self, outputs: Sequence[Array], sample: Sample) -> Mapping[str, Any]:
        """``label`` and ``top``, the best classes as ``[class, score]``, the best first; empty where they are not told.

        `Judge.record` has read the same outputs before.
        """


class Task(Protocol):
    """A kind of question, in the entry-point group ``edgewise.tasks``.

    Attributes:
        name: what ``--task`` takes.
        title: as tables of the field print it.
        kinds: of samples that it can judge.
        metrics: ids, the headline first.
    """

    name: str
    title: str
    kinds: Sequence[Kind]
    metrics: Sequence[str]

    def prepare(self, setting: Setting) -> Judge:
        """The judge. Raises `BadInput` for a model, labels or options that don't fit, `Unavailable` for a package."""


def tasks() -> Registry[Task]:
    """All tasks, built-in and plugged in."""
    return Registry("edgewise.tasks", "task")
