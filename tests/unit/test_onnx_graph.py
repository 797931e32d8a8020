"""ONNX graphs: order, names, shapes, constants, functions, inner graphs, quantisation, and everything that is refused."""

from __future__ import annotations

import json
import math
import re
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import cost_of, total_of
from edgewise.model.graph import Quantization
from edgewise.model.readers import onnx_blocks, onnx_isolated, onnx_shapes, onnx_wire
from edgewise.model.readers.base import ReadsGraph
from edgewise.model.readers.onnx import OnnxReader
from edgewise.wire import encode_varint
from messages import has, is_in, says, wording

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
value, node = helper.make_tensor_value_info, helper.make_node


def array(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def save(path, nodes, *, inputs=None, outputs=None, constants=(), opset=17, functions=(), domains=(), infos=()):
    inputs = [value("x", FLOAT, [1, 4])] if inputs is None else inputs
    outputs = [value("y", FLOAT, None)] if outputs is None else outputs
    graph = helper.make_graph(nodes, "net", inputs, outputs, list(constants), value_info=list(infos))
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(domain, 1) for domain in domains]]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))
    path.write_bytes(model.SerializeToString())
    return path


def edit(path, change):
    model = onnx.load(path, load_external_data=False)
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def read(tmp_path):
    """Writes a model and reads its graph."""

    def write_and_read(nodes, *, shapes=None, change=None, **options):
        path = save(tmp_path / "m.onnx", nodes, **options)
        if change:
            edit(path, change)
        return OnnxReader().read_graph(path, shapes=shapes)

    return write_and_read


@pytest.fixture
def refuse(read):
    """Why a model is refused."""

    def write_and_refuse(nodes, **options):
        with pytest.raises(BadModel) as caught:
            read(nodes, **options)
        assert "\n" not in caught.value.message
        return caught.value.message

    return write_and_refuse


def shapes_of(graph):
    return {name: tensor.shape for name, tensor in graph.tensors.items()}


def test_the_reader_tells_graphs():
    assert isinstance(OnnxReader(), ReadsGraph)


def test_a_small_network(tiny_onnx):
    graph = OnnxReader().read_graph(tiny_onnx(batch=3))
    assert (graph.format, graph.name, graph.version, graph.inputs, graph.outputs) == (
        "onnx", "tiny", "opset 17", ("x",), ("y",),
    )  # fmt: skip
    assert [(each.op, each.kind, each.inputs, each.outputs, each.weights) for each in graph.operators] == [
        ("MatMul", "matrix-multiplication", ("x", "w"), ("result",), ("w",)),
        ("Relu", "activation", ("result",), ("y",), ()),
    ]
    assert shapes_of(graph) == {"w": (4, 2), "x": (3, 4), "result": (3, 2), "y": (3, 2)}
    assert graph.tensors["w"].constant
    assert graph.tensors["w"].stored_bytes is None
    total = total_of(graph)
    assert (total.macs, total.parameters, total.weight_bytes, total.depth) == (3 * 2 * 4, 8, 32, 2)


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26])
def test_operator_sets(read, opset):
    graph = read(
        [node("Gemm", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])],
        constants=[array("w", np.ones((4, 5)))],
        opset=opset,
    )
    assert graph.version == f"opset {opset}"
    assert graph.tensors["y"].shape == (1, 5)
    assert total_of(graph).macs == 20


def test_the_scale_of_a_dynamically_quantised_product_is_no_parameter(read):
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("MatMulInteger", ["q", "w", "z"], ["i"]),
        node("Cast", ["i"], ["f"], to=1), node("Mul", ["s", "scales"], ["both"]), node("Mul", ["f", "both"], ["y"]),
    ]  # fmt: skip
    constants = [array("w", np.ones((4, 5), np.int8)), array("scales", np.ones(5, np.float32))]
    assert total_of(read(nodes, constants=constants)).parameters == 20


def test_names_are_unique_and_nodes_without_one_are_called_by_what_they_make(read):
    nodes = [
        node("Relu", ["x"], ["a"], name="same"), node("Relu", ["a"], ["b"], name="same"),
        node("Relu", ["b"], ["c"], name="same (2)"), node("Relu", ["c"], ["y"]),
    ]  # fmt: skip
    assert [each.name for each in read(nodes).operators] == ["same", "same (2)", "same (2) (2)", "y"]


def test_odd_names_stay_as_they_are(read):
    odd = 'a"b\n<script>\t\u202e\\'
    graph = read([node("Relu", ["x"], [odd], name=odd), node("Relu", [odd], ["y"])])
    assert graph.operators[0].name == odd
    assert graph.operators[1].inputs == (odd,)
    assert graph.tensors[odd].shape == (1, 4)


def test_nodes_are_put_in_an_order_in_which_they_can_run(read):
    nodes = [
        node("Add", ["b", "a"], ["y"]), node("Relu", ["a"], ["b"]), node("Sigmoid", ["x"], ["a"]), node("Tanh", ["x"], ["z"]),
    ]  # fmt: skip
    graph = read(nodes)
    assert [each.op for each in graph.operators] == ["Sigmoid", "Relu", "Add", "Tanh"]
    assert [each.index for each in graph.operators] == [0, 1, 2, 3]
    assert set(shapes_of(graph).values()) == {(1, 4)}


def test_an_earlier_node_of_a_late_one_moves_with_it(read):
    nodes = [node("Relu", ["c"], ["b"]), node("Relu", ["b"], ["y"]), node("Relu", ["x"], ["c"])]
    assert [each.outputs for each in read(nodes).operators] == [("c",), ("b",), ("y",)]


def test_a_circle_is_refused_by_the_name_of_a_node_on_it(refuse):
    nodes = [
        node("Relu", ["b"], ["y"], name="behind"), node("Add", ["x", "b"], ["a"], name="p"), node("Relu", ["a"], ["b"], name="q"),
    ]  # fmt: skip
    message = refuse(nodes)
    assert "cycle" in message
    assert "'p'" in message or "'q'" in message
    assert "cycle" in refuse([node("Relu", ["y"], ["y"])])


def test_a_circle_through_an_inner_graph(refuse):
    body = helper.make_graph([node("Relu", ["y"], ["t"])], "b", [], [value("t", FLOAT, None)])
    assert "cycle" in refuse(
        [node("If", ["c"], ["y"], then_branch=body, else_branch=body)], inputs=[value("c", BOOL, [])]
    )


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (
            [node("Relu", ["gone"], ["y"], name="here")],
            says("reads-which-no-node-makes", user=has("Relu 'here'"), name="gone"),
        ),
        ([node("Relu", ["x"], ["z"])], "'net', as its output, reads 'y', which no node makes"),
        (
            [node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["y"], name="two")],
            says("makes-which-another-node-makes", label=has("Tanh 'two'"), name="y"),
        ),
        ([node("Relu", ["x"], ["x"])], says("makes-which-another-node-makes", name="x")),
        ([node("Split", ["x"], ["y", "y"])], says("makes-which-another-node-makes", name="y")),
        ([node("", ["x"], ["y"])], wording("node-makes-no-operator-type", next="y")),
        ([node("Constant", [], ["y"], wrong=1)], wording("constant-node-no-value")),
    ],
)
def test_what_does_not_hold_together_is_refused(refuse, nodes, reason):
    assert is_in(reason, refuse(nodes))


def test_constants_are_tensors_and_no_operators(read):
    attributes = {
        "value": array("", [[1, 2]]), "value_int": 7, "value_ints": [1, 2, 3], "value_float": 0.5,
        "value_floats": [1.0, 2.0], "value_string": "a", "value_strings": ["a", "bc"],
    }  # fmt: skip
    nodes = [node("Constant", [], [name], **{name: given}) for name, given in attributes.items()]
    graph = read([*nodes, node("Identity", ["value"], ["y"])])
    assert [each.op for each in graph.operators] == ["Identity"]
    found = {name: (graph.tensors[name].dtype, graph.tensors[name].shape) for name in attributes}
    assert found == {
        "value": ("float32", (1, 2)), "value_int": ("int64", ()), "value_ints": ("int64", (3,)), "value_float": ("float32", ()),
        "value_floats": ("float32", (2,)), "value_string": ("string", ()), "value_strings": ("string", (2,)),
    }  # fmt: skip
    assert all(graph.tensors[name].constant for name in attributes)


def test_a_long_list_in_a_constant_node_keeps_its_length(read):
    graph = read([node("Constant", [], ["k"], value_ints=[3] * 5000), node("Cast", ["k"], ["y"], to=FLOAT)])
    assert graph.tensors["k"].shape == graph.tensors["y"].shape == (5000,)
    assert graph.tensors["k"].size_bytes == 40_000
    assert graph.tensors["k"].stored_bytes is None  # a byte each as varints, which is nothing that an engine stores


def test_weights_that_old_files_list_as_inputs_are_no_inputs(read):
    inputs = [value("x", FLOAT, [1, 4]), value("w", FLOAT, [4, 2])]
    graph = read([node("MatMul", ["x", "w"], ["y"])], inputs=inputs, constants=[array("w", np.ones((4, 2)))])
    assert graph.inputs == ("x",)
    assert graph.tensors["w"].constant


def test_what_big_constants_take_in_the_file(read):
    kinds = {"raw": array("raw", np.ones((64, 64)))}
    for name, kind in (("floats", FLOAT), ("bytes", TensorProto.INT8), ("halves", TensorProto.FLOAT16)):
        kinds[name] = helper.make_tensor(name, kind, [64, 64], np.full(4096, 100))
    kinds["nibbles"] = helper.make_tensor("nibbles", TensorProto.INT4, [64, 64], b"\1" * 2048, raw=True)
    graph = read([node("Relu", ["x"], ["y"])], constants=kinds.values())
    tensors = graph.tensors
    assert {name: tensors[name].size_bytes for name in kinds} == {
        "raw": 16384, "floats": 16384, "bytes": 4096, "halves": 8192, "nibbles": 2048,
    }  # fmt: skip
    # Numbers that lie in the file as varints, of which some take more bytes than the type has, count by their type.
    assert {tensors[name].stored_bytes for name in kinds} == {None}


def test_what_small_constants_take_in_the_file(read):
    short = [
        helper.make_tensor("halves", TensorProto.FLOAT16, [4], [100] * 4), helper.make_tensor("minus", INT64, [2], [-1, 5]),
        helper.make_tensor("text", TensorProto.STRING, [2], [b"ab", b"c"]), helper.make_tensor("real", TensorProto.DOUBLE, [2], [1, 2]),
    ]  # fmt: skip
    tensors = read([node("Relu", ["x"], ["y"])], constants=short).tensors
    assert [tensors[name.name].stored_bytes for name in short] == [None, None, 3, None]


def test_sparse_weights(read):
    def add(model):
        values, indices = array("s", [1.0, 2.0, 3.0]), array("", [0, 5, 9], np.int64)
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 4]))
        inner = helper.make_sparse_tensor(array("", [1.0]), array("", [1], np.int64), [2])
        model.graph.node.insert(0, node("Constant", [], ["k"], sparse_value=inner))

    graph = read([node("Relu", ["x"], ["y"])], change=add)
    sparse = graph.tensors["s"]
    assert (sparse.shape, sparse.dtype, sparse.constant, sparse.stored_bytes, sparse.sparsity) == (
        (3, 4),
        "float32",
        True,
        36,
        0.75,
    )
    assert (graph.tensors["k"].shape, graph.tensors["k"].sparsity, graph.tensors["k"].stored_bytes) == ((2,), 0.5, 12)


@pytest.mark.parametrize("dims", [[-1, 4], [1] * 65])
def test_a_constant_of_an_impossible_shape(refuse, dims):
    assert re.search(
        says("constant-impossible-shape"),
        refuse([node("Relu", ["x"], ["y"])], constants=[TensorProto(name="w", data_type=FLOAT, dims=dims)]),
    )


def test_a_constant_with_too_little_data(refuse):
    for count in (8, 8000):
        short = TensorProto(name="w", data_type=FLOAT, dims=[count], raw_data=b"\0" * (4 * count - 1))
        message = refuse([node("Relu", ["x"], ["y"])], constants=[short])
        assert wording("constant-bytes-bytes-data", name="w", expected=4 * count, stored=4 * count - 1) in message


@pytest.mark.parametrize(
    ("kind", "dtype", "size"),
    [(TensorProto.FLOAT8E4M3FN, "float8_e4m3fn", 4), (TensorProto.FLOAT4E2M1, "float4_e2m1", 2), (TensorProto.UINT4, "uint4", 2),
     (TensorProto.BFLOAT16, "bfloat16", 8), (TensorProto.STRING, "string", None), (999, "onnx-type-999", None)],
)  # fmt: skip
def test_types_have_the_names_by_which_their_size_is_known(read, kind, dtype, size):
    tensor = read([node("Relu", ["x"], ["y"])], inputs=[value("x", kind, [1, 4])]).tensors["x"]
    assert (tensor.dtype, tensor.size_bytes) == (dtype, size)


def test_sequences_and_optionals(read):
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
    inputs = [helper.make_value_info("s", kind), helper.make_value_info("o", helper.make_optional_type_proto(kind))]
    nodes = [
        node("SequenceAt", ["s", "i"], ["a"]), node("OptionalGetElement", ["o"], ["b"]), node("SequenceAt", ["b", "i"], ["c"]),
        node("Add", ["a", "c"], ["y"]),
    ]  # fmt: skip
    graph = read(nodes, inputs=inputs, constants=[array("i", 0, np.int64)], opset=18)
    assert [(graph.tensors[name].dtype, graph.tensors[name].shape) for name in "sobay"] == [
        ("sequence(float32)", None), ("optional(sequence(float32))", None), ("sequence(float32)", None),
        ("float32", (2,)), ("float32", (2,)),
    ]  # fmt: skip


def test_open_dimensions_and_concrete_ones(read):
    options = {
        "inputs": [value("x", FLOAT, ["batch", 4, None])], "outputs": [value("y", FLOAT, ["batch", 2, None])],
        "constants": [array("w", np.ones((2, 4)))],
    }  # fmt: skip
    nodes = [node("MatMul", ["w", "x"], ["a"]), node("Relu", ["a"], ["y"])]
    open_ = read(nodes, **options)
    assert (open_.tensors["x"].shape, open_.tensors["y"].shape) == (("batch", 4, None), ("batch", 2, None))
    closed = read(nodes, shapes={"x": (3, 4, 5)}, **options)
    assert (closed.tensors["x"].shape, closed.tensors["y"].shape) == ((3, 4, 5), (3, 2, 5))
    assert total_of(closed).macs == 3 * 2 * 5 * 4


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [({"z": (1, 4)}, says("model-no-input", name="z")), ({"w": (4, 2)}, says("model-no-input", name="w")), ({"x": (1, 5)}, says("does-not-fit-input")), ({"x": (4,)}, says("does-not-fit-input")),
     ({"x": (-1, 4)}, says("input-impossible-size")), ({"x": (2**63, 4)}, says("input-impossible-size"))],
)  # fmt: skip
def test_shapes_that_do_not_fit(read, shapes, reason):
    with pytest.raises(BadInput, match=reason) as caught:
        read(
            [node("MatMul", ["x", "w"], ["y"])],
            shapes=shapes,
            inputs=[value("x", FLOAT, ["n", 4])],
            constants=[array("w", np.ones((4, 2)))],
        )
    assert not isinstance(caught.value, BadModel)
    assert caught.value.advice


def test_a_shape_for_what_is_no_tensor(read):
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
    with pytest.raises(BadInput, match=says("input-not-tensor-so-no")):
        read([node("SequenceLength", ["s"], ["y"])], inputs=[helper.make_value_info("s", kind)], shapes={"s": (2,)})


def test_declared_shapes_that_have_gone_stale_do_no_harm(read):
    infos = [value("a", FLOAT, [9, 9, 9])]
    graph = read(
        [node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])], infos=infos, outputs=[value("y", FLOAT, [8])]
    )
    assert graph.tensors["a"].shape == graph.tensors["y"].shape == (1, 4)


def test_declared_shapes_are_used_where_nothing_else_tells(read):
    nodes = [
        node("Strange", ["x"], ["a"], domain="some.one"),
        node("Relu", ["a"], ["b"]),
        node("NonZero", ["b"], ["y"]),
    ]
    graph = read(
        nodes, infos=[value("a", FLOAT, [2, 6])], outputs=[value("y", INT64, [2, "found"])], domains=["some.one"]
    )
    assert (graph.tensors["a"].shape, graph.tensors["b"].shape, graph.tensors["y"].shape) == (
        (2, 6),
        (2, 6),
        (2, "found"),
    )
    assert graph.operators[0].custom
    assert not graph.operators[1].custom
    assert cost_of(graph.operators[0], graph).macs is None
    assert graph.metadata["opsets"] == {"ai.onnx": 17, "some.one": 1}


def test_shapes_that_contradict_leave_the_rest_unknown_and_say_why(read):
    graph = read(
        [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])], constants=[array("w", np.ones((3, 2)))]
    )
    assert graph.tensors["y"].shape is None
    assert "Incompatible dimensions" in graph.metadata["shape_inference"]
    assert total_of(graph).macs is None


def test_shapes_that_are_computed(read):
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Concat", ["n1", "rest"], ["target"], axis=0), node("Reshape", ["x", "target"], ["y"]),
    ]  # fmt: skip
    constants = [array("zero", 0, np.int64), array("axes", [0], np.int64), array("rest", [2, -1], np.int64)]
    graph = read(nodes, inputs=[value("x", FLOAT, [3, 8])], constants=constants)
    assert graph.tensors["y"].shape == (3, 2, 4)


def test_functions_are_written_out_where_they_are_called(read):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    inner = helper.make_function("mine", "inner", ["p"], ["q"], [node("Relu", ["p"], ["q"])], opsets)
    outer = helper.make_function(
        "mine", "outer", ["p"], ["q"],
        [node("inner", ["p"], ["t"], domain="mine"), node("LeakyRelu", ["t"], ["q"])], opsets,
    )  # fmt: skip
    outer.node[1].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    outer.attribute.append("slope")
    nodes = [
        node("outer", ["x"], ["a"], domain="mine", slope=0.25),
        node("outer", ["a"], ["y"], domain="mine", slope=0.5),
    ]
    graph = read(nodes, functions=[inner, outer], domains=["mine"])
    assert [each.op for each in graph.operators] == ["Relu", "LeakyRelu"] * 2
    assert [each.attributes for each in graph.operators] == [{}, {"alpha": 0.25}, {}, {"alpha": 0.5}]
    assert graph.tensors["y"].shape == (1, 4)
    assert len({each.name for each in graph.operators}) == 4


def test_functions_that_would_explode_or_never_end_are_refused(refuse, monkeypatch):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]

    def function(name, *callees):
        calls = [node(callee, ["p"], [f"t{at}"], domain="mine") for at, callee in enumerate(callees)]
        return helper.make_function("mine", name, ["p"], ["t0"], calls, opsets)

    call = [node("f0", ["x"], ["y"], domain="mine")]
    doubling = [function(f"f{at}", *[f"f{at + 1}"] * 2) for at in range(40)]
    assert wording("inlining-functions-gives-more-than", max_operators=200000) in refuse(
        call, functions=[*doubling, function("f40", "f41")], domains=["mine"]
    )
    assert "deep" in refuse(call, functions=[function("f0", "f1"), function("f1", "f0")], domains=["mine"])
    chain = [function(f"f{at}", f"f{at + 1}") for at in range(120)]
    assert "deep" in refuse(call, functions=chain, domains=["mine"])


def test_a_function_that_is_handed_a_graph_is_written_out(read):
    body = helper.make_graph([node("Relu", ["x"], ["t"])], "b", [], [value("t", FLOAT, None)])
    function = helper.make_function(
        "mine", "f", ["p"], ["q"], [node("If", ["p"], ["q"])], [helper.make_opsetid("", 17)]
    )
    function.attribute.append("body")
    for name in ("then_branch", "else_branch"):
        function.node[0].attribute.add(name=name, type=onnx.AttributeProto.GRAPH, ref_attr_name="body")
    graph = read(
        [node("f", ["c"], ["y"], domain="mine", body=body)],
        functions=[function], domains=["mine"], inputs=[value("c", BOOL, []), value("x", FLOAT, [1])],
    )  # fmt: skip
    assert [(each.op, each.custom) for each in graph.operators] == [("If", False)]
    assert [[each.op for each in inner.operators] for inner in graph.subgraphs.values()] == [["Relu"], ["Relu"]]


def branches(read, **options):
    then = helper.make_graph([node("MatMul", ["x", "w"], ["t"])], "then", [], [value("t", FLOAT, None)])
    other = helper.make_graph(
        [node("MatMul", ["x", "v"], ["e"])], "else", [], [value("e", FLOAT, None)], [array("v", np.ones((4, 2)))]
    )
    nodes = [node("Relu", ["z"], ["x"]), node("If", ["c"], ["y"], name="if", then_branch=then, else_branch=other)]
    return read(
        nodes,
        inputs=[value("z", FLOAT, [1, 4]), value("c", BOOL, [])],
        constants=[array("w", np.ones((4, 2)))],
        **options,
    )


def test_branches(read):
    graph = branches(read)
    assert (
        graph.operators[1].subgraphs == tuple(graph.subgraphs) == ("if.else_branch", "if.then_branch")
    )  # as in the file
    other, then = graph.subgraphs.values()
    assert then.operators[0].weights == ("w",)
    assert then.tensors["x"] == graph.tensors["x"]
    assert then.tensors["w"].constant
    assert then.tensors["t"].shape == other.tensors["e"].shape == (1, 2)
    assert (then.inputs, then.outputs) == ((), ("t",))
    assert graph.tensors["y"].shape == (1, 2)
    total = total_of(graph)
    assert (total.macs, total.parameters) == (8, 16)


def test_what_a_branch_takes_from_outside_is_made_before(read):
    then = helper.make_graph([node("Relu", ["late"], ["t"])], "then", [], [value("t", FLOAT, None)])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=then), node("Relu", ["x"], ["late"])]
    graph = read(nodes, inputs=[value("x", FLOAT, [1, 4]), value("c", BOOL, [])])
    assert [each.op for each in graph.operators] == ["Relu", "If"]
    assert graph.subgraphs["y.then_branch"].tensors["t"].shape == (1, 4)


def loop(read, *, condition="c_in", trips=5, extra=()):
    body = helper.make_graph(
        [*extra, node("Identity", [condition], ["c_out"]), node("MatMul", ["v", "w"], ["v_out"])],
        "body",
        [value("i", INT64, []), value("c_in", BOOL, []), value("v", FLOAT, [4, 4])],
        [value("c_out", BOOL, []), value("v_out", FLOAT, [4, 4])],
    )
    constants = [array("w", np.ones((4, 4)))] + ([array("n", trips, np.int64)] if trips is not None else [])
    inputs = [value("x", FLOAT, [4, 4])] + ([value("n", INT64, [])] if trips is None else [])
    return read([node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)], inputs=inputs, constants=constants)


def test_loops_with_a_known_number_of_trips(read):
    graph = loop(read)
    assert graph.operators[0].kind == "loop"
    assert graph.operators[0].geometry["trips"] == 5
    assert total_of(graph).macs == 5 * 64


def test_loops_whose_trips_depend_on_data(read):
    assert total_of(loop(read, trips=None)).macs is None
    stops = [node("ReduceMax", ["v"], ["most"], keepdims=0), node("Greater", ["most", "most"], ["go"])]
    assert "trips" not in loop(read, condition="go", extra=stops).operators[0].geometry


def test_a_loop_whose_condition_is_always_true(read):
    true = [node("Constant", [], ["true"], value=array("", True, np.bool_))]
    assert loop(read, condition="true", extra=true).operators[0].geometry["trips"] == 5
    false = [node("Constant", [], ["true"], value=array("", False, np.bool_))]
    assert "trips" not in loop(read, condition="true", extra=false).operators[0].geometry


def test_scans(read):
    body = helper.make_graph(
        [
            node("Add", ["s", "e"], ["s_out"]),
            node("MatMul", ["e1", "w"], ["o"]),
            node("Unsqueeze", ["e", "axis"], ["e1"]),
            node("Constant", [], ["axis"], value_ints=[0]),
        ],
        "body",
        [value("s", FLOAT, [4]), value("e", FLOAT, [4])],
        [value("s_out", FLOAT, [4]), value("o", FLOAT, None)],
    )
    graph = read(
        [node("Scan", ["s0", "x"], ["last", "y"], body=body, num_scan_inputs=1)],
        inputs=[value("s0", FLOAT, [4]), value("x", FLOAT, [7, 4])],
        constants=[array("w", np.ones((4, 3)))],
    )
    assert graph.tensors["y"].shape == (7, 1, 3)
    assert total_of(graph).macs == 7 * 12


def test_quantised_tensors(read):
    scales, zeros = np.linspace(0.5, 1, 600), np.full(600, 3)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w8", "ws", "wz"], ["w"], axis=0), node("MatMul", ["d", "wt"], ["y"]),
        node("Transpose", ["w"], ["wt"]),
    ]  # fmt: skip
    constants = [
        array("s", 0.25), array("z", 128, np.uint8), array("ws", scales), array("wz", zeros, np.int8),
        array("w8", np.zeros((600, 4)), np.int8),
    ]  # fmt: skip
    graph = read(nodes, constants=constants)
    assert graph.tensors["q"].quantization == Quantization(scale=0.25, zero_point=128)
    assert graph.tensors["q"].dtype == "uint8"
    assert graph.tensors["w8"].quantization == Quantization(scale=0.5, zero_point=3, channels=600, axis=0)
    assert graph.tensors["x"].quantization is None
    assert total_of(graph).parameters == 2400


def test_block_quantisation_and_quantised_operators(read):
    nodes = [
        node("DequantizeLinear", ["w4", "bs"], ["w"], axis=0, block_size=2), node("MatMul", ["x", "w"], ["m"]),
        node("QuantizeLinear", ["m", "s", "z"], ["a"]), node("QLinearMatMul", ["a", "s", "z", "v", "vs", "vz", "os", "z"], ["y"]),
    ]  # fmt: skip
    constants = [
        helper.make_tensor("w4", TensorProto.INT4, [4, 2], b"\1" * 4, raw=True), array("bs", np.full((2, 2), 0.5)), array("s", 0.25),
        array("z", 0, np.uint8), array("v", np.ones((2, 2)), np.uint8), array("vs", 0.125), array("vz", 7, np.uint8), array("os", 2.0),
    ]  # fmt: skip
    tensors = read(nodes, constants=constants, opset=21).tensors
    assert tensors["w4"].quantization == Quantization(scale=0.5, channels=4, axis=0, block=2)
    assert tensors["v"].quantization == Quantization(scale=0.125, zero_point=7)
    assert tensors["y"].quantization == Quantization(scale=2.0)


def test_a_scale_that_is_computed_is_not_known(read):
    nodes = [node("Relu", ["s0"], ["s"]), node("QuantizeLinear", ["x", "s"], ["y"])]
    graph = read(nodes, inputs=[value("x", FLOAT, [4]), value("s0", FLOAT, [])])
    assert graph.tensors["y"].quantization is None


def test_attributes_are_short_and_json(read):
    attributes = {
        "i": 3, "f": 0.5, "s": "text", "ints": [1, 2], "floats": [1.0, math.inf], "strings": ["a", "b"], "many": list(range(100)),
        "very": list(range(3000)), "long": "x" * 300, "huge": "x" * 3000, "t": array("t", np.ones((2, 3))),
        "tp": helper.make_tensor_type_proto(FLOAT, [1, "n"]), "nan": math.nan,
    }  # fmt: skip
    graph = read([node("Odd", ["x"], ["y"], domain="some.one", **attributes)], domains=["some.one"])
    shown = graph.operators[0].attributes
    assert json.loads(json.dumps(dict(shown), allow_nan=False)) == {
        "i": 3, "f": 0.5, "s": "text", "ints": [1, 2], "floats": [1.0, "inf"], "strings": ["a", "b"], "many": "int[100]",
        "very": "int[3000]", "long": "string[300]", "huge": "bytes[3000]", "t": "float32[2, 3]", "tp": "float32[1, 'n']", "nan": "nan",
    }  # fmt: skip


def test_external_data_is_described_without_being_there(tiny_onnx, tmp_path):
    path = tiny_onnx(external=True)
    (tmp_path / "weights.bin").unlink()
    graph = OnnxReader().read_graph(path)
    assert graph.tensors["w"].shape == (4, 2)
    assert graph.tensors["w"].stored_bytes is None
    assert total_of(graph).weight_bytes == 32
    location = "../../etc/passwd"

    def lead_outside(model):
        model.graph.initializer[0].external_data[0].value = location

    assert OnnxReader().read_graph(edit(path, lead_outside)).tensors["w"].shape == (4, 2)


def test_what_the_file_says_of_itself(read):
    def describe(model):
        model.producer_name, model.producer_version, model.doc_string = "tool", "1.2", "d" * 2000
        model.model_version = 3
        model.metadata_props.add(key="author", value="a")
        model.metadata_props.add(key="big", value="b" * 100_000)

    graph = read([node("Relu", ["x"], ["y"])], change=describe)
    assert graph.producer == "tool"
    assert graph.metadata == {
        "ir_version": 8, "opsets": {"ai.onnx": 17}, "producer_version": "1.2", "model_version": 3,
        "properties": {"author": "a"}, "doc_string": "d" * 1000 + "…",
    }  # fmt: skip


def test_a_graph_without_operators(read):
    graph = read([], inputs=[value("y", FLOAT, [2])], outputs=[value("y", FLOAT, [2])])
    assert (graph.operators, graph.inputs, graph.outputs) == ((), ("y",), ("y",))


def test_a_file_that_is_too_large_for_protobuf(tmp_path):
    path = save(tmp_path / "m.onnx", [node("Relu", ["x"], ["y"])])
    with path.open("r+b") as file:
        file.truncate(2**31)
    with pytest.raises(BadModel, match=says("bytes-exceed-limit-onnx-file")):
        OnnxReader().read_graph(path)


def test_empty_and_truncated_files(tmp_path, tiny_onnx):
    whole = tiny_onnx().read_bytes()
    path = tmp_path / "cut.onnx"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BadModel):
            OnnxReader().read_graph(path)


def test_big_payloads_are_not_copied(tmp_path):
    weights = [helper.make_tensor(f"w{at}", FLOAT, [2**16], np.ones(2**16)) for at in range(4)]
    inner = helper.make_graph([], "b", [], [value("w3", FLOAT, None)], [array("k", np.zeros(2**16))])
    nodes = [
        node("Constant", [], ["c"], value=array("", np.ones(2**16))),
        node("If", ["x"], ["y"], then_branch=inner, else_branch=inner, doc_string="d" * 5000),
    ]
    path = save(tmp_path / "m.onnx", nodes, constants=weights, inputs=[value("x", BOOL, [])])
    description = onnx_wire.describe_file(path)
    assert path.stat().st_size > 7 * 2**18
    assert len(description.data) < 2000
    assert [each.stored_bytes for each in description.left_out] == [2**18] * 7
    graph = OnnxReader().read_graph(path)
    assert all(tensor.size_bytes == 2**18 for tensor in graph.tensors.values() if tensor.constant)


def test_small_models_are_described_whole(tiny_onnx):
    path = tiny_onnx()
    assert onnx_wire.describe_file(path).data == path.read_bytes()


def test_a_file_can_not_claim_to_have_been_cut(read):
    forged = array("w", np.ones((4, 2)))
    forged.doc_string = "0" * 24 + ":0"
    graph = read([node("MatMul", ["x", "w"], ["y"])], constants=[forged])
    assert graph.tensors["w"].stored_bytes is None


@pytest.mark.parametrize(("ask", "limit"), [("read_graph", 1_000_000), ("read_signature", 100_000)])
def test_a_flood_of_messages_is_refused_before_it_is_parsed(tmp_path, monkeypatch, ask, limit):
    monkeypatch.setattr(onnx_wire, "MAX_MESSAGES", limit)  # the real one for one of the two
    flood = b"\x0a\x00" * (limit + limit // 5)
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08\x3a" + encode_varint(len(flood)) + flood + b"\x42\x04\x0a\x00\x10\x11")
    with pytest.raises(BadModel, match=says("more-than-protobuf-messages", max_messages=1000000)):
        getattr(OnnxReader(), ask)(path)


def test_a_flood_of_messages_inside_small_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_wire, "MAX_MESSAGES", 20_000)
    monkeypatch.setattr(onnx_wire, "_FEW", 10_000)
    node_ = b"\x2a\x00" * 500  # 500 empty attributes
    flood = (b"\x0a" + encode_varint(len(node_)) + node_) * 50
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08\x3a" + encode_varint(len(flood)) + flood + b"\x42\x04\x0a\x00\x10\x11")
    with pytest.raises(BadModel, match=says("more-than-protobuf-messages")):
        OnnxReader().read_graph(path)


def test_long_lists_are_left_out_however_they_are_written(tmp_path):
    """Protobuf allows lists with one key for all numbers and with one for each, and both at once."""
    numbers = [5, 300, -1, 2**40] * 400
    varints = [encode_varint(number % 2**64) for number in numbers]
    floats = [np.float32(number).tobytes() for number in numbers]
    blob = b"".join(b"\x40" + each for each in varints) + b"".join(b"\x3d" + each for each in floats)
    packed = b"".join(varints), b"".join(floats)
    blob += b"\x42" + encode_varint(len(packed[0])) + packed[0] + b"\x3a" + encode_varint(len(packed[1])) + packed[1]
    attribute = b"\x0a\x01k" + blob + b"\xa0\x01\x07"
    assert (
        len(onnx.AttributeProto.FromString(attribute).ints)
        == len(onnx.AttributeProto.FromString(attribute).floats)
        == 3200
    )
    node_ = b"\x22\x01F\x3a\x01d\x12\x01y\x2a" + encode_varint(len(attribute)) + attribute
    graph = b"\x0a" + encode_varint(len(node_)) + node_ + b"\x62\x03\x0a\x01y"
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08\x3a" + encode_varint(len(graph)) + graph + b"\x42\x02\x10\x11")
    (left_out,) = onnx_wire.describe_file(path).left_out
    assert left_out.count == 6400
    assert left_out.stored_bytes == 2 * (len(packed[0]) + len(packed[1]))
    assert OnnxReader().read_graph(path).operators[0].attributes == {"k": "float[6400]"}


def test_limits(tmp_path, monkeypatch):
    path = save(tmp_path / "m.onnx", [node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])])
    with monkeypatch.context() as patch:
        patch.setattr(onnx_wire, "MAX_FIELDS", 2)
        with pytest.raises(BadModel, match=says("more-than-fields", max_fields=2)):
            OnnxReader().read_graph(path)
    with monkeypatch.context() as patch:
        patch.setattr(onnx_wire, "MAX_DESCRIPTION", 10)
        with pytest.raises(BadModel, match=says("description-without-weights-takes-more")):
            OnnxReader().read_graph(path)
    monkeypatch.setattr(onnx_blocks, "MAX_OPERATORS", 1)
    with pytest.raises(BadModel, match=says("more-than-operators", max_nodes=1)):
        OnnxReader().read_graph(path)


def doubling(read, op, count, **attributes):
    """A model in which a shape or a rank doubles with every node."""
    nodes = [node("Shape", ["x"], ["a0"])]
    nodes += [node(op, [f"a{at}", f"a{at}"], [f"a{at + 1}"], **attributes) for at in range(count)]
    return read(
        [*nodes, node("Identity", [f"a{count}"], ["y"])],
        inputs=[value("x", FLOAT, ["a", "b"])],
        outputs=[value("y", INT64, None)],
    )


def test_shapes_that_explode_end_another_process_and_not_this_one(read, monkeypatch):
    monkeypatch.setattr(onnx_isolated, "MEMORY_BYTES", 2**28)
    assert doubling(read, "Concat", 10, axis=0).tensors["y"].shape == (2048,)
    graph = doubling(read, "Gather", 12)
    assert graph.operators[-1].op == "Identity"


def test_inference_that_fails_leaves_a_graph_without_shapes(read, monkeypatch, tmp_path):
    monkeypatch.setattr(onnx_shapes, "_kept", {})
    nodes = [node("Shape", ["x"], ["s"]), node("Identity", ["s"], ["y"])]
    worker = tmp_path / "worker.py"
    for code, reason in (
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed (SIGSEGV)"),
        ("import sys; sys.exit('no')", "no"),
        ("print('rubbish')", "returned no model"),
    ):
        worker.write_text(code)
        monkeypatch.setattr(onnx_isolated, "__file__", str(worker))
        graph = read(nodes)
        assert graph.tensors["y"].shape is None
        assert reason in graph.metadata["shape_inference"]
    worker.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(onnx_isolated, "CPU_SECONDS", 0.1)
    assert re.search(says("took-longer-than-s-in-renderer"), read(nodes).metadata["shape_inference"])
    monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere"))
    assert "could not be started" in read(nodes).metadata["shape_inference"]


def test_the_same_network_is_inferred_once_and_a_failure_is_tried_again(read, monkeypatch):
    monkeypatch.setattr(onnx_shapes, "_kept", {})
    nodes = [node("Relu", ["x"], ["y"])]
    with monkeypatch.context() as broken:
        broken.setattr("sys.executable", "/nowhere")
        assert "could not be started" in read(nodes).metadata["shape_inference"]
    first = read(nodes)
    monkeypatch.setattr("sys.executable", "/nowhere")
    again = read(nodes)
    assert again.tensors["y"].shape == first.tensors["y"].shape == (1, 4)
    assert "shape_inference" not in again.metadata
    assert "could not be started" in read([*nodes, node("Relu", ["x"], ["z"])]).metadata["shape_inference"]


def test_what_crashes_the_package_costs_only_the_shapes(read):
    """An attribute of another type than the definition's, one input too many."""
    read([node("LayerNormalization", ["x", "x", "x"], ["y"], axis=[1.0])])
    read([node("Relu", ["x", "x", "x"], ["y"])])


def test_every_node_of_a_deep_nest(read):
    graph = helper.make_graph([node("Relu", ["x"], ["t0"])], "g", [], [value("t0", FLOAT, None)])
    for depth in range(1, 25):
        inner = node("If", ["c"], [f"t{depth}"], then_branch=graph, else_branch=graph)
        if depth > 3:
            inner = node("If", ["c"], [f"t{depth}"], then_branch=graph)
        graph = helper.make_graph([inner], "g", [], [value(f"t{depth}", FLOAT, None)])
    top = [node("If", ["c"], ["y"], then_branch=graph)]
    found = read(top, inputs=[value("x", FLOAT, [1]), value("c", BOOL, [])])
    count = Counter()

    def walk(each):
        count.update(operator.op for operator in each.operators)
        for inner in each.subgraphs.values():
            walk(inner)

    walk(found)
    assert count == {"If": 1 + 21 + 1 + 2 + 4, "Relu": 8}


def test_parameters_in_options_may_be_tensors(read):
    forest = node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", nodes_values_as_tensor=array("v", [1, 2, 3], np.float64),
        target_weights_as_tensor=array("w", [1, 2], np.float64),
    )  # fmt: skip
    total = total_of(read([forest], domains=["ai.onnx.ml"]))
    assert (total.parameters, total.weight_bytes) == (5, 40)


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_of_a_scattered_weight_the_stored_updates_are_the_parameters(read, op, reduction):
    """A matrix of 50 zeros, which the file does not store, into which it scatters 2 rows of 5 numbers."""
    indices = [[3] * 5, [7] * 5] if op == "ScatterElements" else [[3], [7]]
    steps = [
        node("ConstantOfShape", ["shape"], ["base"]),
        node(op, ["base", "places", "updates"], ["w"], reduction=reduction),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    constants = [
        array("shape", [10, 5], np.int64), array("places", indices, np.int64), array("updates", np.ones((2, 5))),
    ]  # fmt: skip
    total = total_of(read(steps, inputs=[value("x", FLOAT, [1, 10])], constants=constants, opset=18))
    assert (total.parameters, total.weight_bytes, total.macs) == (10, 40, 50)


def test_a_base_that_the_file_stores_is_a_parameter_beside_its_updates(read):
    steps = [node("ScatterND", ["base", "places", "updates"], ["w"]), node("MatMul", ["x", "w"], ["y"])]
    constants = [array("base", np.ones((4, 5))), array("places", [[3]], np.int64), array("updates", np.ones((1, 5)))]
    assert total_of(read(steps, constants=constants)).parameters == 20 + 5


def test_long_coefficients_are_counted_too(read):
    """Of 9,000 coefficients only their number is read."""
    steps = [
        node(
            "LinearClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", coefficients=[0.5] * 9000, intercepts=[0.0] * 3,
            classlabels_ints=[0, 1, 2], post_transform="NONE",
        ),
        node("ZipMap", ["y"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]  # fmt: skip
    outputs = [value("label", INT64, [2]), value("y", FLOAT, [2, 3])]
    found = read(steps, inputs=[value("x", FLOAT, [2, 3000])], outputs=outputs, domains=["ai.onnx.ml"])
    # Of both rows: the products, one addition per score, one comparison per score.
    costs = [cost_of(operator, found) for operator in found.operators]
    assert [(each.macs, each.ops) for each in costs] == [(18_000, 36_000 + 6 + 6), (0, None)]
    total = total_of(found)
    assert (total.macs, total.ops, total.parameters) == (18_000, None, 9003)


def test_linear_models_have_parameters(read):
    steps = [
        node("Scaler", ["x"], ["a"], domain="ai.onnx.ml", offset=[0.0] * 4, scale=[1.0] * 4),
        node("LinearRegressor", ["a"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 4, intercepts=[1.0], targets=1),
    ]
    assert total_of(read(steps, domains=["ai.onnx.ml"])).parameters == 13


def test_operators_of_pytorch_carry_the_module_they_come_from(read):
    def note(model):
        scopes = "['', 'features', 'features.17', 'conv2d']"
        model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
        model.graph.node[2].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'relu']")

    graph = read(
        [
            node("MatMul", ["x", "w"], ["a"], name="node_linear"),
            # Made of several operators, it has no note; its weight tells.
            node("MatMul", ["a", "head.0.weight"], ["b"], name="node_MatMul_3"),
            node("Relu", ["b"], ["c"], name="node_relu"),
            node("MatMul", ["c", "tail.0.weight"], ["y"], name="/tail/tail.0/MatMul"),
        ],
        constants=[array(name, np.ones((4, 4))) for name in ("w", "head.0.weight", "tail.0.weight")],
        change=note,
    )
    assert [operator.name for operator in graph.operators][:2] == ["node_linear", "node_MatMul_3"]
    assert [operator.title for operator in graph.operators] == [
        "features.17/linear", "head.0/MatMul_3", "node_relu", "/tail/tail.0/MatMul",
    ]  # fmt: skip
