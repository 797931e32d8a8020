"""Every formula against numbers computed by hand."""

from __future__ import annotations

import pytest

from edgewise.model.cost import ACTIVATIONS, KINDS, cost_of, count, depth_of, total_of
from edgewise.model.graph import StoredData
from graphs import convnet, graph, op, tensor
from messages import wording


def cost(operator, *tensors, subgraphs=None):
    made = graph(tensors, [operator], subgraphs=subgraphs)
    return cost_of(made.operators[0], made)


X, Y = tensor("x", 1, 4, 6, 6), tensor("y", 1, 8, 6, 6)

CASES = {
    # 288 outputs × (4 channels × 9) = 10,368 MACs; 2 × 10,368 + 288 bias + 288 × 2 clamp = 21,600
    "convolution": (op("C", "convolution", ["x"], ["y"], reduction=36, bias=True, activation="clamp"), 10_368, 21_600),
    # 144 inputs × (8 × 4) = 4,608 MACs; 9,216 + 288 bias
    "transposed-convolution": (
        op("T", "transposed-convolution", ["x"], ["y"], reduction=32, bias=True), 4_608, 9_504,
    ),
    # 288 outputs × 10
    "matrix-multiplication": (op("M", "matrix-multiplication", ["x"], ["y"], reduction=10), 2_880, 5_760),
    # scores 2 × 3 × 5 × 7 = 210; × (8 + 4) = 2,520 MACs; 5,040 + 210 × 6
    "attention": (
        op("A", "attention", ["x"], ["y"], batch=2, heads=3, queries=5, keys=7, depth=8, value_depth=4), 2_520, 6_300,
    ),
    # LSTM, 3 steps × batch 2 × 2 directions = 12 cells; 4 × 5 × (6 + 5) = 220 MACs each → 2,640;
    # per cell 440 + biases 4×5×2 = 40 + (12 + 10 + 8) × 5 = 150 → 630 → 7,560
    "recurrent": (
        op("L", "recurrent", ["x"], ["y"], gates=4, hidden=5, input=6, steps=3, batch=2, directions=2, biases=2),
        2_640, 7_560,
    ),
    # 288 × 2 + 288 × 1
    "elementwise": (op("E", "elementwise", ["x"], ["y"], per_element=2, activation="relu"), 0, 864),
    "activation": (op("R", "activation", ["x"], ["y"], activation="sigmoid"), 0, 288 * 4),
    "normalization": (op("N", "normalization", ["x"], ["y"], per_element=8), 0, 2_304),
    "softmax": (op("S", "softmax", ["x"], ["y"]), 0, 1_440),
    # 288 × (4 + 1)
    "pooling": (op("P", "pooling", ["x"], ["y"], window=4, average=True), 0, 1_440),
    # 144 inputs × 1 + 288 outputs × 1
    "reduction": (op("D", "reduction", ["x"], ["y"], per_output=1), 0, 432),
    "resize": (op("Z", "resize", ["x"], ["y"], per_element=7), 0, 2_016),
    "quantize": (op("Q", "quantize", ["x"], ["y"], per_element=4), 0, 1_152),
    "dequantize": (op("U", "dequantize", ["x"], ["y"], per_element=2), 0, 576),
    "movement": (op("V", "movement", ["x"], ["y"]), 0, 0),
    "sorting": (op("O", "sorting", ["x"], ["y"]), 0, None),
    "counted": (op("K", "counted", ["x"], ["y"], macs=12, ops=34), 12, 34),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CASES))
def test_formula(kind):
    operator, macs, ops = CASES[kind]
    found = cost(operator, X, Y)
    assert (found.macs, found.ops) == (macs, ops)
    assert bool(found.why) == (ops is None)


def test_every_kind_has_a_case():
    assert {*CASES, "branch", "loop"} == set(KINDS)


def test_recurrent_gates_by_hand():
    base = {"hidden": 1, "input": 1, "steps": 1, "batch": 1}
    # RNN: 2 MACs, 4 + tanh 5 + 1; GRU: 6 MACs, 12 + 8 + 5 + 8; with a bias vector per gate: + gates
    assert cost(op("R", "recurrent", [], [], gates=1, **base)).ops == 10
    assert cost(op("R", "recurrent", [], [], gates=3, **base)).ops == 33
    assert cost(op("R", "recurrent", [], [], gates=3, biases=1, **base)).ops == 36
    # projection to 3 features that flow back: 4·1·(1+3) + 3·1 = 19 MACs; peepholes of three gates: 6 ops
    projected = cost(op("R", "recurrent", [], [], gates=4, state=3, projection=3, peepholes=3, **base))
    assert (projected.macs, projected.ops) == (19, 2 * 19 + 30 + 6)


def test_data_input_of_a_transposed_convolution():
    operator = op("T", "transposed-convolution", ["shape", "w", "x"], ["y"], reduction=2, data=2)
    assert cost(operator, tensor("shape", 4), tensor("w", 2), X, Y).macs == 288


def test_log_softmax_takes_one_more():
    assert cost(op("S", "softmax", ["x"], ["y"], logarithm=True), X, Y).ops == 1_728


def test_unknown_is_never_zero():
    found = cost(op("Mystery", "", ["x"], ["y"]), X, Y)
    assert (found.macs, found.ops) == (None, None)
    assert "Mystery" in found.why
    told = cost(op("Mystery", "", ["x"], ["y"], why="nobody knows"), X, Y)
    assert told.why == "nobody knows"


@pytest.mark.parametrize(
    ("operator", "word"),
    [
        (op("C", "convolution", ["x"], ["open"], reduction=3), "open"),
        (op("C", "convolution", ["x"], ["y"]), "reduction"),
        (op("C", "convolution", ["x"], []), wording("no-output")),
        (op("L", "loop", ["x"], ["y"]), wording("number-repetitions-depends-data")),
        (op("B", "branch", ["x"], ["y"]), wording("branches-not-model")),
    ],
)
def test_what_is_lacking_is_named(operator, word):
    found = cost(operator, X, Y, tensor("open", "batch", 3))
    assert found.macs is None and word in found.why


@pytest.mark.parametrize(
    ("operator", "word"),
    [
        (op("D", "reduction", [""], ["y"]), wording("input-missing")),
        (op("A", "activation", ["x"], ["y"], activation="frobnicate"), "frobnicate"),
        (op("E", "elementwise", ["x"], ["open"], per_element=1), "open"),
        (op("P", "pooling", ["x"], ["y"]), "window"),
    ],
)
def test_what_multiplies_nothing_has_no_macs_whatever_its_shapes_are(operator, word):
    found = cost(operator, X, Y, tensor("open", "batch", 3))
    assert (found.macs, found.ops) == (0, None) and word in found.why


def body(macs):
    return graph([X, Y], [op("K", "counted", ["x"], ["y"], macs=macs, ops=2 * macs)], inputs=["x"], outputs=["y"])


def test_branches_that_cost_the_same_have_a_cost():
    operator = op("If", "branch", ["x"], ["y"], subgraphs=["a", "b"])
    same = cost(operator, X, Y, subgraphs={"a": body(5), "b": body(5)})
    assert (same.macs, same.ops) == (5, 10)
    other = cost(operator, X, Y, subgraphs={"a": body(5), "b": body(6)})
    assert (other.macs, other.ops) == (None, None) and "branch" in other.why


def test_loops_repeat_their_body():
    operator = op("Loop", "loop", ["x"], ["y"], subgraphs=["a"], trips=7)
    found = cost(operator, X, Y, subgraphs={"a": body(5)})
    assert (found.macs, found.ops) == (35, 70)


def test_count_has_bytes_and_intensity():
    made = convnet()
    # Conv0: 256 outputs × 27 = 6,912 MACs, 13,824 + 256 ops; weights (108 + 4) × 4 B; moved (192 + 256) × 4 B
    found = count(made.operators[0], made)
    assert (found.macs, found.ops, found.parameters) == (6_912, 14_080, 112)
    assert (found.weight_bytes, found.activation_bytes) == (448, 1_792)
    assert found.intensity == 14_080 / 2_240
    reshaped = count(made.operators[4], made)
    assert (reshaped.macs, reshaped.ops, reshaped.parameters, reshaped.weight_bytes) == (0, 0, 0, 0)


def test_totals_count_a_shared_weight_once():
    made = graph(
        [X, tensor("w", 10, constant=True), tensor("a", 1, 4, 6, 6), tensor("b", 1, 4, 6, 6)],
        [
            op("M0", "matrix-multiplication", ["x", "w"], ["a"], weights=["w"], reduction=1),
            op("M1", "matrix-multiplication", ["a", "w"], ["b"], weights=["w"], reduction=1),
        ],
    )
    total = total_of(made)
    assert (total.macs, total.parameters, total.weight_bytes) == (288, 10, 40)
    assert total.depth == 2


def test_totals_keep_the_known_part():
    made = graph([X, Y], [op("C", "convolution", ["x"], ["y"], reduction=1), op("Odd", "", ["y"], ["x"])])
    total = total_of(made)
    assert (total.macs, total.ops, total.macs_known, total.ops_known) == (None, None, 288, 576)
    assert total.unknown == ("Odd",) and "Odd" in total.why


def test_totals_reach_into_bodies():
    weighted = graph(
        [X, Y, tensor("w", 6, constant=True), tensor("outer", 2, constant=True)],
        [op("M", "matrix-multiplication", ["x", "w", "outer"], ["y"], weights=["w", "outer"], reduction=1)],
    )
    made = graph(
        [X, Y, tensor("outer", 2, constant=True)],
        [op("Loop", "loop", ["x", "outer"], ["y"], weights=["outer"], subgraphs=["body"], trips=3)],
        subgraphs={"body": weighted},
    )
    total = total_of(made)
    assert (total.macs, total.parameters) == (3 * 288, 8)
    found = count(made.operators[0], made)
    assert (found.macs, found.parameters, found.weight_bytes) == (3 * 288, 8, 32)


def test_packed_weights_take_what_the_file_stores():
    made = graph(
        [X, Y, tensor("w", 10, dtype="int8", constant=True, stored_bytes=5)],
        [op("M", "matrix-multiplication", ["x", "w"], ["y"], weights=["w"], reduction=1)],
    )
    assert count(made.operators[0], made).weight_bytes == 5
    assert total_of(made).weight_bytes == 5


def test_bytes_of_weights_that_the_file_stores_in_one_place_count_once():
    def network(*places):
        names = [f"w{at}" for at in range(len(places))]
        weights = [
            tensor(name, 10, constant=True, data=StoredData(dtype="float32", file="m.bin", offset=place, size=40))
            for name, place in zip(names, places, strict=True)
        ]
        products = [op(name, "matrix-multiplication", ["x"], ["y"], weights=[name], reduction=1) for name in names]
        return total_of(graph([X, Y, *weights], products))

    assert (network(0, 40).parameters, network(0, 40).weight_bytes) == (20, 80)
    assert (network(0, 0, 0).parameters, network(0, 0, 0).weight_bytes) == (30, 40)


def test_depth_is_the_longest_path():
    assert depth_of(convnet()) == 5
    assert depth_of(graph([X], [])) == 0


def test_every_function_has_a_cost_that_is_a_count():
    assert all(isinstance(ops, int) and ops >= 0 for ops in ACTIVATIONS.values())
    assert ACTIVATIONS["silu"] == ACTIVATIONS["sigmoid"] + 1
    assert ACTIVATIONS["hard-swish"] == ACTIVATIONS["hard-sigmoid"] + 1
