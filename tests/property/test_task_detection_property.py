"""Detections and texts of any kind: what always holds of suppression, decoders, and scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgewise.evaluating.task import Preparation
from edgewise.evaluating.tasks import boxes as b
from edgewise.evaluating.tasks.boxes import Detections, UnreadableOutputs
from edgewise.evaluating.tasks.coco_score import tabulate_coco
from edgewise.evaluating.tasks.text_scores import ORDERS, Bleu, f1_of_tokens, match_exactly, normalise

ANY = st.floats(width=32, allow_nan=True, allow_infinity=True)
PIXEL = st.integers(0, 12).map(float)


@st.composite
def found(draw):
    size = draw(st.integers(0, 25))
    corner = draw(hnp.arrays(np.float64, (size, 2), elements=PIXEL))
    extent = draw(hnp.arrays(np.float64, (size, 2), elements=PIXEL))
    return Detections(
        boxes=np.concatenate([corner, corner + extent], axis=1),
        scores=draw(hnp.arrays(np.float64, size, elements=st.integers(0, 5).map(lambda k: k / 5))),
        classes=draw(hnp.arrays(np.int64, size, elements=st.integers(0, 2))),
    )


@given(found(), st.sampled_from([0.0, 0.3, 0.7]), st.booleans(), st.integers(1, 30))
def test_what_is_kept_does_not_overlap_and_what_is_dropped_has_a_reason(each, overlap, agnostic, most):
    kept = b.suppress(each, overlap=overlap, most=most, agnostic=agnostic)
    again = b.suppress(kept, overlap=overlap, most=most, agnostic=agnostic)
    assert np.array_equal(kept.boxes, again.boxes)
    assert np.array_equal(kept.scores, again.scores)
    assert (np.diff(kept.scores) <= 0).all()
    for index in range(len(kept.scores)):
        same = np.ones(index, bool) if agnostic else kept.classes[:index] == kept.classes[index]
        assert (b.overlaps(kept.boxes[index], kept.boxes[:index])[same] <= overlap).all()
    if len(kept.scores) < most:
        for box, number in zip(each.boxes, each.classes, strict=True):
            rivals = kept.boxes[np.ones(len(kept.classes), bool) if agnostic else kept.classes == number]
            assert (b.overlaps(box, rivals) > overlap).any() or (rivals == box).all(axis=1).any()


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(0, 9)), elements=ANY), st.booleans(), st.booleans()
)
def test_any_rows_are_read_or_refused(rows, objectness, every):
    for read in (
        lambda: b.read_yolo(rows, objectness=objectness, above=0.3, every_class=every),
        lambda: b.read_rows(rows),
        lambda: b.read_listed(rows, None, None, None),
        lambda: b.read_listed(np.zeros((len(rows), 4)), None, rows, None),
    ):
        try:
            with np.errstate(all="ignore"):
                result = read()
        except UnreadableOutputs:
            continue
        assert result.boxes.shape == (len(result.scores), 4)
        assert result.classes.dtype.kind == "i"


@given(hnp.arrays(np.float64, (5, 4), elements=st.floats(-1e6, 1e6)), st.floats(0.1, 10), st.floats(-50, 50))
def test_boxes_come_back_to_the_image(corners, scale, offset):
    preparation = Preparation(scale=(scale, scale / 2), offset=(offset, -offset), size=(64, 48), input_size=(32, 32))
    stored = np.clip(corners, 0, (64, 48, 64, 48))
    fed = stored * (scale, scale / 2, scale, scale / 2) + (offset, -offset, offset, -offset)
    np.testing.assert_allclose(b.to_stored(fed, preparation), stored, atol=1e-9)
    inside = b.to_stored(corners, preparation)
    assert (inside >= 0).all()
    assert (inside <= (64, 48, 64, 48)).all()


@st.composite
def records(draw):
    images = []
    for _ in range(draw(st.integers(1, 5))):
        gt, dt = [], []
        for rows, extra in (
            (gt, lambda: [draw(st.sampled_from([0, 0, 0, 1])), None]),
            (dt, lambda: [draw(st.floats(0, 1))]),
        ):
            for _ in range(draw(st.integers(0, 4))):
                left, top, width, height = (draw(PIXEL) for _ in range(4))
                rows.append([left, top, left + width, top + height, draw(st.integers(0, 1)), *extra()])
        images.append({"gt": gt, "dt": dt})
    return images


@pytest.mark.filterwarnings("ignore::RuntimeWarning:pycocotools")
@settings(max_examples=15, deadline=None)
@given(records(), st.data())
def test_weights_are_repetitions(images, data):
    pytest.importorskip("pycocotools", reason="detection is judged by pycocotools")
    # equal scores in one image come in another order when the image is repeated
    scores = [row[5] for each in images for row in each["dt"]]
    if len(set(scores)) < len(scores):
        return
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(images), max_size=len(images)))
    repeated = [each for each, times in zip(images, weights, strict=True) for _ in range(times)]
    found = tabulate_coco(images).values(np.array(weights, np.float64))
    expected = tabulate_coco(repeated).values()
    for name, value in found.items():
        assert value == pytest.approx(expected[name], abs=1e-9, nan_ok=True)
        assert np.isnan(value) or 0 <= value <= 1


TEXT = st.text(alphabet="abthe .,!'A\t-", max_size=20)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3))
def test_scores_of_texts_are_shares(answer, references):
    exact, f1 = match_exactly(answer, references), f1_of_tokens(answer, references)
    assert 0 <= f1 <= 1
    assert f1 == 1 or not exact
    assert normalise(normalise(answer)) == normalise(answer)
    assert match_exactly(answer, [*references, answer]) == f1_of_tokens(answer, [answer]) == 1


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3))
def test_bleu_is_a_share(answer, references):
    pytest.importorskip("sacrebleu", reason="BLEU is sacrebleu's")
    bleu = Bleu()
    statistics = bleu.statistics(answer, references)
    assert 0 <= bleu.score(statistics) <= 1 + 1e-12
    assert all(
        found <= total for found, total in zip(statistics[2 : 2 + ORDERS], statistics[2 + ORDERS :], strict=True)
    )
