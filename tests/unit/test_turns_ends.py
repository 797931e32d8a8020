"""Comparisons whose workers end badly, or whose budget ends: what counts is kept, and each end has its cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import edgewise
from edgewise.comparing.comparison import ComparisonResult
from edgewise.progress import Event, SessionStarted, reporting_to
from edgewise.testing import write_fake_model
from messages import is_in, says, wording

MS = 1_000_000


@pytest.fixture(autouse=True)
def few_turns(monkeypatch, threads):
    """What is tested here happens in some turns as well as in a hundred: `in_a_turn` within the first ten."""
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)


def model(folder: Path, name: str, **script) -> Path:
    return write_fake_model(folder / name, **{"latency_ns": [MS], **script})


def behaving(at: str, do: str, *, after: int = 0, touch: Path | None = None) -> dict[str, object]:
    return {"behaviour": {"at": at, "do": do, "after": after, **({"touch": str(touch)} if touch else {})}}


def in_a_turn(do: str, **settings) -> dict[str, object]:
    """Misbehaves after the warm-up, which has some 100 inferences of 1 ms and more."""
    return behaving("invoke", do, after=150, **settings)


def compare(*paths: Path, **settings) -> ComparisonResult:
    return edgewise.compare(list(paths), **{"rounds": 1, "timeout": 120.0, **settings})


@pytest.mark.parametrize(
    ("script", "cause", "words"),
    [
        pytest.param(in_a_turn("segfault"), "EngineError", wording("engine-crashed-phase", phase="steady", name="SIGSEGV"), id="crash"),
        pytest.param(in_a_turn("exit"), "EngineError", says("worker-exited-phase-exit-code", code=7), id="exit"),
        pytest.param(in_a_turn("garbage"), "Garbage", says("worker-broke-protocol"), id="garbage"),
        pytest.param(in_a_turn("raise"), "EngineError", "the script says so", id="raise"),
        pytest.param(in_a_turn("memory-error"), "OutOfMemory", "", id="memory"),
        pytest.param(in_a_turn("close-channel"), "EngineError", says("worker-exited-phase-exit-code"), id="silence"),
        pytest.param(behaving("load", "unsupported"), "Unsupported", "the script says so", id="load"),
    ],
)  # fmt: skip
def test_a_worker_that_ends_in_a_turn_is_a_failed_run_with_its_cause(tmp_path, script, cause, words):
    findings = compare(model(tmp_path, "a.fake"), model(tmp_path, "b.fake", **script))
    a, b = (variant.run for variant in findings.variants)
    assert (a.status, b.status) == ("cancelled", "failed")
    assert b.failure.cause == cause and is_in(words, b.failure.message), b.failure
    assert findings.pairs == 0 and "b.fake" in findings.failures


@pytest.mark.parametrize("do", ["hang", "spin"])
def test_a_worker_that_hangs_in_a_turn_is_killed_at_its_deadline(tmp_path, clock, do):
    begin = clock.now()
    findings = compare(model(tmp_path, "a.fake"), model(tmp_path, "b.fake", **in_a_turn(do)), timeout=30.0)
    assert clock.now() - begin == 30.0
    failure = findings.variants[1].run.failure
    assert failure.cause == "Timeout" and failure.phase == "steady" and "30 s" in failure.message


def test_a_crash_at_load_in_the_third_round_leaves_two(tmp_path, threads):
    paths = [model(tmp_path, "a.fake"), model(tmp_path, "b.fake", latency_ns=[2 * MS])]

    def sabotage(event: Event) -> None:
        if isinstance(event, SessionStarted) and event.index == 2:
            model(tmp_path, "b.fake", **behaving("load", "segfault"))

    with reporting_to(sabotage):
        findings = compare(*paths, rounds=4)
    a, b = (variant.run for variant in findings.variants)
    assert (a.status, b.status) == ("done", "failed")
    assert [len(run.sessions) for run in (a, b)] == [2, 2]
    assert b.failure.signal == "SIGSEGV" and b.failure.phase == "load"
    assert b.value("latency") == pytest.approx(2e-3)
    assert len(threads.jobs) == 6  # fresh workers in every round


# --- the budget ---


@pytest.mark.parametrize(
    "script", [behaving("load", "hang"), in_a_turn("spin")], ids=["hangs when loading", "spins in a turn"]
)
def test_a_budget_is_not_outlasted_by_a_worker_that_hangs(tmp_path, clock, script):
    begin = clock.now()
    findings = compare(model(tmp_path, "a.fake"), model(tmp_path, "b.fake", **script), time_budget=1.5)
    assert clock.now() - begin == 1.5  # the timeout is 120 s
    failed = [variant.run.failure for variant in findings.variants if variant.run.failure]
    assert [failure.cause for failure in failed] == ["Timeout"]
    assert re.search(says("time-budget-ended-phase-so"), failed[0].message) and "--time-budget" in failed[0].advice


def closing(line) -> None:
    """A worker that closes its channel and stays."""
    line.say_hello()
    line.close()
    line.sleep()


def test_a_budget_is_not_outlasted_by_a_worker_that_closes_the_channel_and_stays(tmp_path, clock, threads):
    threads.parts = {("a.fake", 0): closing, ("b.fake", 0): closing}
    begin = clock.now()
    compare(model(tmp_path, "a.fake"), model(tmp_path, "b.fake"), time_budget=0.5)
    assert clock.now() - begin == 0.5  # it would be waited for for 10 s
