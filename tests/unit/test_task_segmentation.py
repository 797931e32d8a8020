"""Segmentation against scikit-learn's Jaccard score over all pixels; sizes, layouts, labels that don't count."""

import json

import numpy as np
import pytest
from sklearn import metrics

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.scores import score
from edgewise.evaluating.task import HasConfusion, Preparation
from edgewise.evaluating.tasks.segmentation import Segmentation
from messages import says
from task_setting import context, judge_all

TASK = Segmentation()


def images(n=12, classes=5, size=(6, 9), seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes - 1, (n, *size))  # the last class is never a label
    scores = rng.normal(size=(n, classes, *size)).astype(np.float32)
    for c in range(classes):
        scores[:, c] += 1.2 * (labels == c)
    labels[rng.random(labels.shape) < 0.1] = 255
    return labels.astype(np.uint8), scores


def oracle(labels, answers):
    kept = labels != 255
    return {
        "miou": metrics.jaccard_score(labels[kept], answers[kept], average="macro"),
        "pixel_accuracy": metrics.accuracy_score(labels[kept], answers[kept]),
    }


@pytest.mark.parametrize("layout", ["channels-first", "channels-last", "classes", "classes first", "classes last"])
def test_values_are_scikit_learns(layout):
    labels, scores = images()
    answers = scores.argmax(1)
    outputs, shape, dtype = {
        "channels-first": (scores, (1, 5, 6, 9), "float32"),
        "channels-last": (np.moveaxis(scores, 1, -1), (1, 6, 9, 5), "float32"),
        "classes": (answers, (1, 6, 9), "int64"),
        "classes first": (answers[:, None], (1, 1, 6, 9), "int64"),
        "classes last": (answers[..., None].astype(float), (1, 6, 9, 1), "int32"),
    }[layout]
    scorer = TASK.prepare(context(shape, dtype=dtype))
    records = json.loads(json.dumps(judge_all(scorer, outputs, labels)))
    table = scorer.tabulate(records)
    assert table.values() == pytest.approx(oracle(labels, answers), abs=1e-12)
    weights = np.arange(12) % 3.0
    times = weights.astype(int)
    assert table.values(weights) == pytest.approx(
        oracle(np.repeat(labels, times, axis=0), np.repeat(answers, times, axis=0)), abs=1e-12
    )
    assert isinstance(table, HasConfusion)
    kept = labels != 255
    assert np.array(table.confusion()).tolist() == metrics.confusion_matrix(labels[kept], answers[kept]).tolist()


def test_intervals():
    labels, scores = images(n=20)
    scorer = TASK.prepare(context((1, 5, 6, 9)))
    for found in score(scorer.tabulate(judge_all(scorer, scores, labels))):
        assert 0.0 < found.low < found.value < found.high < 1.0


def test_answers_are_brought_to_the_label_map():
    # Stored 8 × 4, fed as 16 × 16: scaled by 2 to 16 × 8, 4 rows of padding above; the output has half of that size.
    preparation = Preparation(scale=(2.0, 2.0), offset=(0.0, 4.0), size=(8, 4), input_size=(16, 16))
    label = np.arange(32).reshape(4, 8) % 4
    output = np.full((8, 8), 9)
    output[2:6] = label  # rows 4 to 12 of the input
    scorer = TASK.prepare(context((1, 8, 8), dtype="int64"))
    record = scorer.record([output[None]], Sample(index=0, name="a", data=np.zeros(1), label=label), preparation)
    assert scorer.tabulate([record]).values() == {"miou": 1.0, "pixel_accuracy": 1.0}


def test_pixels_that_were_cropped_away_do_not_count():
    # Stored 8 × 8 and fed as the 4 × 4 in its middle.
    preparation = Preparation(scale=(1.0, 1.0), offset=(-2.0, -2.0), size=(8, 8), input_size=(4, 4))
    label = np.ones((8, 8), int)
    label[2:6, 2:6] = 0
    scorer = TASK.prepare(context((1, 4, 4), dtype="int64"))
    record = scorer.record(
        [np.zeros((1, 4, 4), int)], Sample(index=0, name="a", data=np.zeros(1), label=label), preparation
    )
    assert record == [0, 0, 16]


@pytest.mark.parametrize(("label", "output"), [((4, 6), (2, 3)), ((2, 3), (4, 6)), ((7, 5), (3, 4))])
def test_without_a_feed_sizes_are_stretched(label, output):
    grid = np.arange(output[0] * output[1]).reshape(output)
    rows = [int((y + 0.5) * output[0] / label[0]) for y in range(label[0])]
    columns = [int((x + 0.5) * output[1] / label[1]) for x in range(label[1])]
    scorer = TASK.prepare(context((1, *output), dtype="int64"))
    (record,) = judge_all(scorer, [grid], [grid[np.ix_(rows, columns)]])
    assert scorer.tabulate([record]).values()["pixel_accuracy"] == 1.0


def test_nan_pixels_are_wrong_and_no_class():
    scores = np.zeros((2, 1, 3), np.float32)
    scores[1] = [[1, 1, np.nan]]
    scorer = TASK.prepare(context((1, 2, 1, 3), layout="channels-first"))
    table = scorer.tabulate(judge_all(scorer, [scores], [np.ones((1, 3), int)]))
    assert table.values() == {"miou": pytest.approx(2 / 3), "pixel_accuracy": pytest.approx(2 / 3)}
    assert table.confusion() == [[0, 0], [0, 2]]


def test_one_channel_must_say_what_it_is():
    output = np.array([[[0.4, 0.6]]])
    with pytest.raises(BadInput, match=says("output-one-number-per-pixel")):
        judge_all(TASK.prepare(context((1, 1, 1, 2), layout="channels-first")), [output], [np.zeros((1, 2), int)])
    scorer = TASK.prepare(context((1, 1, 1, 2), layout="channels-first", positive="probability"))
    assert judge_all(scorer, [output], [np.array([[0, 1]])]) == [[0, 0, 1, 1, 1, 1]]
    flat = TASK.prepare(context((1, 1, 2), positive="logit", threshold=0.7))
    assert judge_all(flat, [output[0]], [np.array([[0, 1]])]) == [[0, 0, 1, 1, 0, 1]]


def test_layouts_that_nothing_tells():
    with pytest.raises(BadInput, match=says("classes-axis-output-shape-ambiguous")):
        TASK.prepare(context((1, 8, 8, 8)))
    assert TASK.prepare(context((1, 8, 8, 8), layout="channels-last")).settings["layout"] == "channels-last"
    names = tuple("abcdefgh")
    assert TASK.prepare(context((1, 8, 4, 4), model=names)).settings["layout"] == "channels-first"
    late = TASK.prepare(context((1, None, None, None)))
    judge_all(late, [np.zeros((3, 8, 8))], [np.zeros((8, 8), int)])
    assert late.settings["layout"] == "channels-first"


@pytest.mark.parametrize(
    "label", [None, 3, "mask.png", np.zeros((2, 2, 3), int), np.zeros((2, 2)), np.zeros((0, 2), int)]
)
def test_labels_that_are_no_map(label):
    with pytest.raises(BadInput, match=says("label-not-map-classes")):
        judge_all(TASK.prepare(context((1, 3, 4, 4))), [np.zeros((3, 4, 4))], [label])


def test_labels_out_of_range_name_sample_and_label():
    scorer = TASK.prepare(context((1, 3, 4, 4)))
    with pytest.raises(
        BadInput,
        match=says(
            "name-data-label-labelshift-rest",
            name="x[0]",
            data="pets.npz",
            label="",
            shift=3,
            rest=says("model-classes", known=3),
        ),
    ):
        judge_all(scorer, [np.zeros((3, 4, 4))], [np.full((4, 4), 3)])
    with pytest.raises(BadInput, match=says("pixels-labelled", min=-1, max=-1)):
        judge_all(scorer, [np.zeros((3, 4, 4))], [np.full((4, 4), -1)])
    other = TASK.prepare(context((1, 3, 4, 4), ignore=7))
    assert judge_all(other, [np.zeros((3, 4, 4))], [np.full((4, 4), 7)]) == [[]]


def test_images_in_which_nothing_counts():
    scorer = TASK.prepare(context((1, 3, 4, 4)))
    (found, _) = score(scorer.tabulate(judge_all(scorer, [np.zeros((3, 4, 4))], [np.full((4, 4), 255)])))
    assert found.value is None
    assert found.absent_because.startswith("no pixel of any image counts")


def test_outputs_that_are_no_map():
    scorer = TASK.prepare(context((1, None)))
    with pytest.raises(BadInput, match=says("output-shape-not-map-classes")):
        judge_all(scorer, [np.zeros(10)], [np.zeros((4, 4), int)])
    whole = TASK.prepare(context((1, 2, 2), dtype="int64", model=("a", "b")))
    with pytest.raises(BadInput, match=says("output-pixels-there-classes", min=0, max=7, known=2)):
        judge_all(whole, [np.array([[0, 7], [0, 0]])], [np.zeros((2, 2), int)])


def test_classes_are_matched_by_name():
    scorer = TASK.prepare(context((1, 3, 4, 4), data=("road", "sky"), model=("void", "sky", "road")))
    scores = np.zeros((3, 4, 4))
    scores[2] = 1.0
    assert judge_all(scorer, [scores], [np.zeros((4, 4), int)]) == [[2, 2, 16]]
