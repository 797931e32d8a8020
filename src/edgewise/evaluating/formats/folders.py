"""Images in folders: one folder per class, or images beside masks of the same name; and class folders of any files."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset
from edgewise.evaluating.formats.files import Files
from edgewise.evaluating.formats.images import require_pillow
from edgewise.evaluating.formats.labels import Labels
from edgewise.evaluating.formats.listing import (
    IMAGES,
    UNREADABLE,
    Medium,
    glance_media,
    list_folder,
    suffix_of,
    walk_files,
)
from edgewise.evaluating.formats.masks import find_mask_folders, open_masks
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.split import ALL, find_split, name_splits

CLASS_OPTIONS = {"label": ("folder", "prefix", "none"), "sort": ("name", "number")}
"""Options of class folders, and the words that they take."""


class Folders(BuiltInFormat):
    """Class folders of images, split by ``train``, ``val``, ``test`` … above them where there are such, and images with
    masks. Classes are numbered in the order of their names, as most trainers do: ``10`` comes before ``2``.

    Options: ``label`` = folder, prefix (the name up to its first underscore) or none; ``sort`` = name or number;
    ``masks``, the folder of the masks; ``suffix``, what a mask's name has after the image's.
    """

    name = "folders"
    title = "class folders of images, or images and masks"
    options: ClassVar = {**CLASS_OPTIONS, "masks": (), "suffix": ()}

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        check_folder(path)
        require_pillow()
        pairs = find_mask_folders(path, options.get("masks"))
        if pairs:
            return open_masks(path, pairs, suffix=options.get("suffix", ""))
        if "suffix" in options:
            raise BadInput(f"{path} has no masks, which suffix= is about", advice="name their folder with masks=")
        return open_class_folders(path, options, form=self.name, kind="image", endings=IMAGES, what="images")


@dataclass(slots=True)
class ListedFiles:
    """The files of one split, relative to the data's folder, and the name of each one's class, or no names at all.

    Attributes:
        absent: as `Split.absent`.
    """

    files: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    absent: list[tuple[str, str]] = field(default_factory=list)

    def add(self, root: Path, file: str, endings: Collection[str]) -> bool:
        """Add a file; one without one of these endings, or a broken link, is absent. Returns whether it is there."""
        if suffix_of(file) not in endings:
            self.absent.append((file, f"{suffix_of(file)} files are not read"))
        elif not os.path.exists(os.path.join(root, file)):  # noqa: PTH110, PTH118 - a million of them
            self.absent.append((file, "a link to a file that does not exist"))
        else:
            self.files.append(file)
            return True
        return False


def open_class_folders(
    path: Path,
    options: Mapping[str, str],
    *,
    form: str,
    kind: Medium,
    endings: Collection[str],
    what: str,
    leave_out: Collection[str] = (),
    divide: Callable[[Path, ListedFiles], dict[str, ListedFiles]] | None = None,
) -> dict[str, Dataset]:
    """Return the splits of class folders, by the options ``label`` and ``sort``.

    Args:
        what: the files, in messages.
        leave_out: names of folders that are no classes.
        divide: splits data without folders of splits.

    Raises `BadInput`: no such files, or an option that does not fit them.
    """
    by, by_number = options.get("label", "folder"), options.get("sort") == "number"
    below = _find_split_folders(path)
    names: dict[str, list[str]] = {}
    if by != "prefix":
        names = {split: _name_classes(path / folder, leave_out, by_number=by_number) for split, folder in below.items()}
    listed = {
        split: _list_prefixes(path, folder, endings, UNREADABLE[kind]) if by == "prefix"
        else _list_classes(path, folder, names[split], endings, UNREADABLE[kind])
        for split, folder in below.items()
    }  # fmt: skip
    if not any(len(found.files) for found in listed.values()):
        raise BadInput(f"{path} holds no {what}", advice="is it the right folder? Its sub-folders are the classes")
    # A folder without files is a class, too.
    classes = {name for found in names.values() for name in found} or {
        name for found in listed.values() for name in found.classes
    }
    numbers = {name: number for number, name in enumerate(sorted(classes, key=int if by_number else str))}
    if divide is not None and list(listed) == [ALL]:
        listed = divide(path, listed[ALL])
    datasets: dict[str, Dataset] = {}
    for split, found in listed.items():
        labels = None
        if found.classes and by != "none":
            labels = Labels(values=array("i", (numbers[name] for name in found.classes)), classes=tuple(numbers))
        datasets[split] = Files(
            name=path.name, path=path, format=form, split=split, kind=kind, labels=labels, root=path, files=found.files,
            absent=found.absent,
        )  # fmt: skip
    return datasets


def _find_split_folders(root: Path) -> dict[str, str]:
    """Return split → sub-folder, where all sub-folders with files have names of splits, else ``all`` → the folder.

    A class may well be called ``train``: one other sub-folder with files in it makes them all classes.
    """
    folders, _ = list_folder(root)
    words = [name for name in folders if find_split(name)]
    others = [name for name in folders if not find_split(name)]
    if not words or any(glance_media(root / name) for name in others):
        return {ALL: ""}
    return dict(zip(name_splits(words), words, strict=True))


def _name_classes(folder: Path, leave_out: Collection[str], *, by_number: bool) -> list[str]:
    names = [name for name in list_folder(folder)[0] if name not in leave_out]
    wrong = next((name for name in names if by_number and not name.isdecimal()), None)
    if wrong is not None:
        raise BadInput(f"the folder {wrong!r} is not named with a number", advice="leave sort=number out")
    return sorted(names, key=int) if by_number else names


def _list_classes(
    path: Path, below: str, names: list[str], endings: Collection[str], unreadable: Collection[str]
) -> ListedFiles:
    """Return the files of class folders, none beside them; without such folders all files, without labels."""
    prefix = f"{below}/" if below else ""
    media = {*endings, *unreadable}
    plain = [prefix + name for name in list_folder(path / below)[1] if suffix_of(name) in media]
    found = ListedFiles()
    if names:
        found.absent += [(file, "it is beside the folders of the classes, so it has no class") for file in plain]
    else:
        for file in plain:
            found.add(path, file, endings)
    for name in names:
        for file in walk_files(path, prefix + name, media):
            if found.add(path, file, endings):
                found.classes.append(name)
    return found


def _list_prefixes(path: Path, below: str, endings: Collection[str], unreadable: Collection[str]) -> ListedFiles:
    """List files whose class is the beginning of their names, to the first underscore: ``anomaly_id_01_0003.wav``."""
    found = ListedFiles()
    for file in walk_files(path, below, {*endings, *unreadable}):
        prefix, sign, _ = file.rpartition("/")[2].partition("_")
        if not sign or not prefix:
            raise BadInput(
                f"the name of {file} has no class before an underscore", advice="leave label=prefix out, or rename it"
            )
        if found.add(path, file, endings):
            found.classes.append(prefix)
    return found


def check_folder(path: Path) -> None:
    """Raise `BadInput` where `path` is not a folder."""
    if not path.is_dir():
        raise BadInput(f"{path} is not a folder", advice="give the folder that holds a folder for every class")
