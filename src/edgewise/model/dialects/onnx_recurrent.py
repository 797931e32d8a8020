"""ONNX's recurrent layers, in all their options."""

from __future__ import annotations

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.onnx_options import (
    Rule,
    Unclear,
    add,
    counted,
    divide,
    given,
    input_at,
    integer,
    listed,
    mean,
    multiply,
    natural,
    size,
    text,
)

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
_DEFAULTS = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
_USES = {"RNN": (1,), "GRU": (2, 1), "LSTM": (3, 1, 1)}
"""How often a step applies each of its functions."""

_PLAIN = {"RNN": 1, "GRU": 3 + 5, "LSTM": 4 + 4}
"""Further operations per unit and step: sums of both products, and what mixes the gates."""


def read_recurrent(raw: RawOperator) -> Semantics:
    """RNN, GRU or LSTM: `recurrent` with the standard functions, else counted with those that it names.

    X is [steps, batch, input], or [batch, steps, input] with `layout` 1. Sequences that are shorter than the longest
    count as if they were padded.
    """
    layer = "LSTM" if raw.op.endswith("LSTM") else raw.op
    data, recurrence = input_at(raw, 0), input_at(raw, 2)
    by_batch = integer(raw, "layout", 0)
    direction = text(raw, "direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise Unclear(f"it has no direction {direction!r}")
    gates, hidden = _GATES[layer], natural(raw, "hidden_size", 0) or None
    if hidden is None:
        # DynamicQuantizeLSTM keeps its matrices transposed: [directions, hidden, gates × hidden].
        hidden = size(recurrence, -2) if raw.op != layer else size(recurrence, -1)
    found = mean(
        "recurrent",
        gates=gates,
        hidden=hidden,
        input=size(data, 2),
        steps=size(data, 1 if by_batch else 0),
        batch=size(data, 0 if by_batch else 1),
        directions=2 if direction == "bidirectional" else 1,
        biases=2 if given(raw, 3) else 0,
        peepholes=3 if layer == "LSTM" and given(raw, 7) else 0,
        weights=(1, 2, 3, 7) if layer == "LSTM" else (1, 2, 3),
    )
    own = _own_functions(raw, layer, found.geometry["directions"])
    return found if own is None else _count(found, own)


def _own_functions(raw: RawOperator, layer: str, directions: int) -> int | None:
    """Operations per unit and step of all directions' functions, None where they are the standard ones."""
    names = [str(name).lower() for name in listed(raw, "activations") or _DEFAULTS[layer] * directions]
    if len(names) != len(_DEFAULTS[layer]) * directions:
        raise Unclear(f"it names {len(names)} functions")
    clipped, coupled = "clip" in raw.attributes, layer == "LSTM" and integer(raw, "input_forget", 0)
    if tuple(names) == _DEFAULTS[layer] * directions and not clipped and not coupled:
        return None
    lacking = [name for name in names if name not in _FUNCTIONS]
    if lacking:
        raise Unclear(f"the function {lacking[0]!r} has no known cost")
    uses = _USES[layer] * directions
    limits = ACTIVATIONS["clamp"] if clipped else 0
    total = sum(use * (_FUNCTIONS[name] + limits) for use, name in zip(uses, names, strict=True))
    if coupled:
        # The forget gate is 1 − the input gate: a subtraction instead of its function.
        total += sum(1 - limits - _FUNCTIONS[name] for name in names[:: len(_DEFAULTS[layer])])
    return total + _PLAIN[layer] * directions


def _count(found: Semantics, functions: int) -> Semantics:
    """The same formula as the kind `recurrent`, with `functions` operations per unit and step of all directions."""
    numbers = found.geometry
    hidden, directions = numbers.get("hidden"), numbers["directions"]
    cells = multiply(numbers.get("steps"), numbers.get("batch"))
    macs = multiply(directions, numbers["gates"], hidden, add(numbers.get("input"), hidden))
    beside = directions * (numbers["gates"] * numbers["biases"] + 2 * numbers["peepholes"]) + functions
    ops = add(multiply(2, macs), multiply(hidden, beside))
    return counted(multiply(cells, macs), multiply(cells, ops), weights=found.weights)


def read_linear_attention(raw: RawOperator) -> Semantics:
    """A state of d_k × d_v per key head that each step reads, and updates by one of four rules.

    Read: q·S, a MAC per element and query head, and a scale. Update: k ⊗ v, a MAC per element. Gated: the exponential
    of the decay and its product with the state. Delta: v − S·k first, a MAC per element, a subtraction and a product
    with β per value.
    """
    queries, keys, values = (input_at(raw, at) for at in range(3))
    heads, shared = natural(raw, "q_num_heads", 0), natural(raw, "kv_num_heads", 0)
    rule = text(raw, "update_rule", "gated_delta")
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
        size(input_at(raw, 4), 2) if gated else 0,
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
