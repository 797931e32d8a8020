"""Scripted profiles of the fake engine, and the scripted networks that they belong to."""

import numpy as np
import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import cost_of, total_of
from edgewise.model.readers.base import ReadsGraph
from edgewise.model.readers.fake import FakeReader
from edgewise.profiling.layers import build_profile
from edgewise.runtime.base import (
    CannotProfile,
    InvalidModel,
    LoadOptions,
    ProfilesLayers,
    ReportsEngineLatency,
    RunsConcurrently,
)
from edgewise.testing import FakeRuntime, write_fake_model
from messages import says, wording

LAYERS = [
    {
        "name": "conv+relu", "op": "FusedConv", "kinds": ["convolution"], "originals": ["conv", "relu"],
        "times_ns": [600, 640], "provider": "cpu", "dtype": "float32",
    },
    {"name": "reorder", "op": "Reorder", "role": "layout", "times_ns": [100]},
    {"name": "dense", "op": "Gemm", "inputs": ["r"], "outputs": ["y"], "times_ns": [200, 220, 240]},
]  # fmt: skip
OVERHEADS = [{"name": "between operators", "times_ns": [50]}, {"name": "call", "times_ns": [30, 10]}]
GRAPH = {
    "operators": [
        {"name": "conv", "op": "Conv", "kind": "convolution", "geometry": {"reduction": 9, "bias": True},
         "inputs": ["x", "w", "b"], "outputs": ["c"], "weights": ["w", "b"]},
        {"name": "relu", "op": "Relu", "kind": "activation", "geometry": {"activation": "relu"},
         "inputs": ["c"], "outputs": ["r"]},
        {"name": "dense", "op": "Gemm", "kind": "matrix-multiplication", "geometry": {"reduction": 4},
         "inputs": ["r", "m"], "outputs": ["y"], "weights": ["m"], "attributes": {"transB": 1}},
    ],
    "tensors": {
        "w": {"shape": [4, 9], "dtype": "float32", "constant": True},
        "b": {"shape": [4], "dtype": "float32", "constant": True},
        "m": {"shape": [4, 2], "dtype": "float32", "constant": True},
        "c": {"shape": ["batch", 4], "dtype": "float32"},
        "r": {"shape": ["batch", 4], "dtype": "float32"},
    },
}  # fmt: skip
OPEN = {
    "inputs": [{"name": "x", "shape": ["batch", 4], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": ["batch", 2], "dtype": "float32"}],
}


@pytest.fixture
def load(tmp_path):
    def load(profile=True, **script):
        path = write_fake_model(tmp_path / "m.fake", **script)
        session = FakeRuntime().load(path, LoadOptions(provider="cpu", profile=profile))
        session.bind([np.zeros(spec.shape, spec.dtype) for spec in session.inputs])
        return session

    return load


@pytest.fixture
def graph_of(tmp_path):
    def read(graph, shapes=None, **script):
        return FakeReader().read_graph(write_fake_model(tmp_path / "g.fake", graph=graph, **script), shapes=shapes)

    return read


# -- profiles


def test_a_scripted_profile(load):
    session = load(layers=LAYERS, layer_overheads=OVERHEADS)
    assert isinstance(session, ProfilesLayers)
    begin = session.clock()
    profile = session.profile_layers(4)
    conv, reorder, dense = profile.nodes
    assert conv.times_ns == (600, 640, 600, 640)
    assert reorder.times_ns == (100, 100, 100, 100)
    assert dense.times_ns == (200, 220, 240, 200)
    assert [overhead.times_ns for overhead in profile.overheads] == [(50,) * 4, (30, 10, 30, 10)]
    assert profile.inference_ns == (980, 1020, 1020, 1000)
    assert session.clock() - begin == 980 + 1020 + 1020 + 1000
    assert [node.start_ns for node in profile.nodes] == [0, 620, 720]
    assert (conv.op, conv.role, conv.provider, conv.dtype) == ("FusedConv", "operator", "cpu", "float32")
    assert (conv.kinds, conv.originals) == (("convolution",), ("conv", "relu"))
    assert (reorder.role, reorder.provider, reorder.kinds) == ("layout", None, ())
    assert (dense.inputs, dense.outputs) == (("r",), ("y",))
    assert (profile.resolution_ns, profile.truncates, profile.ordered) == (1, False, True)


def test_readings_of_the_clock_are_part_of_an_inference(load):
    session = load(layers=[{"name": "a", "times_ns": [10]}], tick_ns=3)
    assert session.profile_layers(2).inference_ns == (13, 13)


def test_who_times_layers(load):
    assert not isinstance(load(), ProfilesLayers)
    assert not isinstance(load(profile=False, layers=LAYERS), ProfilesLayers)
    assert isinstance(load(layers=[]), ProfilesLayers)


@pytest.mark.parametrize("timed", [{}, {"engine_latency_ns": [5]}])
@pytest.mark.parametrize("requests", [{}, {"requests": 2}])
def test_other_talents_stay(load, timed, requests):
    session = load(layers=LAYERS, **timed, **requests)
    assert isinstance(session, ProfilesLayers)
    assert isinstance(session, ReportsEngineLatency) is bool(timed)
    assert isinstance(session, RunsConcurrently) is bool(requests)


@pytest.mark.parametrize(
    ("deed", "error"), [("cannot-profile", CannotProfile), ("raise", RuntimeError), ("memory-error", MemoryError)]
)
def test_misbehaviour_in_the_profile(load, deed, error):
    session = load(layers=LAYERS, behaviour={"at": "profile", "do": deed})
    session.invoke()
    with pytest.raises(error, match="the script says so, at profile"):
        session.profile_layers(1)


@pytest.mark.parametrize(
    "script",
    [
        {"layers": {}},
        {"layers": ["a"]},
        {"layers": [{"name": "a"}]},
        {"layers": [{"times_ns": [1]}]},
        {"layers": [{"name": "", "times_ns": [1]}]},
        {"layers": [{"name": 1, "times_ns": [1]}]},
        {"layers": [{"name": "a", "times_ns": []}]},
        {"layers": [{"name": "a", "times_ns": [1.5]}]},
        {"layers": [{"name": "a", "times_ns": [-1]}]},
        {"layers": [{"name": "a", "times_ns": [1], "role": "king"}]},
        {"layers": [{"name": "a", "times_ns": [1], "kinds": "convolution"}]},
        {"layers": [{"name": "a", "times_ns": [1], "originals": [None]}]},
        {"layers": [{"name": "a", "times_ns": [1], "time": 1}]},
        {"layers": [{"name": "a", "times_ns": [1]}] * 2},
        {"layers": [], "layer_overheads": [{"name": "a"}]},
        {"layers": [], "layer_overheads": [{"name": "a", "times_ns": [1], "op": "b"}]},
        {"layer_overheads": [{"name": "a", "times_ns": [1]}]},
    ],
)
def test_wrong_scripts(load, script):
    with pytest.raises(InvalidModel):
        load(**script)


# -- networks


def test_a_scripted_network(graph_of):
    graph = graph_of(GRAPH, **OPEN, layers=LAYERS)
    assert isinstance(FakeReader(), ReadsGraph)
    assert (graph.format, graph.inputs, graph.outputs) == ("fake", ("x",), ("y",))
    assert [operator.name for operator in graph.operators] == ["conv", "relu", "dense"]
    assert graph.operators[0].weights == ("w", "b")
    assert graph.operators[2].attributes == {"transB": 1}
    assert graph.tensors["c"].shape == ("batch", 4)
    assert graph.tensors["w"].constant
    assert not graph.tensors["x"].constant
    assert cost_of(graph.operators[0], graph).macs is None


def test_shapes_of_open_inputs(graph_of):
    graph = graph_of(GRAPH, shapes={"x": (3, 4)}, **OPEN)
    assert {name: graph.tensors[name].shape for name in "xcry"} == {
        "x": (3, 4), "c": (3, 4), "r": (3, 4), "y": (3, 2),
    }  # fmt: skip
    total = total_of(graph)
    # 12 outputs × 9 + 6 outputs × 4; twice that, a bias and a comparison for each of 12.
    assert (total.macs, total.ops, total.parameters) == (132, 288, 36 + 4 + 8)


@pytest.mark.parametrize("shapes", [{"z": (1, 4)}, {"x": (1,)}, {"x": (1, 5)}, {"x": (-1, 4)}])
def test_shapes_that_do_not_fit(graph_of, shapes):
    with pytest.raises(BadInput):
        graph_of(GRAPH, shapes=shapes, **OPEN)


def test_layers_of_a_scripted_model(load, graph_of):
    graph = graph_of(GRAPH, shapes={"x": (1, 4)}, **OPEN)
    profile = load(layers=LAYERS, layer_overheads=OVERHEADS, **OPEN).profile_layers(6)
    layers, summary = build_profile(graph, [profile], latency=1e-6)
    times = {layer.name: layer.time for layer in layers}
    assert times["conv"] == pytest.approx(620e-9)
    assert times["dense"] == pytest.approx(220e-9)
    assert next(layer.nodes for layer in layers if layer.name == "conv") == ("conv", "relu")
    assert summary.conservation == pytest.approx(1.0)
    assert summary.attributed == pytest.approx(1.0)


def operator(**changes):
    return {"name": "o", "op": "O", "inputs": ["x"], "outputs": ["y"], **changes}


def network(*operators, **tensors):
    return {"operators": list(operators), "tensors": tensors}


T = {"shape": [1], "dtype": "float32"}


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(None, id="none"),
        pytest.param([], id="list"),
        pytest.param(network(1), id="operator no object"),
        pytest.param(network(operator(kind="nonsense")), id="unknown kind"),
        pytest.param(network(operator(kind="loop")), id="kind that needs a subgraph"),
        pytest.param(network(operator(outputs=[None])), id="outputs no names"),
        pytest.param(network(operator(inputs=["nowhere"])), id="unknown tensor"),
        pytest.param(network(operator(more=1)), id="unknown field"),
        pytest.param(network(operator(inputs=["t"]), operator(name="p", outputs=["t"]), t=T), id="wrong order"),
        pytest.param(
            network(operator(inputs=["s"], outputs=["t"]), operator(name="p", inputs=["t"], outputs=["s"]), s=T, t=T),
            id="cycle",
        ),
        pytest.param(network(operator(), t=1), id="tensor no object"),
        pytest.param(network(operator(), t={"shape": [1]}), id="no dtype"),
        pytest.param(network(operator(), t={**T, "more": 1}), id="unknown field of a tensor"),
    ],
)
def test_wrong_networks(graph_of, graph):
    with pytest.raises(BadModel):
        graph_of(graph)


def test_a_model_without_a_network(tmp_path):
    with pytest.raises(BadModel, match=says("script-no-object-graph")):
        FakeReader().read_graph(write_fake_model(tmp_path / "m.fake"))


def test_an_operator_of_no_kind_has_an_unknown_cost(graph_of):
    graph = graph_of(network(operator()))
    assert cost_of(graph.operators[0], graph).why == wording("no-formula", noun="operator", op="O")
