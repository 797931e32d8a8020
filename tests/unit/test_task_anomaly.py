"""Anomaly detection against scikit-learn, ties included."""

import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from edgewise.errors import BadInput
from edgewise.evaluating.task import HasConfusion
from edgewise.evaluating.tasks.anomaly import Anomaly, AnomalyTable
from messages import says
from task_setting import context, judge_all

TASK = Anomaly()


@pytest.mark.parametrize("levels", [3, 1000])
def test_areas_are_scikit_learns(levels):
    rng = np.random.default_rng(levels)
    labels = rng.random(300) < 0.3
    scores = rng.integers(0, levels, 300) + 0.3 * levels * labels
    weights = rng.integers(0, 3, 300).astype(float)
    table = AnomalyTable(labels, scores, threshold=None)
    for counts in (None, weights):
        values = table.values(counts)
        assert values["auroc"] == pytest.approx(roc_auc_score(labels, scores, sample_weight=counts), abs=1e-12)
        expected = average_precision_score(labels, scores, sample_weight=counts)
        assert values["average_precision"] == pytest.approx(expected, abs=1e-12)


def test_values_do_not_remember_other_weights():
    table = AnomalyTable(np.array([True, False, True]), np.array([3.0, 2.0, 1.0]), threshold=None)
    before = table.values()
    table.values(np.array([0.0, 3.0, 1.0]))
    assert table.values() == before == {"auroc": 0.5, "average_precision": pytest.approx(5 / 6)}


def test_nan_counts_as_wrong():
    scorer = TASK.prepare(context((1, 1)))
    records = judge_all(scorer, [[0.5], [np.nan], [0.1], [np.nan]], [1, 1, 0, 0])
    table = scorer.tabulate(json.loads(json.dumps(records, allow_nan=False)))
    assert records[1] == [1, None]
    assert table.values()["auroc"] == pytest.approx(0.25)


@pytest.mark.parametrize("label", [0, 1])
def test_one_kind_of_sample_has_no_area(label):
    table = AnomalyTable(np.full(4, bool(label)), np.arange(4.0), threshold=None)
    assert np.isnan(table.values()["auroc"])
    assert table.explain("auroc") == f"all 4 samples are {'anomalies' if label else 'normal'}"


def test_scores_by_their_options():
    output = np.array([0.2, 0.9, 0.1])
    for asked, expected in (("max", 0.9), ("mean", 0.4), ("2", 0.1)):
        scorer = TASK.prepare(context((1, 3), score=asked))
        assert judge_all(scorer, [output], [1]) == [[1, pytest.approx(expected)]]
    with pytest.raises(BadInput, match=says("output-numbers-score-one-number")):
        judge_all(TASK.prepare(context((1, 3), score="value")), [output], [1])
    with pytest.raises(BadInput, match=says("score-output-elements", size=3)):
        judge_all(TASK.prepare(context((1, 3), score="3")), [output], [1])
    with pytest.raises(BadInput, match="score must be value, max, mean"):
        TASK.prepare(context((1, 3), score="median"))


def test_an_autoencoder_is_known_by_its_sizes():
    scorer = TASK.prepare(context((1, 640), inputs=((1, 640),)))
    assert scorer.settings["score"] == "mse"
    stored = np.arange(640, dtype=np.float32)
    assert judge_all(scorer, [stored + 2.0], [1], data=[stored]) == [[1, 4.0]]
    # Several windows of one file: over them all.
    windows = np.zeros((3, 640), np.float32)
    assert judge_all(scorer, [windows + np.array([[1.0], [2.0], [3.0]])], [0], data=[windows]) == [
        [0, pytest.approx(14 / 3)]
    ]
    with pytest.raises(BadInput, match=says("name-size-reconstruction-size-2", size="5 numbers", size_2=640)):
        judge_all(scorer, [stored], [1], data=[np.zeros(5)])


def test_nothing_is_guessed():
    with pytest.raises(BadInput, match=says("model-output-not-one-score")):
        TASK.prepare(context((1, 7), inputs=((1, 640),)))


def test_a_threshold_adds_answers():
    scorer = TASK.prepare(context((1, 1), threshold=0.5))
    table = scorer.tabulate(judge_all(scorer, [[0.9], [0.5], [0.6], [0.1]], [1, 1, 0, 0]))
    assert table.values()["error_rate"] == 0.5
    assert table.proportions["error_rate"].tolist() == [0.0, 1.0, 1.0, 0.0]
    assert table.confusion() == [[1, 1], [1, 1]]
    assert isinstance(table, HasConfusion)
    assert not isinstance(AnomalyTable(np.array([True]), np.array([1.0]), threshold=None), HasConfusion)


@pytest.mark.parametrize("label", [2, -1, None, "anomaly", 0.5])
def test_labels_are_zero_and_one(label):
    with pytest.raises(BadInput, match=says("name-data-label-brief", name="x[0]", data="pets.npz")):
        judge_all(TASK.prepare(context((1, 1))), [[0.1]], [label])


@pytest.mark.parametrize(("classes", "normal"), [
    (("anomaly", "normal"), "normal"), (("crack", "good", "scratch"), "good"), (("anomalous", "pump"), "pump"),
])  # fmt: skip
def test_class_names_say_which_is_normal(classes, normal):
    scorer = TASK.prepare(context((1, 1), data=classes))
    assert scorer.settings["normal"] == normal
    found = [record[0] for record in judge_all(scorer, [[0.1]] * len(classes), range(len(classes)))]
    assert found == [int(name != normal) for name in classes]


def test_class_names_that_do_not_say():
    with pytest.raises(BadInput, match=says("not-known-which-class-normal", name="pets.npz")):
        TASK.prepare(context((1, 1), data=("a", "b")))
    assert TASK.prepare(context((1, 1), data=("a", "b"), normal="b")).settings["normal"] == "b"
    with pytest.raises(BadInput, match=says("no-class", asked="c")):
        TASK.prepare(context((1, 1), data=("a", "b"), normal="c"))
