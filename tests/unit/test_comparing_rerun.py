"""The interval of a ratio for another time: what it rests on, and that it holds where the machine's hours differ."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from edgewise.comparing.comparison import Comparison, ComparisonResult, Side, Variant
from edgewise.comparing.rerun import scatter_of_ratio, with_reruns
from edgewise.errors import StoreError
from edgewise.record import Job, Measurement, ModelRef, Run, RuntimeSpec, SessionRecord, Variation, Workload
from edgewise.record.reference import Reading
from edgewise.run.reference import VERSION
from edgewise.run.variation import BEYOND, FLOOR, VIRTUAL
from messages import wording

BOX = {
    "architecture": "x86_64",
    "cpu": {"model": "box", "logical_cores": 2, "quota_cores": None},
    "memory": {"total_bytes": 8 * 2**30},
    "virtualisation": {"hypervisor": True, "vendor": "KVM", "container": "none seen"},
    "clock": {"governor": None, "boost": None},
}


def made(name: str, medians, *, group="now", sigma=0.01, copy=1e-3, at=10_000.0) -> Run:
    """A run of turns: a session of three equal samples for each of `medians`, its kernels read at the end."""
    job = Job(
        model=ModelRef(name=name, path=f"/{name}", format="onnx", sha256=name, size_bytes=1),
        runtime=RuntimeSpec(name="engine"),
        workload=Workload(interleave="turns"),
    )
    samples = tuple(float(value) for value in medians for _ in range(3))
    latency = Measurement(
        metric="latency", unit="s", basis="measured", method="", value=float(np.median(samples)), samples=samples,
        session_lengths=(3,) * len(medians),
    )  # fmt: skip
    end = {"at": at, "compute_s": 1e-3, "copy_s": copy}
    record = SessionRecord(index=0, started_at="", pid=1, facts={"reference": {"version": VERSION, "end": end}})
    variation = Variation(sigma=sigma, degrees=3.0, source="assumed", method="")
    return Run(
        id=name, created_at="2026-01-01T00:00:00+00:00", job=job, status="done", environment=BOX, group=group,
        measurements=(latency,), sessions=(record,) * len(medians), variation=variation,
    )  # fmt: skip


def earlier(ratios, *, copy=1e-3):
    """The readings that the store has of as many comparisons of ``a`` and ``b``, ten minutes apart."""
    keys = [made(name, [1e-3]).job.key for name in "ab"]
    return [
        Reading(version=VERSION, at=600.0 * place, compute=1e-3, copy=copy, run=f"{place}{side}", group=str(place),
                job=key, value=1e-3 * (ratio if side else 1.0))
        for place, ratio in enumerate(ratios)
        for side, key in enumerate(keys)
    ]  # fmt: skip


def compared(a: Run, b: Run, *, low=1.49, high=1.51, **changes) -> ComparisonResult:
    row = Comparison(
        a="A", b="B", metric="latency", before=Side(value=1.0), after=Side(value=1.5), verdict="slower",
        ratio=1.5, low=low, high=high, design="interleaved",
    )  # fmt: skip
    return ComparisonResult(
        variants=(Variant(label="A", run=a), Variant(label="B", run=b)), comparisons=(replace(row, **changes),)
    )


def test_without_a_history_it_is_assumed_from_the_rounds_and_the_sides():
    rounds = [1.5, 1.55, 1.45]
    a, b = made("a", [1e-3] * 3, sigma=0.01), made("b", [1e-3 * each for each in rounds], sigma=0.05)
    found, method = scatter_of_ratio(a, b, [])
    expected = VIRTUAL.unseen**2 + BEYOND * float(np.log(rounds).var(ddof=1)) + 0.04**2
    assert found.variance == pytest.approx(expected) and method.startswith("assumed for a virtual machine")
    row = with_reruns(compared(a, b), lambda machine: []).comparisons[0]
    assert row.rerun_low < row.low < row.high < row.rerun_high
    assert row.rerun_low * row.rerun_high == pytest.approx(1.5**2, rel=1e-3)


def test_equal_rounds_and_sides_leave_what_the_kind_of_machine_does():
    a, b = made("a", [1e-3] * 3), made("b", [1.5e-3] * 3)
    assert scatter_of_ratio(a, b, [])[0].variance == pytest.approx(VIRTUAL.unseen**2 + 2 * FLOOR**2)


def test_what_is_known_of_one_side_alone_is_no_difference_between_the_sides():
    """The good release of a bisection is measured again and again, and each other one for the first time."""
    a, b = made("a", [1e-3] * 3, sigma=0.002), made("b", [1.5e-3] * 3, sigma=0.02)
    known = [each for each in earlier([1.5] * 3) if each.job == a.job.key]
    expected = VIRTUAL.unseen**2 + 2 * FLOOR**2
    assert scatter_of_ratio(a, b, known)[0].variance == pytest.approx(expected)
    assert scatter_of_ratio(a, b, known[:1])[0].variance == pytest.approx(expected - FLOOR**2 + 0.018**2)


def test_comparisons_of_other_hours_widen_it():
    """Ratios of 1.55 on a quiet machine and 1.84 beside other work: the next interval holds both."""
    a, b = made("a", [1e-3] * 5), made("b", [1.55e-3] * 5)
    readings = earlier([1.55, 1.84] * 5)
    found = with_reruns(compared(a, b, ratio=1.55, low=1.545, high=1.555), lambda machine: readings)
    (row,) = found.comparisons
    assert row.rerun_low < 1.55 < 1.84 < row.rerun_high < 2.4
    assert row.rerun_method.startswith(wording("learnt-comparisons-two-over", blocks=11, long_time="3 h"))
    assert (row.low, row.high, row.verdict) == (1.545, 1.555, "slower")  # what was measured stays


def test_steady_comparisons_narrow_it():
    a, b = made("a", [1e-3] * 5, sigma=0.05), made("b", [1.5e-3] * 5, sigma=0.01)
    alone, many = (with_reruns(compared(a, b), lambda machine, past=past: past).comparisons[0]
                   for past in ([], earlier([1.5, 1.501] * 15)))  # fmt: skip
    assert math.log(many.rerun_high / many.rerun_low) < math.log(alone.rerun_high / alone.rerun_low) / 3


def test_too_few_comparisons_teach_nothing_and_the_own_one_counts_once():
    a, b = made("a", [1e-3] * 5), made("b", [1.5e-3] * 5)
    own = [replace(each, group="now") for each in earlier([1.5] * 6)]  # saved at every look
    for past in (earlier([1.5]), own):
        (row,) = with_reruns(compared(a, b), lambda machine, past=past: past).comparisons
        assert row.rerun_method.endswith("too few comparisons")


@pytest.mark.parametrize("changes", [{"design": "sessions"}, {"metric": "memory_peak"}, {"low": None, "high": None}])
def test_only_headlines_of_turns_have_one(changes):
    found = with_reruns(compared(made("a", [1e-3] * 3), made("b", [1e-3] * 3), **changes), lambda machine: [])
    assert found.comparisons[0].rerun_low is None


def test_the_kernels_are_told_beside_their_usual_times():
    a, b = (made(name, [1e-3] * 4, copy=1.5e-3) for name in "ab")
    lines = with_reruns(compared(a, b), lambda machine: earlier([1.5] * 4)).conditions
    assert lines == (
        "arithmetic in the cache: 1.00× its usual time, readings within 1.00×",
        "copying in memory: 1.50× its usual time, readings within 1.00×",
    )


def test_a_store_that_can_not_be_read_tells_nothing():
    def broken(machine):
        raise StoreError("no")

    (row,) = with_reruns(compared(made("a", [1e-3] * 3), made("b", [1.5e-3] * 3)), broken).comparisons
    assert row.rerun_low is not None


def test_intervals_hold_on_a_machine_whose_hours_differ():
    """Ratios wander by 10 % between comparisons that are an order of magnitude more exact within."""
    random, held = np.random.default_rng(1), 0
    for _ in range(200):
        truth = np.exp(random.normal(0.4, 0.1, 9))
        a, b = made("a", [1e-3] * 5), made("b", 1e-3 * truth[-1] * np.exp(random.normal(0, 0.01, 5)))
        ratio = truth[-1]
        result = compared(a, b, ratio=ratio, low=ratio / 1.01, high=ratio * 1.01)
        (row,) = with_reruns(result, lambda machine, past=earlier(truth[:-1]): past).comparisons
        held += row.rerun_low <= math.exp(0.4) <= row.rerun_high
    assert 180 <= held <= 199
