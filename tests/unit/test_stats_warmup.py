"""Warm-up: known beginnings in seeded noise."""

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.stats.warmup import warmup_length


def noise(n, seed=0, sigma=0.02):
    return np.exp(sigma * np.random.default_rng(seed).standard_normal(n))


def bursts(n, seed, *, slow=20, quick=80, factor=1.3):
    generator = np.random.default_rng(seed)
    pieces = []
    while sum(map(len, pieces)) < n:
        pieces += [np.ones(generator.geometric(1 / quick)), np.full(generator.geometric(1 / slow), factor)]
    return np.concatenate(pieces)[:n]


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_too_few_to_tell(n):
    assert warmup_length([5.0, *[1.0] * 6][:n]) == 0


@pytest.mark.parametrize("n", [8, 30, 100, 1000, 30_000])
def test_steady_samples_have_none(n):
    assert [warmup_length(noise(n, seed)) for seed in range(5)] == [0] * 5
    assert warmup_length(np.full(n, 0.003)) == 0


@pytest.mark.parametrize("n", [10, 100, 3000])
@pytest.mark.parametrize("count", [1, 4])
def test_slow_first_inferences_are_counted_exactly(n, count):
    samples = noise(n)
    samples[:count] *= 3
    assert warmup_length(samples) == count


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_step_is_found_whether_up_or_down(factor):
    samples = noise(1000)
    samples[:300] *= factor
    assert 296 <= warmup_length(samples) <= 320


def test_an_exponential_settling_is_cut_where_it_drowns_in_noise():
    samples = noise(4000) * (1 + 0.5 * np.exp(-np.arange(4000) / 100))
    assert 250 <= warmup_length(samples) <= 600  # 4 % to 0.1 % left


@pytest.mark.parametrize("share", [0.6, 0.7])
def test_a_level_that_changes_too_late_is_no_steady_state(share):
    samples = noise(1000)
    samples[: round(share * 1000)] *= 1.2
    assert warmup_length(samples) is None


def test_steady_growth_is_no_steady_state():
    assert warmup_length(noise(1000) * np.linspace(1.0, 1.3, 1000)) is None


def test_bursts_are_no_warmup():
    found = [warmup_length(noise(5000, seed) * bursts(5000, seed)) for seed in range(40)]
    assert None not in found
    assert sum(length > 0 for length in found) <= 8
    assert max(found) <= 300  # bursts that crowd at the very beginning can't be told from warm-up


def test_warmup_is_found_through_bursts():
    for seed in range(10):
        samples = noise(3000, seed) * bursts(3000, seed)
        samples[:600] *= 2
        assert 590 <= warmup_length(samples) <= 768  # in steps of the longest window, 256


def test_huge_outliers_change_nothing():
    generator = np.random.default_rng(7)
    samples = noise(2000) * np.where(generator.random(2000) < 0.01, 50.0, 1.0)
    assert warmup_length(samples) == 0
    samples[:200] *= 1.5
    assert 195 <= warmup_length(samples) <= 210


def test_a_difference_below_one_percent_is_steady_enough():
    samples = noise(1000, sigma=1e-4)
    samples[:100] *= 1.008
    assert warmup_length(samples) == 0


def test_broken_samples_are_refused():
    with pytest.raises(BadInput):
        warmup_length([1.0, np.nan])
