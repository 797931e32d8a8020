"""Summaries and outliers: exact values."""

import numpy as np
import pytest
import scipy.stats

from edgewise.errors import BadInput
from edgewise.stats.summary import outlier_mask, summarise


def test_hand_computed():
    found = summarise([1.0, 2.0, 3.0, 4.0, 10.0], (3, 2))
    assert (found.n, found.mean, found.min, found.max, found.median, found.mad) == (5, 4.0, 1.0, 10.0, 3.0, 1.0)
    assert found.std == pytest.approx(np.sqrt(50 / 4))
    assert found.percentiles == {}
    assert found.outliers == 0
    # session 1: deviations −1, 0, 1; session 2 is too short
    assert found.autocorrelation == 0.0
    # medians 2 and 7: standard deviation 5/√2 over 4.5
    assert found.between_sessions == pytest.approx(5 / np.sqrt(2) / 4.5)


@pytest.mark.parametrize(
    ("n", "names"),
    [
        (19, []),
        (20, ["p50"]),
        (99, ["p50"]),
        (100, ["p50", "p90"]),
        (199, ["p50", "p90"]),
        (200, ["p50", "p90", "p95"]),
        (999, ["p50", "p90", "p95"]),
        (1000, ["p50", "p90", "p95", "p99"]),
        (9999, ["p50", "p90", "p95", "p99"]),
        (10_000, ["p50", "p90", "p95", "p99", "p99.9"]),
    ],
)
def test_percentiles_only_where_the_samples_support_them(n, names):
    assert list(summarise(np.arange(1.0, n + 1), (n,)).percentiles) == names


def test_percentiles_interpolate_linearly():
    found = summarise(np.arange(10_000.0), (10_000,)).percentiles
    expected = {"p50": 4999.5, "p90": 8999.1, "p95": 9499.05, "p99": 9899.01, "p99.9": 9989.001}
    assert found == pytest.approx(expected)


def test_agrees_with_scipy_on_skewed_samples():
    samples = np.exp(0.3 * np.random.default_rng(1).standard_normal(5000))
    found = summarise(samples, (5000,))
    assert found.mad == pytest.approx(scipy.stats.median_abs_deviation(samples))
    for name in found.percentiles:
        assert found.percentiles[name] == pytest.approx(scipy.stats.scoreatpercentile(samples, float(name[1:])))


def test_one_sample_and_one_session():
    found = summarise([0.25], (1,))
    assert (found.n, found.mean, found.std, found.mad) == (1, 0.25, 0.0, 0.0)
    assert found.autocorrelation is None
    assert found.between_sessions is None


def test_autocorrelation_is_averaged_over_sessions_and_ignores_the_step_between_them():
    alternating = [1.0, 2.0] * 50
    found = summarise([*alternating, *(value + 100 for value in alternating)], (100, 100))
    assert found.autocorrelation == pytest.approx(-0.99)


def test_constant_sessions_have_no_autocorrelation_and_no_difference():
    found = summarise([3.0] * 8, (4, 4))
    assert found.autocorrelation is None
    assert found.between_sessions == 0.0


def test_sessions_whose_medians_average_zero_have_no_relative_difference():
    assert summarise([-1.0, 1.0], (1, 1)).between_sessions is None


def test_outliers_are_beyond_ten_scaled_deviations():
    core = [9.0, 10.0, 11.0] * 5  # median 10, MAD 1: the limit is 14.826 away
    mask = outlier_mask([*core, 10 + 14.83, 10 + 14.82, 10 - 14.83])
    assert mask.tolist() == [False] * 15 + [True, False, True]
    assert summarise([*core, 100.0, 1000.0], (17,)).outliers == 2


def test_outliers_among_equal_samples():
    assert outlier_mask([5.0] * 99 + [6.0]).tolist() == [False] * 99 + [True]
    assert not outlier_mask([5.0] * 9 + [6.0]).any()  # one of ten equal ones is no evidence of a spread
    assert not outlier_mask([5.0] * 10).any()
    assert outlier_mask([]).shape == (0,)


def test_empty_and_broken_input_is_refused():
    for samples, lengths in (([], ()), ([1.0], (2,)), ([np.nan], (1,))):
        with pytest.raises(BadInput):
            summarise(samples, lengths)
