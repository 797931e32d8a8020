"""OpenVINO operators that accumulate products: convolutions, matrix products, attention, recurrent layers.

Layouts of filters and inputs are those of the operation specifications,
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs.html.
"""

from __future__ import annotations

from dataclasses import replace

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    USUAL_FUNCTIONS,
    RawOperator,
    Semantics,
    counted,
    elements,
    mean,
    multiply,
    other_functions,
    product_of,
    rank,
    shape_of,
    size_of,
)
from edgewise.model.dialects.einsum import read_einsum


def convolve(raw: RawOperator) -> Semantics:
    """Filters [O, I, k…] or in groups [G, O/G, I/G, k…]; transposed [I, O, k…] or [G, I/G, O/G, k…]."""
    filters, grouped = shape_of(raw.input(1)), raw.op.startswith("Group")
    inner = filters[2 if grouped else 1 :]
    transposed = raw.op.endswith("BackpropData")
    groups = filters[0] if grouped and filters else 1
    return mean(
        "transposed-convolution" if transposed else "convolution",
        reduction=multiply(*inner) if inner else None,
        depthwise=isinstance(groups, int) and groups > 1 and inner[:1] == (1,) and not transposed,
        weights=(1,),
    )


def convolve_deformed(raw: RawOperator) -> Semantics:
    """Data, offsets, filters [O, I/G, k…] and perhaps a mask: each sample is interpolated (7 ops) and masked (1)."""
    data, filters, result = raw.input(0), raw.input(2), raw.output()
    if (rank(data) or 0) < 2 or (rank(filters) or 0) < 3 or (rank(result) or 0) < 2:
        return mean("counted", weights=(2,))
    macs = multiply(elements(result), product_of(filters, 1))
    samples = multiply(product_of(data, 0, 2), product_of(filters, 2), product_of(result, 2))
    if macs is None or samples is None:
        return counted(None, None, weights=(2,))
    return counted(macs, 2 * macs + samples * (8 if raw.given(3) else 7), weights=(2,))


def multiply_matrices(raw: RawOperator) -> Semantics:
    """The inner dimension, from either side; one-dimensional inputs are not transposed."""
    inner: int | None = None
    for at, option, usual in ((0, "transpose_a", -1), (1, "transpose_b", -2)):
        turned = raw.attributes.get(option) is True
        axis = 0 if rank(raw.input(at)) == 1 else (-3 - usual) if turned else usual
        inner = size_of(raw.input(at), axis) if inner is None else inner
    return mean("matrix-multiplication", reduction=inner, weights=(0, 1))


def connect_fully(raw: RawOperator) -> Semantics:
    """FullyConnected: weights [O, I]. GroupedMatMul: [G, M, K] by [G, N, K], or [T, K] by [G, N, K], rows by group."""
    inner = size_of(raw.input(0 if raw.op == "GroupedMatMul" else 1), -1)
    return mean("matrix-multiplication", reduction=inner, weights=(1,))


def attend(raw: RawOperator) -> Semantics:
    """Query […, heads, L, E], key […, heads, S, E], value […, heads, S, V]; a mask changes nothing that is counted."""
    query, key, value = (raw.input(at) for at in range(3))
    if min(len(shape_of(each)) for each in (query, key, value)) < 2:
        return mean("attention")
    return mean(
        "attention",
        batch=product_of(query, 0, -3),
        heads=product_of(query, -3, -2),
        queries=size_of(query, -2),
        keys=size_of(key, -2),
        depth=size_of(query, -1),
        value_depth=size_of(value, -1),
    )


_GATES = {"LSTM": 4, "GRU": 3, "AUGRU": 3, "RNN": 1}


def recur(raw: RawOperator) -> Semantics:
    """A cell or a sequence: X, H, (C), (lengths), W [D, G·H, I], R [D, G·H, H], B; a cell's have no direction D.

    Sequences are counted to their full length, whatever the lengths say.
    """
    family = raw.op.removesuffix("Sequence").removesuffix("Cell")
    sequence = raw.op.endswith("Sequence")
    first = (3 if family == "LSTM" else 2) + sequence
    peepholes = family == "LSTM" and raw.version in (0, 1) and raw.given(first + 3)
    weights = (first, first + 1, first + 2, *([first + 3] if peepholes else []))
    data, recurrent = raw.input(0), raw.input(first + 1)
    if rank(data) != 2 + sequence or rank(recurrent) != 2 + sequence:
        return mean("recurrent", weights=weights)
    gates, text = _GATES[family], raw.attributes.get("activations", "")
    # LSTM: i, o and f by the first, candidate by the second, cell by the third; GRU: z and r by the first.
    usual = [name for name, _ in USUAL_FUNCTIONS[gates]]
    named = [word.strip().lower() for word in str(text).split(",")] if text else usual
    if len(named) < len(usual) or not all(name in ACTIVATIONS for name in named):
        return Semantics(weights=weights, why=f"its activations {', '.join(named)} have no known cost")
    further = other_functions(gates, [ACTIVATIONS[name] for name in named])
    clip = raw.attributes.get("clip", 0)
    further += 2 * gates if isinstance(clip, int | float) and clip > 0 else 0
    # A bias of its own in the candidate's recurrent part; z ← (1 − a)·z.
    further += (raw.attributes.get("linear_before_reset") is True) + (2 if family == "AUGRU" else 0)
    directions = size_of(recurrent, 0) if sequence else 1
    return mean(
        "recurrent",
        gates=gates,
        hidden=size_of(recurrent, -1),
        input=size_of(data, -1),
        steps=size_of(data, 1) if sequence else 1,
        batch=size_of(data, 0) if directions is not None else None,
        directions=directions,
        biases=1 if raw.given(first + 2) else 0,
        peepholes=3 if peepholes else 0,
        further=multiply(directions, further),
        weights=weights,
    )


def sum_products(raw: RawOperator) -> Semantics:
    """Einsum of one or two inputs; with more the order of contraction decides the cost."""
    found = read_einsum(raw, most=2)
    return found if len(raw.inputs) > 1 else replace(found, weights=())
