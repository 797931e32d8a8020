"""Classification: the best class of each sample against its label, of images, arrays and recordings.

Means over classes ("macro") are taken as scikit-learn takes them: over the classes that occur, as a label or as an
answer; a class that was never answered has a precision of 0, one that is no label a recall of 0. Balanced accuracy is
the mean recall over the classes that are labels.

Equal scores: the best class is the first of them, as numpy's `argmax` has it; among the top five the last of them comes
first, as in scikit-learn's `top_k_accuracy_score`. So both are the numbers that scikit-learn gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadInput
from edgewise.evaluating.class_order import pair_classes
from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.task import ClassAnswer, MetricTable, Preparation, Record, Table, TaskContext
from edgewise.evaluating.tasks.labels import LabelMapping
from edgewise.evaluating.tasks.outputs import (
    WIDE_INTEGERS,
    ClassOptions,
    OutputScorer,
    OutputTask,
    count_confusion,
    elements_of,
    row_of,
)
from edgewise.workload.arrays import Array

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

TOP = 5
SHOWN = 3
"""Best classes of one sample that reports show."""
NO_ANSWER = -1
"""Of outputs with NaN: always wrong."""

MOST_CLASSES = 1_000_000
"""An integer output beyond is not a class."""


class ClassificationTable(Table):
    """Labels and answers of many samples.

    Args:
        labels, answers: numbers of classes, `NO_ANSWER` where outputs were NaN: wrong, and no class's.
        ranks: how many classes were before the label's; -1 where the model gives only its best class.
        classes: of the model; 0 where that is not known.
    """

    def __init__(self, labels: Integers, answers: Integers, ranks: Integers, *, classes: int) -> None:
        self.n = int(labels.size)
        self._ranked = classes > TOP and not bool((ranks < 0).any())
        right = labels == answers
        near = (ranks < TOP) & (ranks >= 0)
        top5 = {"accuracy_top5": near.astype(np.float64)} if self._ranked else {}
        self.proportions = {
            "accuracy_top1": right.astype(np.float64), **top5, "error_rate": (~right).astype(np.float64)
        }  # fmt: skip
        self.classes = max(classes, int(labels.max(initial=-1)) + 1, int(answers.max(initial=-1)) + 1)
        # Samples with the same label, answer and place in the top five are interchangeable.
        codes = (labels * (self.classes + 1) + answers + 1) * 2 + near
        cells, self.groups, self._sizes = np.unique(codes, return_inverse=True, return_counts=True)
        pairs, self._near = cells // 2, (cells % 2).astype(np.float64)
        self._labels, self._answers = pairs // (self.classes + 1), pairs % (self.classes + 1) - 1
        self._right = self._labels == self._answers
        # Only classes that occur count.
        seen = np.union1d(self._labels, self._answers[self._answers >= 0])
        self._seen = seen
        self._label_places = np.searchsorted(seen, self._labels)
        self._answer_places = np.where(self._answers < 0, seen.size, np.searchsorted(seen, self._answers))

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """As `MetricTable.values`."""
        return self.values_of(np.bincount(self.groups, weights=weights, minlength=self._labels.size).astype(np.float64))

    def values_of(self, counts: Array) -> Mapping[str, float]:
        """As `HasGroups.values_of`."""
        total = float(counts.sum())
        names = [*self.proportions, "accuracy_balanced", "precision_macro", "recall_macro", "f1_macro"]
        if total <= 0.0:
            return dict.fromkeys(names, float("nan"))
        size = self._seen.size
        hits = np.bincount(self._label_places[self._right], weights=counts[self._right], minlength=size)
        support = np.bincount(self._label_places, weights=counts, minlength=size)
        answered = np.bincount(self._answer_places, weights=counts, minlength=size + 1)[:size]
        right = float(counts[self._right].sum()) / total
        recall, precision = _divide(hits, support), _divide(hits, answered)
        f1, present = _divide(2.0 * hits, support + answered), support + answered > 0.0
        found = {"accuracy_top1": right}
        if self._ranked:
            found["accuracy_top5"] = float(counts @ self._near) / total
        return found | {
            "error_rate": float(counts[~self._right].sum()) / total,
            "accuracy_balanced": float(recall[support > 0.0].mean()),
            "precision_macro": float(precision[present].mean()),
            "recall_macro": float(recall[present].mean()),
            "f1_macro": float(f1[present].mean()),
        }

    def confusion(self) -> Sequence[Sequence[int]]:
        """Return [label][answer] → samples; samples without an answer are in no cell."""
        return count_confusion(self._labels, self._answers, self._sizes, classes=self.classes)

    def accuracy_shifted(self, by: int) -> float:
        """Return the share of samples whose answer is their label plus `by`."""
        shifted = (self._answers >= 0) & (self._answers == self._labels + by)
        return float(self._sizes[shifted].sum()) / self.n if self.n else 0.0

    def accuracy_renumbered(self) -> float | None:
        """Return the share of samples that are right where each label means the answer that `pair_classes` gives it.

        None where a label has few samples.
        """
        known = self._answers >= 0
        columns = (self._labels[known], self._answers[known], self._sizes[known])
        sizes: dict[tuple[int, int], int] = {}
        for label, answer, size in zip(*(column.tolist() for column in columns), strict=True):
            sizes[label, answer] = sizes.get((label, answer), 0) + size
        pairs = pair_classes((*pair, size) for pair, size in sizes.items())
        return None if pairs is None else sum(sizes[pair] for pair in pairs.items()) / self.n

    def only_answer(self) -> int | None:
        """Return the class that every sample of several labels is answered with; None where there is no such class."""
        answers = np.unique(self._answers)
        several = np.unique(self._labels).size > 1
        return int(answers[0]) if answers.size == 1 and several and answers[0] >= 0 else None


class ClassificationScorer(OutputScorer):
    """Reads one row of scores, one number for two classes, or the number of the best class.

    A record is ``[label, answer, rank, classes, score]``: rank is how many classes are before the label's (of equal
    ones the last comes first), -1 where the outputs have no scores; score is the answer's, None where it has none.
    """

    headline = "accuracy_top1"

    def __init__(self, context: TaskContext, options: ClassOptions, *, task: str) -> None:
        super().__init__(context, options, task=task)
        self._options = options
        self._labels = LabelMapping(context, offset=options.offset)
        width = elements_of(self._spec)
        if width is not None and not (width == 1 and self._spec.dtype in WIDE_INTEGERS):
            self._settle(width)
        self.settings = {**self.settings, **self._labels.settings, **options.settings}

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        row = row_of(outputs[self._number], task=self._task)
        if row.size == 1 and row.dtype.kind in "iu":
            return self._record_class(int(row[0]), sample)
        if row.dtype.kind not in "fiu" or row.dtype.name in WIDE_INTEGERS:
            raise BadInput(
                f"an output of {row.size} × {row.dtype.name} is neither scores of classes nor the best one",
                advice="choose another output with ⟦task_option=output=NAME⟧",
            )
        self._settle(row.size)
        label = self._labels.read(sample)
        if row.size == 1:
            answer = NO_ANSWER if np.isnan(row[0]) else int(row[0] > self._options.limit)
            # The only output is the score of class 1.
            other = (1.0 if self._options.positive == "probability" else 0.0) - row[0]
            return [label, answer, int(answer != label), 2, float(row[0] if answer else other)]
        if np.isnan(row).any():
            return [label, NO_ANSWER, int(row.size), int(row.size), None]
        before = np.count_nonzero(row > row[label]) + np.count_nonzero(row[label + 1 :] == row[label])
        return [label, int(row.argmax()), int(before), int(row.size), float(row.max())]

    def top_classes(self, outputs: Sequence[Array], sample: Sample) -> Mapping[str, Any]:
        """As `RanksClasses.top_classes`, of the best three; empty where the model gives no score of each class."""
        row = row_of(outputs[self._number], task=self._task)
        if row.size == 1 or not np.isfinite(row).all():
            return {}
        best = np.argsort(-row.astype(np.float64), kind="stable")[:SHOWN]
        return {"label": self._labels.read(sample), "top": [[int(each), float(row[each])] for each in best]}

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        columns = np.array([record[:4] for record in records], dtype=np.intp).reshape(-1, 4)
        classes = int(columns[:, 3].max(initial=0))
        return ClassificationTable(columns[:, 0], columns[:, 1], columns[:, 2], classes=classes)

    def answer(self, record: Record) -> tuple[int, int]:
        """As `HasAnswers.answer`."""
        return record[1], record[0]

    def classes_of(self, before: Record, after: Record) -> tuple[int, ClassAnswer, ClassAnswer]:
        """As `HasClasses.classes_of`."""
        first, second = ((None, None) if one[1] == NO_ANSWER else (one[1], one[4]) for one in (before, after))
        return after[0], first, second

    def _record_class(self, answer: int, sample: Sample) -> Record:
        label, known = self._labels.read(sample), self._labels.known
        if answer >= (MOST_CLASSES if known is None else known):
            raise BadInput(
                f"the output for {sample.name} is {answer}, and there are {known or MOST_CLASSES} classes at most",
                advice="choose another output with ⟦task_option=output=NAME⟧",
            )
        return [label, max(answer, NO_ANSWER), -1, known or 0, None]

    def _settle(self, width: int) -> None:
        """Check the number of the output's elements."""
        if width == 1 and self._options.positive is None:
            raise BadInput(
                "the model has a single output, which may be a logit or a probability",
                advice="set ⟦task_option⟧ positive=logit or positive=probability",
            )
        if width > 1 and (self._options.positive is not None or self._options.threshold is not None):
            raise BadInput(
                f"the model has {width} outputs: the best one is the answer",
                advice="positive and threshold are for models with a single one",
            )
        self._labels.settle(max(width, 2))


class Classification(OutputTask):
    """``classification``: the class of an image or an array."""

    name = "classification"
    title = "Image classification"
    kinds: Sequence[Kind] = ("image", "array")
    metrics: Sequence[str] = (
        "accuracy_top1", "accuracy_top5", "error_rate", "accuracy_balanced",
        "precision_macro", "recall_macro", "f1_macro",
    )  # fmt: skip
    options = ClassOptions
    scorer = ClassificationScorer


class AudioClassification(Classification):
    """``audio-classification``: the class of a recording, or of features computed from it."""

    name = "audio-classification"
    title = "Audio classification"
    kinds: Sequence[Kind] = ("audio", "array")


def _divide(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """Return part over whole, 0 where there is no whole."""
    found = np.zeros(part.size)
    np.divide(part, whole, out=found, where=whole > 0.0)
    return found
