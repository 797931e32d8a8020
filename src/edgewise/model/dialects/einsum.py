"""Einstein sums: indices, their sizes, and which of them are summed over."""

from __future__ import annotations

from edgewise.model.dialects.base import (
    RawOperator,
    Semantics,
    Unclear,
    counted,
    mean,
    moving,
    multiply,
    per_element,
    reducing,
)
from edgewise.model.graph import Tensor

_LONGEST = 4096
_ELLIPSIS = "..."

Sizes = dict[str, int | None]


def read_einsum(raw: RawOperator) -> Semantics:
    """Two operands: one MAC per value of all indices where one is summed over, else products element by element.

    The cost of more than two is unknown, as the format leaves the order of their contraction to the engine.
    """
    terms, result = _split(raw.text("equation", ""), len(raw.inputs))
    operands, weights = len(terms), raw.positions
    if operands > 2:
        raise Unclear("the order in which more than two inputs are contracted decides its cost")
    found: Sizes = {}
    for term, tensor in zip(terms, raw.inputs, strict=True):
        _gather(term, tensor, found)
    if absent := [index for index in result if index not in found and index != _ELLIPSIS]:
        raise Unclear(f"its result has an index {absent[0]!r} that no operand has")
    shared = {index for index in found if index not in result and (index.isalpha() or _ELLIPSIS not in result)}
    if not shared:
        return per_element(operands - 1, weights=weights) if operands > 1 else moving(*weights)
    if operands == 1:
        repeats = len(terms[0]) > len(set(terms[0]))
        return counted(0, multiply(*found.values()), weights=weights) if repeats else reducing(weights=weights)
    return mean("matrix-multiplication", reduction=multiply(*map(found.get, shared)), weights=weights)


def _split(equation: str, operands: int) -> tuple[list[list[str]], list[str]]:
    """Return the indices of each operand and of the result."""
    if not equation:
        raise Unclear("it has no equation")
    if len(equation) > _LONGEST:
        raise Unclear(f"its equation has {len(equation)} characters")
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_indices(term) for term in left.split(",")]
    if len(terms) != operands:
        raise Unclear(f"its equation has {len(terms)} operands, but the operator has {operands}")
    if arrow:
        return terms, _indices(right)
    flat = [index for term in terms for index in term]
    # Without a result, it has the indices that come once, in order, after the dimensions of ellipses.
    once = sorted(index for index in set(flat) if index != _ELLIPSIS and flat.count(index) == 1)
    return terms, [_ELLIPSIS, *once] if _ELLIPSIS in flat else once


def _indices(term: str) -> list[str]:
    before, ellipsis, after = term.partition(_ELLIPSIS)
    if not (before + after).isalpha() and before + after:
        raise Unclear("its equation has indices that are not letters")
    return [*before, *([_ELLIPSIS] if ellipsis else []), *after]


def _gather(term: list[str], tensor: Tensor | None, found: Sizes) -> None:
    """Add the sizes of one operand's indices; the dimensions of an ellipsis are numbered from the last."""
    if tensor is None or tensor.shape is None:
        for index in term:
            found.setdefault(index, None)
        return
    hidden = len(tensor.shape) - (len(term) - (_ELLIPSIS in term))
    if hidden < 0 or (hidden and _ELLIPSIS not in term):
        raise Unclear(f"{tensor.name!r} has {len(tensor.shape)} dimensions, which contradicts the equation")
    numbered = [str(place) for place in range(hidden, 0, -1)]
    names = [name for index in term for name in (numbered if index == _ELLIPSIS else [index])]
    for name, dimension in zip(names, tensor.shape, strict=True):
        _note(name, dimension if isinstance(dimension, int) else None, found)


def _note(name: str, known: int | None, found: Sizes) -> None:
    """Keep the size of an index; a dimension of 1 is repeated, so another operand's size replaces it."""
    if name not in found or found[name] == 1:
        found[name] = known
    elif known not in (None, 1):
        if found[name] not in (None, known):
            raise Unclear(f"its index {name!r} is both {found[name]} and {known} long")
        found[name] = known
