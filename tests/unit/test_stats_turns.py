"""The ratio of processes that took turns: by neighbours, unless something kept inferences waiting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.stats.comparison import contrast_pairs, decide, decide_limit, replicates_to_decide
from edgewise.stats.turns import (
    MEAN,
    NEIGHBOURS,
    OF_NEIGHBOURS,
    PROCESSOR,
    SHORTEST,
    Turns,
    contrast_turns,
    log_ratios,
    others_of,
    value_by,
    without_interrupted,
)

BUSY, IDLE = 0.9, 0.01


def turns_of(times, *, work: float | None = None, others: float | None = BUSY, scale: float = 1.0) -> Turns:
    """One inference a turn; the processor time of each is `work`."""
    samples = scale * np.asarray(times, dtype=float)
    shares = [] if work is None else list(scale * work / samples)
    return Turns.of(samples, [1] * len(samples), shares=shares, others=others)


def interrupted(*, told: bool = True, others: float | None = BUSY, pairs: int = 5) -> tuple[list[Turns], list[Turns]]:
    """1 ms, of which every fourth waits for 6 ms, and 3 ms, of which every fourth does not: 3 by work."""
    scales = [1.0 + 0.002 * number for number in range(pairs)]
    work = (1.0, 3.0) if told else (None, None)
    a = [turns_of([1, 1, 1, 7], work=work[0], others=others, scale=scale) for scale in scales]
    b = [turns_of([9, 9, 9, 3], work=work[1], others=others, scale=scale**2) for scale in scales]
    return a, b


def test_turns_have_medians_and_processor_time_per_inference():
    found = Turns.of(np.array([1.0, 2.0, 6.0, 4.0]), [3, 1], shares=[0.5, 1.0])
    assert found.medians.tolist() == [2.0, 4.0]
    assert found.processor.tolist() == [1.5, 4.0]  # half of the mean of 3, and all of 4
    assert found.means.tolist() == [3.0, 4.0]


def test_the_ratio_is_that_of_the_work_and_its_interval_spans_all():
    found = contrast_turns(*interrupted())
    assert found.statistic == PROCESSOR
    assert found.ratio == pytest.approx(3.0, rel=0.01)
    assert {name: rival.ratio for name, rival in found.rivals} == {
        MEAN: pytest.approx(3.0, rel=0.01), SHORTEST: pytest.approx(4.8, rel=0.01), NEIGHBOURS: pytest.approx(9.0, rel=0.01)
    }  # fmt: skip
    low, high = found.interval()
    assert 2.9 < low < 3.0 and 9.0 < high < 9.2
    held = found.held_interval()
    assert held[0] < math.log(low) and held[1] > math.log(high)
    assert decide(found, margin=0.03, p_adjusted=found.p_value) == "higher"
    assert replicates_to_decide(found, margin=0.03) is None


def test_a_value_by_a_statistic_has_the_quotient_that_its_ratio_is():
    a, b = interrupted()
    assert value_by(PROCESSOR, a[:1]) == pytest.approx(1.0)
    assert value_by(MEAN, a[:1]) == pytest.approx(2.5)
    for statistic in (PROCESSOR, MEAN):
        ratio = math.exp(np.mean(log_ratios(a, b)[statistic]))
        assert value_by(statistic, b) / value_by(statistic, a) == pytest.approx(ratio)
    assert value_by(NEIGHBOURS, a) is value_by(MEAN, []) is value_by(PROCESSOR, interrupted(told=False)[0]) is None


def test_without_processor_time_the_mean_leads():
    found = contrast_turns(*interrupted(told=False))
    assert found.statistic == MEAN and [name for name, _ in found.rivals] == [SHORTEST, NEIGHBOURS]


@pytest.mark.parametrize("share", [0.5, 1.9])
def test_processor_time_is_no_work_where_a_device_or_more_threads_did_it(share):
    sides = [
        [Turns.of(one.medians, [1] * 4, shares=one.shares * share, others=BUSY) for one in side]
        for side in interrupted()
    ]
    assert contrast_turns(*sides).statistic == MEAN


def test_a_quiet_machine_has_the_ratio_of_neighbours():
    found = contrast_turns(*interrupted(others=IDLE))
    assert found.rivals == () and found.ratio == pytest.approx(9.0, rel=0.01)
    assert found.method.startswith(OF_NEIGHBOURS)
    assert contrast_turns(*interrupted(others=None)).statistic == PROCESSOR  # who else ran is not known


def test_two_pairs_tell_no_disagreement():
    assert contrast_turns(*interrupted(pairs=2)).rivals == ()


def test_statistics_on_different_sides_of_1_prove_nothing():
    a, b = interrupted()
    b = [turns_of([2.0] * 4, work=0.8, scale=1.0 + 0.001 * number) for number in range(5)]
    found = contrast_turns(a, b)
    assert found.ratio < 1.0 and found.p_value == 1.0
    assert decide(found, margin=0.03, p_adjusted=1.0) == "inconclusive"
    assert decide_limit(found, limit=0.1) == "inconclusive"


def test_the_inverse_has_inverse_rivals():
    found = contrast_turns(*interrupted())
    low, high = found.interval()
    assert found.inverse().interval() == pytest.approx((1 / high, 1 / low))
    assert found.inverse().inverse() == found
    assert found.inverse().p_value == found.p_value


def test_others_are_known_where_all_tell():
    assert others_of([turns_of([1], others=0.5), turns_of([1], others=0.75)]) == 0.625
    assert others_of([turns_of([1], others=0.5), turns_of([1], others=None)]) is None


@given(
    times=st.lists(st.lists(st.floats(0.5, 2.0), min_size=4, max_size=4), min_size=5, max_size=8),
    factor=st.floats(0.1, 10.0),
    told=st.booleans(),
)
def test_times_that_differ_by_a_factor_have_that_ratio_however_they_are_distributed(times, factor, told):
    a = [turns_of(each, work=min(each) if told else None) for each in times]
    b = [turns_of(each, work=min(each) if told else None, scale=factor) for each in times]
    found = contrast_turns(a, b)
    assert found.rivals == () and found.ratio == pytest.approx(factor)


def one_process(generator: np.random.Generator, work_s: float) -> Turns:
    """100 turns of an inference that is interrupted every 2 ms of running, and then waits for 16 ms."""
    hits = generator.poisson(work_s / 0.002, 100)
    work = work_s * np.exp(0.01 * generator.standard_normal(100))
    samples = work + 0.016 * generator.gamma(np.maximum(hits, 1)) * (hits > 0)
    return Turns.of(samples, [1] * 100, shares=work / samples, others=BUSY)


def test_the_interval_holds_the_ratio_of_work_where_that_of_neighbours_does_not():
    """1 ms against 2.72 ms, 8 pairs, 60 times; `benchmarks/waiting.py` has more of these."""
    generator, held, alone = np.random.default_rng(7), 0, 0
    for _ in range(60):
        a, b = ([one_process(generator, work) for _ in range(8)] for work in (1e-3, 2.72e-3))
        found = contrast_turns(a, b)
        usual = contrast_pairs(
            [1.0] * 8,
            [float(np.median(two.medians / one.medians)) for one, two in zip(a, b, strict=True)],
            sequential=True,
        )
        (low, high), (first, last) = found.interval(), usual.interval()
        held += low <= 2.72 <= high
        alone += first <= 2.72 <= last
    assert held >= 57 and alone < 30


def burst_at(places, *, work: float, count: int = 20, waits: float = 50.0) -> Turns:
    """Turns of one inference that takes `work`, but for those at `places`, which wait as well."""
    return turns_of([work + waits * (at in places) for at in range(count)], work=work)


def test_pairs_of_neighbours_of_which_one_was_interrupted_are_left_out():
    a, b = [burst_at({3}, work=1.0)], [burst_at({3, 7, 19}, work=1.25)]
    (one,), (two,) = without_interrupted(a, b)
    assert (len(one.medians), len(two.medians)) == (17, 17)
    assert set(one.means.tolist()) == {1.0} and set(two.means.tolist()) == {1.25}
    assert {name: math.exp(logs[0]) for name, logs in log_ratios([one], [two]).items()} == {
        name: pytest.approx(1.25) for name in (PROCESSOR, MEAN, SHORTEST, NEIGHBOURS)
    }


def test_bursts_of_other_programs_do_not_widen_the_interval():
    a = [burst_at({number}, work=1.0 + 0.001 * number) for number in range(5)]
    b = [burst_at({number, 10 + number, 15}, work=1.25 + 0.001 * number) for number in range(5)]
    found = contrast_turns(a, b)
    assert found.rivals == () and found.ratio == pytest.approx(1.25, rel=0.001)
    low, high = found.interval()
    assert 1.24 < low < high < 1.26
    blown = log_ratios(a, b)[MEAN]
    assert np.exp(blown).mean() > 2.0  # what the interval had to span


@pytest.mark.parametrize("interrupted_turns", [12, 13, 20])
def test_all_turns_count_where_too_few_were_not_interrupted(interrupted_turns):
    calm, busy = burst_at(set(), work=1.0), burst_at(set(range(interrupted_turns)), work=1.0)
    found = without_interrupted([calm, calm], [calm, busy])
    kept = 20 if interrupted_turns > 12 else 8
    assert [len(each.medians) for each in found[1]] == ([20, 20] if kept == 20 else [20, 8])


def test_without_a_processor_time_of_the_work_no_turn_is_left_out():
    untold = [turns_of([1.0, 50.0, 1.0])]
    assert without_interrupted(untold, untold) == (untold, untold)
    threaded = [turns_of([1.0, 50.0, 1.0], work=2.0)]  # twice the time: two threads
    assert without_interrupted(threaded, threaded) == (threaded, threaded)
