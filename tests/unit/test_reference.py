"""Another model's outputs in place of labels: asked for once, and only where they are needed."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.evaluating.evaluator import ModelAdapter, run_samples
from edgewise.evaluating.reference import OutputCache, ReferenceScorer
from edgewise.testing import write_fake_model
from small_selections import NET, Rows, corrupt, model_under_test, rows, run_builder, selection
from threaded_workers import living

pytestmark = pytest.mark.usefixtures("threads")
COUNT = 40
ROW_BYTES = 8
"""Of the fake model's output for a sample: two float32."""


def scorer(path, data, cache=None):
    return ReferenceScorer(ModelAdapter(model_under_test(path), data, builder=run_builder()), name="r", cache=cache)


def records(path, data, by, indices=None):
    results = run_samples(model_under_test(path), selection(data, indices), by, builder=run_builder())
    assert results.failure is None and not living()
    return results.records


def count_of(by, asked):
    return sum(count for adapter, count in asked if adapter is by.adapter)


@pytest.fixture
def files(tmp_path):
    first = write_fake_model(tmp_path / "m.fake", graph=NET)
    second = write_fake_model(tmp_path / "o.fake", graph=NET, outputs_value=0.5)
    return first, second, write_fake_model(tmp_path / "r.fake", graph=NET, latency_ns=[7])


@pytest.mark.parametrize(("room", "again"), [(10**6, 0), (10 * ROW_BYTES, COUNT - 10), (0, COUNT)])
def test_what_was_kept_is_not_asked_again_and_changes_no_answer(files, asked, room, again):
    first, second, reference = files
    data, kept = Rows(rows(COUNT)), OutputCache(room)
    one = scorer(reference, data, kept)
    records(first, data, one)
    assert count_of(one, asked) == COUNT
    two = scorer(reference, data, kept)
    found = records(second, data, two)
    assert count_of(two, asked) == again
    alone = records(second, data, scorer(reference, data))
    assert repr(found) == repr(alone)


def test_a_pass_over_more_samples_asks_about_the_others_alone(files, asked):
    first, second, reference = files
    data, kept = Rows(rows(COUNT), on_read=corrupt(3)), OutputCache()
    records(first, data, scorer(reference, data, kept), indices=range(0, COUNT, 2))
    more = scorer(reference, data, kept)
    found = records(second, data, more)
    assert count_of(more, asked) == COUNT // 2 - 1 and len(found) == COUNT - 1


def test_where_everything_is_known_the_reference_is_not_even_started(files, monkeypatch):
    first, second, reference = files
    data, kept = Rows(rows(COUNT)), OutputCache()
    records(first, data, scorer(reference, data, kept))
    again = scorer(reference, data, kept)
    monkeypatch.setattr(again.adapter, "inference", None)
    assert len(records(second, data, again)) == COUNT


def test_outputs_that_were_kept_are_those_that_came():
    kept = OutputCache(room=20)
    first, second = [np.zeros(4, np.float32)], [np.ones(4, np.float32)]
    kept.add(1, first)
    kept.add(2, second)
    assert kept.get(1) is first and kept.get(2) is None
