"""Steps for arrays: arithmetic, and the order of axes. Arithmetic on integers is done in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Kind
from edgewise.evaluating.step_settings import (
    AS_LIST,
    LOWER_CASE,
    MAX_FRAMES,
    Divisors,
    Item,
    Number,
    Numbers,
    Step,
    to_number,
)
from edgewise.workload.arrays import Array

_ALL: tuple[Kind, ...] = ("array", "image", "audio")
_Axis = Annotated[int, Field(ge=-8, le=7)] | None
_PER_CHANNEL: Any = Field(description="the number, or one per channel")
_AXIS: Any = Field(
    None, description="axis of the channels, for several values; by default an image's own, else the one that they fit"
)
_Dtype = Annotated[
    Literal["float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"],
    LOWER_CASE,
]
_Layout = Annotated[Literal["nchw", "nhwc"], LOWER_CASE]
_Sizes = Annotated[list[Annotated[int, Field(ge=-1, le=MAX_FRAMES)]], AS_LIST, Field(min_length=1, max_length=8)]
_Axes = Annotated[list[Annotated[int, Field(ge=0, le=7)]], AS_LIST, Field(min_length=1, max_length=8)]


def to_real(values: Array) -> Array:
    """Return `values` as floating point: floats of 32 bits or more as they are, all else as float32."""
    if values.dtype.kind == "f" and values.dtype.itemsize >= 4:
        return values
    return values.astype(np.float32)


def round_to(values: Array, dtype: str) -> Array:
    """Return `values` as `dtype`; to integers rounded to the nearest, ties to even.

    Raises OverflowError: one is not a number or outside the type's range.
    """
    target = np.dtype(dtype)
    if target.kind == "f" or values.dtype == target:
        with np.errstate(over="ignore"):
            return values.astype(target, copy=False)
    low, high = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
    if values.dtype.kind == "f":
        values = np.rint(values.astype(np.float64))
        # 2⁶³ − 1 is not a float64: its neighbour 2⁶³ is already outside.
        fits = bool(np.all((values >= float(low)) & (values < float(high) + 1)))
    else:
        fits = not values.size or (int(values.min()) >= low and int(values.max()) <= high)
    if not fits:
        raise OverflowError
    return values.astype(target)


def find_axis(shape: Sequence[int], count: int, axis: int | None) -> int:
    """Return the axis of `count` values: `axis`, else the first or last if it alone fits, or raise `BadInput`."""
    if axis is not None:
        if not -len(shape) <= axis < len(shape) or shape[axis] != count:
            have = f"size {shape[axis]}" if -len(shape) <= axis < len(shape) else "no such axis"
            raise BadInput(
                f"{count} values don't fit axis {axis} of data of shape {list(shape)} ({have})",
                advice="give one value, or one per channel",
            )
        return axis
    fitting = {place % len(shape) for place in (0, -1) if shape and shape[place] == count}
    if len(fitting) != 1:
        advice = "choose with axis: 0 or axis: -1" if fitting else "give one value, or one per channel"
        raise BadInput(f"{count} values fit {len(fitting)} axes of data of shape {list(shape)}", advice=advice)
    return fitting.pop()


def _per_channel(values: Sequence[Any], axis: int | None, item: Item) -> Any:
    """Return one value for all, or one per channel in a shape that broadcasts along that axis only, float32."""
    found = np.asarray([to_number(value) for value in values], dtype=np.float32)
    if found.size == 1:
        return found[0]
    shape = [1] * item.data.ndim
    shape[find_axis(item.data.shape, found.size, item.channels if axis is None else axis)] = -1
    return found.reshape(shape)


def _move_axes(item: Item, axes: tuple[int, ...]) -> None:
    if item.data.ndim != len(axes):
        raise BadInput(
            f"{item.sample} has shape {list(item.data.shape)}, not {len(axes)} axes", advice="check the steps before"
        )
    if item.channels is not None:
        item.channels = axes.index(item.channels % len(axes))
        rows, columns = [axis for axis in range(3) if axis != axes[item.channels]][:2]
        if axes.index(rows) > axes.index(columns):
            item.pixels = None  # mirrored along the diagonal: no scale and offset say that
    elif axes == (1, 0):
        item.pixels = None
    item.data = item.data.transpose(axes)


_LAYOUTS = {("nhwc", "nchw"): (2, 0, 1), ("nchw", "nhwc"): (1, 2, 0)}


def check_finite(values: Array, sample: str, what: str) -> None:
    """Raise `CorruptSample` for values that are not numbers or infinite."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise CorruptSample(sample, f"{what} has values that are not numbers or infinite")


class Scale(Step, name="scale", main="by", takes=_ALL, real=True):
    """Multiply."""

    by: Numbers = _PER_CHANNEL
    axis: _Axis = _AXIS

    def _apply(self, item: Item) -> None:
        real = to_real(item.data)
        if len(self.by) == 1 and isinstance(self.by[0], str):
            above, below = (np.float32(part) for part in self.by[0].split("/"))
            item.data = real / below if above == 1 else real * above / below  # rounded once where above is 1
        else:
            item.data = real * _per_channel(self.by, self.axis, item)


class Offset(Step, name="offset", main="by", takes=_ALL, real=True):
    """Add."""

    by: Numbers = _PER_CHANNEL
    axis: _Axis = _AXIS

    def _apply(self, item: Item) -> None:
        item.data = to_real(item.data) + _per_channel(self.by, self.axis, item)


class Mean(Step, name="mean", main="values", takes=_ALL, real=True):
    """Subtract."""

    values: Numbers = _PER_CHANNEL
    axis: _Axis = _AXIS

    def _apply(self, item: Item) -> None:
        item.data = to_real(item.data) - _per_channel(self.values, self.axis, item)


class Std(Step, name="std", main="values", takes=_ALL, real=True):
    """Divide."""

    values: Divisors = _PER_CHANNEL
    axis: _Axis = _AXIS

    def _apply(self, item: Item) -> None:
        item.data = to_real(item.data) / _per_channel(self.values, self.axis, item)


class Normalize(Step, name="normalize", takes=_ALL, real=True):
    """(x − mean) / std, in the units of the values at that step."""

    mean: Numbers = _PER_CHANNEL
    std: Divisors = Field(description="as mean")
    axis: _Axis = _AXIS

    def _apply(self, item: Item) -> None:
        centred = to_real(item.data) - _per_channel(self.mean, self.axis, item)
        item.data = centred / _per_channel(self.std, self.axis, item)


class Clip(Step, name="clip", takes=_ALL, real=True):
    """Set values outside two bounds to the nearest bound."""

    low: Number | None = Field(None, description="lowest value")
    high: Number | None = Field(None, description="highest value")

    def _check(self) -> None:
        low, high = self._bounds()
        if (low is None and high is None) or (low is not None and high is not None and low > high):
            raise BadInput(f"clip from {low} to {high} is not a range", advice="give low, high or both, low below high")

    def _apply(self, item: Item) -> None:
        item.data = np.clip(to_real(item.data), *self._bounds())

    def _bounds(self) -> Any:
        return [None if value is None else to_number(value) for value in (self.low, self.high)]


class Cast(Step, name="cast", main="to", takes=_ALL, real=True):
    """Convert, to integers by rounding (ties to even)."""

    to: _Dtype = Field(description="the type")

    def _apply(self, item: Item) -> None:
        try:
            item.data = round_to(item.data, self.to)
        except OverflowError:
            raise BadInput(
                f"{item.sample} has values that {self.to} can't hold",
                advice="scale, offset or clip them before the cast",
            ) from None


class Reshape(Step, name="reshape", main="shape", takes=_ALL):
    """The same values in another shape."""

    shape: _Sizes = Field(description="sizes, one may be -1")

    def _check(self) -> None:
        if self.shape.count(-1) > 1 or 0 in self.shape:
            raise BadInput(
                f"{self.shape} is not a shape to reshape to", advice="sizes of 1 or more, at most one of them -1"
            )

    def _apply(self, item: Item) -> None:
        try:
            item.data = item.data.reshape(self.shape)
        except ValueError:
            raise BadInput(
                f"{item.sample} has shape {list(item.data.shape)}, which can't be reshaped to {self.shape}",
                advice="the number of elements must stay the same",
            ) from None
        item.channels = item.pixels = None


class Flatten(Step, name="flatten", takes=_ALL):
    """One axis."""

    def _apply(self, item: Item) -> None:
        item.data = item.data.reshape(-1)
        item.channels = item.pixels = None


class Transpose(Step, name="transpose", main="axes", takes=_ALL):
    """Reorder axes."""

    axes: _Axes = Field(description="old axes in their new order")

    def _check(self) -> None:
        if sorted(self.axes) != list(range(len(self.axes))):
            raise BadInput(f"{self.axes} is not an order of axes", advice="each axis once, from 0: 2,0,1")

    def _apply(self, item: Item) -> None:
        _move_axes(item, tuple(self.axes))


class Layout(Step, name="layout", main="to", takes=_ALL):
    """Channels first (nchw), last (nhwc), or where the input of each file has them (auto)."""

    to: Annotated[Literal["nchw", "nhwc", "auto"], LOWER_CASE] = Field(description="where channels go")
    source: _Layout = Field("nhwc", alias="from", description="where an array has them; those of an image are last")

    def resolve(self, name: str, shape: Sequence[int]) -> Layout:
        """Return the step for the input `name` of this shape; the same unless it is ``auto``. Raises `BadInput`."""
        if self.to != "auto":
            return self
        body = list(shape)[-3:]
        found = [to for to, axis in (("nchw", 0), ("nhwc", 2)) if len(body) == 3 and body[axis] in (1, 3)]
        if len(found) != 1:
            raise BadInput(
                f"input {name!r} takes {list(shape)}: where its channels are is not clear",
                advice="⟦prepare⟧ layout=nchw or layout=nhwc",
            )
        return self.model_copy(update={"to": found[0]})

    def _apply(self, item: Item) -> None:
        if item.data.ndim == 2:
            raise BadInput(
                f"{item.sample} has shape {list(item.data.shape)}: it has no channels whose place could change",
                advice="leave the layout step out",
            )
        now = {0: "nchw", -1: "nhwc", 2: "nhwc"}[item.channels] if item.channels in (0, -1, 2) else self.source
        axes = _LAYOUTS.get((now, self.to))
        if axes is not None:
            _move_axes(item, axes)
        item.channels = 0 if self.to == "nchw" else -1


STEPS: tuple[type[Step], ...] = (
    Scale, Offset, Mean, Std, Normalize, Clip, Cast, Reshape, Flatten, Transpose, Layout
)  # fmt: skip
