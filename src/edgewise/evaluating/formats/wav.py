"""Recordings in folders, one folder per class, as in Speech Commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset
from edgewise.evaluating.formats.folders import CLASS_OPTIONS, ListedFiles, check_folder, open_class_folders
from edgewise.evaluating.formats.listing import SOUNDS
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.sounds import require_soundfile
from edgewise.evaluating.formats.split import ALL
from edgewise.safe_yaml import read_lines, read_text

_LISTS = {"test": "testing_list.txt", "validation": "validation_list.txt"}
_NO_CLASS = ("_background_noise_",)
_MAX_LIST_BYTES = 2**28


class Wav(BuiltInFormat):
    """Class folders of WAV, FLAC and OGG files, split by ``train``, ``val``, ``test`` … above them, or by the lists
    ``testing_list.txt`` and ``validation_list.txt`` of Speech Commands.

    Options: ``label`` = folder, prefix (the name up to its first underscore, as in DCASE) or none; ``sort`` = name or
    number.
    """

    name = "wav"
    title = "class folders of WAV, FLAC or OGG files"
    options: ClassVar = CLASS_OPTIONS

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        check_folder(path)
        require_soundfile()
        return open_class_folders(
            path, options, form=self.name, kind="audio", endings=SOUNDS, what="WAV, FLAC or OGG files",
            leave_out=_NO_CLASS, divide=_split_by_lists,
        )  # fmt: skip


def _split_by_lists(root: Path, everything: ListedFiles) -> dict[str, ListedFiles]:
    """Return the splits by Speech Commands' lists: files on none of them are for training. Without lists: not split."""
    owner: dict[str, str] = {}
    for split, list_name in _LISTS.items():
        if (root / list_name).is_file():
            owner.update(dict.fromkeys(read_lines(read_text(root / list_name, most=_MAX_LIST_BYTES)), split))
    owner.pop("", None)
    if not owner:
        return {ALL: everything}
    found = {split: ListedFiles() for split in ("train", *_LISTS)}
    for name, reason in everything.absent:
        found[owner.get(name, "train")].absent.append((name, reason))
    for number, file in enumerate(everything.files):
        own = found[owner.get(file, "train")]
        own.files.append(file)
        own.classes += everything.classes[number : number + 1]
    there = set(everything.files)
    for file, split in owner.items():
        if file not in there:
            found[split].absent.append((file, f"{_LISTS[split]} names it, and it is not there"))
    for split, list_name in _LISTS.items():
        if split in owner.values() and not len(found[split].files):
            raise BadInput(f"none of the files that {root / list_name} names is there", advice="is the data complete?")
    return {split: own for split, own in found.items() if len(own.files)}
