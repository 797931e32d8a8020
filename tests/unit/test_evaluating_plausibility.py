"""An accuracy that guessing reaches too is called that, with what was fed and what the answers tell of the labels."""

import re

import numpy as np
import pytest

from edgewise.evaluating.evaluator import SampleResults
from edgewise.evaluating.plausibility import check_plausible
from edgewise.evaluating.scores import JoinedTable, Score, score
from edgewise.evaluating.tasks.classification import ClassificationTable
from messages import has, says

ANSWERS = SampleResults(entries=(), notes=("x: scale=1/255 → float32 [1, 3, 8, 8]",), fed={"x": (0.0, 1.0)})


def table_of(labels, results, *, classes):
    labels, results = np.asarray(labels, np.intp), np.asarray(results, np.intp)
    return ClassificationTable(labels, results, np.where(labels == results, 0, 9), classes=classes)


def doubt(labels, results, *, classes, joined=False):
    table = table_of(labels, results, classes=classes)
    shown = JoinedTable([table]) if joined else table
    return check_plausible(
        score(table), shown, headline="accuracy_top1", results=ANSWERS, settings={"labels": "label i is output i"}
    )


def spread(n, classes, seed=0):
    return np.random.default_rng(seed).integers(0, classes, n)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("classes", [10, 1000])
def test_nothing_right_is_told_with_what_was_fed(classes, joined):
    # Of 1000 classes no matrix of confusion is kept.
    labels = spread(200, classes)
    found = doubt(labels, (labels + spread(200, classes - 2, seed=1) + 1) % classes, classes=classes, joined=joined)
    assert found.code == "implausible-accuracy" and "--prepare" in found.advice
    assert found.message == (
        f"Top-1 accuracy 0.00 % on 200 samples: no better than guessing among {classes} classes; "
        "values fed to x: 0 to 1.00; prepared as x: scale=1/255 → float32 [1, 3, 8, 8]; label i is output i"
    )


@pytest.mark.parametrize("right", [5, 14])
def test_what_guessing_reaches_too_is_doubted(right):
    labels = np.arange(100) % 10
    results = np.where(np.arange(100) < right, labels, (labels + 2 + np.arange(100) // 10 % 7) % 10)
    assert "no better than guessing among 10 classes" in doubt(labels, results, classes=10).message


def test_what_is_better_than_guessing_is_not_doubted():
    labels = np.arange(100) % 10
    assert doubt(labels, np.where(np.arange(100) < 20, labels, (labels + 3) % 10), classes=10) is None


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (1, says("answers-label-plus-1-there", share=has("98.00 %"))),
        (-1, says("answers-label-minus-1-do", share=has("98.00 %"))),
    ],
)
def test_labels_that_are_one_off_are_told(by, said):
    labels = 1 + spread(100, 999)
    results = np.where(np.arange(100) < 98, labels + by, (labels + 500) % 1000)
    assert re.search(said, doubt(labels, results, classes=1001).message)


@pytest.mark.parametrize("order", [[1, 0], [3, 0, 1, 2], [2, 3, 0, 1]])
def test_classes_in_another_order_are_told(order):
    labels = spread(80, len(order))
    results = np.asarray(order)[labels]
    message = doubt(labels, results, classes=len(order)).message
    assert "100.00 % would be right if classes were numbered otherwise" in message or re.search(
        says("answers-label-minus-1-do"), message
    )


def test_few_samples_of_a_class_tell_no_order():
    labels = np.arange(6)
    assert "otherwise" not in doubt(labels, np.asarray([2, 3, 4, 5, 0, 1]), classes=6).message


def test_one_answer_for_everything_is_told():
    assert "every sample is answered with class 7" in doubt(spread(100, 7), np.full(100, 7), classes=8).message


@pytest.mark.parametrize(
    ("metric", "value", "low", "said"),
    [
        ("map_50_95", 0.0, None, "mAP@[.50:.95] 0.00 % on 9 samples: nothing was right"),
        ("exact_match", 0.0, 0.0, "Exact match 0.00 % on 9 samples: nothing was right"),
        ("auroc", 0.52, 0.4, "AUC (ROC) 52.00 % on 9 samples: no better than guessing"),
        ("map_50_95", 0.01, 0.0, None),
        ("auroc", 0.7, 0.6, None),
        ("auroc", 1.0, 0.4, None),  # too few to tell it from guessing, but all right
        ("agreement_top1", 0.0, 0.0, None),  # both were fed the same
        ("mae", 0.0, 0.0, None),
        ("miou", None, None, None),
    ],
)
def test_other_tasks(metric, value, low, said):
    one = Score(metric=metric, value=value, low=low, high=None, n=9, method="")
    table = table_of([0], [0], classes=0)
    found = check_plausible([one], JoinedTable([table]), headline=metric, results=ANSWERS, settings={})
    assert (found is None) if said is None else found.message.startswith(said)
