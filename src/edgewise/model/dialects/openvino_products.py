"""OpenVINO operators that accumulate products: convolutions, matrix products, attention, recurrent layers.

Layouts of filters and inputs are those of the operation specifications,
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs.html.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.graph import Tensor
from edgewise.model.signature import Dimension


def tensor_at(raw: RawOperator, at: int) -> Tensor | None:
    """The input at `at`; None where it is left out."""
    return raw.inputs[at] if 0 <= at < len(raw.inputs) else None


def sizes_at(raw: RawOperator, at: int) -> tuple[Dimension, ...] | None:
    """The shape of the input at `at`."""
    tensor = tensor_at(raw, at)
    return tensor.shape if tensor is not None else None


def output_sizes(raw: RawOperator) -> tuple[Dimension, ...] | None:
    """The shape of the first output."""
    tensor = raw.outputs[0] if raw.outputs else None
    return tensor.shape if tensor is not None else None


def multiply(sizes: Sequence[Dimension] | None) -> int | None:
    """The product; None where a size is open."""
    known = [size for size in sizes or () if isinstance(size, int)]
    return None if sizes is None or len(known) != len(sizes) else math.prod(known)


def known(**numbers: Any) -> dict[str, Any]:
    """Geometry without the numbers that are not known."""
    return {name: number for name, number in numbers.items() if number is not None}


def count_all(macs: int | None, ops: int | None, *, weights: tuple[int, ...] = ()) -> Semantics:
    """An operator whose operations are counted here."""
    return Semantics(kind="counted", geometry=known(macs=macs, ops=ops), weights=weights)


def convolve(raw: RawOperator) -> Semantics:
    """Filters [O, I, k…], or [G, O/G, I/G, k…] in groups."""
    filters = sizes_at(raw, 1)
    grouped = raw.op == "GroupConvolution"
    own = 2 if grouped else 1
    if filters is None or len(filters) < own + 1:
        return Semantics(kind="convolution", weights=(1,))
    depthwise = grouped and filters[2] == 1 and isinstance(filters[0], int) and filters[0] > 1
    geometry = known(reduction=multiply(filters[own:]), depthwise=depthwise)
    return Semantics(kind="convolution", geometry=geometry, weights=(1,))


def convolve_transposed(raw: RawOperator) -> Semantics:
    """Filters [I, O, k…], or [G, I/G, O/G, k…] in groups."""
    filters = sizes_at(raw, 1)
    own = 2 if raw.op == "GroupConvolutionBackpropData" else 1
    if filters is None or len(filters) < own + 1:
        return Semantics(kind="transposed-convolution", weights=(1,))
    return Semantics(
        kind="transposed-convolution", geometry=known(reduction=multiply(filters[own:]), data=0), weights=(1,)
    )


def convolve_deformed(raw: RawOperator) -> Semantics:
    """Data, offsets, filters [O, I/G, k…] and perhaps a mask: each sample is interpolated (7 ops) and masked (1)."""
    data, filters, result = sizes_at(raw, 0), sizes_at(raw, 2), output_sizes(raw)
    if data is None or filters is None or result is None or len(data) < 2 or len(filters) < 3 or len(result) < 2:
        return Semantics(kind="counted", weights=(2,))
    outputs, reduction = multiply(result), multiply(filters[1:])
    samples = multiply((*data[:2], *filters[2:], *result[2:]))
    if outputs is None or reduction is None or samples is None:
        return Semantics(kind="counted", weights=(2,))
    each = 8 if tensor_at(raw, 3) is not None else 7
    return count_all(outputs * reduction, 2 * outputs * reduction + samples * each, weights=(2,))


def multiply_matrices(raw: RawOperator) -> Semantics:
    """The inner dimension, from either side; one-dimensional inputs are not transposed."""
    inner: Dimension = None
    for at, option, usual in ((0, "transpose_a", -1), (1, "transpose_b", -2)):
        sizes = sizes_at(raw, at)
        if not sizes or isinstance(inner, int):
            continue
        turned = raw.attributes.get(option) is True
        inner = sizes[0] if len(sizes) == 1 else sizes[(-3 - usual) if turned else usual]
    return Semantics(
        kind="matrix-multiplication",
        geometry=known(reduction=inner if isinstance(inner, int) else None),
        weights=(0, 1),
    )


def connect_fully(raw: RawOperator) -> Semantics:
    """Weights [O, I]."""
    sizes = sizes_at(raw, 1)
    inner = sizes[-1] if sizes else None
    reduction = inner if isinstance(inner, int) else None
    return Semantics(kind="matrix-multiplication", geometry=known(reduction=reduction), weights=(1,))


def multiply_groups(raw: RawOperator) -> Semantics:
    """[G, M, K] by [G, N, K], or [T, K] by [G, N, K] with the rows of each group apart."""
    sizes = sizes_at(raw, 0)
    inner = sizes[-1] if sizes else None
    reduction = inner if isinstance(inner, int) else None
    return Semantics(kind="matrix-multiplication", geometry=known(reduction=reduction), weights=(1,))


def attend(raw: RawOperator) -> Semantics:
    """Query […, heads, L, E], key […, heads, S, E], value […, heads, S, V]; a mask changes nothing that is counted."""
    query, key, value = (sizes_at(raw, at) for at in range(3))
    if not query or not key or not value or min(len(query), len(key), len(value)) < 2:
        return Semantics(kind="attention")
    geometry = known(
        batch=multiply(query[:-3]),
        heads=multiply(query[-3:-2]),
        queries=multiply(query[-2:-1]),
        keys=multiply(key[-2:-1]),
        depth=multiply(query[-1:]),
        value_depth=multiply(value[-1:]),
    )
    return Semantics(kind="attention", geometry=geometry)


_GATES = {"LSTM": 4, "GRU": 3, "AUGRU": 3, "RNN": 1}
_FUNCTIONS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


def recur(raw: RawOperator) -> Semantics:
    """A cell or a sequence: X, H, (C), (lengths), W [D, G·H, I], R [D, G·H, H], B; a cell's have no direction D.

    Sequences are counted to their full length, whatever the lengths say. Options that the formula of recurrent layers
    does not know (other functions, a clip, a bias inside the reset gate, attention) are counted here.
    """
    family = raw.op.removesuffix("Sequence").removesuffix("Cell")
    sequence = raw.op.endswith("Sequence")
    first = (3 if family == "LSTM" else 2) + sequence
    weights: tuple[int, ...] = (first, first + 1, first + 2)
    data, recurrent = sizes_at(raw, 0), sizes_at(raw, first + 1)
    if data is None or recurrent is None or len(data) != 2 + sequence or len(recurrent) != 2 + sequence:
        return Semantics(kind="recurrent", weights=weights)
    numbers = {
        "gates": _GATES[family],
        "hidden": recurrent[-1],
        "input": data[-1],
        "steps": data[1] if sequence else 1,
        "batch": data[0],
        "directions": recurrent[0] if sequence else 1,
        "biases": 1 if tensor_at(raw, first + 2) is not None else 0,
    }
    peepholes = first + 3
    if family == "LSTM" and raw.version in (0, 1) and tensor_at(raw, peepholes) is not None:
        numbers["peepholes"] = 3
        weights = (*weights, peepholes)
    geometry = {name: number for name, number in numbers.items() if isinstance(number, int)}
    extra, why = _count_extra(raw, family)
    if why:
        return Semantics(weights=weights, why=why)
    if not extra:
        return Semantics(kind="recurrent", geometry=geometry, weights=weights)
    if len(geometry) != len(numbers):
        return Semantics(kind="counted", weights=weights)
    cells = geometry["steps"] * geometry["batch"] * geometry["directions"]
    macs = cells * geometry["gates"] * geometry["hidden"] * (geometry["input"] + geometry["hidden"])
    per_unit = geometry["gates"] * geometry["biases"] + 2 * geometry.get("peepholes", 0) + _POINTWISE[family] + extra
    return count_all(macs, 2 * macs + cells * geometry["hidden"] * per_unit, weights=weights)


_POINTWISE = {"RNN": 6, "GRU": 21, "AUGRU": 21, "LSTM": 30}
"""Of `edgewise.model.cost`'s formula, per hidden unit and step: RNN, GRU and LSTM with their usual functions."""


def _count_extra(raw: RawOperator, family: str) -> tuple[int, str]:
    """Operations per hidden unit and step beyond the usual ones, and why they can't be known where they can't."""
    usual = _FUNCTIONS[family.removeprefix("AU")]
    text = raw.attributes.get("activations", "")
    named = tuple(word.strip().lower() for word in str(text).split(",")) if text else usual
    unknown = [name for name in named if name not in ACTIVATIONS]
    if unknown or len(named) < len(usual):
        return 0, f"its activations {', '.join(named)} have no known cost"
    # LSTM: i, o and f by the first, candidate by the second, cell by the third; GRU: z and r by the first.
    times = {"LSTM": (3, 1, 1), "GRU": (2, 1), "RNN": (1,)}[family.removeprefix("AU")]
    extra = sum(
        count * (ACTIVATIONS[name] - ACTIVATIONS[default])
        for count, name, default in zip(times, named, usual, strict=False)
    )
    clip = raw.attributes.get("clip", 0)
    if isinstance(clip, int | float) and clip > 0:
        extra += 2 * _GATES[family]
    if raw.attributes.get("linear_before_reset") is True:
        extra += 1  # the candidate's recurrent part has a bias of its own
    if family == "AUGRU":
        extra += 2  # z ← (1 − a)·z
    return extra, ""


def sum_products(raw: RawOperator) -> Semantics:
    """Einsum of one or two inputs; with more the order of contraction decides the cost."""
    left, arrow, right = str(raw.attributes.get("equation", "")).replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) > 2:
        return Semantics(why="the order in which more than two inputs are contracted decides its cost")
    labels: dict[str, Dimension] = {}
    for at, term in enumerate(terms):
        sizes = sizes_at(raw, at)
        words = _spread(term, len(sizes)) if sizes is not None else None
        if sizes is None or words is None:
            return Semantics(why="its equation does not fit the shapes of its inputs" if sizes is not None else "")
        for label, size in zip(words, sizes, strict=True):
            labels[label] = size if labels.get(label) in (None, 1) else labels[label]
    if not arrow:
        right = "".join(sorted(label for label in set(left) if left.count(label) == 1 and label.isalpha()))
    kept = set(right.replace("...", ""))
    summed = [size for label, size in labels.items() if label not in kept and not label.startswith("...")]
    if len(terms) == 1:
        return Semantics(kind="reduction") if summed else Semantics(kind="movement")
    if not summed:
        return Semantics(kind="elementwise", geometry={"per_element": 1}, weights=(0, 1))
    return Semantics(kind="matrix-multiplication", geometry=known(reduction=multiply(summed)), weights=(0, 1))


def _spread(term: str, rank: int) -> list[str] | None:
    """The labels of a term, with one for every dimension of its ellipsis; None where they do not fit the rank."""
    before, dots, after = term.partition("...")
    free = rank - len(before) - len(after)
    if free < 0 or (free and not dots):
        return None
    return [*before, *(f"...{free - at}" for at in range(free)), *after]
