"""The slow part of a machine's speed, from blocks of reference times: exact values and coverage."""

import math

import numpy as np
import pytest

from edgewise.stats.between_runs import BLOCK_S, LEAST_BLOCKS, estimate_between_runs, join_blocks
from edgewise.stats.distributions import t_quantile


def blocks_of(levels, *, readings=10, gap=30.0):
    """One block a level (a logarithm), `gap` s apart, without scatter inside."""
    times = [gap * index + 0.4 * at for index in range(len(levels)) for at in range(readings)]
    return join_blocks(times, [math.exp(level) for level in levels for _ in range(readings)])


def test_readings_join_into_blocks_by_number_and_time():
    times = [0, 1, 2, 3, *range(100, 125), 500, 501, 502]
    blocks = join_blocks(times, [1e-3] * len(times))
    assert list(blocks.starts) == [0, 100, 110, 120]  # the three at 500 are too few
    assert list(blocks.ends) == [3, 109, 119, 124]
    assert blocks.levels == pytest.approx([math.log(1e-3)] * 4)
    assert blocks.noise == 0.0
    assert len(join_blocks([0, 1, 2, BLOCK_S + 1, BLOCK_S + 2], [1e-3] * 5).levels) == 0


def test_the_order_of_readings_does_not_matter():
    times = [float(at) for at in range(40)]
    seconds = [1e-3 * (1 + at / 100) for at in range(40)]
    forwards, backwards = join_blocks(times, seconds), join_blocks(times[::-1], seconds[::-1])
    assert forwards.levels == pytest.approx(backwards.levels)


def test_equal_blocks_have_no_slow_part():
    part = estimate_between_runs(blocks_of([-7.0] * 12))
    assert (part.sigma, part.level, part.blocks) == (0.0, -7.0, 12)


def test_alternating_blocks_scatter_by_their_standard_deviation_and_that_of_the_mean():
    levels = [-7.0, -6.98] * 10
    part = estimate_between_runs(blocks_of(levels))
    variance = np.var(levels, ddof=1)
    assert part.sigma == pytest.approx(math.sqrt(variance + variance / 20))
    assert part.degrees == 19


@pytest.mark.parametrize(("count", "gap"), [(LEAST_BLOCKS - 1, 60.0), (12, 20.0)])
def test_too_few_blocks_or_too_short_a_time_teach_nothing(count, gap):
    assert estimate_between_runs(blocks_of([-7.0] * count, gap=gap)) is None


def test_scatter_within_blocks_is_not_taken_for_a_slow_part():
    rng = np.random.default_rng(0)
    times = [30.0 * block + index for block in range(100) for index in range(10)]
    part = estimate_between_runs(join_blocks(times, np.exp(0.02 * rng.standard_normal(1000))))
    assert part.noise == pytest.approx(0.02**2 / 10, rel=0.1)
    assert part.sigma < 0.5 * math.sqrt(part.noise)


@pytest.mark.parametrize(("sigma", "noise"), [(0.0, 0.01), (0.003, 0.003), (0.02, 0.003), (0.02, 0.02)])
def test_intervals_from_it_hold_for_the_next_run(sigma, noise):
    rng, hits, repeats = np.random.default_rng(3), 0, 400
    own = noise / math.sqrt(10)
    for _ in range(repeats):
        times = [30.0 * block + 0.4 * at for block in range(25) for at in range(10)]
        levels = np.repeat(sigma * rng.standard_normal(25), 10)
        part = estimate_between_runs(join_blocks(times, np.exp(levels + noise * rng.standard_normal(250))))
        error = sigma * rng.standard_normal() + own * rng.standard_normal()
        hits += abs(error) <= math.hypot(t_quantile(0.975, part.degrees) * part.sigma, 1.96 * own)
    assert 0.93 <= hits / repeats <= 0.995


def test_a_machine_that_jumps_between_two_speeds_is_no_slow_part():
    rng = np.random.default_rng(1)
    times = [30.0 * block + 2.0 * at for block in range(40) for at in range(10)]
    part = estimate_between_runs(join_blocks(times, np.where(rng.random(400) < 0.5, 73e-6, 105e-6)))
    assert part.noise == pytest.approx((math.log(105 / 73) / 2) ** 2 / 10, rel=0.1)
    assert part.sigma < 0.6 * math.sqrt(part.noise)
