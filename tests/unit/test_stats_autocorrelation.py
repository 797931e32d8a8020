"""Long-run variances against closed forms."""

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.stats.autocorrelation import autocovariance_sums, checked, long_run, split_sessions
from messages import says


def autoregression(generator, n, rho):
    values = generator.standard_normal(n)
    for index in range(1, n):
        values[index] = rho * values[index - 1] + np.sqrt(1 - rho**2) * values[index]
    return values


def test_autocovariance_sums_are_the_plain_sums():
    d = np.random.default_rng(1).standard_normal(37)
    expected = [float(d[lag:] @ d[: len(d) - lag]) for lag in range(20)]
    assert autocovariance_sums(d, 20) == pytest.approx(np.array(expected), abs=1e-12)
    assert autocovariance_sums(d[:3], 5)[3:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rho", [0.5, 0.8, 0.95])
def test_first_order_autoregression(rho):
    generator = np.random.default_rng(3)
    estimates = [long_run([autoregression(generator, 4000, rho)]).variance for _ in range(60)]
    assert np.median(estimates) == pytest.approx((1 + rho) / (1 - rho), rel=0.1)


def test_independent_samples_have_their_plain_variance_and_all_degrees():
    found = long_run([np.random.default_rng(2).standard_normal(300)])
    assert not found.correlated
    assert found.degrees == 299
    assert found.variance == pytest.approx(np.random.default_rng(2).standard_normal(300).var(ddof=1), rel=1e-12)


def test_never_below_independent():
    alternating = np.tile([1.0, -1.0], 100)
    assert long_run([alternating]).variance == pytest.approx(alternating.var(ddof=1))


def test_a_slow_square_wave_is_seen_through_batches():
    wave = np.repeat(np.random.default_rng(4).choice([-1.0, 1.0], 200), 100)  # 20,000 samples, 100 equal ones each
    found = long_run([wave])
    assert found.correlated
    assert found.variance == pytest.approx(100.0, rel=0.35)


def test_sessions_are_pooled_without_their_means():
    generator = np.random.default_rng(5)
    sessions = [generator.standard_normal(400) + offset for offset in (0.0, 100.0, -50.0)]
    assert long_run(sessions).variance == pytest.approx(1.0, rel=0.2)


def test_single_samples_tell_nothing():
    found = long_run([np.array([1.0]), np.array([2.0])])
    assert (found.variance, found.degrees, found.correlated) == (0.0, 1.0, False)


def test_bad_samples_are_refused():
    for bad in ([1.0, np.nan], [np.inf], [[1.0, 2.0]]):
        with pytest.raises(BadInput, match=says("samples-must-flat-list-finite")):
            checked(bad)


def test_sessions_are_split_in_order_and_empty_ones_left_out():
    parts = split_sessions([1, 2, 3, 4], (1, 0, 3))
    assert [part.tolist() for part in parts] == [[1.0], [2.0, 3.0, 4.0]]
    for lengths in ((1, 2), (5,), (-1, 5), ()):
        with pytest.raises(BadInput, match=says("session-lengths-do-not-add")):
            split_sessions([1, 2, 3, 4], lengths)
    with pytest.raises(BadInput, match=says("there-no-samples")):
        split_sessions([], ())
