"""Boxes: corners, suppression against a plain reference, the way back to the image, and every decoder."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.evaluating.task import Preparation
from edgewise.evaluating.tasks import boxes as b
from edgewise.evaluating.tasks.boxes import Anchors, Detections, UnreadableOutputs
from messages import says


def random_found(rng, size, classes=3, grid=None):
    corner = rng.uniform(0, 80, (size, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 40, (size, 2))], axis=1)
    scores = rng.random(size)
    if grid:  # quantised outputs: many equal scores
        boxes, scores = np.round(boxes / grid) * grid, np.round(scores * 8) / 8
    return Detections(boxes=boxes, scores=scores, classes=rng.integers(0, classes, size))


def plain_suppression(found, overlap, most, agnostic):
    """O(n²), one number at a time."""

    def area(box):
        return (box[2] - box[0]) * (box[3] - box[1])

    def iou(p, q):
        width = min(p[2], q[2]) - max(p[0], q[0])
        height = min(p[3], q[3]) - max(p[1], q[1])
        common = max(width, 0) * max(height, 0)
        union = area(p) + area(q) - common
        return common / union if union > 0 else 0.0

    kept = []
    for index in sorted(range(len(found.scores)), key=lambda i: (-found.scores[i], i)):
        rivals = [k for k in kept if agnostic or found.classes[k] == found.classes[index]]
        if all(iou(found.boxes[k], found.boxes[index]) <= overlap for k in rivals):
            kept.append(index)
    return kept[:most]


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("grid", [None, 10.0])
def test_suppression_equals_the_plain_one(agnostic, grid):
    rng = np.random.default_rng(5)
    for size in (0, 1, 2, 40, 150):
        for overlap in (0.0, 0.3, 0.65, 1.0):
            found = random_found(rng, size, grid=grid)
            kept = b.suppress(found, overlap=overlap, most=30, agnostic=agnostic)
            expected = plain_suppression(found, overlap, 30, agnostic)
            assert np.array_equal(kept.boxes, found.boxes[expected])
            assert np.array_equal(kept.scores, found.scores[expected])
            assert np.array_equal(kept.classes, found.classes[expected])


def test_without_an_overlap_only_the_best_are_kept():
    found = random_found(np.random.default_rng(0), 9)
    kept = b.suppress(found, overlap=None, most=4, agnostic=False)
    assert kept.scores.tolist() == sorted(found.scores.tolist(), reverse=True)[:4]


@pytest.mark.parametrize(
    ("order", "numbers"),
    [
        ("ltrb", (10, 20, 40, 60)),
        ("yxyx", (20, 10, 60, 40)),
        ("xywh", (10, 20, 30, 40)),
        ("cxcywh", (25, 40, 30, 40)),
    ],
)
def test_every_order_gives_the_same_corners(order, numbers):
    assert b.to_corners(np.array([numbers], np.float32), order).tolist() == [[10, 20, 40, 60]]


def test_the_way_back_undoes_scale_and_padding_and_cuts_at_the_edges():
    # 200 × 100 pixels, halved and padded by 25 above to 100 × 100
    preparation = Preparation(scale=(0.5, 0.5), offset=(0.0, 25.0), size=(200, 100), input_size=(100, 100))
    found = b.to_stored(np.array([[10, 35, 20, 45], [-5, 0, 120, 100.0]]), preparation)
    assert found.tolist() == [[20, 20, 40, 40], [0, 0, 200, 100]]


def test_the_way_back_undoes_a_crop():
    preparation = Preparation(scale=(2.0, 1.0), offset=(-30.0, -10.0), size=(60, 60), input_size=(60, 40))
    assert b.to_stored(np.array([[0, 0, 10, 10.0]]), preparation).tolist() == [[15, 10, 20, 20]]


def test_no_way_back_without_an_image():
    with pytest.raises(UnreadableOutputs, match=says("sample-not-image-so-boxes")):
        b.to_stored(np.zeros((1, 4)), Preparation())


def test_listed_boxes_end_at_their_count():
    boxes = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    found = b.read_listed(boxes, np.array([[0.9, 0.8, 0.7]]), np.array([[1.0, 0.0, 5.0]]), np.array([2.0]))
    assert found.boxes.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert found.classes.tolist() == [1, 0]
    assert found.scores.tolist() == [0.9, 0.8]


def test_listed_boxes_without_classes_and_scores_are_sure_and_of_one_class():
    found = b.read_listed(np.zeros((2, 4)), None, None, None)
    assert (found.scores.tolist(), found.classes.tolist()) == ([1, 1], [0, 0])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((np.zeros((1, 3, 5)), None, None, None), says("boxes-shape-not-four-numbers")),
        ((np.zeros((2, 3, 4)), None, None, None), says("output-shape-not-one-image")),
        ((np.zeros((3, 4)), np.zeros(2), None, None), says("there-boxes", size=3, size_2=2, what="scores")),
        ((np.zeros((3, 4)), np.zeros(3), np.zeros(4), None), says("there-boxes", size=3, size_2=4, what="classes")),
        ((np.zeros((3, 4)), np.zeros(3), np.zeros(3), np.array([np.nan])), says("count-shape-not-one-number")),
        ((np.zeros((3, 4)), np.zeros(3), np.zeros(3), np.zeros(2)), says("count-shape-not-one-number")),
    ],
)
def test_listed_boxes_of_other_shapes_are_refused(parts, words):
    with pytest.raises(UnreadableOutputs, match=words):
        b.read_listed(*parts)


def test_a_class_that_is_no_whole_number_is_marked():
    found = b.read_listed(np.zeros((3, 4)), None, np.array([2.0001, 1.4, np.nan]), None)
    assert found.classes.tolist() == [2, -1, -1]


def test_rows_of_seven_end_at_the_image_of_minus_one():
    rows = np.zeros((1, 1, 4, 7), np.float32)
    rows[0, 0, 0] = (0, 2, 0.5, 0.1, 0.2, 0.3, 0.4)
    rows[0, 0, 1, 0] = -1
    rows[0, 0, 2] = (0, 1, 0.9, 0, 0, 1, 1)
    found = b.read_rows(rows)
    assert found.classes.tolist() == [2]
    assert found.boxes.tolist() == np.float32([[0.1, 0.2, 0.3, 0.4]]).astype(float).tolist()


def test_rows_of_six():
    found = b.read_rows(np.array([[[1, 2, 3, 4, 0.5, 7.0]]]))
    assert (found.boxes.tolist(), found.scores.tolist(), found.classes.tolist()) == ([[1, 2, 3, 4]], [0.5], [7])
    with pytest.raises(UnreadableOutputs, match=says("rows-shape-neither-six-nor")):
        b.read_rows(np.zeros((1, 3, 5)))


@pytest.mark.parametrize("y_first", [False, True])
def test_ssd_undoes_the_encoding(y_first):
    rng = np.random.default_rng(2)
    anchors = rng.uniform(0.1, 0.9, (20, 4))
    true = rng.uniform(0.1, 0.9, (20, 4))
    scales = (10.0, 8.0, 5.0, 4.0)
    encoded = np.concatenate(
        [(true[:, :2] - anchors[:, :2]) / anchors[:, 2:], np.log(true[:, 2:] / anchors[:, 2:])], axis=1
    ) * np.array(scales)
    scores = rng.random((20, 2))
    found = b.read_ssd(encoded, scores, Anchors(boxes=anchors, scales=scales, y_first=y_first), above=0.5)
    rows, classes = np.nonzero(scores > 0.5)
    expected = true[:, [1, 0, 3, 2]] if y_first else true
    np.testing.assert_allclose(found.boxes, expected[rows], rtol=1e-12)
    assert np.array_equal(found.classes, classes)
    assert np.array_equal(found.scores, scores[rows, classes])


def test_ssd_with_other_anchors_is_refused():
    with pytest.raises(
        UnreadableOutputs, match=says("there-anchors-boxes-rows-scores", boxes_count=2, encodings_count=3)
    ):
        b.read_ssd(np.zeros((3, 4)), np.zeros((3, 2)), Anchors(boxes=np.zeros((2, 4)), scales=(1, 1, 1, 1)), above=0)


def test_ssd_survives_a_size_beyond_floats():
    anchors = Anchors(boxes=np.ones((1, 4)), scales=(1, 1, 1, 1))
    found = b.read_ssd(np.array([[0, 0, 1e4, 0]]), np.ones((1, 1)), anchors, above=0)
    assert found.boxes[0, 2] == np.inf


@pytest.mark.parametrize("activation", ["sigmoid", "softmax", "none"])
def test_activations_equal_scipy(activation):
    special = pytest.importorskip("scipy.special")
    raw = np.random.default_rng(0).normal(0, 100, (50, 4))
    expected = {"sigmoid": special.expit(raw), "softmax": special.softmax(raw, axis=1), "none": raw}[activation]
    np.testing.assert_allclose(b.activate(raw, activation, background=None), expected, rtol=1e-12)
    np.testing.assert_allclose(b.activate(raw, activation, background=0), expected[:, 1:], rtol=1e-12)
    with pytest.raises(UnreadableOutputs, match=says("there-no-class-which-should")):
        b.activate(raw, activation, background=4)


def test_yolo_multiplies_objectness_and_counts_every_class_or_the_best():
    rows = np.array([[1, 2, 3, 4, 0.5, 0.8, 0.6], [5, 6, 7, 8, 0.01, 1.0, 1.0], [9, 9, 9, 9, 1.0, 0.1, 0.9]])
    every = b.read_yolo(rows, objectness=True, above=0.25, every_class=True)
    assert list(zip(every.scores.tolist(), every.classes.tolist(), strict=True)) == [(0.4, 0), (0.3, 1), (0.9, 1)]
    best = b.read_yolo(rows, objectness=True, above=0.25, every_class=False)
    assert list(zip(best.scores.tolist(), best.classes.tolist(), strict=True)) == [(0.4, 0), (0.9, 1)]
    assert best.boxes.tolist() == [[1, 2, 3, 4], [9, 9, 9, 9]]


def test_yolo_without_objectness():
    found = b.read_yolo(np.array([[1, 2, 3, 4, 0.2, 0.7]]), objectness=False, above=0.5, every_class=True)
    assert (found.scores.tolist(), found.classes.tolist()) == ([0.7], [1])


def test_yolo_refuses_what_is_no_number_and_has_no_class():
    with pytest.raises(UnreadableOutputs, match=says("some-scores-not-numbers")):
        b.read_yolo(np.array([[1, 2, 3, 4, np.nan, 0.7]]), objectness=True, above=0.5, every_class=True)
    with pytest.raises(UnreadableOutputs, match=says("rows-numbers-no-room-class")):
        b.read_yolo(np.zeros((3, 5)), objectness=True, above=0.5, every_class=True)
