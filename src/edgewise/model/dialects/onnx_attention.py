"""Attention in ONNX's own form and in onnxruntime's.

Keys that a mask hides (causal, local windows, padding, lengths) are counted as if they were data. A mask of numbers is
one addition per score; a mask of truth values selects and is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.onnx_options import (
    Rule,
    Unclear,
    add,
    constant_size,
    counted,
    divide,
    elements,
    given,
    input_at,
    integer,
    mean,
    multiply,
    natural,
    number,
    output_at,
    per_element,
    rank,
    size,
    sizes,
)
from edgewise.model.graph import Tensor

_ROTATION = 3
"""Operations per rotated element: two products and their sum."""

_ROOT_NORM = 4
"""Operations per element of a root-mean-square norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """What the formula of attention takes; None where it is open."""

    batch: int | None
    heads: int | None
    queries: int | None
    keys: int | None
    depth: int | None
    value_depth: int | None

    @property
    def scores(self) -> int | None:
        """How often a query meets a key."""
        return multiply(self.batch, self.heads, self.queries, self.keys)


def attend(
    heads: Heads,
    *,
    per_score: int = 0,
    macs: int | None = 0,
    ops: int | None = 0,
    weights: tuple[int, ...] = (),
) -> Semantics:
    """Attention; with more operations per score, or further MACs and ops beside it, all of them counted."""
    if not per_score and macs == 0 and ops == 0:
        return mean(
            "attention",
            batch=heads.batch,
            heads=heads.heads,
            queries=heads.queries,
            keys=heads.keys,
            depth=heads.depth,
            value_depth=heads.value_depth,
            weights=weights,
        )
    all_macs = add(multiply(heads.scores, add(heads.depth, heads.value_depth)), macs)
    all_ops = add(multiply(2, all_macs), multiply(heads.scores, 6 + per_score), ops)
    return counted(all_macs, all_ops, weights=weights)


def _soft_cap(raw: RawOperator) -> int:
    """Divide, hyperbolic tangent, multiply."""
    return 0 if number(raw, "softcap", 0.0) == 0.0 else ACTIVATIONS["tanh"] + 2


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
    query, key, value, mask, past = (input_at(raw, at) for at in range(5))
    packed = rank(query) == 3
    heads = natural(raw, "q_num_heads", 0) if packed else size(query, 1)
    queries, depth = _sequence(query, natural(raw, "q_num_heads", 0))
    length, _ = _sequence(key, natural(raw, "kv_num_heads", 0))
    _, value_depth = _sequence(value, natural(raw, "kv_num_heads", 0))
    return attend(
        Heads(
            batch=size(query, 0),
            heads=heads,
            queries=queries,
            keys=add(length, size(past, 2) if past is not None else 0),
            depth=depth,
            value_depth=value_depth,
        ),
        per_score=_adds(mask) + _soft_cap(raw),
    )


def read_projected_attention(raw: RawOperator, *, bias: int = 2, past: int = 4, added: int = 5) -> Semantics:
    """The `Attention` of onnxruntime: one product makes queries, keys and values from [batch, length, features]."""
    data, weight = input_at(raw, 0), input_at(raw, 1)
    heads = natural(raw, "num_heads", 0)
    hidden = sizes(raw, "qkv_hidden_sizes")
    if hidden is not None and len(hidden) != 3:
        raise Unclear("it does not have three sizes of queries, keys and values")
    third = divide(size(weight, 1), 3) if hidden is None else None
    query, key, value = hidden or (third, third, third)
    tokens = multiply(size(data, 0), size(data, 1))
    width = add(query, key, value)
    rotated = multiply(_ROTATION, add(query, key)) if integer(raw, "do_rotary", 0) else 0
    earlier = size(input_at(raw, past), 3) if given(raw, past) else 0
    if integer(raw, "past_present_share_buffer", 0):
        earlier = None
    found = Heads(
        batch=size(data, 0),
        heads=heads,
        queries=size(data, 1),
        keys=add(size(data, 1), earlier),
        depth=divide(query, heads),
        value_depth=divide(value, heads),
    )
    return attend(
        found,
        per_score=int(given(raw, added)),
        macs=multiply(tokens, size(data, 2), width),
        ops=multiply(tokens, add(width if given(raw, bias) else 0, rotated)),
        weights=(1, bias),
    )


def read_multi_head_attention(raw: RawOperator) -> Semantics:
    """The `MultiHeadAttention` of onnxruntime; all of queries, keys and values, or only the last two, may be packed."""
    query, key, value = (input_at(raw, at) for at in range(3))
    heads = natural(raw, "num_heads", 0)
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
    bias = multiply(batch, add(multiply(queries, heads, depth), multiply(length, wide))) if given(raw, 3) else 0
    earlier = size(input_at(raw, 6), 2) if given(raw, 6) else 0
    if given(raw, 8):
        # The past lies in a buffer that is longer than it.
        earlier = constant_size(raw, 8)
    found = Heads(
        batch=batch,
        heads=heads,
        queries=queries,
        keys=add(length, earlier),
        depth=depth,
        value_depth=value_depth,
    )
    return attend(found, per_score=int(given(raw, 5)), ops=bias, weights=(3,))


def read_group_query_attention(raw: RawOperator) -> Semantics:
    """The `GroupQueryAttention` of onnxruntime: heads share keys and values, and queries may hold all three.

    Where the length of the past is an input, the cache's whole length is counted.
    """
    query, key = input_at(raw, 0), input_at(raw, 1)
    heads, shared = natural(raw, "num_heads", 0), natural(raw, "kv_num_heads", 0)
    batch, length = size(query, 0), size(query, 1)
    depth = divide(size(query, 2), heads if key is not None else heads + 2 * shared)
    keys = constant_size(raw, 6)
    if keys is None:
        keys = size(output_at(raw, 1), 2)
    if keys is None:
        new = length if key is None else size(key, 1)
        keys = add(new, size(input_at(raw, 3), 2) if given(raw, 3) else 0)
    each = _ROTATION if integer(raw, "do_rotary", 0) else 0
    each += _ROOT_NORM if given(raw, 14) else 0
    rotated = multiply(batch, length, depth, heads + shared, each) if each else 0
    # A further term in each softmax's sum: an exponential and an addition.
    sunk = given(raw, 11) or integer(raw, "smooth_softmax", 0) == 1
    smooth = multiply(batch, length, heads, 2) if sunk else 0
    found = Heads(batch=batch, heads=heads, queries=length, keys=keys, depth=depth, value_depth=depth)
    return attend(
        found,
        per_score=given(raw, 10) + _soft_cap(raw),
        ops=add(rotated, smooth),
        weights=(11, 14, 15),
    )


def read_rotation(raw: RawOperator) -> Semantics:
    """Rotary embedding: three operations for each element that is rotated."""
    data = input_at(raw, 0)
    part = natural(raw, "rotary_embedding_dim", 0)
    if not part:
        return per_element(_ROTATION, weights=())
    whole = size(data, 3) if rank(data) == 4 else divide(size(data, 2), natural(raw, "num_heads", 0))
    rotated = multiply(_ROTATION, divide(elements(data), whole), part) if whole else None
    return counted(0, rotated)


def read_embedding(raw: RawOperator) -> Semantics:
    """Embeddings of words, positions and segments are added and normalised, 8 operations per element."""
    return per_element(8 + (2 if given(raw, 1) else 1), kind="normalization", weights=(2, 3, 4, 5, 6))


TABLE: dict[str, Rule] = {"Attention": read_attention, "RotaryEmbedding": read_rotation}
"""Operator of the standard set → what it means."""

CONTRIBUTED: dict[str, Rule] = {
    "Attention": read_projected_attention,
    "QAttention": lambda raw: read_projected_attention(raw, past=8, added=9),
    "MultiHeadAttention": read_multi_head_attention,
    "GroupQueryAttention": read_group_query_attention,
    "RotaryEmbedding": read_rotation,
    "EmbedLayerNormalization": read_embedding,
}
"""Operator of onnxruntime's own set → what it means."""
