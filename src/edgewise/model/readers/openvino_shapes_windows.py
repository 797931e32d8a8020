"""Shapes behind OpenVINO's windows: convolutions, pools, resizing, and blocks that move between dimensions.

The formulas are those of https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs.html:
⌊(size + padding − (kernel − 1)·dilation − 1) / stride⌋ + 1 for a window that slides, its inverse for a transposed one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgewise.model.readers.openvino_shapes_steps import (
    Number,
    Shape,
    ShapeConflict,
    Step,
    check_size,
    merge,
    multiply,
    place,
    show,
)
from edgewise.model.signature import Dimension


@dataclass(frozen=True, slots=True)
class _Sliding:
    """How a window slides along each spatial dimension."""

    kernel: Shape
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    pad: str
    rounding: str = "floor"

    def over(self, sizes: Shape) -> Shape:
        """How many positions it has over the dimensions `sizes`."""
        return tuple(self._count(at, size) for at, size in enumerate(sizes))

    def _count(self, at: int, size: Dimension) -> Dimension:
        stride, kernel = self.strides[at], self.kernel[at]
        if not isinstance(size, int):
            return None
        same = self.pad in ("same_upper", "same_lower")
        if same and self.rounding == "floor":
            return -(-size // stride)
        if not isinstance(kernel, int) or kernel < 1:
            return None
        reach = (kernel - 1) * self.dilations[at] + 1
        begin, end = (0, 0) if self.pad == "valid" else (self.begins[at], self.ends[at])
        if same:
            # As much as makes ⌈size / stride⌉ positions, the odd one at the end or at the front.
            whole = max((-(-size // stride) - 1) * stride + reach - size, 0)
            less, more = whole // 2, whole - whole // 2
            begin, end = (less, more) if self.pad == "same_upper" else (more, less)
        rest = size + begin + end - reach
        if rest < 0:
            raise ShapeConflict(f"a window of {reach} over {size + begin + end}")
        positions = (rest // stride if self.rounding == "floor" else -(-rest // stride)) + 1
        # By PyTorch's rule the last window begins before the padding at the end does.
        late = self.rounding == "ceil_torch" and (positions - 1) * stride >= size + begin
        return check_size(positions - 1 if late else positions)


def _read_sliding(step: Step, kernel: Shape) -> _Sliding | None:
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    strides, dilations = step.numbers("strides", ones), step.numbers("dilations", ones)
    begins, ends = step.numbers("pads_begin", zeros), step.numbers("pads_end", zeros)
    if strides is None or dilations is None or begins is None or ends is None:
        return None
    if {len(strides), len(dilations), len(begins), len(ends)} != {len(kernel)}:
        return None
    if min((*strides, *dilations), default=0) < 1:
        return None
    pad = step.word("auto_pad", "explicit")
    if pad not in ("explicit", "notset", "same_upper", "same_lower", "valid"):
        return None
    rounding = step.word("rounding_type", "floor")
    if rounding not in ("floor", "ceil", "ceil_torch"):
        return None
    return _Sliding(kernel, strides, dilations, begins, ends, pad, rounding)


def convolve(step: Step) -> Shape | None:
    """Data [N, I, …] and filters [O, I, k…], or [G, O/G, I/G, k…] in groups."""
    data, filters = step.shape(0), step.shape(1)
    own = 3 if step.op == "groupconvolution" else 2
    if data is None or filters is None:
        return None
    if len(data) < 3 or len(filters) != len(data) - 2 + own:
        raise ShapeConflict(f"{show(data)} under filters of {show(filters)}")
    groups = multiply((filters[0], filters[2])) if own == 3 else filters[1]
    try:
        merge(data[1], groups)
    except ShapeConflict:
        raise ShapeConflict(f"{show(data)} under filters of {show(filters)}") from None
    sliding = _read_sliding(step, filters[own:])
    if sliding is None:
        return None
    channels = multiply(filters[:2]) if own == 3 else filters[0]
    return (data[0], channels, *sliding.over(data[2:]))


def convolve_back(step: Step) -> Shape | None:
    """Data [N, I, …] and filters [I, O, k…], or [G, I/G, O/G, k…] in groups; perhaps the output's spatial shape."""
    data, filters = step.shape(0), step.shape(1)
    own = 3 if step.op.startswith("group") else 2
    if data is None or filters is None:
        return None
    if len(data) < 3 or len(filters) != len(data) - 2 + own:
        raise ShapeConflict(f"{show(data)} under filters of {show(filters)}")
    merge(data[1], multiply(filters[:2]) if own == 3 else filters[0])
    channels = multiply((filters[0], filters[2])) if own == 3 else filters[1]
    spatial = _spread(step, data[2:], filters[own:])
    return None if spatial is None else (data[0], channels, *spatial)


def _spread(step: Step, sizes: Shape, kernel: Shape) -> Shape | None:
    if step.has(2):
        given = step.elements(2)
        if given is None or len(given) != len(sizes):
            return (None,) * len(sizes)
        return tuple(check_size(size) if isinstance(size, int) else None for size in given)
    sliding = _read_sliding(step, kernel)
    extra = step.numbers("output_padding", (0,) * len(kernel))
    if sliding is None or extra is None or len(extra) != len(kernel):
        return None
    answer: list[Dimension] = []
    for at, (size, window) in enumerate(zip(sizes, kernel, strict=True)):
        if not isinstance(size, int) or not isinstance(window, int) or not size or not window:
            answer.append(None)
            continue
        # Without a shape to reach there is nothing to pad for.
        padding = sliding.begins[at] + sliding.ends[at] if sliding.pad in ("explicit", "notset") else 0
        reach = (window - 1) * sliding.dilations[at] + 1
        answer.append(check_size(sliding.strides[at] * (size - 1) + reach - padding + extra[at]))
    return tuple(answer)


def pool(step: Step) -> Shape | None:
    """Data [N, C, …]; indices, where there are any, have the same shape."""
    data, kernel = step.shape(0), step.numbers("kernel")
    if data is None or kernel is None or len(data) != len(kernel) + 2:
        return None
    sliding = _read_sliding(step, kernel)
    return None if sliding is None else (*data[:2], *sliding.over(data[2:]))


def pool_adaptively(step: Step) -> Shape | None:
    """Data [N, C, …] and the spatial shape of the output."""
    data, sizes = step.shape(0), step.elements(1)
    if data is None or len(data) < 3:
        return None
    if sizes is None or len(sizes) != len(data) - 2:
        return (*data[:2], *(None for _ in data[2:]))
    return (*data[:2], *(check_size(size) if isinstance(size, int) else None for size in sizes))


def interpolate(step: Step) -> Shape | None:
    """Sizes or scales of some axes; before them the padding is added."""
    data = step.shape(0)
    if data is None:
        return None
    first = step.version < 4
    axes = step.numbers("axes") if first else _axes(step, 2 if step.version >= 11 else 3, len(data))
    if axes is None:
        return (None,) * len(data)
    places = [place(axis, len(data)) for axis in axes]
    if first:
        padded: Shape | None = data
    else:
        padded = _pad(data, step.numbers("pads_begin", ()), step.numbers("pads_end", ()))
    if padded is None:
        return None
    by_scales = not first and step.word("shape_calculation_mode", "sizes") == "scales"
    given = step.elements(2 if by_scales and step.version < 11 else 1)
    answer = list(padded)
    for at, axis in enumerate(places):
        each = given[at] if given is not None and len(given) == len(places) else None
        answer[axis] = _scale(padded[axis], each) if by_scales else check_size(each) if isinstance(each, int) else None
    return tuple(answer)


def _axes(step: Step, at: int, rank: int) -> tuple[int, ...] | None:
    return step.whole(at) if step.has(at) else tuple(range(rank))


def _pad(data: Shape, begins: tuple[int, ...] | None, ends: tuple[int, ...] | None) -> Shape | None:
    """Missing numbers are 0. Raises `ShapeConflict`."""
    if begins is None or ends is None or max(len(begins), len(ends)) > len(data):
        return None
    sums = [0] * len(data)
    for numbers in (begins, ends):
        for at, number in enumerate(numbers):
            sums[at] += number
    return tuple(
        check_size(size + more) if isinstance(size, int) else size if not more else None
        for size, more in zip(data, sums, strict=True)
    )


def _scale(size: Dimension, scale: Number | None) -> int | None:
    """⌊size · scale + 10⁻⁶⌋, as OpenVINO has it; None where rounding to 32 bits decides the result."""
    if not isinstance(size, int) or scale is None or not 0 < scale < 2**31 or size >= 2**31:
        return None
    exact = size * scale
    slack = 2.0**-22 * max(exact, 1e-6)
    low, high = math.floor(exact + 1e-6 - slack), math.floor(exact + 1e-6 + slack)
    # A product that 32 bits hold is computed without an error; then only the 10⁻⁶ may get lost.
    if low != high and exact == round(exact):
        return check_size(round(exact)) if exact < 2**24 else None
    return check_size(low) if low == high else None


def space_to_depth(step: Step) -> Shape | None:
    """[N, C, d…] → [N, C·bᵏ, d/b…]."""
    return _move_blocks(step, deeper=True)


def depth_to_space(step: Step) -> Shape | None:
    """[N, C, d…] → [N, C/bᵏ, d·b…]."""
    return _move_blocks(step, deeper=False)


def _move_blocks(step: Step, *, deeper: bool) -> Shape | None:
    data, block = step.shape(0), step.number("block_size", 1)
    if data is None or len(data) < 3 or block is None or not 0 < block < 2**31:
        return None
    volume = block ** (len(data) - 2)
    channels = _times(data[1], volume) if deeper else _over(data[1], volume)
    return (data[0], channels, *(_over(size, block) if deeper else _times(size, block) for size in data[2:]))


def space_to_batch(step: Step) -> Shape | None:
    """Each dimension is padded and cut into blocks; the blocks become the batch."""
    return _move_batches(step, apart=True)


def batch_to_space(step: Step) -> Shape | None:
    """The batch is laid out in blocks, and what is cropped falls away."""
    return _move_batches(step, apart=False)


def _move_batches(step: Step, *, apart: bool) -> Shape | None:
    data, block = step.shape(0), step.whole(1)
    begins, ends = step.whole(2), step.whole(3)
    if data is None or block is None or begins is None or ends is None:
        return (None,) * len(data) if data is not None else None
    if {len(block), len(begins), len(ends)} != {len(data)} or min(block, default=0) < 1:
        raise ShapeConflict(f"blocks of {len(block)} dimensions in {len(data)}")
    answer: list[Dimension] = []
    for size, one, begin, end in zip(data, block, begins, ends, strict=True):
        if not isinstance(size, int):
            answer.append(None)
        elif apart:
            answer.append(_over(check_size(size + begin + end), one))
        else:
            answer.append(check_size(check_size(size * one) - begin - end))
    volume = math.prod(block)
    answer[0] = _times(data[0], volume) if apart else _over(data[0], volume)
    return tuple(answer)


def _times(size: Dimension, factor: int) -> Dimension:
    return check_size(size * factor) if isinstance(size, int) else None


def _over(size: Dimension, divisor: int) -> Dimension:
    if not isinstance(size, int):
        return None
    if size % divisor:
        raise ShapeConflict(f"a dimension of size {size} in blocks of {divisor}")
    return size // divisor


def sample_grid(step: Step) -> Shape | None:
    """Data [N, C, H, W] at the places of a grid [N, h, w, 2]."""
    data, grid = step.shape(0), step.shape(1)
    if data is None or grid is None or len(data) != 4 or len(grid) != 4:
        return None
    return (merge(data[0], grid[0]), data[1], grid[1], grid[2])
