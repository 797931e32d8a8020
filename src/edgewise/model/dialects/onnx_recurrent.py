"""ONNX's recurrent layers and linear attention."""

from __future__ import annotations

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    USUAL_FUNCTIONS,
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    add,
    counted,
    divide,
    mean,
    multiply,
    other_functions,
    size,
)  # fmt: skip

_FUNCTIONS: dict[str, int] = {
    "affine": 2,
    "scaledtanh": ACTIVATIONS["tanh"] + 2,
    **{
        name.replace("-", ""): ACTIVATIONS[name]
        for name in ("relu", "tanh", "sigmoid", "leaky-relu", "hard-sigmoid", "elu", "softsign", "softplus")
    },
    "thresholdedrelu": ACTIVATIONS["threshold"],
}
"""Operations per element of the functions that ONNX allows inside a cell, their names in small letters."""

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def read_recurrent(raw: RawOperator) -> Semantics:
    """RNN, GRU or LSTM.

    X is [steps, batch, input], or [batch, steps, input] with `layout` 1. Sequences that are shorter than the longest
    count as if they were padded.
    """
    layer = "LSTM" if raw.op.endswith("LSTM") else raw.op
    data, recurrence = raw.input(0), raw.input(2)
    by_batch = raw.integer("layout", 0)
    direction = raw.text("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise Unclear(f"it has no direction {direction!r}")
    directions = 2 if direction == "bidirectional" else 1
    hidden = raw.natural("hidden_size", 0) or None
    if hidden is None:
        # DynamicQuantizeLSTM keeps its matrices transposed: [directions, hidden, gates × hidden].
        hidden = size(recurrence, -2) if raw.op != layer else size(recurrence, -1)
    return mean(
        "recurrent",
        gates=_GATES[layer],
        hidden=hidden,
        input=size(data, 2),
        steps=size(data, 1 if by_batch else 0),
        batch=size(data, 0 if by_batch else 1),
        directions=directions,
        biases=2 if raw.given(3) else 0,
        peepholes=3 if layer == "LSTM" and raw.given(7) else 0,
        further=_further_operations(raw, layer, directions),
        weights=(1, 2, 3, 7) if layer == "LSTM" else (1, 2, 3),
    )


def _further_operations(raw: RawOperator, layer: str, directions: int) -> int:
    """Operations per unit and step, of all directions, beyond those of the standard functions."""
    usual = [name for name, _ in USUAL_FUNCTIONS[_GATES[layer]]]
    names = [str(name).lower() for name in raw.listed("activations") or usual * directions]
    if len(names) != len(usual) * directions:
        raise Unclear(f"it names {len(names)} functions")
    if lacking := [name for name in names if name not in _FUNCTIONS]:
        raise Unclear(f"the function {lacking[0]!r} has no known cost")
    clip = ACTIVATIONS["clamp"] if "clip" in raw.attributes else 0
    costs = [_FUNCTIONS[name] for name in names]
    by_direction = [costs[at : at + len(usual)] for at in range(0, len(costs), len(usual))]
    further = sum(other_functions(_GATES[layer], each, clip=clip) for each in by_direction)
    if layer == "LSTM" and raw.integer("input_forget", 0):
        # The forget gate is 1 − the input gate: a subtraction instead of its function.
        further += sum(1 - clip - each[0] for each in by_direction)
    return further


def read_linear_attention(raw: RawOperator) -> Semantics:
    """A state of d_k × d_v per key head that each step reads, and updates by one of four rules.

    Read: q·S, a MAC per element and query head, and a scale. Update: k ⊗ v, a MAC per element. Gated: the exponential
    of the decay and its product with the state. Delta: v − S·k first, a MAC per element, a subtraction and a product
    with β per value.
    """
    queries, keys, values = (raw.input(at) for at in range(3))
    heads, shared = raw.natural("q_num_heads", 0), raw.natural("kv_num_heads", 0)
    rule = raw.text("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise Unclear(f"it has no update rule {rule!r}")
    gated, delta = "gated" in rule, "delta" in rule
    steps = multiply(size(queries, 0), size(queries, 1))
    depth, width = divide(size(keys, 2), shared), divide(size(values, 2), shared)
    state = multiply(depth, width)
    macs = multiply(steps, state, heads + shared * (1 + delta))
    beside = add(
        multiply(heads, width),
        multiply(shared, state) if gated else 0,
        size(raw.input(4), 2) if gated else 0,
        multiply(shared, width, 2) if delta else 0,
    )
    return counted(macs, add(multiply(2, macs), multiply(steps, beside)))


TABLE: dict[str, Rule] = {
    "RNN": read_recurrent,
    "GRU": read_recurrent,
    "LSTM": read_recurrent,
    "LinearAttention": read_linear_attention,
}
"""Operator of the standard set → what it means."""
