"""Small numbers that an OpenVINO network computes from shapes: the chains that end in the target of a Reshape.

Only what is exact is followed: whole numbers within their type, and floats rounded to theirs as IEEE 754 has it.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence

from edgewise.model.graph import BITS
from edgewise.model.readers.openvino_shapes_slices import clip, read_cuts, read_slices
from edgewise.model.readers.openvino_shapes_steps import Elements, Number, Shape, Step, multiply

MAX_ELEMENTS = 128
"""Of a tensor whose values are followed: as many 64-bit integers as a constant that is read has."""

_FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}


def follow(step: Step, *, outputs: Sequence[Shape | None], dtype: str) -> list[Elements | None]:
    """Elements of the outputs, with None in place of one that is not known; None for what is no small computation.

    Args:
        outputs: their shapes, as far as they are known.
        dtype: of the first output.
    """
    if step.op in ("split", "variadicsplit"):
        return _divide(step, outputs)
    nothing: list[Elements | None] = [None] * len(outputs)
    size = multiply(outputs[0]) if outputs and outputs[0] is not None else None
    compute = _COMPUTED.get(step.op)
    if compute is None or len(outputs) != 1 or size is None or size > MAX_ELEMENTS:
        return nothing
    found = compute(step, size)
    if found is None or len(found) != size:
        return nothing
    return [tuple(_round(each, dtype) for each in found)]


def _round(number: Number | None, dtype: str) -> Number | None:
    """The number as `dtype` holds it; None where it can't."""
    if number is None or (isinstance(number, float) and not math.isfinite(number)):
        return None
    if dtype in _FLOATS:
        try:
            return float(struct.unpack(_FLOATS[dtype], struct.pack(_FLOATS[dtype], number))[0])
        except OverflowError:
            return None
    if dtype == "bool":
        return int(number != 0)
    bits, signed = BITS.get(dtype, 0), dtype.startswith("int")
    if not bits or not (signed or dtype.startswith("uint")):
        return None
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    whole = math.trunc(number)
    return whole if low <= whole <= high else None


def _say_shape(step: Step, size: int) -> Elements | None:
    del size
    data = step.shape(0)
    return None if data is None else tuple(each if isinstance(each, int) else None for each in data)


def _pass_on(step: Step, size: int) -> Elements | None:
    del size
    return step.elements(0)


def _is_list(step: Step, at: int) -> bool:
    shape = step.shape(at)
    return shape is not None and len(shape) == 1


def _gather(step: Step, size: int) -> Elements | None:
    del size
    data, indices = step.elements(0), step.elements(1)
    if data is None or indices is None or not _is_list(step, 0) or step.one(2) not in (0, -1):
        return None
    return tuple(
        data[index] if isinstance(index, int) and -len(data) <= index < len(data) else None for index in indices
    )


def _concat(step: Step, size: int) -> Elements | None:
    answer: list[Number | None] = []
    for at, shape in enumerate(step.shapes):
        if not _is_list(step, at) or shape is None or not isinstance(shape[0], int) or shape[0] > size:
            return None
        answer += step.elements(at) or (None,) * shape[0]
    return tuple(answer)


def _take(data: Elements, bounds: slice) -> Elements | None:
    places = clip(len(data), bounds)
    return None if places is None else tuple(data[at] for at in places)


def _slice(step: Step, size: int) -> Elements | None:
    del size
    data, slices = step.elements(0), read_slices(step)
    if data is None or not slices or not _is_list(step, 0) or slices[0] is None:
        return None
    return _take(data, slices[0])


def _slice_strided(step: Step, size: int) -> Elements | None:
    del size
    data, cuts = step.elements(0), read_cuts(step)
    if data is None or cuts is None or not _is_list(step, 0):
        return None
    for cut in cuts:
        if cut.kind in ("cut", "drop") and cut.bounds is None:
            return None
        if cut.kind == "cut" and cut.bounds is not None:
            return _take(data, cut.bounds)
        if cut.kind == "drop" and cut.bounds is not None:
            index = cut.bounds.start
            return (data[index],) if -len(data) <= index < len(data) else None
    return data


def _divide(step: Step, outputs: Sequence[Shape | None]) -> list[Elements | None]:
    data, begin = step.elements(0), 0
    answer: list[Elements | None] = []
    for shape in outputs:
        size = shape[0] if shape is not None and len(shape) == 1 else None
        if data is None or not _is_list(step, 0) or not isinstance(size, int):
            return [None] * len(outputs)
        answer.append(data[begin : begin + size])
        begin += size
    return answer


def _spread(elements: Elements | None, size: int) -> Elements | None:
    """One element for all; longer ones as they are. Shapes of more dimensions than one are left alone."""
    if elements is None or len(elements) == size:
        return elements
    return elements * size if len(elements) == 1 else None


def _stretch(step: Step, size: int) -> Elements | None:
    return _spread(step.elements(0), size) if len(step.elements(0) or ()) == 1 or _is_list(step, 0) else None


def _each(compute: Callable[[Number, Number], Number | None]) -> Callable[[Step, int], Elements | None]:
    def apply(step: Step, size: int) -> Elements | None:
        if any(shape is None or (len(shape) > 1 and multiply(shape) != 1) for shape in step.shapes):
            return None
        one, other = (_spread(step.elements(at), size) for at in (0, 1))
        if one is None or other is None:
            return None
        return tuple(None if a is None or b is None else compute(a, b) for a, b in zip(one, other, strict=True))

    return apply


def _quotient(one: Number, other: Number) -> Number | None:
    if other == 0:
        return None
    return one // other if isinstance(one, int) and isinstance(other, int) else one / other


def _divide_each(step: Step, size: int) -> Elements | None:
    # Whole numbers are rounded down unless the operation asks for C's rule.
    if not step.flag("m_pythondiv", usual=True):
        return None
    return _each(_quotient)(step, size)


def _remainder(one: Number, other: Number) -> Number | None:
    return one % other if isinstance(one, int) and isinstance(other, int) and other else None


def _select(step: Step, size: int) -> Elements | None:
    if any(shape is None or (len(shape) > 1 and multiply(shape) != 1) for shape in step.shapes):
        return None
    condition, one, other = (_spread(step.elements(at), size) for at in range(3))
    if condition is None or one is None or other is None:
        return None
    return tuple(None if c is None else a if c else b for c, a, b in zip(condition, one, other, strict=True))


def _reduce(compute: Callable[[Sequence[Number]], Number]) -> Callable[[Step, int], Elements | None]:
    def apply(step: Step, size: int) -> Elements | None:
        data = step.elements(0)
        if data is None or size != 1 or not _is_list(step, 0) or not step.whole(1):
            return None
        known = [each for each in data if isinstance(each, int)]
        return (compute(known),) if known and len(known) == len(data) else None

    return apply


def _compare(compute: Callable[[Number, Number], bool]) -> Callable[[Step, int], Elements | None]:
    return _each(lambda one, other: int(compute(one, other)))


def _round_each(compute: Callable[[float], int]) -> Callable[[Step, int], Elements | None]:
    def apply(step: Step, size: int) -> Elements | None:
        del size
        data = step.elements(0)
        if data is None:
            return None
        return tuple(None if each is None or not math.isfinite(each) else compute(each) for each in data)

    return apply


_COMPUTED: dict[str, Callable[[Step, int], Elements | None]] = {
    "shapeof": _say_shape,
    **dict.fromkeys(("reshape", "squeeze", "unsqueeze", "convert", "identity"), _pass_on),
    "gather": _gather,
    "concat": _concat,
    "slice": _slice,
    "stridedslice": _slice_strided,
    "broadcast": _stretch,
    "add": _each(operator.add),
    "subtract": _each(operator.sub),
    "multiply": _each(operator.mul),
    "divide": _divide_each,
    "floormod": _each(_remainder),
    "minimum": _each(min),
    "maximum": _each(max),
    "equal": _compare(operator.eq),
    "notequal": _compare(operator.ne),
    "less": _compare(operator.lt),
    "lessequal": _compare(operator.le),
    "greater": _compare(operator.gt),
    "greaterequal": _compare(operator.ge),
    "select": _select,
    "reduceprod": _reduce(math.prod),
    "reducesum": _reduce(sum),
    "reducemin": _reduce(min),
    "reducemax": _reduce(max),
    "floor": _round_each(math.floor),
    "ceiling": _round_each(math.ceil),
}
"""Operation → its elements, given how many there are."""
