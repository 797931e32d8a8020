"""Every way a worker can end is a stored run with its cause, and the other jobs go on."""

import contextlib
import os
import signal
import subprocess
import sys
import time

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
    with benching(tmp_path, hanging(tmp_path)) as process:
        os.kill(worker_of(process, tmp_path).pid, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert "Killed" in out + err


@pytest.mark.parametrize("do", ["hang", "spin"])
def test_no_worker_survives_its_killed_parent(tmp_path, do):
    with benching(tmp_path, hanging(tmp_path, do)) as process:
        worker = worker_of(process, tmp_path)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs([worker], timeout=20)
    assert not alive


def test_ctrl_c_keeps_what_was_finished(tmp_path):
    with benching(tmp_path, model(tmp_path, "good.fake"), hanging(tmp_path)) as process:
        worker = worker_of(process, tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        _, alive = psutil.wait_procs([worker], timeout=20)
    assert process.returncode == 130, err
    assert not alive
    assert "good.fake" in out
    assert "interrupted" in err and "Traceback" not in err
    with edgewise.open_store(f"sqlite:///{tmp_path}/store.db") as store:
        stored = {(run.job.model.name, run.status) for run in store.resolve(["all"])}
    assert ("good.fake", "done") in stored


def test_a_killed_parent_leaves_a_readable_store_with_what_was_finished(tmp_path):
    with benching(tmp_path, model(tmp_path, "good.fake"), hanging(tmp_path)) as process:
        worker_of(process, tmp_path)
        process.kill()
        process.wait()
    with edgewise.open_store(f"sqlite:///{tmp_path}/store.db") as store:
        stored = {(run.job.model.name, run.status) for run in store.resolve(["all"])}
    assert stored == {("good.fake", "done")}


def test_parents_killed_at_any_moment_leave_a_readable_store(tmp_path):
    """The parent dies after 0, 60, 120 … ms: whatever it was doing then, the store opens and holds only whole runs."""
    path = model(tmp_path)
    for step in range(12):
        with benching(tmp_path, *[path] * 20) as process:
            time.sleep(0.06 * step + (0.7 if step > 3 else 0.0))
            process.kill()
            process.wait()
        if (tmp_path / "store.db").exists():
            with edgewise.open_store(f"sqlite:///{tmp_path}/store.db") as store:
                assert all(run.status == "done" for run in store.resolve(["all"]))


def hanging(tmp_path, do="hang"):
    """A model that never ends its second inference and leaves a mark when it begins it."""
    behaviour = {"at": "invoke", "do": do, "touch": str(tmp_path / "reached")}
    return model(tmp_path, "hanging.fake", behaviour=behaviour)


@contextlib.contextmanager
def benching(tmp_path, *paths):
    """`edgewise bench` as a process of its own, reaped whatever happens."""
    command = [
        sys.executable, "-m", "edgewise", "bench", *map(str, paths), "--iterations", "3", "--warmup", "1",
        "--no-meters", "--store", f"sqlite:///{tmp_path}/store.db",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def worker_of(process, tmp_path):
    """The worker once it is inside the behaviour under test."""
    deadline = time.monotonic() + 60
    while not (tmp_path / "reached").exists():
        assert time.monotonic() < deadline and process.poll() is None, "the worker never misbehaved"
        time.sleep(0.02)
    (worker,) = psutil.Process(process.pid).children()
    return worker
