"""Which operators of two ONNX graphs belong together, and what of their options, inputs and scales differs."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.model.graph import Graph, Operator, Quantization, StoredData, Tensor
from edgewise.verbs.diff.alignment import align_operators, find_misnamed
from edgewise.verbs.diff.matching import match_tensors
from edgewise.verbs.diff.structure import changed_weights, describe_change, describe_structure, find_lone

PATHS = [Path("a.onnx"), Path("b.onnx")]


def constant(name, values, *, shape=None, dtype="float32", **more):
    letter = {"float32": "f", "int64": "q", "int8": "b"}[dtype]
    inline = struct.pack(f"<{len(values)}{letter}", *values)
    shape = (len(values),) if shape is None else shape
    return Tensor(
        name=name, shape=shape, dtype=dtype, constant=True, data=StoredData(dtype=dtype, inline=inline), **more
    )


def network(*rows, constants=(), opset=17, values=(), outputs=None):
    """Operators are (name, type, inputs, output, options); the weights are the constants among a Conv's inputs."""
    tensors = {name: Tensor(name=name, shape=(4, 4), dtype="float32") for _, _, inputs, output, *_ in rows
               for name in (*inputs, output)}  # fmt: skip
    tensors |= {each.name: each for each in (*constants, *values)}
    kinds = {"QuantizeLinear": "quantize", "DequantizeLinear": "dequantize"}
    operators = tuple(
        Operator(
            index=at, name=name, op=op, kind=kinds.get(op, op), inputs=tuple(inputs), outputs=(output,),
            attributes=dict(*options), weights=tuple(each for each in inputs if op == "Conv" and tensors[each].constant),
        )
        for at, (name, op, inputs, output, *options) in enumerate(rows)
    )  # fmt: skip
    return Graph(
        name="g", format="onnx", tensors=tensors, operators=operators, inputs=("x",),
        outputs=(rows[-1][3],) if outputs is None else outputs, metadata={"opsets": {"ai.onnx": opset}},
    )  # fmt: skip


def differences(one, two):
    graphs = [one, two]
    aligned = align_operators(graphs, PATHS)
    weights = changed_weights(graphs, PATHS, aligned)
    return describe_structure(graphs, PATHS, aligned, weights, names=("a.onnx", "b.onnx"))


def single(op, options=(), constants=(), **more):
    names = [each.name for each in constants]
    return network(("n", op, ["x", *names], "y", dict(options)), constants=constants, **more)


def test_an_option_that_is_left_out_has_the_value_of_its_definition():
    assert differences(single("Softmax", {"axis": -1}), single("Softmax")) == []
    assert differences(single("Softmax"), single("Softmax", {"axis": 1})) == []  # of two dimensions, the last
    assert differences(single("Softmax", {"axis": 0}), single("Softmax")) == ["Softmax, axis 0 → -1 (1: n)"]
    assert differences(single("ReduceMean", {"keepdims": 0}), single("ReduceMean")) == [
        "ReduceMean, keepdims 0 → 1 (1: n)"
    ]
    assert differences(single("MaxPool"), single("MaxPool", {"strides": (1, 1), "pads": (0, 0), "ceil_mode": 0})) == []
    assert differences(single("MaxPool"), single("MaxPool", {"pads": (1, 1)})) == ["MaxPool, pads None → [1, 1] (1: n)"]
    assert differences(single("ReduceMean"), single("ReduceMean", {"axes": (0,)})) == [
        "ReduceMean, axes None → [0] (1: n)"
    ]


def test_an_option_that_became_an_input_is_the_same_option():
    earlier = single("ReduceMean", {"axes": (1,), "keepdims": 1})
    axes = constant("axes", [1], dtype="int64")
    assert differences(earlier, single("ReduceMean", constants=[axes], opset=18)) == []
    axes = constant("axes", [0], dtype="int64")
    assert differences(earlier, single("ReduceMean", constants=[axes], opset=18)) == [
        "ReduceMean, axes [1] → [0] (1: n)"
    ]


def test_constants_that_are_no_weights_are_told_with_both_values():
    def clip(most):
        return single("Clip", constants=[constant("low", [0], shape=()), constant("high", [most], shape=())])

    assert differences(clip(6), clip(6)) == []
    assert differences(clip(6), clip(1)) == ["Clip, max 6.0 → 1.0 (1: n)"]
    many = [constant("rows", range(start, start + 9), dtype="int64") for start in (0, 1)]
    assert differences(*(single("Gather", constants=[each]) for each in many)) == [
        "Gather, other values of indices (1: n)"
    ]


def rows(order):
    first = [("ca", "Conv", ["x", "w"], "a"), ("ra", "Relu", ["a"], "b")]
    second = [("cb", "Conv", ["x", "v"], "c"), ("rb", "Relu", ["c"], "d")]
    return [*first, *second] if order else [*second, *first]


W, V = constant("w", [1, 2, 3, 4]), constant("v", [5, 6, 7, 8])


def test_other_connections_are_told():
    def ends(*taken, op="Sub"):
        return network(*rows(True), ("s", op, taken, "y"), constants=[W, V])

    assert differences(ends("b", "d"), ends("b", "d")) == []
    assert differences(ends("b", "d"), ends("b", "c")) == ["Sub, input 1 from rb → cb (1: s)"]
    assert differences(ends("b", "x"), ends("b", "d")) == ["Sub, input 1 from x → rb (1: s)"]
    assert differences(ends("b", "d"), ends("d", "b")) == ["Sub, input 0 from ra → rb (1: s)"]
    assert differences(ends("b", "d", op="Add"), ends("d", "b", op="Add")) == []
    assert differences(ends("b", "d", op="Concat"), ends("b", op="Concat")) == ["Concat, 2 inputs → 1 (1: s)"]
    assert describe_change([ends("b", "d"), ends("b", "c")], PATHS) == "other structure"


def test_a_constant_that_is_handed_on_is_no_other_input():
    direct = network(("n", "Conv", ["x", "w"], "y"), constants=[W])
    copied = network(("i", "Identity", ["w"], "copy"), ("n", "Conv", ["x", "copy"], "y"), constants=[W])
    assert differences(direct, copied) == ["only in b.onnx: Identity (1: i)"]


def test_branches_that_the_file_lists_in_another_order_are_the_same():
    one, two = (network(*rows(order), ("s", "Add", ["b", "d"], "y"), constants=[W, V]) for order in (True, False))
    assert differences(one, two) == []
    assert describe_change([one, two], PATHS) == "same structure, same weights"


def numbered(*layers):
    """A Conv and a Relu for each weight, numbered as exporters do."""
    found, before = [], "x"
    for at, each in enumerate(layers):
        found += [(f"conv_{at}", "Conv", [before, each.name], f"c{at}"), (f"relu_{at}", "Relu", [f"c{at}"], f"r{at}")]
        before = f"r{at}"
    return network(*found, constants=layers)


def test_a_layer_in_the_middle_gives_those_behind_it_other_numbers():
    layers = [constant(f"w{at}", [at, 1, 2, 3]) for at in range(4)]
    one, two = numbered(*layers[:3]), numbered(layers[0], layers[3], *layers[1:3])
    aligned = align_operators([one, two], PATHS)
    assert [each.describe() for each in find_lone([one, two], aligned)] == [
        "conv_1 (Conv) was added between relu_0 and relu_1", "relu_1 (Relu) was added between conv_1 and conv_2",
    ]  # fmt: skip
    assert differences(one, two) == ["only in b.onnx: Conv (1: conv_1)", "only in b.onnx: Relu (1: relu_1)"]
    assert differences(two, one) == ["only in a.onnx: Conv (1: conv_1)", "only in a.onnx: Relu (1: relu_1)"]
    twins = find_misnamed([one, two], aligned)
    assert {name: twin.name for name, twin in twins.items()} == {
        "conv_0": "conv_0", "relu_0": "relu_0", "conv_1": "conv_2", "relu_1": "relu_2", "conv_2": "conv_3", "relu_2": "relu_3",
    }  # fmt: skip
    found = [(each.first, each.second) for each in match_tensors(one, two, twins=twins)]
    assert found == [
        (("x",), ("x",)), (("c0",), ("c0",)), (("r0",), ("r0",)), (("c1",), ("c2",)), (("r1",), ("r2",)),
        (("c2",), ("c3",)), (("r2",), ("r3",)),
    ]  # fmt: skip


def test_names_are_trusted_where_no_weights_are_the_same():
    one = numbered(*(constant(f"w{at}", [at, 1, 2, 3]) for at in range(3)))
    two = numbered(*(constant(f"w{at}", [at, 4, 5, 6]) for at in range(3)))
    assert differences(one, two) == ["Conv, weights with other values (3: conv_0, conv_1 and conv_2)"]
    assert find_misnamed([one, two], align_operators([one, two], PATHS)) == {}


def quantised(scale, weight_scale):
    values = [Tensor(name="q", shape=(4, 4), dtype="uint8", quantization=Quantization(scale=scale, zero_point=128))]
    scales = [constant("s", [scale], shape=()), constant("ws", [weight_scale], shape=())]
    weight = constant(
        "w", [1, -2, 3, -4], dtype="int8", quantization=Quantization(scale=weight_scale), scales={"ws": 4}
    )
    return network(
        ("quantise", "QuantizeLinear", ["x", "s"], "q"), ("dequantise", "DequantizeLinear", ["q", "s"], "d"),
        ("unpack", "DequantizeLinear", ["w", "ws"], "real"), ("c", "Conv", ["d", "real"], "y"),
        constants=[*scales, weight], values=values,
    )  # fmt: skip


def test_integers_that_stand_for_other_numbers_are_told():
    one = quantised(0.5, 0.25)
    assert differences(one, quantised(0.5, 0.25)) == []
    assert differences(one, quantised(0.5, 0.125)) == ["Conv, weights with other scales (1: c)"]
    assert differences(one, quantised(1.0, 0.25)) == ["Conv, other scales of its values (1: c)"]
    assert describe_change([one, quantised(1.0, 0.25)], PATHS) == "same structure, other scales"
    assert describe_change([one, quantised(0.5, 0.125)], PATHS) == "same structure, other weights in 1 of 1 layers"


def test_what_branches_and_loop_bodies_run_is_compared():
    def loop(weight, axis):
        body = network(("c", "Conv", ["x", "w"], "a"), ("s", "Softmax", ["a"], "b", {"axis": axis}), constants=[weight])
        outer = network(("n", "Loop", ["x"], "y"))
        (operator,) = outer.operators
        return replace(outer, operators=(replace(operator, subgraphs=("n.body",)),), subgraphs={"n.body": body})

    assert differences(loop(W, -1), loop(W, 1)) == []
    assert differences(loop(W, -1), loop(replace(V, name="w"), -1)) == ["Conv, weights with other values (1: c)"]
    assert differences(loop(W, -1), loop(W, 0)) == ["Softmax, axis -1 → 0 (1: s)"]
    assert describe_change([loop(W, 1), loop(W, -1)], PATHS) == "same structure, same weights"


@pytest.mark.parametrize(
    ("dtype", "letter", "values", "said"),
    [
        ("float16", "e", [1, 2, 3, 4], "Conv, weights float32 → float16 (1: n)"),
        ("float16", "e", [1.001, 2, 3, 4], "Conv, weights float32 → float16 (1: n)"),
        ("float16", "e", [1.1, 2, 3, 4], "Conv, weights with other values (1: n)"),
        ("bfloat16", "H", [0x3F80, 0x4000, 0x4040, 0x4080], "Conv, weights float32 → bfloat16 (1: n)"),
        ("bfloat16", "H", [0x3F80, 0x4000, 0x4040, 0x4000], "Conv, weights with other values (1: n)"),
        ("int8", "b", [1, 2, 3, 9], "Conv, weights float32 → int8 (1: n)"),
    ],
)
def test_a_narrower_type_has_the_same_values_but_for_rounding(dtype, letter, values, said):
    data = StoredData(dtype=dtype, inline=struct.pack(f"<4{letter}", *values))
    narrow = Tensor(name="w", shape=(4,), dtype=dtype, constant=True, data=data)
    one, two = (network(("n", "Conv", ["x", "w"], "y"), constants=[each]) for each in (W, narrow))
    assert differences(one, two) == [said]


def test_a_bias_of_zeros_may_be_left_out():
    def with_bias(*values):
        weight = constant("w", [1, 2, 3, 4], shape=(2, 2))
        return network(("n", "Conv", ["x", "w", "b"], "y"), constants=[weight, constant("b", values)])

    without = network(("n", "Conv", ["x", "w"], "y"), constants=[constant("w", [1, 2, 3, 4], shape=(2, 2))])
    assert differences(with_bias(0, 0), without) == []
    assert differences(without, with_bias(0, 0)) == []
    assert differences(with_bias(0, 1), without) == ["Conv, 2 weights → 1 (1: n)"]
