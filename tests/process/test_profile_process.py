"""Processes that are ended while layers are timed: the latency that was measured before is kept, and nothing is left.

How else they end: tests/unit/test_profile_failures.py, and test_worker_ends_process.py for what only processes do.
"""

import contextlib
import os
import signal
import subprocess
import sys

import psutil
import pytest

import edgewise
from edgewise.record import Peak
from edgewise.testing import write_fake_model
from patience import wait_until

GRAPH = {"operators": [{"name": "relu", "op": "Relu", "kind": "activation", "geometry": {"activation": "relu"},
                        "inputs": ["x"], "outputs": ["y"]}]}  # fmt: skip
SCRIPT = {
    "inputs": [{"name": "x", "shape": [1, 4], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": [1, 4], "dtype": "float32"}],
    "latency_ns": [1_000_000],
    "layers": [{"name": "relu", "op": "Relu", "originals": ["relu"], "times_ns": [900_000]}],
    "graph": GRAPH,
}
PEAKS = (Peak(kind="bandwidth", threads=1, size_bytes=2**20, value=2e9, method="given"),)


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Peaks are given."""
    monkeypatch.setattr("edgewise.run.peaks.find_peaks", lambda dtypes, threads, **_: (PEAKS, None))


def model(tmp_path, name="m.fake", **script):
    return write_fake_model(tmp_path / name, **(SCRIPT | script))


def behaving(do, **more):
    return {"behaviour": {"at": "profile", "do": do, **more}}


def check_kept(run, *reasons):
    """The run has its latency and nothing of a profile but the reason for its absence."""
    assert run.status == "done" and run.failure is None
    assert run.value("latency") == pytest.approx(1e-3)
    assert (run.layers, run.profile) == ((), None)
    for reason in reasons:
        assert reason in run.profile_absent_because, run.profile_absent_because


def test_a_worker_that_is_killed_from_outside(tmp_path):
    path = model(tmp_path, **behaving("hang", touch=str(tmp_path / "reached")))
    with profiling(tmp_path, path) as process:
        os.kill(worker_of(process, tmp_path).pid, signal.SIGKILL)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 4, err
    assert "Killed" in out and "1.00" in out
    (run,) = stored(tmp_path)
    check_kept(run, "Killed: ")


def test_ctrl_c_in_the_profile_keeps_the_latency(tmp_path):
    path = model(tmp_path, **behaving("hang", touch=str(tmp_path / "reached")))
    with profiling(tmp_path, path) as process:
        worker = worker_of(process, tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        _, alive = psutil.wait_procs([worker], timeout=600)
    assert process.returncode == 130, err
    assert not alive
    assert "interrupted" in err and "Traceback" not in err
    assert "m.fake" in out and "interrupted while layers were timed" in " ".join(out.split())
    (run,) = stored(tmp_path)
    assert (run.status, run.layers) == ("cancelled", ())
    assert run.value("latency") == pytest.approx(1e-3)
    assert "interrupted" in run.profile_absent_because


def stored(tmp_path):
    with edgewise.open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        return store.resolve(["all"])


@contextlib.contextmanager
def profiling(tmp_path, path):
    """`edgewise profile` as a process of its own, reaped whatever happens."""
    command = [
        sys.executable, "-m", "edgewise", "profile", str(path), "-r", "fake", "--sessions", "1",
        "--store", f"sqlite:///{tmp_path / 'store.db'}",
    ]  # fmt: skip
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
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
