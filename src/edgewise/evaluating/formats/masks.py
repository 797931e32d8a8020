"""Images with masks: ``images/cat_1.jpg`` and ``masks/cat_1.png``, whose pixels are indices of classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Dataset
from edgewise.evaluating.formats.files import Files
from edgewise.evaluating.formats.images import decode_mask
from edgewise.evaluating.formats.listing import IMAGES, list_folder, walk_files
from edgewise.evaluating.formats.split import ALL, find_split, name_splits
from edgewise.safe_yaml import read_lines, read_text

IMAGE_FOLDER, MASK_FOLDER = "images", "masks"


@dataclass(kw_only=True)
class MaskedImages(Files):
    """Images of one split, each with the classes of its pixels. `masks` are relative to `root`, too."""

    masks: Sequence[str]

    def _label(self, index: int, data: Any) -> Any:
        name = self.files[index]
        mask = decode_mask(self.root / self.masks[index], name)
        if data.shape[:2] != mask.shape:
            raise CorruptSample(
                name, f"the image is {data.shape[1]}x{data.shape[0]}, its mask {mask.shape[1]}x{mask.shape[0]}"
            )
        return mask

    def find_files(self) -> tuple[Path, Iterable[str]]:
        """As `Split.find_files`."""
        return self.root, chain(self.files, self.masks)


def find_mask_folders(root: Path, masks: str | None) -> dict[str, tuple[str, str]]:
    """Return split → its folders of images and of masks, relative to `root`; empty where there are none.

    ``images/`` and ``masks/``, both with the same splits inside or none; or both inside every split. `masks`: the
    folder of the masks, as the user names it. Raises `BadInput`: the folder that the user named does not exist.
    """
    word = masks or MASK_FOLDER
    if Path(word).is_absolute() or ".." in Path(word).parts:
        raise BadInput(f"the folder masks={word} is outside of the data", advice=f"name a folder inside of {root}")
    if (root / IMAGE_FOLDER).is_dir() and (root / word).is_dir():
        inside, _ = list_folder(root / IMAGE_FOLDER)
        words = [name for name in inside if find_split(name)]
        if words and len(words) == len(inside) and all((root / word / name).is_dir() for name in words):
            return {
                split: (f"{IMAGE_FOLDER}/{name}", f"{word}/{name}")
                for split, name in zip(name_splits(words), words, strict=True)
            }
        return {ALL: (IMAGE_FOLDER, word)}
    folders, _ = list_folder(root)
    words = [
        name
        for name in folders
        if find_split(name) and (root / name / IMAGE_FOLDER).is_dir() and (root / name / word).is_dir()
    ]
    if not words and masks is not None:
        raise BadInput(f"{root} has no folders {IMAGE_FOLDER} and {word}", advice="images/ and masks/ side by side")
    return {
        split: (f"{name}/{IMAGE_FOLDER}", f"{name}/{word}")
        for split, name in zip(name_splits(words), words, strict=True)
    }


def open_masks(root: Path, pairs: dict[str, tuple[str, str]], *, suffix: str) -> dict[str, Dataset]:
    """Return the splits of what `find_mask_folders` found.

    `suffix`: what the name of a mask has after that of its image, such as ``_mask``. Raises `BadInput`: no images, or
    one without a mask.
    """
    named = root / "classes.txt"
    classes = tuple(filter(None, read_lines(read_text(named)))) if named.is_file() else ()
    splits: dict[str, Dataset] = {}
    for split, (images, masks) in pairs.items():
        files = list(walk_files(root, images, IMAGES))
        by_stem = {_stem(name, masks): name for name in walk_files(root, masks, IMAGES)}
        wanted = [by_stem.get(_stem(name, images) + suffix) for name in files]
        missing = [name for name, mask in zip(files, wanted, strict=True) if mask is None]
        if missing:
            raise BadInput(
                f"{len(missing)} of {len(files)} images have no mask in {root / masks}, the first: {missing[0]}",
                advice="a mask has its image's name; suffix=_mask if it has more at its end",
            )
        splits[split] = MaskedImages(
            name=root.name, path=root, format="folders", split=split, kind="image", classes=classes,
            labelled=True, root=root, files=files, masks=[mask for mask in wanted if mask is not None],
        )  # fmt: skip
    if not any(len(split) for split in splits.values()):
        raise BadInput(f"{root} holds no images", advice="images/ and masks/ side by side, files of the same names")
    return splits


def _stem(file: str, folder: str) -> str:
    return os.path.splitext(file.removeprefix(f"{folder}/"))[0]  # noqa: PTH122 - a million of them
