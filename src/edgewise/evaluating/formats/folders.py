"""Images in folders: one folder a class, or images beside masks of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset, Sample
from edgewise.evaluating.formats.class_folders import (
    find_split_folders,
    label_by_prefix,
    list_classes,
    relate_to,
)
from edgewise.evaluating.formats.images import decode_image, require_pillow
from edgewise.evaluating.formats.listing import IMAGES
from edgewise.evaluating.formats.masks import find_mask_folders, open_masks
from edgewise.evaluating.formats.recognition import recognise
from edgewise.evaluating.formats.split import Split, check_options, choose, stamp_files


@dataclass(kw_only=True)
class ImageFiles(Split):
    """Images of one split; decoded when they are read.

    Attributes:
        root: what `files` are relative to.
        labels: index of the class of each; None where nothing says it.
    """

    root: Path
    files: Sequence[str]
    labels: Sequence[int] | None

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        """The sample, decoded now. Raises `CorruptSample`."""
        name = self.files[index]
        label = None if self.labels is None else self.labels[index]
        return Sample(index=index, name=name, data=decode_image(self.root / name, name), label=label)

    def stamp(self) -> str:
        """From names, sizes and times."""
        return stamp_files(self.root, self.files, extra=(self.classes, self.labelled))


class Folders:
    """Class folders of images, split by ``train``, ``val``, ``test`` … above them where there are such, and images with
    masks. Classes are numbered in the order of their names, as most trainers do it: ``10`` stands before ``2``.

    Options: ``label`` = folder, prefix (the name up to its first underscore) or none; ``sort`` = name or number;
    ``masks``, the folder of the masks; ``suffix``, what a mask's name has after the image's.
    """

    name = "folders"
    title = "class folders of images, or images and masks"

    def matches(self, path: Path) -> bool:
        """Whether it looks like one."""
        return recognise(path) == self.name

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Its splits. Raises `BadInput`, `Unavailable`."""
        check_options(options, known=("label", "sort", "masks", "suffix"), form=self.name)
        by = choose(options, "label", ("folder", "prefix", "none")) or "folder"
        by_number = choose(options, "sort", ("name", "number")) == "number"
        if not path.is_dir():
            raise BadInput(f"{path} is no folder", advice="give the folder that holds a folder for every class")
        require_pillow()
        pairs = find_mask_folders(path, options.get("masks"))
        if pairs:
            return open_masks(path, pairs, suffix=options.get("suffix", ""))
        if "suffix" in options:
            raise BadInput(f"{path} has no masks, which suffix= is about", advice="name their folder with masks=")
        splits = find_split_folders(path)
        listed, classes = (
            label_by_prefix(splits, IMAGES) if by == "prefix" else list_classes(splits, IMAGES, by_number=by_number)
        )
        if not any(len(found.files) for found in listed.values()):
            raise BadInput(f"{path} holds no images", advice="is it the right folder? Its sub-folders are the classes")
        relate_to(path, listed)
        return {
            split: ImageFiles(
                name=path.name,
                path=path,
                format=self.name,
                split=split,
                kind="image",
                classes=classes if found.labels is not None and by != "none" else (),
                labelled=found.labels is not None and by != "none",
                root=path,
                files=found.files,
                labels=found.labels if by != "none" else None,
            )
            for split, found in listed.items()
        }
