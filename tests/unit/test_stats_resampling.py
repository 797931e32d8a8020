"""The bootstrap against scipy's, and what resamples are."""

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from edgewise.stats.resampling import Resampler, bootstrap, joint_groups
from messages import says


@pytest.mark.parametrize("groups", [np.arange(30), np.repeat([0, 1, 2], [50, 30, 20]), np.zeros(5, int)])
def test_resamples_add_up_and_repeat(groups):
    one, other = (list(islice(Resampler(groups, seed=3).draw(), 20)) for _ in range(2))
    for first, second in zip(one, other, strict=True):
        assert first.sum() == groups.size
        assert (first == second).all()
    if groups.max():
        assert any((one[0] != each).any() for each in one)


def test_more_resamples_begin_with_those_of_fewer():
    few, many = (np.array(list(islice(Resampler(np.arange(9), seed=1).draw(), k))) for k in (5, 50))
    assert (many[:5] == few).all()


@pytest.mark.parametrize("sizes", [[3, 5, 2], [300, 500, 200]])  # drawn one by one, and as counts
def test_counts_are_multinomial(sizes):
    groups = np.repeat(np.arange(3), sizes)
    drawn = np.array(list(islice(Resampler(groups, seed=0).draw(), 4000)))
    n, share = groups.size, np.array(sizes) / groups.size
    assert drawn.mean(axis=0) == pytest.approx(n * share, rel=0.03)
    assert np.cov(drawn.T) == pytest.approx(n * (np.diag(share) - np.outer(share, share)), rel=0.12)


def test_leaving_out_one_of_each_group_or_parts():
    resampler = Resampler([0, 0, 0, 1, 1], seed=0)
    assert [(left.tolist(), many) for left, many in resampler.leave_out(10)] == [([2, 2], 3.0), ([3, 1], 2.0)]
    parts = list(Resampler(np.arange(10), seed=0).leave_out(5))
    assert [left.sum() for left, _ in parts] == [8.0] * 5
    assert sum(left for left, _ in parts).tolist() == [4.0] * 10


def interval_of(samples, statistic, resamples=9999):
    resampler = Resampler(np.arange(samples.size), seed=0)
    replicates = [statistic(counts) for counts in islice(resampler.draw(), resamples)]
    left = [(statistic(counts), many) for counts, many in resampler.leave_out(10**9)]
    return bootstrap(statistic(np.ones(samples.size)), replicates, [v for v, _ in left], [m for _, m in left])


def test_bca_is_scipys():
    samples = np.random.default_rng(5).exponential(size=40)

    def deviation(counts):
        return float(np.sqrt(np.cov(samples, fweights=counts.astype(int), ddof=0)))

    found = interval_of(samples, deviation)
    expected = stats.bootstrap((samples,), np.std, n_resamples=9999, method="BCa", rng=np.random.default_rng(1))
    low, high = expected.confidence_interval
    # Two sets of 9999 resamples: their ends differ by chance by some 2 % of the width.
    assert found.interval() == pytest.approx((low, high), abs=0.05 * (high - low))
    spread = samples - samples.mean()
    slopes = (spread**2 - (spread**2).mean()) / (2 * samples.std())
    assert found.acceleration == pytest.approx((slopes**3).sum() / 6 / (slopes**2).sum() ** 1.5, rel=0.15)


def test_without_bias_and_acceleration_it_is_percentiles():
    replicates = np.arange(1001) / 1000
    found = bootstrap(0.5, replicates)
    assert found.bias == pytest.approx(0.0, abs=1e-12)
    assert found.acceleration == 0.0
    assert found.interval() == pytest.approx((0.025, 0.975), abs=1e-6)


def test_groups_give_the_interval_of_their_samples():
    values = np.repeat([0.0, 1.0, 5.0], [40, 30, 10])
    groups = np.repeat([0, 1, 2], [40, 30, 10])
    single = interval_of(values, lambda counts: float(counts @ values / counts.sum()), 4999)
    resampler = Resampler(groups, seed=4)
    levels = np.array([0.0, 1.0, 5.0])

    def mean(counts):
        return float(counts @ levels / counts.sum())

    left = list(resampler.leave_out(100))
    grouped = bootstrap(
        mean(resampler.sizes),
        [mean(counts) for counts in islice(resampler.draw(), 4999)],
        [mean(counts) for counts, _ in left],
        [many for _, many in left],
    )
    assert grouped.acceleration == pytest.approx(single.acceleration, rel=1e-9)
    assert grouped.interval() == pytest.approx(single.interval(), abs=0.05)


def test_p_value_is_the_risk_at_which_the_interval_ends():
    samples = np.random.default_rng(2).normal(0.4, 1.0, 60)
    found = interval_of(samples, lambda counts: float(counts @ samples / counts.sum()))
    for confidence in (0.5, 0.9, 0.99):
        low, high = found.interval(confidence=confidence)
        assert found.p_value(of=low) == pytest.approx(1 - confidence, abs=0.01)
        assert found.p_value(of=high) == pytest.approx(1 - confidence, abs=0.01)
    assert found.p_value(of=0.0) == pytest.approx(stats.ttest_1samp(samples, 0.0).pvalue, abs=0.01)
    assert found.p_value(of=50.0) == pytest.approx(2 / 10_000)


def test_p_value_far_away_has_the_least_that_resamples_can_tell():
    assert bootstrap(5.0, np.linspace(4, 6, 99)).p_value(of=0.0) == pytest.approx(0.02)


def test_values_that_are_not_finite_are_left_out():
    found = bootstrap(0.5, [np.nan, 0.4, np.inf, 0.6], [np.nan, 0.5, 0.4], [1, 1, 1])
    assert found.replicates.tolist() == [0.4, 0.6]
    with pytest.raises(ValueError, match=says("no-resample-gives-value")):
        bootstrap(0.5, [np.nan])


def test_the_interval_holds_its_value():
    found = bootstrap(10.0, np.linspace(0, 1, 99))
    low, high = found.interval()
    assert low <= 10.0 <= high == 10.0


def test_joint_groups_know_both_sides():
    a, b = [0, 0, 1, 1, 2], [1, 1, 0, 1, 0]
    groups, of_a, of_b = joint_groups(a, b)
    assert of_a[groups].tolist() == a
    assert of_b[groups].tolist() == b
    assert groups.max() == 3
