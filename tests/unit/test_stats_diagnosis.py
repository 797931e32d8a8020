"""Trend and clusters: known shapes, false alarms, oracles."""

import numpy as np
import pytest
import scipy.stats

from edgewise.stats.diagnosis import SpeedMode, drift, modes


def noise(n, seed=0, sigma=0.02):
    return np.exp(sigma * np.random.default_rng(seed).standard_normal(n))


def test_a_straight_line_gives_its_slope():
    found = drift(100.0 + np.arange(20.0), (20,))
    # 20 blocks of one: one a block over a session of 20 blocks, relative to a median of 109.5
    assert found.relative_change == pytest.approx(20 / 109.5)
    assert found.p_value < 1e-6


def test_p_value_is_kendalls_where_blocks_are_independent():
    # ranks without correlation: the plain Mann-Kendall test with its continuity correction
    blocks = np.array([5, 1, 8, 3, 10, 2, 9, 4, 7, 6], dtype=float)
    score = sum(np.sign(blocks[j] - blocks[i]) for i in range(10) for j in range(i + 1, 10))
    z = (abs(score) - 1) / np.sqrt(10 * 9 * 25 / 18)
    assert drift(blocks, (10,)).p_value == pytest.approx(2 * scipy.stats.norm.sf(z))


def test_sign_and_size():
    up = drift(noise(2000) * np.linspace(1.0, 1.2, 2000), (2000,))
    down = drift(noise(2000) * np.linspace(1.2, 1.0, 2000), (2000,))
    assert up.relative_change == pytest.approx(0.2 / 1.1, rel=0.05)
    assert down.relative_change == pytest.approx(-0.2 / 1.1, rel=0.05)
    assert max(up.p_value, down.p_value) < 1e-6


def test_a_trend_that_bends_is_seen():
    found = drift(noise(2000) * (1 + 0.5 * np.exp(-np.arange(2000) / 700)), (2000,))
    assert found.relative_change < -0.2
    assert found.p_value < 1e-4


def test_a_step_between_sessions_is_no_drift():
    samples = np.concatenate([noise(500, 1), 1.5 * noise(500, 2), 2 * noise(500, 3)])
    found = drift(samples, (500, 500, 500))
    assert abs(found.relative_change) < 0.02
    assert found.p_value > 0.05


def test_false_alarms_are_as_rare_as_the_p_value_says():
    found = [drift(noise(900, seed), (300, 300, 300)).p_value for seed in range(400)]
    assert 0.02 <= np.mean(np.array(found) < 0.05) <= 0.08


def test_correlation_is_not_taken_for_a_trend():
    generator = np.random.default_rng(9)
    alarms = 0
    for _ in range(200):
        values = generator.standard_normal(400)
        for index in range(1, 400):
            values[index] = 0.9 * values[index - 1] + np.sqrt(0.19) * values[index]
        alarms += drift(np.exp(0.02 * values), (400,)).p_value < 0.01
    assert alarms <= 10


def test_nothing_to_say():
    assert drift([1.0] * 7, (7,)) is None
    assert drift([0.0] * 100, (100,)) is None
    assert drift([0.0] * 10 + [1.0] * 9 + [1e-305], (20,)) is None  # what is 1 relative to nearly nothing?
    steady = drift([2.0] * 100, (100,))
    assert (steady.relative_change, steady.p_value) == (0.0, 1.0)


def test_short_sessions_are_left_out():
    samples = [*(100.0 + np.arange(20.0)), 1.0, 2.0, 3.0]
    assert drift(samples, (20, 3)) == drift(samples[:20], (20,))


def test_two_clusters():
    generator = np.random.default_rng(1)
    samples = np.where(np.arange(1000) < 700, 1.0, 1.3) * np.exp(0.01 * generator.standard_normal(1000))
    low, high = modes(samples)
    assert (low.share, high.share) == (0.7, 0.3)
    assert low.value == pytest.approx(np.median(samples[:700]))
    assert high.value == pytest.approx(np.median(samples[700:]))


def test_exact_values_in_two_and_three_clusters():
    assert modes([1.0] * 60 + [2.0] * 40) == (SpeedMode(1.0, 0.6), SpeedMode(2.0, 0.4))
    assert modes([4.0] * 50 + [1.0] * 100 + [2.0] * 50) == (
        SpeedMode(1.0, 0.5),
        SpeedMode(2.0, 0.25),
        SpeedMode(4.0, 0.25),
    )


@pytest.mark.parametrize(("ratio", "share"), [(1.04, 0.5), (2.0, 0.05)])
def test_clusters_too_close_or_too_small_are_one(ratio, share):
    samples = noise(1000, sigma=0.003)
    samples[: round(share * 1000)] *= ratio
    assert len(modes(samples)) == 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda g, n: np.exp(0.02 * g.standard_normal(n)),
        lambda g, n: np.exp(0.7 * g.standard_normal(n)),
        lambda g, n: 1 + g.exponential(size=n),
        lambda g, n: 1 + g.random(n),
        lambda g, n: np.exp(0.05 * g.standard_t(1.5, n)),
        lambda g, n: np.round(50 * np.exp(0.04 * g.standard_normal(n))) / 50,
    ],
    ids=["narrow", "skewed", "exponential", "uniform", "heavy", "coarse clock"],
)
@pytest.mark.parametrize("n", [50, 300, 5000])
def test_one_cluster_is_seldom_taken_for_two(draw, n):
    generator = np.random.default_rng(n)
    alarms = sum(len(modes(draw(generator, n))) > 1 for _ in range(50))
    assert alarms <= 1


def test_few_samples_are_one_mode():
    assert modes([]) == ()
    assert modes([1.0, 5.0]) == (SpeedMode(3.0, 1.0),)
    assert modes([1.0] * 24 + [5.0] * 25) == (SpeedMode(5.0, 1.0),)
    assert modes([7.0] * 100) == (SpeedMode(7.0, 1.0),)


def test_samples_that_are_not_positive_are_clustered_too():
    assert modes([-1.0] * 500 + [3.0] * 500) == (SpeedMode(-1.0, 0.5), SpeedMode(3.0, 0.5))
