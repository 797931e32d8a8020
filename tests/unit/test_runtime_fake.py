"""The fake engine, to the nanosecond."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.runtime.base import (
    InvalidModel,
    LoadOptions,
    ReportsEngineLatency,
    RunsConcurrently,
    SuppliesClock,
    UnsupportedModel,
)
from edgewise.testing import FakeClock, FakeRuntime, write_fake_model
from messages import says, wording
from patience import LIMIT_S

CPU = LoadOptions(provider="cpu")


@pytest.fixture
def load(tmp_path):
    def load(options=CPU, **script):
        return FakeRuntime().load(write_fake_model(tmp_path / "m.fake", **script), options)

    return load


def bound(session):
    session.bind([np.zeros(spec.shape, spec.dtype) for spec in session.inputs])
    return session


def timed(session, count):
    times = []
    for _ in range(count):
        begin = session.clock()
        session.invoke()
        times.append(session.clock() - begin)
    return times


def test_a_clock_moves_only_when_told():
    clock = FakeClock(5)
    assert [clock(), clock()] == [5, 5]
    clock.advance(7)
    clock.sleep(1.5)
    assert clock() == 1_500_000_012
    assert [FakeClock(tick=3)() for _ in range(2)] == [0, 0]
    ticking = FakeClock(tick=3)
    assert [ticking(), ticking(), ticking()] == [0, 3, 6]


def test_times_are_the_scripts_own(load):
    session = bound(load(warmup_ns=[90, 50], latency_ns=[10, 11, 12], import_ns=100, load_ns=23))
    assert isinstance(session, SuppliesClock)
    assert session.clock() == 123
    assert timed(session, 7) == [90, 50, 10, 11, 12, 10, 11]


def test_reading_the_clock_takes_a_tick(load):
    assert timed(bound(load(latency_ns=[10], tick_ns=2)), 2) == [12, 12]


def test_without_a_script_an_inference_takes_a_millisecond(tmp_path):
    (tmp_path / "m.fake").write_text("edgewise-fake 1\n")
    session = bound(FakeRuntime().load(tmp_path / "m.fake", CPU))
    assert timed(session, 2) == [1_000_000] * 2
    assert [(spec.name, spec.shape, spec.dtype) for spec in (*session.inputs, *session.outputs)] == [
        ("x", (1, 4), "float32"),
        ("y", (1, 2), "float32"),
    ]


def test_only_scripted_talents_are_there(load):
    assert not isinstance(load(), ReportsEngineLatency | RunsConcurrently)
    assert isinstance(load(engine_latency_ns=[1]), ReportsEngineLatency)
    assert isinstance(load(requests=2), RunsConcurrently)
    both = load(requests=2, engine_latency_ns=[1])
    assert isinstance(both, ReportsEngineLatency)
    assert isinstance(both, RunsConcurrently)


def test_the_engines_own_times(load):
    session = bound(load(latency_ns=[10], engine_latency_ns=[7, 8]))
    told = []
    for _ in range(3):
        session.invoke()
        told.append((session.engine_latency_ns(), session.engine_latency_ns()))
    assert told == [(7, 7), (8, 8), (7, 7)]


def run_many(session, **limits):
    completions = []
    session.run_many(clock=session.clock, completions=completions, **{"until_ns": None, "count": None} | limits)
    return completions


def test_requests_overlap(load):
    # 0-10 and 0-25, then 10-20, 20-45 and 25-35: times are dealt out in the order of beginning.
    assert run_many(bound(load(requests=2, latency_ns=[10, 25])), count=5) == [10, 20, 25, 35, 45]


def test_one_request_is_one_after_the_other(load):
    assert run_many(bound(load(requests=1, latency_ns=[10])), count=3) == [10, 20, 30]


def test_what_was_begun_in_time_is_finished(load):
    assert run_many(bound(load(requests=2, latency_ns=[10])), until_ns=25) == [10, 10, 20, 20, 30, 30]
    assert run_many(bound(load(requests=2, latency_ns=[10])), until_ns=0) == []


def test_requests_asked_for_win_over_the_script(load):
    session = bound(load(LoadOptions(provider="cpu", offline=True, requests=3), requests=1, latency_ns=[10]))
    assert session.effective["requests"] == 3
    assert run_many(session, count=4) == [10, 10, 10, 20]


def test_concurrency_needs_an_end(load):
    with pytest.raises(ValueError, match=says("neither-end-time-nor-number")):
        run_many(bound(load(requests=1)))


@given(
    latencies=st.lists(st.integers(1, 1000), min_size=1, max_size=6),
    requests=st.integers(1, 5),
    count=st.integers(0, 30),
)
def test_as_many_completions_as_were_asked_for_in_order(tmp_path_factory, latencies, requests, count):
    path = write_fake_model(tmp_path_factory.mktemp("m") / "m.fake", latency_ns=latencies, requests=requests)
    completions = run_many(bound(FakeRuntime().load(path, CPU)), count=count)
    assert len(completions) == count
    assert completions == sorted(completions)
    total = sum((latencies * (count + 1))[:count])
    assert total / requests <= (completions[-1] if completions else 0) <= total


def test_outputs_are_the_scripts_or_a_mix_of_the_inputs(load):
    outputs = [{"name": "y", "shape": [2], "dtype": "float32"}, {"name": "z", "shape": [3], "dtype": "int8"}]
    session = load(outputs=outputs)
    session.bind([np.full((1, 4), 2.5, np.float32)])
    session.invoke()
    assert [array.tolist() for array in session.read_outputs()] == [[10, 11], [10, 11, 12]]
    for value, expected in ((4, [[4, 4], [4, 4, 4]]), ([1, 2], [[1, 1], [2, 2, 2]])):
        session = bound(load(outputs=outputs, outputs_value=value))
        session.invoke()
        assert [array.tolist() for array in session.read_outputs()] == expected


@pytest.mark.parametrize(
    ("own", "wanted", "outputs", "expected"),
    [
        (["n", 4], (3, 4), ["n", 2], (3, 2)),
        ([None, 4], (3, 4), [None, 2], (3, 2)),
        ([1, 4], (3, 4), [1, 2], (3, 2)),
        (["n", "m"], (3, 5), ["m", "n"], (5, 3)),
        (["n", "m"], (3, 5), [1, "other"], (1, 1)),
    ],
)
def test_output_shapes_follow_the_inputs(load, own, wanted, outputs, expected):
    session = load(
        LoadOptions(provider="cpu", shapes={"x": wanted}),
        inputs=[{"name": "x", "shape": own, "dtype": "float32"}],
        outputs=[{"name": "y", "shape": outputs, "dtype": "float32"}],
    )
    assert (session.inputs[0].shape, session.outputs[0].shape) == (wanted, expected)


def test_shapes_that_are_not_the_scripts(load):
    with pytest.raises(UnsupportedModel, match=says("input-fixed-shape-not", own="1, 4", map="1, 5")):
        load(LoadOptions(provider="cpu", shapes={"x": (1, 5)}))


def test_what_came_into_force(load):
    effective = load(LoadOptions(provider="cpu", threads=3, precision="bf16"), effective={"clock_hz": 1}).effective
    assert (effective["threads"], effective["precision"], effective["clock_hz"]) == (3, "bf16", 1)
    assert load().effective["precision"] == "f32"


def test_an_unknown_provider(load):
    with pytest.raises(UnsupportedModel, match=says("fake-engine-no-provider-cpu", provider="gpu")):
        load(LoadOptions(provider="gpu"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", says("first-line-not")),
        ("edgewise-fake 2\n{}", says("first-line-not")),
        ("edgewise-fake 1\n{", says("script-not-json-in-fake-script")),
        ("edgewise-fake 1\n" + "[" * 100_000, says("script-not-json-in-fake-script")),
        ("edgewise-fake 1\n[]", says("script-not-json-object-in-fake-script")),
        ('edgewise-fake 1\n{"latency": 3}', says("script-unknown-keys", unknown="latency")),
        ('edgewise-fake 1\n{"latency_ns": []}', says("key-r-empty", key="latency_ns")),
        ('edgewise-fake 1\n{"latency_ns": [1.5]}', says("not-list-whole-nanoseconds")),
        ('edgewise-fake 1\n{"warmup_ns": 3}', says("not-list-whole-nanoseconds", key="warmup_ns")),
        ('edgewise-fake 1\n{"tick_ns": -1}', "'tick_ns'"),
        ('edgewise-fake 1\n{"inputs": [3]}', says("not-input-output", entry=3)),
        ('edgewise-fake 1\n{"inputs": 3}', says("not-list", key="inputs")),
        (
            'edgewise-fake 1\n{"outputs_value": [1, 2]}',
            says("outputs-value-numbers-outputs", value_count=2, script_count=1),
        ),
        ('edgewise-fake 1\n{"requests": 0}', says("requests-not-number-requests")),
        ('edgewise-fake 1\n{"effective": 3}', says("not-object", key="effective")),
        ('edgewise-fake 1\n{"behaviour": {"at": "never", "do": "exit"}}', says("behaviour-needs-do")),
        ('edgewise-fake 1\n{"behaviour": {"at": "load", "do": "sing"}}', says("behaviour-needs-do")),
        (
            'edgewise-fake 1\n{"behaviour": {"at": "invoke", "do": "exit", "after": "x"}}',
            says("after-not-number-inferences"),
        ),
    ],
)
def test_a_bad_script_says_what_is_wrong(tmp_path, text, message):
    (tmp_path / "m.fake").write_text(text)
    with pytest.raises(InvalidModel, match=message):
        FakeRuntime().load(tmp_path / "m.fake", CPU)


def behaving(at, do, after=0):
    return {"behaviour": {"at": at, "do": do, "after": after}}


@pytest.mark.parametrize("at", ["import", "load"])
@pytest.mark.parametrize(
    ("do", "kind"),
    [
        ("raise", RuntimeError),
        ("unsupported", UnsupportedModel),
        ("invalid", InvalidModel),
        ("memory-error", MemoryError),
    ],
)
def test_errors_while_loading(load, at, do, kind):
    with pytest.raises(kind, match=f"at {at}"):
        load(**behaving(at, do))


@pytest.mark.parametrize(("at", "after", "good"), [("first", 5, 0), ("invoke", 0, 1), ("invoke", 2, 3)])
def test_an_error_comes_at_its_inference_and_stays(load, at, after, good):
    session = bound(load(**behaving(at, "raise", after)))
    for _ in range(good):
        session.invoke()
    with pytest.raises(RuntimeError, match=f"at {at}"):
        session.invoke()
    if at == "invoke":
        with pytest.raises(RuntimeError):
            session.invoke()
    else:
        session.invoke()


def test_outputs_that_are_no_numbers(load):
    session = bound(load(**behaving("outputs", "nan")))
    session.invoke()
    assert np.isnan(session.read_outputs()[0]).all()


def test_an_import_that_knows_its_script_misbehaves_itself(tmp_path, monkeypatch):
    path = write_fake_model(tmp_path / "m.fake", **behaving("import", "raise"))
    assert FakeRuntime().import_engine() == "1"
    monkeypatch.setenv("EDGEWISE_FAKE_MODEL", str(path))
    runtime = FakeRuntime()
    with pytest.raises(RuntimeError, match="at import"):
        runtime.import_engine()
    runtime.load(path, CPU)  # once is enough


# What the channel is in a worker: a descriptor of its own, named in the environment.
CHILD = """
import os, resource, sys
os.environ["EDGEWISE_CHANNEL_FD"] = str(os.dup(1))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))
from edgewise.testing import FakeRuntime
from edgewise.runtime.base import LoadOptions
from pathlib import Path
FakeRuntime().load(Path(sys.argv[1]), LoadOptions(provider="cpu"))
os.write(int(os.environ["EDGEWISE_CHANNEL_FD"]), b"alive")
"""


@pytest.mark.parametrize(
    ("do", "code", "out", "err"),
    [
        ("segfault", -11, b"", ""),
        ("abort", -6, b"", ""),
        ("exit", 7, b"", ""),
        ("garbage", 0, b"\x00\xff this is no message of the protocol\nalive", ""),
        ("close-channel", 1, b"", "Bad file descriptor"),
        ("allocate", 1, b"", "MemoryError"),
    ],
)
def test_ways_to_die(tmp_path, do, code, out, err):
    path = write_fake_model(tmp_path / "m.fake", **behaving("load", do))
    done = subprocess.run([sys.executable, "-c", CHILD, path], capture_output=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert err in done.stderr.decode()


# In a process of its own: engines that other tests loaded into this one leave it unfit for signals.
ALARM = """
import signal
def wake(number, frame):
    raise SystemExit(42)
signal.signal(signal.SIGALRM, wake)
signal.setitimer(signal.ITIMER_REAL, 0.2)
"""


@pytest.mark.parametrize("do", ["hang", "spin"])
def test_ways_to_live_for_ever_end_only_by_a_signal(tmp_path, do):
    path = write_fake_model(tmp_path / "m.fake", **behaving("load", do))
    code = CHILD.replace("FakeRuntime().load", ALARM + "FakeRuntime().load")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (42, b""), done.stderr


def test_write_fake_model_is_readable_by_people(tmp_path):
    path = write_fake_model(str(tmp_path / "m.fake"), latency_ns=[1])
    first, second = path.read_text().splitlines()
    assert first == wording("edgewise-fake-1")
    assert json.loads(second) == {"latency_ns": [1]}
    assert os.fspath(path).endswith("m.fake")
