"""ONNX: recurrent layers and attention, each operator computed by hand."""

from __future__ import annotations

from case_tables import with_each
from edgewise.model.dialects import onnx_sequence
from onnx_cases import Case, check, ints, truths

# Five steps of two sequences with three features, four units.
X, STATE = (5, 2, 3), (1, 2, 4)


def recurrent(op, gates, ops, *, inputs=(), directions=1, **more):
    weights = [(directions, gates * 4, 3), (directions, gates * 4, 4)]
    # 10 cells of gates × 4 units × (3 features + 4 states).
    return Case(op, [X, *weights, *inputs], [(5, directions, 2, 4)], 10 * gates * 4 * 7 * directions, ops, **more)


RECURRENT = [
    # tanh and a sum: 6 per unit.
    recurrent("RNN", 1, 10 * (2 * 28 + 4 * 6), kind="recurrent", parameters=28),
    recurrent("RNN", 1, 10 * (2 * 28 + 4 * 6 + 8), inputs=[(1, 8)], parameters=28 + 8),
    # A ReLU instead: 2 per unit; with a clip before it: 4.
    recurrent("RNN", 1, 10 * (2 * 28 + 4 * 2), options={"activations": ("Relu",)}),
    recurrent("RNN", 1, 10 * (2 * 28 + 4 * 4), options={"activations": ("Relu",), "clip": 3.0}),
    Case("RNN", [X, (1, 4, 3), (1, 4, 4)], [(5, 1, 2, 4)], None, None, why="'odd'", options={"activations": ("Odd",)}),
    # Two sigmoids, a tanh, three sums, five operations that mix: 8 + 5 + 3 + 5 = 21 per unit.
    recurrent("GRU", 3, 10 * (2 * 84 + 4 * 21), kind="recurrent", parameters=84),
    recurrent("GRU", 3, 10 * (2 * 84 + 4 * 21 + 24), inputs=[(1, 24), ints(2), STATE], parameters=84 + 24),
    recurrent("GRU", 3, 2 * 10 * (2 * 84 + 4 * 21), directions=2, options={"direction": "bidirectional"}),
    # One direction with ReLU (1) for tanh (5), the other with what is usual: 17 and 21 per unit.
    recurrent("GRU", 3, 10 * (2 * 168 + 4 * (17 + 21)), directions=2,
              options={"direction": "bidirectional", "activations": ("Sigmoid", "Relu", "Sigmoid", "Tanh")}),
    # Three sigmoids, two tanh, four sums, four operations that mix: 12 + 10 + 8 = 30 per unit.
    recurrent("LSTM", 4, 10 * (2 * 112 + 4 * 30), kind="recurrent", parameters=112),
    recurrent("LSTM", 4, 10 * (2 * 112 + 4 * 30 + 32 + 24), inputs=[(1, 32), None, None, None, (1, 12)],
              parameters=112 + 32 + 12),
    # Five limits of two operations each.
    recurrent("LSTM", 4, 10 * (2 * 112 + 4 * 40 + 32), inputs=[(1, 32)], options={"clip": 1.0}),
    # A subtraction instead of the forget gate's sigmoid: 30 − 4 + 1.
    recurrent("LSTM", 4, 10 * (2 * 112 + 4 * 27), options={"input_forget": 1}),
    recurrent("LSTM", 4, 10 * (2 * 112 + 4 * 30), options={"hidden_size": 4, "direction": "reverse"}),
    Case("LSTM", [(2, 5, 3), (1, 16, 3), (1, 16, 4)], [None, (2, 1, 4)], 1120, 10 * (2 * 112 + 4 * 30), options={"layout": 1}),
    Case("LSTM", [("t", 2, 3), (1, 16, 3), (1, 16, 4)], [("t", 1, 2, 4)], None, None, why="steps"),
    Case("LSTM", [("t", 2, 3), (1, 16, 3), (1, 16, 4)], [("t", 1, 2, 4)], None, None, why="steps", options={"clip": 1.0}),
    Case("LSTM", [X, (1, 16, 3), (1, 16, 4)], [(5, 1, 2, 4)], None, None, kind="", why="'up'", options={"direction": "up"}),
    Case("LinearAttention", [(1, 6, 12), (1, 6, 6), (1, 6, 10)], [(1, 6, 20), (1, 2, 3, 5)], None, None, why="rare"),
]  # fmt: skip

# Two samples, 4 heads, 6 queries, 7 keys: 336 scores; depth 3, values of 5: 2688 MACs.
Q, K, V = (2, 4, 6, 3), (2, 2, 7, 3), (2, 2, 7, 5)
PACKED = [(2, 6, 12), (2, 7, 6), (2, 7, 10)]
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}

ATTENTION = [
    Case("Attention", [Q, K, V], [(2, 4, 6, 5)], 336 * 8, 2 * 2688 + 6 * 336, kind="attention"),
    Case("Attention", PACKED, [(2, 6, 20)], 2688, 5376 + 2016, kind="attention", options=HEADS),
    Case("Attention", [Q, K, V, truths(6, 7)], [(2, 4, 6, 5)], 2688, 5376 + 2016, kind="attention"),
    Case("Attention", [Q, K, V, (6, 7)], [(2, 4, 6, 5)], 2688, 5376 + 7 * 336),  # the mask is added
    # Divide, tanh, multiply.
    Case("Attention", [Q, K, V], [(2, 4, 6, 5)], 2688, 5376 + (6 + 7) * 336, options={"softcap": 30.0}),
    # Three keys from before: 2 × 4 × 6 × 10 = 480 scores.
    Case("Attention", [Q, K, V, None, (2, 2, 3, 3), (2, 2, 3, 5)], [(2, 4, 6, 5)], 480 * 8, 2 * 3840 + 6 * 480),
    Case("Attention", [(2, 4, "s", 3), K, V], [(2, 4, "s", 5)], None, None, why="queries"),
    Case("Attention", [(2, 12), K, V], [(2, 4, 6, 5)], None, None, kind="", why="neither"),
    Case("Attention", PACKED, [(2, 6, 20)], None, None, kind="", why="divisible"),
    Case("RotaryEmbedding", [(2, 4, 6, 8), (6, 4), (6, 4)], [(2, 4, 6, 8)], 0, 3 * 384, parameters=0),
    # A quarter of each head.
    Case("RotaryEmbedding", [(2, 4, 6, 8), (6, 1), (6, 1)], [(2, 4, 6, 8)], 0, 3 * 96, options={"rotary_embedding_dim": 2}),
    Case("RotaryEmbedding", [(2, 6, 32), (6, 1), (6, 1)], [(2, 6, 32)], 0, 3 * 96,
         options={"rotary_embedding_dim": 2, "num_heads": 4}),
]  # fmt: skip

CASES = [*RECURRENT, *ATTENTION]


@with_each(CASES)
def test_cost(case):
    check(case)


def test_every_operator_of_the_tables_has_a_case():
    assert {case.op for case in CASES} == {*onnx_sequence.TABLE}
