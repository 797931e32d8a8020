"""Object detection: boxes out of a model's outputs, and COCO's mean average precision over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import Box, Kind, Sample
from edgewise.evaluating.task import MetricTable, Preparation, Record, TaskContext
from edgewise.evaluating.tasks.boxes import (
    Detections,
    UnreadableOutputs,
    check_numbers,
    read_outputs,
    suppress,
    to_corners,
    to_stored,
)
from edgewise.evaluating.tasks.coco_score import METRICS, tabulate_coco
from edgewise.evaluating.tasks.detection_options import (
    DetectionOptions,
    describe_classes,
    read_class_map,
    read_decoding,
)
from edgewise.evaluating.tasks.outputs import OutputTask
from edgewise.workload.arrays import Array


class DetectionScorer:
    """Scores one detector.

    Records: ``{"gt": [[left, top, right, bottom, category, crowd, area or None] …],
    "dt": [[left, top, right, bottom, category, score] …]}`` in pixels of the image as stored.

    Attributes:
        classes: the category of each of the model's classes, None for one that the data has not; None: the same.
        categories: how many the data has; 0: not known.
    """

    headline = "map_50_95"

    def __init__(self, context: TaskContext, options: DetectionOptions, *, task: str) -> None:
        if find_spec("pycocotools") is None:
            raise Unavailable("COCO's mean average precision needs pycocotools", advice="pip install 'edgewise[data]'")
        self._has_map = options.class_map is not None
        self.categories = len(context.data.classes)
        classes, origin = read_class_map(context, options.class_map)
        self.classes = classes
        self.reading, settings = read_decoding(options, context.signature.outputs, categories=self.categories)
        doubt = describe_classes(context, options, classes)
        same = classes is None or classes == tuple(range(self.categories))
        self.settings: Mapping[str, Any] = {
            **settings,
            "class_map": origin,
            "categories_of_classes": None if same else list(classes or ()),
            **({"class_order": doubt} if doubt else {}),
        }

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """Return one image's objects and detections. Raises `BadInput` for outputs or labels that can't be read."""
        objects = self._objects(sample)
        try:
            found = self._decode(outputs, preparation, sample)
            reading = self.reading
            found = suppress(found, overlap=reading.overlap, most=reading.most, agnostic=reading.agnostic)
            boxes = to_stored(found.boxes, preparation)
        except UnreadableOutputs as error:
            raise BadInput(
                f"{sample.name}: {error}", advice=f"is decode={self.reading.decode} right for this model?"
            ) from error
        detections = []
        for box, score, number in zip(boxes.tolist(), found.scores.tolist(), found.classes.tolist(), strict=True):
            category = self._category(number, sample)
            if category is not None:
                detections.append([*box, category, score])
        return {"gt": objects, "dt": detections}

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """Match all records with pycocotools."""
        return tabulate_coco(records)

    def _decode(self, outputs: Sequence[Array], preparation: Preparation, sample: Sample) -> Detections:
        """Return detections above the threshold, corners in pixels of the input."""
        reading = self.reading
        if len(outputs) != len(reading.roles):
            raise UnreadableOutputs(f"there are {len(outputs)} outputs, not {len(reading.roles)}")
        found, dense_classes = read_outputs(outputs, reading, known=self.categories)
        self._check_classes(dense_classes, sample)
        check_numbers(found)
        boxes = to_corners(found.boxes, reading.order)
        if preparation.input_size is None:
            raise UnreadableOutputs("the sample is not an image, so it has no boxes")
        if reading.normalised:
            boxes = boxes * [*preparation.input_size, *preparation.input_size]
        return Detections(boxes=boxes, scores=found.scores, classes=found.classes)

    def _check_classes(self, count: int | None, sample: Sample) -> None:
        """Raise `BadInput` where a model that scores `count` classes can't mean those of the data one by one."""
        expected = len(self.classes) if self.classes is not None else None
        if count is None or expected is None or count == expected or (self._has_map and count < expected):
            return
        raise BadInput(
            f"{sample.name}: the model scores {count} classes, but {expected} are known",
            advice="class_map=coco80, coco91 or a file with the names of the model's classes in their order",
        )

    def _category(self, number: int, sample: Sample) -> int | None:
        """Return the data's category of a class of the model; None where the data has no such one."""
        background = self.reading.background
        if background is not None and self.reading.decode != "ssd":
            # An SSD's background was taken out with its scores.
            if number == background:
                return None
            number -= int(number > background)
        if number < 0 or (self.classes is not None and number >= len(self.classes)):
            known = "" if self.classes is None else f", but {len(self.classes)} classes are known"
            raise BadInput(
                f"{sample.name}: the model found class {number}{known}",
                advice="outputs= or background= may be wrong, or class_map= with the model's classes is needed",
            )
        return number if self.classes is None else self.classes[number]

    def _objects(self, sample: Sample) -> list[list[Any]]:
        """Return the label as rows. Raises `BadInput` where it is none."""
        if not isinstance(sample.label, tuple | list) or not all(isinstance(each, Box) for each in sample.label):
            raise BadInput(f"{sample.name} has no boxes as its label", advice="detection needs COCO-style annotations")
        rows: list[list[Any]] = []
        for box in sample.label:
            corners = [float(each) for each in (box.left, box.top, box.right, box.bottom)]
            if not all(map(math.isfinite, corners)) or corners[2] < corners[0] or corners[3] < corners[1]:
                raise BadInput(f"{sample.name}: the box {corners} is none", advice="left, top, right, bottom in pixels")
            if box.category < 0 or (self.categories and box.category >= self.categories):
                raise BadInput(
                    f"{sample.name}: a box is labelled {box.category}, but there are {self.categories} classes",
                    advice="check the annotations",
                )
            area = None if box.area is None else float(box.area)
            rows.append([*corners, int(box.category), int(box.crowd), area])
        return rows


class Detection(OutputTask):
    """``detection``: objects and their boxes, scored as COCO does."""

    name = "detection"
    title = "Object detection"
    kinds: Sequence[Kind] = ("image",)
    metrics: Sequence[str] = METRICS
    options = DetectionOptions
    scorer = DetectionScorer
