"""Shapes behind OpenVINO's operations that take a part of a tensor: Slice, StridedSlice, Gather.

Ends are counted from behind where they are negative, and clipped where they are beyond an end.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgewise.model.readers.base import MAX_RANK
from edgewise.model.readers.openvino_shapes_steps import Elements, Number, Shape, ShapeConflict, Step, merge, place
from edgewise.model.signature import Dimension


@dataclass(frozen=True, slots=True)
class Cut:
    """What is done at one place of a StridedSlice.

    Attributes:
        kind: keep (a whole dimension), cut, drop (one index of a dimension) or new (a dimension of 1).
        bounds: of a cut: the slice; of a drop: its index as the start. None where they are not known.
    """

    kind: str
    bounds: slice | None = None


def clip(size: int, bounds: slice) -> range | None:
    """The places that a slice takes of a dimension; None for one that goes backwards from before the front.

    Of such a slice OpenVINO itself says that it takes nothing or one, as the dimension is open or not.
    """
    start, stop, by = bounds.indices(size)
    if by < 0 and size and bounds.start is not None and bounds.start < -size:
        return None
    return range(start, stop, by)


def length(size: Dimension, bounds: slice | None) -> Dimension:
    """How many elements a slice takes of a dimension."""
    places = clip(size, bounds) if bounds is not None and isinstance(size, int) else None
    if places is None:
        return None
    # The length of a range is limited to what memory can hold; its ends are not.
    return max(0, -((places.start - places.stop) // places.step))


def slice_plainly(step: Step) -> Shape | None:
    """Slice: starts, stops and steps of the named axes, of the first ones where none are named."""
    data = step.shape(0)
    if data is None:
        return None
    found = read_slices(step)
    if found is None:
        return (None,) * len(data)
    answer = list(data)
    for at, bounds in found.items():
        answer[at] = length(data[at], bounds)
    return tuple(answer)


def read_slices(step: Step) -> dict[int, slice | None] | None:
    """Axis → what Slice takes of it; None where the axes are not known."""
    data, starts, stops, steps = step.shape(0), step.elements(1), step.elements(2), step.elements(3)
    if data is None or starts is None or stops is None or steps is None:
        return None
    axes = step.whole(4) if step.has(4) else tuple(range(len(starts)))
    if axes is None:
        return None
    if not len(starts) == len(stops) == len(steps) == len(axes) or len(axes) > len(data):
        raise ShapeConflict(f"slices of {len(axes)} axes from {len(starts)} starts, {len(stops)} stops")
    ends = zip(axes, starts, stops, steps, strict=True)
    return {place(axis, len(data)): _bound(start, stop, by) for axis, start, stop, by in ends}


def _bound(start: Number | None, stop: Number | None, by: Number | None) -> slice | None:
    if not isinstance(start, int) or not isinstance(stop, int) or not isinstance(by, int) or by == 0:
        return None
    return slice(start, stop, by)


def slice_strided(step: Step) -> Shape | None:
    """StridedSlice: see `read_cuts`."""
    data, cuts = step.shape(0), read_cuts(step)
    if data is None or cuts is None:
        return None
    answer: list[Dimension] = []
    sizes = iter(data)
    for cut in cuts:
        size = 1 if cut.kind == "new" else next(sizes)
        if cut.kind != "drop":
            answer.append(length(size, cut.bounds) if cut.kind == "cut" else size)
    return tuple(answer)


def read_cuts(step: Step) -> list[Cut] | None:
    """What is done to each dimension, in order, and where new ones come in; None where that is not known."""
    data, count = step.shape(0), _count_cuts(step)
    if data is None or count is None or count > 2 * MAX_RANK:
        return None
    masks = {name: step.numbers(f"{name}_mask", ()) for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")}
    chosen = {name: {at for at, bit in enumerate(mask or ()) if bit} for name, mask in masks.items()}
    if any(mask is None for mask in masks.values()) or len(chosen["ellipsis"]) > 1:
        return None
    begins, ends, steps = (step.elements(at) if step.has(at) else None for at in (1, 2, 3))
    by = steps if step.has(3) else (1,) * count
    new = {at for at in chosen["new_axis"] if at < count and at not in chosen["ellipsis"]}
    taken = count - len(new) - len(chosen["ellipsis"] & set(range(count)))
    if taken > len(data):
        raise ShapeConflict(f"slices of {taken} axes in {len(data)} dimensions")
    cuts: list[Cut] = []
    for at in range(count):
        if at in chosen["ellipsis"]:
            cuts += [Cut("keep")] * (len(data) - taken)
        elif at in new:
            cuts.append(Cut("new"))
        elif at in chosen["shrink_axis"]:
            index = _pick(begins, at)
            cuts.append(Cut("drop", slice(index, None) if isinstance(index, int) else None))
        else:
            cuts.append(Cut("cut", _bound_masked(at, (begins, ends, by), chosen)))
    used = sum(cut.kind != "new" for cut in cuts)
    return cuts + [Cut("keep")] * (len(data) - used)


def _count_cuts(step: Step) -> int | None:
    begins, sizes = step.elements(1), step.shape(1)
    if begins is not None:
        return len(begins)
    size = sizes[0] if sizes is not None and len(sizes) == 1 else None
    return size if isinstance(size, int) else None


def _pick(elements: Elements | None, at: int) -> Number | None:
    return elements[at] if elements is not None and at < len(elements) else None


def _bound_masked(
    at: int, bounds: tuple[Elements | None, Elements | None, Elements | None], chosen: dict[str, set[int]]
) -> slice | None:
    start, stop, by = (_pick(each, at) for each in bounds)
    if not isinstance(by, int) or by == 0:
        return None
    free_start, free_stop = at in chosen["begin"], at in chosen["end"]
    if not (free_start or isinstance(start, int)) or not (free_stop or isinstance(stop, int)):
        return None
    return slice(None if free_start else start, None if free_stop else stop, by)


def gather(step: Step) -> Shape | None:
    """Data […, axis, …] at indices; the first ``batch_dims`` dimensions of both go together."""
    data, indices, axis = step.shape(0), step.shape(1), step.one(2)
    batch = step.number("batch_dims", 0)
    if data is None or indices is None or axis is None or batch is None:
        return None
    at = place(axis, len(data))
    batch = batch + len(indices) if batch < 0 else batch
    if not 0 <= batch <= min(at, len(indices)):
        raise ShapeConflict(f"{batch} dimensions of batches before axis {at}")
    both = tuple(merge(one, other) for one, other in zip(data[:batch], indices[:batch], strict=True))
    return (*both, *data[batch:at], *indices[batch:], *data[at + 1 :])


def gather_alike(step: Step) -> Shape | None:
    """GatherElements: as many as there are indices."""
    return step.shape(1)


def gather_points(step: Step) -> Shape | None:
    """GatherND: the last dimension of the indices points into the data behind ``batch_dims``."""
    data, indices, batch = step.shape(0), step.shape(1), step.number("batch_dims", 0)
    if data is None or not indices or batch is None or not isinstance(indices[-1], int):
        return None
    # Version 5 folds the dimensions of several batches into one.
    if not 0 <= batch < len(indices) or (step.version < 8 and batch > 1):
        return None
    if batch + indices[-1] > len(data):
        raise ShapeConflict(f"indices of {indices[-1]} dimensions into {len(data) - batch}")
    both = tuple(merge(one, other) for one, other in zip(data[:batch], indices[:batch], strict=False))
    return (*both, *indices[batch:-1], *data[batch + indices[-1] :])
