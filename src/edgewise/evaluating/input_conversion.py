"""From a prepared value to an input's shape and type; nothing is resized, reordered, broadcast or guessed."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, prod
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample
from edgewise.evaluating.step_settings import Item
from edgewise.evaluating.steps_array import check_finite, round_to
from edgewise.model.graph import Quantization
from edgewise.record import InputSpec
from edgewise.workload.input_shapes import open_axes

Array = np.ndarray[Any, np.dtype[Any]]

SAY_HOW = "convert them: --prepare scale=1/255, or mean=… and std=…, or cast=float32 to keep the values"
_COLOURS = (1, 3, 4)


def make_finish(spec: InputSpec, quantization: Quantization | None) -> Callable[[Item], Array]:
    """What brings the last step's value to an input, of exactly its shape and type, contiguous.

    Where the size of an open dimension was assumed a sample keeps its own.

    Raises:
        BadInput: a quantisation that can't be applied to a whole input.
    """
    dtype = np.dtype(spec.dtype)
    if quantization is not None and dtype.kind in "iu":
        convert = _make_quantize(spec, quantization, dtype)
    elif dtype.kind == "f":
        convert = _make_real(spec, dtype)
    else:
        convert = _make_whole(spec, dtype)

    free = open_axes(spec)

    def finish(item: Item) -> Array:
        data = item.data
        if not data.size:
            raise CorruptSample(item.sample, "it is empty")
        shape = own_shape(data.shape, spec.shape, free)
        if data.shape != shape:
            data = fit_shape(data, spec, item) if shape == spec.shape else data.reshape(shape)
        return np.ascontiguousarray(convert(data, item)).reshape(shape)

    return finish


def own_shape(have: tuple[int, ...], want: tuple[int, ...], free: frozenset[int]) -> tuple[int, ...]:
    """`have`, with dimensions of 1 in front as `want` has them, where only `free` dimensions differ; else `want`."""
    found = (1,) * (len(want) - len(have)) + have
    fits = len(found) == len(want) and all(
        axis in free or size == wanted for axis, (size, wanted) in enumerate(zip(found, want, strict=True))
    )
    return found if fits and want[: len(want) - len(have)] == found[: len(want) - len(have)] else want


def quantize(values: Array, scale: float, zero_point: int, dtype: np.dtype[Any]) -> Array:
    """Integers for real numbers: round(x / scale) + zero point, ties to even, saturating at the type's bounds.

    As ONNX QuantizeLinear. Saturation is not reported.
    """
    limits = np.iinfo(dtype)
    work = np.float32 if dtype.itemsize <= 2 else np.float64
    # The bounds go before the offset, where they are exact: 2³¹ − 1 is no float32.
    steps: Array = np.rint(values.astype(work, copy=False) / np.asarray(scale, dtype=work))
    np.clip(steps, float(limits.min) - zero_point, float(limits.max) - zero_point, out=steps)
    return np.asarray(steps + np.asarray(zero_point, dtype=work)).astype(dtype)


def _make_quantize(spec: InputSpec, quantization: Quantization, dtype: np.dtype[Any]) -> Callable[[Array, Item], Array]:
    if quantization.channels != 1 or quantization.block is not None or dtype.itemsize > 4:
        raise BadInput(
            f"input {spec.name!r} is quantised with several scales or to {dtype}, which can't be prepared",
            advice=f"give data that is {dtype} already and no steps, in a model without that quantisation",
        )
    scale, zero_point = quantization.scale, quantization.zero_point
    if not (isfinite(scale) and scale > 0):
        raise BadInput(f"input {spec.name!r} is quantised with a scale of {scale}", advice="export the model again")

    def convert(data: Array, item: Item) -> Array:
        if data.dtype == dtype:
            return data
        if data.dtype.kind != "f":
            raise BadInput(
                f"{item.sample} is {data.dtype}, input {spec.name!r} is {dtype}, which represents real numbers",
                advice=SAY_HOW,
            )
        check_finite(data, item.sample, "what it became")
        return quantize(data, scale, zero_point, dtype)

    return convert


def _make_real(spec: InputSpec, dtype: np.dtype[Any]) -> Callable[[Array, Item], Array]:
    def convert(data: Array, item: Item) -> Array:
        if data.dtype.kind != "f" and (data.max() > 1 or data.min() < 0):
            raise BadInput(
                f"{item.sample} is {data.dtype} with values outside 0 to 1, input {spec.name!r} takes {dtype}, and "
                "no step converts them to real numbers",
                advice=SAY_HOW,
            )
        found = data.astype(dtype, copy=False)
        check_finite(found, item.sample, f"what it became as {dtype}")
        return found

    return convert


def _make_whole(spec: InputSpec, dtype: np.dtype[Any]) -> Callable[[Array, Item], Array]:
    def convert(data: Array, item: Item) -> Array:
        if data.dtype == dtype:
            return data
        if data.dtype.kind == "f":
            raise BadInput(
                f"{item.sample} is {data.dtype}, input {spec.name!r} takes {dtype}",
                advice=f"round it: --prepare cast={dtype}",
            )
        try:
            return round_to(data, spec.dtype)
        except OverflowError:
            raise BadInput(
                f"{item.sample} has values from {data.min()} to {data.max()}, input {spec.name!r} takes {dtype}",
                advice="bring them into its range: --prepare offset=… cast=…",
            ) from None

    return convert


def fit_shape(data: Array, spec: InputSpec, item: Item) -> Array:
    """`data` in the input's shape, where the two differ by axes of size 1 only, which move no value.

    Raises:
        BadInput: they differ in anything else: both shapes, and the step that would change that.
    """
    if [size for size in data.shape if size != 1] == [size for size in spec.shape if size != 1]:
        return data.reshape(spec.shape)
    raise BadInput(
        f"{item.sample} has shape {list(data.shape)}, input {spec.name!r} takes {list(spec.shape)}",
        advice=advise_shape(data.shape, spec.shape, item),
    )


def advise_shape(have: tuple[int, ...], want: tuple[int, ...], item: Item) -> str:
    """Steps that would bring one shape to the other, where that is clear."""
    body = list(want)
    while len(body) > len(have) and body[0] == 1:
        body.pop(0)
    if len(have) == len(body) == 3:
        if [have[2], have[0], have[1]] == body and item.channels != 0:
            return "--prepare layout=nchw"
        if [have[1], have[2], have[0]] == body:
            return "--prepare transpose=1,2,0"
    if item.pixels is not None and (steps := _advise_image(item, list(want))):
        return "--prepare " + " ".join(steps)
    if item.rate is not None and len(have) <= 2:
        mono = "mono " if len(have) == 2 and have[1] > 1 else ""
        return f"--prepare {mono}length={prod(want)}, or log_mel or mfcc where the model takes features"
    if prod(have) == prod(want):
        return f"--prepare reshape={','.join(map(str, body))}, if that is the order of its values"
    if len(have) == len(body) == 1 or (len(have) == 2 and len(body) == 2 and have[1] == body[1]):
        return f"--prepare length={body[0]}, if it may be cut or padded"
    return "is it the right data? Steps such as resize=HEIGHT,WIDTH, length=N, transpose=… and reshape=… change shapes"


def _advise_image(item: Item, want: list[int]) -> list[str]:
    """For an image: colours, then size, then layout; nothing where the input takes no image."""
    body = want[-3:] if len(want) >= 3 else [*want, 1]
    if item.pixels is None or len(body) != 3 or prod(want) != prod(body):
        return []
    last = body[2] in _COLOURS and not (body[0] in _COLOURS and item.channels == 0)
    if not last and body[0] not in _COLOURS:
        return []
    height, width, channels = body if last else (body[1], body[2], body[0])
    first_now = item.channels == 0
    have = item.data.shape[item.channels] if item.channels is not None and item.data.ndim == 3 else 1
    steps = []
    if have != channels and channels in (1, 3):
        steps.append("color=gray" if channels == 1 else "color=rgb")
    if item.pixels != (width, height):
        steps.append(f"resize={height},{width}")
    if not last and channels > 1 and (steps or not first_now):
        steps.append("layout=nchw")
    return steps
