"""One input of a model: its steps, and from their value to its shape and type.

What no step does is not done: nothing is resized, broadcast or guessed. The channels of pictures go first where the
input has them there and can't have them elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any

import numpy as np

from edgewise.errors import BadInput, BadPreparation
from edgewise.evaluating.dataset import CorruptSample, Kind
from edgewise.evaluating.step_settings import Item, Step
from edgewise.evaluating.steps_array import Layout, check_finite, round_to
from edgewise.evaluating.steps_image import recolour
from edgewise.model.graph import Quantization
from edgewise.record import InputSpec
from edgewise.workload.arrays import Array
from edgewise.workload.input_shapes import open_axes

SAY_HOW = "convert them: ⟦prepare=scale=1/255⟧, or mean=… and std=…, or cast=float32 to keep the values"
_SCALE = "scale=1/255"
_OTHER_SCALES = f"instead of {_SCALE} also mean=… and std=…, as in training"
_TOKENIZE = "text is tokenized first: ⟦prepare=tokenize=tokenizer.json⟧"
_NOUNS: dict[str, str] = {"array": "arrays", "image": "images", "audio": "sound", "text": "text"}
_COLOURS = {1: "grey", 3: "RGB", 4: "RGB with alpha"}
_MOST_PADDED = 2
"""Sizes of a picture up to which an input that is larger suggests padding."""
_ORDERING = ("layout", "transpose", "reshape", "flatten")
"""Steps after which the order of axes is the user's."""


class UnconvertedPixels(BadInput):
    """No step converts pixels to the numbers that an input takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlan:
    """The preparation of one input: its steps, then its shape and type.

    Attributes:
        spec: what the model is fed; its leading dimension is that of one sample.
        quantization: None where the input is not quantised.
    """

    spec: InputSpec
    quantization: Quantization | None
    steps: Sequence[Step]

    def check(self, kind: Kind) -> None:
        """Raise what needs no sample.

        `kind`: of the samples.

        Raises:
            BadInput: steps that don't fit the kind or the input, none that converts text or pixels to numbers, or a
                quantisation that can't be applied to a whole input.
            Unavailable: a step's package is not installed.
        """
        where = f"input {self.spec.name!r}"
        for step in self.steps:
            if kind not in step.takes:
                raise BadInput(
                    f"{where}: the step {step.name} can't be done to {_NOUNS[kind]}",
                    advice=_TOKENIZE
                    if kind == "text"
                    else f"it takes {' or '.join(_NOUNS[each] for each in step.takes)}",
                )
            step.check()
            kind = step.gives or kind
        if kind == "text":
            raise BadInput(f"{where} takes {self.spec.dtype}, and no step converts text to numbers", advice=_TOKENIZE)
        dtype = np.dtype(self.spec.dtype)
        stands_for_real = dtype.kind == "f" or (self.quantization is not None and dtype != np.uint8)
        if kind == "image" and stands_for_real and not any(step.real for step in self.steps):
            raise UnconvertedPixels(
                f"{where} takes {dtype}, and no step converts pixels of 0 to 255 to its numbers", advice=SAY_HOW
            )
        if self.quantization is None or dtype.kind not in "iu":
            return
        scale = self.quantization.scale
        if self.quantization.channels != 1 or self.quantization.block is not None or dtype.itemsize > 4:
            raise BadInput(
                f"{where} is quantised with several scales or to {dtype}, which can't be prepared",
                advice=f"give data that is {dtype} already and no steps, in a model without that quantisation",
            )
        if not (isfinite(scale) and scale > 0):
            raise BadInput(f"{where} is quantised with a scale of {scale}", advice="export the model again")

    @property
    def channels(self) -> int | None:
        """How many colour channels a picture needs, 1 or 3; None where a step sets its colours, or it is not clear."""
        names = [step.name for step in self.steps]
        shape, free = self.spec.shape, open_axes(self.spec)
        if "color" in names or len(shape) not in (3, 4):
            return None
        if len(shape) == 3 and not {shape[0], shape[2]} & {1, 3}:
            return None
        if len(shape) == 3 and shape[0] == 1 and shape[2] != 3:
            return 1  # a batch of one, without an axis of channels
        found = [axis for axis in (len(shape) - 1, len(shape) - 3) if shape[axis] in (1, 3) and axis not in free]
        # Of an input such as [1, 3, 40, 1] the steps tell which it is: pixels come with their channels last.
        moved = {"layout", "transpose"} & set(names)
        return shape[found[-1 if moved else 0]] if found else None

    def recolour(self, item: Item, stored: str) -> None:
        """Bring a picture to the channels that the input needs, as Pillow's ``convert`` does.

        `stored`: colours of its file, where they are others than those of its pixels.
        """
        if item.channels is None or item.data.shape[2] not in (1, 3, 4):
            return
        count = item.data.shape[2]
        wanted = self.channels or count
        if wanted != count:
            if count == 4 and (item.data[..., 3] < 255).any():
                item.changes.append("with transparency dropped")
            item.data = recolour(item.data, wanted)
        have, becomes = stored or _COLOURS[count], _COLOURS[wanted]
        if have != becomes:
            item.changes.append(f"converted from {have} to {becomes}")

    def refuse_pixels(self, item: Item) -> BadPreparation:
        """Return the error that names all missing steps of a picture whose pixels lack a conversion.

        Raises `BadInput`, `CorruptSample`: the steps that there are can't be done to it.
        """
        stored = list(item.data.shape)
        for step in self.steps:
            step.apply(item)
        steps = [] if open_axes(self.spec) - {0} else _advise_image(item, list(self.spec.shape))
        if not steps:
            return BadPreparation(
                f"input {self.spec.name!r} takes {self.spec.dtype}, and no step converts pixels of 0 to 255 to its "
                "numbers",
                steps=[_SCALE],
                otherwise=f"; {_OTHER_SCALES}",
            )
        steps.insert(len(steps) - int(steps[-1].startswith("layout=")), _SCALE)
        return BadPreparation(
            f"{item.sample} has shape {stored}, input {self.spec.name!r} takes {self.spec.dtype} "
            f"{list(self.spec.shape)}, and no step converts pixels of 0 to 255 to its numbers",
            steps=steps,
            otherwise=f"{_other_sizes(steps, item)}; {_OTHER_SCALES}",
        )

    def describe(self) -> str:
        """Return all steps and the input's type on one line."""
        spec, quantization = self.spec, self.quantization
        done = ", ".join(step.describe() for step in self.steps) or "fed as stored"
        sizes = ["?" if axis in open_axes(spec) else str(size) for axis, size in enumerate(spec.shape)]
        end = f"{spec.dtype} [{', '.join(sizes)}]" + (", each sample in its own size, unpadded" if "?" in sizes else "")
        if quantization is not None and not spec.dtype.startswith("float"):
            zero = quantization.zero_point
            end += f" by round(x / {quantization.scale:.6g}) {'+' if zero >= 0 else '−'} {abs(zero)}"
            if not any(step.real for step in self.steps):
                end += f"; data that is {spec.dtype} goes in as it is"
        return f"{spec.name}: {done} → {end}"

    def apply(self, item: Item) -> Array:
        """Return the sample in exactly the input's shape and type, contiguous.

        Where the size of an open dimension was assumed a sample keeps its own.

        Raises:
            BadInput, CorruptSample.
        """
        for step in self.steps:
            step.apply(item)
        data, want = item.data, self.spec.shape
        if not data.size:
            raise CorruptSample(item.sample, "it is empty")
        shape = _fit_shape(data.shape, want, open_axes(self.spec))
        # Axes of size 1 may come and go, which moves no value.
        if shape == want and [size for size in data.shape if size != 1] != [size for size in want if size != 1]:
            raise BadInput(
                f"{item.sample} has shape {list(data.shape)}, input {self.spec.name!r} takes {list(want)}",
                advice=_advise_shape(data.shape, want, item),
            )
        return np.ascontiguousarray(self._convert(data.reshape(shape), item)).reshape(shape)

    def _convert(self, data: Array, item: Item) -> Array:
        """Return `data` as the input's type."""
        dtype, quantization = np.dtype(self.spec.dtype), self.quantization
        takes = f"{item.sample} is {data.dtype}, input {self.spec.name!r}"
        if dtype.kind == "f":
            if data.dtype.kind != "f" and (data.max() > 1 or data.min() < 0):
                raise BadInput(
                    f"{item.sample} is {data.dtype} with values outside 0 to 1, input {self.spec.name!r} takes "
                    f"{dtype}, and no step converts them to real numbers",
                    advice=SAY_HOW,
                )
            found = data.astype(dtype, copy=False)
            check_finite(found, item.sample, f"what it became as {dtype}")
            return found
        if data.dtype == dtype:
            return data
        if quantization is not None and dtype.kind in "iu":
            if data.dtype.kind != "f":
                raise BadInput(f"{takes} is {dtype}, which represents real numbers", advice=SAY_HOW)
            check_finite(data, item.sample, "what it became")
            return quantize(data, quantization.scale, quantization.zero_point, dtype)
        if data.dtype.kind == "f":
            raise BadInput(f"{takes} takes {dtype}", advice=f"round it: ⟦prepare⟧ cast={dtype}")
        try:
            return round_to(data, self.spec.dtype)
        except OverflowError:
            raise BadInput(
                f"{item.sample} has values from {data.min()} to {data.max()}, input {self.spec.name!r} takes {dtype}",
                advice="bring them into its range: ⟦prepare⟧ offset=… cast=…",
            ) from None


def steps_for(steps: Sequence[Step], spec: InputSpec, *, kind: Kind | None) -> tuple[Step, ...]:
    """Return `steps` with the input's layout, where it is left open or the input takes pictures in one layout only.

    Raises `BadInput`: a layout is left to an input that does not tell it.
    """
    found = tuple(step.resolve(spec.name, spec.shape) if isinstance(step, Layout) else step for step in steps)
    orders = any(step.name in _ORDERING or getattr(step, "to", None) == "gray" for step in steps)
    return (
        found
        if orders or kind != "image" or not _has_colours_first(spec.shape)
        else (*found, Layout.model_validate({"to": "nchw"}))
    )


def _fit_shape(have: tuple[int, ...], want: tuple[int, ...], free: frozenset[int]) -> tuple[int, ...]:
    """Return `have` with the leading dimensions of 1 of `want`, where only `free` dimensions differ; else `want`."""
    found = (1,) * (len(want) - len(have)) + have
    fits = len(found) == len(want) and all(
        axis in free or size == wanted for axis, (size, wanted) in enumerate(zip(found, want, strict=True))
    )
    return found if fits and want[: len(want) - len(have)] == found[: len(want) - len(have)] else want


def quantize(values: Array, scale: float, zero_point: int, dtype: np.dtype[Any]) -> Array:
    """Return integers for real numbers: round(x / scale) + zero point, ties to even, cut at the type's bounds.

    As ONNX QuantizeLinear. Saturation is not reported.
    """
    limits = np.iinfo(dtype)
    work = np.float32 if dtype.itemsize <= 2 else np.float64
    # The bounds go before the offset, where they are exact: 2³¹ − 1 is no float32.
    steps: Array = np.rint(values.astype(work, copy=False) / np.asarray(scale, dtype=work))
    np.clip(steps, float(limits.min) - zero_point, float(limits.max) - zero_point, out=steps)
    return np.asarray(steps + np.asarray(zero_point, dtype=work)).astype(dtype)


def _advise_shape(have: tuple[int, ...], want: tuple[int, ...], item: Item) -> str:
    """Return steps that would bring one shape to the other, where that is clear."""
    body = list(want)
    while len(body) > len(have) and body[0] == 1:
        body.pop(0)
    if len(have) == len(body) == 3:
        if [have[2], have[0], have[1]] == body and item.channels != 0:
            return f"⟦prepare⟧ layout={'auto' if _has_colours_first(body) else 'nchw'}"
        if [have[1], have[2], have[0]] == body:
            if item.channels == 0:
                return "⟦prepare=layout=auto⟧ instead of layout=nchw: each file gets its own layout"
            return "⟦prepare=transpose=1,2,0⟧"
    if item.pixels is not None and (steps := _advise_image(item, list(want))):
        return " ".join(f"⟦prepare⟧ {step}" for step in steps) + _other_sizes(steps, item)
    if item.rate is not None and len(have) <= 2:
        return f"⟦prepare⟧ length={prod(want)}, or log_mel or mfcc where the model takes features"
    if prod(have) == prod(want):
        return f"⟦prepare⟧ reshape={','.join(map(str, body))}, if that is the order of its values"
    if len(have) == len(body) == 1 or (len(have) == 2 and len(body) == 2 and have[1] == body[1]):
        return f"⟦prepare⟧ length={body[0]}, if it may be cut or padded"
    return "is it the right data? Steps such as resize=HEIGHT,WIDTH, length=N, transpose=… and reshape=… change shapes"


def _other_sizes(steps: Sequence[str], item: Item) -> str:
    """Return in words the other usual steps to the size of a resize or pad step; "" where there is none.

    Training decides which one is right, and another step can cost much accuracy.
    """
    step = next((step for step in steps if step.startswith(("resize=", "pad="))), None)
    if step is None or item.pixels is None:
        return ""
    name, _, size = step.partition("=")
    height, width = map(int, size.split(","))
    done, other = "stretched", f"resize={max(height, width) * 8 // 7} and crop={size} (centre cut out)"
    if name == "pad":
        done, other = "padded", f"resize={size} (stretched)"
    elif item.pixels[0] <= width and item.pixels[1] <= height:
        other = f"pad={size} (padded)"
    return (
        f" if training {done} pictures to that size; otherwise, as in training, {other} or letterbox={size} "
        f"(scaled and padded) instead of {step}: another way than in training costs accuracy"
    )


def _advise_image(item: Item, want: list[int]) -> list[str]:
    """Return steps for an image: colours, then size, then layout; none where the input takes no image."""
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
        # A picture a little smaller than the input was likely padded.
        pads = all(have <= size <= _MOST_PADDED * have for have, size in zip(item.pixels, (width, height), strict=True))
        steps.append(f"{'pad' if pads else 'resize'}={height},{width}")
    if not last and channels > 1 and not _has_colours_first(body) and (steps or not first_now):
        steps.append("layout=nchw")
    return steps


def _has_colours_first(shape: Sequence[int]) -> bool:
    """Return whether an input of this shape has three colours first, and can't have colours last."""
    return len(shape) in (3, 4) and shape[-3] == 3 and shape[-1] not in (1, 3)
