"""The detections of one image above the threshold of a `BoxDecoding`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgewise.evaluating.tasks.boxes import (
    Array,
    Detections,
    UnreadableOutputs,
    activate,
    one_image,
    read_listed,
    read_rows,
    read_ssd,
    read_yolo,
)
from edgewise.evaluating.tasks.detection_options import BoxDecoding

_TELLING = 32
"""From this number on, boxes that are all smaller than 2 pixels are not in pixels."""


def read_outputs(outputs: Sequence[Array], reading: BoxDecoding, *, known: int) -> tuple[Detections, int | None]:
    """Detections with scores above the threshold, boxes as the model gives them, and how many classes it scores.

    Args:
        known: number of the data's classes, 0 where it is not known; it distinguishes rows from columns.

    Returns:
        The detections, and the number of classes for decoders whose outputs have a score for each; else None.

    Raises:
        Unreadable: shapes or numbers that are not what the decoder reads.
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
        encodings, raw = one_image(parts["boxes"], 2), one_image(parts["scores"], 2)
        scores = activate(raw, reading.activation, background=reading.background)
        return read_ssd(encodings, scores, reading.anchors, above=reading.confidence), scores.shape[1]
    rows = one_image(parts["boxes"], 2)
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
    """Whether every column is a box."""
    if reading.columns is not None:
        return reading.columns
    fits = [known > 0 and size == 4 + known for size in rows.shape]
    if fits[0] != fits[1]:
        return fits[0]
    if rows.shape[0] == rows.shape[1]:
        raise UnreadableOutputs(f"of an output of shape {rows.shape} it is not clear which side are boxes (axis=rows)")
    return bool(rows.shape[0] < rows.shape[1])
