"""Small integers that operators of a TFLite file compute from shapes: the way to the arguments of a later reshape.

A converter that does not know the batch writes SHAPE, STRIDED_SLICE, PACK and the like in front of a RESHAPE. Where the
shape at their head is known, so is what they give.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from edgewise.model.dialects.base import Question
from edgewise.model.signature import Dimension

MAX_VALUES = 64
_LIMIT = 2**63

Values = tuple[int, ...]


def compute_values(question: Question) -> Values | None:
    """Elements of an operator's first output, flattened; None where they can't be known or are no small integers."""
    output = question.outputs[0] if question.outputs else None
    compute = _RULES.get(question.op)
    if compute is None or output is None or output.dtype not in {"int32", "int64"} or question.domain:
        return None
    if output.elements is None or output.elements > MAX_VALUES:
        return None
    found = compute(question)
    if found is None or len(found) != output.elements or any(abs(value) >= _LIMIT for value in found):
        return None
    return found


def integers(question: Question, at: int) -> Values | None:
    """Elements of an input, where they are known and few."""
    found = question.values(at)
    if found is None or len(found) > MAX_VALUES:
        return None
    return tuple(int(value) for value in found) if all(isinstance(value, int) for value in found) else None


def slices_of(question: Question, shape: tuple[Dimension, ...]) -> list[tuple[range | None, bool]] | None:
    """STRIDED_SLICE: per dimension the positions it takes (None where its size is open) and whether it then goes.

    Ellipses and new axes are not followed.
    """
    options = question.attributes
    begin, end, strides = (integers(question, at) for at in (1, 2, 3))
    if begin is None or end is None or strides is None or options.get("ellipsis_mask") or options.get("new_axis_mask"):
        return None
    if not len(begin) == len(end) == len(strides) <= len(shape) or 0 in strides or options.get("offset"):
        return None
    found: list[tuple[range | None, bool]] = []
    for axis, size in enumerate(shape):
        if axis >= len(begin):
            found.append((range(size) if isinstance(size, int) else None, False))
            continue
        gone = _masked(options.get("shrink_axis_mask"), axis)
        low = None if _masked(options.get("begin_mask"), axis) else begin[axis]
        high = None if _masked(options.get("end_mask"), axis) else end[axis]
        if gone:
            low, high = begin[axis], begin[axis] + 1 or None
        where = range(*slice(low, high, 1 if gone else strides[axis]).indices(size)) if isinstance(size, int) else None
        found.append((where, gone))
    return found


def _masked(mask: object, axis: int) -> bool:
    return isinstance(mask, int) and bool(mask >> axis & 1)


def _shape(question: Question) -> Values | None:
    tensor = question.inputs[0] if question.inputs else None
    if tensor is None or tensor.shape is None:
        return None
    sizes = tuple(size for size in tensor.shape if isinstance(size, int))
    return sizes if len(sizes) == len(tensor.shape) else None


def _same(question: Question) -> Values | None:
    return integers(question, 0)


def _line(question: Question) -> tuple[Values, int] | None:
    """An input of one dimension and its length."""
    values = integers(question, 0)
    tensor = question.inputs[0] if question.inputs else None
    if values is None or tensor is None or len(tensor.shape or ()) != 1:
        return None
    return values, len(values)


def _cut(question: Question) -> Values | None:
    line = _line(question)
    slices = slices_of(question, (line[1],)) if line else None
    if line is None or slices is None or slices[0][0] is None:
        return None
    return tuple(line[0][at] for at in slices[0][0])


def _slice(question: Question) -> Values | None:
    line, begin, size = _line(question), integers(question, 1), integers(question, 2)
    if line is None or begin is None or size is None or len(begin) != 1 or len(size) != 1 or begin[0] < 0:
        return None
    return line[0][begin[0] :] if size[0] < 0 else line[0][begin[0] : begin[0] + size[0]]


def _gather(question: Question) -> Values | None:
    line, places = _line(question), integers(question, 1)
    if line is None or places is None or not all(0 <= at < line[1] for at in places):
        return None
    return tuple(line[0][at] for at in places)


def _pack(question: Question) -> Values | None:
    """Scalars side by side, or lines one after the other, which is the same."""
    parts = [integers(question, at) for at in range(len(question.inputs))]
    lines = [tensor is not None and len(tensor.shape or ()) <= 1 for tensor in question.inputs]
    whole = [value for part in parts if part is not None for value in part]
    if None in parts or not all(lines) or question.attributes.get("axis", 0) != 0:
        return None
    return tuple(whole)


def _product(question: Question) -> Values | None:
    values, output = integers(question, 0), question.outputs[0]
    # Of a line to one number; more dimensions never stand in the way of a shape.
    if values is None or output is None or output.elements != 1 or len(values) > MAX_VALUES:
        return None
    return (prod(values),)


def _pairwise(compute: Callable[[int, int], int | None]) -> Callable[[Question], Values | None]:
    def run(question: Question) -> Values | None:
        left, right = integers(question, 0), integers(question, 1)
        if left is None or right is None or (len(left) != len(right) and 1 not in {len(left), len(right)}):
            return None
        length = max(len(left), len(right))
        pairs = zip(left * (length // len(left)), right * (length // len(right)), strict=True) if left and right else ()
        found = [compute(one, other) for one, other in pairs]
        known = [value for value in found if value is not None]
        return tuple(known) if len(known) == len(found) else None

    return run


_RULES: dict[str, Callable[[Question], Values | None]] = {
    "SHAPE": _shape,
    "CAST": _same,
    "RESHAPE": _same,
    "SQUEEZE": _same,
    "EXPAND_DIMS": _same,
    "STRIDED_SLICE": _cut,
    "SLICE": _slice,
    "GATHER": _gather,
    "PACK": _pack,
    "CONCATENATION": _pack,
    "REDUCE_PROD": _product,
    "ADD": _pairwise(lambda one, other: one + other),
    "SUB": _pairwise(lambda one, other: one - other),
    "MUL": _pairwise(lambda one, other: one * other),
    "MAXIMUM": _pairwise(max),
    "MINIMUM": _pairwise(min),
    "FLOOR_DIV": _pairwise(lambda one, other: one // other if other else None),
}
