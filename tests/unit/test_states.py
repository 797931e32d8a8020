"""Models that keep a state: the worker's side of an evaluation, and what a record says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise.model.signature import TensorSpec
from edgewise.record import Job, ModelRef, RuntimeSpec, Workload
from edgewise.run.sample_mode import answer_samples, read_feeds, write_feeds
from edgewise.runtime.base import UnsupportedModel, reset_state, states_of
from messages import says

JOB = Job(
    model=ModelRef(name="m", path="/m", format="onnx", sha256="0" * 64, size_bytes=1), runtime=RuntimeSpec(name="fake")
)


class Adds:
    """A session whose output is the sum of its inputs since it was reset."""

    states = ("sum",)

    def __init__(self, *, resets: bool = True) -> None:
        self.inputs = self.outputs = [TensorSpec(name="x", shape=(1,), dtype="float32")]
        self.sum, self.resets, self.closed = np.float32(0), resets, False

    def bind(self, arrays):
        self.array = arrays[0]

    def invoke(self):
        self.sum = self.sum + self.array

    def read_outputs(self):
        return [self.sum.copy()]

    def reset_state(self):
        self.sum = np.float32(0) if self.resets else self.sum
        return self.resets

    def close(self):
        self.closed = True


def answers(tmp_path, session, *, reload=None, keep_state=False, samples=((1,), (2,), (3,))):
    """The outputs that a worker sends for `samples`, and what it says of them at the end."""
    write_feeds(tmp_path / "f.npz", [[np.array(each, np.float32)] for each in samples])
    sent = {}
    orders = iter([{"kind": "infer", "file": "f.npz"}, {"kind": "end"}])
    told = answer_samples(
        session,
        tmp_path,
        reload=reload,
        keep_state=keep_state,
        tell=lambda kind, **fields: sent.update({kind: fields}),
        next_order=lambda: next(orders),
    )
    return [float(each[0][0]) for each in read_feeds(tmp_path / sent["inferred"]["file"])], told


def test_each_sample_starts_from_the_initial_state(tmp_path):
    assert answers(tmp_path, Adds()) == ([1, 2, 3], {"count": 3, "reloaded": False})


def test_a_sequence_keeps_the_state(tmp_path):
    assert answers(tmp_path, Adds(), keep_state=True)[0] == [1, 3, 6]


def test_a_state_that_the_engine_cannot_reset_is_reset_by_loading_the_model_again(tmp_path):
    first = Adds(resets=False)
    assert answers(tmp_path, first, reload=lambda feed: Adds(resets=False)) == (
        [1, 2, 3],
        {"count": 3, "reloaded": True},
    )
    assert first.closed


def test_samples_of_several_sizes_are_no_sequence(tmp_path):
    with pytest.raises(UnsupportedModel, match=says("samples-several-sizes-cant-share")):
        answers(tmp_path, Adds(), keep_state=True, samples=((1,), (2, 3)))


def test_a_session_without_states_needs_no_reset():
    class Plain:
        pass

    assert states_of(Plain()) == () and reset_state(Plain())


def test_keeping_the_state_is_another_job_and_not_keeping_it_the_same_as_before():
    kept = replace(JOB, workload=Workload(keep_state=True))
    assert kept.key != JOB.key
    assert JOB.key == "26c425e5af8fa04e"
