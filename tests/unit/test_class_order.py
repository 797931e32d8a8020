"""Another order of the classes is named only where it explains far more of the answers."""

from dataclasses import replace

import numpy as np
import pytest

from edgewise.evaluating.class_order import BY_NAME, SAME_NAMES, find_better_order
from edgewise.evaluating.class_order import ORDER as DOUBT
from edgewise.evaluating.run_records import cautions_of
from edgewise.optimizing.candidate_checks import note_on
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


def test_classes_that_no_file_names_are_a_note_for_the_task_and_no_doubt_about_the_original():
    """Four lines, with advice on detection, stood between the conclusion of a classification and its table, twice."""
    told = "the model's file does not name its classes: they are taken in the data's order, a, b"
    usual = replace(evaluation_of(36, order=(0, 1, 2, 3)), settings={"class_order": told})
    (caution,) = cautions_of(usual)
    assert "class_map" not in caution.advice
    (boxes,) = cautions_of(replace(usual, task="detection"))
    assert boxes.advice == f"{caution.advice}, and --task-option class_map=identity"
    assert note_on(caution, usual) == f"{told}; --classes FILE gives another order"
    wrong = replace(evaluation_of(36), settings={"class_order": told})
    assert note_on(cautions_of(wrong)[0], wrong).startswith("the original: 2.50 % as the classes are ordered now")


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


FASHION = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
SWAPPED = ("t-shirt", "trouser", "coat", "dress", "pullover", "sandal", "shirt", "sneaker", "bag", "boot")


def with_pair(right, crossed, *, settings, names=FASHION):
    """Of 40 samples of each class 36 are right; of pullovers and of coats `right`, and `crossed` are taken for the other."""
    counts = np.diag([36] * 10)
    counts[:, 0] += 4
    counts[0, 0] = 40
    for label, other in ((2, 4), (4, 2)):
        counts[label] = 0
        counts[label, [label, other, 6]] = right, crossed, 40 - right - crossed
    base = evaluation_of(36)
    n = int(counts.sum())
    confusion = tuple(map(tuple, counts.tolist()))
    return replace(base, data=replace(base.data, size=n), n=n, classes=names, confusion=confusion, settings=settings)


def test_two_swapped_classes_are_named_with_the_option_that_puts_them_right():
    (caution,) = cautions_of(with_pair(3, 33, settings={"labels": "label i is output i", DOUBT: "nothing names them"}))
    assert caution.message == (
        "74.50 % as the classes are ordered now, 89.50 % with pullover and coat swapped: likely the order is wrong; "
        "nothing names them"
    )
    assert caution.advice == f"name the classes in this order: --classes {','.join(SWAPPED)}"


@pytest.mark.parametrize("labels", [BY_NAME, SAME_NAMES])
def test_an_order_that_was_given_is_likely_wrong(labels):
    (caution,) = cautions_of(with_pair(3, 33, settings={"labels": labels}, names=SWAPPED))
    assert caution.message.endswith("with coat and pullover swapped: likely the order given is wrong")
    assert caution.advice == f"replace the order given: --classes {','.join(FASHION)}"


def test_names_are_quoted_and_left_out_where_they_settle_nothing():
    spaced = ("a t-shirt", *FASHION[1:])
    (caution,) = cautions_of(with_pair(3, 33, settings={"labels": SAME_NAMES}, names=spaced))
    assert caution.advice.endswith(f" --classes '{','.join(('a t-shirt', *SWAPPED[1:]))}'")
    for settings, names in (({}, FASHION), ({"labels": SAME_NAMES}, ("a, b", *FASHION[1:]))):
        (caution,) = cautions_of(with_pair(3, 33, settings=settings, names=names))
        assert caution.advice.startswith("give the data's names of the classes")


def test_three_classes_in_a_circle_are_named_in_their_order():
    counts = np.diag([36] * 10)
    counts[[0, 1, 2], [0, 1, 2]] = 4
    counts[[0, 1, 2], [1, 2, 0]] = 36
    counts[3:, 0] = 4
    found = find_better_order(replace(with_pair(0, 0, settings={}), confusion=tuple(map(tuple, counts.tolist()))))
    assert found.names[:4] == ("pullover", "t-shirt", "trouser", "dress") and not found.swapped
    assert found.better == pytest.approx(0.9)


@pytest.mark.parametrize(("right", "crossed"), [(24, 16), (20, 20), (18, 22), (14, 26), (13, 26)])
def test_a_pair_that_is_only_confused_keeps_its_order(right, crossed):
    assert find_better_order(with_pair(right, crossed, settings={})) is None


def test_a_swap_that_chance_explains_is_not_named():
    """All 13 of one of 45 pairs have a probability of 1.1 % at most, all 14 one of 0.55 %."""
    base = with_pair(0, 0, settings={})
    for crossed, named in ((7, True), (6, False)):
        counts = np.array(base.confusion)
        counts[[2, 4]] = 0
        counts[2, 4], counts[4, 2] = crossed, 7
        found = find_better_order(replace(base, confusion=tuple(map(tuple, counts.tolist()))))
        assert (found is not None) is named
