"""Another usual preparation that is clearly better is told, as are values that few networks take."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.evaluator import ModelUnderTest, SampleResults, SampleSelection
from edgewise.evaluating.instructions import Instructions, read_flags, write_flags
from edgewise.evaluating.other_preparation import check_range, find_better
from edgewise.evaluating.scores import MetricDifference
from edgewise.optimizing import accuracy
from edgewise.record import Caution
from messages import says

PICTURE = np.arange(20 * 30, dtype=np.uint8).reshape(20, 30)
SQUARE = np.arange(28 * 28, dtype=np.uint8).reshape(28, 28)


def prepared(*flags):
    return ModelUnderTest(job=None, instructions=Instructions(steps=read_flags(flags)))


def find(flags, gains, *, samples=250, refused=(), picture=PICTURE, **results):
    """The caution where each way, in words, gains that much; and the ways that were tried, with their samples."""
    tried = {}

    def run(tested, part):
        way = ", ".join(step.describe() for step in tested.instructions.steps[""])
        tried[way] = part.indices
        if any(word in way for word in refused):
            raise BadInput("can't be padded")
        return SampleResults(entries=(), notes=(way,), **results)

    def compare(answers):
        gain = gains.get(answers.notes[0], 0.0)
        return MetricDifference(
            metric="accuracy_top1", n=84, difference=gain, low=gain - 0.05, high=gain + 0.05,
            p_value=0.001 if gain > 0.05 else 0.2,
        )  # fmt: skip

    stored = SimpleNamespace(read=lambda index: Sample(index=index, name=str(index), data=picture))
    data = SampleSelection(data=stored, indices=tuple(range(samples)))
    return find_better(prepared(*flags), data, run, compare), tried


def test_the_way_that_scores_clearly_better_is_told_with_what_was_measured():
    found, tried = find(("resize=32,32", "scale=1/255"), {"pad 32,32, scale 1/255": 0.13})
    assert found.code == "better-preparation"
    assert found.message == (
        "--prepare pad=32,32 --prepare scale=1/255 scores 13.00 [+8.00, +18.00] points better on 84 of 250 samples "
        "(measured)"
    )
    assert list(tried) == [
        "pad 32,32, scale 1/255", "letterbox 32,32, scale 1/255", "resize 36, crop 32,32, scale 1/255",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "flags",
    [("resize=32,32", "scale=1/255"), ("resize=32", "scale=1/255"), ("scale=1/255", "resize=32"),
     ("resize={size: 32, filter: bilinear}", "scale=1/255"), ("letterbox=32", "scale=1/255"),
     ("resize=32", "crop=32", "scale=1/255")],
)  # fmt: skip
def test_every_spelling_of_the_same_picture_gets_the_same_caution(flags):
    found, tried = find((*flags, "layout=nchw"), {"pad 32,32, scale 1/255, layout nchw": 0.13}, picture=SQUARE)
    assert found.message.startswith("--prepare pad=32,32 --prepare scale=1/255 --prepare layout=nchw scores 13.00 ")
    assert list(tried) == ["pad 32,32, scale 1/255, layout nchw", "resize 36, crop 32,32, scale 1/255, layout nchw"]


@pytest.mark.parametrize(
    "flags",
    [("resize=256", "crop=224,192", "scale=1/255", "mean=0.4,0.5,0.6", "layout=nchw"), ("a b:pad={size: 32, value: 9}",),
     ("letterbox={size: [32, 32], value: 1/2, enlarge: false}", "color=bgr", "invert")],
)  # fmt: skip
def test_steps_become_flags_that_read_back_as_themselves(flags):
    steps = read_flags(flags)
    assert read_flags(write_flags(steps)) == steps


def test_the_original_of_a_search_is_doubted_once_with_its_own_answers(monkeypatch):
    calls = []

    def doubt(tested, selection, scorer, results, **rest):
        calls.append((tested, selection, results))
        return (Caution.of("better-preparation", "pad"),)

    monkeypatch.setattr(accuracy, "doubt_preparation", doubt)
    checker = object.__new__(accuracy.AccuracyChecker)
    checker._settings, checker._builder, checker._job = SimpleNamespace(judged="all", instructions=None), None, "job"
    answers = SampleResults(entries=(Entry(index=0, name="a", record=[1]),))
    checker.original = accuracy.Accuracy(answers=answers)
    checker._doubt_original(None)
    assert [one.code for one in checker.original.doubts] == ["better-preparation"]
    assert calls == [(ModelUnderTest(job="job", instructions=None), "all", answers)]


def test_the_samples_are_a_part_of_all():
    _, tried = find(("pad=32",), {}, samples=10_000)
    assert {len(indices) for indices in tried.values()} == {500}
    assert all(indices[-1] == 9980 for indices in tried.values())


def test_a_gain_by_chance_is_not_told():
    assert find(("pad=32",), {"resize 32,32": 0.04})[0] is None


def test_a_way_that_pictures_refuse_is_left_out_and_no_way_is_tried_without_a_size():
    found, tried = find(("resize=36", "crop=32"), {"letterbox 32,32": 0.1}, refused=("pad",))
    assert found.message.startswith("--prepare letterbox=32,32 scores") and len(tried) == 3
    assert find(("resize=36", "scale=1/255"), {}, picture=np.zeros((0, 3), np.uint8))[1] == {}
    assert find((), {})[1] == {}


def test_an_interrupt_ends_the_trial():
    found, tried = find(("pad=32",), {"resize 32,32": 0.5}, interrupted=True)
    assert found is None and len(tried) == 1


@pytest.mark.parametrize(
    ("fed", "odd"),
    [((0.0, 1.0), False), ((0.0, 255.0), False), ((-2.6, 2.6), False), ((0.0, 0.0), False), ((0.0, 1 / 255), True),
     ((0.0, 65025.0), True), ((-3000.0, 2.0), True)],
)  # fmt: skip
def test_values_that_few_networks_take(fed, odd):
    found = check_range({"x": fed})
    assert (found is not None) == odd
    assert not odd or (found.code == "unusual-values" and re.search(says("values-fed", name="x"), found.message))
