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
from edgewise.errors import StoreError
from edgewise.record import Failure
from edgewise.run.host import _blame_limit
from edgewise.testing import write_fake_model
from tiny_models import write_tiny_onnx

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
    (run,) = edgewise.bench(model(tmp_path, **behaving("invoke", do)), timeout=3.0, **QUICK)
    assert run.failure.cause == "Timeout"
    assert run.failure.phase == "steady"
    assert "3 s" in run.failure.message


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
def test_a_worker_that_talks_nonsense_is_a_failed_run(tmp_path, monkeypatch, said):
    code = f"import sys; sys.stdin.readline(); print({said!r}, flush=True)"
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: (sys.executable, "-c", code))
    (run,) = edgewise.bench(model(tmp_path), **QUICK)
    assert run.status == "failed"
    assert run.failure.cause == "Garbage"


def test_a_child_that_keeps_the_channel_open_does_not_hide_the_crash(tmp_path, monkeypatch):
    """The worker forks a sleeper, as an engine may, and dies: the end is seen at once and not at the deadline."""
    code = (
        "import os, sys, time, signal\n"
        "sys.stdin.readline()\n"
        "if os.fork() == 0:\n    time.sleep(600)\n"
        "os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: (sys.executable, "-c", code))
    (run,) = edgewise.bench(model(tmp_path), timeout=300.0, **QUICK)
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


def test_python_is_warned_of_runs_that_were_not_saved(tmp_path):
    class FullStore:
        def save(self, run):
            raise StoreError("disk full")

        def readings(self, machine):
            return []

    with pytest.warns(RuntimeWarning, match="disk full"):
        (run,) = edgewise.bench(model(tmp_path), store=FullStore(), **QUICK)
    assert run.status == "done"


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
        _, alive = psutil.wait_procs([worker], timeout=60)
    assert not alive


def test_ctrl_c_keeps_what_was_finished(tmp_path):
    with benching(tmp_path, model(tmp_path, "good.fake"), hanging(tmp_path)) as process:
        worker = worker_of(process, tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        _, alive = psutil.wait_procs([worker], timeout=60)
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
@pytest.mark.long
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
    while not file.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.0005)  # the process needs the core


def test_a_slow_schedule_is_not_a_hang(tmp_path):
    """Sixty arrivals at 10 a second take 6 s of the wall clock; a timeout of 4 s is for silence, not for that."""
    path = tmp_path / "m.onnx"
    write_tiny_onnx(path)
    pytest.importorskip("onnxruntime")
    (run,) = edgewise.bench(
        path, runtimes=["onnxruntime"], scenario="paced", fps=10, iterations=60, timeout=4.0, meters=False
    )
    assert run.status == "done", run.failure


@pytest.mark.parametrize(
    ("message", "tail", "cause"),
    [
        ("OpenVINO sees no CPU", "", "EngineError"),
        ("the worker ended", "OpenBLAS error: Memory allocation still failed", "OutOfMemory"),
        ("std::bad_alloc", "", "OutOfMemory"),
    ],
)
def test_a_memory_limit_is_named_when_a_worker_dies_under_it(message, tail, cause):
    failure = _blame_limit(Failure(cause="EngineError", message=message, stderr_tail=tail), 30_000_000, "--memory")
    assert failure.cause == cause
    assert "the memory limit of 30.0 MB" in failure.message + failure.advice


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
    deadline = time.monotonic() + 60
    while not (tmp_path / "reached").exists():
        assert time.monotonic() < deadline and process.poll() is None, "the worker never misbehaved"
        time.sleep(0.02)
    (worker,) = psutil.Process(process.pid).children()
    return worker
