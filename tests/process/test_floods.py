"""Whatever an engine returns, prints or goes on saying: the host's memory, disk and time are bounded."""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import edgewise
from edgewise.device.transports.local import KEPT_BYTES, LocalTransport
from edgewise.model.signature import TensorSpec
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.run import agreement, run_builder, sample_mode
from edgewise.run.agreement import Outputs, difference_of
from edgewise.run.inference import BATCH_BYTES, Inference
from edgewise.runtime.base import UnsupportedModel
from edgewise.testing import write_fake_model
from fake_passes import Deed
from threaded_workers import install

QUICK = {"iterations": 3, "warmup": 1, "sessions": 1, "meters": False}
PREFIX = "import os, sys, time\nsys.stdin.readline()\nsay = lambda text: os.write(1, text.encode())\n"
HELLO = (
    'say(\'{"kind":"hello","protocol":1,"pid":1,"python":"3","started_ns":0}\\n\')\n'
    'say(\'{"kind":"phase","name":"steady","event":"begin","at_ns":0}\\n\')\n'
)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """The failure of a run whose worker is this script, and how long it took, s."""

    def play(script, **settings):
        monkeypatch.setattr("edgewise.device.target.command_of", lambda module: (sys.executable, "-c", PREFIX + script))
        path = write_fake_model(tmp_path / "m.fake")
        begin = time.monotonic()
        (run,) = edgewise.bench(path, **{**QUICK, **settings})
        assert run.status == "failed"
        return run.failure, time.monotonic() - begin

    return play


def test_of_what_a_process_prints_the_end_is_kept(tmp_path):
    script = "import os\nfor _ in range(512): os.write(2, b'x' * 65536)\nos.write(2, b'last words')"
    tracemalloc.start()
    process = LocalTransport().start(
        [sys.executable, "-c", script], folder=tmp_path, environment=dict(os.environ), stderr=tmp_path / "stderr"
    )
    process.wait(60)
    process.kill()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = process.stderr.read_bytes()
    assert len(kept) == KEPT_BYTES and kept.endswith(b"x" * 1000 + b"last words")
    assert peak < 2**20


def test_endless_words_on_standard_error_end_with_the_timeout(played):
    failure, _ = played("while True: os.write(2, b'noise ' * 10000)", timeout=2.0)
    assert failure.cause == "Timeout" and "noise" in failure.stderr_tail


def test_a_trickle_without_an_end_of_line_does_not_outlive_the_timeout(played):
    failure, seconds = played("while True:\n    say('x')\n    time.sleep(0.01)", timeout=1.0)
    assert failure.cause == "Timeout" and "no message from the worker" in failure.message
    assert seconds < 60.0


def test_a_flood_without_an_end_of_line_is_refused(played, monkeypatch):
    monkeypatch.setattr("edgewise.run.host_protocol.MAX_TOLD_BYTES", 2**22)
    failure, _ = played("while True: say('x' * 65536)")
    assert (failure.cause, failure.message[-21:]) == ("Garbage", "a line without an end")


@pytest.mark.parametrize("line", ['{"kind":"alive"}', '{"kind":"progress","done":1,"average_s":1}'])
def test_signs_of_life_do_not_keep_a_phase_going_for_ever(played, monkeypatch, line):
    monkeypatch.setattr("edgewise.run.host_protocol.SLACK", 1)
    failure, seconds = played(f"{HELLO}while True:\n    say({line!r} + '\\n')\n    time.sleep(0.01)", timeout=2.0)
    assert failure.cause == "Timeout"
    assert failure.message == "phase 'steady' did not end, although the worker sent messages; it was killed"
    assert seconds < 60.0


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"facts","values":{}}',
        '{"kind":"samples","name":"latency","values_ns":[]}',
        '{"kind":"phase","name":"first","event":"begin","at_ns":0}',
    ],
)
def test_a_worker_that_tells_without_end_is_refused(played, line):
    failure, _ = played(f"{HELLO}while True: say({line!r} + '\\n')")
    assert failure.cause == "Garbage" and "sends more than any run needs" in failure.message


def test_a_long_message_of_a_failure_is_cut(played):
    failure, _ = played('say(\'{"kind":"failed","cause":"BadModel","message":"%s"}\\n\' % (\'x\' * 10**6))')
    assert failure.cause == "BadModel" and len(failure.message) == 10_000


def test_large_outputs_are_not_compared_and_the_runs_say_why(tmp_path, monkeypatch):
    for module in (sample_mode, run_builder):
        monkeypatch.setattr(module, "MAX_OUTPUT_BYTES", 4000)
    install(monkeypatch, turns=5)
    shape = {"name": "y", "dtype": "float32"}
    large = write_fake_model(tmp_path / "large.fake", outputs=[{**shape, "shape": [1, 2000]}])
    small = write_fake_model(tmp_path / "small.fake", outputs=[{**shape, "shape": [1, 1000]}])
    runs = edgewise.bench([large, large, small, small], **QUICK)
    found = [run.measurement("output_max_abs_error") for run in runs]
    assert [row.absent_because for row in found[:2]] == [
        "outputs of 8.00 kB are not compared: the limit is 4.00 kB"
    ] * 2
    assert found[3].value == 0.0
    assert [run.effective["outputs"][0]["shape"] for run in runs[::2]] == [[1, 2000], [1, 1000]]


def test_outputs_are_kept_up_to_a_total(tmp_path, monkeypatch):
    monkeypatch.setattr(run_builder, "KEPT_OUTPUT_BYTES", 20)
    install(monkeypatch, turns=5)
    path = write_fake_model(tmp_path / "m.fake")  # 8 B
    runs = edgewise.bench([path] * 3, **QUICK)
    assert [run.measurement("output_max_abs_error").value for run in runs] == [None, 0.0, None]
    assert "outputs of earlier runs already use the 20 B" in runs[2].measurement("output_max_abs_error").absent_because


def test_an_archive_that_unpacks_to_more_is_not_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", np.zeros(10**6))
    monkeypatch.setattr(sample_mode, "MAX_OUTPUT_BYTES", 10**6)
    with pytest.raises(ValueError, match=r"bomb\.npz holds 8000128 B"):
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
    with pytest.raises(UnsupportedModel, match="the outputs of 3 samples have 3072 B; the limit is 2500 B"):
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


def test_a_pass_that_prints_without_end_fills_no_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    task = PassTask(model="m.fake", format="fake", settings=Deed(do="flood"), folder=tmp_path / "0")
    (made,) = apply_pass("fake_passes:Deeds", [task], seconds=60.0)
    printed, size = map(int, made.reason.split()[-2:])
    assert size < printed / 2


def test_temporary_files_of_an_engine_go_with_its_session(played):
    script = (
        "import json, tempfile\nname = tempfile.mkdtemp()\nopen(name + '/file', 'w').close()\n"
        "say(json.dumps({'kind': 'failed', 'cause': 'BadModel', 'message': name}) + '\\n')"
    )
    failure, _ = played(script)
    folder = Path(failure.message)
    assert folder.parent.name == "measure-0" and folder.parents[1].name.startswith("edgewise-tmp-")
    assert not folder.exists()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ('{"memory_baseline": "../x"}', "facts.memory_baseline is not an object"),
        ('{"counters": {"wall_s": "1"}}', "facts.counters.wall_s has the wrong type"),
        ('{"memory_peak": {"VmHWM": 1e999}}', "facts.memory_peak.VmHWM has the wrong type or is no finite number"),
        ('{"reference": {"start": []}}', "facts.reference.start is not an object"),
        ('{"steady": {"warmup": {}}}', "facts.steady.warmup has the wrong type"),
        ('{"effective": {"threads": "many"}}', "facts.effective.threads has the wrong type"),
    ],
)
def test_facts_of_another_type_fail_the_run_only(played, values, told):
    failure, _ = played(HELLO + f'say(\'{{"kind":"facts","values":{values}}}\\n\')\ntime.sleep(60)')
    assert failure.cause == "Garbage" and told in failure.message
