"""Without labels: whether a detector finds the boxes of a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.evaluating.task import Record, Table
from edgewise.evaluating.tasks.boxes import Detections, overlaps

Array = NDArray[Any]

OVERLAP = 0.5
"""Intersection over union from which two boxes are the same."""


def compare_boxes(own: Detections, reference: Detections) -> Record:
    """``[matched, own, reference]``: how many boxes of each there are, and how many of them are the same.

    The best of `own` chooses first, among the boxes of its class that are left, the one that it overlaps most.
    """
    left = np.ones(len(reference.scores), dtype=bool)
    matched = 0
    for place in np.argsort(-own.scores, kind="stable"):
        free = left & (reference.classes == own.classes[place])
        shared = np.where(free, overlaps(own.boxes[place], reference.boxes), 0.0)
        if shared.size and shared.max() >= OVERLAP:
            left[int(shared.argmax())] = False
            matched += 1
    return [matched, len(own.scores), len(reference.scores)]


class BoxTable(Table):
    """Boxes over samples. Args: records of `compare_boxes`."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.n = len(records)
        self._counts = np.array(records, dtype=np.float64).reshape(-1, 3)

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """As `MetricTable.values`."""
        matched, own, reference = self.counts(weights) @ self._counts
        total = own + reference
        return {"agreement_boxes": float(2.0 * matched / total) if total > 0 else float("nan")}

    def explain(self, metric: str) -> str | None:
        """Why it is not defined."""
        del metric
        return "neither model found a box"
