"""How runs on a machine vary: what is learnt, assumed, or shown by the sessions, and what it does to intervals."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import StoreError
from edgewise.record import Job, ModelRef, RuntimeSpec, SessionRecord, Stopping, Variation, Workload
from edgewise.record.reference import Reading, machine_key, readings_of
from edgewise.run.measurements import Z95
from edgewise.run.rates import distribution
from edgewise.run.reference import VERSION
from edgewise.run.variation import (
    BEYOND,
    BEYOND_ONE,
    FIXED_CLOCK,
    FLOOR,
    GUESS,
    MOVING_CLOCK,
    UNKNOWN,
    VIRTUAL,
    SpeedHistory,
    cautions_about,
    prior_of,
    reach_of,
    widen,
)
from edgewise.stats.between_runs import Scatter, add, pool
from edgewise.stats.distributions import t_quantile
from edgewise.stats.intervals import Interval
from messages import says, wording

BOX = {
    "architecture": "x86_64",
    "cpu": {"model": "box", "logical_cores": 2, "quota_cores": None},
    "memory": {"total_bytes": 8 * 2**30},
    "virtualisation": {"hypervisor": True, "vendor": "KVM", "container": "none seen"},
    "clock": {"governor": None, "boost": None},
}
JOB = Job(
    model=ModelRef(name="m", path="/m", format="onnx", sha256="0", size_bytes=5_000_000),
    runtime=RuntimeSpec(name="engine"),
)


def session(**facts):
    return SessionRecord(index=0, started_at="", pid=1, facts=facts)


def sessions_at(seconds, count=3, at=1200.0):
    reading = {"at": at, "compute_s": seconds, "copy_s": seconds}
    told = {"version": VERSION, "start": reading, "end": reading | {"at": at + 1.0}}
    return [session(reference=told) for _ in range(count)]


def history(*, compute=0.0, copy=0.0, version=VERSION, blocks=40):
    """Blocks of ten readings, 30 s apart, whose kernels alternate by these logarithms."""

    def read(machine):
        assert machine == machine_key(BOX)
        return [
            Reading(
                version=version,
                at=30.0 * block + index,
                compute=1e-3 * math.exp(compute * (block % 2)),
                copy=1e-3 * math.exp(copy * (block % 2)),
            )
            for block in range(blocks)
            for index in range(10)
        ]

    return read


@pytest.mark.parametrize(
    ("virtual", "clock", "prior"),
    [
        ({"hypervisor": True, "container": "none seen"}, {"governor": "performance", "boost": False}, VIRTUAL),
        ({"hypervisor": False, "container": "docker"}, {"governor": "performance", "boost": False}, VIRTUAL),
        ({"hypervisor": False, "container": "none seen"}, {"governor": "performance", "boost": False}, FIXED_CLOCK),
        ({"hypervisor": False, "container": "none seen"}, {"governor": "performance", "boost": True}, MOVING_CLOCK),
        ({"hypervisor": None, "container": "none seen"}, {"governor": None, "boost": None}, MOVING_CLOCK),
    ],
)
def test_what_is_assumed_goes_by_the_kind_of_machine(virtual, clock, prior):
    assert prior_of({"virtualisation": virtual, "clock": clock}) is prior
    assert prior_of({"clock": clock}) is UNKNOWN


def nothing(machine):
    return ()


def latency(*levels, sessions=5, length=80):
    """A measurement of `sessions` whose ten parts each cycle through these logarithms."""
    part = length // 10
    cycle = [1e-3 * math.exp(levels[index % len(levels)]) for index in range(10) for _ in range(part)]
    return distribution("latency", [cycle] * sessions, "test")


def test_without_history_or_samples_the_kind_of_machine_is_assumed_and_said():
    found = SpeedHistory(BOX, nothing).variation(JOB, sessions_at(1e-3))
    assert (found.sigma, found.degrees, found.source) == (VIRTUAL.sigma, GUESS, "assumed")
    (caution,) = cautions_about(found)
    assert caution.code == "variation-assumed"
    assert (
        "the variation between runs, ± 7.6%, is assumed for a virtual machine or container: the machine"
        in caution.message
    )
    assert wording("run-edgewise-doctor-calibrate-10min") in caution.advice


def test_without_history_the_parts_of_the_run_tell_how_runs_differ():
    found = SpeedHistory(BOX, nothing).variation(JOB, sessions_at(1e-3), headline=latency(-0.05, 0.05))
    unseen, seen = VIRTUAL.unseen**2, BEYOND * 0.05**2 * 50 / 49
    assert found.sigma == pytest.approx(math.sqrt(unseen + seen))
    assert found.degrees == pytest.approx((unseen + seen) ** 2 / ((unseen**2 + seen**2) / GUESS))
    assert found.method == (
        "assumed for a virtual machine or container, and from the scatter of 50 parts of this run (most of it): "
        "the machine has too few earlier runs to learn it"
    )
    assert [caution.code for caution in cautions_about(found)] == ["variation-assumed"]


def test_what_makes_an_interval_wide_is_told_beside_what_is_learnt():
    """± 111 % stood as "learnt from the reference kernel" beside ± 3 %: the first run's own parts differed so much."""
    speed = SpeedHistory(BOX, history(compute=0.02))
    methods = [speed.variation(JOB, sessions_at(1e-3), headline=latency(-up, up)).method for up in (0.5, 0.0001)]
    assert [method.endswith("50 parts of this run (most of it)") for method in methods] == [True, False]
    assert all(method.startswith("learnt from the reference kernel '") for method in methods)


def test_a_quiet_run_has_a_narrow_interval_from_the_first_run_on():
    quiet = SpeedHistory(BOX, nothing).variation(JOB, sessions_at(1e-3), headline=latency(-0.002, 0.002))
    assert reach_of(quiet) < 0.028
    alone = SpeedHistory(BOX, nothing).variation(JOB, sessions_at(1e-3), headline=latency(-0.05, 0.05, sessions=1))
    seen = BEYOND_ONE * 0.05**2 * 10 / 9
    assert alone.sigma == pytest.approx(math.sqrt(VIRTUAL.unseen**2 + seen))


@given(st.floats(0.0, 0.5), st.floats(1.0, 5.0))
def test_more_scatter_within_a_run_never_makes_its_interval_narrower(sigma, factor):
    usual = SpeedHistory(BOX, nothing)
    one, other = (
        usual.variation(JOB, sessions_at(1e-3), headline=latency(-each, each)) for each in (sigma, sigma * factor)
    )
    assert FLOOR < VIRTUAL.unseen <= one.sigma <= other.sigma * (1 + 1e-9)


def wandering(rng, times, sigma):
    """Logarithms of a speed that wanders as much over a tenth of a second as over a second, ten, or a hundred."""
    steps = np.diff(times, prepend=times[0])
    levels = np.zeros(len(times))
    for scale in (0.1, 1.0, 10.0, 100.0):
        kept, now = np.exp(-steps / scale), rng.standard_normal()
        for index, shock in enumerate(rng.standard_normal(len(times))):
            now = kept[index] * now + math.sqrt(1.0 - kept[index] ** 2) * shock
            levels[index] += sigma / 2 * now
    return levels


@pytest.mark.parametrize("sigma", [0.001, 0.02, 0.2])
def test_the_first_intervals_hold_the_median_of_the_series_on_quiet_and_busy_machines(sigma):
    """Thirty runs of five sessions of ten parts; no history for the first, and those before it for the next nine."""
    rng, hits, halves = np.random.default_rng(5), [], []
    starts = 7.0 * np.arange(30)
    times = (starts[:, None, None] + np.arange(5)[:, None] + 0.05 * np.arange(10)).ravel()
    for _ in range(12):
        parts = 1e-3 * np.exp(wandering(rng, times, sigma)).reshape(30, 5, 10)
        middle = float(np.median(np.median(parts, axis=(1, 2))))
        values: list[tuple[str, float]] = []
        for index in range(10):
            history = own(values, gap=7.0)
            row = distribution("latency", [np.repeat(session, 4) for session in parts[index]], "test")
            now = sessions_at(1e-3, at=float(starts[index]))
            found = SpeedHistory(BOX, history).variation(JOB, now, headline=row)
            interval = widen(Interval(row.low, row.high, "t"), row.value, found)
            hits.append(interval.low <= middle <= interval.high)
            halves.append(reach_of(found) / sigma)
            values.append((JOB.key, row.value))
    assert sum(hits) / len(hits) >= 0.93
    if sigma > VIRTUAL.unseen:
        assert np.median(halves) < 4.0


def own(values, *, gap=60.0):
    """The history of earlier runs of `JOB` with these values, two readings each."""

    def read(machine):
        return [
            Reading(
                version=VERSION, at=gap * index + second, compute=1e-3, copy=1e-3, run=str(index), job=job, value=value
            )
            for index, (job, value) in enumerate(values)
            for second in range(2)
        ]

    return read


def test_runs_of_the_same_job_tell_more_than_the_kernels():
    headline, now = latency(-0.05, 0.05), sessions_at(1e-3, at=900.0)
    values = [1e-3 * math.exp(0.01 * (-1) ** index) for index in range(12)]
    found = SpeedHistory(BOX, own([(JOB.key, value) for value in values])).variation(JOB, now, headline=headline)
    assert found.source == "learnt"
    assert found.method == "learnt from 13 runs of this job over 15 min and the scatter of 50 parts of this run"
    levels = np.log([*values, headline.value])
    part = Scatter(float(levels.var(ddof=1)) * (1 + 1 / 13), 12)
    seen = Scatter(BEYOND * 0.05**2 * 50 / 49, GUESS)
    expected = pool([add([Scatter(VIRTUAL.unseen**2, GUESS), seen]), part], floor=FLOOR**2)
    assert (found.sigma, found.degrees) == (
        pytest.approx(math.sqrt(expected.variance)),
        pytest.approx(expected.degrees),
    )


def test_a_few_runs_of_the_same_job_narrow_or_widen_what_is_assumed():
    headline, now = latency(-0.05, 0.05), sessions_at(1e-3, at=900.0)
    first = SpeedHistory(BOX, nothing).variation(JOB, now, headline=headline)
    one = SpeedHistory(BOX, own([(JOB.key, 1e-3)])).variation(JOB, now, headline=headline)
    calm = SpeedHistory(BOX, own([(JOB.key, headline.value)] * 3)).variation(JOB, now, headline=headline)
    wild = SpeedHistory(BOX, own([(JOB.key, 1e-3), (JOB.key, 2e-3)])).variation(JOB, now, headline=headline)
    assert one == first  # a second run has no degree of freedom worth the name
    assert reach_of(calm) < reach_of(first) < reach_of(wild)
    assert calm.source == "assumed" and "and 4 runs of this job over 15 min: the machine has too few" in calm.method
    others = SpeedHistory(BOX, own([("other", 2e-3), (None, 3e-3), (JOB.key, 0.0), (JOB.key, 1e-3)])).variation(
        JOB, now, headline=headline
    )
    assert others == first


def test_a_few_blocks_of_the_kernels_count_beside_the_kind_of_machine():
    now = sessions_at(1e-3)
    calm = SpeedHistory(BOX, history(blocks=4)).variation(JOB, now, headline=latency(0.0))
    wild = SpeedHistory(BOX, history(blocks=4, copy=0.1)).variation(JOB, now, headline=latency(0.0))
    first = SpeedHistory(BOX, nothing).variation(JOB, now, headline=latency(0.0))
    assert reach_of(calm) < reach_of(first) < reach_of(wild)
    assert re.search(says("reference-kernel-blocks-sessions-over", kernel="copy", blocks=5), wild.method)
    assert (calm.source, wild.source) == ("assumed", "assumed")


def test_the_kernel_that_varies_more_is_what_is_learnt():
    found = SpeedHistory(BOX, history(compute=0.01, copy=0.03)).variation(JOB, sessions_at(1e-3 * math.exp(0.015)))
    levels = [0.0, 0.03] * 20 + [0.015]  # the last one is this run's
    kernel = Scatter(float(np.var(levels, ddof=1)) * (1 + 1 / 41), 40)
    expected = pool([Scatter(VIRTUAL.sigma**2, GUESS), kernel], floor=FLOOR**2)
    assert found.sigma == pytest.approx(math.sqrt(expected.variance))
    assert (found.source, found.degrees, found.shift) == ("learnt", pytest.approx(expected.degrees), 0.0)
    assert "'copy': 41 blocks of sessions over 20 min" in found.method
    assert reach_of(found) == pytest.approx(math.hypot(t_quantile(0.975, found.degrees) * found.sigma, Z95 * FLOOR))
    assert cautions_about(found) == ()


def test_a_machine_that_never_varies_is_near_the_floor_and_never_below():
    usual = SpeedHistory(BOX, history(compute=1e-5, copy=1e-5))
    found = usual.variation(JOB, sessions_at(1e-3), headline=latency(0.0))
    assert found.source == "learnt"
    assert FLOOR < found.sigma < 1.3 * FLOOR
    bare = SpeedHistory(BOX | {"board": {}}, nothing).usual()
    assert (bare.sigma, bare.degrees) == (FLOOR, None)


def test_an_unusual_speed_is_said_and_widens_the_interval():
    usual, now = SpeedHistory(BOX, history(compute=0.01)), sessions_at(1.12e-3)
    found = usual.variation(JOB, now)
    assert found.shift == pytest.approx(math.log(1.12), abs=0.01)
    assert reach_of(found) > found.shift
    (caution,) = cautions_about(found)
    assert caution.code == "unusual-speed"
    assert "1.12× slower than usual" in caution.message
    assert usual.variation(JOB, sessions_at(1.02e-3)).shift == 0.0
    assert "faster" in cautions_about(usual.variation(JOB, sessions_at(0.9e-3)))[0].message


def test_times_of_other_kernels_teach_nothing():
    found = SpeedHistory(BOX, history(compute=0.01, version=1)).variation(JOB, sessions_at(1e-3))
    assert found.source == "assumed"


def test_sessions_laid_apart_contain_it_themselves():
    stopping = Stopping(sessions=3, spread_s=600.0)
    job = replace(JOB, workload=Workload(stopping=stopping))
    usual = SpeedHistory(BOX, history(compute=0.1))
    found = usual.variation(job, sessions_at(1e-3))
    assert (found.sigma, found.source) == (FLOOR, "spread")
    assert "10 min" in found.method
    short = replace(JOB, workload=Workload(stopping=replace(stopping, spread_s=60.0)))
    assert usual.variation(short, sessions_at(1e-3)).source == "learnt"


def test_a_clock_of_the_sessions_own_knows_no_machine():
    assert SpeedHistory(BOX, history(compute=0.1)).variation(JOB, [session()]) is None
    assert reach_of(None) == pytest.approx(Z95 * FLOOR)


def test_a_store_that_can_not_be_read_teaches_nothing():
    def fail(machine):
        raise StoreError("no such store")

    assert SpeedHistory(BOX, fail).variation(JOB, sessions_at(1e-3)).source == "assumed"


@pytest.mark.parametrize(
    "told",
    [
        None, 7, {"version": "1"}, {"version": 1, "start": 3}, {"version": 1, "start": {"at": 1.0, "compute_s": 1.0}},
        {"version": 1, "end": {"at": 1.0, "compute_s": -1.0, "copy_s": 1.0}},
        {"version": 1, "end": {"at": 1.0, "compute_s": "x", "copy_s": math.nan}},
    ],
)  # fmt: skip
def test_what_is_no_reading_is_left_out(told):
    assert readings_of([session(reference=told)]) == []


def test_an_environment_that_tells_too_little_names_no_machine():
    assert machine_key({}) is None
    assert machine_key({**BOX, "memory": {"total_bytes": None}}) is None
    assert machine_key(BOX) == machine_key(BOX | {"state": {"load_average": [1.0]}})
    assert machine_key(BOX) != machine_key(BOX | {"architecture": "aarch64"})


def test_both_intervals_are_kept_and_the_headline_is_for_a_rerun():
    variation = Variation(sigma=0.02, degrees=None, source="assumed", method="test")
    row = distribution("latency", [[1e-3] * 20, [1e-3] * 20], "test", variation=variation)
    assert (row.within_low, row.within_high) == (1e-3, 1e-3)
    assert row.high / row.value == row.value / row.low == pytest.approx(math.exp(reach_of(variation)))
    assert row.half_width == pytest.approx(math.exp(math.hypot(Z95 * 0.02, Z95 * FLOOR)) - 1)
    assert row.within_half_width == 0.0
    assert "2.00% (1 σ) between runs" in row.method
    plain = distribution("memory_peak", [[1e6], [1.1e6], [1.2e6]], "test", variation=variation)
    assert plain.within_low is None
    assert plain.within_half_width == plain.half_width


def test_a_time_stays_above_zero():
    variation = Variation(sigma=2.0, degrees=None, source="learnt", method="test")
    widened = widen(Interval(0.9, 1.1, "t"), 1.0, variation)
    assert widened.low == pytest.approx(math.exp(-math.hypot(math.log(0.9), reach_of(variation))))
    assert widened.high == pytest.approx(math.exp(math.hypot(math.log(1.1), reach_of(variation))))
    endless = widen(Interval(0.9, 1.1, "t"), 1.0, replace(variation, sigma=1e6))
    assert 0.0 < endless.low < 1e-20 < 1e20 < endless.high < math.inf


def test_a_difference_is_widened_by_its_size():
    widened = widen(Interval(-1.0, 2.0, "t"), 1.0, Variation(sigma=0.5, degrees=None, source="learnt", method="test"))
    reach = math.hypot(Z95 * 0.5, Z95 * FLOOR)
    assert (widened.low, widened.high) == (
        pytest.approx(1.0 - math.hypot(2.0, reach)), pytest.approx(1.0 + math.hypot(1.0, reach))
    )  # fmt: skip
