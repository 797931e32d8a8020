"""Operators that draw random numbers are named where an output depends on them, and outputs are not compared."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.errors import BadInput
from edgewise.evaluating.evaluation import _check_repeats
from edgewise.model.identity import read_graph
from edgewise.model.random_operators import random_words
from edgewise.run.agreement import Outputs
from edgewise.run.run_builder import _judge
from edgewise.run.worker import _is_same
from exported_programs import graph as torch_body
from exported_programs import meta, node, program, write_program
from messages import says
from openvino_writer import Ir, const, layer, parameter, port, result
from tflite_writer import one_step


def write(path, nodes, *, outputs=("y",), constants=(), opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def sampled(path, **attributes):
    """A sampling step: x + noise."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"], name="sample", **attributes),
        helper.make_node("Add", ["x", "n"], ["y"]),
    ]
    return write(path, nodes)


SAMPLE = "sample (RandomNormalLike) draws random numbers, so outputs can't be compared"


@pytest.mark.parametrize("attributes", [{}, {"seed": 1.0}])
def test_a_sampling_step_is_named(tmp_path, attributes):
    assert random_words(read_graph(sampled(tmp_path / "m.onnx", **attributes))) == SAMPLE


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("RandomUniform", [], ["n"], shape=[1, 4]),
        helper.make_node("RandomNormal", [], ["n"], shape=[1, 4]),
        helper.make_node("RandomUniformLike", ["x"], ["n"]),
        helper.make_node("Bernoulli", ["x"], ["n"]),
        helper.make_node("Multinomial", ["x"], ["n"], sample_size=4, dtype=TensorProto.INT32),
    ],
    ids=lambda node: node.op_type,
)
def test_each_operator_that_draws(tmp_path, node):
    nodes = [
        node,
        helper.make_node("Cast", ["n"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    assert random_words(read_graph(write(tmp_path / "m.onnx", nodes))).startswith(f"n ({node.op_type}) draws")


@pytest.mark.parametrize("training", [True, False])
def test_dropout_draws_in_training_only(tmp_path, training):
    constants = [numpy_helper.from_array(np.float32(0.5), "r"), numpy_helper.from_array(np.array(training), "t")]
    nodes = [helper.make_node("Dropout", ["x", "r", "t"], ["y"], name="drop")]
    words = random_words(read_graph(write(tmp_path / "m.onnx", nodes, constants=constants)))
    assert bool(words) is training


def test_what_no_output_depends_on_is_not_named(tmp_path):
    """Noise whose values go nowhere, and noise of which only the shape is used."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"]),
        helper.make_node("Shape", ["n"], ["s"]),
        helper.make_node("Reshape", ["x", "s"], ["y"]),
    ]
    assert random_words(read_graph(write(tmp_path / "m.onnx", nodes))) == ""


def test_a_branch_that_draws_is_named(tmp_path):
    drawing = helper.make_graph(
        [helper.make_node("RandomNormalLike", ["x"], ["b"], name="inside")],
        "b",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)],
    )
    plain = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["c"])],
        "c",
        [],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)],
    )
    constants = [numpy_helper.from_array(np.array(True), "k")]
    nodes = [helper.make_node("If", ["k"], ["y"], then_branch=drawing, else_branch=plain)]
    assert "inside (RandomNormalLike)" in random_words(
        read_graph(write(tmp_path / "m.onnx", nodes, constants=constants))
    )


def test_openvino_draws_too(tmp_path):
    layers = [
        parameter(0, (1, 4)),
        const(1, (2,), 0, 16, dtype="i64", precision="I64"),
        const(2, (), 16, 4),
        const(3, (), 20, 4),
        layer(
            4, "RandomUniform", [port(0, (2,), "I64"), port(1, ()), port(2, ())], [port(3, (1, 4), names="noise")],
            output_type="f32", global_seed="0", op_seed="0", version="opset8",
        ),
        layer(5, "Add", [port(0, (1, 4)), port(1, (1, 4))], [port(2, (1, 4))]),
        result(6, (1, 4)),
    ]  # fmt: skip
    ends = [(1, 0, 4, 0), (2, 0, 4, 1), (3, 0, 4, 2), (0, 0, 5, 0), (4, 3, 5, 1), (5, 2, 6, 0)]
    weights = np.array([1, 4], np.int64).tobytes() + np.array([0, 1], np.float32).tobytes()
    graph = Ir(tmp_path).read(layers, *ends, weights=weights)
    assert re.search(says("random-numbers-so-outputs-cant", verb="(RandomUniform) draws"), random_words(graph))


def outputs(run_id, value):
    return Outputs(run_id=run_id, label=run_id, arrays=(np.full((1, 4), value, np.float32),))


def test_no_engine_is_blamed_for_random_outputs(tmp_path):
    model = sampled(tmp_path / "m.onnx")
    found = _judge([outputs("a", 1.0), outputs("b", 2.0)], model, set())
    for verdict in found.values():
        assert [(each.code, each.message) for each in verdict.cautions] == [("not-repeatable", SAMPLE)]
        assert {row.absent_because for row in verdict.measurements} == {SAMPLE}


def test_outputs_that_an_engine_does_not_repeat_are_not_compared(tmp_path):
    model = write(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    pair = [outputs("a", 1.0), outputs("b", 2.0)]
    assert {c.code for v in _judge(pair, model, set()).values() for c in v.cautions} == {"output-mismatch"}
    assert {c.code for v in _judge(pair, model, {"b"}).values() for c in v.cautions} == {"not-repeatable"}


def test_a_reference_needs_outputs_that_repeat(tmp_path):
    with pytest.raises(BadInput, match="RandomNormalLike"):
        _check_repeats(sampled(tmp_path / "m.onnx"))
    _check_repeats(write(tmp_path / "n.onnx", [helper.make_node("Relu", ["x"], ["y"])]))


@pytest.mark.parametrize(
    ("target", "arguments", "draws"),
    [
        ("aten.randn_like.default", {"self": "x"}, True),
        ("aten.dropout.default", {"input": "x", "p": {"as_float": 0.5}, "train": {"as_bool": True}}, True),
        ("aten.dropout.default", {"input": "x", "p": {"as_float": 0.5}, "train": {"as_bool": False}}, False),
        ("aten.relu.default", {"self": "x"}, False),
    ],
)
def test_torch_programs(tmp_path, target, arguments, draws):
    body = torch_body([node(target, arguments, "y")], {"x": meta(1, 4), "y": meta(1, 4)}, ["x"], ["y"])
    write_program(tmp_path / "m.pt2", program(body))
    assert bool(random_words(read_graph(tmp_path / "m.pt2"))) is draws


def test_tflite(tmp_path):
    content = one_step("RANDOM_STANDARD_NORMAL", lambda w: [w.tensor("x", [2], 2), w.tensor("y", [1, 4])], [0], [1])
    (tmp_path / "m.tflite").write_bytes(content)
    assert "(RANDOM_STANDARD_NORMAL)" in random_words(read_graph(tmp_path / "m.tflite"))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([1.0, 2.0], [1.0, 2.001], True),
        ([1.0, 2.0], [1.0, 2.1], False),
        ([1.0, np.nan], [1.0, np.nan], True),
        ([1.0, np.nan], [np.nan, 1.0], False),
        ([0.0], [1e-9], False),
        ([], [], True),
    ],
)
def test_what_a_second_inference_may_differ_by(first, second, same):
    assert _is_same(np.array(first), np.array(second)) is same


def test_integers_and_text_repeat_exactly():
    assert _is_same(np.array([1, 2]), np.array([1, 2]))
    assert not _is_same(np.array([1, 2]), np.array([1, 3]))
    assert not _is_same(np.array(["a"]), np.array(["b"]))
    assert not _is_same(np.zeros(2), np.zeros(3))
