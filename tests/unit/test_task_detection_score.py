"""COCO's numbers equal pycocotools', for images once and for images that stand several times in the data."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from edgewise.evaluating.tasks.coco_score import METRICS, tabulate_coco
from messages import says

pytest.importorskip("pycocotools", reason="the oracle is pycocotools")


def make_records(rng, images, *, classes=4, objects=4, detections=12, score_levels=0):
    """Images with objects, of which some are found well, some badly, and some things that are not there."""
    records = []
    for _ in range(images):
        gt, dt = [], []
        for _ in range(rng.integers(0, objects + 1)):
            left, top = rng.uniform(0, 200, 2)
            width, height = rng.uniform(5, 120, 2)
            category = int(rng.integers(0, classes))
            crowd = int(rng.random() < 0.15)
            area = None if rng.random() < 0.5 else float(width * height * rng.uniform(0.3, 1))
            gt.append([left, top, left + width, top + height, category, crowd, area])
            for _ in range(rng.integers(0, 3)):
                jitter = rng.normal(0, 0.08, 4) * [width, height, width, height]
                corners = np.sort(
                    np.reshape(np.array([left, top, left + width, top + height]) + jitter, (2, 2)), axis=0
                )
                dt.append([*map(float, corners.ravel()), category, float(rng.random())])
        for _ in range(max(0, int(rng.integers(0, detections + 1)) - len(dt))):
            left, top, width, height = rng.uniform(1, 100, 4)
            dt.append([left, top, left + width, top + height, int(rng.integers(0, classes + 1)), float(rng.random())])
        if score_levels:
            for row in dt:
                row[5] = round(row[5] * score_levels) / score_levels
        records.append({"gt": gt, "dt": dt})
    return records


def pycocotools_stats(records):
    """What its own summary says, for all areas and its usual limits."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    gt, dt = [], []
    for image, each in enumerate(records, start=1):
        for left, top, right, bottom, category, crowd, area in each["gt"]:
            size = (right - left) * (bottom - top)
            gt.append(
                {
                    "id": len(gt) + 1,
                    "image_id": image,
                    "category_id": category + 1,
                    "bbox": [left, top, right - left, bottom - top],
                    "area": size if area is None else area,
                    "iscrowd": crowd,
                }
            )
        for left, top, right, bottom, category, score in each["dt"]:
            box = [left, top, right - left, bottom - top]
            dt.append({"image_id": image, "category_id": category + 1, "bbox": box, "score": score})
    names = sorted({each["category_id"] for each in gt + dt})
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": image} for image in range(1, len(records) + 1)],
            "categories": [{"id": name} for name in names],
            "annotations": gt,
        }
        truth.createIndex()
        scorer = COCOeval(truth, truth.loadRes(dt), "bbox")
        scorer.evaluate()
        scorer.accumulate()
        scorer.summarize()
    return dict(zip(METRICS, (scorer.stats[0], scorer.stats[1], scorer.stats[2], scorer.stats[8]), strict=True))


def assert_equal(found, expected):
    assert list(found) == list(METRICS)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-9), name


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [0, 16])
def test_values_equal_pycocotools(seed, levels):
    records = make_records(np.random.default_rng(seed), 40, score_levels=levels)
    assert_equal(tabulate_coco(records).values(), pycocotools_stats(records))


def test_more_than_a_hundred_detections_of_a_category_are_cut_as_pycocotools_does():
    rng = np.random.default_rng(1)
    records = make_records(rng, 3, classes=1, objects=30, detections=250)
    assert max(len(each["dt"]) for each in records) > 100
    assert_equal(tabulate_coco(records).values(), pycocotools_stats(records))


@pytest.mark.parametrize("seed", range(4))
def test_weights_equal_images_that_stand_several_times(seed):
    rng = np.random.default_rng(100 + seed)
    records = make_records(rng, 30)
    weights = rng.multinomial(30, np.full(30, 1 / 30)).astype(np.float64)
    repeated = [each for each, times in zip(records, weights, strict=True) for _ in range(int(times))]
    assert_equal(tabulate_coco(records).values(weights), pycocotools_stats(repeated))


def test_weights_of_zero_leave_images_out():
    records = make_records(np.random.default_rng(7), 24)
    weights = np.array([1.0, 0.0] * 12)
    assert_equal(tabulate_coco(records).values(weights), pycocotools_stats(records[::2]))


def test_every_recall_threshold_is_reached_at_the_same_detection_as_in_pycocotools():
    """Quotients such as 3/10 against the threshold 0.3 are where rounding would tell."""
    for size in range(1, 41):
        gt = [[0, 20 * k, 10, 20 * k + 10, 0, 0, None] for k in range(size)]
        # every other detection is wrong, so that precision differs at each step
        dt = []
        for k in range(size):
            dt.append([0, 20 * k, 10, 20 * k + 10, 0, 1 - k / 100])
            dt.append([500, 20 * k, 510, 20 * k + 10, 0, 1 - k / 100 - 0.005])
        records = [{"gt": gt, "dt": dt[:199]}]
        assert_equal(tabulate_coco(records).values(), pycocotools_stats(records))


def test_nothing_found_is_zero_and_nothing_to_find_is_not_defined():
    missed = tabulate_coco([{"gt": [[0, 0, 9, 9, 0, 0, None]], "dt": []}])
    assert set(missed.values().values()) == {0.0}
    for records in ([], [{"gt": [], "dt": [[0, 0, 9, 9, 0, 0.5]]}], [{"gt": [[0, 0, 9, 9, 0, 1, None]], "dt": []}]):
        table = tabulate_coco(records)
        assert table.n == len(records)
        assert all(np.isnan(value) for value in table.values().values())
    one = tabulate_coco([{"gt": [[0, 0, 9, 9, 0, 0, None]], "dt": []}, {"gt": [], "dt": []}])
    assert all(np.isnan(value) for value in one.values(np.array([0.0, 2.0])).values())


def test_perfect_detections_are_one():
    records = [{"gt": [[0, 0, 9, 9, 0, 0, None]], "dt": [[0, 0, 9, 9, 0, 0.5]]}] * 3
    values = tabulate_coco(records).values(np.array([3.0, 0.0, 1.0]))
    assert all(value == pytest.approx(1, abs=1e-12) for value in values.values())


def test_parts_of_an_image_can_not_be_weighed():
    with pytest.raises(ValueError, match=says("weights-must-whole-numbers-how")):
        tabulate_coco([{"gt": [[0, 0, 9, 9, 0, 0, None]], "dt": []}]).values(np.array([0.5]))


def test_pycocotools_prints_nothing(capfd):
    tabulate_coco(make_records(np.random.default_rng(0), 3)).values()
    assert capfd.readouterr() == ("", "")
