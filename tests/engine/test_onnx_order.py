"""Nodes in the order in which they run."""

import random

import pytest

from edgewise.optimizing.base import CannotApply
from edgewise.optimizing.passes.onnx_files import sort_nodes
from messages import says

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.engine


def model_of(nodes, outputs):
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "net", [value("x", onnx.TensorProto.FLOAT, [1])],
        [value(name, onnx.TensorProto.FLOAT, [1]) for name in outputs],
    )  # fmt: skip
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("seed", range(20))
def test_shuffled_nodes_are_brought_into_order_and_sorted_ones_stay(seed):
    dice = random.Random(seed)
    names, nodes = ["x"], []
    for index in range(dice.randint(1, 30)):
        nodes.append(onnx.helper.make_node("Add", dice.choices(names, k=2), [f"t{index}"], name=f"n{index}"))
        names.append(f"t{index}")
    model = model_of(nodes, names[-1:])
    content = model.SerializeToString()
    assert sort_nodes(model).SerializeToString() == content
    dice.shuffle(nodes)
    model = sort_nodes(model_of(nodes, names[-1:]))
    onnx.checker.check_model(model)
    assert sorted(node.name for node in model.graph.node) == sorted(node.name for node in nodes)


def test_what_a_graph_within_a_node_takes_comes_before_the_node():
    value = onnx.helper.make_tensor_value_info
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["late"], ["r"])], "inner", [], [value("r", onnx.TensorProto.FLOAT, [1])]
    )
    branch = onnx.helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner, name="branch")
    yes = onnx.helper.make_node("Cast", ["x"], ["yes"], to=onnx.TensorProto.BOOL, name="yes")
    late = onnx.helper.make_node("Abs", ["x"], ["late"], name="late")
    model = sort_nodes(model_of([branch, yes, late], ["y"]))
    assert [node.name for node in model.graph.node] == ["yes", "late", "branch"]
    onnx.checker.check_model(model)


def test_a_circle_is_refused():
    ring = [onnx.helper.make_node("Neg", [a], [b]) for a, b in (("u", "v"), ("v", "u"))]
    with pytest.raises(CannotApply, match=says("nodes-form-cycle")):
        sort_nodes(model_of(ring, ["v"]))
