"""Which layers stand out, and what becomes of those that could not be tried."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import BadInput
from edgewise.optimizing.accuracy import Accuracy, OutputCheck
from edgewise.optimizing.base import PassResult, Recipe
from edgewise.optimizing.planning import PlannedTask, Source
from edgewise.optimizing.search import _counts
from edgewise.optimizing.sensitivity import FRAGILE_DB, MOST_LAYERS, SensitivityTest, _rank, layers_of
from edgewise.optimizing.variant import LayerSensitivity, MetricValue
from edgewise.progress import reporting_to
from edgewise.record import ModelRef
from graphs import convnet, graph, op, tensor
from scripted_clock import ScriptedClock


def layer(name, snr=None, **facts):
    return LayerSensitivity(layer=name, op="Conv", snr_db=snr, **facts)


def test_what_is_far_below_the_median_stands_out():
    found = _rank([layer("a", 40.0), layer("b", 20.0), layer("c", 41.0), layer("d", 35.0), layer("e", 39.0)])
    assert [(one.layer, one.fragile) for one in found] == [
        ("b", True), ("d", False), ("e", False), ("a", False), ("c", False),
    ]  # fmt: skip


def test_what_breaks_the_network_is_worse_than_any_number_and_what_is_not_known_comes_last():
    found = _rank([layer("a", -9.0), layer("x", absent_because="no room"), layer("b", fragile=True)])
    assert [one.layer for one in found] == ["b", "a", "x"]
    assert [one.fragile for one in found] == [True, False, False]


@pytest.mark.parametrize("snrs", [(), (30.0,), (30.0, 30.0), (None, None), (30.0, 24.0)])
def test_without_anything_to_stand_out_from_nothing_does(snrs):
    assert not any(one.fragile for one in _rank([layer(str(at), snr) for at, snr in enumerate(snrs)]))


@given(st.lists(st.one_of(st.none(), st.floats(-50, 150)), max_size=40))
def test_fewer_than_half_stand_out_and_the_order_is_by_numbers(snrs):
    found = _rank([layer(str(at), snr) for at, snr in enumerate(snrs)])
    known = [one.snr_db for one in found if one.snr_db is not None]
    assert known == sorted(known) and len(found) == len(snrs)
    assert sum(one.fragile for one in found) <= len(known) // 2
    fragile = [one.snr_db for one in found if one.fragile]
    assert not fragile or max(fragile) < sorted(known)[len(known) // 2] - FRAGILE_DB


@pytest.mark.parametrize(
    ("fragile", "layers", "counts"),
    [(0, 0, [1]), (0, 1, [1]), (0, 6, [1, 2]), (1, 8, [1, 2, 4]), (3, 12, [3, 6]), (3, 5, [2]), (2, 2, [1])],
)
def test_those_that_stand_out_then_twice_as_many_up_to_half(fragile, layers, counts):
    assert list(_counts(fragile, layers)) == counts


def test_layers_are_operators_with_weights_the_largest_first():
    assert [one.name for one in layers_of(convnet())] == ["Conv0", "Conv1"]
    sizes = list(range(1, MOST_LAYERS + 20))
    tensors = [tensor("x", 1), *(tensor(f"w{size}", size, constant=True) for size in sizes)]
    tensors += [tensor(f"y{size}", 1) for size in sizes]
    operators = [op(f"Conv{size}", "convolution", ["x", f"w{size}"], [f"y{size}"], weights=[f"w{size}"]) for size in sizes]  # fmt: skip
    found = layers_of(graph(tensors, operators, inputs=["x"], outputs=["y1"]))
    assert [one.name for one in found] == [f"Conv{size}" for size in reversed(sizes)][:MOST_LAYERS]


# --- one layer at a time, with scripted answers ---

MODEL = ModelRef(name="m", path="/m", format="onnx", sha256="0" * 64, size_bytes=1)


def looking(snr=None, **facts):
    if snr is not None:
        facts["metrics"] = {"output_snr": MetricValue(value=snr)}
    return OutputCheck(**facts)


@dataclass
class Answers:
    """A variant cache and an accuracy checker in one: answers by the layer that was changed, or by those that were spared."""

    looks: dict[str, OutputCheck | Exception]
    results: dict[str, PassResult] = field(default_factory=dict)
    asked: list[float] = field(default_factory=list)
    delay: float = 0.0
    clock: ScriptedClock | None = None

    def make(self, tasks, *, seconds=None):
        self.asked.append(seconds)
        for task in tasks:
            if self.clock is not None:
                self.clock.let_pass(self.delay)
            name = task.only[0] if task.only else f"all but {','.join(task.keep_float)}"
            default = PassResult(ref=replace(MODEL, name=name))
            yield self.results.get(name, default)

    def check_outputs(self, job):
        found = self.looks.get(job, looking(30.0))
        if isinstance(found, Exception):
            raise found
        return found

    def measure_part(self, job):
        if job == "Conv1":
            raise BadInput("odd labels")
        return Accuracy(answers=None, metrics={"accuracy_drop": MetricValue(value=0.25)})

    measure = measure_part


@pytest.fixture
def measure(clock):
    """Tests the layers of three operators by a clock that only `Answers` moves."""

    def run(answers, *, seconds=30.0):
        answers.clock = clock
        return measured(answers, clock.now() + seconds)

    return run


def measured(answers, end_by):
    source = Source(variant="original", facts=None, model="m", format="onnx", digest="")
    task = PlannedTask(one=None, recipe=Recipe(), source=source)
    names = ("Conv0", "Conv1", "Conv2")
    operators = [op(name, "convolution", ["x"], ["y"]) for name in names]
    test = SensitivityTest(task=task, cache=answers, checker=answers, job_of=lambda model: model.name, end_by=end_by)
    return test.run(operators)


def test_each_layer_is_changed_alone_and_the_most_fragile_are_looked_at_closer(measure):
    told = []
    with reporting_to(told.append):
        found = measure(Answers({"Conv1": looking(5.0), "all but ": looking(4.0), "all but Conv1": looking(28.0)}))
    first, *others = found
    assert (first.layer, first.fragile, first.snr_db, first.gain_db) == ("Conv1", True, 5.0, 24.0)
    assert first.accuracy_drop is None  # its labels were odd
    assert [(one.layer, one.accuracy_drop) for one in others] == [("Conv0", 0.25), ("Conv2", 0.25)]
    assert [one.layer for one in found if one.fragile] == ["Conv1"] and len(told) == 6


def test_a_layer_that_can_t_be_tried_says_why_and_the_others_are_tried(measure):
    absent = PassResult(cause="failed", reason="odd")
    found = measure(
        Answers({"Conv1": BadInput("no such input"), "Conv2": looking(broken="broken: not finite")}, {"Conv0": absent})
    )
    assert {one.layer: one.absent_because for one in found} == {
        "Conv0": "the pass failed: odd",
        "Conv1": "not usable: no such input",
        "Conv2": "broken: not finite",
    }
    assert [one.layer for one in found if one.fragile] == ["Conv2"]


def test_layers_for_which_there_was_no_time_say_so_and_no_pass_may_take_longer_than_all(measure):
    answers = Answers({}, delay=0.6)
    found = measure(answers, seconds=1.0)
    reasons = [one.absent_because for one in found]
    assert reasons.count("the time for this test was over") >= 1 and any(one.snr_db == 30.0 for one in found)
    assert all(seconds is not None and seconds <= 5.0 for seconds in answers.asked)
