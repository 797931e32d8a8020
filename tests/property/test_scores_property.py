"""What holds for any labels and answers: scikit-learn's numbers, weights that repeat, intervals inside their bounds."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from edgewise.evaluating import table_bootstrap
from edgewise.evaluating.agreement import compare_sample, tabulate
from edgewise.evaluating.scores import compare_tables, difference_of_outcomes, score
from edgewise.evaluating.tasks.anomaly import AnomalyTable
from edgewise.evaluating.tasks.classification import ClassificationTable
from edgewise.evaluating.tasks.regression import RegressionTable
from edgewise.stats.proportions import mcnemar_exact, paired_interval, wilson_interval

CLASS = st.integers(0, 6)


@st.composite
def classified(draw, least=1):
    pairs = draw(st.lists(st.tuples(CLASS, CLASS), min_size=least, max_size=40))
    weights = draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)).filter(any))
    labels, answers = np.array(pairs, dtype=np.intp).T
    return labels, answers, np.array(weights)


def table_of(labels, answers):
    return ClassificationTable(labels, answers, np.where(labels == answers, 0, 6), classes=7)


@given(classified())
@settings(max_examples=15, deadline=None)
def test_classification_is_scikit_learns(data):
    labels, answers, weights = data
    table = table_of(labels, answers)
    for counts in (np.ones(labels.size, int), weights):
        y, a = np.repeat(labels, counts), np.repeat(answers, counts)
        macro = {"average": "macro", "zero_division": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = {
                "accuracy_top1": metrics.accuracy_score(y, a),
                "accuracy_balanced": metrics.balanced_accuracy_score(y, a),
                "precision_macro": metrics.precision_score(y, a, **macro),
                "recall_macro": metrics.recall_score(y, a, **macro),
                "f1_macro": metrics.f1_score(y, a, **macro),
            }
        found = table.values(counts.astype(float))
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-9)
        assert found["error_rate"] == pytest.approx(1 - expected["accuracy_top1"], abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3), st.integers(0, 3)), min_size=2, max_size=40))
@settings(max_examples=20, deadline=None)
def test_areas_are_scikit_learns(rows):
    labels, scores, weights = (np.array(column) for column in zip(*rows, strict=True))
    found = AnomalyTable(labels.astype(bool), scores.astype(float), threshold=None).values(weights.astype(float))
    y, s = np.repeat(labels, weights), np.repeat(scores, weights)
    if not y.any():
        assert all(np.isnan(value) for value in found.values())
        return
    assert found["average_precision"] == pytest.approx(metrics.average_precision_score(y, s), abs=1e-9)
    if y.all():
        assert np.isnan(found["auroc"])
    else:
        assert found["auroc"] == pytest.approx(metrics.roc_auc_score(y, s), abs=1e-9)


EIGHTHS = st.integers(-8000, 8000).map(lambda number: number / 8.0)


@given(st.lists(st.tuples(EIGHTHS, EIGHTHS, st.integers(0, 3)), min_size=2, max_size=30))
@settings(max_examples=15, deadline=None)
def test_regression_is_scikit_learns(rows):
    labels, answers, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    found = RegressionTable(answers[:, None], labels[:, None]).values(weights)
    y, a = (np.repeat(values, weights.astype(int)) for values in (labels, answers))
    if not y.size:
        assert np.isnan(found["mae"])
        return
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, a), rel=1e-9, abs=1e-9)
    assert found["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, a), rel=1e-9, abs=1e-9)
    if np.ptp(y) > 0:
        assert found["r2"] == pytest.approx(metrics.r2_score(y, a), rel=1e-9, abs=1e-9)
    else:
        assert np.isnan(found["r2"])


@given(classified(), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_intervals_hold_their_value_and_stay_inside(data, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_bootstrap, "RUNGS", (99,))
        labels, answers, _ = data
        for each in score(table_of(labels, answers), seed=seed):
            assert each.value is not None
            if each.low is None:
                assert each.high is None
                assert each.method.startswith("no interval: ")
            else:
                assert 0.0 <= each.low <= each.value <= each.high <= 1.0
                assert each.low < each.high


@given(classified(least=10), st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_gaps_hold_their_difference(data, random):
    labels, answers, _ = data
    others = np.array([random.randrange(7) if random.random() < 0.3 else answer for answer in answers])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_bootstrap, "RUNGS", (99,))
        for difference in compare_tables(table_of(labels, answers), table_of(labels, others)):
            assert -1.0 <= difference.difference <= 1.0
            if difference.low is not None:
                assert -1.0 <= difference.low <= difference.difference <= difference.high <= 1.0
                assert 0.0 < difference.p_value <= 1.0


@given(st.integers(1, 300), st.data())
def test_pairs_mirror_and_agree_with_their_test(n, data):
    lost = data.draw(st.integers(0, n))
    gained = data.draw(st.integers(0, n - lost))
    low, high = paired_interval(lost, gained, n)
    assert -1.0 <= low <= (gained - lost) / n <= high <= 1.0
    assert (low, high) == pytest.approx(tuple(-end for end in reversed(paired_interval(gained, lost, n))), abs=1e-9)
    exact = mcnemar_exact(lost, gained)
    assert exact == mcnemar_exact(gained, lost) <= 1.0
    assert (low > 0.0 or high < 0.0) == (exact < 0.05)
    below, above = wilson_interval(gained, n)
    assert 0.0 <= below <= gained / n <= above <= 1.0
    assert wilson_interval(n - gained, n) == pytest.approx((1 - above, 1 - below), abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_gaps_of_outcomes_come_from_counts_alone(pairs):
    a, b = ([float(each) for each in column] for column in zip(*pairs, strict=True))
    difference = difference_of_outcomes(a, b, metric="accuracy_top1")
    assert difference.difference == pytest.approx(np.mean(b) - np.mean(a))
    again = difference_of_outcomes(a[::-1], b[::-1], metric="accuracy_top1")
    assert (again.low, again.high, again.p_value) == (difference.low, difference.high, difference.p_value)


FLOATS = st.lists(st.floats(allow_subnormal=False, width=32), min_size=3, max_size=3)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=8))
@settings(deadline=None)
def test_agreement_takes_any_floats(pairs):
    table = tabulate([compare_sample([np.array([a])], [np.array([b])]) for a, b in pairs])
    for each in score(table):
        assert (each.value is None) == (each.absent_because is not None)
        assert each.value is None or np.isfinite(each.value)
