"""Regression against scikit-learn."""

import json

import numpy as np
import pytest
from sklearn import metrics

from edgewise.errors import BadInput
from edgewise.evaluating.scores import score
from edgewise.evaluating.tasks.regression import Regression, RegressionTable
from messages import says, wording
from task_setting import context, judge_all

TASK = Regression()


def oracle(labels, answers, weights=None):
    return {
        "mae": metrics.mean_absolute_error(labels, answers, sample_weight=weights),
        "rmse": metrics.root_mean_squared_error(labels, answers, sample_weight=weights),
        "r2": metrics.r2_score(labels, answers, sample_weight=weights),
    }


@pytest.mark.parametrize("outputs", [1, 3])
def test_values_are_scikit_learns(outputs):
    rng = np.random.default_rng(outputs)
    labels = rng.normal(size=(80, outputs)) * 10 + 1e4
    answers = labels + rng.normal(size=labels.shape)
    weights = rng.integers(0, 3, 80).astype(float)
    scorer = TASK.prepare(context((1, outputs)))
    records = judge_all(scorer, answers, list(labels) if outputs > 1 else labels[:, 0].tolist())
    table = scorer.tabulate(json.loads(json.dumps(records)))
    assert table.values() == pytest.approx(oracle(labels, answers), rel=1e-9)
    assert table.values(weights) == pytest.approx(oracle(labels, answers, weights), rel=1e-9)


def test_scores_have_intervals_of_their_own_unit():
    rng = np.random.default_rng(3)
    labels = rng.normal(size=(60, 1)) * 100
    found = {each.metric: each for each in score(RegressionTable(labels + rng.normal(size=labels.shape) * 30, labels))}
    assert found["mae"].low > 1.0
    assert found["r2"].low < found["r2"].value < found["r2"].high < 1.0


def test_r2_of_equal_labels_is_not_defined():
    labels = np.full((20, 1), 0.1)
    table = RegressionTable(labels + np.arange(20)[:, None], labels)
    assert np.isnan(table.values()["r2"])
    assert table.values()["mae"] == pytest.approx(9.5)
    found = {each.metric: each for each in score(table)}
    assert found["r2"].absent_because == "all labels of an output are the same"
    assert RegressionTable(np.zeros((1, 1)), np.ones((1, 1))).explain("r2") == "one sample has no spread"


def test_outputs_that_are_not_finite_are_said():
    scorer = TASK.prepare(context((1, 2)))
    records = judge_all(scorer, [[1.0, np.nan], [np.inf, 0.0], [0.0, 1.0]], [[1, 2], [3, 4], [5, 6]])
    table = scorer.tabulate(json.loads(json.dumps(records, allow_nan=False)))
    assert all(np.isnan(value) for value in table.values().values())
    assert score(table)[0].absent_because == "the outputs of 2 of 3 samples are NaN or infinite"
    assert table.values(np.array([0.0, 0.0, 2.0]))["mae"] == 5.0


@pytest.mark.parametrize("label", [None, "many", [1.0, np.nan], [], {"a": 1}])
def test_labels_that_are_no_numbers(label):
    with pytest.raises(BadInput, match=says("label-which-not-finite-number")):
        judge_all(TASK.prepare(context((1, 2))), [[1.0, 2.0]], [label])


def test_sizes_must_agree():
    with pytest.raises(BadInput, match=says("label-numbers-output", name="x[0]", data="pets.npz", size=3, size_2=2)):
        judge_all(TASK.prepare(context((1, 2))), [[1.0, 2.0]], [[1, 2, 3]])
    with pytest.raises(BadInput, match=says("regression-supports-1-outputs-per", most_outputs=4096, size=150528)):
        TASK.prepare(context((1, 224, 224, 3)))
    scorer = TASK.prepare(context((1, None)))
    with pytest.raises(BadInput, match=says("samples-outputs", min=1, max=2)):
        scorer.tabulate([[[1.0], [1.0]], [[1.0, 2.0], [1.0, 2.0]]])


def test_no_samples():
    scorer = TASK.prepare(context((1, 2)))
    assert all(each.absent_because == wording("there-no-samples") for each in score(scorer.tabulate([])))
