"""What only processes do when they end, and what is left then; each cause of a failure: tests/unit/test_worker_ends.py."""

import contextlib
import os
import signal
import subprocess
import sys

import psutil
import pytest

import edgewise
import warm_start
from edgewise.testing import write_fake_model
from messages import wording
from patience import wait_until

pytestmark = pytest.mark.cold

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
        ("load", "segfault", "EngineError", "SIGSEGV"),
        ("first", "abort", "EngineError", "SIGABRT"),
        ("invoke", "exit", "EngineError", "exit code"),
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


def test_a_worker_of_another_version_is_told_with_what_to_do(tmp_path, monkeypatch):
    """It was said to be the model's fault: try another runtime, or convert it."""
    monkeypatch.setattr("edgewise.run.host_protocol.PROTOCOL", 2)
    (run,) = edgewise.bench(model(tmp_path), **QUICK)
    assert run.failure.cause == "Unavailable" and run.failure.advice == ""
    assert run.failure.message == wording("host-speaks-protocol-worker", protocol=1, job=2)


@pytest.mark.parametrize("do", ["hang", "spin"])
def test_a_hang_is_killed_at_its_deadline(tmp_path, clock, do):
    begin, clock.silent_when = clock.now(), (tmp_path / "reached").exists
    (run,) = edgewise.bench(hanging(tmp_path, do), timeout=600.0, **QUICK)
    assert clock.now() - begin == 600.0
    assert (run.failure.cause, run.failure.phase) == ("Timeout", "steady")
    assert not warm_start.children()


def test_a_model_that_allocates_until_the_limit_is_out_of_memory_not_a_dead_machine(tmp_path):
    (run,) = edgewise.bench(model(tmp_path, **behaving("load", "allocate")), memory_limit=400 * 2**20, **QUICK)
    assert run.status == "failed"
    assert run.failure.cause == "OutOfMemory"


def test_a_child_that_keeps_the_channel_open_does_not_hide_the_crash(tmp_path, monkeypatch):
    """The worker forks a sleeper, as an engine may, and dies: the end is seen at once and not at the deadline."""
    code = (
        "import os, sys, time, signal\n"
        "sys.stdin.readline()\n"
        "if os.fork() == 0:\n    time.sleep(600)\n"
        "os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: (sys.executable, "-c", code))
    (run,) = edgewise.bench(model(tmp_path), timeout=600.0, **QUICK)
    assert run.failure.signal == "SIGSEGV"


def test_many_open_files_are_no_obstacle(tmp_path):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1300:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1300), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        (run,) = edgewise.bench(model(tmp_path), **QUICK)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert run.status == "done"


def test_a_worker_that_is_killed_from_outside(tmp_path):
    with benching(tmp_path, hanging(tmp_path)) as process:
        os.kill(worker_of(process, tmp_path).pid, signal.SIGKILL)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 4, err
    assert "Killed" in out + err


@pytest.mark.parametrize("do", ["hang", "spin"])
def test_no_worker_survives_its_killed_parent(tmp_path, do):
    with benching(tmp_path, hanging(tmp_path, do)) as process:
        worker = worker_of(process, tmp_path)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs([worker], timeout=600)
    assert not alive


def test_ctrl_c_keeps_what_was_finished(tmp_path):
    with benching(tmp_path, model(tmp_path, "good.fake"), hanging(tmp_path)) as process:
        worker = worker_of(process, tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        _, alive = psutil.wait_procs([worker], timeout=600)
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


@pytest.mark.slow
def test_parents_killed_at_any_moment_leave_a_readable_store(tmp_path):
    """Killed while the store is being made, while its first run is written, and after runs 1 and 3 were announced."""
    path = model(tmp_path)
    counts = []
    for moment in ("exists", "wal", 1, 3):
        database = tmp_path / f"store-{moment}.db"
        with benching(tmp_path, *[path] * 8, store=database) as process:
            wait_for(moment, process, database)
            process.kill()
            process.wait()
        with edgewise.open_store(f"sqlite:///{database}") as store:
            runs = store.resolve(["all"]) if store.list() else []
        assert all(run.status == "done" and run.value("latency") for run in runs)
        counts.append(len(runs))
        if isinstance(moment, int):
            assert len(runs) >= moment  # a run is saved before it is announced
    assert counts[0] < counts[-1]


def wait_for(moment, process, database):
    """Until the store's file or its log appears, or so many runs were announced on standard error."""
    if isinstance(moment, int):
        for _ in range(moment):
            process.stderr.readline()
        return
    file = database if moment == "exists" else database.with_name(database.name + "-wal")
    wait_until(file.exists, process)


def hanging(tmp_path, do="hang"):
    """A model that never ends its second inference and leaves a mark when it begins it."""
    behaviour = {"at": "invoke", "do": do, "touch": str(tmp_path / "reached")}
    return model(tmp_path, "hanging.fake", behaviour=behaviour)


@contextlib.contextmanager
def benching(tmp_path, *paths, store=None):
    """`edgewise bench` as a process of its own, reaped whatever happens."""
    command = [
        sys.executable, "-m", "edgewise", "bench", *map(str, paths), "--iterations", "3", "--warmup", "1", "--sessions", "1",
        "--no-meters", "--store", f"sqlite:///{store or tmp_path / 'store.db'}",
    ]  # fmt: skip
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def worker_of(process, tmp_path):
    """The worker once it is inside the behaviour under test."""
    wait_until((tmp_path / "reached").exists, process)
    (worker,) = psutil.Process(process.pid).children()
    return worker
