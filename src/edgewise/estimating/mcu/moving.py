"""Operators that only move elements: a view of numpy has the strides that the C gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.estimating.mcu.emit import Emitter, Lowering, activation, axis_of, check_int8, check_size, numbers, refuse
from edgewise.estimating.mcu.network import IntOperator, IntTensor

View = NDArray[np.int8]


def view_of(tensor: IntTensor) -> View:
    """Return an array of the tensor's shape; only its address and strides matter."""
    return np.empty(tensor.shape, np.int8)


def loops_of(*views: View) -> list[tuple[int, ...]]:
    """Loops over arrays of one shape, the outermost first: the count, then the step of each array in bytes."""
    loops: list[tuple[int, ...]] = []
    for count, *steps in zip(views[0].shape, *(view.strides for view in views), strict=True):
        if count == 1:
            continue
        if loops and list(loops[-1][1:]) == [count * step for step in steps]:
            loops[-1] = (loops[-1][0] * count, *steps)
        else:
            loops.append((count, *steps))
    return loops or [(1, *(1 for _ in views))]


def plan_of(emitter: Emitter, loops: Sequence[tuple[int, ...]]) -> str:
    """Return number and address of loops."""
    return f"{len(loops)}, {emitter.words([number for loop in loops for number in loop])}"


def _start(view: View, base: View) -> int:
    """Bytes between the first element of `base` and that of `view`, a view of it."""
    return int(view.ctypes.data) - int(base.ctypes.data)


def _move(emitter: Emitter, source: IntTensor, out: IntTensor, into: tuple[View, View], made: tuple[View, View]) -> str:
    """Return copies the elements of one view to those of another; each comes after the array that it is a view of.

    Raises ValueError where their shapes differ.
    """
    if into[1].shape != made[1].shape:
        raise ValueError(f"elements of the shape {into[1].shape} move to {made[1].shape}")
    here, there = emitter.at(source, _start(*reversed(into))), emitter.at(out, _start(*reversed(made)))
    return f"ew_move({here}, {there}, {plan_of(emitter, loops_of(into[1], made[1]))});"


def _check_same(operator: IntOperator, *tensors: IntTensor) -> None:
    if len({each.dtype for each in tensors}) != 1:
        raise refuse(operator, "changes the type")
    check_int8(operator, *tensors)


def _rearrange(change: Callable[[IntOperator, View], View]) -> Lowering:
    """Return an operator with one output, each element of which is an element of its input."""

    def make(emitter: Emitter, operator: IntOperator) -> str:
        source, (out,) = operator.input(0), operator.outputs
        _check_same(operator, source, out)
        base, made = view_of(source), view_of(out)
        view = change(operator, base)
        check_size(operator, view.size, out)
        return _move(emitter, source, out, (base, view), (made, made.reshape(view.shape)))

    return make


def strided(operator: IntOperator, base: NDArray[Any]) -> NDArray[Any]:
    """Return the view of `base` that STRIDED_SLICE takes; an axis that it removes stays, with one element."""
    options = operator.options
    if options.get("ellipsis_mask") or options.get("new_axis_mask"):
        raise refuse(operator, "has an ellipsis or a new axis")
    cuts = []
    for at, (begin, end, step) in enumerate(zip(*(numbers(operator, place) for place in (1, 2, 3)), strict=True)):
        if options.get("shrink_axis_mask", 0) >> at & 1:
            first = begin % base.shape[at]
            cuts.append(slice(first, first + 1))
        else:
            open_begin, open_end = (options.get(key, 0) >> at & 1 for key in ("begin_mask", "end_mask"))
            cuts.append(slice(None if open_begin else begin, None if open_end else end, step))
    return base[tuple(cuts)]


def _slice(operator: IntOperator, base: View) -> View:
    sizes = zip(numbers(operator, 1), numbers(operator, 2), strict=True)
    return base[tuple(slice(begin, None if size < 0 else begin + size) for begin, size in sizes)]


def _nearest(operator: IntOperator, base: View) -> View:
    height, width = numbers(operator, 1)
    batch, in_h, in_w, channels = base.shape
    if operator.options.get("align_corners") or height % in_h or width % in_w:
        raise refuse(operator, "resizes by a factor that is no integer, or aligns corners")
    wide = base[:, :, None, :, None, :]
    return np.broadcast_to(wide, (batch, in_h, height // in_h, in_w, width // in_w, channels))


def _blocks(operator: IntOperator, base: View, *, apart: bool) -> View:
    """SPACE_TO_DEPTH where `apart`, else DEPTH_TO_SPACE."""
    size = operator.options["block_size"]
    batch, height, width, channels = base.shape
    if apart:
        split = base.reshape(batch, height // size, size, width // size, size, channels)
        return split.transpose(0, 1, 3, 2, 4, 5)
    return base.reshape(batch, height, width, size, size, channels // size**2).transpose(0, 1, 3, 2, 4, 5)


def _concatenation(emitter: Emitter, operator: IntOperator) -> str:
    (out,), axis = operator.outputs, operator.options.get("axis", 0)
    sources = [operator.input(place) for place in range(len(operator.inputs))]
    _check_same(operator, out, *sources)
    if activation(operator, out) != (-128, 127):
        raise refuse(operator, "has an activation")
    made, at, calls = view_of(out), 0, []
    for source in sources:
        base = view_of(source)
        if operator.code == "PACK":
            view = np.moveaxis(made, axis, 0)[at]
            at += 1
        else:
            view = np.moveaxis(np.moveaxis(made, axis, 0)[at : at + base.shape[axis]], 0, axis)
            at += base.shape[axis]
        calls.append(_move(emitter, source, out, (base, base.reshape(view.shape)), (made, view)))
    return " ".join(calls)


def _split(emitter: Emitter, operator: IntOperator) -> str:
    source = operator.input({"SPLIT": 1}.get(operator.code, 0))
    _check_same(operator, source, *operator.outputs)
    if operator.code == "UNPACK":
        axis = operator.options.get("axis", 0)
    else:
        (axis,) = numbers(operator, {"SPLIT": 0, "SPLIT_V": 2}[operator.code])
    base, at, calls = view_of(source), 0, []
    for out in operator.outputs:
        size = 1 if operator.code == "UNPACK" else out.shape[axis]
        view = np.moveaxis(np.moveaxis(base, axis, 0)[at : at + size], 0, axis)
        made = view_of(out)
        calls.append(_move(emitter, source, out, (base, view), (made, made.reshape(view.shape))))
        at += size
    return " ".join(calls)


def _pad(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    _check_same(operator, source, out)
    value = numbers(operator, 2)[0] if len(operator.inputs) > 2 else out.zero_point
    before = numbers(operator, 1)[::2]
    base, made = view_of(source), view_of(out)
    inner = made[tuple(slice(at, at + size) for at, size in zip(before, source.shape, strict=True))]
    return (
        f"ew_fill({emitter.at(out)}, {value}, {out.elements}); "
        f"{_move(emitter, source, out, (base, base), (made, inner))}"
    )


def _reshape(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,) = operator.input(0), operator.outputs
    check_size(operator, source.elements, out)
    here, there = emitter.at(source), emitter.at(out)
    return "" if here == there else f"ew_copy({here}, {there}, {out.bytes});"


def _flip(operator: IntOperator, base: View) -> View:
    return np.flip(base, tuple(numbers(operator, 1)))


def _gather(emitter: Emitter, operator: IntOperator) -> str:
    source, (out,), chosen = operator.input(0), operator.outputs, numbers(operator, 1)
    _check_same(operator, source, out)
    if operator.options.get("batch_dims"):
        raise refuse(operator, "has batch dimensions")
    base, made = view_of(source), view_of(out)
    axis = axis_of(operator, operator.options.get("axis", 0), source)
    if not all(0 <= index < base.shape[axis] for index in chosen):
        raise refuse(operator, f"takes places {min(chosen)} to {max(chosen)} of {base.shape[axis]}")
    parts = made.reshape(*base.shape[:axis], len(chosen), *base.shape[axis + 1 :])
    calls = []
    for place, index in enumerate(chosen):
        here, there = ((*(slice(None),) * axis, slice(at, at + 1)) for at in (index, place))
        calls.append(_move(emitter, source, out, (base, base[here]), (made, parts[there])))
    return " ".join(calls)


def _mirror(emitter: Emitter, operator: IntOperator) -> str:
    """Return a move per combination of the inside and the two margins of each dimension."""
    source, (out,), margins = operator.input(0), operator.outputs, numbers(operator, 1)
    _check_same(operator, source, out)
    base, made = view_of(source), view_of(out)
    skip = 1 if operator.options.get("mode", "REFLECT") == "REFLECT" else 0
    regions = []
    for size, before, after in zip(source.shape, margins[::2], margins[1::2], strict=True):
        if max(before, after) + skip > size:
            raise refuse(operator, "has margins that are larger than its input")
        indices = np.arange(size)
        last = size - 1 - skip
        regions.append(
            [
                (slice(0, before), indices[skip : skip + before][::-1]),
                (slice(before, before + size), indices),
                (slice(before + size, None), indices[last - after + 1 : last + 1][::-1]),
            ]
        )
    calls = []
    for choice in product(*regions):
        taken = [(cut, places) for cut, places in choice if len(places)]
        if len(taken) == len(choice):
            view = base[tuple(_slice_of(places) for _, places in taken)]
            calls.append(_move(emitter, source, out, (base, view), (made, made[tuple(cut for cut, _ in taken)])))
    return " ".join(calls)


def _slice_of(places: NDArray[np.int64]) -> slice:
    """Return the slice that takes consecutive `places`, in either direction."""
    first, last = int(places[0]), int(places[-1])
    step = 1 if last >= first else -1
    return slice(first, None if last + step < 0 else last + step, step)


def _batches(emitter: Emitter, operator: IntOperator) -> str:
    """SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: a move per place in a block, between image and a range of batches."""
    source, (out,), blocks = operator.input(0), operator.outputs, numbers(operator, 1)
    _check_same(operator, source, out)
    apart, margins = operator.code == "SPACE_TO_BATCH_ND", numbers(operator, 2)
    image, parts = (view_of(source), view_of(out)) if apart else (view_of(out), view_of(source))
    # tflite-micro fills margins of int8 with 0, whatever the zero point is.
    calls = [f"ew_fill({emitter.at(out)}, 0, {out.elements});"] if apart and any(margins) else []
    for number, places in enumerate(product(*map(range, blocks))):
        whole = [slice(None)]
        part = [slice(number * len(image), (number + 1) * len(image))]
        for axis, (place, block, before) in enumerate(zip(places, blocks, margins[::2], strict=True), 1):
            skipped = max(0, -(-(before - place) // block))
            first = place + skipped * block - before
            count = min(len(range(first, image.shape[axis], block)), parts.shape[axis] - skipped)
            whole.append(slice(first, first + count * block, block))
            part.append(slice(skipped, skipped + count))
        views = image[tuple(whole)], parts[tuple(part)]
        if views[0].size:
            pairs = ((image, views[0]), (parts, views[1]))
            calls.append(_move(emitter, source, out, *(pairs if apart else pairs[::-1])))
    return " ".join(calls)


MOVING: Mapping[str, Lowering] = {
    "BATCH_TO_SPACE_ND": _batches,
    "BROADCAST_TO": _rearrange(lambda operator, base: np.broadcast_to(base, operator.outputs[0].shape)),
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _rearrange(lambda operator, base: _blocks(operator, base, apart=False)),
    "EXPAND_DIMS": _reshape,
    "GATHER": _gather,
    "MIRROR_PAD": _mirror,
    "PACK": _concatenation,
    "PAD": _pad,
    "PADV2": _pad,
    "RESHAPE": _reshape,
    "RESIZE_NEAREST_NEIGHBOR": _rearrange(_nearest),
    "REVERSE_V2": _rearrange(_flip),
    "SLICE": _rearrange(_slice),
    "SPACE_TO_BATCH_ND": _batches,
    "SPACE_TO_DEPTH": _rearrange(lambda operator, base: _blocks(operator, base, apart=True)),
    "SPLIT": _split,
    "SPLIT_V": _split,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _rearrange(strided),
    "TRANSPOSE": _rearrange(lambda operator, base: base.transpose(numbers(operator, 1))),
    "UNPACK": _split,
}
