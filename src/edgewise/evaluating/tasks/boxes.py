"""Boxes: from a detector's outputs to corners in pixels of the stored image, without near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from edgewise.evaluating.task import Preparation
from edgewise.workload.arrays import Array

Order = Literal["ltrb", "yxyx", "xywh", "cxcywh"]
"""What the four numbers of a box are: corners x first, corners y first, left/top with size, centre with size."""
_TELLING = 32
"""From this number on, boxes that are all smaller than 2 pixels are not in pixels."""
ORDERS: tuple[Order, ...] = ("ltrb", "yxyx", "xywh", "cxcywh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detections:
    """N detections.

    Attributes:
        boxes: [N, 4] float64: left, top, right, bottom.
        scores: [N] float64.
        classes: [N] int64: as the model numbers them.
    """

    boxes: Array
    scores: Array
    classes: Array

    def take(self, chosen: Array) -> Detections:
        """Return some of them, by index or mask."""
        return Detections(boxes=self.boxes[chosen], scores=self.scores[chosen], classes=self.classes[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """Default boxes of an SSD.

    Attributes:
        boxes: [A, 4] float64: centre x, centre y, width, height.
        scales: what the four encodings were multiplied by in training, in the same order.
        y_first: whether all of these, and the encodings, rather are centre y, centre x, height, width.
    """

    boxes: Array
    scales: tuple[float, ...]
    y_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxDecoding:
    """How boxes are decoded from outputs.

    Attributes:
        decode: one of `edgewise.evaluating.tasks.detection_options.DECODERS`.
        roles: what each output is, in the model's order; "" for one that isn't used.
        order: of a box's four numbers.
        normalised: whether boxes are parts of the input's size; None: pixels are assumed, and refused where all boxes
            are smaller than two of them.
        confidence: scores that are not larger are dropped.
        overlap: intersection over union above which the weaker of two boxes goes; None: none goes.
        most: detections that are kept of an image.
        agnostic: whether boxes suppress those of other classes.
        every_class: whether a row of a YOLO counts for all its classes or for its best.
        columns: of yolov8: whether every column is a box, [1, 4 + C, N], or every row; None: what fits the number of
            the data's classes, else the longer side are boxes.
        activation: of an SSD's class scores: ``sigmoid``, ``softmax`` or ``none``.
        background: number of the class that is none.
    """

    decode: str
    roles: tuple[str, ...]
    order: Order
    normalised: bool | None
    confidence: float
    overlap: float | None
    most: int
    agnostic: bool
    every_class: bool = True
    columns: bool | None = None
    anchors: Anchors | None = None
    activation: str = "none"
    background: int | None = None


class UnreadableOutputs(Exception):
    """Outputs that the decoder can't read; the message says why. The scorer names the sample."""


def to_corners(boxes: Array, order: Order) -> Array:
    """Convert [N, 4] in `order` to left, top, right, bottom, float64."""
    a, b, c, d = np.asarray(boxes, np.float64).T
    if order == "ltrb":
        corners = (a, b, c, d)
    elif order == "yxyx":
        corners = (b, a, d, c)
    elif order == "xywh":
        corners = (a, b, a + c, b + d)
    else:
        corners = (a - c / 2, b - d / 2, a + c / 2, b + d / 2)
    return np.stack(corners, axis=1)


def overlaps(box: Array, boxes: Array) -> Array:
    """Return intersection over union of one box [4] with others [N, 4], corners; 0 where both are empty."""
    width = np.minimum(box[2], boxes[:, 2]) - np.maximum(box[0], boxes[:, 0])
    height = np.minimum(box[3], boxes[:, 3]) - np.maximum(box[1], boxes[:, 1])
    common = np.maximum(width, 0) * np.maximum(height, 0)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    union = (box[2] - box[0]) * (box[3] - box[1]) + area - common
    result: Array = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    return result


def suppress(found: Detections, *, overlap: float | None, most: int, agnostic: bool) -> Detections:
    """Keep the best boxes, and drop those that overlap a better one of their class (greedy non-maximum suppression).

    Args:
        overlap: a box goes where its intersection over union with a better one is larger; None: none goes.
        most: how many are kept at most; of equal scores the earlier ones.
        agnostic: whether a box of one class also suppresses those of others.
    """
    order = np.argsort(-found.scores, kind="stable")
    if overlap is None:
        return found.take(order[:most])
    kept: list[Any] = []
    while order.size and len(kept) < most:
        best, order = order[0], order[1:]
        kept.append(best)
        close = overlaps(found.boxes[best], found.boxes[order]) > overlap
        if not agnostic:
            close &= found.classes[order] == found.classes[best]
        order = order[~close]
    return found.take(np.array(kept, np.int64))


def to_stored(boxes: Array, preparation: Preparation) -> Array:
    """Convert corners from pixels of the input to those of the image as stored, cut at its edges.

    Raises `UnreadableOutputs`: `preparation` does not hold how the image was scaled.
    """
    if preparation.scale is None or preparation.size is None:
        raise UnreadableOutputs("the sample is not an image, so boxes can't be mapped back to it")
    scale, offset = np.array(preparation.scale * 2), np.array(preparation.offset * 2)
    edges = np.array(preparation.size * 2, np.float64)
    result: Array = np.clip((boxes - offset) / scale, 0.0, edges)
    return result


def rows_of_image(output: Array) -> Array:
    """Return the output of one image as rows [N, M]: leading dimensions of size 1 go. Raises `UnreadableOutputs`."""
    shape = output.shape
    while output.ndim > 2 and output.shape[0] == 1:
        output = output[0]
    if output.ndim != 2:
        raise UnreadableOutputs(f"an output of shape {shape} is not of one image with 2 dimensions")
    return output


def read_outputs(outputs: Sequence[Array], reading: BoxDecoding, *, known: int) -> tuple[Detections, int | None]:
    """Decode detections with scores above the threshold, boxes as the model gives them, and count its classes.

    `known`: number of the data's classes, 0 where it is not known; it distinguishes rows from columns.

    Returns:
        The detections, and the number of classes for decoders whose outputs have a score for each; else None.

    Raises `UnreadableOutputs`: shapes or numbers that are not what the decoder reads.
    """
    parts = {role: output for role, output in zip(reading.roles, outputs, strict=True) if role}
    if reading.decode in ("boxes", "rows"):
        if reading.decode == "boxes":
            found = read_listed(parts["boxes"], parts.get("scores"), parts.get("classes"), parts.get("count"))
        else:
            found = read_rows(parts["boxes"])
        if np.isnan(found.scores).any():
            raise UnreadableOutputs("some scores are not numbers")
        return found.take(found.scores > reading.confidence), None
    if reading.decode == "ssd":
        if reading.anchors is None:
            raise UnreadableOutputs("there are no anchors")
        encodings, raw = rows_of_image(parts["boxes"]), rows_of_image(parts["scores"])
        scores = activate(raw, reading.activation, background=reading.background)
        return read_ssd(encodings, scores, reading.anchors, above=reading.confidence), scores.shape[1]
    rows = rows_of_image(parts["boxes"])
    if reading.decode == "yolov8" and _by_columns(rows, reading, known=known):
        rows = rows.T
    if reading.normalised is None and len(rows) >= _TELLING and np.abs(rows[:, :4]).max() <= 2:
        raise UnreadableOutputs(
            "all boxes are smaller than 2 pixels, so they look like parts of the input (normalised=yes)"
        )
    objectness = reading.decode == "yolov5"
    found = read_yolo(rows, objectness=objectness, above=reading.confidence, every_class=reading.every_class)
    return found, rows.shape[1] - (5 if objectness else 4)


def _by_columns(rows: Array, reading: BoxDecoding, *, known: int) -> bool:
    """Return whether every column is a box."""
    if reading.columns is not None:
        return reading.columns
    fits = [known > 0 and size == 4 + known for size in rows.shape]
    if fits[0] != fits[1]:
        return fits[0]
    if rows.shape[0] == rows.shape[1]:
        raise UnreadableOutputs(f"of an output of shape {rows.shape} it is not clear which side are boxes (axis=rows)")
    return bool(rows.shape[0] < rows.shape[1])


def read_listed(boxes: Array, scores: Array | None, classes: Array | None, count: Array | None) -> Detections:
    """Read lists of boxes [N, 4], scores [N] and classes [N], of which the first `count` are meant.

    Boxes stay in the order of the model. Without classes there is one, without scores all boxes are sure.
    """
    boxes = rows_of_image(boxes)
    if boxes.shape[1] != 4:
        raise UnreadableOutputs(f"boxes of shape {boxes.shape} have not four numbers each")
    size = len(boxes)
    lists = [
        np.zeros(size) if classes is None else _list(classes, "classes", size),
        np.ones(size) if scores is None else _list(scores, "scores", size),
    ]
    if count is not None:
        if count.size != 1 or not np.isfinite(count).all():
            raise UnreadableOutputs(f"a count of shape {count.shape} is not one number")
        size = min(size, max(0, round(float(count.reshape(-1)[0]))))
    return _detections(boxes[:size], lists[1][:size], lists[0][:size])


def read_rows(rows: Array) -> Detections:
    """Read rows of 7 or 6 numbers.

    7: image, class, score, left, top, right, bottom, as OpenVINO's DetectionOutput, which an image of -1 ends.
    6: left, top, right, bottom, score, class.
    """
    rows = rows_of_image(rows)
    if rows.shape[1] == 7:
        ends = np.flatnonzero(rows[:, 0] < 0)
        rows = rows[: ends[0]] if ends.size else rows
        return _detections(rows[:, 3:], rows[:, 2], rows[:, 1])
    if rows.shape[1] != 6:
        raise UnreadableOutputs(f"rows of shape {rows.shape} have neither six nor seven numbers each")
    return _detections(rows[:, :4], rows[:, 4], rows[:, 5])


def read_ssd(encodings: Array, scores: Array, anchors: Anchors, *, above: float) -> Detections:
    """Decode box encodings against anchors; boxes come as centre x, centre y, width, height.

    Formula: W. Liu et al., "SSD: Single Shot MultiBox Detector" (2016), equation 2, solved for the box; the scale
    factors are those of TensorFlow's FasterRcnnBoxCoder (the inverse of what others call variances).

    Args:
        encodings: [A, 4].
        scores: [A, C] without a background class, after their activation.
        above: scores that are not larger are left out.
    """
    if len(encodings) != len(anchors.boxes) or len(scores) != len(anchors.boxes):
        raise UnreadableOutputs(
            f"there are {len(anchors.boxes)} anchors, but {len(encodings)} boxes and {len(scores)} rows of scores"
        )
    rows, classes = _above(scores, above, every_class=True)
    anchor = anchors.boxes[rows]
    scaled = encodings[rows].astype(np.float64) / np.array(anchors.scales)
    centre = scaled[:, :2] * anchor[:, 2:] + anchor[:, :2]
    with np.errstate(over="ignore"):  # an infinite size is cut at the edges of the image
        size = np.exp(scaled[:, 2:]) * anchor[:, 2:]
    boxes = np.concatenate([centre, size], axis=1)
    if anchors.y_first:
        boxes = boxes[:, [1, 0, 3, 2]]
    return Detections(boxes=boxes, scores=scores[rows, classes].astype(np.float64), classes=classes)


def read_yolo(rows: Array, *, objectness: bool, above: float, every_class: bool) -> Detections:
    """Return rows of centre x, centre y, width, height, (objectness,) and one score per class; boxes come as they are.

    Args:
        rows: [N, 4 + C], or [N, 5 + C] with objectness, which is multiplied into the scores.
        every_class: whether a row counts for every class above the threshold, as in the family's own evaluation, or
            for its best alone.
    """
    first = 5 if objectness else 4
    if rows.shape[1] <= first:
        raise UnreadableOutputs(f"rows of {rows.shape[1]} numbers have no room for a class")
    if objectness:
        # No class can lift a row above its objectness; most rows go here, before anything is multiplied.
        rows = rows[~(rows[:, 4] <= above)]
        scores = rows[:, 5:] * rows[:, 4:5]
    else:
        scores = rows[:, 4:]
    chosen, classes = _above(scores, above, every_class=every_class)
    return Detections(
        boxes=rows[chosen, :4].astype(np.float64), scores=scores[chosen, classes].astype(np.float64), classes=classes
    )


def activate(scores: Array, activation: str, *, background: int | None) -> Array:
    """Turn class outputs [A, C] into scores without the background's column. Raises `UnreadableOutputs`."""
    scores = np.asarray(scores, np.float64)
    if activation == "softmax":
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores = raised / raised.sum(axis=1, keepdims=True)
    elif activation == "sigmoid":
        # exp of a negative number only, so that nothing overflows
        small = np.exp(-np.abs(scores))
        scores = np.where(scores >= 0, 1.0, small) / (1.0 + small)
    if background is None:
        return scores
    if background >= scores.shape[1]:
        raise UnreadableOutputs(f"there is no class {background}, which should be the background")
    return np.delete(scores, background, axis=1)


def _above(scores: Array, above: float, *, every_class: bool) -> tuple[Array, Array]:
    """Return rows and classes of the scores that are larger; all scores must be numbers."""
    if np.isnan(scores).any():
        raise UnreadableOutputs("some scores are not numbers")
    if every_class:
        rows, classes = np.nonzero(scores > above)
        return rows, classes
    best = scores.argmax(axis=1)
    rows = np.flatnonzero(scores[np.arange(len(scores)), best] > above)
    return rows, best[rows]


def _list(values: Array, what: str, size: int) -> Array:
    if values.size != size:
        raise UnreadableOutputs(f"there are {size} boxes, but {values.size} {what}")
    return values.reshape(-1)


def _detections(boxes: Array, scores: Array, classes: Array) -> Detections:
    return Detections(boxes=boxes.astype(np.float64), scores=scores.astype(np.float64), classes=_class_numbers(classes))


def _class_numbers(values: Array) -> Array:
    """Return class numbers as whole numbers; any other becomes -1, which the scorer refuses if its score counts."""
    values = np.where(np.abs(values) < 2**31, values, -1).astype(np.float64)  # neither NaN nor infinity is smaller
    nearest = np.rint(values)
    return np.where(np.abs(values - nearest) < 1e-3, nearest, -1).astype(np.int64)


def check_numbers(found: Detections) -> None:
    """Raise `UnreadableOutputs` for a box or score that is not a number; infinite sizes are cut later."""
    for role in ("boxes", "scores"):
        if np.isnan(getattr(found, role)).any():
            raise UnreadableOutputs(f"some {role} are not numbers")
