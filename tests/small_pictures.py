"""Pictures in data URIs, read back."""

from __future__ import annotations

import base64
import io
from urllib.parse import unquote

import numpy as np
from PIL import Image

from edgewise.optimizing.thumbnails import MOST_CHARACTERS


def pixels_of(uri: str) -> tuple[np.ndarray, str]:
    """Pixels and format of a picture that is not too long."""
    head, _, text = uri.partition(",")
    assert "/" not in text and len(uri) <= MOST_CHARACTERS
    image = Image.open(io.BytesIO(base64.b64decode(unquote(text), validate=True)))
    assert head == f"data:image/{image.format.lower()};base64"
    return np.asarray(image), image.format
