"""Images in folders: one folder per class, or images beside masks of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset
from edgewise.evaluating.formats.class_folders import check_folder, open_class_folders
from edgewise.evaluating.formats.images import require_pillow
from edgewise.evaluating.formats.listing import IMAGES
from edgewise.evaluating.formats.masks import find_mask_folders, open_masks
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.split import check_options


class Folders(BuiltInFormat):
    """Class folders of images, split by ``train``, ``val``, ``test`` … above them where there are such, and images with
    masks. Classes are numbered in the order of their names, as most trainers do: ``10`` comes before ``2``.

    Options: ``label`` = folder, prefix (the name up to its first underscore) or none; ``sort`` = name or number;
    ``masks``, the folder of the masks; ``suffix``, what a mask's name has after the image's.
    """

    name = "folders"
    title = "class folders of images, or images and masks"

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Its splits. Raises `BadInput`, `Unavailable`."""
        check_options(options, known=("label", "sort", "masks", "suffix"), form=self.name)
        check_folder(path)
        require_pillow()
        pairs = find_mask_folders(path, options.get("masks"))
        if pairs:
            return open_masks(path, pairs, suffix=options.get("suffix", ""))
        if "suffix" in options:
            raise BadInput(f"{path} has no masks, which suffix= is about", advice="name their folder with masks=")
        return open_class_folders(path, options, form=self.name, kind="image", endings=IMAGES, what="images")
