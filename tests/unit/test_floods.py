"""Whatever an engine returns, prints or goes on saying: the host's memory, disk and time are bounded."""

from __future__ import annotations

import re
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

import edgewise
from edgewise.model.signature import TensorSpec
from edgewise.record import Stopping
from edgewise.run import agreement, run_builder, sample_mode
from edgewise.run.agreement import Outputs, difference_of
from edgewise.run.inference import BATCH_BYTES, Inference
from edgewise.runtime.base import UnsupportedModel
from edgewise.testing import write_fake_model
from messages import has, says, wording

QUICK = {"iterations": 3, "warmup": 1, "sessions": 1, "meters": False}


@pytest.fixture
def played(tmp_path, threads, clock):
    """The failure of a run whose worker does this, and how long it took by the clock, s."""

    def play(part, **settings):
        threads.parts = {("m.fake", 0): part}
        path = write_fake_model(tmp_path / "m.fake")
        begin = clock.now()
        (run,) = edgewise.bench(path, **{**QUICK, **settings})
        assert run.status == "failed"
        return run.failure, clock.now() - begin

    return play


def begin_steady(line):
    line.say_hello()
    line.send("phase", name="steady", event="begin", at_ns=0)


def saying_for_ever(text, *, every_s=None, prelude=begin_steady):
    """A worker that says this again and again, with pauses of so many seconds."""

    def part(line):
        prelude(line)
        while True:
            line.write(text.encode())
            if every_s is not None:
                line.sleep(every_s)

    return part


def test_endless_words_on_standard_error_end_with_the_timeout(played):
    def part(line):
        while True:
            line.print("noise " * 100)
            line.sleep(0.5)

    failure, seconds = played(part, timeout=20.0)
    assert failure.cause == "Timeout" and "noise" in failure.stderr_tail
    assert len(failure.stderr_tail) < 5000 and seconds == 20.0


def test_a_trickle_without_an_end_of_line_does_not_outlive_the_timeout(played):
    failure, seconds = played(saying_for_ever("x", every_s=0.25), timeout=20.0)
    assert failure.cause == "Timeout" and re.search(says("no-message-worker-s-phase"), failure.message)
    assert seconds == 20.0


def test_a_flood_without_an_end_of_line_is_refused(played, monkeypatch):
    monkeypatch.setattr("edgewise.run.host_protocol.MAX_TOLD_BYTES", 2**22)
    failure, seconds = played(saying_for_ever("x" * 65536))
    assert (failure.cause, failure.message[-21:], seconds) == ("Garbage", "a line without an end", 0.0)


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"alive"}',
        '{"kind":"progress","done":1,"average_s":1}',
        '{"kind":"speed","done":1,"elapsed_s":1,"prefill_rate":1,"decode_rate":null}',
    ],
)
def test_signs_of_life_do_not_keep_a_phase_going_for_ever(played, line):
    failure, seconds = played(saying_for_ever(line + "\n", every_s=5.0), timeout=20.0)
    assert failure.cause == "Timeout"
    assert failure.message == wording("phase-did-not-end-although", phase="steady")
    assert seconds == 10 * (20.0 + Stopping().max_s)


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"facts","values":{}}',
        '{"kind":"samples","name":"latency","values_ns":[]}',
        '{"kind":"phase","name":"first","event":"begin","at_ns":0}',
    ],
)
def test_a_worker_that_tells_without_end_is_refused(played, line):
    failure, _ = played(saying_for_ever(line + "\n"))
    assert failure.cause == "Garbage" and wording("sends-more-than-any-run") in failure.message


def test_a_long_message_of_a_failure_is_cut(played):
    failure, _ = played(lambda line: line.send("failed", cause="BadModel", message="x" * 10**6))
    assert failure.cause == "BadModel" and len(failure.message) == 10_000


def test_large_outputs_are_not_compared_and_the_runs_say_why(tmp_path, threads, monkeypatch):
    for module in (sample_mode, run_builder):
        monkeypatch.setattr(module, "MAX_OUTPUT_BYTES", 4000)
    shape = {"name": "y", "dtype": "float32"}
    large = write_fake_model(tmp_path / "large.fake", outputs=[{**shape, "shape": [1, 2000]}])
    small = write_fake_model(tmp_path / "small.fake", outputs=[{**shape, "shape": [1, 1000]}])
    runs = edgewise.bench([large, large, small, small], **QUICK)
    found = [run.measurement("output_max_abs_error") for run in runs]
    assert [row.absent_because for row in found[:2]] == [
        "outputs of 7.81 KiB are not compared: the limit is 3.91 KiB"
    ] * 2
    assert found[3].value == 0.0
    assert [run.effective["outputs"][0]["shape"] for run in runs[::2]] == [[1, 2000], [1, 1000]]


def test_outputs_are_kept_up_to_a_total(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(run_builder, "KEPT_OUTPUT_BYTES", 20)
    path = write_fake_model(tmp_path / "m.fake")  # 8 B
    runs = edgewise.bench([path] * 3, **QUICK)
    assert [run.measurement("output_max_abs_error").value for run in runs] == [None, 0.0, None]
    assert "outputs of earlier runs already use the 20 B" in runs[2].measurement("output_max_abs_error").absent_because


def test_an_archive_that_unpacks_to_more_is_not_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", np.zeros(10**6))
    monkeypatch.setattr(sample_mode, "MAX_OUTPUT_BYTES", 10**6)
    with pytest.raises(ValueError, match=says("holds-b", name="bomb.npz", size=8000128)):
        sample_mode.load_outputs(tmp_path / "bomb.npz")


def test_comparing_outputs_takes_little_more_memory_than_they_do():
    """All at once it took eight times as much."""
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal((4, 2**21), dtype=np.float32) for _ in range(2)]
    arrays[1][:] = arrays[0]
    arrays[1][3, 5] += 0.5
    one, other = (Outputs(run_id=str(at), label="", arrays=(array,)) for at, array in enumerate(arrays))
    tracemalloc.start()
    found = difference_of(one, other)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.max_abs == pytest.approx(0.5) and found.top1 == 1.0
    assert peak < 2 * arrays[0].nbytes


def test_a_comparison_in_pieces_is_the_same(monkeypatch):
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal((7, 5, 3)).astype(np.float32) for _ in range(2))
    a[0, 0, 0] = b[0, 0, 0] = np.nan
    pair = [Outputs(run_id="", label="", arrays=(array, np.float32(at))) for at, array in enumerate((a, b))]
    whole = difference_of(*pair)
    monkeypatch.setattr(agreement, "PIECE", 4)
    assert difference_of(*pair) == whole


class Session:
    """Outputs of a kilobyte."""

    inputs = (TensorSpec(name="x", shape=(1,), dtype="float64"),)
    outputs = (TensorSpec(name="y", shape=(256,), dtype="float32"),)

    def bind(self, arrays):
        pass

    def invoke(self):
        pass

    def read_outputs(self):
        return [np.zeros(256, np.float32)]


def test_answers_to_samples_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_mode, "MAX_OUTPUT_BYTES", 2500)
    sample_mode.write_feeds(tmp_path / "two.npz", [[np.zeros(1)]] * 2)
    sample_mode.write_feeds(tmp_path / "three.npz", [[np.zeros(1)]] * 3)
    orders = iter([{"kind": "infer", "file": "two.npz"}, {"kind": "infer", "file": "three.npz"}])
    told = []
    with pytest.raises(
        UnsupportedModel, match=says("outputs-b-limit-b", count="3 samples", size=3072, max_output_bytes=2500)
    ):
        sample_mode.answer_samples(
            Session(), tmp_path, tell=lambda kind, **_: told.append(kind), next_order=lambda: next(orders), reload=None
        )
    assert told == ["ready", "inferred"]


def test_samples_with_large_outputs_are_handed_over_a_few_at_a_time(tmp_path):
    inference = Inference(SimpleNamespace(), builder=SimpleNamespace())
    inference._size = 1000
    assert inference.batch_size([np.zeros(4)]) == 1000
    inference._answer_bytes = BATCH_BYTES // 3
    assert inference.batch_size([np.zeros(4)]) == 3


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ('{"memory_baseline": "../x"}', says("not-object", key=has("facts.memory_baseline"))),
        ('{"counters": {"wall_s": "1"}}', says("wrong-type-no-finite-number", name=has("facts.counters.wall_s"))),
        ('{"memory_peak": {"VmHWM": 1e999}}', says("wrong-type-no-finite-number", name=has("facts.memory_peak.VmHWM"))),
        ('{"reference": {"start": []}}', says("not-object", key=has("facts.reference.start"))),
        ('{"steady": {"warmup": {}}}', says("wrong-type-no-finite-number", name=has("facts.steady.warmup"))),
        (
            '{"effective": {"threads": "many"}}',
            says("wrong-type-no-finite-number", name=has("facts.effective.threads")),
        ),
    ],
)
def test_facts_of_another_type_fail_the_run_only(played, values, told):
    def part(line):
        begin_steady(line)
        line.write(f'{{"kind":"facts","values":{values}}}\n'.encode())
        line.sleep()

    failure, seconds = played(part)
    assert failure.cause == "Garbage" and re.search(told, failure.message) and seconds == 0.0
