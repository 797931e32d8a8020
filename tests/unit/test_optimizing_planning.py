"""What is tried, and why the rest is not: words of users, plug-ins that misbehave, models that are quantised already."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise import data
from edgewise.errors import BadInput, Unavailable
from edgewise.model.identity import read_graph
from edgewise.optimizing.base import Capabilities, Recipe, passes
from edgewise.optimizing.planning import PassCatalog, Source, facts_of, is_quantized, read_words
from edgewise.registry import Availability, Registry
from graphs import graph, op, tensor
from messages import says, wording


class Plain:
    name, title = "plain", "plain"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", keeps_float=True)

    def availability(self):
        return Availability(True)

    def recipes(self, facts):
        return (Recipe(), Recipe(label="one, two", rank=1), Recipe(label="last", rank=2))

    def apply(self, work):
        raise AssertionError


class Broken:
    def __init__(self):
        raise ValueError("not today")


class Shy(Plain):
    name = "shy"

    def availability(self):
        raise OSError("no answer")


class Clumsy(Plain):
    name = "clumsy"

    def recipes(self, facts):
        raise KeyError("shape")


class Missing(Plain):
    name = "missing"

    def availability(self):
        return Availability(False, "the package x is not installed", "pip install x")


class Looking(Plain):
    name = "looking"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True)


class Learning(Plain):
    name = "learning"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True, labels=True)


class Elsewhere(Plain):
    name = "elsewhere"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="tflite")


class Foreign(Plain):
    name = "foreign"
    capabilities = Capabilities(kind="quantisation", reads=("tflite",), writes="tflite")


class Idle(Plain):
    name = "idle"

    def recipes(self, facts):
        return ()


ALL = (Plain, Shy, Clumsy, Missing, Looking, Learning, Elsewhere, Foreign, Idle)


def registry_of(*classes):
    registry = Registry("edgewise.nothing", "pass")
    points = {one.name: EntryPoint(one.name, f"{__name__}:{one.__name__}", "edgewise.nothing") for one in classes}
    registry.__dict__["_entry_points"] = points
    return registry


def catalog(*classes, words=None, rank=1, calibrates=True, labels=True, broken=False):
    registry = registry_of(*classes)
    if broken:
        registry.__dict__["_entry_points"]["broken"] = EntryPoint("broken", f"{__name__}:Broken", "edgewise.nothing")
    return PassCatalog(words=words, rank=rank, calibrates=calibrates, labels=labels, registry=registry)


@pytest.fixture(scope="module")
def facts():
    return facts_of(data.path("digits_cnn.onnx"))


def choose(one, facts, *, engines=("onnxruntime",)):
    source = Source(variant="original", facts=facts, model=str(facts.path), format=facts.format, digest="")
    return one.choose(source, kinds=("quantisation",), engines=engines)


def names(tasks):
    return [task.name for task in tasks]


def why(one):
    return dict(note.split(" was not tried: ", 1) for note in one.skipped)


def test_recipes_up_to_the_rank_the_most_promising_first(facts):
    assert names(choose(catalog(Plain), facts)) == ["plain", "plain one, two"]
    assert names(choose(catalog(Plain, rank=2), facts)) == ["plain", "plain one, two", "plain last"]
    assert names(choose(catalog(Plain, rank=0), facts)) == ["plain"]


def test_what_is_not_tried_is_told_once_with_the_reason(facts):
    one = catalog(*ALL, calibrates=False, labels=False)
    assert names(choose(one, facts)) == ["plain", "plain one, two"]
    choose(one, facts)
    found = why(one)
    assert set(found) == {"shy", "clumsy", "missing", "looking", "learning", "elsewhere", "idle"}
    assert len(one.skipped) == len(found)
    assert "no answer" in found["shy"] and found["missing"] == "the package x is not installed (pip install x)"
    assert "--data" in found["looking"] and wording("no-recipe-pass-applies-model") in found["idle"]
    assert wording("no-selected-engine-runs-output") in found["elsewhere"]


@pytest.mark.parametrize("calibrates", [True, False])
def test_labels_are_asked_for_where_there_are_samples_only(facts, calibrates):
    one = catalog(Learning, calibrates=calibrates, labels=False)
    assert choose(one, facts) == []
    assert why(one)["learning"] == ("needs labels" if calibrates else "needs samples: give --data")


def test_a_plug_in_that_does_not_load_or_trips_takes_nobody_down(facts):
    one = catalog(Plain, Clumsy, broken=True)
    assert names(choose(one, facts)) == ["plain", "plain one, two"]
    assert "not today" in why(one)["broken"] and "shape" in why(one)["clumsy"]


def test_engines_are_those_that_run_what_is_made(facts):
    assert [one.engines for one in choose(catalog(Plain), facts, engines=("litert", "onnxruntime", "openvino"))] == [
        ("onnxruntime", "openvino"),
        ("onnxruntime", "openvino"),
    ]


def test_what_was_asked_for_and_nothing_else(facts):
    words = {"plain": ["last", "one, two"]}
    assert names(choose(catalog(Plain, Looking, words=words), facts)) == ["plain one, two", "plain last"]
    assert names(choose(catalog(Plain, Looking, words={"looking": []}), facts)) == ["looking", "looking one, two"]


def test_a_recipe_that_no_file_has_is_refused_with_those_that_there_are(facts):
    one = catalog(Plain, Foreign, words={"plain": ["last", "x"], "foreign": ["y"]})
    with pytest.raises(BadInput, match=says("no-recipe-model", name="plain", unknown="x")) as caught:
        one.refuse_unknown([facts])
    assert "one, two" in caught.value.advice
    catalog(Plain, Foreign, words={"plain": ["last"], "foreign": ["y"]}).refuse_unknown([facts])
    catalog(Plain).refuse_unknown([facts])


def test_a_recipe_that_one_of_several_files_has_not_is_left_out_there(facts):
    one = catalog(Plain, words={"plain": ["last", "x"]})
    assert names(choose(one, facts)) == ["plain last"]
    assert why(one) == {"plain:x": "there is no such recipe for digits_cnn.onnx"}


# --- words ---


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], None),
        (["plain"], {"plain": []}),
        (["plain,looking"], {"plain": [], "looking": []}),
        (["plain , looking:last"], {"plain": [], "looking": ["last"]}),
        (["plain:one, two"], {"plain": ["one, two"]}),
        (["plain:one, two,looking:one, two"], {"plain": ["one, two"], "looking": ["one, two"]}),
        (["plain:last", "plain:one, two"], {"plain": ["last", "one, two"]}),
        (["plain:"], {"plain": []}),
        (["plain:a:b"], {"plain": ["a:b"]}),
    ],
)
def test_words_name_passes_and_recipes_with_commas(words, found):
    assert read_words(words, registry_of(Plain, Looking)) == found


@pytest.mark.parametrize("word", ["", "x", ",", "plain,x", "x,plain", ":last", "PLAIN", "plain;looking"])
def test_a_pass_that_is_not_there_is_refused_with_those_that_are(word):
    with pytest.raises(Unavailable) as caught:
        read_words([word], registry_of(Plain, Looking))
    assert "plain" in caught.value.advice


def test_of_several_passes_the_unknown_one_is_named():
    with pytest.raises(Unavailable, match="'lokking'"):
        read_words(["looking:last,plain,lokking"], registry_of(Plain, Looking))


@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_words_are_passes_or_an_error(words):
    registry = registry_of(Plain, Looking)
    try:
        found = read_words(words, registry)
    except Unavailable:
        return
    assert found is None or set(found) <= set(registry.names())


def test_every_built_in_recipe_can_be_named_in_one_word_with_another(facts):
    registry = passes()
    named = [
        f"{name}:{recipe.label}"
        for name in registry.names()
        if facts.format in registry.get(name).capabilities.reads
        for recipe in registry.get(name).recipes(facts)
        if recipe.label
    ]
    assert len(named) > 20
    for one, other in permutations(named, 2):
        found = read_words([f"{one},{other}"], registry)
        assert sorted(f"{name}:{label}" for name, labels in found.items() for label in labels) == sorted((one, other))


# --- models ---


def test_the_bundled_model_is_not_quantised(facts):
    assert not facts.quantized and facts.format == "onnx" and facts.cores >= 1


@pytest.mark.parametrize("name", ["QuantizeLinear", "DequantizeLinear", "QLinearConv", "ConvInteger"])
def test_operators_that_compute_in_integers_tell_a_quantised_model(name):
    net = graph([tensor("x", 1), tensor("y", 1)], [op("a", "other", ["x"], ["y"], op=name)], inputs=["x"])
    assert is_quantized(net)


def test_a_model_quantised_already_is_left_alone(facts, shared_models):
    quantized = facts_of(shared_models / "kws_ref_model.tflite")
    assert quantized.quantized and not is_quantized(read_graph(data.path("digits_cnn.tflite")))
    one = catalog(Foreign)
    assert (
        choose(one, quantized, engines=("litert",)) == [] and wording("model-already-quantised") in why(one)["foreign"]
    )


def test_open_dimensions_become_concrete(tmp_path):
    from tiny_models import write_tiny_onnx

    found = facts_of(write_tiny_onnx(Path(tmp_path / "m.onnx"), batch="n"))
    assert found.graph.tensors["x"].shape == (1, 4)
    wider = facts_of(tmp_path / "m.onnx", shapes={"x": (8, 4)})
    assert wider.graph.tensors["x"].shape == (8, 4)


class Calibrated(Plain):
    name = "calibrated"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True)


class Trained(Plain):
    name = "trained"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True, labels=True)


def test_what_only_lacks_samples_is_known_for_the_pre_flight(facts):
    one = catalog(Plain, Calibrated, Trained, calibrates=False, labels=False)
    assert {task.one.name for task in choose(one, facts)} == {"plain"}
    # Its usual recipe only, and nothing that lacks labels as well.
    assert [(each.name, each.engines) for each in one.lacking] == [("calibrated", ("onnxruntime",))]
    assert dict(each.split(" was not tried: ", 1) for each in one.skipped)["calibrated"] == wording(
        "needs-samples-give-data"
    )
    assert catalog(Calibrated).lacking == []
