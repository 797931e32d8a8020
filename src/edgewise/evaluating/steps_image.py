"""Steps for images: arrays of (height, width) or (height, width, channels), uint8 pixels or real numbers.

Resizing is Pillow's: its filters widen when an image shrinks (antialiasing), as torchvision's and TensorFlow's
``antialias=True`` do and as OpenCV's ``INTER_LINEAR`` and TensorFlow's default do not. Every step that moves pixels
keeps account of where they went, so that boxes can be brought back: x now = x as stored × scale + offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Kind
from edgewise.evaluating.formats.images import require_pillow
from edgewise.evaluating.step_settings import LOWER_CASE, HeightWidth, Item, Number, SideOrSize, Step, YesNo, to_number
from edgewise.workload.arrays import Array

Filter = Annotated[Literal["nearest", "bilinear", "bicubic", "lanczos"], LOWER_CASE]
MAX_CHANNELS = 4
"""Of an array that is taken for an image; more channels than that are axes in another order."""
MAX_PIXELS = 2**28
"""Of an image that a step may make: a panorama scaled by its shorter side grows without bound."""

_Place = Annotated[Literal["centre", "corner"], LOWER_CASE]
_Colors = Annotated[Literal["rgb", "bgr", "gray"], LOWER_CASE]
_KINDS: tuple[Kind, ...] = ("image", "array")


def resize_pixels(pixels: Array, size: tuple[int, int], filtering: str) -> Array:
    """Return `pixels` (height, width[, channels]) at `size` (height, width), by Pillow's filter of that name.

    uint8 stays uint8, rounded by Pillow; everything else is float32, channel by channel.
    """
    from PIL import Image

    method = Image.Resampling[filtering.upper()]
    height, width = size
    if pixels.shape[:2] == size:
        return pixels
    plain = pixels.dtype == np.uint8 and (pixels.ndim == 2 or pixels.shape[2] == 3)
    if plain:
        return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height), method))
    # Pillow takes a fourth channel for alpha and has no images of two: each channel is resized as an image of its own.
    planes = pixels[..., None] if pixels.ndim == 2 else pixels
    if planes.dtype != np.uint8:
        planes = planes.astype(np.float32)
    done = [
        np.asarray(Image.fromarray(np.ascontiguousarray(planes[..., channel])).resize((width, height), method))
        for channel in range(planes.shape[2])
    ]
    return done[0] if pixels.ndim == 2 else np.stack(done, axis=2)


def size_by_shorter(height: int, width: int, side: int) -> tuple[int, int]:
    """Return (height, width) with the shorter one `side` and the aspect kept, the longer one rounded down.

    As torchvision.transforms.Resize: ``int(size * long / short)``.
    """
    if height <= width:
        return side, side * width // height
    return side * height // width, side


def to_gray(pixels: Array) -> Array:
    """Return ITU-R BT.601 luma of RGB, (height, width, 1): 0.299 R + 0.587 G + 0.114 B.

    uint8 in Pillow's fixed point (Image.convert("L")): (19595 R + 38470 G + 7471 B + 2¹⁵) >> 16.
    """
    if pixels.dtype == np.uint8:
        weights = np.array([19595, 38470, 7471], dtype=np.uint32)
        return ((pixels.astype(np.uint32) @ weights + 0x8000) >> 16).astype(np.uint8)[..., None]
    return (pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], dtype=np.float32))[..., None]


def recolour(pixels: Array, channels: int) -> Array:
    """Bring `pixels` (height, width, 1, 3 or 4) to gray (1 channel) or RGB (3); a fourth channel is dropped."""
    count = pixels.shape[2]
    if channels == 1:
        return pixels if count == 1 else to_gray(pixels[..., :3])
    return np.repeat(pixels, 3, axis=2) if count == 1 else pixels[..., :3]


def _check_image(item: Item) -> tuple[int, int]:
    """Return (height, width) of an item that is an image. Raises `BadInput`."""
    data = item.data
    flat = data.ndim == 2
    last = data.ndim == 3 and item.channels in (None, -1, 2) and data.shape[2] <= MAX_CHANNELS
    if not (flat or last) or not data.size:
        raise BadInput(
            f"{item.sample} has shape {list(data.shape)}, not an image of (height, width[, channels])",
            advice="put steps on images before layout, transpose and reshape; an array with channels first needs "
            "transpose=1,2,0 first",
        )
    if item.stored is None:
        item.stored = item.pixels = (data.shape[1], data.shape[0])
    return data.shape[0], data.shape[1]


def _moved(item: Item, scale: tuple[float, float], shift: tuple[int, int]) -> None:
    """Keep account of a step: what was at x is now at x × scale + shift."""
    item.scale = (item.scale[0] * scale[0], item.scale[1] * scale[1])
    item.offset = (item.offset[0] * scale[0] + shift[0], item.offset[1] * scale[1] + shift[1])
    if item.pixels is not None:
        item.pixels = (item.data.shape[1], item.data.shape[0])


def _scale_to(item: Item, size: tuple[int, int], filtering: str) -> None:
    height, width = _check_image(item)
    if size[0] * size[1] > MAX_PIXELS:
        raise CorruptSample(item.sample, f"{width}×{height} pixels would become {size[1]}×{size[0]}")
    item.data = resize_pixels(item.data, size, filtering)
    _moved(item, (size[1] / width, size[0] / height), (0, 0))


def _check_value(padding: int | float | str, item: Item) -> None:
    value = to_number(padding)
    if item.data.dtype == np.uint8 and not (0 <= value <= 255 and value == int(value)):
        raise BadInput(
            f"padding of {value} does not fit pixels of 0 to 255", advice="give a whole number, or pad later"
        )


def _pad(item: Item, size: Sequence[int], value: int | float | str, place: str) -> None:
    """Put the image on an area of `value` of `size` (height, width): in its centre, an odd pixel right and below it,
    or in its upper left corner.
    """
    (height, width), (tall, wide) = item.data.shape[:2], size
    top, left = ((tall - height) // 2, (wide - width) // 2) if place == "centre" else (0, 0)
    ground = np.full((tall, wide, *item.data.shape[2:]), to_number(value), dtype=item.data.dtype)
    ground[top : top + height, left : left + width] = item.data
    item.data = ground
    _moved(item, (1.0, 1.0), (left, top))


def letterbox_size(height: int, width: int, size: tuple[int, int], *, enlarge: bool) -> tuple[int, int]:
    """Return (height, width) of an image of that size once it is scaled, aspect kept, to fit within `size`.

    Each side is rounded to the nearest pixel and at least 1, as in Ultralytics' LetterBox.
    """
    ratio = min(size[0] / height, size[1] / width)
    if not enlarge:
        ratio = min(ratio, 1.0)
    return min(size[0], max(1, round(height * ratio))), min(size[1], max(1, round(width * ratio)))


class Resize(Step, name="resize", main="size", takes=_KINDS):
    """Scale the shorter side to a length, or both sides to height,width whatever the aspect."""

    size: SideOrSize = Field(description="pixels of the shorter side, or of height,width")
    filter: Filter = Field("bilinear", description="Pillow's filter, antialiased")

    def _check(self) -> None:
        require_pillow()

    def _apply(self, item: Item) -> None:
        height, width = _check_image(item)
        size = size_by_shorter(height, width, self.size) if isinstance(self.size, int) else (self.size[0], self.size[1])
        _scale_to(item, size, self.filter)


class Crop(Step, name="crop", main="size", takes=_KINDS):
    """Cut out the centre."""

    size: HeightWidth = Field(description="pixels of height,width; one number is both")

    def _apply(self, item: Item) -> None:
        height, width = _check_image(item)
        tall, wide = self.size
        if height < tall or width < wide:
            raise CorruptSample(
                item.sample, f"{width}×{height} pixels can't be cropped to {wide}×{tall}; resize or pad it first"
            )
        # Half a pixel goes to the even side, as in torchvision.transforms.CenterCrop.
        top, left = round((height - tall) / 2), round((width - wide) / 2)
        item.data = item.data[top : top + tall, left : left + wide]
        _moved(item, (1.0, 1.0), (-left, -top))


class Letterbox(Step, name="letterbox", main="size", takes=_KINDS):
    """Scale to fit, keeping the aspect, and pad the rest."""

    size: HeightWidth = Field(description="pixels of height,width; one number is both")
    filter: Filter = Field("bilinear", description="Pillow's filter, antialiased")
    place: _Place = Field("centre", description="where the image goes on the padded area")
    value: Number = Field(114, description="of the padding")
    enlarge: YesNo = Field(True, description="whether small images are scaled up")

    def _check(self) -> None:
        require_pillow()

    def _apply(self, item: Item) -> None:
        height, width = _check_image(item)
        _check_value(self.value, item)
        fitting = letterbox_size(height, width, (self.size[0], self.size[1]), enlarge=self.enlarge)
        _scale_to(item, fitting, self.filter)
        _pad(item, self.size, self.value, self.place)


class Pad(Step, name="pad", main="size", takes=_KINDS):
    """Pad to a larger size."""

    size: HeightWidth = Field(description="pixels of height,width; one number is both")
    place: _Place = Field("centre", description="where the image goes on the padded area")
    value: Number = Field(0, description="of the padding")

    def _apply(self, item: Item) -> None:
        height, width = _check_image(item)
        _check_value(self.value, item)
        tall, wide = self.size
        if height > tall or width > wide:
            advice = "resize or crop it first"
            if height > tall and width > wide:
                advice = f"pad takes the size to reach, such as {height + 2 * tall},{width + 2 * wide}"
            raise CorruptSample(item.sample, f"{width}×{height} pixels can't be padded to {wide}×{tall}; {advice}")
        _pad(item, self.size, self.value, self.place)


class Color(Step, name="color", main="to", takes=_KINDS):
    """RGB, BGR or gray (ITU-R BT.601), from RGB as stored."""

    to: _Colors = Field(description="colours")

    def _apply(self, item: Item) -> None:
        _check_image(item)
        pixels = item.data[..., None] if item.data.ndim == 2 else item.data
        count = pixels.shape[2]
        if count not in (1, 3, 4):
            raise BadInput(
                f"{item.sample} has {count} channels, which are not colours", advice="1 (gray), 3 or 4 (RGBA)"
            )
        found = recolour(pixels, 1 if self.to == "gray" else 3)
        item.data = found[..., ::-1] if self.to == "bgr" else found
        item.channels = -1


class Invert(Step, name="invert", takes=_KINDS):
    """255 − x."""

    def _apply(self, item: Item) -> None:
        if item.data.dtype != np.uint8:
            raise BadInput(
                f"{item.sample} is {item.data.dtype}: invert is 255 − x of uint8 pixels",
                advice="put it before steps that make real numbers",
            )
        item.data = 255 - item.data


STEPS: tuple[type[Step], ...] = (Resize, Crop, Letterbox, Pad, Color, Invert)
