"""Small pictures of samples for pages: data URIs of a bounded size."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgewise.evaluating.dataset import CorruptSample, Dataset, Sample
from edgewise.evaluating.formats.images import require_pillow
from edgewise.optimizing.changed_answers import ChangedSample

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

MOST_CHARACTERS = 4_000
"""Of one data URI."""
_FORMS = (("png", 64), ("jpeg", 96), ("jpeg", 64), ("jpeg", 32))
"""Formats with the longest side, px, in order of preference; PNG only for pictures that are not larger."""
_LEAST = 8
"""Sides of an array that can be a picture, px."""


def draw_thumbnails(data: Dataset, samples: Sequence[ChangedSample]) -> tuple[dict[int, str], str]:
    """Read the samples again and draw each as a small picture.

    Returns:
        Number of the sample → data URI, of those that can be drawn; and how that was done, or why it was not.
    """
    if data.kind in ("audio", "text"):
        return {}, f"No pictures: the samples are {data.kind}"
    pictures: dict[int, str] = {}
    reasons: list[str] = []
    for one in samples:
        try:
            pictures[one.index] = _draw(data.read(one.index), one, is_array=data.kind == "array")
        except Exception as error:  # a loader is the user's code, and no picture is worth the result of a search
            reasons.append(str(error) or type(error).__name__)
    if not pictures:
        return {}, f"No pictures: {reasons[0]}" if reasons else ""
    words = "Pictures: samples as stored, before they are prepared for the model"
    words += "; of arrays other than uint8, black is the lowest value" if data.kind == "array" else ""
    words += f"; {len(reasons)} without a picture: {reasons[0]}" if reasons else ""
    return pictures, words


def _draw(sample: Sample, wanted: ChangedSample, *, is_array: bool) -> str:
    """Return the data URI of a sample. Raises `CorruptSample` where it is no picture or has changed, `Unavailable`."""
    require_pillow()
    import numpy as np
    from PIL import Image

    if sample.digest() != wanted.digest:
        raise CorruptSample(sample.name, "the sample has changed since it was evaluated")
    pixels = _find_pixels(np.asarray(sample.data), sample.name, is_array=is_array)
    # A picture may have 134 megapixels: most are left out before it is scaled.
    step = max(1, max(pixels.shape[:2]) // 1024)
    pixels = _to_bytes(pixels[::step, ::step])
    for form, side in _FORMS:
        image = Image.fromarray(pixels)
        if form == "png" and max(image.size) > side:
            continue
        image.thumbnail((side, side))
        image.save(buffer := io.BytesIO(), form, quality=80)
        # Without "/" no part of the text is taken for a path when paths are removed from a page.
        text = f"data:image/{form};base64,{base64.b64encode(buffer.getvalue()).decode().replace('/', '%2F')}"
        if len(text) <= MOST_CHARACTERS:
            return text
    raise CorruptSample(sample.name, f"its picture takes more than {MOST_CHARACTERS} characters")


def _find_pixels(array: Array, name: str, *, is_array: bool) -> Array:
    """Return the sample as (height, width) or (height, width, 3). Raises `CorruptSample` where it has another shape."""
    import numpy as np

    shape = list(array.shape)
    while is_array and array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if is_array and array.ndim == 3 and array.shape[0] in (3, 4) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[2] in (1, 3, 4):
        array = array[..., 0] if array.shape[2] == 1 else array[..., :3]
    is_picture = array.dtype.kind in "fiub" and (array.ndim == 2 or array.shape[2:] == (3,))
    if not is_picture or min(array.shape[:2]) < (_LEAST if is_array else 1):
        raise CorruptSample(name, f"samples of {array.dtype.name} {shape} are no pictures")
    return array


def _to_bytes(array: Array) -> Array:
    """Return the array as uint8, other types from their lowest value (black) to their highest; values that are NaN
    are 0.
    """
    import numpy as np

    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    real = np.clip(np.nan_to_num(array.astype(np.float64)), -1e300, 1e300)
    low, high = real.min(), real.max()
    return np.asarray(255.0 * ((real - low) / (high - low or 1.0)), dtype=np.uint8)
