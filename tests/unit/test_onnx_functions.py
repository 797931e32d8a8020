"""Functions of an ONNX file: costs as inlined, paths of the operators inside, and the file that OpenVINO gets."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.errors import BadModel
from edgewise.model.cost import total_of
from edgewise.model.identity import read_graph
from edgewise.model.readers.onnx_blocks import MAX_PATH
from edgewise.runtime.base import UnsupportedModel
from edgewise.runtime.onnx_functions import has_functions, write_inlined
from messages import says

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("nn", 1)]


def call(op, inputs, outputs, name="", **attributes):
    return helper.make_node(op, inputs, outputs, name=name, domain="nn", **attributes)


def write(path, functions, nodes, *, sizes=(4, 4), constants=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, sizes[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, sizes[1]])],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=9), path)
    return path


@pytest.fixture
def nested(tmp_path):
    """Two blocks of MatMul, LeakyRelu (a function of its own, whose attribute the caller gives) and Add; a Relu."""
    leaky = helper.make_function(
        "nn", "Leaky", ["x"], ["y"], [helper.make_node("LeakyRelu", ["x"], ["y"], name="act")], OPSETS, ["alpha"]
    )
    given = leaky.node[0].attribute.add()
    given.name, given.ref_attr_name, given.type = "alpha", "alpha", onnx.AttributeProto.FLOAT
    body = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        call("Leaky", ["m"], ["l"], "inner", alpha=0.2),
        helper.make_node("Add", ["l", "x"], ["y"], name="sum"),
    ]
    block = helper.make_function("nn", "Block", ["x", "w"], ["y"], body, OPSETS)
    nodes = [
        call("Block", ["x", "w0"], ["a"], "first"),
        call("Block", ["a", "w1"], ["b"], "second"),
        helper.make_node("Relu", ["b"], ["y"], name="last"),
    ]
    constants = [numpy_helper.from_array(np.full((4, 4), 0.5, np.float32), name) for name in ("w0", "w1")]
    return write(tmp_path / "m.onnx", [leaky, block], nodes, constants=constants)


def test_operators_inside_have_the_calls_in_front_of_their_name(nested):
    graph = read_graph(nested)
    assert [operator.title for operator in graph.operators] == [
        "first/m", "first/inner/act", "first/sum", "second/m", "second/inner/act", "second/sum", "last",
    ]  # fmt: skip
    total = total_of(graph)
    assert (total.macs, total.parameters) == (32, 32)


def test_nodes_out_of_order_keep_their_paths(nested, tmp_path):
    model = onnx.load(str(nested))
    nodes = [model.graph.node[at] for at in (2, 1, 0)]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    onnx.save(model, tmp_path / "n.onnx")
    graph = read_graph(tmp_path / "n.onnx")
    assert [operator.title for operator in graph.operators][:3] == ["first/m", "first/inner/act", "first/sum"]


def test_openvino_gets_a_file_without_functions(nested, tmp_path):
    (tmp_path / "out").mkdir()
    assert has_functions(nested)
    found = write_inlined(nested, tmp_path / "out")
    assert not has_functions(found)
    operators = read_graph(found).operators
    assert [operator.op for operator in operators] == ["MatMul", "LeakyRelu", "Add"] * 2 + ["Relu"]
    assert operators[1].attributes["alpha"] == pytest.approx(0.2)


@pytest.mark.engine
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_engines_run_functions(nested, engine):
    pytest.importorskip(engine, reason=f"{engine} runs here")
    from edgewise.runtime.base import LoadOptions, runtimes

    session = runtimes().get(engine).load(nested, LoadOptions(provider="cpu"))
    session.bind([np.ones((1, 4), np.float32)])
    session.invoke()
    # 1 → 4 · 0.5 + 1 = 3 → 4 · 1.5 + 3 = 9
    assert session.read_outputs()[0].tolist() == [[9.0] * 4]


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"no protobuf at all", b"\xca\x01\xff"])
def test_other_files_have_no_functions(tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    assert not has_functions(tmp_path / "m.onnx")


def chain(path, count, times):
    """Functions that call one another in a chain, each the next one so many times."""
    functions = [helper.make_function("nn", "F0", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], OPSETS)]
    for at in range(1, count):
        names = ["x", *(f"t{step}" for step in range(1, times)), "y"]
        body = [call(f"F{at - 1}", [names[step]], [names[step + 1]]) for step in range(times)]
        functions.append(helper.make_function("nn", f"F{at}", ["x"], ["y"], body, OPSETS))
    return write(path, functions, [call(f"F{count - 1}", ["x"], ["y"])])


@pytest.mark.parametrize(
    ("count", "times", "why"),
    [(40, 2, says("inlining-functions-gives-more-than")), (200, 1, says("functions-call-one-another-more"))],
)
def test_an_expansion_without_bounds_is_one_clear_error(tmp_path, count, times, why):
    with pytest.raises(BadModel, match=why):
        read_graph(chain(tmp_path / "m.onnx", count, times))


def test_a_chain_that_engines_run_is_read(tmp_path):
    graph = read_graph(chain(tmp_path / "m.onnx", 90, 1))
    assert [operator.op for operator in graph.operators] == ["Relu"]
    assert graph.operators[0].title == "y/" * 90 + "y"


def test_functions_that_run_themselves_are_no_model_for_openvino(tmp_path):
    body = [call("A", ["x"], ["y"])]
    path = write(
        tmp_path / "m.onnx", [helper.make_function("nn", "A", ["x"], ["y"], body, OPSETS)], [call("A", ["x"], ["y"])]
    )
    with pytest.raises(UnsupportedModel, match=says("functions-cant-inlined")):
        write_inlined(path, tmp_path)


def test_long_paths_are_cut_in_front(tmp_path):
    path = chain(tmp_path / "m.onnx", 90, 1)
    model = onnx.load(str(path))
    model.graph.node[0].name = "n" * 1000
    onnx.save(model, path)
    (operator,) = read_graph(path).operators
    assert operator.title.startswith("…n")
    assert operator.title.endswith("n/" + "y/" * 89 + "y")
    assert len(operator.title) == MAX_PATH + 1
