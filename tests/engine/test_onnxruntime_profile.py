"""Layers timed by ONNX Runtime, on networks whose operators are known."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgewise.model.cost import KINDS
from edgewise.model.identity import read_graph
from edgewise.runtime.base import CannotProfile, LoadOptions, ProfilesLayers
from edgewise.runtime.onnxruntime import OnnxRuntime
from edgewise.runtime.onnxruntime_profile import _KINDS, ProfiledOnnxSession
from engine.profiles import OPERATORS, check_profile, random_inputs, told_of, write_network
from messages import says

onnx = pytest.importorskip("onnx")
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not OnnxRuntime().availability(), reason="onnxruntime is not installed"),
]

RUNTIME = OnnxRuntime()
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def load(path, **given):
    session = RUNTIME.load(path, LoadOptions(**({"provider": "cpu", "threads": 1, "profile": True} | given)))
    session.bind(random_inputs(session))
    session.invoke()
    return session


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return write_network(tmp_path_factory.mktemp("network") / "network.onnx")


def by_operator(profile):
    """Name of an operator of the model → the step that executes it."""
    return {name: node.name for node in profile.nodes for name in node.originals}


def test_only_a_session_that_was_asked_to_can_time_its_layers(network):
    plain = RUNTIME.load(network, LoadOptions(provider="cpu"))
    assert not isinstance(plain, ProfilesLayers)
    assert isinstance(load(network), ProfilesLayers)


def test_the_ordinary_session_of_it_is_not_profiled(network):
    session = load(network)
    assert not session._session.get_session_options().enable_profiling
    session.profile_layers(2)
    session.invoke()
    assert session.read_outputs()[0].shape == (1, 5)


def test_operators_in_functions_of_functions_have_their_steps(tmp_path):
    helper, sets = onnx.helper, [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("nn", 1)]
    conv = helper.make_node("Conv", ["x", "w"], ["c"], name="cv", pads=[1] * 4)
    inner = helper.make_function("nn", "Inner", ["x", "w"], ["y"], [conv, helper.make_node("Relu", ["c"], ["y"])], sets)
    calls = [
        helper.make_node("Inner", [a, "w"], [b], domain="nn", name=b) for a, b in (("x", "a"), ("a", "y"))
    ]  # fmt: skip
    middle = helper.make_function("nn", "Middle", ["x", "w"], ["y"], calls, sets)
    outer = [helper.make_node("Middle", [a, "w"], [b], domain="nn", name=b) for a, b in (("x", "a"), ("a", "y"))]
    ends = [helper.make_tensor_value_info(name, 1, [1, 8, 16, 16]) for name in ("x", "y")]
    weights = onnx.numpy_helper.from_array(np.full((8, 8, 3, 3), 0.01, np.float32), "w")
    graph = helper.make_graph(outer, "g", ends[:1], ends[1:], [weights])
    path = tmp_path / "nested.onnx"
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8, functions=[inner, middle]), path)
    steps = [node for node in load(path).profile_layers(3).nodes if node.role == "operator"]
    names = [operator.name for operator in read_graph(path).operators]
    assert [name for step in steps for name in step.originals] == names
    assert [len(step.originals) for step in steps] == [2] * 4


def test_every_operator_has_its_step(network):
    profile = load(network).profile_layers(7)
    check_profile(profile)
    assert len(profile.inference_ns) == 7
    found = by_operator(profile)
    # Dropout does nothing in inference, and the engine leaves it out.
    assert found.keys() == OPERATORS.keys() - {"drop"}
    assert found["conv"] == found["relu"]  # fused, in any build with or without its blocked layout
    assert found["mm"] == found["bias"]
    # Where no step adds, the convolution before it does.
    assert found["add"] == found["conv2"] or any(node.op == "Add" for node in profile.nodes)
    assert {node.role for node in profile.nodes} <= {"operator", "layout"}
    assert told_of(profile) == 1
    first = next(node for node in profile.nodes if "conv" in node.originals)
    assert (first.dtype, first.provider) == ("float32", "CPUExecutionProvider")
    assert first.kinds[0] == "convolution"
    assert first.detail["input_shapes"][0] == {"float": [1, 3, 32, 32]}
    starts = [node.start_ns for node in profile.nodes]
    assert starts == sorted(starts)


def test_without_optimisation_every_operator_is_a_step_of_its_own(network):
    session = load(network)
    reopen = session._reopen

    def reopen_plain(file, change):
        from onnxruntime import GraphOptimizationLevel

        def also(settings):
            change(settings)
            settings.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL

        return reopen(file, also)

    session._reopen = reopen_plain
    profile = session.profile_layers(2)
    assert [node.originals for node in profile.nodes] == [(name,) for name in OPERATORS]
    assert profile.ordered


def test_it_can_be_done_again_and_leaves_no_files(network, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    session = load(network)
    first, second = session.profile_layers(2), session.profile_layers(3)
    assert [node.name for node in first.nodes] == [node.name for node in second.nodes]
    assert len(second.inference_ns) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_can_not_be_saved_leaves_type_and_order(network, monkeypatch):
    session = load(network)
    reopen = session._reopen

    def refuse(file, change):
        def check(settings):
            change(settings)
            if settings.optimized_model_filepath:
                raise RuntimeError("compiled nodes")

        return reopen(file, check)

    session._reopen = refuse
    profile = session.profile_layers(2)
    check_profile(profile)
    assert not any(node.originals for node in profile.nodes)
    assert not profile.ordered
    assert any("can't save the graph" in note for note in profile.notes)


def test_a_quantised_network(tmp_path):
    from onnx import TensorProto, helper, numpy_helper

    def real(name, value):
        return numpy_helper.from_array(np.array(value, "float32"), name)

    def pair(name, tensor):
        return [
            helper.make_node("QuantizeLinear", [tensor, "s", "z"], [f"{tensor}_q"], name=f"quantise_{name}"),
            helper.make_node("DequantizeLinear", [f"{tensor}_q", "s", "z"], [f"{tensor}_d"], name=f"dequantise_{name}"),
        ]

    nodes = [
        *pair("x", "x"),
        helper.make_node("DequantizeLinear", ["w", "s", "zw"], ["w_d"], name="dequantise_w"),
        helper.make_node("Conv", ["x_d", "w_d"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        *pair("r", "r"),
        helper.make_node("MaxPool", ["r_d"], ["p"], name="pool", kernel_shape=[2, 2]),
        *pair("p", "p"),
        helper.make_node("Identity", ["p_d"], ["y"], name="end"),
    ]
    kernel = np.random.default_rng(0).integers(-9, 9, (16, 8, 3, 3)).astype("int8")
    constants = [
        real("s", 0.1),
        numpy_helper.from_array(np.array(0, "uint8"), "z"),
        numpy_helper.from_array(np.array(0, "int8"), "zw"),
        numpy_helper.from_array(kernel, "w"),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 13, 13]),
    ]
    graph = helper.make_graph(nodes, "q", ends[:1], ends[1:], constants)
    path = tmp_path / "q.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    profile = load(path).profile_layers(3)
    check_profile(profile)
    assert told_of(profile) == 1
    step = next(node for node in profile.nodes if "conv" in node.originals)
    assert step.op == "QLinearConv"
    assert {"dequantise_x", "conv", "quantise_r"} <= set(step.originals)
    assert step.dtype == "uint8"
    assert "quantise_x" not in step.originals


def test_a_branch_is_one_step_with_its_inner_ones(tmp_path):
    from onnx import TensorProto, helper

    def branch(op, name):
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64])
        body = [helper.make_node(op, ["x"], [f"{name}1"]), helper.make_node("Exp", [f"{name}1"], [name])]
        return helper.make_graph(body, name, [], [output])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], name="top", keepdims=0),
        helper.make_node("Cast", ["top"], ["yes"], name="to_bool", to=TensorProto.BOOL),
        helper.make_node(
            "If", ["yes"], ["t"], name="if", then_branch=branch("Sin", "a"), else_branch=branch("Cos", "b")
        ),
        helper.make_node("Neg", ["t"], ["y"], name="neg"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [1, 64])], [value("y", TensorProto.FLOAT, [1, 64])]
    )
    path = tmp_path / "if.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    profile = load(path).profile_layers(3)
    check_profile(profile)
    assert [node.originals for node in profile.nodes] == [("top",), ("to_bool",), ("if",), ("neg",)]
    assert [step["op"] for step in profile.nodes[2].detail["inner_steps"]] == ["Sin", "Exp"]


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", pytest.param("inception_v2", marks=pytest.mark.long)])
def test_real_networks(name):
    path = LIGHT / f"light_{name}.onnx"
    profile = load(path).profile_layers(2)
    check_profile(profile)
    assert told_of(profile) >= 0.99
    nodes = {node.name: node for node in onnx.load(path).graph.node}
    heavy = {name for name, node in nodes.items() if node.op_type in ("Conv", "Gemm", "MatMul")}
    # The weights of these files are all alike: of equal convolutions of equal values the engine computes one.
    missing = heavy - by_operator(profile).keys()
    alike = Counter(str(nodes[name].attribute) for name in heavy)
    assert all(alike[str(nodes[name].attribute)] > 1 for name in missing)
    assert len(missing) < len(heavy) / 2
    # No operator is said to be executed by two steps: nothing was unfolded or repeated here.
    assert sum(len(node.originals) for node in profile.nodes) == len(by_operator(profile))


def test_what_can_not_be_done(network):
    session = RUNTIME.load(network, LoadOptions(provider="cpu", profile=True))
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.profile_layers(1)
    session.bind(random_inputs(session))
    session.close()
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.profile_layers(1)


def test_a_damaged_profile_is_said_to_be_one(network, monkeypatch):
    session = load(network)
    run = ProfiledOnnxSession._run

    def cut(self, engine, inferences):
        timing, file = run(self, engine, inferences)
        file.write_bytes(file.read_bytes()[:-40])
        return timing, file

    monkeypatch.setattr(ProfiledOnnxSession, "_run", cut)
    with pytest.raises(CannotProfile, match=says("onnx-runtime-profile-damaged-cut")):
        session.profile_layers(2)


def test_kinds_are_those_of_the_catalogue():
    assert {kind for kinds in _KINDS.values() for kind in kinds} <= KINDS.keys()
