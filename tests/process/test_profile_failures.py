"""Whatever happens while layers are timed, the latency that was measured before is kept, and the reason is told."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

import edgewise
from edgewise.cli.main import run as command_line
from edgewise.record import Peak
from edgewise.testing import write_fake_model

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
    """Peaks are given, and one process times layers where a test does not ask for more."""
    monkeypatch.setattr("edgewise.run.profiled.SESSIONS", 1)
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


ENDS = [
    ("segfault", "SIGSEGV"),
    ("abort", "SIGABRT"),
    ("exit", "exit code 7"),
    ("garbage", "Garbage: "),
    ("close-channel", "phase 'profile'"),
    ("memory-error", "OutOfMemory: "),
    ("raise", "RuntimeError: the script says so, at profile"),
]


@pytest.mark.parametrize(("do", "reason"), ENDS)
def test_a_bad_end_of_the_profile_costs_no_latency(tmp_path, do, reason):
    (run,) = edgewise.profile(model(tmp_path, **behaving(do)), sessions=1)
    check_kept(run, reason)


@pytest.mark.parametrize("do", ["hang", "spin"])
def test_a_hang_is_killed_at_its_deadline(tmp_path, do):
    (run,) = edgewise.profile(model(tmp_path, **behaving(do)), sessions=1, timeout=3.0)
    check_kept(run, "Timeout: ", "phase 'profile'", "3 s")


@pytest.mark.parametrize(
    ("do", "code"), [("segfault", 4), ("garbage", 4), ("memory-error", 4), ("raise", 4), ("cannot-profile", 3)]
)
def test_the_command_line_tells_a_failure_from_an_inability(tmp_path, capsys, do, code):
    path = model(tmp_path, **behaving(do))
    assert command_line(["profile", str(path), "-r", "fake", "--sessions", "1", "-q", "--no-store", "--json"]) == code
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["status"] == "done" and run["profile"] is None and run["profile_absent_because"]


def test_the_other_models_are_profiled(tmp_path):
    bad = model(tmp_path, "bad.fake", **behaving("segfault"))
    runs = edgewise.profile([bad, model(tmp_path, "good.fake")], sessions=1)
    assert [bool(run.profile) for run in runs] == [False, True]
    assert [run.status for run in runs] == ["done"] * 2


def speaking(said):
    """A worker that is the real one but for what it says when it is to time layers."""
    return (
        "import json, os, runpy, sys\n"
        "line = b''\n"
        "while not line.endswith(b'\\n'): line += os.read(0, 1)\n"
        "if json.loads(line)['mode'] == 'layers':\n"
        f"    os.write(1, {said!r} + b'\\n')\n"
        "    sys.exit(0)\n"
        "read, write = os.pipe()\n"
        "os.write(write, line)\n"
        "os.dup2(read, 0)\n"
        "runpy.run_module('edgewise.run.worker', run_name='__main__')\n"
    )


PROFILE = {
    "method": "m", "resolution_ns": 1, "truncates": False, "overheads": [], "inference_ns": [5], "ordered": True,
    "notes": [],
    "nodes": [{"name": "relu", "op": "Relu", "times_ns": [5], "role": "operator", "kinds": [], "originals": ["relu"],
               "inputs": [], "outputs": [], "start_ns": None, "provider": None, "dtype": None, "detail": {}}],
}  # fmt: skip


def layers_message(**changes):
    return json.dumps({"kind": "layers", "profile": PROFILE | changes}).encode()


def node(**changes):
    return {"nodes": [PROFILE["nodes"][0] | changes]}


@pytest.mark.parametrize(
    "said",
    [
        b'{"kind":"done"}',
        b'{"kind":"layers","profile":[]}',
        b'{"kind":"layers","profile":{}}',
        layers_message(**node(times_ns=[float("inf")])),
    ],
)
def test_a_worker_that_talks_nonsense_of_layers(tmp_path, monkeypatch, said):
    """What else is no profile is refused by `read_profile`: tests/unit/test_profiling_step_times.py."""
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: (sys.executable, "-c", speaking(said)))
    (run,) = edgewise.profile(model(tmp_path), sessions=1)
    check_kept(run, "Garbage: ")


@pytest.mark.parametrize(
    "changes",
    [node(), node(times_ns=[0]), node(originals=["no such operator", ""]), {"inference_ns": [0]}, {"nodes": []}],
)
def test_odd_layers_are_layers(tmp_path, monkeypatch, changes):
    """What a worker may tell is turned into rows that add up, or the profile is absent; nothing breaks."""
    said = layers_message(**changes) + b'\n{"kind":"done"}'
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: (sys.executable, "-c", speaking(said)))
    (run,) = edgewise.profile(model(tmp_path), sessions=1)
    assert run.status == "done"
    parts = sum(layer.time or 0.0 for layer in run.layers)
    nameless = [layer.time for layer in run.layers if layer.op == "not attributed"]
    assert parts - sum(nameless) + run.profile.unattributed == pytest.approx(run.profile.latency)


def test_a_process_that_fails_after_others_is_told(tmp_path, monkeypatch):
    """Only the second of three processes that time layers crashes: the model is replaced in between."""
    from edgewise.run import dispatch

    monkeypatch.setattr("edgewise.run.profiled.SESSIONS", 3)
    path = model(tmp_path)
    original = dispatch.Dispatcher._run_session

    def replacing(self, job, *, index, mode="measure", **given):
        if mode == "layers" and index == 1:
            model(tmp_path, **behaving("segfault"))
        return original(self, job, index=index, mode=mode, **given)

    monkeypatch.setattr(dispatch.Dispatcher, "_run_session", replacing)
    (run,) = edgewise.profile(path, sessions=1)
    assert run.profile.sessions == 1
    assert any("SIGSEGV" in note for note in run.profile.notes)


def test_an_error_in_the_analysis_costs_no_latency(tmp_path, monkeypatch):
    """A cyclic network can't be read; what its engine told is of no use then, its latency is."""
    graph = {"operators": [{**GRAPH["operators"][0], "inputs": ["y"]}]}
    (run,) = edgewise.profile(model(tmp_path, graph=graph), sessions=1)
    check_kept(run, "the model's graph can't be read: ")


@pytest.mark.long
def test_a_worker_that_is_killed_from_outside(tmp_path):
    path = model(tmp_path, **behaving("hang", touch=str(tmp_path / "reached")))
    with profiling(tmp_path, path) as process:
        os.kill(worker_of(process, tmp_path).pid, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert "Killed" in out and "1.00" in out
    (run,) = stored(tmp_path)
    check_kept(run, "Killed: ")


def test_ctrl_c_in_the_profile_keeps_the_latency(tmp_path):
    path = model(tmp_path, **behaving("hang", touch=str(tmp_path / "reached")))
    with profiling(tmp_path, path) as process:
        worker = worker_of(process, tmp_path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        _, alive = psutil.wait_procs([worker], timeout=60)
    assert process.returncode == 130, err
    assert not alive
    assert "interrupted" in err and "Traceback" not in err
    assert "m.fake" in out and "interrupted while layers were timed" in " ".join(out.split())
    (run,) = stored(tmp_path)
    assert (run.status, run.layers) == ("cancelled", ())
    assert run.value("latency") == pytest.approx(1e-3)
    assert "interrupted" in run.profile_absent_because


@pytest.mark.long
def test_no_worker_survives_its_killed_parent(tmp_path):
    path = model(tmp_path, **behaving("spin", touch=str(tmp_path / "reached")))
    with profiling(tmp_path, path) as process:
        worker = worker_of(process, tmp_path)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs([worker], timeout=60)
    assert not alive


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
    deadline = time.monotonic() + 60
    while not (tmp_path / "reached").exists():
        assert time.monotonic() < deadline and process.poll() is None, "the worker never misbehaved"
        time.sleep(0.02)
    (worker,) = psutil.Process(process.pid).children()
    return worker
