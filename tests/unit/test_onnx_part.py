"""Parts of ONNX models as models of their own: they run, and disclose neither weights nor names."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.errors import Unavailable

onnx = pytest.importorskip("onnx", reason="needs onnx")
from edgewise.converting.onnx_part import Network  # noqa: E402 - it needs onnx

F = onnx.TensorProto.FLOAT


def model(**changes):
    """x → conv → relu → shaped → product → y; the shape is a constant node, and a scale is positive."""
    chance = np.random.default_rng(0)
    node, tensor = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes = [
        node("Conv", ["x", "secret_kernel"], ["a"], name="secret_conv", pads=[1] * 4, doc_string="secret"),
        node("Relu", ["a"], ["b"], name="secret_relu"),
        node("Constant", [], ["shape"], value=tensor(np.array([1, -1]), "secret_shape")),
        node("Reshape", ["b", "shape"], ["c"]),
        node("MatMul", ["c", "secret_matrix"], ["d"], name="secret_product"),
        node("Mul", ["d", "secret_scale"], ["y"]),
    ]
    stored = [
        tensor(chance.normal(size=(4, 2, 3, 3)).astype(np.float32), "secret_kernel"),
        tensor(chance.normal(size=(64, 5)).astype(np.float32), "secret_matrix"),
        tensor(np.full(5, 0.25, np.float32), "secret_scale"),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, F, shape) for name, shape in (("x", [1, 2, 4, 4]), ("y", [1, 5]))]
    graph = onnx.helper.make_graph(nodes, "secret", ends[:1], ends[1:], stored, doc_string="secret")
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9, **changes)
    onnx.helper.set_model_props(made, {"secret": "secret"})
    return onnx.shape_inference.infer_shapes(made)


SHAPES = {"x": (1, 2, 4, 4), "a": (1, 4, 4, 4), "b": (1, 4, 4, 4), "c": (1, 64), "d": (1, 5)}


@pytest.mark.parametrize(
    ("tensors", "steps", "types"),
    [
        (["d"], 0, ["MatMul"]),
        (["d"], 1, ["Constant", "Reshape", "MatMul", "Mul"]),
        (["d"], 2, ["Relu", "Constant", "Reshape", "MatMul", "Mul"]),
        (["a"], 0, ["Conv"]),
        (["a"], 9, ["Conv", "Relu", "Constant", "Reshape", "MatMul", "Mul"]),
    ],
)
def test_a_part_has_what_is_around_its_nodes_and_runs_alone(tensors, steps, types):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    network = Network(model(), SHAPES)
    part = network.cut(network.around(network.places_of(tensors), steps))
    assert [node.op_type for node in part.graph.node] == types
    onnx.checker.check_model(part, full_check=True)
    session = onnxruntime.InferenceSession(part.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {each.name: np.ones(each.shape, np.float32) for each in session.get_inputs()}
    assert all(np.isfinite(each).all() for each in session.run(None, feeds))


def test_a_part_discloses_neither_weights_nor_names():
    whole = model(producer_name="secret", doc_string="secret")
    part = Network(whole, SHAPES).cut(range(6))
    assert b"secret" not in part.SerializeToString()
    old, new = ([onnx.numpy_helper.to_array(each) for each in found.graph.initializer] for found in (whole, part))
    for before, after in zip(old, new, strict=True):
        assert before.shape == after.shape and before.dtype == after.dtype and not np.isin(after, before).any()
        assert 0.3 < np.abs(after).mean() / np.abs(before).mean() < 3
    assert (new[2] > 0).all()  # as scales must be
    (shape,) = (each for node in part.graph.node for each in node.attribute if each.name == "value")
    assert onnx.numpy_helper.to_array(shape.t).tolist() == [1, -1]


def test_what_can_not_be_cut_is_said():
    with pytest.raises(Unavailable, match="'b' are not known"):
        Network(model(), {"x": (1, 2, 4, 4)}).cut({3})
    words = onnx.helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["a"])
    found = model()
    found.graph.node[1].CopyFrom(words)
    with pytest.raises(Unavailable, match="keys_strings of LabelEncoder"):
        Network(found, SHAPES).cut({1})
    branch = onnx.helper.make_graph([], "branch", [], [])
    found = model()
    found.graph.node[1].attribute.append(onnx.helper.make_attribute("then_branch", branch))
    with pytest.raises(Unavailable, match="branches or loops"):
        Network(found, SHAPES).cut({1})
