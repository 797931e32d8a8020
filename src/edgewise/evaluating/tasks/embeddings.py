"""Embeddings: are the nearest other samples of the same class?

Every sample is a query once and is searched for among all others (leave one out). Intervals and tests resample the
queries only; the samples that are searched stay the same. A sample that is the only one of its class counts as missed.
Of samples that are equally near the first comes first.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.task import MetricTable, Preparation, Record, Table, TaskContext
from edgewise.evaluating.tasks.outputs import OutputOptions, OutputScorer, OutputTask, brief, scalar_label
from edgewise.workload.arrays import Array

Floats = NDArray[np.float64]

RANKS = (1, 5, 10)
MOST_NUMBERS = 65_536
"""Of one embedding."""
CELLS = 1 << 21
"""Similarities that are held at once: 16 MiB."""


class EmbeddingsOptions(OutputOptions):
    """Options of embeddings."""

    distance: Literal["cosine", "euclidean"] = Field("cosine", description="cosine or euclidean")


class EmbeddingsTable(Table):
    """Which queries found a sample of their class.

    `first`: how many samples of other classes are nearer than the nearest of the same; the number of samples where
    there is none of the same.
    """

    def __init__(self, first: NDArray[np.intp]) -> None:
        self.n = int(first.size)
        self.proportions = {
            f"recall_at_{rank}": (first < rank).astype(np.float64) for rank in RANKS if rank == 1 or rank < self.n
        }

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        total = float(counts.sum())
        return {
            name: float(counts @ hits) / total if total > 0.0 else float("nan")
            for name, hits in self.proportions.items()
        }


class EmbeddingsScorer(OutputScorer):
    """A record is ``[label, vector]``, the vector as base64 of its little-endian float32 numbers."""

    headline = "recall_at_1"

    def __init__(self, context: TaskContext, options: EmbeddingsOptions, *, task: str) -> None:
        super().__init__(context, options, task=task)
        self._distance = options.distance
        self.settings = {**self.settings, "distance": self._distance}

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        vector = np.asarray(outputs[self._number]).astype("<f4").reshape(-1)
        if not 0 < vector.size <= MOST_NUMBERS:
            raise BadInput(
                f"an output of {vector.size} numbers is not an embedding (1 to {MOST_NUMBERS})",
                advice="choose another output with ⟦task_option=output=NAME⟧",
            )
        label = scalar_label(sample)
        if not isinstance(label, int | str):
            raise BadInput(
                f"{sample.name} of {self._data} has the label {brief(sample.label)}, which is not a class",
                advice="a label is a class",
            )
        return [label, base64.b64encode(vector.tobytes()).decode("ascii")]

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        try:
            vectors = [np.frombuffer(base64.b64decode(record[1]), dtype="<f4") for record in records]
            stacked = np.stack(vectors) if vectors else np.empty((0, 1), dtype=np.float32)
        except (ValueError, binascii.Error) as error:
            raise BadInput(f"embeddings of {self._data} differ in size", advice="all need as many numbers") from error
        numbers = {label: number for number, label in enumerate(dict.fromkeys(record[0] for record in records))}
        labels = np.array([numbers[record[0]] for record in records], dtype=np.intp)
        return EmbeddingsTable(rank_first(stacked, labels, distance=self._distance))


class Embeddings(OutputTask):
    """``embeddings``: whether the nearest other samples are of the same class."""

    name = "embeddings"
    title = "Retrieval by embeddings"
    kinds: Sequence[Kind] = ("image", "array", "audio", "text")
    metrics: Sequence[str] = ("recall_at_1", "recall_at_5", "recall_at_10")
    options = EmbeddingsOptions
    scorer = EmbeddingsScorer


def rank_first(vectors: Array, labels: NDArray[np.intp], *, distance: str) -> NDArray[np.intp]:
    """Count, for each sample, how many of other classes are nearer than the nearest of its own class.

    Args:
        vectors: (n, size); one that is not finite is never found and finds nothing.
        distance: ``cosine`` or ``euclidean``.

    Returns:
        intp (n,); n where there is no other of the class.
    """
    n = int(labels.size)
    first = np.full(n, n, dtype=np.intp)
    usable: NDArray[np.bool_] = np.asarray(np.isfinite(vectors).all(axis=1))
    points = np.where(usable[:, None], vectors, 0.0).astype(np.float64)
    if distance == "cosine":
        lengths = np.sqrt((points**2).sum(axis=1))
        points /= np.where(lengths > 0.0, lengths, 1.0)[:, None]
    squares = (points**2).sum(axis=1)
    places = np.arange(n)
    step = max(1, CELLS // max(n, 1))
    for begin in range(0, n, step):
        check()
        rows = places[begin : begin + step]
        # The nearer, the larger: euclidean order needs no root, and no term of the query's own.
        near = points[rows] @ points.T
        if distance == "euclidean":
            near = near - squares / 2.0
        near[:, ~usable] = -np.inf
        near[rows - begin, rows] = -np.inf
        same = labels[rows][:, None] == labels
        own = np.where(same, near, -np.inf)
        best = own.argmax(axis=1)
        value = own[rows - begin, best]
        before = (near > value[:, None]) | ((near == value[:, None]) & (places < best[:, None]))
        count = np.count_nonzero(before & ~same, axis=1)
        found = np.isfinite(value) & usable[rows]
        first[rows[found]] = count[found]
    return first
