"""Sums of means, the half step of a clock that cuts, and where the latency went."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.profiling.conservation import break_down_latency
from edgewise.profiling.message import read_profile
from edgewise.profiling.step_times import StepTimings
from edgewise.runtime.base import EngineNode, EngineOverhead, EngineProfile
from edgewise.stats.paired import paired_ratio
from messages import says


def profile(times, *, wholes=None, truncates=False, overheads=(), names=None):
    """`times` are rows per step, ns."""
    count = len(times[0])
    return EngineProfile(
        method="fake",
        resolution_ns=1000.0,
        truncates=truncates,
        nodes=tuple(
            EngineNode(
                name=(names or [f"n{at}" for at in range(len(times))])[at], op="K", times_ns=tuple(map(float, row))
            )
            for at, row in enumerate(times)
        ),
        overheads=tuple(EngineOverhead(name=name, times_ns=tuple(map(float, row))) for name, row in overheads),
        inference_ns=tuple(wholes or [round(sum(row[at] for row in times)) for at in range(count)]),
    )


def test_means_of_parts_add_up_to_the_mean_of_the_whole():
    timings = StepTimings([profile([[10, 20, 30], [1, 2, 3]])])
    assert timings.duration([0]).value == pytest.approx(20e-9)
    assert timings.duration([0, 1]).value == pytest.approx(22e-9)
    assert timings.total_s == pytest.approx(22e-9)


def test_the_longest_inferences_are_left_out():
    # no part differs from its median by more than a quarter, but three inferences by a quarter from the shortest ones
    wholes = [90_000] * 4 + [100_000] * 6 + [120_000] * 3
    timings = StepTimings([profile([[0.9 * whole for whole in wholes]], wholes=wholes)])
    assert timings.inferences == 10
    assert timings.duration([0]).value == pytest.approx(0.9 * 96e-6)


def test_a_clock_that_cuts_gets_half_a_step_back_for_every_reading():
    timings = StepTimings([profile([[3000] * 4, [5000] * 4], truncates=True)])
    assert timings.duration([0]).value == pytest.approx(3.5e-6)
    assert timings.duration([0, 1]).value == pytest.approx(9e-6)
    # without scatter the correction may be off by half a step
    found = timings.duration([0])
    assert (found.low, found.high) == (pytest.approx(3e-6), pytest.approx(4e-6))
    both = timings.duration([0, 1])
    assert both.high - both.value == pytest.approx(math.hypot(0.5e-6, 0.5e-6))


def test_scatter_makes_the_correction_sure():
    generator = np.random.default_rng(1)
    true = generator.normal(20_300, 1_500, 4000)
    timings = StepTimings([profile([np.floor(true / 1000) * 1000], wholes=[20_000] * 4000, truncates=True)])
    found = timings.duration([0])
    assert found.low < 20.3e-6 < found.high
    assert found.high - found.low < 0.3e-6


def test_processes_that_compiled_otherwise_are_left_out():
    timings = StepTimings([profile([[10, 10, 10]]), profile([[99, 99, 99]], names=["other"])])
    assert timings.left_out == 1 and timings.sessions == 1
    assert timings.duration([0]).value == pytest.approx(10e-9)


def test_overheads_are_means_over_all_processes():
    one = profile([[10] * 4], overheads=[("call", [4] * 4)])
    other = profile([[10] * 4], overheads=[("call", [8] * 4)])
    assert StepTimings([one, other]).overheads == {"call": pytest.approx(6e-9)}


def test_the_interval_spans_the_processes():
    one, other = profile([[1000] * 10]), profile([[1100] * 10])
    found = StepTimings([one, other]).duration([0])
    assert found.value == pytest.approx(1.05e-6)
    assert found.low < 1.0e-6 and found.high > 1.1e-6


def test_no_steps_take_no_time():
    assert StepTimings([profile([[1, 2, 3]])]).duration([]).value == 0.0


def test_the_rest_goes_where_the_engine_saw_time_pass():
    found = break_down_latency(latency=100.0, steps=90.0, nameless=0.0, bounds={"between operators": 20.0, "call": 3.0})
    # the call first, it is not lengthened by profiling; the rest between the operators
    assert found.overheads == {"call": 3.0, "between operators": 7.0}
    assert found.unattributed == pytest.approx(0.0)
    assert found.conservation == found.attributed == pytest.approx(1.0)


def test_what_no_clock_saw_is_unattributed():
    found = break_down_latency(latency=100.0, steps=80.0, nameless=0.0, bounds={"call": 3.0, "between operators": 5.0})
    assert found.unattributed == pytest.approx(12.0)
    assert found.attributed == pytest.approx(0.88)


def test_steps_nobody_can_name_are_unattributed():
    found = break_down_latency(latency=100.0, steps=80.0, nameless=10.0, bounds={"between operators": 50.0})
    assert found.overheads["between operators"] == pytest.approx(10.0)
    assert found.unattributed == pytest.approx(10.0)
    assert found.attributed == pytest.approx(0.9)


def test_steps_longer_than_the_whole_are_shown_and_not_hidden():
    found = break_down_latency(latency=100.0, steps=104.0, nameless=0.0, bounds={"call": 3.0})
    assert found.overheads == {"call": 0.0}
    assert found.unattributed == pytest.approx(-4.0)
    assert found.conservation == pytest.approx(1.04)
    assert found.attributed == 1.0


@given(
    st.floats(1e-6, 1e3), st.floats(0, 2e3), st.floats(0, 1e2),
    st.dictionaries(st.sampled_from(["call", "session", "between operators", "else"]), st.floats(-1e2, 1e3)),
)  # fmt: skip
def test_accounts_always_settle(latency, steps, nameless, bounds):
    found = break_down_latency(latency=latency, steps=steps, nameless=nameless, bounds=bounds)
    parts = steps + sum(found.overheads.values()) + found.unattributed
    assert parts == pytest.approx(latency, abs=1e-6 * (latency + steps + nameless))
    assert all(0 <= value <= max(0.0, bounds[name]) + 1e-12 for name, value in found.overheads.items())
    assert found.attributed <= 1.0


def document(**changes):
    node = {
        "name": "a", "op": "K", "times_ns": [1.0, 2.0], "role": "operator", "kinds": [], "originals": [], "inputs": [],
        "outputs": [], "start_ns": None, "provider": None, "dtype": None, "detail": {},
    }  # fmt: skip
    whole = {
        "method": "m", "resolution_ns": 1, "truncates": False, "nodes": [node], "overheads": [], "inference_ns": [3, 4],
        "ordered": True, "notes": [],
    }  # fmt: skip
    return {**whole, **changes}


def test_a_message_is_read_back():
    found = read_profile(document())
    assert found.nodes[0].times_ns == (1.0, 2.0)
    assert found.inference_ns == (3, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"inference_ns": []},
        {"inference_ns": [1]},
        {"inference_ns": [1, -2]},
        {"pairs_ns": [[1, 2]]},
        {"processor_ns": [1]},
        {"pairs_ns": [[1, 0]], "unprofiled_ns": [1]},
        {"pairs_ns": [[1, 2, 3]], "unprofiled_ns": [1]},
        {"inference_ns": [1, float("nan")]},
        {"nodes": {"a": 1}},
        {"nodes": [{"name": "a"}]},
        {"nodes": document()["nodes"] * 2},
        {"nodes": [{**document()["nodes"][0], "role": "boss"}]},
        {"nodes": [{**document()["nodes"][0], "kinds": "convolution"}]},
        {"nodes": [{**document()["nodes"][0], "originals": "relu"}]},
        {"nodes": [{**document()["nodes"][0], "detail": 7}]},
        {"nodes": [{**document()["nodes"][0], "times_ns": [1.0, 2.0, 3.0]}]},
        {"nodes": [{**document()["nodes"][0], "times_ns": [1.0, -1.0]}]},
        {"nodes": [{**document()["nodes"][0], "times_ns": [1.0, float("inf")]}]},
        {"overheads": [{"name": "call", "times_ns": [1.0]}]},
        {"resolution_ns": float("inf")},
    ],
)
def test_a_message_that_is_none_is_refused(changes):
    with pytest.raises((ValueError, TypeError, LookupError)):
        read_profile(document(**changes))


def test_the_half_step_never_makes_the_parts_longer_than_the_whole():
    # 4 steps that the clock shows as 0, in a whole of 1.2 µs: the cuts took 1.2 µs at most, 0.3 µs each
    timings = StepTimings([profile([[0] * 4] * 4, wholes=[9000] * 4, truncates=True)], latency=1.2e-6)
    assert timings.duration([0]).value == pytest.approx(0.3e-6)
    everything = timings.duration([0, 1, 2, 3])
    assert everything.value == pytest.approx(1.2e-6)
    assert timings.duration([0]).low == 0.0
    assert timings.duration([0]).high == pytest.approx(0.8e-6)
    # where there is room, it is the whole half step
    roomy = StepTimings([profile([[0] * 4] * 4, wholes=[9000] * 4, truncates=True)], latency=1.0)
    assert roomy.duration([0]).value == pytest.approx(0.5e-6)


def test_a_step_may_have_a_clock_of_its_own():
    mixed = profile([[3000] * 4, [5000] * 4], truncates=True)
    mixed = replace(mixed, nodes=(replace(mixed.nodes[0], truncates=False), mixed.nodes[1]))
    timings = StepTimings([mixed])
    assert timings.duration([0]).value == pytest.approx(3e-6)
    assert timings.duration([1]).value == pytest.approx(5.5e-6)


def in_turns(times, *, plain, pairs=(), **given):
    return replace(profile(times, **given), unprofiled_ns=tuple(plain), pairs_ns=tuple(pairs))


def test_a_step_has_its_share_of_the_latency():
    one = in_turns([[80] * 8, [10] * 8], wholes=[120] * 8, plain=(100,) * 8)
    other = in_turns([[160] * 8, [20] * 8], wholes=[240] * 8, plain=(200,) * 8)
    # the second process had half the speed; a step is 80 % of an ordinary inference in both, which takes 1 s
    timings = StepTimings([one, other], latency=1.0)
    assert timings.in_turns and timings.latency_s == 1.0
    assert timings.duration([0]).value == pytest.approx(0.8)
    assert timings.duration([0, 1]).value == pytest.approx(0.9)
    assert timings.total_s == pytest.approx(1.2)
    # without a latency, the mean in the conditions of the profiled inferences
    assert StepTimings([one, other]).latency_s == pytest.approx(150e-9)


def test_without_turns_the_parts_are_left_as_they_were_measured():
    mixed = [in_turns([[90] * 8], plain=(100,) * 8), profile([[90] * 8])]
    timings = StepTimings(mixed, latency=1.0)
    assert not timings.in_turns
    assert timings.duration([0]).value == pytest.approx(90e-9)


def test_a_machine_that_changes_its_speed_between_windows_changes_no_share():
    """1.5 times slower from half of the pairs on, and most profiled inferences were slow, most ordinary ones fast."""
    slow = [1.0] * 4 + [1.5] * 6
    told = in_turns(
        [[90_000 * each for each in slow]],
        wholes=[round(110_000 * each) for each in slow],
        plain=[100_000] * 6 + [150_000] * 4,
        pairs=[(110_000 * each, 100_000 * each) for each in (1.0, 1.0, 1.5, 1.5)],
    )
    timings = StepTimings([told], latency=100e-6)
    assert timings.duration([0]).value == pytest.approx(90e-6)
    assert timings.total_s == pytest.approx(110e-6)


def test_what_the_ratio_and_the_latency_may_be_off_by_widens_the_intervals():
    pairs = [(100, 90), (100, 80), (100, 70), (100, 80)]
    told = in_turns([[80] * 8], wholes=[100] * 8, plain=(80,) * 8, pairs=pairs)
    found = StepTimings([told], latency=1.0, uncertainty=0.1).duration([0])
    _, half = paired_ratio(pairs)
    assert found.value == pytest.approx(1.0)
    assert found.high - found.value == pytest.approx(math.hypot(0.1, half / 0.8))


@pytest.mark.parametrize(("uncertainty", "least"), [(0.4, 0.6), (0.7, 0.5), (1.12, 1 / 2.12), (9.0, 0.1)])
def test_a_latency_known_to_a_factor_leaves_a_step_its_time(uncertainty, least):
    """Layers of 50 ms by a clock of µs were only below a bound, as the latency was 120 [64.7, 254] ms."""
    told = in_turns([[80_000] * 8], wholes=[100_000] * 8, plain=(100_000,) * 8, pairs=[(100, 100)] * 8, truncates=True)
    found = StepTimings([told], latency=0.12, uncertainty=uncertainty).duration([0])
    assert found.value == pytest.approx(0.12 * 80.5 / 100)
    assert found.low == pytest.approx(least * found.value, rel=0.01)
    assert found.high == pytest.approx((1 + uncertainty) * found.value, rel=0.01)


def test_a_step_that_the_clock_does_not_tell_is_bounded_whatever_the_latency():
    told = in_turns([[0] * 8], wholes=[1000] * 8, plain=(1000,) * 8, pairs=[(10, 10)] * 8, truncates=True)
    assert StepTimings([told], latency=1e-6, uncertainty=1.12).duration([0]).low == 0.0


def test_one_interruption_is_cut_out_of_the_step_that_it_hit():
    steps = [[100_000.0] * 8, [50_000.0] * 8]
    steps[0][3] += 4e6
    steps[1][5] += 4e6
    timings = StepTimings([profile(steps)])
    assert timings.duration([0]).value == pytest.approx(100e-6)
    assert timings.duration([1]).value == pytest.approx(50e-6)


def test_processor_time_is_the_whole_where_other_work_meets_most_inferences():
    steps = [[100_000.0] * 40, [50_000.0] * 40]
    between = [10_000.0] * 40
    for at in range(28):  # seven of ten inferences wait for the processor, in one part or another
        (steps[0], steps[1], between)[at % 3][at] += 20e6
    wholes = [round(sum(parts)) for parts in zip(*steps, between, strict=True)]
    told = in_turns(steps, wholes=wholes, plain=[5_000_000] * 40, pairs=[(160_000, 155_000)] * 8)
    told = replace(told, processor_ns=(160_000.0,) * 40)
    timings = StepTimings([told], latency=5e-3)
    # an ordinary inference has 155 µs of work; waiting for the processor, it takes 5 ms, and each part its share of that
    assert timings.duration([0]).value == pytest.approx(100 / 155 * 5e-3)
    assert timings.duration([1]).value == pytest.approx(50 / 155 * 5e-3)
    assert timings.total_s == pytest.approx(160 / 155 * 5e-3)


def test_parts_that_waited_for_the_processor_are_shares_of_their_own_inferences():
    """The engine's clock ran on while other programs worked: steps of 1.26 and 1.08 times the processor time."""
    told = [
        replace(
            in_turns(
                [[part * 70e3] * 4, [part * 20e3] * 4],
                wholes=[round(part * 100e3)] * 4,
                plain=[200_000] * 4,
                pairs=[(100_000, 100_000)] * 2,
                overheads=[("call", [part * 10e3] * 4)],
            ),
            processor_ns=(100_000.0,) * 4,
        )
        for part in (1.4, 1.2)
    ]
    timings = StepTimings(told, latency=2.0)
    assert [timings.duration([at]).value for at in (0, 1)] == pytest.approx([14 / 9, 4 / 9])
    assert timings.overheads == {"call": pytest.approx(2 / 9)}
    assert timings.stretched == pytest.approx(1.17)
    assert timings.total_s == pytest.approx(2.0)
    quiet = [replace(told[0], processor_ns=(), pairs_ns=((140_000, 140_000),) * 2)]
    assert StepTimings(quiet, latency=2.0).stretched == pytest.approx(0.9)
    assert StepTimings(quiet, latency=2.0).duration([0]).value == pytest.approx(1.4)


def test_a_profile_whose_inferences_took_no_time_is_refused():
    with pytest.raises(ValueError, match=says("inferences-took-no-time")):
        StepTimings([in_turns([[0] * 8], plain=(1,) * 8)])


def test_processes_may_run_branches_in_another_order():
    one = profile([[10] * 4, [20] * 4], names=["a", "b"])
    other = profile([[40] * 4, [30] * 4], names=["b", "a"])
    timings = StepTimings([one, other])
    assert timings.left_out == 0
    assert timings.duration([0]).value == pytest.approx(20e-9)
    assert timings.duration([1]).value == pytest.approx(30e-9)
