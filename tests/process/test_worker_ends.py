"""Every way a worker can end is a stored run with its cause, and the other jobs go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import edgewise
from edgewise.testing import write_fake_model

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
        ("invoke", "exit", "EngineError", "exit code"),
        ("load", "unsupported", "Unsupported", ""),
        ("load", "invalid", "BadModel", ""),
        ("invoke", "memory-error", "OutOfMemory", ""),
        ("first", "garbage", "Garbage", "protocol"),
        ("invoke", "close-channel", "EngineError", "exit code"),
    ],
)
def test_a_bad_end_is_a_run_with_its_cause(tmp_path, at, do, cause, words):
    (run,) = edgewise.bench(model(tmp_path, **behaving(at, do)), **QUICK)
    assert run.status == "failed"
    assert run.failure.cause == cause, run.failure
    assert words in run.failure.message + (run.failure.signal or "")
    assert run.failure.phase
    assert run.trust.grade == "D"


@pytest.mark.parametrize("do", ["hang", "spin"])
def test_a_hang_is_killed_at_its_deadline(tmp_path, do):
    (run,) = edgewise.bench(model(tmp_path, **behaving("invoke", do)), timeout=1.0, **QUICK)
    assert run.failure.cause == "Timeout"
    assert run.failure.phase == "steady"
    assert "1 s" in run.failure.message


def test_a_model_that_allocates_until_the_limit_is_out_of_memory_not_a_dead_machine(tmp_path):
    (run,) = edgewise.bench(model(tmp_path, **behaving("load", "allocate")), memory_limit=400 * 2**20, **QUICK)
    assert run.status == "failed"
    assert run.failure.cause == "OutOfMemory"


def test_a_later_session_that_crashes_fails_the_run_and_keeps_what_was_measured(tmp_path):
    flag = tmp_path / "second-time"
    path = model(tmp_path)
    # The fake can't count processes, so the second session finds another file: the model is replaced in between.
    from edgewise.run import dispatch

    original = dispatch.Dispatcher._run_session

    def replacing(self, job, *, index, folder, transport):
        if index == 1:
            write_fake_model(path, latency_ns=[1], **behaving("load", "segfault"))
            flag.touch()
        return original(self, job, index=index, folder=folder, transport=transport)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch.Dispatcher, "_run_session", replacing)
        (run,) = edgewise.bench(path, sessions=3, **QUICK)
    assert flag.exists()
    assert run.status == "failed"
    assert run.failure.signal == "SIGSEGV"
    assert run.value("latency") == pytest.approx(1e-3)
    assert len(run.sessions) == 1


def test_the_other_jobs_go_on(tmp_path):
    bad = model(tmp_path, "bad.fake", **behaving("load", "segfault"))
    good = model(tmp_path, "good.fake")
    runs = edgewise.bench([bad, good, bad, good], **QUICK)
    assert [run.status for run in runs] == ["failed", "done", "failed", "done"]


def test_a_worker_that_is_killed_from_outside(tmp_path):
    path = model(tmp_path, **behaving("invoke", "hang"))
    process = start_bench(path, tmp_path)
    worker = wait_for_worker(process)
    os.kill(worker.pid, signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert "Killed" in out + err


def test_no_worker_survives_its_killed_parent(tmp_path):
    for do in ("hang", "spin"):
        process = start_bench(model(tmp_path, **behaving("invoke", do)), tmp_path)
        worker = wait_for_worker(process)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs([worker], timeout=20)
        assert not alive, do


def test_ctrl_c_keeps_what_was_finished(tmp_path):
    good = model(tmp_path, "good.fake")
    hanging = model(tmp_path, "hanging.fake", **behaving("invoke", "hang"))
    process = start_bench(good, tmp_path, hanging)
    worker = wait_for_worker(process, needle="hanging.fake")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "good.fake" in out
    assert "interrupted" in err
    psutil.wait_procs([worker], timeout=20)
    with edgewise.open_store(f"sqlite:///{tmp_path}/store.db") as store:
        stored = store.resolve(["all"])
    assert {(run.job.model.name, run.status) for run in stored} >= {("good.fake", "done")}


def start_bench(path, tmp_path, *more):
    command = [
        sys.executable, "-m", "edgewise", "bench", str(path), *map(str, more), "--iterations", "3", "--warmup", "1",
        "--no-meters", "--store", f"sqlite:///{tmp_path}/store.db",
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_worker(process, needle=None):
    """The worker process once it is inside the behaviour under test."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children(recursive=True):
            if "edgewise.run.worker" in " ".join(child.cmdline()) and reached(child, needle):
                return child
        time.sleep(0.05)
    raise AssertionError("no worker appeared")


def reached(child, needle):
    """Whether the fake says, through its marker file descriptor, that it has begun to misbehave."""
    try:
        threads = Path(f"/proc/{child.pid}/comm").read_text()
        if needle is None:
            return child.create_time() < time.time() - 1.0 and bool(threads)
        return (
            child.create_time() < time.time() - 1.0 and any(needle in f.path for f in child.open_files())
        ) or _second(child)
    except (psutil.Error, OSError):
        return False


def _second(child):
    return child.create_time() < time.time() - 1.5
