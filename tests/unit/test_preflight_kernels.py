"""Workers that rehearse, what they answer when they come to grief, and the file that keeps their measurements."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgewise.optimizing import kernel_worker, kernels
from edgewise.optimizing.kernel_worker import LEAST_PAIRS, MOST_PAIRS, take_turns
from edgewise.optimizing.kernels import Cache, Rehearsal, Step, ask, key_of, rehearse
from edgewise.optimizing.processor import Processor, read_processor
from edgewise.optimizing.reasons import explain

FOUND = Rehearsal(
    original=(2.0, 2.1),
    changed=(1.0, 1.1),
    before=(Step(op="Conv", product=True, seconds=1.5),),
    after=(Step(op="QLinearConv", product=True, seconds=0.5),),
    precisions={"int8": 5, "float32": 1},
)


@pytest.fixture
def worker(monkeypatch):
    """Workers that run the given code instead."""

    def install(code: str) -> None:
        monkeypatch.setattr(kernels, "_WORKER", (sys.executable, "-c", code))

    return install


def test_a_crash_is_an_answer(worker):
    worker("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert ask({"threads": 1}, timeout=30) == {"died": "it was ended by SIGSEGV"}


def test_an_exit_without_an_answer_is_told(worker):
    worker("import sys; sys.exit(7)")
    assert ask({"threads": 1}, timeout=30) == {"died": "it ended with code 7 and no answer"}


@pytest.mark.parametrize("text", ["garbage", "{", "\\xff"])
def test_garbage_is_no_answer(worker, text):
    worker(f"print('{text}')")
    assert "died" in ask({"threads": 1}, timeout=30)


@pytest.mark.parametrize("text", ["[1]", "3", "null"])
def test_an_answer_of_another_shape_is_none(worker, text):
    worker(f"print('{text}')")
    assert ask({"threads": 1}, timeout=30) == {"died": "it answered nonsense"}


def test_a_worker_that_hangs_is_ended_with_its_children(worker, tmp_path):
    note = tmp_path / "child"
    worker(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    assert ask({"threads": 1}, timeout=1.5) == {"late": True}
    pid = int(note.read_text())
    deadline = time.monotonic() + 10
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("answers", "failed", "lasting"),
    [
        ([{"cannot": "no convolution"}], "it can't be applied: no convolution", True),
        ([{"error": "MemoryError: x"}], "it failed in a rehearsal: MemoryError: x", False),
        ([{"died": "it was ended by SIGKILL"}], "it failed in a rehearsal: it was ended by SIGKILL", False),
        (
            [{"original": "a", "changed": "b", "precisions": {}}, {"refused": "changed", "message": "no such op"}],
            "the engine refuses what the pass makes: no such op",
            True,
        ),
        (
            [{"original": "a", "changed": "b", "precisions": {}}, {"died": "it was ended by SIGSEGV"}],
            "the engine failed in a rehearsal: it was ended by SIGSEGV",
            False,
        ),
    ],
)
def test_what_went_wrong_is_said(monkeypatch, answers, failed, lasting):
    pending = list(answers)
    monkeypatch.setattr(kernels, "ask", lambda request, timeout: pending.pop(0))
    found = rehearse({"threads": 1}, {"threads": 1}, until=time.monotonic() + 60)
    assert found == Rehearsal(failed=failed, lasting=lasting)


def test_no_time_left_is_no_rehearsal(worker):
    worker("import time; time.sleep(600)")
    assert rehearse({"threads": 1}, {"threads": 1}, until=time.monotonic() - 1) is None


def test_what_was_measured_is_kept(tmp_path):
    cache = Cache(tmp_path / "deep" / "kernels.json")
    assert cache.get("a") is None
    cache.put("a", FOUND)
    cache.put("b", Rehearsal(failed="it can't be applied: no"))
    assert Cache(cache.file).get("a") == FOUND
    assert Cache(cache.file).get("b") == Rehearsal(failed="it can't be applied: no")


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "3", '{"a": 1}', '{"a": {}}', '{"a": {"original": ["x"]}}', "\x00\x01"],
)
def test_a_damaged_cache_is_ignored_and_written_anew(tmp_path, content):
    cache = Cache(tmp_path / "kernels.json")
    cache.file.write_text(content)
    assert cache.get("a") is None
    cache.put("a", FOUND)
    assert cache.get("a") == FOUND


def test_times_that_cannot_be_are_ignored(tmp_path):
    cache = Cache(tmp_path / "kernels.json")
    cache.put("a", FOUND)
    document = json.loads(cache.file.read_text())
    for change in ({"original": [2.0]}, {"changed": [0.0, 1.0]}, {"changed": [-1.0, 1.0]}):
        cache.file.write_text(json.dumps({"a": {**document["a"], **change}}))
        assert cache.get("a") is None


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "kernels.json")
    cache.put("a", FOUND)
    assert cache.get("a") is None


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom edgewise.optimizing.kernels import Cache, Rehearsal\n"
        "for at in range(20):\n"
        "    Cache(Path(sys.argv[1])).put(f'{sys.argv[2]}-{at}', Rehearsal(original=(1.0,), changed=(2.0,)))\n"
    )
    file = tmp_path / "kernels.json"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(file), name]) for name in "abc"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert all(Cache(file).get(f"{name}-{at}") is not None for name in "abc" for at in range(20))


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


def test_turns_tell_what_each_takes():
    clock = Clock()
    a, b = take_turns(clock.spend(2e-3), clock.spend(5e-4), seconds=1.0, clock=clock)
    assert len(a) == len(b)
    assert LEAST_PAIRS <= len(a) <= MOST_PAIRS
    assert a == pytest.approx([2e-3] * len(a))
    assert b == pytest.approx([5e-4] * len(b))
    assert clock.now < 1.3e9


def test_slow_models_take_the_fewest_turns():
    clock = Clock()
    a, b = take_turns(clock.spend(2.0), clock.spend(3.0), seconds=1.0, clock=clock)
    assert len(a) == len(b) == LEAST_PAIRS


def test_a_drift_leaves_the_ratio_alone():
    clock = Clock()

    def call(base: float):
        def spend() -> None:
            clock.now += round(base * (1 + clock.now * 1e-9) * 1e9)

        return spend

    a, b = take_turns(call(2e-3), call(1e-3), seconds=1.0, clock=clock)
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
    monkeypatch.setattr(kernel_worker, "_session", lambda *args, profile: Held({}))
    monkeypatch.setattr(kernel_worker, "_where_time_goes", lambda *args: [])
    request = {"runtime": "edgewise.runtime.fake:FakeRuntime", "original": "a", "changed": "b", "threads": 1}
    answer = kernel_worker.race({**request, "seconds": 0.01})
    assert len(answer["original"]) == len(answer["changed"]) >= LEAST_PAIRS


def test_reasons_name_coverage_kernels_and_what_was_added():
    slower = Rehearsal(
        before=(Step(op="Conv", product=True, seconds=1.0), Step(op="Relu", product=False, seconds=0.2)),
        after=(
            Step(op="ConvInteger", product=True, seconds=3.1),
            Step(op="DynamicQuantizeLinear", product=False, seconds=0.5),
            Step(op="Cast", product=False, seconds=0.4),
            Step(op="Relu", product=False, seconds=0.2),
        ),
        precisions={"int8": 5, "float32": 1},
    )
    assert explain(slower, speedup=1.2 / 4.2, remark="this processor has no int8 dot products (VNNI)") == (
        "5 of 6 heavy operators compute in int8; ConvInteger takes 3.1× the time of Conv here; "
        "DynamicQuantizeLinear and Cast add 75% of the time before; this processor has no int8 dot products (VNNI)"
    )


def test_reasons_without_a_profile_still_say_something():
    assert explain(Rehearsal(), speedup=1.25) == "measured: 1.25× the speed"
    assert explain(Rehearsal(precisions={"float32": 3}), speedup=1.0) == "none of 3 heavy operators changed its type"
    assert explain(Rehearsal(precisions={"int8 weights": 3}), speedup=1.0) == "3 of 3 heavy operators have int8 weights"


def test_kernels_that_take_the_same_time_are_said_to():
    same = Rehearsal(
        before=(Step(op="Conv", product=True, seconds=1.0),), after=(Step(op="Conv", product=True, seconds=1.01),)
    )
    assert explain(same, speedup=1.0) == "Conv afterwards is as fast as Conv before here"


def test_a_machine_that_was_busy_in_one_profile_changes_no_reason():
    busy = Rehearsal(
        before=(Step(op="Conv", product=True, seconds=1.0), Step(op="Add", product=False, seconds=0.5)),
        after=(Step(op="QLinearConv", product=True, seconds=3.0), Step(op="Add", product=False, seconds=1.5)),
    )
    assert explain(busy, speedup=2.0) == "QLinearConv is 2.0× faster than Conv here"


def test_kernels_of_one_name_are_told_apart():
    same = Rehearsal(
        before=(Step(op="Conv", product=True, seconds=1.0),), after=(Step(op="Conv", product=True, seconds=0.5),)
    )
    assert explain(same, speedup=2.0) == "Conv afterwards is 2.0× faster than Conv before here"


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
