"""Semantic segmentation: the class of each pixel.

Answers are mapped to the stored label map, not the reverse: each of its pixels takes the answer of the output pixel at
its centre, back through resizing, padding and cropping. Pixels that were cropped away
before the model saw the image don't count, nor do those labelled ``ignore``.

mIoU is the mean over the classes that occur in labels or answers of intersection over union of all pixels of all
images, as scikit-learn's ``jaccard_score(average="macro")`` over all pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.task import MetricTable, Preparation, Record, Table, TaskContext
from edgewise.evaluating.tasks.labels import LabelMapping
from edgewise.evaluating.tasks.outputs import (
    WIDE_INTEGERS,
    ClassOptions,
    Count,
    OutputScorer,
    OutputTask,
    count_confusion,
)
from edgewise.model.signature import Dimension
from edgewise.workload.arrays import Array

Integers = NDArray[np.intp]

IGNORE = 255
NO_ANSWER = -1
LAYOUTS = ("channels-first", "channels-last")
MOST_CLASSES = 65_536
_ADVICE = "choose another output with ⟦task_option=output=NAME⟧, or another task"


class SegmentationOptions(ClassOptions):
    """Options of segmentation."""

    layout: Literal["channels-first", "channels-last"] | None = Field(
        None, description="channels-first or channels-last"
    )
    ignore: Count = Field(IGNORE, description=f"NUMBER (a label that does not count; default {IGNORE})")


class SegmentationTable(Table):
    """Pixels of many images by label and answer.

    Args:
        images, labels, answers, counts: one entry per cell of an image's confusion matrix that is not empty.
        n: images.
    """

    def __init__(self, images: Integers, labels: Integers, answers: Integers, counts: Integers, *, n: int) -> None:
        self.n = n
        self._images, self._counts = images, counts.astype(np.float64)
        self._labels, self._answers, self._right = labels, answers, labels == answers
        self.classes = max(int(labels.max(initial=-1)), int(answers.max(initial=-1))) + 1

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        pixels = self._counts * counts[self._images]
        total = float(pixels.sum())
        if total <= 0.0:
            return {"miou": float("nan"), "pixel_accuracy": float("nan")}
        size = self.classes
        common = np.bincount(self._labels[self._right], weights=pixels[self._right], minlength=size)
        labelled = np.bincount(self._labels, weights=pixels, minlength=size)
        answered = np.bincount(self._answers + 1, weights=pixels, minlength=size + 1)[1:]
        union = labelled + answered - common
        occurs = union > 0.0
        return {
            "miou": float((common[occurs] / union[occurs]).mean()),
            "pixel_accuracy": float(pixels[self._right].sum()) / total,
        }

    def explain(self, metric: str) -> str | None:
        """Return why `metric` is not defined."""
        return "no pixel of any image counts: all are labelled to be ignored, or were cropped away"

    def confusion(self) -> Sequence[Sequence[int]]:
        """Return [label][answer] → pixels; those without an answer (NaN) are in no cell."""
        return count_confusion(self._labels, self._answers, self._counts, classes=self.classes)


class SegmentationScorer(OutputScorer):
    """A record is a flat list: label, answer and pixels of each pair of classes that occurs in the image."""

    headline = "miou"

    def __init__(self, context: TaskContext, options: SegmentationOptions, *, task: str) -> None:
        super().__init__(context, options, task=task)
        self._options = options
        self._ignore = options.ignore
        self._layout: str | None = options.layout
        self._labels = LabelMapping(context, offset=options.offset)
        self._names = len(context.classes) or (
            len(context.data.classes) + self._labels.offset if context.data.classes else 0
        )
        self.settings = {
            **self.settings, "layout": self._layout, "ignore": self._ignore,
            "sizes": "answers are brought to the size of the label map, nearest pixel", **self._labels.settings,
            **options.settings,
        }  # fmt: skip
        shape = self._spec.shape
        if shape is not None and len(shape) == 4 and all(isinstance(size, int) for size in shape[1:]):
            self._find_layout(shape)

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        answers = self._answers(outputs[self._number])
        labels = self._read(sample)
        rows, columns = _locate_pixels(labels.shape, answers.shape, preparation)
        inside = np.ix_(rows >= 0, columns >= 0)
        taken = answers[np.ix_(rows[rows >= 0], columns[columns >= 0])]
        seen = labels[inside]
        counted = seen != self._ignore
        pairs, counts = np.unique(
            seen[counted] * (MOST_CLASSES + 1) + taken[counted] + 1, return_counts=True
        )  # fmt: skip
        found: list[int] = []
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            label, answer = divmod(pair, MOST_CLASSES + 1)
            found += [self._labels.output_of(label, sample.name), answer - 1, count]
        return found

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        rows = np.array([number for record in records for number in record], dtype=np.intp).reshape(-1, 3)
        images = np.repeat(np.arange(len(records)), [len(record) // 3 for record in records])
        return SegmentationTable(images, rows[:, 0], rows[:, 1], rows[:, 2], n=len(records))

    def _answers(self, array: Array) -> Integers:
        """Return the class of each pixel of the output, intp (height, width)."""
        shape = array.shape
        if array.ndim not in {3, 4} or shape[0] != 1 or array.size == 0:
            raise BadInput(f"an output of shape {list(shape)} is not a map of classes", advice=_ADVICE)
        whole = array.dtype.kind in "iu" or self._spec.dtype in WIDE_INTEGERS
        if array.ndim == 3:
            return self._map(array[0], whole=whole)
        if 1 in (shape[1], shape[3]) and (whole or self._layout is None):
            return self._map(array[0, 0] if shape[1] == 1 else array[0, :, :, 0], whole=whole)
        layout = self._layout or self._find_layout(shape)
        scores = array[0] if layout == LAYOUTS[0] else np.moveaxis(array[0], -1, 0)
        if scores.shape[0] == 1:
            return self._map(scores[0], whole=whole)
        if self._options.positive is not None:
            raise BadInput(f"the output has {scores.shape[0]} channels: the best one is the answer",
                           advice="positive and threshold are for a single one")  # fmt: skip
        self._labels.settle(scores.shape[0])
        answers = scores.argmax(axis=0)
        return np.where(np.isnan(scores).any(axis=0), NO_ANSWER, answers) if scores.dtype.kind == "f" else answers

    def _map(self, array: Array, *, whole: bool) -> Integers:
        """Return the class of each pixel, from one number per pixel: the class, or a score of class 1."""
        if self._options.positive is not None and not whole:
            self._labels.settle(2)
            sure = array > self._options.limit
            return np.where(np.isnan(array), NO_ANSWER, sure.astype(np.intp))
        if not whole and not bool((array == np.rint(array)).all()):
            raise BadInput(
                "the output has one number per pixel, which may be a logit or a probability",
                advice="set ⟦task_option⟧ positive=logit or positive=probability",
            )
        known = self._labels.known or MOST_CLASSES
        if array.min() < 0 or array.max() >= known:
            raise BadInput(
                f"the output's pixels are {array.min():.0f} to {array.max():.0f}, and there are {known} classes",
                advice=_ADVICE,
            )
        return array.astype(np.intp)

    def _find_layout(self, shape: Sequence[Dimension]) -> str | None:
        """Return the axis of the classes in (1, ?, ?, ?): as long as there are names, else the far smaller one."""
        if self._layout is not None:
            return self._layout
        first, last = shape[1], shape[3]
        middle = shape[2]
        assert isinstance(first, int) and isinstance(last, int) and isinstance(middle, int)
        if self._spec.dtype in WIDE_INTEGERS and 1 in (first, last):
            return None
        if self._names and (first == self._names) != (last == self._names):
            self._layout = LAYOUTS[0] if first == self._names else LAYOUTS[1]
        elif (first < min(middle, last)) != (last < min(first, middle)):
            self._layout = LAYOUTS[0] if first < last else LAYOUTS[1]
        else:
            raise BadInput(
                f"the classes' axis in an output of shape {list(shape)} is ambiguous",
                advice="set ⟦task_option⟧ layout=channels-first or layout=channels-last",
            )
        self.settings = {**self.settings, "layout": self._layout}
        return self._layout

    def _read(self, sample: Sample) -> Integers:
        """Return the label map, intp (height, width)."""
        labels = np.asarray(sample.label) if isinstance(sample.label, np.ndarray | list) else None
        if labels is not None and labels.ndim == 3 and 1 in (labels.shape[0], labels.shape[2]):
            labels = labels[0] if labels.shape[0] == 1 else labels[:, :, 0]
        if labels is None or labels.ndim != 2 or labels.dtype.kind not in "iub" or labels.size == 0:
            what = "no array" if labels is None else f"{list(labels.shape)} × {labels.dtype.name}"
            raise BadInput(
                f"the label of {sample.name} of {self._data} is {what}, not a map of classes",
                advice="labels are arrays of the numbers of classes, [height, width]",
            )
        found = labels.astype(np.intp)
        if found.min() < 0 or found.max() >= MOST_CLASSES:
            raise BadInput(
                f"{sample.name} of {self._data} has pixels labelled {found.min()} to {found.max()}",
                advice=f"classes are numbered from 0; pixels that don't count are {self._ignore} (option ignore)",
            )
        return found


class Segmentation(OutputTask):
    """``segmentation``: the class of each pixel."""

    name = "segmentation"
    title = "Semantic segmentation"
    kinds: Sequence[Kind] = ("image", "array")
    metrics: Sequence[str] = ("miou", "pixel_accuracy")
    options = SegmentationOptions
    scorer = SegmentationScorer


def _locate_pixels(
    labels: Sequence[int], answers: Sequence[int], preparation: Preparation
) -> tuple[Integers, Integers]:
    """Return the output's row and column for those of the label map; -1 where the model did not see them."""
    found = []
    for axis, (size, width) in enumerate(zip(labels, answers, strict=True)):
        turned = 1 - axis  # arrays are (height, width), feeds (x, y)
        centres = np.arange(size) + 0.5
        if preparation.scale is None or preparation.size is None or preparation.input_size is None:
            places = np.floor(centres * width / size)
        else:
            stored = centres * preparation.size[turned] / size
            fed = stored * preparation.scale[turned] + preparation.offset[turned]
            places = np.floor(fed * width / preparation.input_size[turned])
        found.append(np.where((places >= 0) & (places < width), places, -1).astype(np.intp))
    return found[0], found[1]
