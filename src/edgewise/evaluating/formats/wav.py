"""Recordings in folders, one folder a class, as Speech Commands has them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Dataset, Sample
from edgewise.evaluating.formats.class_folders import (
    Listed,
    find_split_folders,
    label_by_prefix,
    list_classes,
    relate_to,
)
from edgewise.evaluating.formats.listing import SOUNDS
from edgewise.evaluating.formats.recognition import recognise
from edgewise.evaluating.formats.sounds import decode_sound, require_soundfile
from edgewise.evaluating.formats.split import ALL, Split, check_options, choose, stamp_files
from edgewise.evaluating.formats.strings import Strings

_LISTS = {"test": "testing_list.txt", "validation": "validation_list.txt"}
_NO_CLASS = ("_background_noise_",)
_MAX_LIST_BYTES = 2**28


@dataclass(kw_only=True)
class SoundFiles(Split):
    """Recordings of one split. `files` are relative to `root`; `labels` are None where nothing says the class."""

    root: Path
    files: Sequence[str]
    labels: Sequence[int] | None

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        """The sample, decoded now. Raises `CorruptSample`."""
        name = self.files[index]
        data, rate = decode_sound(self.root / name, name)
        label = None if self.labels is None else self.labels[index]
        return Sample(index=index, name=name, data=data, label=label, rate=rate)

    def stamp(self) -> str:
        """From names, sizes and times."""
        return stamp_files(self.root, self.files, extra=(self.classes, self.labelled))


class Wav:
    """Class folders of WAV, FLAC and OGG files, split by ``train``, ``val``, ``test`` … above them, or by the lists
    ``testing_list.txt`` and ``validation_list.txt`` of Speech Commands.

    Options: ``label`` = folder, prefix (the name up to its first underscore, as in DCASE) or none; ``sort`` = name or
    number.
    """

    name = "wav"
    title = "class folders of WAV, FLAC or OGG files"

    def matches(self, path: Path) -> bool:
        """Whether it looks like one."""
        return recognise(path) == self.name

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Its splits. Raises `BadInput`, `Unavailable`."""
        check_options(options, known=("label", "sort"), form=self.name)
        by = choose(options, "label", ("folder", "prefix", "none")) or "folder"
        by_number = choose(options, "sort", ("name", "number")) == "number"
        if not path.is_dir():
            raise BadInput(f"{path} is no folder", advice="give the folder that holds a folder for every class")
        require_soundfile()
        splits = find_split_folders(path)
        listed, classes = (
            label_by_prefix(splits, SOUNDS)
            if by == "prefix"
            else list_classes(splits, SOUNDS, by_number=by_number, leave_out=_NO_CLASS)
        )
        if not any(len(found.files) for found in listed.values()):
            raise BadInput(f"{path} holds no WAV, FLAC or OGG files", advice="its sub-folders are the classes")
        relate_to(path, listed)
        if list(listed) == [ALL]:
            listed = _split_by_lists(path, listed[ALL])
        return {
            split: SoundFiles(
                name=path.name,
                path=path,
                format=self.name,
                split=split,
                kind="audio",
                classes=classes if found.labels is not None and by != "none" else (),
                labelled=found.labels is not None and by != "none",
                root=path,
                files=found.files,
                labels=found.labels if by != "none" else None,
            )
            for split, found in listed.items()
        }


def _split_by_lists(root: Path, everything: Listed) -> dict[str, Listed]:
    """By the lists of Speech Commands: what is on none of them is for training. Without lists: not split."""
    owner: dict[str, str] = {}
    for split, list_name in _LISTS.items():
        if (root / list_name).is_file():
            owner.update(dict.fromkeys(_read_list(root / list_name), split))
    if not owner:
        return {ALL: everything}
    found: dict[str, Listed] = {}
    labels = {split: array("q") for split in ("train", *_LISTS)}
    files = {split: Strings() for split in labels}
    for number, name in enumerate(everything.files):
        split = owner.get(name, "train")
        files[split].append(name)
        if everything.labels is not None:
            labels[split].append(everything.labels[number])
    for split, list_name in _LISTS.items():
        if split in owner.values() and not len(files[split]):
            raise BadInput(f"none of the files that {root / list_name} names is there", advice="is the data complete?")
    for split, own in files.items():
        if len(own):
            found[split] = Listed(root=root, files=own, labels=labels[split] if everything.labels is not None else None)
    return found


def _read_list(file: Path) -> list[str]:
    try:
        if file.stat().st_size > _MAX_LIST_BYTES:
            raise BadInput(f"{file} is too large for a list of files", advice="one name a line")
        return [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't read {file}: {error}", advice="names of files, one a line, in UTF-8") from error
