"""OpenVINO operators of networks: convolutions, products, attention, recurrent layers, pooling, resizing, transforms.

Layouts of filters and inputs are those of the operation specifications,
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs.html.
An interpolation of t samples costs 2·t − 1 operations, as `edgewise.model.cost` counts it: 7 for bilinear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    USUAL_FUNCTIONS,
    RawOperator,
    Semantics,
    attention,
    elements,
    mean,
    multiply,
    other_functions,
    per_element,
    pool_areas,
    product_of,
    rank,
    rare,
    shape_of,
    size_of,
    unknown,
)
from edgewise.model.dialects.einsum import read_einsum
from edgewise.model.graph import Tensor
from edgewise.model.signature import Dimension


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
    """Data, offsets, filters [O, I/G, k…]; the interpolation of the samples is not counted."""
    filters = raw.input(2)
    products = product_of(filters, 1) if (rank(filters) or 0) > 2 else None
    return rare(2, macs=multiply(elements(raw.output()), products))


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
    query = raw.input(0)
    return attention(raw, batch=product_of(query, 0, -3), heads=product_of(query, -3, -2))


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
    found = read_einsum(raw)
    return found if len(raw.inputs) > 1 else replace(found, weights=())


_BILINEAR = 7


def numbers(value: Any) -> tuple[int, ...] | None:
    """An option that is a list of whole numbers; one number is a list of one."""
    words = value if isinstance(value, tuple) else (value,)
    return tuple(words) if all(type(word) is int for word in words) else None


def pool(raw: RawOperator) -> Semantics:
    """``kernel`` elements, whatever their dilation."""
    window = numbers(raw.attributes.get("kernel"))
    return mean("pooling", window=multiply(*window) if window is not None else None, average=raw.op == "AvgPool")


def pool_adaptively(raw: RawOperator) -> Semantics:
    """Windows from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉."""
    return pool_areas(_sizes(raw.input(0)), _sizes(raw.output()), average=raw.op == "AdaptiveAvgPool")


def _sizes(tensor: Tensor | None) -> tuple[Dimension, ...] | None:
    return tensor.shape if tensor is not None else None


def interpolate(raw: RawOperator) -> Semantics:
    """Modes of Interpolate 1, 4 and 11; only the dimensions that change cost anything."""
    mode = str(raw.attributes.get("mode", ""))
    before, after = _sizes(raw.input(0)), _sizes(raw.output())
    if mode == "nearest":
        return per_element(0, kind="resize")
    if before is None or after is None or len(before) != len(after):
        return mean("resize")
    changed = _changed(raw, before, after)
    if changed is None:
        return mean("resize")
    if mode == "area":
        return pool_areas(before, after, average=True)
    shrinks = any(after[at] < before[at] for at in changed)  # type: ignore[operator]
    if shrinks and (mode.endswith("_pillow") or raw.attributes.get("antialias") is True):
        return unknown("when it shrinks, the number of samples depends on the scale and the engine")
    taps = {"linear": 2, "linear_onnx": 2, "bilinear_pillow": 2, "cubic": 4, "bicubic_pillow": 4}.get(mode)
    if taps is None:
        return unknown(f"the mode {mode[:40]!r} has no known cost")
    return per_element(2 * taps ** len(changed) - 1 if changed else 0, kind="resize")


def _changed(raw: RawOperator, before: Sequence[Dimension], after: Sequence[Dimension]) -> list[int] | None:
    """Dimensions that get another size; None where that can't be known."""
    named = numbers(raw.attributes.get("axes", ()))
    if not named:
        at = 2 if raw.version >= 11 else 3
        found = raw.values(at)
        named = tuple(int(axis) for axis in found) if found is not None else tuple(range(len(before)))
    axes = {axis + len(before) if axis < 0 else axis for axis in named}
    if not all(0 <= axis < len(before) for axis in axes):
        return None
    open_sizes = [at for at in axes if not isinstance(before[at], int) or not isinstance(after[at], int)]
    if open_sizes:
        return None
    return sorted(at for at in axes if before[at] != after[at])


def sample_grid(raw: RawOperator) -> Semantics:
    """Nearest 0, bilinear 7, bicubic 31 operations per output."""
    operations = {"nearest": 0, "bilinear": _BILINEAR, "bicubic": 31}
    return per_element(operations.get(str(raw.attributes.get("mode", "bilinear"))), kind="resize")
