"""What a benchmark says of the turns of earlier runs in the store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.record import InTurns
from edgewise.store import open_store
from edgewise.verbs.bench.earlier_turns import find_earlier_turns
from edgewise.verbs.context import Context
from sample_runs import make_run

BEFORE, NOW = "2026-03-07T04:38:00.000+00:00", "2026-03-07T05:00:00.000+00:00"


@pytest.fixture
def context(tmp_path):
    with open_store(str(tmp_path / "runs.db")) as store:
        yield Context(store=store)


def turned(numbers, ratio, verdict, *, created_at=BEFORE, half=0.02, **facts):
    """OpenVINO and ONNX Runtime with this ratio of their turns, saved nowhere."""
    one = make_run(numbers[0], runtime="openvino", half=2e-5, **facts)
    two = make_run(numbers[1], half=2e-5, **facts)
    back = {"faster": "slower", "slower": "faster"}.get(verdict, verdict)
    ends = (ratio - half, ratio + half)
    first = InTurns(against=two.id, ratio=ratio, low=ends[0], high=ends[1], verdict=verdict, method="m")
    second = InTurns(against=one.id, ratio=1 / ratio, low=1 / ends[1], high=1 / ends[0], verdict=back, method="m")
    made = [replace(one, in_turns=(first,)), replace(two, in_turns=(second,))]
    return [replace(run, created_at=created_at) for run in made]


def told(context, before, now):
    for run in (*before, *now):
        context.store.save(run)
    return find_earlier_turns(now, context)


def test_earlier_turns_that_proved_what_is_open_now_are_told(context):
    now = turned((3, 4), 0.97, "inconclusive", created_at=NOW, half=0.1)
    assert told(context, turned((1, 2), 0.8, "faster"), now) == [
        "22 minutes ago, in turns: openvino/cpu was 1.250× [1.219, 1.283] faster than onnxruntime/cpu; this benchmark "
        "leaves that open"
    ]


def test_earlier_turns_with_the_other_order_are_told(context):
    now = turned((3, 4), 0.8, "faster", created_at=NOW)
    assert told(context, turned((1, 2), 1.25, "slower"), now) == [
        "22 minutes ago, in turns: openvino/cpu was 1.250× [1.230, 1.270] slower than onnxruntime/cpu; this benchmark "
        "finds otherwise"
    ]


@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        (turned((1, 2), 0.8, "faster"), "faster"),
        (turned((1, 2), 0.97, "inconclusive", half=0.1), "inconclusive"),
        (turned((1, 2), 0.8, "faster", threads=4), "inconclusive"),
        (turned((1, 2), 0.8, "faster", batch=8), "inconclusive"),
        ([], "inconclusive"),
    ],
    ids=["the same order", "nothing proven", "other threads", "another batch", "none"],
)
def test_what_says_the_same_or_of_other_settings_is_not_told(context, before, verdict):
    now = turned((3, 4), 0.8, verdict, created_at=NOW, half=0.02 if verdict == "faster" else 0.3)
    assert told(context, before, now) == []


def test_runs_of_which_none_is_recommended_have_them_too(context):
    now = [
        replace(make_run(n, runtime=name, grade="D"), created_at=NOW) for n, name in ((3, "openvino"), (4, "litert"))
    ]
    one, two = turned((1, 2), 0.8, "faster")
    two = replace(two, job=replace(two.job, runtime=now[1].job.runtime))
    assert told(context, [one, two], now) == [
        "22 minutes ago, in turns: openvino/cpu was 1.250× [1.219, 1.283] faster than litert/cpu; this benchmark leaves "
        "that open"
    ]


def test_of_several_the_newest_is_told(context):
    older = turned((5, 6), 0.5, "faster", created_at="2026-03-06T04:00:00.000+00:00")
    now = turned((3, 4), 0.97, "inconclusive", created_at=NOW, half=0.1)
    (line,) = told(context, [*older, *turned((1, 2), 0.8, "faster")], now)
    assert line.startswith("22 minutes ago, in turns: openvino/cpu was 1.250×")


def test_without_a_store_nothing_is_told(context, tmp_path):
    now = turned((3, 4), 0.97, "inconclusive", created_at=NOW, half=0.1)
    assert told(context, turned((1, 2), 0.8, "faster"), now)
    assert find_earlier_turns(now, replace(context, keep=False)) == []
    assert find_earlier_turns(now, Context(store=str(tmp_path / "none.db"))) == []
