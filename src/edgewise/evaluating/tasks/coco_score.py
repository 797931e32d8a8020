"""COCO's mean average precision: pycocotools matches boxes once; the matches are summed again for every resample.

Definitions: T.-Y. Lin et al., "Microsoft COCO: Common Objects in Context" (2014), and the evaluation code that belongs
to it, ``pycocotools.cocoeval``. All areas, at most 100 detections of a category in an image.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.evaluating.task import Table
from edgewise.workload.arrays import Array

METRICS = ("map_50_95", "map_50", "map_75", "recall_100")
_RECALLS = np.linspace(0.0, 1.0, 101)
_AT_75 = 5
"""Index of IoU 0.75 among 0.50, 0.55 … 0.95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """What pycocotools matched, for the categories that have objects. D detections are sorted by category and
    falling score; equal scores stay in the order of their images, as in pycocotools.

    Attributes:
        image: [D] int: of which sample each detection is.
        hits, misses: [T, D] bool: right and wrong detections per IoU threshold; neither where it does not count.
        starts: [K + 1] int: where the detections of each category begin.
        objects: [K, samples] float: objects that count.
    """

    image: Array
    hits: Array
    misses: Array
    starts: Array
    objects: Array


@dataclass(kw_only=True)
class CocoTable(Table):
    """Detections and objects of n samples, matched. The metrics are NaN where no sample has an object that counts.

    Samples count a whole number of times. Copies of an image are adjacent: of detections with equal scores, all of one
    copy come before those of the next.
    """

    n: int
    matches: Matches

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        return add_up(self.matches, counts)


def tabulate_coco(records: Sequence[Mapping[str, Any]]) -> CocoTable:
    """Return records of `edgewise.evaluating.tasks.detection`, matched by pycocotools, which must be installed."""
    return CocoTable(n=len(records), matches=match(records))


def match(records: Sequence[Mapping[str, Any]]) -> Matches:
    """Match the detections of every record with its objects at IoU 0.50 to 0.95, through ``COCOeval.evaluate``.

    `records`: ``{"gt": [[left, top, right, bottom, category, crowd, area or None] …], "dt": [[left, top, right, bottom,
    category, score] …]}``.
    """
    found: dict[int, list[tuple[int, Any]]] = {}
    for each in _match_images(records):
        if each is not None:
            found.setdefault(each["category_id"], []).append((each["image_id"], each))
    parts = [_collect_category(each, n=len(records)) for _, each in sorted(found.items())]
    # Categories without an object that counts have no precision, and pycocotools leaves them out too.
    parts = [each for each in parts if each.objects.any()]
    sizes = [each.image.size for each in parts]
    none = np.zeros((10, 0), bool)
    return Matches(
        image=np.concatenate([each.image for each in parts] or [np.zeros(0, np.int64)]),
        hits=np.concatenate([each.hits for each in parts] or [none], axis=1),
        misses=np.concatenate([each.misses for each in parts] or [none], axis=1),
        starts=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64),
        objects=np.concatenate([each.objects for each in parts] or [np.zeros((0, len(records)))]),
    )


def add_up(matches: Matches, weights: Array) -> dict[str, float]:
    """Return COCO's precision and recall of `matches` with image i counted ``weights[i]`` times.

    Steps that a repeated detection takes one by one change no interpolated precision: a run of hits only raises it, a
    run of misses only lowers it, so that the ends of the runs suffice.
    """
    if not np.array_equal(weights, np.rint(weights)):
        raise ValueError("weights must be whole numbers: how often each image counts")
    objects = matches.objects @ weights
    counted = objects > 0
    if not counted.any():
        return dict.fromkeys(METRICS, float("nan"))
    each = weights[matches.image]
    # A leading 0, so that a category's first sum follows from the one before it.
    hits = np.concatenate([np.zeros((len(matches.hits), 1)), np.cumsum(matches.hits * each, axis=1)], axis=1)
    misses = np.concatenate([np.zeros((len(matches.misses), 1)), np.cumsum(matches.misses * each, axis=1)], axis=1)
    precision = np.stack([_interpolate(matches, hits[t], misses[t], objects) for t in range(len(hits))])
    found = hits[:, matches.starts[1:]] - hits[:, matches.starts[:-1]]
    recall = found[:, counted] / objects[counted]
    precision = precision[:, counted]
    return {
        "map_50_95": float(precision.mean()),
        "map_50": float(precision[0].mean()),
        "map_75": float(precision[_AT_75].mean()),
        "recall_100": float(recall.mean()),
    }


def _interpolate(matches: Matches, hits: Array, misses: Array, objects: Array) -> Array:
    """Return precision at 101 recalls [K, 101] for one IoU threshold, from running sums [1 + D] over all categories."""
    starts, ends = matches.starts[:-1], matches.starts[1:]
    sizes = ends - starts
    right = hits[1:] - np.repeat(hits[starts], sizes)
    wrong = misses[1:] - np.repeat(misses[starts], sizes)
    precision = right / (right + wrong + np.spacing(1))
    for start, end in zip(starts, ends, strict=True):
        part = precision[start:end]
        part[:] = np.maximum.accumulate(part[::-1])[::-1]
    # The running sum over all categories never falls, so one search finds the place of every recall in all of them.
    wanted = hits[starts][:, None] + _hits_needed(objects)
    places = np.maximum(np.searchsorted(hits[1:], wanted), starts[:, None])
    reached = places < ends[:, None]
    result: Array = np.where(reached, np.append(precision, 0.0)[np.where(reached, places, precision.size)], 0.0)
    return result


def _hits_needed(objects: Array) -> Array:
    """Return the fewest hits [K, 101] whose recall, as a float64 quotient, is at least each of the 101 recalls."""
    safe = np.maximum(objects, 1.0)[:, None]
    needed = np.ceil(_RECALLS * safe)
    needed = np.where((needed - 1) / safe >= _RECALLS, needed - 1, needed)
    result: Array = np.where(needed / safe < _RECALLS, needed + 1, needed)
    return result


def _collect_category(found: list[tuple[int, Any]], *, n: int) -> Matches:
    """Return one category's images, by falling score."""
    found = sorted(found, key=lambda each: each[0])
    scores = np.concatenate([np.asarray(each["dtScores"], np.float64) for _, each in found])
    order = np.argsort(-scores, kind="mergesort")
    matched = np.concatenate([each["dtMatches"] for _, each in found], axis=1).astype(bool)[:, order]
    ignored = np.concatenate([each["dtIgnore"] for _, each in found], axis=1).astype(bool)[:, order]
    image = np.concatenate([np.full(len(each["dtScores"]), index, np.int64) for index, each in found])[order]
    objects = np.zeros((1, n))
    for index, each in found:
        objects[0, index] = np.count_nonzero(np.asarray(each["gtIgnore"]) == 0)
    return Matches(
        image=image, hits=matched & ~ignored, misses=~matched & ~ignored, starts=np.array([0, image.size]),
        objects=objects,
    )  # fmt: skip


def _match_images(records: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return ``COCOeval.evalImgs`` of all areas; images are numbered from 0 as the records are."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    objects = [_make_annotation(index, row) for index, each in enumerate(records) for row in each["gt"]]
    known = {each["category_id"] for each in objects}
    # A category without objects counts for nothing; its detections need not be matched.
    detections = [
        _make_annotation(index, row) for index, each in enumerate(records) for row in each["dt"] if int(row[4]) in known
    ]
    if not objects:
        return []
    images = [{"id": index} for index in range(len(records))]
    categories = [{"id": index} for index in sorted(known)]
    with contextlib.redirect_stdout(io.StringIO()):
        sides = []
        for annotations in (objects, detections):
            side = COCO()
            numbered = [{**each, "id": number} for number, each in enumerate(annotations, start=1)]
            side.dataset = {"images": images, "categories": categories, "annotations": numbered}
            side.createIndex()
            sides.append(side)
        scorer = COCOeval(*sides, iouType="bbox")
        scorer.params.areaRng = scorer.params.areaRng[:1]
        scorer.params.areaRngLbl = scorer.params.areaRngLbl[:1]
        scorer.params.maxDets = [100]
        scorer.evaluate()
    return list(scorer.evalImgs)


def _make_annotation(image: int, row: Sequence[Any]) -> dict[str, Any]:
    """Return an object, or a detection, as pycocotools takes it; `row` is one of a record."""
    left, top, right, bottom, category, *rest = row
    width, height = right - left, bottom - top
    common = {"image_id": image, "category_id": int(category), "bbox": [left, top, width, height]}
    if len(rest) == 1:
        return {**common, "area": width * height, "score": rest[0]}
    crowd, area = rest
    return {**common, "iscrowd": int(bool(crowd)), "area": width * height if area is None else area}
