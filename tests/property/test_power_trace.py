"""The integral of sampled power, for any trace."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.run.meters.base import NoReading
from edgewise.run.meters.trace import EnergyCounter, PowerTrace
from messages import says

STEPS = st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(0.0, 1e3)), min_size=1, max_size=30)


def trace_of(samples):
    trace = PowerTrace(longest_gap_s=1.5)
    for at, watts in samples:
        trace.add(at, watts)
    return trace


def samples_of(steps, start=0.0, watts=1.0):
    samples = [(start, watts)]
    for step, power in steps:
        samples.append((samples[-1][0] + step, power))
    return samples


@given(STEPS, st.data())
def test_splitting_a_trace_at_any_time_keeps_its_energy(steps, data):
    samples = samples_of(steps)
    index = data.draw(st.integers(0, len(samples) - 2))
    share = data.draw(st.floats(0.0, 1.0))
    (at, watts), (later, other) = samples[index : index + 2]
    middle = (at + share * (later - at), watts + share * (other - watts))
    first, second = trace_of([*samples[: index + 1], middle]), trace_of([middle, *samples[index + 1 :]])
    whole = trace_of(samples)
    assert first.joules + second.joules == pytest.approx(whole.joules, rel=1e-9, abs=1e-9)
    assert first.seconds + second.seconds == pytest.approx(whole.seconds)


@given(STEPS, st.floats(0.0, 1e3), st.floats(0.0, 1e6))
def test_constant_power_gives_power_times_time_whenever_it_is_sampled(steps, watts, start):
    samples = [(at, watts) for at, _ in samples_of(steps, start)]
    assert trace_of(samples).joules == pytest.approx(watts * (samples[-1][0] - samples[0][0]), rel=1e-9, abs=1e-6)


@given(STEPS)
def test_energy_lies_between_that_of_the_lowest_and_of_the_highest_power(steps):
    trace = trace_of(samples_of(steps))
    assert trace.low * trace.seconds * (1 - 1e-9) <= trace.joules <= trace.high * trace.seconds * (1 + 1e-9)


@given(STEPS, st.data())
def test_a_gap_and_a_clock_that_goes_back_are_always_found(steps, data):
    samples = samples_of(steps)
    index = data.draw(st.integers(1, len(samples) - 1))
    jump = data.draw(st.floats(1.6, 1e6) | st.floats(-1e6, -1.1))
    moved = samples[:index] + [(at + jump, watts) for at, watts in samples[index:]]
    with pytest.raises(
        NoReading, match="between two power samples, or their clock jumped" if jump > 0 else "went back"
    ):
        trace_of(moved)


@pytest.mark.parametrize("watts", [math.nan, math.inf, -math.inf])
def test_a_sample_that_is_no_number_ends_the_trace(watts):
    with pytest.raises(NoReading, match=says("power-sample-w")):
        trace_of([(0.0, 1.0), (0.1, watts)])


def test_two_samples_at_one_time_add_no_energy():
    assert trace_of([(0.0, 1.0), (1.0, 1.0), (1.0, 9.0), (2.0, 9.0)]).joules == 10.0


@pytest.mark.parametrize("samples", [[], [(0.0, 5.0)], [(0.0, 0.0), (1.0, 0.0)], [(0.0, 1.0), (1.0, -2.0)]])
def test_no_time_or_no_energy_is_no_reading(samples):
    with pytest.raises(NoReading):
        trace_of(samples).reading("x")


@given(st.floats(0, 1e9), st.lists(st.floats(0.0, 1e3), min_size=1).filter(any))
def test_a_counter_gives_the_difference(start, steps):
    counter, total = EnergyCounter(), start
    counter.add(0.0, total)
    for index, step in enumerate(steps):
        total += step
        counter.add(index + 1.0, total)
    if total > start:
        assert counter.reading("x").value == pytest.approx(sum(steps), abs=1e-3)
