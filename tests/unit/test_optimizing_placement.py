"""Which layers of an int8 file stay in float: those whose time in float, conversions counted, is proven to be less."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from edgewise.optimizing import placement, search
from edgewise.optimizing.base import Capabilities, PassResult, Recipe
from edgewise.optimizing.placement import Placement, find_placement, profile_both
from edgewise.optimizing.planning import PlannedTask, Source
from edgewise.optimizing.search import Search
from edgewise.optimizing.variant import ORIGINAL, Candidate, Prediction
from edgewise.record import Layer, LayerTensor, ModelRef, RuntimeSpec
from sample_runs import make_run

MICRO = 1e-6
SIZE = 1000
INT8, FLOAT = "uint8", "float32"


def layer(name, op, micros, reads, makes, *, dtype=FLOAT, half=0.0, size=SIZE, **more):
    def tensors(names):
        return tuple(LayerTensor(name=each, shape=(1, size), dtype=dtype) for each in names)

    values = {"nodes": (name,), "macs": 0, "engine_op": op, "dtype": dtype, **more}
    time = micros * MICRO
    return Layer(
        index=0, name=name, op=op, time=time, low=time - half * MICRO, high=time + half * MICRO,
        inputs=tensors(reads), outputs=tensors(makes), **values,
    )  # fmt: skip


def profiled(number, layers):
    latency = sum(each.time for each in layers)
    layers = tuple(replace(each, index=at) for at, each in enumerate(layers))
    run = make_run(number, latency=latency, half=0.0, model=ModelRef(
        name=f"{number}.onnx", path=f"/{number}.onnx", sha256=str(number) * 64, format="onnx", size_bytes=1
    ))  # fmt: skip
    return replace(run, layers=layers)


def chain(times, *, half=0.0, size=SIZE, convert=2.0, floats=()):
    """Profiles of a chain of layers with `times` in float and in int8, µs, as a float and as an int8 file.

    The int8 file converts at both ends, and around the layers `floats`, which are float in it, too.
    """
    before = [layer(f"l{at}", "Conv", one, [f"t{at}"], [f"t{at + 1}"], half=half, size=size)
              for at, (one, _) in enumerate(times)]  # fmt: skip
    after = [layer("t0_Q", "QuantizeLinear", convert, ["t0"], ["t0_q"], size=size)]
    for at, (_, other) in enumerate(times):
        if at in floats:
            after.append(
                layer(f"t{at}_DQ", "DequantizeLinear", convert, [f"t{at}_q"], [f"t{at}_f"], dtype=INT8, size=size)
            )
            after.append(layer(f"l{at}", "Conv", other, [f"t{at}_f"], [f"t{at + 1}"], half=half, size=size))
            after.append(layer(f"t{at + 1}_Q", "QuantizeLinear", convert, [f"t{at + 1}"], [f"t{at + 1}_q"], size=size))
        else:
            after.append(
                layer(f"l{at}", "Conv", other, [f"t{at}_q"], [f"t{at + 1}_q"], dtype=INT8, half=half, size=size)
            )
    end = len(times)
    after.append(layer(f"t{end}_DQ", "DequantizeLinear", convert, [f"t{end}_q"], [f"t{end}"], dtype=INT8, size=size))
    return profiled(1, before), profiled(2, after)


def test_a_layer_that_is_slower_in_int8_stays_float_and_both_borders_are_counted():
    found = find_placement(*chain([(50, 10), (20, 100), (50, 10)]))
    assert found.layers == found.names == ("l1",)
    assert found.saving == pytest.approx((100 - 20 - 2 * 2) * MICRO) and found.noise == pytest.approx(0.0)
    assert (found.before, found.after) == pytest.approx((120 * MICRO, 124 * MICRO))
    assert found.pays
    told = found.prediction
    assert told.speedup == pytest.approx(120 / (124 - 76)) and told.low is None and told.high is None
    assert told.because == ("l1 in float, where int8 takes 76.0 µs of 124 µs more, conversions counted")


def test_a_layer_stays_int8_where_its_conversions_cost_what_it_saves():
    assert find_placement(*chain([(500, 10), (20, 100), (500, 10)], convert=40.0)).layers == ()
    assert find_placement(*chain([(500, 10), (20, 100), (500, 10)], convert=39.0)).layers == ("l1",)


def test_where_all_layers_are_faster_in_float_the_float_file_is_that():
    assert find_placement(*chain([(10, 50), (20, 100)])).layers == ()


def test_a_saving_within_the_noise_does_not_count():
    times = [(50, 10), (20, 100), (50, 10)]
    # Of both profiles: hypot(53, 53) = 74.95 µs, under 76 µs.
    close = find_placement(*chain(times, half=53.0))
    assert close.layers == ("l1",) and close.noise == pytest.approx(math.hypot(53, 53) * MICRO)
    assert find_placement(*chain(times, half=54.0)).layers == ()


def test_the_drift_between_the_two_profiles_is_noise_too():
    before, after = chain([(50, 10), (20, 100), (50, 10)])
    latency = replace(after.measurement("latency"), low=after.value("latency") * 0.2)
    others = [latency if row.metric == "latency" else row for row in after.measurements]
    first = before.measurement("latency")
    known = [replace(first, low=first.value, high=first.value * 1.0001) if row is first else row
             for row in before.measurements]  # fmt: skip
    drifting = replace(before, measurements=tuple(known)), replace(after, measurements=tuple(others))
    assert find_placement(*drifting).layers == ()


def test_neighbours_that_pay_only_together_stay_float_together():
    alone = find_placement(*chain([(50, 10), (20, 30), (50, 10)], convert=7.0))
    both = find_placement(*chain([(50, 10), (20, 30), (20, 30), (50, 10)], convert=7.0))
    assert alone.layers == ()
    assert both.layers == ("l1", "l2") and both.saving == pytest.approx((2 * 10 - 2 * 7) * MICRO)


def test_beside_a_layer_that_is_float_anyhow_a_conversion_goes_with_it():
    """l0 reads the network's input, and l1 is float in both files: l0 in float needs neither of its two conversions."""
    found = find_placement(*chain([(12, 10), (5, 5), (50, 10)], floats=(1,)))
    assert found.layers == ("l0",) and found.saving == pytest.approx((10 - 12 + 2 * 2) * MICRO)


def test_a_kernel_of_integers_is_no_border_though_it_names_the_type_of_its_scale():
    """ONNX Runtime's QLinearConcat says float32: between int8 layers nothing is converted, and none is saved."""
    assert find_placement(*chain([(12, 10), (5, 5), (50, 10)], floats=(1,))).layers == ("l0",)
    near, int8 = chain([(12, 10), (5, 5), (50, 10)])
    layers = tuple(replace(each, op="QLinearConcat", engine_op="QLinearConcat", dtype=FLOAT) if each.name == "l1" else each
                   for each in int8.layers)  # fmt: skip
    assert find_placement(near, replace(int8, layers=layers)).layers == ()


def test_two_parts_are_judged_each_on_its_own():
    found = find_placement(*chain([(50, 10), (20, 90), (50, 10), (20, 25), (50, 10), (20, 60), (50, 10)]))
    # 5 µs less 4 µs of conversions pay, too; the layers that gain most are named first.
    assert sorted(found.layers) == ["l1", "l3", "l5"]
    assert found.names == ("l1", "l5", "l3")
    assert found.saving == pytest.approx((66 + 1 + 36) * MICRO)


def test_a_tensor_of_unknown_size_keeps_its_layers_int8():
    before, after = chain([(50, 10), (20, 100), (50, 10)])
    layers = [replace(each, outputs=tuple(replace(one, shape=(None, SIZE)) for one in each.outputs))
              if each.name == "l1" else each for each in before.layers]  # fmt: skip
    layers = [replace(each, inputs=tuple(replace(one, shape=(None, SIZE)) for one in each.inputs))
              if each.name == "l2" else each for each in layers]  # fmt: skip
    assert find_placement(replace(before, layers=tuple(layers)), after).layers == ()


def test_without_a_measured_conversion_nothing_is_known_of_borders():
    before, after = chain([(50, 10), (20, 100), (50, 10)])
    bare = tuple(each for each in after.layers if each.op == "Conv")
    assert find_placement(before, replace(after, layers=bare)).layers == ()


def test_a_saving_that_no_race_could_prove_makes_no_file():
    found = find_placement(*chain([(500, 100), (20, 25), (500, 100)]))
    assert found.layers == ("l1",) and found.saving == pytest.approx(1 * MICRO)
    assert not found.pays


@pytest.mark.parametrize("seed", range(30))
def test_the_cut_is_the_cheapest_of_all_placements(seed):
    chance = random.Random(seed)
    nodes = range(7)
    costs = {at: (chance.uniform(1, 20), chance.uniform(1, 20)) for at in nodes if chance.random() < 0.8}
    links = {(one, other): chance.uniform(0, 8) for one, other in itertools.combinations((-1, *nodes), 2)
             if chance.random() < 0.35}  # fmt: skip
    network = placement._Network(pairs=(), costs=costs, links=links)
    subsets = itertools.chain.from_iterable(itertools.combinations(costs, size) for size in range(len(costs) + 1))
    least = min(network.cost(set(one)) for one in subsets)
    assert network.cost(network.cut()) == pytest.approx(least)


def test_profiles_need_time():
    assert profile_both(None, None, left=placement.LEAST_S - 0.1) is None


class Static:
    name = "static"
    capabilities = Capabilities(
        kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True, keeps_float=True, arithmetic="int8"
    )


def int8_file(name, *, speedup=None, engine="onnxruntime", rejected=False):
    source = Source(variant=ORIGINAL, facts=None, model="m", format="onnx", digest="")
    task = PlannedTask(one=Static(), recipe=Recipe(label=name), source=source, engines=(engine, "openvino"))
    return Candidate(
        id=f"static {name} @ {engine}", parent=ORIGINAL, runtime=RuntimeSpec(name=engine), stage="judged",
        predicted=None if speedup is None else Prediction(speedup=speedup), task=task,
        job=SimpleNamespace(runtime=RuntimeSpec(name=engine)), model=object(), rejected=rejected,
    )  # fmt: skip


class Searching:
    """A search with int8 files, and what it does with them."""

    def __init__(self, *candidates, left=100.0, **settings):
        known = SimpleNamespace(**{"judge": None, "races": True, **settings})
        self._settings, self._found = known, {one.id: one for one in candidates}
        self._everything = {ORIGINAL: SimpleNamespace(model="float.onnx"), **self._found}
        self._notes, self._predictions, self.made, self.taken = [], {}, [], []
        self._cache = SimpleNamespace(make=self._make)
        self._time = left

    def _left(self):
        return self._time

    def _find_to_place(self):
        return Search._find_to_place(self)

    def _make(self, tasks, *, seconds):
        self.made += tasks
        return [PassResult() for _ in tasks]

    def _take(self, task, result, *, suffix):
        self.taken.append(task.result_name(task.engines[0], suffix=suffix))


@pytest.mark.parametrize(
    ("candidates", "settings", "found"),
    [
        ([int8_file("a", speedup=1.1), int8_file("b", speedup=1.4)], {}, "static b @ onnxruntime"),
        ([int8_file("a"), int8_file("b", engine="openvino")], {}, "static a @ onnxruntime"),
        ([int8_file("a", speedup=2.0, rejected=True), int8_file("b", speedup=1.1)], {}, "static b @ onnxruntime"),
        ([int8_file("a", rejected=True)], {}, "static a @ onnxruntime"),  # it lost too much accuracy
        ([replace(int8_file("a", rejected=True), stage="made")], {}, None),  # it does not run
        ([int8_file("a")], {"races": False}, None),
        ([int8_file("a")], {"judge": object()}, None),
        ([int8_file("a")], {"left": 0.0}, None),
    ],
)
def test_the_int8_file_is_the_one_that_is_likely_the_fastest(candidates, settings, found):
    one = Search._find_to_place(Searching(*candidates, **settings))
    assert (None if one is None else one.id) == found


def placed(monkeypatch, found, *, profiles=("before", "after")):
    asked = {}

    def profile(before, after, *, left):
        asked.update(before=before, left=left)
        return profiles

    monkeypatch.setattr(search, "profile_both", profile)
    monkeypatch.setattr(search, "find_placement", lambda before, after: found)
    monkeypatch.setattr(search, "job_of", lambda model, runtime, settings: (model, runtime.name))
    searching = Searching(int8_file("a"))
    Search._spare_slow_layers(searching)
    assert asked == {"before": ("float.onnx", "onnxruntime"), "left": search.PLACEMENT_SHARE * 100.0}
    return searching


def test_one_file_with_these_layers_in_float_is_made_and_checked(monkeypatch):
    found = Placement(layers=("l1",), names=("l1",), saving=1.0, noise=0.1, before=4.0, after=5.0)
    searching = placed(monkeypatch, found)
    (task,) = searching.made
    assert task.keep_float == ("l1",) and task.engines == ("onnxruntime",)
    assert searching.taken == ["static a slow layers in float @ onnxruntime"]
    assert searching._predictions[searching.taken[0]].speedup == pytest.approx(1.0)
    assert searching._notes == []


def test_no_file_is_made_where_nothing_pays_or_layers_have_no_times(monkeypatch):
    assert placed(monkeypatch, Placement(before=4.0, after=5.0)).made == []
    untimed = placed(monkeypatch, None, profiles=None)
    assert untimed.made == [] and untimed._notes == ["static a: its layers were not timed"]
