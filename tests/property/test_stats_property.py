"""What holds for any samples: scale, order, containment, no NaN."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.stats.diagnosis import drift, modes
from edgewise.stats.intervals import location, mean_interval, median_interval, relative_half_width
from edgewise.stats.summary import outlier_mask, summarise
from edgewise.stats.warmup import warmup_length

POSITIVE = st.floats(1e-7, 1e3)
ANY = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def sessions(draw, values=POSITIVE):
    """Samples and session lengths; often with ties, as clocks give them."""
    lengths = draw(st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any))
    values = draw(st.sampled_from([values, st.sampled_from([1.0, 1.5, 2.0])]))
    samples = draw(st.lists(values, min_size=sum(lengths), max_size=sum(lengths)))
    return np.array(samples), tuple(lengths)


SCALES = st.sampled_from([2.0**-20, 2.0**-3, 2.0, 2.0**10])  # powers of two scale floats without rounding


@given(sessions(ANY))
def test_intervals_are_ordered_finite_and_hold_their_headline(data):
    samples, lengths = data
    for method, headline in ((median_interval, location(*data)), (mean_interval, samples.mean())):
        found = method(samples, lengths)
        if len(samples) < 3:
            assert found is None
            continue
        slack = 1e-12 * np.abs(samples).max()
        assert math.isfinite(found.low) and math.isfinite(found.high)
        assert found.low - slack <= headline <= found.high + slack


@given(sessions(), SCALES)
def test_intervals_scale_with_their_samples(data, scale):
    samples, lengths = data
    assert location(scale * samples, lengths) == scale * location(samples, lengths)
    for method in (median_interval, mean_interval):
        before, after = method(samples, lengths), method(scale * samples, lengths)
        if before is not None:
            assert (after.low, after.high) == pytest.approx((scale * before.low, scale * before.high), rel=1e-9)


@given(sessions(), st.randoms(use_true_random=False))
def test_the_order_of_sessions_plays_no_role(data, random):
    samples, lengths = data
    edges = np.cumsum(lengths)[:-1]
    parts = np.split(samples, edges)
    random.shuffle(parts)
    shuffled, new = np.concatenate(parts), tuple(map(len, parts))
    assert location(shuffled, new) == location(samples, lengths)
    for method in (median_interval, mean_interval):
        before, after = method(samples, lengths), method(shuffled, new)
        if before is not None:
            assert (after.low, after.high) == pytest.approx((before.low, before.high), rel=1e-6)


@given(st.lists(POSITIVE, min_size=3, max_size=60), SCALES)
def test_relative_half_width_has_no_unit(samples, scale):
    found = relative_half_width(samples)
    assert found >= 0.0
    assert relative_half_width(scale * np.array(samples)) == pytest.approx(found, rel=1e-9)


@given(sessions(ANY))
def test_summary_is_finite_and_ordered(data):
    found = summarise(*data)
    samples = data[0]
    numbers = [found.mean, found.std, found.mad, found.autocorrelation, found.between_sessions]
    assert all(math.isfinite(number) for number in numbers if number is not None)
    assert found.min <= found.mean <= found.max
    assert found.min <= found.median <= found.max
    assert found.std >= 0.0 and found.mad >= 0.0
    assert 0 <= found.outliers < max(1, len(samples) / 2)
    assert found.autocorrelation is None or -1.0 <= found.autocorrelation <= 1.0


@given(st.integers(100, 3000), st.integers(0, 1000))
@settings(max_examples=15)
def test_percentiles_are_monotone(n, seed):
    samples = np.random.default_rng(seed).pareto(1.1, n)
    values = list(summarise(samples, (n,)).percentiles.values())
    assert [samples.min(), *values, samples.max()] == sorted([samples.min(), *values, samples.max()])


@given(sessions(), SCALES)
def test_summary_scales_with_its_samples(data, scale):
    samples, lengths = data
    before, after = summarise(samples, lengths), summarise(scale * samples, lengths)
    for name in ("mean", "std", "min", "max", "median", "mad"):
        assert getattr(after, name) == pytest.approx(scale * getattr(before, name), rel=1e-12)
    assert after.percentiles == pytest.approx({key: scale * value for key, value in before.percentiles.items()})
    assert after.outliers == before.outliers
    for name in ("autocorrelation", "between_sessions"):
        a, b = getattr(before, name), getattr(after, name)
        assert (a is None) == (b is None) and (a is None or b == pytest.approx(a, abs=1e-9))


@given(st.lists(POSITIVE, max_size=80), st.randoms(use_true_random=False), SCALES)
def test_outliers_and_modes_do_not_depend_on_order_or_unit(samples, random, scale):
    order = list(range(len(samples)))
    random.shuffle(order)
    array = np.array(samples, dtype=float)
    assert outlier_mask(array)[order].tolist() == outlier_mask(scale * array[order]).tolist()
    before, after = modes(array), modes(scale * array[order])
    assert [mode.value for mode in after] == pytest.approx([scale * mode.value for mode in before])
    assert [mode.share for mode in after] == [mode.share for mode in before]
    assert sum(mode.share for mode in before) == pytest.approx(1.0 if samples else 0.0)


@given(st.lists(ANY, max_size=300), SCALES)
def test_warmup_is_at_most_half_and_has_no_unit(samples, scale):
    found = warmup_length(samples)
    assert found is None or 0 <= found <= len(samples) / 2
    assert warmup_length(scale * np.array(samples)) == found


@given(sessions(ANY), SCALES)
def test_drift_is_a_probability_and_has_no_unit(data, scale):
    samples, lengths = data
    found = drift(samples, lengths)
    after = drift(scale * samples, lengths)
    assert (found is None) == (after is None)
    if found is not None:
        assert 0.0 <= found.p_value <= 1.0 and math.isfinite(found.relative_change)
        assert after.relative_change == pytest.approx(found.relative_change)
        assert after.p_value == pytest.approx(found.p_value)


@given(st.lists(POSITIVE, min_size=20, max_size=60))
def test_time_reversed_drift_is_the_opposite(samples):
    n = len(samples) // 20 * 20  # blocks fall on the same samples both ways
    forward, backward = drift(samples[:n], (n,)), drift(samples[:n][::-1], (n,))
    assert backward.relative_change == pytest.approx(-forward.relative_change, abs=1e-9)
    assert backward.p_value == pytest.approx(forward.p_value)
