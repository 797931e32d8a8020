"""Shapes behind OpenVINO's operations that lay a tensor out anew: reshape, squeeze, transpose, join, split, stretch."""

from __future__ import annotations

from edgewise.model.readers.base import MAX_RANK
from edgewise.model.readers.openvino_shapes_steps import (
    Elements,
    Shape,
    ShapeConflict,
    Step,
    broadcast,
    check_size,
    merge,
    merge_shapes,
    multiply,
    place,
    show,
)
from edgewise.model.signature import Dimension


def read_target(step: Step, at: int) -> Elements | None:
    """The shape that the input at `at` holds; None in places that are not known."""
    found, sizes = step.elements(at), step.shape(at)
    if found is not None:
        return found
    if sizes is not None and len(sizes) == 1 and isinstance(sizes[0], int) and sizes[0] <= MAX_RANK:
        return (None,) * sizes[0]
    return None


def reshape(step: Step) -> Shape | None:
    """0 keeps a dimension where ``special_zero`` says so, −1 takes what is left.

    What is not known of the target follows from the number of elements where it is the only such dimension.
    """
    data, target = step.shape(0), read_target(step, 1)
    if target is None:
        return None
    keeps = step.flag("special_zero", usual=False)
    answer: list[Dimension] = []
    kept, free = set(), []
    for at, size in enumerate(target):
        if not isinstance(size, int) or size == -1:
            free.append(at)
            answer.append(None)
        elif size == 0 and keeps:
            if data is not None and at >= len(data):
                raise ShapeConflict(f"{show(data)} to {_write(target)}")
            kept.add(at)
            answer.append(data[at] if data is not None else None)
        else:
            answer.append(check_size(size))
    if sum(size == -1 for size in target) > 1:
        raise ShapeConflict(f"more than one −1 in {_write(target)}")
    if data is not None:
        _fill(answer, data, free=free, kept=kept)
    return tuple(answer)


def _write(target: Elements) -> str:
    return show(tuple(size if isinstance(size, int) else None for size in target))


def _fill(answer: list[Dimension], data: Shape, *, free: list[int], kept: set[int]) -> None:
    """What is left for the one free dimension; dimensions that are kept are on both sides and need not be known."""
    before = multiply([size for at, size in enumerate(data) if at not in kept])
    after = multiply([size for at, size in enumerate(answer) if at not in kept and at not in free])
    if before is None or after is None:
        return
    if not free:
        if before != after and multiply([data[at] for at in kept]) != 0:
            raise ShapeConflict(f"{show(data)} to {show(tuple(answer))}")
    elif len(free) == 1 and after:
        if before % after:
            raise ShapeConflict(f"{show(data)} to {show(tuple(answer))}")
        answer[free[0]] = check_size(before // after)


def squeeze(step: Step) -> Shape | None:
    """Takes dimensions of 1 away: the named ones, or all where none are named. Others stay, as OpenVINO has it."""
    data = step.shape(0)
    if data is None:
        return None
    axes = step.whole(1) if step.has(1) else ()
    if axes is None:
        return None
    gone = {place(axis, len(data)) for axis in axes} or set(range(len(data)))
    if any(data[at] is None for at in gone):
        return None
    return tuple(size for at, size in enumerate(data) if at not in gone or size != 1)


def unsqueeze(step: Step) -> Shape | None:
    """Axes are those of the output."""
    data, axes = step.shape(0), step.whole(1)
    if data is None or axes is None:
        return None
    rank = len(data) + len(axes)
    if rank > MAX_RANK:
        raise ShapeConflict(f"{rank} dimensions")
    new = {place(axis, rank) for axis in axes}
    if len(new) != len(axes):
        return None  # engines disagree on doubled axes
    rest = iter(data)
    return tuple(1 if at in new else next(rest) for at in range(rank))


def transpose(step: Step) -> Shape | None:
    """An empty order turns all dimensions around."""
    data, order = step.shape(0), step.whole(1)
    if data is None:
        return None
    if order is None:
        return (None,) * len(data)
    if not order:
        return data[::-1]
    if sorted(order) != list(range(len(data))):
        raise ShapeConflict(f"{show(data)} in the order {show(order)}")
    return tuple(data[at] for at in order)


def concat(step: Step) -> Shape | None:
    """Sizes along the axis add up; the others are alike."""
    axis = step.number("axis")
    known = [shape for shape in step.shapes if shape is not None]
    if axis is None or not known:
        return None
    rank = len(known[0])
    at = place(axis, rank)
    whole: Shape | None = None
    for shape in known:
        if len(shape) != rank:
            raise ShapeConflict(f"{show(known[0])} beside {show(shape)}")
        whole = merge_shapes(whole, (*shape[:at], None, *shape[at + 1 :]))
    parts = [shape[at] for shape in known]
    sizes = [size for size in parts if isinstance(size, int)]
    total = check_size(sum(sizes)) if len(sizes) == len(step.shapes) else None
    return (*whole[:at], total, *whole[at + 1 :]) if whole is not None else None


def split(step: Step) -> list[Shape | None] | None:
    """Parts of equal size."""
    data, axis, count = step.shape(0), step.one(1), step.number("num_splits", step.outputs)
    if data is None or axis is None or count is None or count != step.outputs or count < 1:
        return None
    at = place(axis, len(data))
    size = data[at]
    if isinstance(size, int) and size % count:
        raise ShapeConflict(f"a dimension of size {size} in {count} equal parts")
    part = size // count if isinstance(size, int) else None
    return [(*data[:at], part, *data[at + 1 :])] * count


def split_variably(step: Step) -> list[Shape | None] | None:
    """Parts of the sizes that are said; −1 takes what is left."""
    data, axis, lengths = step.shape(0), step.one(1), step.elements(2)
    if data is None or axis is None or lengths is None or len(lengths) != step.outputs:
        return None
    at = place(axis, len(data))
    sizes: list[int | None] = [int(size) if isinstance(size, int) and size >= 0 else None for size in lengths]
    whole, known = data[at], sum(size for size in sizes if isinstance(size, int))
    if isinstance(whole, int):
        if sizes.count(None) == 1:
            sizes[sizes.index(None)] = check_size(whole - known)
        elif None not in sizes and known != whole:
            raise ShapeConflict(f"a dimension of size {whole} in parts of {show(tuple(sizes))}")
    return [(*data[:at], size, *data[at + 1 :]) for size in sizes]


def pad(step: Step) -> Shape | None:
    """What is added before and behind each dimension; negative numbers crop."""
    data, begins, ends = step.shape(0), step.elements(1), step.elements(2)
    if data is None:
        return None
    if begins is None or ends is None:
        return (None,) * len(data)
    if len(begins) != len(data) or len(ends) != len(data):
        raise ShapeConflict(f"{len(begins)} paddings of {len(data)} dimensions")
    return tuple(
        check_size(size + begin + end)
        if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int)
        else None
        for size, begin, end in zip(data, begins, ends, strict=True)
    )


def tile(step: Step) -> Shape | None:
    """Each dimension so many times; the shorter list is aligned at the end."""
    data, times = step.shape(0), read_target(step, 1)
    if data is None or times is None or len(times) > MAX_RANK:
        return None
    rank = max(len(data), len(times))
    sizes = (1,) * (rank - len(data)) + data
    factors = (1,) * (rank - len(times)) + times
    return tuple(
        check_size(size * max(factor, 0)) if isinstance(size, int) and isinstance(factor, int) else None
        for size, factor in zip(sizes, factors, strict=True)
    )


def stretch(step: Step) -> Shape | None:
    """Broadcast: to the target, or to what data and target stretch each other to."""
    data, target = step.shape(0), read_target(step, 1)
    mode = step.word("mode", "numpy")
    if target is None or len(target) > MAX_RANK:
        return None
    wanted = tuple(check_size(size) if isinstance(size, int) else None for size in target)
    if mode == "bidirectional":
        return broadcast(data, wanted)
    if data is None or mode != "numpy":
        return wanted
    if len(data) > len(wanted):
        raise ShapeConflict(f"{show(data)} to {show(wanted)}")
    offset = len(wanted) - len(data)
    answer: list[Dimension] = list(wanted)
    for at, size in enumerate(data, offset):
        # Only data stretches: what is not 1 is as large as the target.
        if isinstance(size, int) and size != 1:
            answer[at] = merge(wanted[at], size)
    return tuple(answer)


def say_shape(step: Step) -> Shape | None:
    """As many elements as its input has dimensions."""
    data = step.shape(0)
    return None if data is None else (len(data),)


def count_range(step: Step) -> Shape | None:
    """⌈(stop − start) / step⌉ for whole numbers; others are rounded as the engine does."""
    ends = [step.one(at) for at in range(3)]
    start, stop, by = ends
    if start is None or stop is None or by is None or by == 0:
        return (None,)
    return (check_size(max(0, -((start - stop) // by))),)


def encode_one_hot(step: Step) -> Shape | None:
    """One dimension more, as deep as the input at 1 says."""
    data, depth, axis = step.shape(0), step.one(1), step.number("axis", -1)
    if data is None or axis is None:
        return None
    at = place(axis, len(data) + 1)
    return (*data[:at], check_size(depth) if depth is not None else None, *data[at:])


def choose_best(step: Step) -> Shape | None:
    """TopK: the size along the axis becomes k; indices have the same shape."""
    data, count, axis = step.shape(0), step.one(1), step.number("axis", -1)
    if data is None or axis is None:
        return None
    at = place(axis, len(data))
    # Whether there are as many is for the engine to say; 0 means all in some versions.
    return (*data[:at], check_size(count) if count else None, *data[at + 1 :])


def draw(step: Step) -> Shape | None:
    """RandomUniform: the shape is its first input."""
    target = read_target(step, 0)
    if target is None or len(target) > MAX_RANK:
        return None
    return tuple(check_size(size) if isinstance(size, int) else None for size in target)


def reduce(step: Step) -> Shape | None:
    """Dimensions go, or stay as 1 where ``keep_dims`` says so; without axes nothing is reduced."""
    data, axes = step.shape(0), step.whole(1)
    if data is None:
        return None
    keeps = step.flag("keep_dims", usual=False)
    if axes is None:
        return (None,) * len(data) if keeps else None
    gone = {place(axis, len(data)) for axis in axes}
    if keeps:
        return tuple(1 if at in gone else size for at, size in enumerate(data))
    return tuple(size for at, size in enumerate(data) if at not in gone)
