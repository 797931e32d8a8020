"""The slow part of a machine's speed, from blocks of reference times: exact values and coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.stats.between_runs import (
    BLOCK_S,
    LEAST_BLOCKS,
    Scatter,
    add,
    estimate_between_runs,
    join_blocks,
    pool,
    scatter_of_parts,
)
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
def test_too_few_blocks_or_too_short_a_time_do_not_suffice_alone(count, gap):
    assert not estimate_between_runs(blocks_of([-7.0] * count, gap=gap)).is_learnt
    assert estimate_between_runs(blocks_of([-7.0] * 12, gap=60.0)).is_learnt


def test_one_block_teaches_nothing_and_two_have_one_degree():
    assert estimate_between_runs(blocks_of([-7.0])) is None
    part = estimate_between_runs(blocks_of([-7.0, -6.98]))
    assert (part.degrees, part.scatter.variance) == (1.0, pytest.approx(0.02**2 / 2 * 1.5))


def test_estimates_are_pooled_on_the_scale_of_logarithms():
    even = pool([Scatter(1e-4, 4.0), Scatter(4e-4, 4.0)], floor=1e-8)
    correction = math.exp((1 + 0.27 / 4) / 4)  # ln χ²(4)/4 is -0.27 in the mean
    assert even.variance == pytest.approx(2e-4 * correction)
    assert even.degrees == pytest.approx(2 * 16 / 5.4)
    assert pool([Scatter(0.0, 4.0)], floor=1e-6).variance == pytest.approx(1e-6 * correction)
    twenty = pool([Scatter(0.02**2, 2.4), Scatter(0.002**2, 20.0)], floor=1e-8)
    assert 0.002 < math.sqrt(twenty.variance) < 0.0026  # a mean of the variances would be 0.0069


@pytest.mark.parametrize(("degrees", "variance", "mean"), [(1, 4.9348, -1.2704), (2, 1.6449, -0.5772),
                                                           (4, 0.6449, -0.2704), (20, 0.1052, -0.0508)])  # fmt: skip
def test_what_an_estimate_counts_is_what_its_logarithm_scatters_by(degrees, variance, mean):
    """ln χ²(d)/d has the variance ψ′(d/2) and the mean ψ(d/2) - ln(d/2)."""
    assert Scatter(1.0, degrees).weight == pytest.approx(2 / variance, rel=0.05)
    assert -Scatter(1.0, degrees).logarithm == pytest.approx(mean, rel=0.02)


def test_variances_add_with_the_degrees_of_satterthwaite():
    assert add([Scatter(3e-4, 2.0)]) == Scatter(3e-4, 2.0)
    found = add([Scatter(1e-4, 2.0), Scatter(3e-4, 6.0)])
    assert (found.variance, found.degrees) == (pytest.approx(4e-4), pytest.approx(16 / (1 / 2 + 9 / 6)))


def test_the_parts_of_a_run_scatter_by_their_medians():
    session = [1.0] * 40 + [math.exp(0.02)] * 40  # ten parts of eight samples, half of them slower
    found = scatter_of_parts([*session, *session], [80, 80])
    assert found.degrees == 19
    assert found.variance == pytest.approx(0.01**2 * 20 / 19)
    assert scatter_of_parts([1.0, 2.0, 3.0] * 5, [3] * 5).degrees == 4  # each session is one part
    assert scatter_of_parts([1.0] * 15, [15]) is None  # three parts
    assert scatter_of_parts([0.0] * 40, [40]) is None


@given(st.lists(st.floats(1e-4, 0.2), min_size=2, max_size=5), st.floats(1.01, 10.0), st.floats(1.0, 30.0))
def test_more_scatter_never_makes_a_smaller_estimate(sigmas, factor, degrees):
    first, *rest = [Scatter(sigma**2, degrees) for sigma in sigmas]
    larger = Scatter(first.variance * factor, degrees)
    assert pool([larger, *rest], floor=2.5e-7).variance >= pool([first, *rest], floor=2.5e-7).variance >= 2.5e-7
    assert add([larger, *rest]).variance > add([first, *rest]).variance
    assert min(degrees, 1.0) <= add([first, *rest]).degrees <= degrees * len(sigmas) * (1 + 1e-9)


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


def hours(*, noisy, quiet, ago_s):
    """Blocks a minute apart: `noisy` of them, alternating by 60 %, ended `ago_s` before the `quiet` ones began."""
    levels = [-7.0 + 0.6 * (index % 2) for index in range(noisy)] + [
        -7.0 + 0.01 * (index % 2) for index in range(quiet)
    ]
    times = [60.0 * index + (ago_s if index >= noisy else 0.0) for index in range(len(levels))]
    moments = [at + reading for at in times for reading in range(10)]
    return join_blocks(moments, [math.exp(level) for level in levels for _ in range(10)])


def test_a_noisy_hour_is_forgotten_once_enough_is_known_since():
    recovered = estimate_between_runs(hours(noisy=60, quiet=30, ago_s=3600.0))
    assert 0.005 < recovered.sigma < 0.03 and recovered.degrees > 10
    assert recovered.level == pytest.approx(-6.995, abs=0.006)
    still = estimate_between_runs(hours(noisy=60, quiet=3, ago_s=3600.0))
    assert still.sigma > 0.25


def test_what_is_old_counts_in_full_where_nothing_newer_is_known():
    days = 86400.0 * np.arange(12)
    times = [day + reading for day in days for reading in range(10)]
    levels = [-7.0, -6.98] * 6
    part = estimate_between_runs(join_blocks(times, [math.exp(level) for level in levels for _ in range(10)]))
    variance = np.var(levels, ddof=1)
    assert part.sigma == pytest.approx(math.sqrt(variance * (1 + 1 / 12)))
    assert part.degrees == 11
