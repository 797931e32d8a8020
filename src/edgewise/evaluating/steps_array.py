"""Steps for arrays: arithmetic, and the order of axes. Arithmetic on integers is done in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Kind
from edgewise.evaluating.step_settings import (
    MAX_FRAMES,
    Action,
    Choice,
    Item,
    StepKind,
    divisor,
    number,
    one_of,
    several,
    to_number,
    whole,
    wholes,
)

Array = np.ndarray[Any, np.dtype[Any]]

_ALL: tuple[Kind, ...] = ("array", "image", "audio")
_DTYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")
_AXIS = Choice(
    parse=whole(-8, 7),
    default=None,
    meaning="axis of the channels, for several values; by default an image's own, else the one that they fit",
)


def to_real(values: Array) -> Array:
    """`values` as floating point: floats of 32 bits or more as they are, all else as float32."""
    if values.dtype.kind == "f" and values.dtype.itemsize >= 4:
        return values
    return values.astype(np.float32)


def scale_values(values: Array, factor: Array | np.float32, below: np.float32 | None = None) -> Array:
    """`values` × `factor`, or with `below` (values × factor) ÷ below, rounded once where the factor is 1."""
    real = to_real(values)
    if below is None:
        return real * factor
    return real / below if not isinstance(factor, np.ndarray) and factor == 1 else real * factor / below


def round_to(values: Array, dtype: str) -> Array:
    """`values` as `dtype`; to integers rounded to the nearest, ties to even.

    Raises:
        OverflowError: one is no number or lies outside the type's range.
    """
    target = np.dtype(dtype)
    if target.kind == "f" or values.dtype == target:
        with np.errstate(over="ignore"):
            return values.astype(target, copy=False)
    low, high = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
    if values.dtype.kind == "f":
        values = np.rint(values.astype(np.float64))
        # 2⁶³ − 1 is no float64: its neighbour 2⁶³ already lies outside.
        fits = bool(np.all((values >= float(low)) & (values < float(high) + 1)))
    else:
        fits = not values.size or (int(values.min()) >= low and int(values.max()) <= high)
    if not fits:
        raise OverflowError
    return values.astype(target)


def find_axis(shape: Sequence[int], count: int, axis: int | None) -> int:
    """Along which axis `count` values lie: `axis`, else the first or the last, whichever alone has that size.

    Raises:
        BadInput: none has, or both have.
    """
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
        advice = "say which with axis: 0 or axis: -1" if fitting else "give one value, or one per channel"
        raise BadInput(f"{count} values fit {len(fitting)} axes of data of shape {list(shape)}", advice=advice)
    return fitting.pop()


class _PerChannel:
    """Values that are the same for all or differ by channel, in a shape that broadcasts along that axis only."""

    def __init__(self, values: Sequence[Any], axis: int | None) -> None:
        self._values = np.asarray([to_number(value) for value in values], dtype=np.float32)
        self._axis = axis
        self._shaped: dict[tuple[tuple[int, ...], int | None], Array | np.float32] = {}

    def shaped(self, item: Item) -> Any:
        if self._values.size == 1:
            return self._values[0]
        axis = item.channels if self._axis is None else self._axis
        key = (item.data.shape, axis)
        if key not in self._shaped:
            place = find_axis(item.data.shape, self._values.size, axis)
            shape = [1] * item.data.ndim
            shape[place] = -1
            if len(self._shaped) > 64:  # data whose sizes differ
                self._shaped.clear()
            self._shaped[key] = self._values.reshape(shape)
        return self._shaped[key]


def _build_scale(settings: Mapping[str, Any]) -> Action:
    by = settings["by"]
    if len(by) == 1 and isinstance(by[0], str):
        above, below = (np.float32(part) for part in by[0].split("/"))

        def divide(item: Item) -> None:
            item.data = scale_values(item.data, above, below)

        return divide
    factors = _PerChannel(by, settings["axis"])

    def multiply(item: Item) -> None:
        item.data = scale_values(item.data, factors.shaped(item))

    return multiply


def _build_offset(settings: Mapping[str, Any]) -> Action:
    offsets = _PerChannel(settings["by"], settings["axis"])

    def add(item: Item) -> None:
        item.data = to_real(item.data) + offsets.shaped(item)

    return add


def _build_mean(settings: Mapping[str, Any]) -> Action:
    means = _PerChannel(settings["values"], settings["axis"])

    def subtract(item: Item) -> None:
        item.data = to_real(item.data) - means.shaped(item)

    return subtract


def _build_std(settings: Mapping[str, Any]) -> Action:
    stds = _PerChannel(settings["values"], settings["axis"])

    def divide(item: Item) -> None:
        item.data = to_real(item.data) / stds.shaped(item)

    return divide


def _build_normalize(settings: Mapping[str, Any]) -> Action:
    means = _PerChannel(settings["mean"], settings["axis"])
    stds = _PerChannel(settings["std"], settings["axis"])

    def normalize(item: Item) -> None:
        item.data = (to_real(item.data) - means.shaped(item)) / stds.shaped(item)

    return normalize


def _build_clip(settings: Mapping[str, Any]) -> Action:
    low, high = (None if settings[name] is None else to_number(settings[name]) for name in ("low", "high"))
    if (low is None and high is None) or (low is not None and high is not None and low > high):
        raise BadInput(f"clip from {low} to {high} makes no sense", advice="give low, high or both, low below high")

    def clip(item: Item) -> None:
        item.data = np.clip(to_real(item.data), low, high)

    return clip


def _build_cast(settings: Mapping[str, Any]) -> Action:
    dtype = settings["to"]

    def cast(item: Item) -> None:
        try:
            item.data = round_to(item.data, dtype)
        except OverflowError:
            raise BadInput(
                f"{item.sample} has values that {dtype} can't hold", advice="scale, offset or clip them before the cast"
            ) from None

    return cast


def _build_reshape(settings: Mapping[str, Any]) -> Action:
    shape = tuple(settings["shape"])
    if shape.count(-1) > 1 or 0 in shape:
        raise BadInput(f"reshape to {list(shape)} makes no sense", advice="sizes of 1 or more, at most one of them -1")

    def reshape(item: Item) -> None:
        try:
            item.data = item.data.reshape(shape)
        except ValueError:
            raise BadInput(
                f"{item.sample} has shape {list(item.data.shape)}, which can't be reshaped to {list(shape)}",
                advice="the number of elements must stay the same",
            ) from None
        item.channels = item.pixels = None

    return reshape


def _build_flatten(settings: Mapping[str, Any]) -> Action:
    del settings
    return _build_reshape({"shape": [-1]})


def _build_transpose(settings: Mapping[str, Any]) -> Action:
    axes = tuple(settings["axes"])
    if sorted(axes) != list(range(len(axes))):
        raise BadInput(f"transpose by {list(axes)} makes no sense", advice="every axis once, from 0: 2,0,1")

    def transpose(item: Item) -> None:
        _move_axes(item, axes)

    return transpose


def _move_axes(item: Item, axes: tuple[int, ...]) -> None:
    if item.data.ndim != len(axes):
        raise BadInput(
            f"{item.sample} has shape {list(item.data.shape)}, which has not {len(axes)} axes",
            advice="the steps before must bring it there",
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


def _build_layout(settings: Mapping[str, Any]) -> Action:
    to, start = settings["to"], settings["from"]

    def change(item: Item) -> None:
        if item.data.ndim == 2:
            raise BadInput(
                f"{item.sample} has shape {list(item.data.shape)}: it has no channels whose place could change",
                advice="leave the layout step out",
            )
        now = {0: "nchw", -1: "nhwc", 2: "nhwc"}[item.channels] if item.channels in (0, -1, 2) else start
        axes = _LAYOUTS.get((now, to))
        if axes is not None:
            _move_axes(item, axes)
        item.channels = 0 if to == "nchw" else -1

    return change


def check_finite(values: Array, sample: str, what: str) -> None:
    """Raises `CorruptSample` for values that are not numbers or infinite."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise CorruptSample(sample, f"{what} has values that are not numbers or infinite")


_BY = Choice(parse=several(number), meaning="the number, or one per channel")

KINDS = (
    StepKind(name="scale", summary="multiply", main="by", settings={"by": _BY, "axis": _AXIS}, takes=_ALL, real=True,
             build=_build_scale),
    StepKind(name="offset", summary="add", main="by", settings={"by": _BY, "axis": _AXIS}, takes=_ALL, real=True,
             build=_build_offset),
    StepKind(name="mean", summary="subtract", main="values", settings={"values": _BY, "axis": _AXIS}, takes=_ALL,
             real=True, build=_build_mean),
    StepKind(name="std", summary="divide", main="values", takes=_ALL, real=True, build=_build_std,
             settings={"values": Choice(parse=several(divisor), meaning="the number, or one per channel"),
                       "axis": _AXIS}),
    StepKind(name="normalize", summary="(x − mean) / std, of the values as they are then", takes=_ALL, real=True,
             build=_build_normalize,
             settings={"mean": _BY, "std": Choice(parse=several(divisor), meaning="as mean"), "axis": _AXIS}),
    StepKind(name="clip", summary="bring what is outside to the nearest bound", takes=_ALL, real=True,
             build=_build_clip,
             settings={"low": Choice(parse=number, default=None, meaning="lowest value"),
                       "high": Choice(parse=number, default=None, meaning="highest value")}),
    StepKind(name="cast", summary="convert, to integers by rounding (ties to even)", main="to", takes=_ALL, real=True,
             build=_build_cast, settings={"to": Choice(parse=one_of(*_DTYPES), meaning="the type")}),
    StepKind(name="reshape", summary="the same values in another shape", main="shape", takes=_ALL,
             build=_build_reshape,
             settings={"shape": Choice(parse=wholes(-1, MAX_FRAMES, 8), meaning="sizes, one may be -1")}),
    StepKind(name="flatten", summary="one axis", settings={}, takes=_ALL, build=_build_flatten),
    StepKind(name="transpose", summary="reorder axes", main="axes", takes=_ALL, build=_build_transpose,
             settings={"axes": Choice(parse=wholes(0, 7, 8), meaning="old axes in their new order")}),
    StepKind(name="layout", summary="channels first (nchw) or last (nhwc)", main="to", takes=_ALL,
             build=_build_layout,
             settings={"to": Choice(parse=one_of("nchw", "nhwc"), meaning="where channels go"),
                       "from": Choice(parse=one_of("nchw", "nhwc"), default="nhwc",
                                      meaning="where an array has them; those of an image are last")}),
)  # fmt: skip
