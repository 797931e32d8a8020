"""Scores and gaps of tables: the right interval for each kind of metric, and a reason wherever one is missing."""

import math
from itertools import count

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating import table_bootstrap
from edgewise.evaluating.scores import compare_tables, difference_of_outcomes, score
from edgewise.evaluating.tasks.anomaly import AnomalyTable
from edgewise.evaluating.tasks.classification import ClassificationTable
from edgewise.evaluating.tasks.regression import RegressionTable
from edgewise.stats.proportions import mcnemar_exact, paired_interval, wilson_interval
from messages import says, wording


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """How busy the machine is changes nothing."""
    monkeypatch.setattr(table_bootstrap, "SECONDS", 1e9)


@pytest.fixture
def few(monkeypatch):
    """Fewer resamples: enough to see what an interval does."""
    monkeypatch.setattr(table_bootstrap, "RUNGS", (499, 199))


class Mean:
    """A mean of numbers, by default bounded by 0 and 1."""

    proportions = {}

    def __init__(self, numbers, bounds=None):
        self.numbers, self.n = np.asarray(numbers, dtype=float), len(numbers)
        self.bounds = {} if bounds is None else {"bleu": bounds}
        self.asked = 0

    def values(self, weights=None):
        self.asked += 1
        weights = np.ones(self.n) if weights is None else weights
        return {"bleu": float(weights @ self.numbers / weights.sum()) if self.n else math.nan}


def classified(labels, answers, classes=10):
    labels, answers = np.array(labels, dtype=np.intp), np.array(answers, dtype=np.intp)
    return ClassificationTable(labels, answers, np.where(labels == answers, 0, 7), classes=classes)


def random_tables(n=200, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, n)
    one, other = (np.where(rng.random(n) < share, labels, rng.integers(0, 10, n)) for share in (0.9, 0.7))
    return classified(labels, one), classified(labels, other)


def by_metric(found):
    return {each.metric: each for each in found}


def test_proportions_have_wilsons_interval_and_their_outcomes():
    found = by_metric(score(classified([0, 1, 2, 3] * 5, [0, 1, 2, 0] * 5)))["accuracy_top1"]
    assert (found.value, found.n) == (0.75, 20)
    assert (found.low, found.high) == wilson_interval(15, 20)
    assert found.outcomes == (1.0, 1.0, 1.0, 0.0) * 5
    assert "Wilson" in found.method


def test_other_metrics_are_bootstrapped_reproducibly():
    table, _ = random_tables()
    first, second, third = score(table, seed=1), score(table, seed=1), score(table, seed=2)
    assert first == second
    f1, other = by_metric(first)["f1_macro"], by_metric(third)["f1_macro"]
    assert "BCa bootstrap over samples, 1999 resamples" in f1.method
    assert f1.outcomes == ()
    assert f1.low < f1.value < f1.high
    assert (f1.low, f1.high) != (other.low, other.high)
    assert (f1.low, f1.high) == pytest.approx((other.low, other.high), abs=0.01)


@pytest.mark.usefixtures("few")
def test_the_order_of_metrics_is_that_of_the_table():
    table, _ = random_tables()
    assert [each.metric for each in score(table)] == list(table.values())


def test_groups_and_samples_give_the_same_interval():
    table, _ = random_tables(120)

    class Plain:
        n, proportions, bounds = table.n, table.proportions, table.bounds
        values = staticmethod(table.values)

    grouped, plain = by_metric(score(table))["f1_macro"], by_metric(score(Plain()))["f1_macro"]
    # The same resamples but for which of equal samples they hold, and the same acceleration.
    assert (grouped.low, grouped.high) == pytest.approx((plain.low, plain.high), abs=0.006)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_too_few_samples_have_no_bootstrap_interval(n):
    found = by_metric(score(classified(range(n), range(n))))
    assert found["f1_macro"].value == 1.0
    assert (found["f1_macro"].low, found["f1_macro"].high) == (None, None)
    assert "too few" in found["f1_macro"].method
    assert found["accuracy_top1"].low == wilson_interval(n, n)[0]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("answers", [list(range(5)) * 6, [9] * 30])
def test_all_right_and_all_wrong(answers):
    found = by_metric(score(classified(list(range(5)) * 6, answers)))
    right = answers[0] == 0
    assert found["accuracy_top1"].value == float(right)
    assert found["accuracy_top1"].high > found["accuracy_top1"].low
    assert (found["accuracy_balanced"].low, found["accuracy_balanced"].high) == (None, None)
    assert "every resample of these samples gives the same value" in found["accuracy_balanced"].method


@pytest.mark.usefixtures("few")
def test_a_constant_pretends_no_interval():
    (found,) = score(Mean([0.3] * 50))
    assert (found.value, found.low, found.high) == (pytest.approx(0.3), None, None)


@pytest.mark.usefixtures("few")
def test_intervals_stay_inside_their_bounds_and_hold_their_value():
    (inside,) = score(Mean([1.0] * 11 + [0.97], bounds=(0.0, 1.0)))
    (below,) = score(Mean([0.0] * 11 + [0.4], bounds=(0.0, 1.0)))
    assert 0.97 <= inside.low <= inside.value <= inside.high <= 1.0
    assert 0.0 <= below.low <= below.value <= below.high
    (wide,) = score(Mean([-1.0, 12.0] * 20, bounds=(-math.inf, math.inf)))
    assert wide.low > 0.0
    assert wide.high > 1.0


def test_no_samples_have_no_values():
    for found in score(classified([], [])):
        assert found.value is None
        assert found.absent_because == wording("there-no-samples")


@pytest.mark.usefixtures("few")
def test_undefined_metrics_say_why():
    found = by_metric(score(AnomalyTable(np.zeros(20, bool), np.arange(20.0), threshold=None)))["auroc"]
    assert (found.value, found.low, found.absent_because) == (None, None, "all 20 samples are normal")


@pytest.mark.usefixtures("few")
def test_many_resamples_without_a_value_leave_no_interval():
    labels = np.zeros(20, bool)
    labels[3] = True  # of 20 draws none hits it with a chance of 36 %
    found = by_metric(score(AnomalyTable(labels, np.arange(20.0), threshold=None)))["auroc"]
    assert found.value is not None
    assert found.low is None
    assert "resamples have no value" in found.method


@pytest.mark.usefixtures("few")
def test_few_resamples_without_a_value_are_left_out_and_counted():
    labels = np.zeros(40, bool)
    labels[[3, 9, 20, 38]] = True  # a chance of 1.5 %
    found = by_metric(score(AnomalyTable(labels, np.arange(40.0), threshold=None)))["auroc"]
    assert found.low < found.value < found.high
    assert "without a value left out" in found.method


def test_tables_that_take_long_get_fewer_resamples_or_none(monkeypatch):
    monkeypatch.setattr(table_bootstrap, "SECONDS", 5.0)
    clock = count(0.0, 0.31)
    monkeypatch.setattr(table_bootstrap.time, "perf_counter", lambda: next(clock))  # by each look at the clock
    (found,) = score(Mean(np.linspace(0, 1, 30)))
    assert found.low is None
    assert found.value == pytest.approx(0.5)
    assert "there is no time for 199" in found.method
    clock = count(0.0, 0.01)
    (found,) = score(Mean(np.linspace(0, 1, 30)))
    assert "499 resamples" in found.method


def test_a_costly_table_is_asked_no_more_than_it_allows():
    table = Mean(np.linspace(0, 1, 30))
    table.most_resamples, table.most_seconds = 199, 10.0
    (found,) = score(table)
    assert "bias-corrected bootstrap over samples, 199 resamples" in found.method
    assert table.asked <= 199 + 5
    assert found.low < 0.5 < found.high


def test_gap_of_outcomes_is_mcnemars():
    a, b = [1.0] * 30 + [0.0] * 10, [1.0] * 28 + [0.0] * 2 + [1.0] * 7 + [0.0] * 3
    found = difference_of_outcomes(a, b, metric="accuracy_top1")
    assert found.difference == pytest.approx(5 / 40)
    assert found.p_value == mcnemar_exact(2, 7)
    assert (found.low, found.high) == paired_interval(2, 7, 40)
    assert found.method.startswith("McNemar's exact test")
    assert "7 gained, 2 lost" in found.method


def test_gap_of_outcomes_of_the_same_answers():
    found = difference_of_outcomes([1.0, 0.0] * 10, [1.0, 0.0] * 10, metric="accuracy_top1")
    assert (found.difference, found.p_value) == (0.0, 1.0)
    assert found.low == pytest.approx(-found.high)
    assert difference_of_outcomes([], [], metric="accuracy_top1").absent_because == wording("there-no-samples")


@pytest.mark.parametrize(("a", "b"), [([0.5], [1.0]), ([1.0], [math.nan])])
def test_outcomes_that_make_no_pairs_are_refused(a, b):
    with pytest.raises(BadInput, match="accuracy_top1"):
        difference_of_outcomes(a, b, metric="accuracy_top1")


@pytest.mark.usefixtures("few")
def test_gaps_of_tables():
    a, b = random_tables()
    found = by_metric(compare_tables(a, b))
    assert list(found) == list(a.values())
    f1, top = found["f1_macro"], found["accuracy_top1"]
    assert f1.difference == pytest.approx(b.values()["f1_macro"] - a.values()["f1_macro"])
    assert f1.low < f1.difference < f1.high < 0.0
    assert f1.p_value < 0.01
    assert f1.method.startswith("paired percentile bootstrap over samples")
    assert top.difference == pytest.approx(b.values()["accuracy_top1"] - a.values()["accuracy_top1"])
    mirrored = by_metric(compare_tables(b, a))["f1_macro"]
    assert mirrored.difference == pytest.approx(-f1.difference)
    assert (mirrored.low, mirrored.high) == pytest.approx((-f1.high, -f1.low), abs=0.01)


@pytest.mark.usefixtures("few")
def test_pairing_makes_the_interval_of_a_gap_narrow():
    rng = np.random.default_rng(1)
    labels = rng.normal(size=(300, 1)) * 50
    errors = rng.normal(size=(300, 1)) * 10
    a, b = RegressionTable(labels + errors, labels), RegressionTable(labels + errors * 1.01, labels)
    found = by_metric(compare_tables(a, b))["mae"]
    alone = by_metric(score(a))["mae"]
    assert found.high - found.low < 0.05 * (alone.high - alone.low)
    assert found.low > 0.0
    assert found.p_value < 0.01


@pytest.mark.usefixtures("few")
def test_a_model_against_itself_is_no_different():
    a, _ = random_tables()
    found = by_metric(compare_tables(a, a))["f1_macro"]
    assert (found.difference, found.p_value, found.low) == (0.0, 1.0, None)
    assert "the same value" in found.method


@pytest.mark.usefixtures("few")
def test_gaps_without_a_value_say_whose():
    fine = AnomalyTable(np.arange(20) > 9, np.arange(20.0), threshold=None)
    broken = AnomalyTable(np.zeros(20, bool), np.arange(20.0), threshold=None)
    found = by_metric(compare_tables(fine, broken))["auroc"]
    assert found.difference is None
    assert found.absent_because == "B has no value: all 20 samples are normal"


def test_unequal_tables_are_refused():
    with pytest.raises(BadInput, match=says("samples-one-other-cant-compared", n=3, n_2=4)):
        compare_tables(classified([1, 2, 3], [1, 2, 3]), classified([1, 2, 3, 4], [1, 2, 3, 4]))


@pytest.mark.usefixtures("few")
def test_only_shared_metrics_are_compared():
    five, ten = classified([0, 1] * 10, [0, 1] * 10, classes=5), classified([0, 1] * 10, [0, 1] * 10)
    assert "accuracy_top5" not in by_metric(compare_tables(five, ten))
