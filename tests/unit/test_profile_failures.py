"""Whatever happens while layers are timed, the latency that was measured before is kept, and the reason is told."""

import json
from collections.abc import Callable

import pytest

import edgewise
from edgewise.cli.main import run as command_line
from edgewise.record import Peak
from edgewise.testing import write_fake_model
from threaded_workers import Line

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
def quickly(monkeypatch, threads):
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
def test_a_hang_is_killed_at_its_deadline(tmp_path, clock, do):
    begin = clock.now()
    (run,) = edgewise.profile(model(tmp_path, **behaving(do)), sessions=1, timeout=30.0)
    check_kept(run, "Timeout: ", "phase 'profile'", "30 s")
    assert clock.now() - begin == 30.0


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


def speaking(said: bytes) -> Callable[[Line], None]:
    """A worker that says this when it is to time layers."""
    return lambda line: line.write(said + b"\n")


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
def test_a_worker_that_talks_nonsense_of_layers(tmp_path, threads, said):
    """What else is no profile is refused by `read_profile`: tests/unit/test_profiling_step_times.py."""
    threads.parts = {("m.fake", 1): speaking(said)}
    (run,) = edgewise.profile(model(tmp_path), sessions=1)
    check_kept(run, "Garbage: ")


@pytest.mark.parametrize(
    "changes",
    [node(), node(times_ns=[0]), node(originals=["no such operator", ""]), {"inference_ns": [0]}, {"nodes": []}],
)
def test_odd_layers_are_layers(tmp_path, threads, changes):
    """What a worker may tell is turned into rows that add up, or the profile is absent; nothing breaks."""
    said = layers_message(**changes) + b'\n{"kind":"done"}'
    threads.parts = {("m.fake", 1): speaking(said)}
    (run,) = edgewise.profile(model(tmp_path), sessions=1)
    assert run.status == "done"
    parts = sum(layer.time or 0.0 for layer in run.layers)
    nameless = [layer.time for layer in run.layers if layer.op == "not attributed"]
    assert parts - sum(nameless) + run.profile.unattributed == pytest.approx(run.profile.latency)


def test_a_process_that_fails_after_others_is_told(tmp_path, monkeypatch):
    """Only the second of three processes that time layers crashes: the model is replaced in between."""
    from edgewise.run import dispatch

    path = model(tmp_path)
    original = dispatch.Dispatcher._run_session

    def replacing(self, job, *, index, mode="measure", **given):
        if mode == "layers" and index == 1:
            model(tmp_path, **behaving("segfault"))
        return original(self, job, index=index, mode=mode, **given)

    monkeypatch.setattr(dispatch.Dispatcher, "_run_session", replacing)
    (run,) = edgewise.profile(path, sessions=3)
    assert run.profile.sessions == 1
    assert any("SIGSEGV" in note for note in run.profile.notes)


def test_an_error_in_the_analysis_costs_no_latency(tmp_path, monkeypatch):
    """A cyclic network can't be read; what its engine told is of no use then, its latency is."""
    graph = {"operators": [{**GRAPH["operators"][0], "inputs": ["y"]}]}
    (run,) = edgewise.profile(model(tmp_path, graph=graph), sessions=1)
    check_kept(run, "the model's graph can't be read: ")
