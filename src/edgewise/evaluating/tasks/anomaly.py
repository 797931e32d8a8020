"""Anomaly detection: how well a score per sample separates anomalies (label 1) from normal samples (label 0).

Areas are exact, ties included: the ROC curve goes straight through samples of equal score, average precision takes them
as one threshold. Both are as scikit-learn has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.step_settings import Accepts
from edgewise.evaluating.task import MetricTable, Preparation, Record, Table, TaskContext
from edgewise.evaluating.tasks.outputs import (
    Finite,
    OutputOptions,
    OutputScorer,
    OutputTask,
    brief,
    count_confusion,
    elements_of,
    scalar_label,
)
from edgewise.workload.arrays import Array

Floats = NDArray[np.float64]

_TINY = 1e-300
"""Above a threshold that no sample reaches there are no anomalies either: 0 / this is 0."""
_SCORE = "value, max, mean, mse (of a reconstruction) or the number of an output element"
_NORMAL = frozenset({"normal", "good", "ok", "healthy"})
_ANOMALOUS = frozenset({"anomaly", "anomalies", "anomalous", "abnormal", "bad", "defect", "defective", "faulty"})


class AnomalyOptions(OutputOptions):
    """Options of anomaly detection."""

    score: Annotated[str, Field(pattern="^(value|max|mean|mse|[0-9]{1,9})$"), Accepts(_SCORE)] | None = Field(
        None, description=_SCORE
    )
    threshold: Finite | None = Field(None, description="NUMBER (above it a sample is called an anomaly)")
    normal: str | None = Field(None, description="NAME (of the data's class that is normal; all others are anomalies)")


class AnomalyTable(Table):
    """Scores and labels of many samples.

    Args:
        labels: bool: whether it is an anomaly.
        scores: the higher the more of an anomaly; NaN counts as wrong: below all for an anomaly, above all for others.
        threshold: above it a sample is called an anomaly; None calls none.
    """

    def __init__(self, labels: NDArray[np.bool_], scores: Floats, *, threshold: float | None) -> None:
        self.n = int(labels.size)
        settled = np.where(np.isnan(scores), np.where(labels, -np.inf, np.inf), scores)
        order = np.argsort(-settled, kind="stable")
        self._order, self._all_anomalies = order, bool(labels.all())
        self._found = np.flatnonzero(labels[order])
        # Thresholds that matter are scores of anomalies: where a run of equal scores begins and ends among all samples
        # in order, and where it ends among the anomalies.
        scores_found = settled[order][self._found]
        last = (
            np.flatnonzero(np.append(scores_found[1:] != scores_found[:-1], True)) if self._found.size else self._found
        )
        descending = -settled[order]
        self._begins = np.searchsorted(descending, -scores_found[last], side="left")
        self._ends = np.searchsorted(descending, -scores_found[last], side="right") - 1
        self._last = last
        self._above = np.zeros(self.n + 1)
        self._pairs = None
        if threshold is not None:
            called = settled > threshold
            self._pairs = (labels.astype(np.intp), called.astype(np.intp))
            self.proportions = {"error_rate": (called != labels).astype(np.float64)}
            self.confusion = self._confusion  # only here is there an answer

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        ordered = counts[self._order]
        above = np.cumsum(ordered, out=self._above[1:])
        values = dict(zip(("auroc", "average_precision"), self._areas(ordered, above), strict=True))
        if self._pairs is not None:
            total = float(counts.sum())
            wrong = float(counts @ self.proportions["error_rate"])
            values["error_rate"] = wrong / total if total > 0.0 else float("nan")
        return values

    def _areas(self, ordered: Floats, above: Floats) -> tuple[float, float]:
        """Return the area under the ROC curve, and average precision, from counts of samples ordered by score."""
        if not self._found.size:
            return float("nan"), float("nan")
        found = np.cumsum(ordered[self._found])[self._last]
        if found[-1] <= 0.0:
            return float("nan"), float("nan")
        gained = np.diff(found, prepend=0.0)
        reached = above[self._ends]
        average = float(gained @ (found / np.maximum(reached, _TINY))) / float(found[-1])
        others = float(above[-1] - found[-1])
        if others <= 0.0:
            return float("nan"), average
        # Of the others those below an anomaly, and half of those that are level with it.
        level = reached - self._above[self._begins] - gained
        below = others - (reached - found) + 0.5 * level
        return float(gained @ below) / (float(found[-1]) * others), average

    def explain(self, metric: str) -> str | None:
        """Return why `metric` is not defined: one kind of sample is missing."""
        return f"all {self.n} samples are {'anomalies' if self._all_anomalies else 'normal'}"

    def _confusion(self) -> Sequence[Sequence[int]]:
        assert self._pairs is not None
        return count_confusion(*self._pairs, np.ones(self.n), classes=2)


class AnomalyScorer(OutputScorer):
    """Makes one score of an output. A record is ``[label, score]``, the score None where it is NaN."""

    headline = "auroc"

    def __init__(self, context: TaskContext, options: AnomalyOptions, *, task: str) -> None:
        super().__init__(context, options, task=task)
        self._normal = _find_normal(context, options.normal)
        self._threshold = options.threshold
        self._score = options.score or _choose_score(context, self._number)
        self.settings = {**self.settings, "score": self._score, "threshold": self._threshold}
        if self._score == "mse":
            self.settings = {**self.settings, "reconstructed": "what the model was fed"}
        if self._normal is not None:
            self.settings = {**self.settings, "normal": context.data.classes[self._normal]}

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        label = self._read(sample)
        score = self._reduce(np.asarray(outputs[self._number], dtype=np.float64), sample, preparation)
        return [label, None if np.isnan(score) else score]

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        labels = np.array([record[0] for record in records], dtype=np.bool_)
        scores = np.array([np.nan if record[1] is None else record[1] for record in records], dtype=np.float64)
        return AnomalyTable(labels, scores, threshold=self._threshold)

    def _read(self, sample: Sample) -> int:
        label = scalar_label(sample)
        if isinstance(label, int) and self._normal is not None and label >= 0:
            return int(label != self._normal)
        if not isinstance(label, int) or label not in {0, 1}:
            raise BadInput(
                f"{sample.name} of {self._data} has the label {brief(sample.label)}",
                advice="labels are 0 (normal) and 1 (anomaly); of classes, ⟦task_option=normal=NAME⟧ says which is 0",
            )
        return label

    def _reduce(self, array: Floats, sample: Sample, preparation: Preparation) -> float:
        if array.size == 0:
            raise BadInput(f"the output for {sample.name} is empty")
        if self._score == "value":
            if array.size != 1:
                raise BadInput(
                    f"the output has {array.size} numbers, but a score is one number",
                    advice="set ⟦task_option⟧ score=max, mean, mse, or the element's number",
                )
            return float(array.reshape(-1)[0])
        if self._score == "mse":
            return _reconstruction_error(array, sample, preparation)
        if self._score in {"max", "mean"}:
            return float(array.max() if self._score == "max" else array.mean())
        if int(self._score) >= array.size:
            raise BadInput(f"score={self._score}, and the output has {array.size} elements", advice="they count from 0")
        return float(array.reshape(-1)[int(self._score)])


class Anomaly(OutputTask):
    """``anomaly``: whether a sample is unlike the normal ones."""

    name = "anomaly"
    title = "Anomaly detection"
    kinds: Sequence[Kind] = ("array", "image", "audio")
    metrics: Sequence[str] = ("auroc", "average_precision", "error_rate")
    options = AnomalyOptions
    scorer = AnomalyScorer


def _reconstruction_error(array: Floats, sample: Sample, preparation: Preparation) -> float:
    """Return the mean squared difference from what was fed; of several windows, over them all."""
    stored = preparation.fed[0] if preparation.fed else sample.data
    if not isinstance(stored, np.ndarray) or stored.size != array.size:
        size = f"{stored.size} numbers" if isinstance(stored, np.ndarray) else "no single array"
        raise BadInput(
            f"{sample.name} is {size}, and its reconstruction {array.size}",
            advice="score=mse compares the output with the input: they must be of one size",
        )
    return float(np.mean((array.reshape(-1) - stored.reshape(-1).astype(np.float64)) ** 2))


def _choose_score(context: TaskContext, number: int) -> str:
    size = elements_of(context.signature.outputs[number])
    inputs = context.signature.inputs
    if size == 1:
        return "value"
    if size is not None and len(inputs) == 1 and elements_of(inputs[0]) == size:
        return "mse"  # it gives back what it was fed: an autoencoder
    raise BadInput(
        "the model's output is not one score per sample",
        advice="set ⟦task_option⟧ score=max, mean, mse, or the number of an output element",
    )


def _find_normal(context: TaskContext, asked: str | None) -> int | None:
    """Return which of the data's classes is the normal one; None where labels are 0 and 1 already."""
    names = [str(name) for name in context.data.classes]
    if asked is not None:
        if asked not in names:
            known = ", ".join(names[:10]) or "none"
            raise BadInput(f"{context.data.name} has no class {asked!r}", advice=f"its classes are: {known}")
        return names.index(asked)
    if not names or names == ["0", "1"]:
        return None
    normal = [number for number, name in enumerate(names) if name.casefold() in _NORMAL]
    others = [name for number, name in enumerate(names) if number not in normal]
    # "good" beside names of defects is as clear as "normal" beside "anomaly"; an anomaly beside many others is not.
    if len(normal) == 1 and others:
        return normal[0]
    if len(names) == 2 and len([name for name in names if name.casefold() in _ANOMALOUS]) == 1:
        return next(number for number, name in enumerate(names) if name.casefold() not in _ANOMALOUS)
    raise BadInput(
        f"it is not known which class of {context.data.name} is normal: {', '.join(names[:10])}",
        advice="set ⟦task_option=normal=NAME⟧",
    )
