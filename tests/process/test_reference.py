"""Another model's outputs in place of labels: asked for once, and only where they are needed."""

from __future__ import annotations

import numpy as np
import psutil
import pytest

from edgewise.evaluating.evaluator import Prompter, ask
from edgewise.evaluating.reference import Kept, ReferenceJudge
from edgewise.testing import write_fake_model
from small_questions import NET, Rows, assembly, corrupt, pupil, question, rows

COUNT = 40
ROW_BYTES = 8
"""Of the fake model's output for a sample: two float32."""


def judge(path, data, kept=None):
    return ReferenceJudge(Prompter(pupil(path), data, assembly=assembly()), name="r", kept=kept)


def records(path, data, by, indices=None):
    answers = ask(pupil(path), question(data, indices), by, assembly=assembly())
    assert answers.failure is None and not psutil.Process().children(recursive=True)
    return answers.records


def count_of(by, asked):
    return sum(count for prompter, count in asked if prompter is by.prompter)


@pytest.fixture
def files(tmp_path):
    first = write_fake_model(tmp_path / "m.fake", graph=NET)
    second = write_fake_model(tmp_path / "o.fake", graph=NET, outputs_value=0.5)
    return first, second, write_fake_model(tmp_path / "r.fake", graph=NET, latency_ns=[7])


@pytest.mark.parametrize(("room", "again"), [(10**6, 0), (10 * ROW_BYTES, COUNT - 10), (0, COUNT)])
def test_what_was_kept_is_not_asked_again_and_changes_no_answer(files, asked, room, again):
    first, second, reference = files
    data, kept = Rows(rows(COUNT)), Kept(room)
    one = judge(reference, data, kept)
    records(first, data, one)
    assert count_of(one, asked) == COUNT
    two = judge(reference, data, kept)
    found = records(second, data, two)
    assert count_of(two, asked) == again
    alone = records(second, data, judge(reference, data))
    assert repr(found) == repr(alone)


def test_a_pass_over_more_samples_asks_about_the_others_alone(files, asked):
    first, second, reference = files
    data, kept = Rows(rows(COUNT), on_read=corrupt(3)), Kept()
    records(first, data, judge(reference, data, kept), indices=range(0, COUNT, 2))
    more = judge(reference, data, kept)
    found = records(second, data, more)
    assert count_of(more, asked) == COUNT // 2 - 1 and len(found) == COUNT - 1


def test_where_everything_is_known_the_reference_is_not_even_started(files, monkeypatch):
    first, second, reference = files
    data, kept = Rows(rows(COUNT)), Kept()
    records(first, data, judge(reference, data, kept))
    again = judge(reference, data, kept)
    monkeypatch.setattr(again.prompter, "inference", None)
    assert len(records(second, data, again)) == COUNT


def test_outputs_that_were_kept_are_those_that_came():
    kept = Kept(room=20)
    first, second = [np.zeros(4, np.float32)], [np.ones(4, np.float32)]
    kept.add(1, first)
    kept.add(2, second)
    assert kept.get(1) is first and kept.get(2) is None
