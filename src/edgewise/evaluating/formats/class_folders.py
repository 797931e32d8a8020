"""Folders of files, one folder a class: how they are split, which classes there are, and which file is of which."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.formats.listing import glance_media, list_folder, suffix_of, walk_files
from edgewise.evaluating.formats.split import ALL, find_split, name_splits
from edgewise.evaluating.formats.strings import Strings


@dataclass(kw_only=True)
class Listed:
    """The files of one split.

    Attributes:
        root: what `files` are relative to.
        labels: index of the class of each file; None where nothing says it.
    """

    root: Path
    files: Strings
    labels: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Runs(Sequence[int]):
    """The label of file i where the files of a class stand together: the class whose `ends` is the first above i."""

    ends: Sequence[int]

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return bisect.bisect_right(self.ends, range(len(self))[index])


def find_split_folders(root: Path) -> dict[str, Path]:
    """Split → folder, where all sub-folders that hold files are named as splits are, else the folder itself as ``all``.

    A class may well be called ``train``: one other sub-folder with files in it makes them all classes.
    """
    folders, _ = list_folder(root)
    words = [name for name in folders if find_split(name)]
    others = [name for name in folders if not find_split(name)]
    if not words or any(glance_media(root / name) for name in others):
        return {ALL: root}
    return {split: root / word for split, word in zip(name_splits(words), words, strict=True)}


def list_classes(
    splits: dict[str, Path], endings: Collection[str], *, by_number: bool = False, leave_out: Collection[str] = ()
) -> tuple[dict[str, Listed], tuple[str, ...]]:
    """The files of every split, and the classes: the names of the folders in all of them, sorted.

    Files that lie beside class folders belong to no class and are left out; where there are no folders they are all
    samples, without labels.

    Args:
        by_number: folders are named with numbers and sorted by them: 2 before 10.
        leave_out: names of folders that are no classes.

    Raises:
        BadInput: folders that can't be listed, or no numbers.
    """
    names = {split: [name for name in list_folder(root)[0] if name not in leave_out] for split, root in splits.items()}
    classes = sorted({name for found in names.values() for name in found})
    if by_number:
        if not all(name.isdecimal() for name in classes):
            wrong = next(name for name in classes if not name.isdecimal())
            raise BadInput(f"the folder {wrong!r} is not named with a number", advice="leave sort=number out")
        classes.sort(key=int)
    found = {}
    for split, root in splits.items():
        if not names[split]:
            plain = [name for name in list_folder(root)[1] if suffix_of(name) in endings]
            found[split] = Listed(root=root, files=Strings(plain), labels=None)
            continue
        files, ends = Strings(), array("Q")
        for name in classes:
            if name in names[split]:
                for file in walk_files(root, name, endings):
                    files.append(file)
            ends.append(len(files))
        found[split] = Listed(root=root, files=files, labels=Runs(ends))
    return found, tuple(classes)


def label_by_prefix(splits: dict[str, Path], endings: Collection[str]) -> tuple[dict[str, Listed], tuple[str, ...]]:
    """Files whose class is what their names begin with, up to the first underscore: ``anomaly_id_01_0003.wav``.

    Raises:
        BadInput: a name without an underscore.
    """
    files = {split: Strings(walk_files(root, "", endings)) for split, root in splits.items()}
    classes = sorted({_prefix_of(name) for found in files.values() for name in found})
    index = {name: number for number, name in enumerate(classes)}
    return {
        split: Listed(root=splits[split], files=found, labels=array("q", (index[_prefix_of(name)] for name in found)))
        for split, found in files.items()
    }, tuple(classes)


def _prefix_of(file: str) -> str:
    prefix, sign, _ = file.rpartition("/")[2].partition("_")
    if not sign or not prefix:
        raise BadInput(
            f"the name of {file} has no class before an underscore", advice="leave label=prefix out, or rename it"
        )
    return prefix


def relate_to(root: Path, splits: dict[str, Listed]) -> None:
    """Have all files named from `root` on, so that a sample's name tells its split."""
    for listed in splits.values():
        if listed.root != root:
            before = listed.root.relative_to(root).as_posix()
            listed.files = Strings(f"{before}/{name}" for name in listed.files)
            listed.root = root
