"""The format of a network's outputs without labels: class scores, boxes, or any other values.

It decides how a model's outputs are compared with another model's, and is detected from the network and its outputs for
a few samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import WORST
from edgewise.evaluating.task import TaskContext
from edgewise.evaluating.tasks.boxes import (
    BoxDecoding,
    Detections,
    UnreadableOutputs,
    read_outputs,
    suppress,
    to_corners,
)
from edgewise.evaluating.tasks.detection_options import DetectionOptions, read_decoding
from edgewise.evaluating.tasks.outputs import read_options
from edgewise.model.graph import Graph
from edgewise.workload.arrays import Array

Kind = Literal["classes", "boxes", "values"]

HEADLINES: Mapping[Kind, str] = {"classes": "agreement_top1", "boxes": "agreement_boxes", "values": WORST}
"""What is compared → the metric that it comes to."""
CLASS_TASKS = ("classification", "audio-classification", "text-classification")

CONFIDENCE = 0.25
"""Boxes with a lower score are not compared: applications don't show them."""
LEAST_BOXES = 8
"""That the reference must find in the first samples for boxes to be compared."""
_SUM_ERROR = 0.02
_OWN_MEANS = 0.5
"""Logits: of the variance of a row's elements, their means over samples make up no more than this."""
_LISTS = ("boxes", "rows")
"""Decoders of lists from which the network took near-duplicates out."""
_STRIDES = (8, 16, 32)
"""Of the three grids of a YOLO."""
_ENDS = frozenset({"sigmoid", "logistic", "softmax", "hardsigmoid"})
_THROUGH = frozenset(
    {"reshape", "squeeze", "unsqueeze", "expanddims", "identity", "cast", "convert", "transpose", "flatten", "result",
     "dequantize", "dequantizelinear", "quantize", "quantizelinear", "reducemean", "mean"}
)  # fmt: skip
"""Operators after which probabilities are still that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """How boxes are read from a detector's outputs.

    Attributes:
        classes: scores of a YOLO's rows that are classes; what follows (key points, masks) is not read. 0: not a YOLO.
    """

    reading: BoxDecoding
    classes: int = 0

    def find(self, outputs: Sequence[Array]) -> Detections:
        """Return the boxes of one sample that are left after suppression. Raises `UnreadableOutputs`."""
        if self.classes:
            array = outputs[0]
            size = self.classes + (5 if self.reading.decode == "yolov5" else 4)
            outputs = [array[:, :size] if self.reading.columns else array[:, :, :size]]
        found, _ = read_outputs(outputs, self.reading, known=self.classes)
        found = Detections(
            boxes=to_corners(found.boxes, self.reading.order), scores=found.scores, classes=found.classes
        )
        return suppress(found, overlap=self.reading.overlap, most=self.reading.most, agnostic=self.reading.agnostic)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """The format of outputs, and the reason for it.

    Attributes:
        probabilities: of every output, whether it is a single one: one number per sample, from a sigmoid. For a map of
            them the power is used, since most of it may be 0.
        boxes: of a detector.
    """

    kind: Kind
    because: str
    probabilities: tuple[bool, ...]
    boxes: Boxes | None = None

    @property
    def is_list(self) -> bool:
        """Whether outputs are lists of boxes, which may have another length and order and be right."""
        return self.boxes is not None and self.boxes.reading.decode in _LISTS

    @property
    def headline(self) -> str:
        """Id of the metric by which another model's outputs are compared with these."""
        return HEADLINES[self.kind]

    def to_document(self) -> dict[str, Any]:
        """Return it JSON-shaped."""
        document: dict[str, Any] = {"outputs": self.kind, "because": self.because, "metric": self.headline}
        if self.kind == "values":
            document["probabilities"] = list(self.probabilities)
        if self.boxes is not None:
            reading = self.boxes.reading
            document |= {
                "decode": reading.decode, "conf": reading.confidence, "iou": reading.overlap, "max": reading.most,
                "classes": self.boxes.classes or None,
            }  # fmt: skip
        return document


def find_output_format(
    graph: Graph,
    samples: Sequence[Sequence[Array]],
    context: TaskContext,
    *,
    image: tuple[int, int] | None,
    task: str | None = None,
) -> OutputFormat:
    """Detect the format of a network's outputs.

    Args:
        samples: outputs of a few samples, each with a leading dimension of 1.
        context: the network's signature, the data, and the user's options for outputs and classes.
        image: (height, width) of the input, where it is one.
        task: the one that the user named, or None.

    Raises `BadInput`: the outputs are not those of the task, or leave it open how boxes are read from them.
    """
    ends = tuple(
        array.size == 1 and _ends_in_probabilities(graph, name)
        for array, name in zip(samples[0], graph.outputs, strict=True)
    )
    if task in CLASS_TASKS:
        if not any(array.ndim >= 2 and array.shape[-1] >= 2 for array in samples[0]):
            raise BadInput(f"no output has a score for each class, which {task} needs", advice="leave ⟦task⟧ out")
        return OutputFormat(kind="classes", because=f"the task is {task}", probabilities=ends)
    if task is not None and task != "detection":
        return OutputFormat(kind="values", because=f"the task is {task}", probabilities=ends)
    if task is None and (why := _class_scores(samples, names=len(context.classes))):
        return OutputFormat(kind="classes", because=why, probabilities=ends)
    boxes, why = _find_yolo(samples, image) if not context.options else (None, "")
    if boxes is None:
        boxes, why = _read_boxes(context, asked=task is not None)
    if boxes is None:
        return OutputFormat(kind="values", because=why, probabilities=ends)
    count = sum(_count(boxes, outputs) for outputs in samples)
    if count < LEAST_BOXES:
        why = f"{why}, but the original finds {count} boxes in {len(samples)} samples, too few to compare"
        return OutputFormat(kind="values", because=why, probabilities=ends)
    return OutputFormat(kind="boxes", because=why, probabilities=ends, boxes=boxes)


def _read_boxes(context: TaskContext, *, asked: bool) -> tuple[Boxes | None, str]:
    """Return boxes as the task `detection` reads them, only unambiguous lists unless `asked`, or raise `BadInput`."""
    try:
        options = read_options(DetectionOptions, context.options, "detection")
        reading, told = read_decoding(options, context.signature.outputs, categories=len(context.classes))
    except BadInput:
        if asked:
            raise
        reading, told = None, {}
    if reading is None or not (asked or reading.decode in _LISTS):
        return None, "they are neither class scores nor boxes that can be read"
    if "conf" not in context.options:
        reading = replace(reading, confidence=CONFIDENCE)
    return Boxes(reading=reading), f"boxes are read by decode={reading.decode}, from {told['decode_from']}"


def _ends_in_probabilities(graph: Graph, output: str) -> bool:
    """Return whether the last operator that changes values before an output is a sigmoid or a softmax."""
    producers, name = graph.producers(), output
    for _ in range(len(graph.operators)):
        place = producers.get(name)
        if place is None:
            return False
        operator = graph.operators[place]
        word = operator.op.replace("_", "").lower()
        if word in _ENDS:
            return True
        sources = [each for each in operator.inputs if each and not graph.tensors[each].constant]
        if word not in _THROUGH or not sources:
            return False
        name = sources[0]
    return False


def _class_scores(samples: Sequence[Sequence[Array]], *, names: int) -> str:
    """Return why the outputs are class scores; empty where they are not, or it is not sure.

    Whole numbers beside them, such as the number of the best class, don't matter.
    """
    real = [[array for array in outputs if array.dtype.kind == "f"] for outputs in samples]
    if not real[0] or not all(array.ndim >= 2 and array.size for array in real[0]):
        return ""
    columns = [[np.asarray(outputs[number], np.float64) for outputs in real] for number in range(len(real[0]))]
    if all(each[0].shape[-1] >= 2 and all(map(_are_probabilities, each)) for each in columns):
        return "their rows are probabilities: none is below 0, and each row adds up to 1"
    flat = [array.reshape(-1) for array in columns[0]]
    if len(columns) != 1 or sum(size != 1 for size in columns[0][0].shape) != 1 or flat[0].size < 2:
        return ""
    if all(_are_probabilities(array[None]) for array in flat):
        return "they are probabilities: none is below 0, and they add up to 1"
    if names == flat[0].size:
        return f"there is one output for each of the {names} classes that are known by name"
    rows = np.stack(flat)
    whole = float(rows.var())
    own = float(rows.mean(axis=0).var()) / whole if whole > 0.0 else 1.0
    if own <= _OWN_MEANS and len(set(rows.argmax(axis=1).tolist())) > 1:
        return "it is one row of numbers whose order changes from sample to sample, as logits do"
    return ""


def _are_probabilities(array: Array) -> bool:
    sums = array.sum(axis=-1)
    return bool(np.isfinite(array).all() and array.min() >= -_SUM_ERROR and np.abs(sums - 1.0).max() <= _SUM_ERROR)


def _find_yolo(samples: Sequence[Sequence[Array]], image: tuple[int, int] | None) -> tuple[Boxes | None, str]:
    """Return how the boxes of a YOLO are read, and the evidence: their number follows from the input's size."""
    if image is None or len(samples[0]) != 1 or samples[0][0].ndim != 3 or samples[0][0].shape[0] != 1:
        return None, ""
    cells = sum(math.prod(-(-size // stride) for size in image) for stride in _STRIDES)
    shape = samples[0][0].shape[1:]
    for decode, count, first in (("yolov8", cells, 4), ("yolov5", 3 * cells, 5)):
        columns = shape[1] == count
        if count not in shape or shape[0] == shape[1] or (columns and decode == "yolov5"):
            continue
        rows = np.stack([array[0].T if columns else array[0] for (array,) in samples])
        if rows.shape[2] <= first or not (rows[:, :, 2:4] >= 0.0).all():
            continue
        # Scores are between 0 and 1; key points and masks, which may follow them, are not.
        scores = ((rows[:, :, 4:] >= 0.0) & (rows[:, :, 4:] <= 1.0)).all(axis=(0, 1))
        classes = int(scores.size if scores.all() else scores.argmin()) - (first - 4)
        if classes < 1:
            continue
        reading = BoxDecoding(
            decode=decode, roles=("boxes",), order="cxcywh", normalised=False, confidence=CONFIDENCE, overlap=0.65,
            most=100, agnostic=False, columns=columns if decode == "yolov8" else None,
        )  # fmt: skip
        words = f"there are {count} boxes for an input of {image[1]} by {image[0]} pixels, as a YOLO gives them"
        return Boxes(reading=reading, classes=classes), words
    return None, ""


def _count(boxes: Boxes, outputs: Sequence[Array]) -> int:
    try:
        return len(boxes.find(outputs).scores)
    except UnreadableOutputs:
        return 0
