"""Every way a worker can end is a stored run with its cause, and the other jobs go on."""

import re

import pytest

import edgewise
from edgewise.errors import StoreError
from edgewise.record import Failure
from edgewise.run.host import _blame_limit
from edgewise.testing import write_fake_model
from messages import says

pytestmark = pytest.mark.usefixtures("threads")

QUICK = {"iterations": 3, "warmup": 1, "meters": False}


def model(tmp_path, name="m.fake", **script):
    path = tmp_path / name
    write_fake_model(path, latency_ns=[1_000_000], **script)
    return path


def behaving(at, do, after=0):
    return {"behaviour": {"at": at, "after": after, "do": do}}


@pytest.mark.parametrize(
    ("at", "do", "cause", "words"),
    [
        ("import", "raise", "EngineError", "import"),
        ("load", "segfault", "EngineError", "SIGSEGV"),
        ("first", "abort", "EngineError", "SIGABRT"),
        ("invoke", "exit", "EngineError", says("worker-exited-phase-exit-code")),
        ("load", "unsupported", "Unsupported", ""),
        ("load", "invalid", "BadModel", ""),
        ("invoke", "memory-error", "OutOfMemory", ""),
        ("first", "garbage", "Garbage", "protocol"),
        ("invoke", "close-channel", "EngineError", says("worker-exited-phase-exit-code")),
    ],
)
def test_a_bad_end_is_a_run_with_its_cause(tmp_path, at, do, cause, words):
    (run,) = edgewise.bench(model(tmp_path, **behaving(at, do)), **QUICK)
    assert run.status == "failed"
    assert run.failure.cause == cause, run.failure
    assert re.search(words, run.failure.message + (run.failure.signal or ""))
    assert run.failure.phase
    assert run.trust.grade == "D"


@pytest.mark.parametrize("do", ["hang", "spin"])
@pytest.mark.parametrize("at", ["load", "first", "invoke"])
def test_a_hang_is_killed_at_its_deadline(tmp_path, clock, at, do):
    begin = clock.now()
    (run,) = edgewise.bench(model(tmp_path, **behaving(at, do)), timeout=30.0, **QUICK)
    assert clock.now() - begin == 30.0
    assert run.failure.cause == "Timeout"
    assert run.failure.phase == {"invoke": "steady"}.get(at, at)
    assert "30 s" in run.failure.message


def test_a_later_session_that_crashes_fails_the_run_and_keeps_what_was_measured(tmp_path):
    flag = tmp_path / "second-time"
    path = model(tmp_path)
    # The fake can't count processes, so the second session finds another file: the model is replaced in between.
    from edgewise.run import dispatch

    original = dispatch.Dispatcher._run_session

    def replacing(self, job, *, index, folder):
        if index == 1:
            write_fake_model(path, latency_ns=[1], **behaving("load", "segfault"))
            flag.touch()
        return original(self, job, index=index, folder=folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch.Dispatcher, "_run_session", replacing)
        (run,) = edgewise.bench(path, sessions=3, **QUICK)
    assert flag.exists()
    assert run.status == "failed"
    assert run.failure.signal == "SIGSEGV"
    assert run.value("latency") == pytest.approx(1e-3)
    assert len(run.sessions) == 1


@pytest.mark.parametrize(
    "said",
    [
        '{"kind":"done"}',
        '{"kind":"hello","protocol":1,"pid":Infinity,"python":"3","started_ns":0}',
        '{"kind":"facts","values":[1]}',
        '{"kind":"samples","name":"latency","values_ns":["x"]}',
        '{"kind":"phase","name":"load","event":"end","at_ns":1}',
    ],
)
def test_a_worker_that_talks_nonsense_is_a_failed_run(tmp_path, threads, said):
    threads.parts = {("m.fake", 0): lambda line: line.write(said.encode() + b"\n")}
    (run,) = edgewise.bench(model(tmp_path), **QUICK)
    assert run.status == "failed"
    assert run.failure.cause == "Garbage"


def test_a_worker_that_closes_its_channel_and_stays_is_waited_for_a_little(tmp_path, threads, clock):
    """How it ends would be the failure's text; it does not end."""

    def part(line):
        line.say_hello()
        line.close()
        line.sleep()

    threads.parts = {("m.fake", 0): part}
    begin = clock.now()
    (run,) = edgewise.bench(model(tmp_path), **QUICK)
    assert (run.status, run.failure.cause) == ("failed", "Killed")
    assert clock.now() - begin == 10.0


def test_a_slow_schedule_is_not_a_hang(tmp_path, threads, clock):
    """Sixty arrivals at 10 a second take 6 s; a timeout of 4 s is for silence, not for that."""

    def part(line):
        line.say_hello()
        line.send("phase", name="steady", event="begin", at_ns=0)
        line.sleep(4.05)  # 0.1 s of it is the schedule's
        line.send("alive")
        line.sleep(4.05)
        line.send("alive")
        line.sleep()

    threads.parts = {("m.fake", 0): part}
    begin = clock.now()
    (run,) = edgewise.bench(model(tmp_path), scenario="paced", fps=10, timeout=4.0, **QUICK)
    assert run.failure.cause == "Timeout"
    assert clock.now() - begin == pytest.approx(2 * 4.05 + 4.1)


def test_the_other_jobs_go_on(tmp_path):
    bad = model(tmp_path, "bad.fake", **behaving("load", "segfault"))
    good = model(tmp_path, "good.fake")
    runs = edgewise.bench([bad, good, bad, good], **QUICK)
    assert [run.status for run in runs] == ["failed", "done", "failed", "done"]


def test_python_is_warned_of_runs_that_were_not_saved(tmp_path):
    class FullStore:
        def save(self, run):
            raise StoreError("disk full")

        def readings(self, machine):
            return []

    with pytest.warns(RuntimeWarning, match="disk full"):
        (run,) = edgewise.bench(model(tmp_path), store=FullStore(), **QUICK)
    assert run.status == "done"


@pytest.mark.parametrize(
    ("message", "tail", "cause"),
    [
        ("OpenVINO sees no CPU", "", "EngineError"),
        ("the worker ended", "OpenBLAS error: Memory allocation still failed", "OutOfMemory"),
        ("std::bad_alloc", "", "OutOfMemory"),
    ],
)
def test_a_memory_limit_is_named_when_a_worker_dies_under_it(message, tail, cause):
    told = Failure(cause="EngineError", message=message, stderr_tail=tail)
    for reached in (False, True):
        failure = _blame_limit(told, 30_000_000, "--memory", reached=reached)
        assert failure.cause == cause
        assert "the memory limit of 30 MB (28.6 MiB)" in failure.message + failure.advice
        assert ("was reached" in failure.message) == (reached and cause == "OutOfMemory")
