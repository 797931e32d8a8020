"""Samples whose class two models don't share: what is counted, what is kept, and how scorers tell the classes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.output_format import OutputFormat
from edgewise.evaluating.reference import ReferenceScorer
from edgewise.evaluating.task import HasClasses, Preparation
from edgewise.evaluating.tasks.classification import Classification
from edgewise.optimizing.changed_answers import MOST, ORDER, find_changes
from edgewise.stats.proportions import wilson_interval
from task_setting import context, judge_all

TASK = Classification()


def answered(index, label, before, after, score=0.5, other=0.25):
    """A sample with the classes of two models."""
    entry = Entry(index=index, name=f"x[{index}]", digest=f"{index:064x}")
    return entry, label, (before, None if before is None else score), (after, None if after is None else other)


def test_lost_ones_come_first_then_gained_ones_and_the_surest_of_each():
    found = find_changes(
        [
            answered(0, 1, 1, 1), answered(1, 1, 2, 0), answered(2, 1, 0, 1, 0.9), answered(3, 1, 1, 0, 0.4),
            answered(4, 1, 1, 2, 0.8), answered(5, 1, 1, None, 0.8), answered(6, 1, None, None),
            answered(7, 1, None, 1),
        ],
        labelled=True, classes=("cat", "dog"),
    )  # fmt: skip
    assert [one.index for one in found.samples] == [4, 5, 3, 2, 7, 1]
    assert (found.n, found.changed, found.counts) == (8, 6, {"lost": 3, "gained": 2, "other": 1})
    assert found.classes == {0: "cat", 1: "dog"}  # the third class has no name
    share = found.to_document()["share"]
    assert (share["value"], (share["low"], share["high"])) == (0.75, wilson_interval(6, 8))
    assert found.to_document()["samples"][1] == {
        "index": 5, "name": "x[5]", "digest": f"{5:064x}", "change": "lost", "label": 1, "before": 1, "after": None,
        "before_score": 0.8, "after_score": None,
    }  # fmt: skip


def test_without_labels_a_change_is_neither_good_nor_bad():
    found = find_changes([answered(0, None, 0, 1), answered(1, None, 1, 1)], labelled=False)
    assert (found.n, found.changed, found.counts, found.classes) == (2, 1, {"other": 1}, {})


def test_ten_thousand_changes_and_endless_names_stay_small():
    entry, label, before, after = answered(0, 0, 0, 1)
    long = Entry(index=0, name="n" * 10**6, digest=entry.digest)
    found = find_changes(
        [(long, label, before, after)] * 10_000, labelled=True, classes=("a" * 10**6, "b" * 10**6)
    )  # fmt: skip
    assert (found.changed, len(found.samples)) == (10_000, MOST)
    assert len(json.dumps(found.to_document())) < 20_000


CLASS = st.one_of(st.none(), st.integers(0, 3))


@given(st.lists(st.tuples(st.integers(0, 3), CLASS, CLASS, st.floats(-9, 9)), min_size=1, max_size=60))
@settings(max_examples=15, deadline=None)
def test_counts_add_up_to_the_change_of_the_accuracy(answers):
    found = find_changes([answered(place, *one) for place, one in enumerate(answers)], labelled=True)
    right = [sum(label == one for label, one, *_ in answers), sum(label == one for label, _, one, _ in answers)]
    assert found.counts["gained"] - found.counts["lost"] == right[1] - right[0]
    assert found.changed == sum(before != after for _, before, after, _ in answers) <= found.n == len(answers)
    assert len(found.samples) == min(found.changed, MOST)
    places = [(ORDER.index(one.change), np.inf if one.before_score is None else -one.before_score)
              for one in found.samples]  # fmt: skip
    assert places == sorted(places)
    shown = [sum(one.change == change for one in found.samples) for change in ORDER]
    assert all(part <= found.counts[change] for part, change in zip(shown, ORDER, strict=True))


def answers_of(scorer, outputs, labels):
    assert isinstance(scorer, HasClasses)
    records = json.loads(json.dumps(judge_all(scorer, outputs, labels)))
    return [scorer.classes_of(records[0], record)[::2] for record in records]


def test_a_classifier_tells_its_class_with_the_score():
    rows = [[0.25, 4.5, 1.0], [np.nan, 1.0, 0.0]]
    assert answers_of(TASK.prepare(context((1, 3))), rows, [1, 2]) == [(1, (1, 4.5)), (2, (None, None))]


@pytest.mark.parametrize(
    ("positive", "outputs", "expected"),
    [
        ("probability", [0.75, 0.25], [(1, 0.75), (0, 0.75)]),
        ("logit", [2.0, -3.0, 0.0, np.nan], [(1, 2.0), (0, 3.0), (0, 0.0), (None, None)]),
    ],
)
def test_a_single_output_is_the_score_of_both_classes(positive, outputs, expected):
    scorer = TASK.prepare(context((1, 1), positive=positive))
    found = answers_of(scorer, [[each] for each in outputs], [1] * len(outputs))
    assert [answer for _, answer in found] == expected


def test_a_model_that_gives_only_the_class_has_no_score():
    scorer = TASK.prepare(context((1,), dtype="int64", model=("a", "b", "c")))
    assert answers_of(scorer, [np.int64(2)], [0]) == [(0, (2, None))]


class Adapter:
    """A reference whose outputs are known."""

    identity: dict = {}


@pytest.mark.parametrize(
    ("own", "reference", "expected"),
    [
        ([[0.5, 2.0]], [[3.0, 1.0]], ((0, 3.0), (1, 2.0))),
        ([[0.0, 2.0]], [[1.0, 1.0]], ((1, 1.0), (1, 2.0))),  # of the reference's equally large ones any counts
        ([[np.nan, 1.0]], [[0.0, 1.0]], ((1, 1.0), (None, None))),
        ([[0.0, 1.0]], [[np.nan, 1.0]], None),
        ([[[0.0, 1.0], [1.0, 0.0]]], [[[0.0, 1.0], [1.0, 0.0]]], None),  # two rows of one sample
        ([[2.0]], [[2.0]], None),
        ([[0.0, 1.0], [0.0, 2.0]], [[0.0, 1.0], [np.nan, 2.0]], None),  # two outputs with rows
    ],
)
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_a_reference_tells_both_classes_where_outputs_are_a_row_of_scores(own, reference, expected, kind):
    form = OutputFormat(kind=kind, because="", probabilities=(False,) * len(own))
    scorer = ReferenceScorer(Adapter(), name="r", form=form)
    scorer._outputs = {0: [np.array(each)[None] for each in reference]}
    sample = Sample(index=0, name="x", data=np.zeros(1))
    record = json.loads(json.dumps(scorer.record([np.array(each)[None] for each in own], sample, Preparation())))
    found = scorer.classes_of(record, record)
    told = None if found is None else tuple(map(tuple, found[1:]))
    assert told == (expected if kind == "classes" else None)
    assert scorer.tabulate([record]).n == 1


ROW = st.lists(st.sampled_from([0.0, 1.0, 2.0, float("nan"), float("inf")]), min_size=3, max_size=3)


@given(ROW, ROW)
@settings(max_examples=25, deadline=None)
def test_a_class_has_changed_where_the_agreement_counts_a_difference(own, reference):
    scorer = ReferenceScorer(Adapter(), name="r")
    scorer._outputs = {0: [np.array([reference])]}
    record = scorer.record([np.array([own])], Sample(index=0, name="x", data=np.zeros(1)), Preparation())
    rows, same, *_ = record[0]
    found = scorer.classes_of(record, record)
    assert (found is None) == (rows == 0)
    if found is not None:
        assert (found[1][0] == found[2][0]) == (same == 1)
