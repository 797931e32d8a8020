"""A pass over data: cut off and resumed it gives the same records to the last digit; any end of a worker is a result."""

from __future__ import annotations

import errno
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample
from edgewise.evaluating.evaluator import run_samples
from edgewise.progress import SamplesDone, reporting_to
from edgewise.run.inference import BATCH_SAMPLES, Inference, InferenceFailed
from edgewise.testing import write_fake_model
from messages import says
from small_selections import NET, Recorder, Rows, corrupt, job_of, model_under_test, rows, run_builder, selection
from threaded_workers import living

pytestmark = pytest.mark.usefixtures("threads")
COUNT = 40


@pytest.fixture
def model(tmp_path):
    # The outputs depend on the inputs: their sum, plus the element's index.
    return write_fake_model(tmp_path / "m.fake", graph=NET)


def put(path, data, *, scorer=None, indices=None, strict=False, folder=None, progress=None, **settings):
    """Ask a model; a checkpoint is kept in `folder`."""
    kept = {"identity": {"task": "t"}, "checkpoints": folder} if folder is not None else {}

    def forward(event):
        if progress is not None and isinstance(event, SamplesDone):
            progress(event.done, event.total)

    with reporting_to(forward):
        return run_samples(
            model_under_test(path),
            selection(data, indices, strict=strict),
            scorer or Recorder(),
            builder=run_builder(),
            **{**kept, **settings},
        )


def interrupt_at(done):
    """A progress callback that presses Ctrl-C once so many are done."""
    told = []

    def progress(count, total):
        told.append((count, total))
        if count >= done:
            raise KeyboardInterrupt

    progress.told = told
    return progress


def test_every_sample_gets_its_own_outputs_in_order(model):
    data = Rows(rows(COUNT))
    told = []
    results = put(model, data, progress=lambda done, total: told.append((done, total)))
    sums = data.data.sum(axis=1, dtype=np.float64)
    assert [entry.index for entry in results.entries] == list(range(COUNT))
    np.testing.assert_allclose([entry.record[0][0][0] for entry in results.entries], sums, rtol=1e-6)
    assert [entry.digest for entry in results.entries] == [data.read(index).digest() for index in range(COUNT)]
    assert told == sorted(told) and told[-1] == (COUNT, COUNT)
    assert (results.failure, results.interrupted, results.resumed) == (None, False, 0)
    assert results.effective["engine_version"] == "1" and living() == []


@pytest.mark.parametrize(("batch", "timed"), [(1, 7), (3, 2)])
def test_every_whole_inference_of_this_pass_is_timed(tmp_path, batch, timed):
    inputs = [{"name": "x", "shape": [batch, 4], "dtype": "float32"}]
    outputs = [{"name": "y", "shape": [batch, 2], "dtype": "float32"}]
    path = write_fake_model(tmp_path / "m.fake", graph=NET, inputs=inputs, outputs=outputs)
    results = put(path, Rows(rows(7)), folder=tmp_path / "n")
    assert len(results.entries) == 7
    assert len(results.times) == timed  # the last batch is filled up, and no inference that anybody asked for
    assert all(part > 0 for times in results.times for part in times)
    assert put(path, Rows(rows(7)), folder=tmp_path / "n").times == []


def test_a_pass_that_was_cut_off_goes_on_to_the_same_records(model, tmp_path):
    whole = put(model, Rows(rows(COUNT))).entries
    data = Rows(rows(COUNT))
    first = put(model, data, folder=tmp_path / "n", progress=interrupt_at(5))
    assert first.interrupted and first.failure is None and 5 <= len(first.entries) < COUNT and living() == []
    assert first.entries == whole[: len(first.entries)]
    data = Rows(rows(COUNT))
    told = []
    second = put(model, data, folder=tmp_path / "n", progress=lambda done, total: told.append((done, total)))
    assert (second.interrupted, second.resumed, second.entries) == (False, len(first.entries), whole)
    assert data.read_numbers == list(range(len(first.entries), COUNT))
    assert told[0][0] > len(first.entries) and told[-1] == (COUNT, COUNT)
    third = put(model, Rows(rows(COUNT), on_read=corrupt(*range(COUNT))), folder=tmp_path / "n")
    assert (third.resumed, third.entries) == (COUNT, whole)  # nothing was read, and no worker was started


def test_a_cut_in_every_place_gives_the_same_records(model, tmp_path):
    count = 6
    whole = put(model, Rows(rows(count))).entries
    resumed = []
    for _ in range(count):
        results = put(model, Rows(rows(count)), folder=tmp_path / "n", progress=interrupt_at(0))
        resumed.append(results.resumed)
        if not results.interrupted:
            break
    assert results.entries == whole and len(resumed) > 2 and resumed == sorted(resumed)


def test_a_damaged_checkpoint_costs_only_what_is_spoilt(model, tmp_path):
    whole = put(model, Rows(rows(COUNT)), folder=tmp_path / "n").entries
    (file,) = (tmp_path / "n").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3], lines[9] = b"\xff\x00 rubbish\n", b'{"i": 9}\n'
    file.write_bytes(b"".join(lines)[:-10])
    data = Rows(rows(COUNT))
    results = put(model, data, folder=tmp_path / "n")
    assert results.entries == whole and data.read_numbers == [3, 9, COUNT - 1]
    assert results.resumed == COUNT - 3


def test_other_data_models_or_scorers_are_not_resumed(model, tmp_path):
    folder = tmp_path / "n"
    put(model, Rows(rows(8)), folder=folder)
    other = write_fake_model(tmp_path / "other.fake", graph=NET, latency_ns=[5])
    assert put(other, Rows(rows(8)), folder=folder).resumed == 0
    changed = Rows(rows(8, seed=1), mark="touched")
    results = put(model, changed, folder=folder)
    assert results.resumed == 0 and results.entries[0].digest == changed.read(0).digest()
    assert put(model, Rows(rows(8), split="train"), folder=folder).resumed == 0
    assert put(model, Rows(rows(8)), folder=folder, identity={"task": "u"}).resumed == 0
    assert put(model, Rows(rows(8)), folder=folder, fresh=True).resumed == 0
    assert put(model, Rows(rows(8)), folder=folder).resumed == 8


def test_a_part_of_what_was_judged_is_told_as_a_part(model, tmp_path):
    put(model, Rows(rows(COUNT)), folder=tmp_path / "n", indices=range(10, COUNT))
    told = []
    results = put(
        model, Rows(rows(COUNT)), folder=tmp_path / "n", indices=range(12), progress=lambda *pair: told.append(pair)
    )
    assert [entry.index for entry in results.entries] == list(range(12))
    assert results.resumed == 2 and all(done <= total == 12 for done, total in told) and told[-1] == (12, 12)


# --- samples that can't be used ---


def test_samples_that_can_t_be_used_are_named_and_counted(model):
    data = rows(COUNT)
    data[7, 2] = np.nan
    wrong = [*data[:20], np.zeros(3, np.float32), *data[20:]]
    results = put(model, Rows(wrong, on_read=corrupt(0, 30, COUNT)))
    skipped = {entry.index: entry.reason for entry in results.entries if entry.reason}
    assert set(skipped) == {0, 7, 20, 30, COUNT} and len(results.records) == COUNT + 1 - 5
    assert skipped[30] == "scratched" and "shape" in skipped[20] and "finite" in skipped[7]


def test_strict_ends_at_the_first_of_them(model):
    with pytest.raises(BadInput, match=says("cant-used-in-data-options", name="row[5]", reason="scratched")):
        put(model, Rows(rows(COUNT), on_read=corrupt(5)), strict=True)
    assert living() == []


def test_strict_does_not_take_over_what_was_skipped_before(model, tmp_path):
    lenient = put(model, Rows(rows(8), on_read=corrupt(5)), folder=tmp_path / "n")
    assert len(lenient.records) == 7
    with pytest.raises(BadInput, match=r"row\[5\]"):
        put(model, Rows(rows(8), on_read=corrupt(5)), folder=tmp_path / "n", strict=True)
    mended = put(model, Rows(rows(8)), folder=tmp_path / "n", strict=True)
    assert len(mended.records) == 8 and mended.resumed == 7


def test_samples_of_which_none_can_be_used_are_no_failure_of_the_engine(model):
    results = put(model, Rows(rows(8), on_read=corrupt(*range(8))))
    assert results.failure is None and results.records == [] and len(results.entries) == 8


@pytest.mark.parametrize("error", [RuntimeError("odd"), OSError("gone"), BadInput("damaged")])
def test_a_data_set_that_raises_leaves_no_worker(model, error):
    def read(index):
        if index == 6:
            raise error

    with pytest.raises(type(error)):
        put(model, Rows(rows(COUNT), on_read=read))
    assert living() == []


@pytest.mark.parametrize("error", [BadInput("no such label"), KeyboardInterrupt()])
def test_a_judge_that_raises_leaves_no_worker(model, error):
    class Scorer(Recorder):
        def record(self, outputs, sample, preparation):
            if sample.index == 3:
                raise error
            return super().record(outputs, sample, preparation)

    if isinstance(error, KeyboardInterrupt):
        results = put(model, Rows(rows(8)), scorer=Scorer())
        assert results.interrupted and [entry.index for entry in results.entries] == [0, 1, 2]
    else:
        with pytest.raises(BadInput):
            put(model, Rows(rows(8)), scorer=Scorer())
    assert living() == []


# --- workers that end badly ---


@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        ({"at": "import", "do": "segfault"}, "EngineError"),
        ({"at": "load", "do": "invalid"}, "BadModel"),
        ({"at": "load", "do": "garbage"}, "Garbage"),
        ({"at": "first", "do": "abort"}, "EngineError"),
        ({"at": "invoke", "after": 12, "do": "raise"}, "EngineError"),
        ({"at": "invoke", "after": 12, "do": "exit"}, "EngineError"),
        ({"at": "invoke", "after": 12, "do": "memory-error"}, "OutOfMemory"),
        ({"at": "outputs", "do": "close-channel"}, "EngineError"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_the_end_of_a_worker_is_a_failure_and_keeps_what_was_judged(tmp_path, behaviour, cause):
    model = write_fake_model(tmp_path / "m.fake", graph=NET, behaviour=behaviour)
    results = put(model, Rows(rows(COUNT)), folder=tmp_path / "n")
    assert results.failure is not None and results.failure.cause == cause, results.failure
    assert bool(results.entries) == (behaviour["at"] == "invoke") and living() == []
    assert all(entry.record is not None for entry in results.entries)


def test_a_worker_without_end_is_given_up_at_the_end_of_the_time(tmp_path, clock):
    model = write_fake_model(tmp_path / "m.fake", graph=NET, behaviour={"at": "invoke", "after": 12, "do": "hang"})
    begin = clock.now()
    results = put(model, Rows(rows(COUNT)), end_by=begin + 4.0)
    assert results.failure is not None and results.failure.cause == "Timeout", results.failure
    assert clock.now() - begin == 4.0 and living() == []


def test_a_full_disk_below_the_worker_is_a_failure(model, monkeypatch):
    def refuse(path, feeds):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgewise.run.inference.write_feeds", refuse)
    results = put(model, Rows(rows(4)))
    assert results.failure is not None and "No space left on device" in results.failure.message and living() == []


def test_outputs_that_are_not_finite_reach_the_judge(tmp_path):
    model = write_fake_model(tmp_path / "m.fake", graph=NET, behaviour={"at": "outputs", "do": "nan"})
    (record,) = put(model, Rows(rows(1))).records
    assert np.isnan(record[0]).all()


# --- the worker itself ---


def test_few_samples_at_first_and_never_too_many(model):
    with Inference(job_of(model), builder=run_builder()) as inference:
        preparation = [np.zeros((1, 4), np.float32)]
        sizes = [inference.batch_size(preparation)]
        for _ in range(6):
            inference.infer([preparation] * sizes[-1])
            sizes.append(inference.batch_size(preparation))
        assert inference.infer([]) == [] and inference.batch_size(preparation) >= 1
        huge = [np.zeros((1, 2**25), np.float32)]
        assert inference.batch_size(huge) == 1
    assert sizes[0] == 1 and all(after <= 8 * before for before, after in pairwise(sizes))
    assert max(sizes) <= BATCH_SAMPLES


def test_a_feed_of_the_wrong_shape_is_a_failure(model):
    with pytest.raises(InferenceFailed), Inference(job_of(model), builder=run_builder()) as inference:
        inference.infer([[np.zeros((1, 5), np.float32)]])
    assert living() == []


def test_a_reading_failure_while_the_worker_lives_ends_it(model):
    with pytest.raises(CorruptSample), Inference(job_of(model), builder=run_builder()):
        raise CorruptSample("x", "y")
    assert living() == []


def test_other_settings_of_the_engine_are_another_pass(model, tmp_path):
    data, folder = Rows(rows(4)), tmp_path / "n"
    one = model_under_test(model)

    def resumed(job):
        asked = replace(one, job=job)
        return run_samples(
            asked, selection(data), Recorder(), builder=run_builder(), identity={"task": "t"}, checkpoints=folder
        ).resumed

    assert resumed(one.job) == 0
    assert resumed(one.job) == 4
    for settings in ({"threads": 2}, {"precision": "bf16"}, {"options": {"a": 1}}):
        assert resumed(replace(one.job, runtime=replace(one.job.runtime, **settings))) == 0
