"""Shards of an evaluation: which samples, their results as text, and all together."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.evaluator import SampleResults
from edgewise.evaluating.shards import join_results, read_results, select_shard, write_results
from edgewise.record import RuntimeSpec
from edgewise.verbs.checking import make_request
from edgewise.verbs.evaluate.request import EvaluateRequest
from messages import says


def make_model(version="1"):
    job = SimpleNamespace(model=SimpleNamespace(name="m"), runtime=RuntimeSpec(name="fake", version=version))
    return SimpleNamespace(job=job)


def results(*numbers, **others):
    entries = tuple(Entry(index=at, name=f"x[{at}]", digest="d", record=[at, 0.1 * at]) for at in numbers)
    return SampleResults(entries=entries, notes=("how",), fed={"x": (-numbers[0], 0.5)}, effective={"a": 1}, **others)


@pytest.mark.parametrize("size", [1, 2, 10, 16, 17])
@pytest.mark.parametrize("count", [1, 3, 10, 16])
def test_shards_have_every_sample_once_and_in_order(size, count):
    samples = list(range(0, 2 * size, 2))
    parts = [select_shard(samples, number, count) for number in range(1, count + 1)]
    assert [one for part in parts for one in part] == samples
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_joined_shards_are_the_results_of_one_process():
    whole = results(1, 4, 7, 8, example={"sample": "x[1]"})
    skipped = Entry(index=9, name="x[9]", reason="broken", changes=("cut",))
    whole = replace(whole, entries=(*whole.entries, skipped), fed={"x": (-8, 0.5)})
    first = results(1, 4, example={"sample": "x[1]"})
    second = results(7, 8, example={"sample": "x[7]"})
    second = replace(second, entries=(*second.entries, skipped), fed={"x": (-8, 0.25)})
    read = [
        read_results(write_results(make_model(), one), make_model(), [each.index for each in one.entries], host)
        for one, host in ((first, "a"), (second, "b"))
    ]
    joined = join_results(read, seconds=3.0)
    assert joined.hosts == {"a": 2, "b": 3}
    assert replace(joined, hosts={}, seconds=0.0, untimed="") == whole
    assert joined.untimed


def test_a_value_that_is_no_number_survives():
    text = write_results(make_model(), results(1, example={"top": [[0, math.nan]]}))
    assert math.isnan(read_results(text, make_model(), [1], "a").example["top"][0][1])


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"shards": 3}, "shards-needs-lab"),
        ({"shards": (4, 3)}, "shards-cant"),
        ({"shards": (1, 3), "lab": True}, "shards-cant"),
        ({"lab": True, "keep_state": True}, "lab-excludes-hosts-share-samples"),
        ({"lab": True, "meters": True}, "lab-excludes-hosts-share-samples"),
    ],
)
def test_settings_that_shards_exclude_are_refused(wrong, key):
    with pytest.raises(BadInput, match=says(key)):
        make_request(EvaluateRequest, models=["m.onnx"], data="d", **wrong)
    make_request(EvaluateRequest, models=["m.onnx"], data="d", lab=True, shards=3)


def test_another_engine_other_samples_and_batches_are_refused():
    text = write_results(make_model("1"), results(1, 2))
    with pytest.raises(BadInput, match=says("runs-machine")):
        read_results(text, make_model("2"), [1, 2], "a")
    with pytest.raises(BadInput, match=says("gave-samples")):
        read_results(text, make_model("1"), [1, 2, 3], "a")
    with pytest.raises(BadInput, match=says("answers-samples-once-which-ones")):
        write_results(make_model(), results(1, batch=4))
