"""How runs on a machine vary: what is learnt, assumed, or shown by the sessions, and what it does to intervals."""

import math
from dataclasses import replace

import pytest

from edgewise.errors import StoreError
from edgewise.record import Job, ModelRef, RuntimeSpec, SessionRecord, Stopping, Variation, Workload
from edgewise.record.reference import Reading, machine_key, readings_of
from edgewise.run.measurements import Z95, distribution
from edgewise.run.variation import (
    FIXED_CLOCK,
    FLOOR,
    MOVING_CLOCK,
    VIRTUAL,
    SpeedHistory,
    cautions_about,
    prior_of,
    reach_of,
    widen,
)
from edgewise.stats.distributions import t_quantile
from edgewise.stats.intervals import Interval

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


def sessions_at(seconds, count=3):
    reading = {"at": 1.0, "compute_s": seconds, "copy_s": seconds}
    told = {"version": 1, "start": reading, "end": reading | {"at": 2.0}}
    return [session(reference=told) for _ in range(count)]


def history(*, compute=0.0, copy=0.0, version=1):
    """Forty blocks of ten readings, 30 s apart, whose kernels alternate by these logarithms."""

    def read(machine):
        assert machine == machine_key(BOX)
        return [
            Reading(
                version=version,
                at=30.0 * block + index,
                compute=1e-3 * math.exp(compute * (block % 2)),
                copy=1e-3 * math.exp(copy * (block % 2)),
            )
            for block in range(40)
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


def test_without_history_the_prior_is_assumed_and_said():
    found = SpeedHistory(BOX, lambda machine: ()).variation(JOB, sessions_at(1e-3))
    assert (found.sigma, found.degrees, found.source) == (VIRTUAL.sigma, None, "assumed")
    (caution,) = cautions_about(found)
    assert caution.code == "variation-assumed"
    assert "the variation between runs, ± 3.9%, is assumed for a virtual machine" in caution.message
    assert "doctor --calibrate" in caution.advice


def test_the_kernel_that_varies_more_is_what_is_learnt():
    found = SpeedHistory(BOX, history(compute=0.01, copy=0.03)).variation(JOB, sessions_at(1e-3 * math.exp(0.015)))
    sigma = math.sqrt(0.015**2 * 40 / 39 * (1 + 1 / 40))
    assert found.sigma == pytest.approx(sigma)
    assert (found.source, found.degrees, found.shift) == ("learnt", 39, 0.0)
    assert "'copy': 40 blocks of sessions over 20 min" in found.method
    assert reach_of(found) == pytest.approx(math.hypot(t_quantile(0.975, 39) * sigma, Z95 * FLOOR))
    assert cautions_about(found) == ()


def test_a_machine_that_never_varies_keeps_the_floor():
    found = SpeedHistory(BOX, history()).variation(JOB, sessions_at(1e-3))
    assert (found.sigma, found.source) == (FLOOR, "learnt")


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
    found = SpeedHistory(BOX, history(compute=0.01, version=2)).variation(JOB, sessions_at(1e-3))
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
    assert row.high == pytest.approx(1e-3 * (1 + reach_of(variation)))
    assert row.half_width == pytest.approx(math.hypot(Z95 * 0.02, Z95 * FLOOR))
    assert row.within_half_width == 0.0
    assert "2.00% (1 σ) between runs" in row.method
    plain = distribution("memory_peak", [[1e6], [1.1e6], [1.2e6]], "test", variation=variation)
    assert plain.within_low is None
    assert plain.within_half_width == plain.half_width


def test_a_time_stays_above_zero():
    variation = Variation(sigma=2.0, degrees=None, source="learnt", method="test")
    widened = widen(Interval(0.9, 1.1, "t"), 1.0, variation)
    assert 0.0 < widened.low == pytest.approx(1.0 / widened.high)
