"""Another order of the classes is named only where it explains far more of the answers."""

from dataclasses import replace

import numpy as np
import pytest

from edgewise.evaluating.class_order import find_better_order
from edgewise.evaluating.run_records import cautions_of
from edgewise.record import DataRef, Evaluation

NAMES = ("bag", "boot", "coat", "dress")
ORDER = (2, 0, 3, 1)
"""Output of each label."""


def evaluation_of(right, *, each=40, order=ORDER, task="classification"):
    """Of each class `right` samples are answered with its output in `order`, the others with the next one."""
    counts = np.zeros((len(order), len(order)), dtype=int)
    for label, output in enumerate(order):
        counts[label, output] += right
        counts[label, (output + 1) % len(order)] += each - right
    data = DataRef(name="d", path=None, format="folders", split="all", size=each * len(order), sha256="0" * 64)
    return Evaluation(
        task=task, data=data, n=each * len(order), classes=NAMES, confusion=tuple(map(tuple, counts.tolist()))
    )


def test_the_order_that_explains_the_answers_is_named():
    found = find_better_order(evaluation_of(36))
    assert found.names == ("boot", "dress", "bag", "coat")
    assert found.better == pytest.approx(0.9)
    (caution,) = cautions_of(evaluation_of(36))
    assert caution.code == "class-order" and "⟦classes⟧" not in caution.message
    assert caution.message.startswith(
        "2.50 % as the classes are ordered now, 90.00 % in the order boot, dress, bag, coat"
    )


def test_what_is_not_certain_of_the_order_stands_behind_it():
    told = "the model's file does not name its classes"
    (caution,) = cautions_of(replace(evaluation_of(36), settings={"class_order": told}))
    assert caution.message.endswith(f": likely the order is wrong; {told}")


@pytest.mark.parametrize(
    "one",
    [
        evaluation_of(36, order=(0, 1, 2, 3)),  # right as it is
        evaluation_of(22),  # another order is not clear
        evaluation_of(4, each=4),  # few samples
        evaluation_of(36, task="segmentation"),
        replace(evaluation_of(36), confusion=None),
    ],
)
def test_no_other_order_is_named(one):
    assert find_better_order(one) is None


def test_no_names_are_told_where_an_output_has_none():
    unnamed = replace(evaluation_of(36), classes=NAMES[:3])
    assert "90.00 % in another order" in find_better_order(unnamed).words


def test_a_model_that_mistakes_two_classes_keeps_its_order():
    """Two classes of four are taken for each other more often than not: that is the model."""
    counts = ((40, 0, 0, 0), (0, 38, 2, 0), (0, 0, 15, 25), (0, 0, 24, 16))
    assert find_better_order(replace(evaluation_of(36), confusion=counts)) is None
