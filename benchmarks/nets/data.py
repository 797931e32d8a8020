"""The data of the nets: Fashion-MNIST as a Linux distribution packages it, and noise for graphs that have no data.

Fashion-MNIST (H. Xiao, K. Rasul, R. Vollgraf 2017, MIT licence) is Debian's ``dataset-fashion-mnist``: four IDX files
under ``/usr/share/datasets/fashion-mnist``.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

FASHION = Path("/usr/share/datasets/fashion-mnist")
FILES = tuple(f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
SIDE = 28
NOISE_SIDE = 224


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Attributes:
    pixels: uint8 (n, 1, 28, 28), 0..255.
    labels: int64 (n,), 0..9.
    """

    pixels: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def scaled(self) -> Array:
        """Return what the nets are fed: float32 (n, 1, 28, 28), 0..1."""
        return self.pixels.astype(np.float32) / np.float32(255)


def load_fashion(folder: Path) -> tuple[Images, Images]:
    """60,000 training and 10,000 test images.

    Raises:
        SystemExit: the files are not there, or are not Fashion-MNIST's.
    """
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise SystemExit(f"{folder} lacks {', '.join(missing)}: apt-get install dataset-fashion-mnist, or give --data")
    arrays = [_read_idx(folder / name) for name in FILES]
    shapes = [array.shape for array in arrays]
    if shapes != [(60_000, SIDE, SIDE), (60_000,), (10_000, SIDE, SIDE), (10_000,)]:
        raise SystemExit(f"{folder} holds arrays of {shapes}, which is not Fashion-MNIST")
    train, test = (Images(pixels=arrays[place][:, None], labels=arrays[place + 1].astype(np.int64)) for place in (0, 2))
    return train, test


def _read_idx(path: Path) -> Array:
    """Unsigned bytes of a packed IDX file; see http://yann.lecun.com/exdb/mnist/."""
    content = gzip.decompress(path.read_bytes())
    axes = content[3]
    shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def hash_fashion(folder: Path) -> dict[str, str]:
    """File name → sha256."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def make_noise(count: int, *, seed: int) -> Array:
    """Pictures of nothing, uint8 (count, 3, 224, 224): coloured noise of sides 4, 8, 16 … whose power falls as it does
    in photographs, so that neighbouring pixels are alike and pictures differ.
    """
    random = np.random.default_rng(seed)
    total = np.zeros((count, 3, NOISE_SIDE, NOISE_SIDE), np.float32)
    for cells in (4, 8, 16, 32, 56, 112, 224):
        coarse = random.normal(0, 1, (count, 3, cells, cells)).astype(np.float32)
        places = np.arange(NOISE_SIDE) * cells // NOISE_SIDE
        total += coarse[:, :, places][:, :, :, places] * np.float32((4 / cells) ** 0.5)
    low, high = total.min(axis=(1, 2, 3), keepdims=True), total.max(axis=(1, 2, 3), keepdims=True)
    return np.rint((total - low) / (high - low) * 255).astype(np.uint8)
