"""ONNX operators of sequences: attention in ONNX's own form and in onnxruntime's, recurrent layers.

Keys that a mask hides (causal, local windows, padding, lengths) are counted as if they were data. A mask of numbers is
one addition per score; a mask of truth values selects and is none.
"""

from __future__ import annotations

from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    OPEN,
    USUAL_FUNCTIONS,
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    add,
    counted,
    divide,
    each,
    elements,
    mean,
    multiply,
    other_functions,
    per_element,
    rank,
    rare,
    size,
)
from edgewise.model.graph import Tensor

_ROTATION = 3
"""Operations per rotated element: two products and their sum."""

_ROOT_NORM = 4
"""Operations per element of a root-mean-square norm."""


def attend(
    *,
    per_score: int = 0,
    macs: int | None = 0,
    ops: int | None = 0,
    weights: tuple[int, ...] = (),
    **heads: Any,
) -> Semantics:
    """Attention of `heads`, the numbers of its formula, with the MACs and operations of what is fused with it."""
    if macs is None or ops is None:
        return Semantics(kind="attention", weights=weights, why=OPEN)
    return mean("attention", per_score=per_score, further_macs=macs, further_ops=ops, weights=weights, **heads)


def _soft_cap(raw: RawOperator) -> int:
    """Divide, hyperbolic tangent, multiply."""
    return 0 if raw.number("softcap", 0.0) == 0.0 else ACTIVATIONS["tanh"] + 2


def _adds(mask: Tensor | None) -> int:
    """One operation per score for a mask that is added."""
    return 0 if mask is None or mask.dtype == "bool" else 1


def _sequence(tensor: Tensor | None, heads: int) -> tuple[int | None, int | None]:
    """Length and depth of [batch, heads, length, depth] or [batch, length, heads × depth]."""
    dimensions = rank(tensor)
    if dimensions not in (None, 3, 4):
        raise Unclear(f"its input has {dimensions} dimensions, neither 3 nor 4")
    if dimensions == 4:
        return size(tensor, 2), size(tensor, 3)
    return (size(tensor, 1), divide(size(tensor, 2), heads)) if dimensions == 3 else (None, None)


def read_attention(raw: RawOperator) -> Semantics:
    """ONNX's attention: Q, K, V, mask, and the keys and values of earlier steps."""
    query, key, value, mask, past = (raw.input(at) for at in range(5))
    packed = rank(query) == 3
    heads = raw.natural("q_num_heads", 0) if packed else size(query, 1)
    queries, depth = _sequence(query, raw.natural("q_num_heads", 0))
    length, _ = _sequence(key, raw.natural("kv_num_heads", 0))
    _, value_depth = _sequence(value, raw.natural("kv_num_heads", 0))
    return attend(
        batch=size(query, 0),
        heads=heads,
        queries=queries,
        keys=add(length, size(past, 2) if past is not None else 0),
        depth=depth,
        value_depth=value_depth,
        per_score=_adds(mask) + _soft_cap(raw),
    )


def read_projected_attention(raw: RawOperator, *, bias: int = 2, past: int = 4, added: int = 5) -> Semantics:
    """Return the `Attention` of onnxruntime: one product makes queries, keys and values from [batch, length,
    features].
    """
    data, weight = raw.input(0), raw.input(1)
    heads = raw.natural("num_heads", 0)
    hidden = raw.sizes("qkv_hidden_sizes")
    if hidden is not None and len(hidden) != 3:
        raise Unclear("it does not have three sizes of queries, keys and values")
    third = divide(size(weight, 1), 3) if hidden is None else None
    query, key, value = hidden or (third, third, third)
    tokens = multiply(size(data, 0), size(data, 1))
    width = add(query, key, value)
    rotated = multiply(_ROTATION, add(query, key)) if raw.integer("do_rotary", 0) else 0
    earlier = size(raw.input(past), 3) if raw.given(past) else 0
    if raw.integer("past_present_share_buffer", 0):
        earlier = None
    return attend(
        batch=size(data, 0),
        heads=heads,
        queries=size(data, 1),
        keys=add(size(data, 1), earlier),
        depth=divide(query, heads),
        value_depth=divide(value, heads),
        per_score=int(raw.given(added)),
        macs=multiply(tokens, size(data, 2), width),
        ops=multiply(tokens, add(width if raw.given(bias) else 0, rotated)),
        weights=(1, bias),
    )


def read_multi_head_attention(raw: RawOperator) -> Semantics:
    """Return the `MultiHeadAttention` of onnxruntime; all of queries, keys and values, or only the last two, may be
    packed.
    """
    query, key, value = (raw.input(at) for at in range(3))
    heads = raw.natural("num_heads", 0)
    depth = size(query, 4) if rank(query) == 5 else divide(size(query, 2), heads)
    batch, queries = size(query, 0), size(query, 1)
    if rank(query) == 5:
        length, value_depth, projected = queries, depth, 2
    elif rank(key) == 5:
        length, value_depth, projected = size(key, 1), size(key, 4), 2
    else:
        length, _ = _sequence(key, heads)
        _, value_depth = _sequence(value, heads)
        # Keys that come as [batch, heads, length, depth] had their bias before.
        projected = 0 if rank(key) == 4 else 2
    wide = multiply(heads, add(depth, value_depth)) if projected else 0
    bias = multiply(batch, add(multiply(queries, heads, depth), multiply(length, wide))) if raw.given(3) else 0
    earlier = size(raw.input(6), 2) if raw.given(6) else 0
    if raw.given(8):
        # The past lies in a buffer that is longer than it.
        earlier = raw.constant_size(8)
    return attend(
        batch=batch,
        heads=heads,
        queries=queries,
        keys=add(length, earlier),
        depth=depth,
        value_depth=value_depth,
        per_score=int(raw.given(5)),
        ops=bias,
        weights=(3,),
    )


def read_group_query_attention(raw: RawOperator) -> Semantics:
    """Return the `GroupQueryAttention` of onnxruntime: heads share keys and values, and queries may hold all three.

    Where the length of the past is an input, the cache's whole length is counted.
    """
    query, key = raw.input(0), raw.input(1)
    heads, shared = raw.natural("num_heads", 0), raw.natural("kv_num_heads", 0)
    batch, length = size(query, 0), size(query, 1)
    depth = divide(size(query, 2), heads if key is not None else heads + 2 * shared)
    keys = raw.constant_size(6)
    if keys is None:
        keys = size(raw.output(1), 2)
    if keys is None:
        new = length if key is None else size(key, 1)
        keys = add(new, size(raw.input(3), 2) if raw.given(3) else 0)
    each = _ROTATION if raw.integer("do_rotary", 0) else 0
    each += _ROOT_NORM if raw.given(14) else 0
    rotated = multiply(batch, length, depth, heads + shared, each) if each else 0
    # A further term in each softmax's sum: an exponential and an addition.
    sunk = raw.given(11) or raw.integer("smooth_softmax", 0) == 1
    smooth = multiply(batch, length, heads, 2) if sunk else 0
    return attend(
        batch=batch,
        heads=heads,
        queries=length,
        keys=keys,
        depth=depth,
        value_depth=depth,
        per_score=raw.given(10) + _soft_cap(raw),
        ops=add(rotated, smooth),
        weights=(11, 14, 15),
    )


def read_rotation(raw: RawOperator) -> Semantics:
    """Rotary embedding: three operations for each element that is rotated."""
    data = raw.input(0)
    part = raw.natural("rotary_embedding_dim", 0)
    if not part:
        return per_element(_ROTATION)
    whole = size(data, 3) if rank(data) == 4 else divide(size(data, 2), raw.natural("num_heads", 0))
    rotated = multiply(_ROTATION, divide(elements(data), whole), part) if whole else None
    return counted(0, rotated)


def read_embedding(raw: RawOperator) -> Semantics:
    """Embeddings of words, positions and segments are added and normalised, 8 operations per element."""
    return per_element(8 + (2 if raw.given(1) else 1), kind="normalization", weights=(2, 3, 4, 5, 6))


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


TABLE: dict[str, Rule] = {
    "Attention": read_attention,
    "RotaryEmbedding": read_rotation,
    **each("RNN GRU LSTM", read_recurrent),
    "LinearAttention": rare(macs=None),
}
"""Operator of the standard set → what it means."""

CONTRIBUTED: dict[str, Rule] = {
    "Attention": read_projected_attention,
    "QAttention": lambda raw: read_projected_attention(raw, past=8, added=9),
    "MultiHeadAttention": read_multi_head_attention,
    "GroupQueryAttention": read_group_query_attention,
    "RotaryEmbedding": read_rotation,
    "EmbedLayerNormalization": read_embedding,
    "DynamicQuantizeLSTM": read_recurrent,
    "LinearAttention": rare(macs=None),
}
"""Operator of onnxruntime's own set → what it means."""
