"""Folders of images or recordings, one folder per class: their splits, their classes, and each file's class."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset, Kind, Sample
from edgewise.evaluating.formats.images import decode_image
from edgewise.evaluating.formats.listing import glance_media, list_folder, suffix_of, walk_files
from edgewise.evaluating.formats.sounds import decode_sound
from edgewise.evaluating.formats.split import ALL, Split, choose, find_split, name_splits, stamp_files
from edgewise.evaluating.formats.strings import Strings


@dataclass(kw_only=True)
class Listed:
    """The files of one split.

    Attributes:
        root: what `files` are relative to.
        labels: index of the class of each file; None where there are none.
    """

    root: Path
    files: Strings
    labels: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Runs(Sequence[int]):
    """The label of file i where files are sorted by class: the class whose `ends` is the first above i."""

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


@dataclass(kw_only=True)
class ClassFiles(Split):
    """Images or recordings of one split, decoded when they are read.

    Attributes:
        root: what `files` are relative to.
        labels: index of the class of each; None where there are none.
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
        if self.kind == "image":
            return Sample(index=index, name=name, data=decode_image(self.root / name, name), label=label)
        data, rate = decode_sound(self.root / name, name)
        return Sample(index=index, name=name, data=data, label=label, rate=rate)

    def stamp(self) -> str:
        """From names, sizes and times."""
        return stamp_files(self.root, self.files, extra=(self.classes, self.labelled))


def open_class_folders(
    path: Path,
    options: Mapping[str, str],
    *,
    form: str,
    kind: Kind,
    endings: Collection[str],
    what: str,
    leave_out: Collection[str] = (),
    divide: Callable[[Path, Listed], dict[str, Listed]] | None = None,
) -> dict[str, Dataset]:
    """The splits of class folders, by the options ``label`` and ``sort``.

    Args:
        what: the files, in messages.
        divide: splits what has no folders of splits.

    Raises:
        BadInput: no such files, or an option that does not fit them.
    """
    by = choose(options, "label", ("folder", "prefix", "none")) or "folder"
    by_number = choose(options, "sort", ("name", "number")) == "number"
    splits = find_split_folders(path)
    if by == "prefix":
        listed, classes = label_by_prefix(splits, endings)
    else:
        listed, classes = list_classes(splits, endings, by_number=by_number, leave_out=leave_out)
    if not any(len(found.files) for found in listed.values()):
        raise BadInput(f"{path} holds no {what}", advice="is it the right folder? Its sub-folders are the classes")
    for found in listed.values():
        if found.root != path:  # a sample's name tells its split
            before = found.root.relative_to(path).as_posix()
            found.files = Strings(f"{before}/{name}" for name in found.files)
            found.root = path
    if divide is not None and list(listed) == [ALL]:
        listed = divide(path, listed[ALL])
    datasets: dict[str, Dataset] = {}
    for split, found in listed.items():
        labels = found.labels if by != "none" else None
        datasets[split] = ClassFiles(
            name=path.name, path=path, format=form, split=split, kind=kind, classes=() if labels is None else classes,
            labelled=labels is not None, root=path, files=found.files, labels=labels,
        )  # fmt: skip
    return datasets


def check_folder(path: Path) -> None:
    """Raises `BadInput` where `path` is not a folder."""
    if not path.is_dir():
        raise BadInput(f"{path} is not a folder", advice="give the folder that holds a folder for every class")
