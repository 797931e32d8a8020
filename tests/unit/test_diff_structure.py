"""What differs between two graphs before any value is computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.model.graph import Graph, Operator, StoredData, Tensor
from edgewise.verbs.diff import alignment
from edgewise.verbs.diff.alignment import align_operators
from edgewise.verbs.diff.structure import (
    LoneOperator,
    changed_weights,
    describe_change,
    describe_structure,
    find_lone,
)

PATHS = [Path("a.onnx"), Path("b.onnx")]


def weight(name, *, values=b"\x00\x00\x80\x3f" * 4, shape=(4,), dtype="float32"):
    return Tensor(name=name, shape=shape, dtype=dtype, constant=True, data=StoredData(dtype=dtype, inline=values))


def graph(*operators, weights=(), format="onnx"):
    """Operators are (name, type, options, names of weights, kind), one behind the other."""
    rows, before = [], "x"
    for at, (name, op, options, own, kind) in enumerate(operators):
        rows.append(
            Operator(index=at, name=name, op=op, kind=kind, inputs=(before, *own), outputs=(f"{name}:0",),
                     attributes=options, weights=tuple(own))
        )  # fmt: skip
        before = f"{name}:0"
    tensors = {
        each: Tensor(name=each, shape=(4,), dtype="float32") for row in rows for each in (row.inputs[0], *row.outputs)
    }
    tensors |= {each.name: each for each in weights}
    return Graph(name="g", format=format, tensors=tensors, operators=tuple(rows), inputs=("x",), outputs=(before,))


def step(name, op="Conv", options=None, own=(), kind=""):
    return name, op, options or {}, own, kind


def differences(one, two):
    graphs = [one, two]
    aligned = align_operators(graphs, PATHS)
    weights = changed_weights(graphs, PATHS, aligned)
    return describe_structure(graphs, PATHS, aligned, weights, names=("a.onnx", "b.onnx"))


NET = [step("a", options={"pads": (1, 1), "group": 1}, own=["w"]), step("b", "Relu"), step("c", own=["v"])]
WEIGHTS = [weight("w"), weight("v")]


def test_the_same_graph_has_no_differences():
    assert differences(graph(*NET, weights=WEIGHTS), graph(*NET, weights=WEIGHTS)) == []


def test_operators_that_were_added_removed_and_replaced_are_named():
    one = graph(*NET, step("d", "Add"), weights=WEIGHTS)
    two = graph(NET[0], step("f", "Gelu"), NET[2], step("d", "Add"), step("e", "Softmax"), weights=WEIGHTS)
    assert differences(one, two) == ["Gelu in place of Relu (1: b)", "only in b.onnx: Softmax (1: e)"]
    assert differences(two, one) == ["Relu in place of Gelu (1: f)", "only in a.onnx: Softmax (1: e)"]


def test_an_added_operator_stands_between_those_that_it_takes_from_and_gives_to():
    two = graph(NET[0], NET[1], step("denoise", own=["w"]), NET[2], step("e", "Softmax"), weights=WEIGHTS)
    graphs = [graph(*NET, weights=WEIGHTS), two]
    found = find_lone(graphs, align_operators(graphs, PATHS))
    assert [each.describe() for each in found] == [
        "denoise (Conv) was added between b and c", "e (Softmax) was added behind c",
    ]  # fmt: skip
    graphs.reverse()
    assert [each.describe() for each in find_lone(graphs, align_operators(graphs, PATHS))] == [
        "denoise (Conv) was removed between b and c", "e (Softmax) was removed behind c",
    ]  # fmt: skip
    first = LoneOperator(name="a", op="Conv", title="a", is_added=True, before="x", after="b")
    assert find_lone([graph(NET[1]), graph(NET[0], NET[1], weights=WEIGHTS)], align_operators(
        [graph(NET[1]), graph(NET[0], NET[1], weights=WEIGHTS)], PATHS)) == [first]  # fmt: skip


def test_renamed_operators_are_paired_by_type_between_their_neighbours():
    renamed = [NET[0], step("renamed", "Relu"), NET[2]]
    assert differences(graph(*NET, weights=WEIGHTS), graph(*renamed, weights=WEIGHTS)) == []


def test_a_fused_operator_stands_in_place_of_its_parts():
    fused = graph(NET[0], step("bc", "FusedConv", own=["v"]), weights=WEIGHTS)
    assert differences(graph(*NET, weights=WEIGHTS), fused) == ["FusedConv in place of Relu and Conv (1: b)"]


def test_changed_options_have_both_values_and_neutral_ones_are_none():
    def with_options(**options):
        return graph(step("a", options=options, own=["w"]), *NET[1:], weights=WEIGHTS)

    one = graph(*NET, weights=WEIGHTS)
    assert differences(one, with_options(pads=(0, 0), group=1)) == ["Conv, pads [1, 1] → [0, 0] (1: a)"]
    assert differences(one, with_options(group=1)) == ["Conv, pads [1, 1] → None (1: a)"]
    assert differences(with_options(pads=(0, 0), kernel_shape=(3, 3)), with_options()) == []
    assert differences(one, with_options(pads=[1, 1], auto_pad="NOTSET", dilations=(1, 1))) == []
    assert differences(one, with_options(pads=(1, 2), group=2)) == [
        "Conv, group 1 → 2 (1: a)",
        "Conv, pads [1, 1] → [1, 2] (1: a)",
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"values": b"\x00\x00\x80\x3f" * 3 + b"\x00\x00\x00\x40"}, "weights with other values"),
        ({"shape": (2, 2)}, "weights 4 → 2×2"),
        ({"dtype": "int32"}, "weights float32 → int32"),
        ({"values": None}, "weights whose values can not be read here"),
    ],
)
def test_changed_weights_are_told_by_shape_type_and_value(changed, words):
    other = weight("w", **{name: value for name, value in changed.items() if value is not None})
    other = replace(other, data=None) if changed.get("values", b"") is None else other
    found = differences(graph(*NET, weights=WEIGHTS), graph(*NET, weights=[other, WEIGHTS[1]]))
    assert found == [f"Conv, {words} (1: a)"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "same structure, same weights"),
        ({"values": b"\x00\x00\x80\x3f" * 3 + b"\x00\x00\x00\x40"}, "same structure, other weights in 1 of 2 layers"),
        ({"shape": (2, 2)}, "other structure, other weights in 1 of 2 layers"),
        ({"dtype": "int32"}, "same structure, weights float32 → int32 in 1 of 2 layers"),
        ({"data": None}, "same structure"),
    ],
)
def test_a_change_is_told_in_few_words(changed, words):
    other = replace(weight("w"), data=None) if "data" in changed else weight("w", **changed)
    one, two = graph(*NET, weights=WEIGHTS), graph(*NET, weights=[other, WEIGHTS[1]])
    assert describe_change((one, two), PATHS) == words
    assert describe_change((one, replace(two, format="tflite")), PATHS) == ""


def test_other_operators_are_another_structure():
    assert describe_change((graph(*NET, weights=WEIGHTS), graph(*NET[:2], weights=WEIGHTS)), PATHS).startswith(
        "other structure"
    )


def test_what_a_quantiser_adds_is_counted_and_hides_nothing():
    quantised = graph(
        step("q", "QuantizeLinear", kind="quantize"),
        step("dq", "DequantizeLinear", kind="dequantize"),
        *NET[:1],
        step("renamed", "Relu"),
        NET[2],
        weights=[weight("w", dtype="int8", values=b"\1" * 4), WEIGHTS[1]],
    )
    whole = describe_change((graph(*NET, weights=WEIGHTS), quantised), PATHS)
    assert whole == "same structure, weights float32 → int8 in 1 of 2 layers"
    assert differences(graph(*NET, weights=WEIGHTS), quantised) == [
        "Conv, weights float32 → int8 (1: a)",
        "only in b.onnx: 1 QuantizeLinear, 1 DequantizeLinear",
    ]


def test_formats_and_graphs_without_names_in_common_are_left_alone(monkeypatch):
    one = graph(*NET, weights=WEIGHTS)
    assert differences(one, graph(*NET, weights=WEIGHTS, format="tflite")) == []
    monkeypatch.setattr(alignment, "MOST_UNNAMED", 1)
    other = graph(*(step(f"other {name}", op, options, own) for name, op, options, own, _ in NET), weights=WEIGHTS)
    assert differences(one, other) == ["2 Conv and Relu in place of 2 Conv and Relu (1: a)"]
