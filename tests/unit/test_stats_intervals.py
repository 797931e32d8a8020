"""Intervals: closed forms, scipy, the rules between sessions, and what they promise."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.stats

from case_tables import with_each
from edgewise.errors import BadInput
from edgewise.stats.intervals import Interval, location, mean_interval, median_interval, relative_half_width


def noise(n, seed=0, sigma=0.02):
    return 0.005 * np.exp(sigma * np.random.default_rng(seed).standard_normal(n))


def shuffled(n):
    """1 … n in an order without correlation."""
    return np.random.default_rng(1).permutation(np.arange(1.0, n + 1))


@pytest.mark.parametrize("n", [9, 40, 401, 3000])
def test_independent_samples_give_binomial_ranks(n):
    found = median_interval(shuffled(n), (n,))
    middle, reach = (n + 1) / 2, 1.959963984540054 * math.sqrt(n) / 2
    assert (found.low, found.high) == pytest.approx((middle - reach, middle + reach))
    assert found.method == "ranks around the median of one process, samples uncorrelated"


def test_ranks_agree_with_the_exact_binomial_interval():
    n = 1000
    found = median_interval(shuffled(n), (n,))
    assert found.low == pytest.approx(scipy.stats.binom.ppf(0.025, n, 0.5), abs=1.5)
    assert found.high == pytest.approx(scipy.stats.binom.ppf(0.975, n, 0.5) + 1, abs=1.5)


def test_few_samples_are_students_t_of_logarithms():
    samples = np.array([1.0, 1.2, 1.1, 1.4])
    logs = np.log(samples)
    low, high = scipy.stats.t.interval(0.95, 3, loc=logs.mean(), scale=scipy.stats.sem(logs))
    found = median_interval(samples, (4,))
    assert (found.low, found.high) == pytest.approx((np.exp(low), np.exp(high)))
    assert "logarithms" in found.method


def test_few_samples_that_are_not_positive_are_students_t():
    samples = np.array([-1.0, 0.0, 2.0])
    expected = scipy.stats.t.interval(0.95, 2, loc=samples.mean(), scale=scipy.stats.sem(samples))
    found = median_interval(samples, (3,))
    assert (found.low, found.high) == pytest.approx(expected)
    assert "logarithms" not in found.method


@pytest.mark.parametrize("k", [3, 5])
def test_sessions_that_differ_are_students_t_between_their_medians(k):
    effects = np.linspace(0.9, 1.1, k)
    sessions = [noise(501, seed) * effect for seed, effect in enumerate(effects)]
    logs = np.log([np.median(session) for session in sessions])
    low, high = scipy.stats.t.interval(0.95, k - 1, loc=logs.mean(), scale=scipy.stats.sem(logs))
    found = median_interval(np.concatenate(sessions), (501,) * k)
    assert (found.low, found.high) == pytest.approx((np.exp(low), np.exp(high)), rel=1e-6)
    assert found.method == f"t between the medians of {k} processes"


def test_single_samples_of_fresh_processes_are_students_t():
    samples = np.array([0.010, 0.012, 0.011])  # a first inference each
    logs = np.log(samples)
    low, high = scipy.stats.t.interval(0.95, 2, loc=logs.mean(), scale=scipy.stats.sem(logs))
    found = median_interval(samples, (1, 1, 1))
    assert (found.low, found.high) == pytest.approx((np.exp(low), np.exp(high)))
    assert location(samples, (1, 1, 1)) == 0.011


def test_equal_sessions_are_not_narrower_than_their_noise():
    generator = np.random.default_rng(1)
    session = generator.permutation(np.exp(0.02 * scipy.stats.norm.ppf((np.arange(1000) + 0.5) / 1000)))
    one = median_interval(session, (1000,))
    three = median_interval(np.tile(session, 3), (1000,) * 3)  # no scatter at all between medians
    assert (three.high - three.low) == pytest.approx((one.high - one.low) / math.sqrt(3), rel=0.02)


def test_two_sessions_say_little():
    samples = np.concatenate([noise(1000), 1.01 * noise(1000)])
    found = median_interval(samples, (1000, 1000))
    half = scipy.stats.t.ppf(0.975, 1) * math.log(1.01) / 2
    assert math.log(found.high / found.low) / 2 == pytest.approx(half, rel=1e-6)


def test_correlation_widens():
    generator = np.random.default_rng(2)
    slow = np.repeat(noise(100, 3), 30)
    fast = generator.permutation(slow)
    assert relative_half_width(fast) < 0.002
    assert 0.004 < relative_half_width(slow) < 0.008  # 100 independent values: 1.96 · 1.25 · 0.02 / √100 = 0.0049
    assert "correlation" in median_interval(slow, (3000,)).method


def test_mean_of_one_session_is_students_t():
    samples = shuffled(400)
    mean, error = samples.mean(), scipy.stats.sem(samples)
    factor = math.exp(scipy.stats.t.ppf(0.975, 399) * error / mean)
    found = mean_interval(samples, (400,))
    assert (found.low, found.high) == pytest.approx((mean / factor, mean * factor))


def test_mean_of_sessions_is_students_t_between_their_means():
    sessions = [noise(300, seed) * effect for seed, effect in enumerate((0.9, 1.0, 1.2))]
    means = np.array([session.mean() for session in sessions])
    factor = math.exp(scipy.stats.t.ppf(0.975, 2) * scipy.stats.sem(means) / means.mean())
    found = mean_interval(np.concatenate(sessions), (300,) * 3)
    assert (found.low, found.high) == pytest.approx((means.mean() / factor, means.mean() * factor))


def test_one_pause_does_not_stretch_the_interval_of_a_mean_beyond_what_is_known():
    """Two processes at 22 µs, one with a pause of 60 ms: 0.24 /s to 280 million /s said nothing."""
    samples = np.concatenate([noise(300, 1), noise(300, 2)]) * 22e-6
    samples[400] = 0.06
    means = samples[:300].mean(), samples[300:].mean()
    half = scipy.stats.t.ppf(0.975, 1) * abs(means[1] - means[0]) / 2
    found, median = mean_interval(samples, (300, 300)), median_interval(samples, (300, 300))
    assert found.low == pytest.approx(median.low / 2)
    assert found.high == pytest.approx(math.e * half)
    assert found.high > samples.mean() + half


def test_mean_of_values_around_zero_is_symmetric():
    samples = shuffled(401) - 201.0
    found = mean_interval(samples, (401,))
    assert found.low == pytest.approx(-found.high)
    assert found.high == pytest.approx(scipy.stats.t.ppf(0.975, 400) * scipy.stats.sem(samples))


@with_each(product([(3,), (8,), (9,), (500,), (1, 1, 1), (4, 4), (100, 300)], [0.0, -2.0, 0.1, 1e-300, 1e300]))
def test_constant_samples_are_known_exactly(case):
    lengths, value = case
    samples = [value] * sum(lengths)
    for method in (median_interval, mean_interval):
        found = method(samples, lengths)
        assert (found.low, found.high) == (value, value)
    assert location(samples, lengths) == value


@pytest.mark.parametrize("lengths", [(1,), (2,), (1, 1)])
def test_below_three_samples_there_is_no_interval(lengths):
    samples = [1.0, 2.0][: sum(lengths)]
    assert median_interval(samples, lengths) is None
    assert mean_interval(samples, lengths) is None
    assert relative_half_width(samples) == math.inf


def test_headline_is_the_median_of_all_samples():
    assert location([1.0, 2.0, 9.0, 8.0], (3, 1)) == 5.0


def test_headline_stays_inside_where_one_session_is_in_another_mode():
    sessions = [noise(50, seed) * (1.0 if seed else 3.0) for seed in range(12)]
    samples = np.concatenate(sessions)
    found = median_interval(samples, (50,) * 12)
    assert found.low <= location(samples, (50,) * 12) <= found.high


def test_relative_half_width_is_half_the_interval_over_the_median():
    samples = noise(777)
    found = median_interval(samples, (777,))
    assert relative_half_width(samples) == pytest.approx((found.high - found.low) / 2 / np.median(samples))
    assert relative_half_width(samples * 1e9) == pytest.approx(relative_half_width(samples))  # ns or s
    assert relative_half_width([2.0] * 10) == 0.0
    assert relative_half_width([-1.0, 1.0] * 10) == math.inf


def test_extreme_differences_stay_finite():
    found = median_interval([1e-290] * 5 + [1e290] * 5, (5, 5))
    assert 0.0 <= found.low < found.high < math.inf


def test_empty_sessions_are_left_out():
    samples = noise(60)
    assert median_interval(samples, (0, 30, 0, 30)) == median_interval(samples, (30, 30))


def test_bad_input_is_refused():
    for samples, lengths in (([1.0, np.nan, 2.0], (3,)), ([1.0, 2.0, 3.0], (2,)), ([], ()), ([[1.0]], (1,))):
        for call in (median_interval, mean_interval, location):
            with pytest.raises(BadInput):
                call(samples, lengths)


def test_an_interval_is_a_value():
    assert Interval(1.0, 2.0, "m") == Interval(1.0, 2.0, "m")
    with pytest.raises(AttributeError):
        Interval(1.0, 2.0, "m").low = 0.0
