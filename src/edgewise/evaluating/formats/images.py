"""Image files to arrays, with Pillow: upright pixels, and masks as stored."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import Unavailable
from edgewise.evaluating.dataset import CorruptSample, Decoded
from edgewise.text import first_line

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

MAX_PIXELS = 2**27
"""Of one image, 134 megapixels: what a file's first bytes may make us unpack."""
#: No format that runs another program or a language of its own, as EPS does.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_ORIENTATION = 0x0112
_MODES = {
    "1": "1-bit", "L": "grey", "LA": "grey with alpha", "La": "grey with alpha", "P": "palette", "PA": "palette",
    "RGBA": "RGB with alpha", "RGBa": "RGB with alpha", "I": "16-bit grey",
}  # fmt: skip
"""Pillow's modes in words."""


def require_pillow() -> None:
    """Raise `Unavailable` where Pillow is not installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise Unavailable("images need Pillow", advice="pip install 'edgewise[data]'") from error


def decode_image(source: Path | bytes, name: str, *, stored_size: tuple[int, int] | None = None) -> Decoded:
    """Return the pixels of an image, upright: uint8 of shape (height, width, 3), or (height, width, 1) of a grey one.

    Palettes become colours and transparency is dropped; of 16 bits of grey the upper 8 are kept. The first picture of
    several counts. What a camera noted of its orientation is applied. `Decoded.stored` and `Decoded.changes` name
    each of these.

    Args:
        source: a file, or its bytes.
        name: of the sample, for errors.
        stored_size: (width, height) that labels refer to; where only the image before rotation has this size,
            its orientation is not applied.

    Raises:
        CorruptSample: no image, damaged, of another size than `stored_size`, or of more than `MAX_PIXELS`.
        Unavailable: Pillow is not installed.
    """
    with _opened(source, name) as image:
        frames, upright = getattr(image, "n_frames", 1), _turn_upright(image, stored_size)
        found = picture_to_array(upright, name)
        height, width = found.data.shape[:2]
        if stored_size is not None and (width, height) != stored_size:
            raise CorruptSample(name, f"the image is {width}x{height}, its label {stored_size[0]}x{stored_size[1]}")
        turned = ("turned upright as their cameras noted",) if upright is not image else ()
        first = ("reduced to the first of several frames",) if frames > 1 else ()
        return found._replace(changes=(*found.changes, *first, *turned))


def decode_mask(source: Path | bytes, name: str) -> Array:
    """Return class indices per pixel, (height, width), as they are stored: a palette's numbers, not its colours.

    Raises:
        CorruptSample: no image, damaged, too large, or colours instead of indices.
        Unavailable: Pillow is not installed.
    """
    import numpy as np

    with _opened(source, name) as image:
        if image.mode not in ("P", "L", "1", "I", "I;16", "I;16B"):
            raise CorruptSample(name, f"the mask holds colours ({image.mode}): a class's index per pixel is needed")
        image.load()
        return np.asarray(image).astype(np.uint8 if image.mode in ("P", "L", "1") else np.int32)


@contextmanager
def _opened(source: Path | bytes, name: str) -> Iterator[Any]:
    """Open the image without unpacking it; any error inside becomes a `CorruptSample`."""
    require_pillow()
    from PIL import Image

    try:
        if isinstance(source, Path) and not source.is_file():
            raise CorruptSample(name, "no such file")
        # Pillow warns of odd metadata and of sizes; the limit here is our own.
        with (
            warnings.catch_warnings(action="ignore"),
            Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=_FORMATS) as image,
        ):
            if image.width * image.height > MAX_PIXELS:
                raise CorruptSample(
                    name, f"{image.width}x{image.height} pixels are more than the {MAX_PIXELS} of the limit"
                )
            yield image
    except (CorruptSample, Unavailable):
        raise
    except Image.UnidentifiedImageError as error:
        raise CorruptSample(name, "not an image that can be read") from error
    except Image.DecompressionBombError as error:
        raise CorruptSample(name, f"more pixels than the {MAX_PIXELS} of the limit") from error
    except Exception as error:  # decoders of damaged files raise errors of every kind
        raise CorruptSample(name, f"damaged image: {first_line(error)}") from error


def _turn_upright(image: Any, stored_size: tuple[int, int] | None) -> Any:
    from PIL import ImageOps

    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # with damaged metadata the pixels may still be fine
        image.load()
        return image
    if orientation not in range(2, 9):
        return image
    if orientation in (5, 6, 7, 8) and stored_size == image.size != (image.height, image.width):
        return image
    return ImageOps.exif_transpose(image)


def picture_to_array(image: Any, name: str) -> Decoded:
    """Return the pixels of a picture of Pillow as `decode_image` gives them. Raises `CorruptSample`."""
    import numpy as np

    mode = str(image.mode)
    stored = "16-bit grey" if mode.startswith("I;16") else _MODES.get(mode, mode)
    if mode.startswith("I;16") or (mode == "I" and image.format in ("PNG", "PPM", None)):
        return Decoded((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)[:, :, None], stored=stored)
    if mode in ("I", "F"):
        raise CorruptSample(name, f"pixels of the mode {mode} have no range that is known")
    changes = ("with transparency dropped",) if _is_transparent(image) else ()
    if mode in ("1", "L", "LA", "La"):
        grey = np.array(image.convert("LA" if mode == "La" else mode).convert("L"))[:, :, None]
        return Decoded(grey, stored="" if mode == "L" else stored, changes=changes)
    if mode in ("P", "PA"):
        image = image.convert("RGBA")
    return Decoded(np.array(image.convert("RGB")), stored="" if mode == "RGB" else stored, changes=changes)


def _is_transparent(image: Any) -> bool:
    """Return whether a pixel of the picture is not fully opaque."""
    if image.mode[-1] not in "aA" and "transparency" not in image.info:
        return False
    shown = image.convert("LA" if image.mode in ("LA", "La") else "RGBA")
    return bool(shown.getextrema()[-1][0] < 255)
