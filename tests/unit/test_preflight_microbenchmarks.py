"""Workers that time passes, what they answer when they come to grief, and the file that keeps their measurements."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgewise.optimizing import microbenchmark_worker, microbenchmarks
from edgewise.optimizing.base import PassSettings, PassTask
from edgewise.optimizing.microbenchmark_worker import LEAST_PAIRS, MOST_PAIRS, take_turns
from edgewise.optimizing.microbenchmarks import Cache, PassTiming, StepTime, key_of, time_pass
from edgewise.optimizing.processor import Processor, read_processor
from edgewise.optimizing.reasons import explain
from graphs import convnet
from messages import wording

FOUND = PassTiming(
    original=(2.0, 2.1),
    changed=(1.0, 1.1),
    before=(StepTime(op="Conv", product=True, seconds=1.5),),
    after=(StepTime(op="QLinearConv", product=True, seconds=0.5),),
    precisions={"int8": 5, "float32": 1},
)


TASK = PassTask(model="net.fake", format="fake", settings=PassSettings(), folder=Path())
TIMED = {"original": [2.0, 2.1], "changed": [1.0, 1.1], "precisions": {"int8": 2}}


@pytest.fixture
def timed(monkeypatch):
    """`time_pass` for two engines with the given code in place of the worker."""

    def run(code: str, *, seconds: float = 60.0):
        monkeypatch.setattr(microbenchmarks, "_WORKER", (sys.executable, "-c", code))
        return time_pass(
            convnet(), "no:Pass", TASK, engines=["fake", "onnxruntime"], seconds=1.0, until=time.monotonic() + seconds
        )

    return run


def lines(*documents):
    return f"print({chr(10).join(map(json.dumps, documents))!r}, flush=True)\n"


def test_one_process_times_all_engines(timed):
    found = timed(lines({}, TIMED, {"failed": "the engine rejects the result of the pass: no such op"}))
    assert found == {
        "fake": PassTiming(original=(2.0, 2.1), changed=(1.0, 1.1), precisions={"int8": 2}),
        "onnxruntime": PassTiming(failed="the engine rejects the result of the pass: no such op"),
    }


@pytest.mark.parametrize(
    "answer",
    [{"unchanged": True}, {"failed": "it can't be applied: no convolution"}, {"failed": "x", "lasting": False}],
)
def test_a_pass_that_makes_nothing_is_told_for_all_engines(timed, answer):
    assert timed(lines(answer)) == dict.fromkeys(["fake", "onnxruntime"], PassTiming(**answer))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed (SIGSEGV)"),
        ("import sys; sys.exit(7)", "ended with exit code 7"),
        ("", "gave no answer"),
    ],
)
def test_a_process_that_dies_is_a_failure_of_the_pass_or_of_the_engine(timed, code, words):
    failed = PassTiming(failed=f"it failed in a trial run: the pass {words}", lasting=False)
    assert timed(code) == {"fake": failed, "onnxruntime": failed}
    failed = PassTiming(failed=f"the engine failed in a trial run: its process {words}", lasting=False)
    assert timed(lines({}, {"unchanged": True}) + code) == {"fake": PassTiming(unchanged=True), "onnxruntime": failed}


def test_no_time_left_is_no_timing(timed, monkeypatch):
    late = "import time; time.sleep(600)"
    assert timed(late, seconds=0.1) == {}
    told, read_line = [], microbenchmarks.ChildProcess.read_line

    def read(child, *, until):
        """Two lines in whatever time they take; for a third there is none."""
        told.append(read_line(child, until=until if len(told) < 2 else time.monotonic()))
        return told[-1]

    monkeypatch.setattr(microbenchmarks.ChildProcess, "read_line", read)
    assert timed(lines({}, {"unchanged": True}) + late) == {"fake": PassTiming(unchanged=True)}


def test_what_was_measured_is_kept(tmp_path):
    cache = Cache(tmp_path / "deep")
    assert cache.get("a") is None
    cache.put("a", FOUND)
    cache.put("b", PassTiming(failed="it can't be applied: no"))
    assert Cache(tmp_path / "deep").get("a") == FOUND
    assert Cache(tmp_path / "deep").get("b") == PassTiming(failed="it can't be applied: no")


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"original": ["x"]}', "\x00\x01"])
def test_a_damaged_file_is_ignored_and_written_anew(tmp_path, content):
    cache = Cache(tmp_path)
    (tmp_path / "a.json").write_text(content)
    assert cache.get("a") is None
    cache.put("a", FOUND)
    assert cache.get("a") == FOUND


def test_times_that_cannot_be_are_ignored(tmp_path):
    cache = Cache(tmp_path)
    for changed in ((2.0, 2.1, 2.2), (0.0, 1.0), (-1.0, 1.0)):
        cache.put("a", replace(FOUND, changed=changed))
        assert cache.get("a") is None


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    cache.put("a", FOUND)
    assert cache.get("a") is None


def test_the_oldest_files_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(microbenchmarks, "_MOST_KEPT", 2)
    cache = Cache(tmp_path)
    for at, name in enumerate("abc"):
        cache.put(name, FOUND)
        os.utime(tmp_path / f"{name}.json", (at, at))
    cache.put("d", FOUND)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["c.json", "d.json"]


def test_keys_differ_in_everything_they_are_made_of():
    parts = ["cpu", ["avx"], "onnxruntime", "1.2", {"per_channel": True}, 1]
    keys = {key_of(parts)}
    for at in range(len(parts)):
        keys.add(key_of([*parts[:at], "other", *parts[at + 1 :]]))
    assert len(keys) == len(parts) + 1
    assert key_of([{"a": 1, "b": 2}]) == key_of([{"b": 2, "a": 1}])


class Clock:
    """Time that passes only in calls."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def spend(self, seconds: float):
        def call() -> None:
            self.now += round(seconds * 1e9)

        return call

    def race(self, *calls):
        sessions = [SimpleNamespace(invoke=call, clock=self, sleep=lambda seconds: None) for call in calls]
        return take_turns(sessions, seconds=1.0)


def test_turns_tell_what_each_takes():
    clock = Clock()
    a, b = clock.race(clock.spend(2e-3), clock.spend(5e-4))
    assert len(a) == len(b)
    assert LEAST_PAIRS <= len(a) <= MOST_PAIRS
    assert a == pytest.approx([2e-3] * len(a))
    assert b == pytest.approx([5e-4] * len(b))
    assert clock.now < 1.3e9


def test_slow_models_take_the_fewest_turns():
    clock = Clock()
    a, b = clock.race(clock.spend(2.0), clock.spend(3.0))
    assert len(a) == len(b) == LEAST_PAIRS


def test_a_drift_leaves_the_ratio_alone():
    clock = Clock()

    def call(base: float):
        def spend() -> None:
            clock.now += round(base * (1 + clock.now * 1e-9) * 1e9)

        return spend

    a, b = clock.race(call(2e-3), call(1e-3))
    ratios = sorted(one / other for one, other in zip(a, b, strict=True))
    assert ratios[len(ratios) // 2] == pytest.approx(2.0, rel=0.02)


class Held:
    """A session whose inputs are gone once nobody holds it, as the engines' are."""

    def __init__(self, alive: dict[str, bool]) -> None:
        self._alive = alive
        alive["yes"] = True

        def invoke() -> None:
            assert alive["yes"]

        self.invoke = invoke

    def __del__(self) -> None:
        self._alive["yes"] = False


def test_sessions_live_as_long_as_they_race(monkeypatch):
    monkeypatch.setattr(microbenchmark_worker, "_session", lambda *args, profile: Held({}))
    monkeypatch.setattr(microbenchmark_worker, "_where_time_goes", lambda *args: [])
    request = {"runtime": "edgewise.runtime.fake:FakeRuntime", "model": "a", "changed": "b", "threads": 1}
    answer = microbenchmark_worker.race({**request, "seconds": 0.01})
    assert len(answer["original"]) == len(answer["changed"]) >= LEAST_PAIRS


def test_reasons_name_coverage_kernels_and_what_was_added():
    slower = PassTiming(
        before=(StepTime(op="Conv", product=True, seconds=1.0), StepTime(op="Relu", product=False, seconds=0.2)),
        after=(
            StepTime(op="ConvInteger", product=True, seconds=3.1),
            StepTime(op="DynamicQuantizeLinear", product=False, seconds=0.5),
            StepTime(op="Cast", product=False, seconds=0.4),
            StepTime(op="Relu", product=False, seconds=0.2),
        ),
        precisions={"int8": 5, "float32": 1},
    )
    assert explain(slower, speedup=1.2 / 4.2, remark="this processor has no int8 dot products (VNNI)") == (
        "5 of 6 heavy operators compute in int8; ConvInteger takes 3.1× the time of Conv here; "
        "DynamicQuantizeLinear and Cast add 75% of the time before; this processor has no int8 dot products (VNNI)"
    )


def test_reasons_without_a_profile_still_say_something():
    assert explain(PassTiming(), speedup=1.25) == "measured: 1.25× the speed"
    assert explain(PassTiming(precisions={"float32": 3}), speedup=1.0) == wording(
        "none-heavy-operators-changed-type", total=3
    )
    assert explain(PassTiming(precisions={"int8 weights": 3}), speedup=1.0) == wording(
        "heavy-operators", lower=3, total=3, value="have", word="int8 weights"
    )


def test_kernels_that_take_the_same_time_are_said_to():
    same = PassTiming(
        before=(StepTime(op="Conv", product=True, seconds=1.0),),
        after=(StepTime(op="Conv", product=True, seconds=1.01),),
    )
    assert explain(same, speedup=1.0) == "Conv after the pass is as fast as Conv before it here"


def test_a_machine_that_was_busy_in_one_profile_changes_no_reason():
    busy = PassTiming(
        before=(StepTime(op="Conv", product=True, seconds=1.0), StepTime(op="Add", product=False, seconds=0.5)),
        after=(StepTime(op="QLinearConv", product=True, seconds=3.0), StepTime(op="Add", product=False, seconds=1.5)),
    )
    assert explain(busy, speedup=2.0) == wording("faster-than-here", new="QLinearConv", value="2.0", old="Conv")


def test_kernels_of_one_name_are_told_apart():
    same = PassTiming(
        before=(StepTime(op="Conv", product=True, seconds=1.0),),
        after=(StepTime(op="Conv", product=True, seconds=0.5),),
    )
    assert explain(same, speedup=2.0) == "Conv after the pass is 2.0× faster than Conv before it here"


@pytest.mark.parametrize(
    ("flags", "dtype", "title"),
    [
        ({"avx512_vnni", "avx2"}, "int8", "AVX-512 VNNI"),
        ({"amx_int8", "avx512_vnni"}, "int8", "AMX"),
        ({"avx2"}, "int8", ""),
        ({"asimddp"}, "int8", "Arm dot products"),
        ({"i8mm", "asimddp"}, "int8", "I8MM"),
        ({"asimdhp"}, "float16", "Arm half precision"),
        ({"avx512_bf16"}, "bfloat16", "AVX512-BF16"),
        ({"avx512_bf16"}, "float16", ""),
        (None, "int8", None),
    ],
)
def test_instructions_are_found_among_the_flags(flags, dtype, title):
    processor = Processor(model="", architecture="x86_64", flags=None if flags is None else frozenset(flags))
    assert processor.instructions(dtype) == title


def test_remarks_fit_what_happens():
    old = Processor(model="", architecture="x86_64", flags=frozenset({"avx2"}))
    new = Processor(model="", architecture="x86_64", flags=frozenset({"avx512_vnni"}))
    unknown = Processor(model="", architecture="x86_64", flags=None)
    assert old.remark("int8", helps=False) == "this processor has no int8 dot products (VNNI)"
    assert old.remark("int8", helps=True) == ""
    assert new.remark("int8-dynamic", helps=True) == "this processor has AVX-512 VNNI"
    assert new.remark("int8", helps=False) == ""
    assert new.remark("f16", helps=False) == "this processor has no float16 arithmetic"
    assert unknown.remark("int8", helps=False) == unknown.remark("int4", helps=True) == ""


def test_the_processor_is_read_from_the_system(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("processor : 0\nmodel name : Made up\nflags : fpu avx2 avx_vnni\n\n")
    processor = read_processor(root=tmp_path)
    assert processor.model == "Made up"
    assert processor.instructions("int8") == "AVX-VNNI"
