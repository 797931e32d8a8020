"""What the splits of all formats share: description, names and options."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import SPLITS_TO_CALIBRATE, SPLITS_TO_JUDGE, Kind

if TYPE_CHECKING:
    from edgewise.evaluating.formats.labels import Labels

ALL = "all"
"""The name of the split of data that is not split."""
_OWN_WORDS = {"valid": "validation", "testing": "test", "evaluation": "eval"}
_KNOWN = (frozenset(SPLITS_TO_JUDGE) | frozenset(SPLITS_TO_CALIBRATE)) - {ALL}


@dataclass(kw_only=True)
class Split:
    """The attributes of `edgewise.evaluating.dataset.Dataset`; formats add how samples are read.

    Attributes:
        labels: of all samples, with the names of their classes; None where they are read with their samples, or there
            are none.
        about: all else that decides what the samples are; part of the stamp.
        absent: (name, reason) of samples that the data has or names and that can't be read: they are not counted by
            `len`, and are told beside every score.
    """

    name: str
    path: Path | None
    format: str
    split: str
    kind: Kind
    classes: Sequence[str] = ()
    labelled: bool = False
    labels: Labels | None = None
    about: object = None
    absent: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if self.labels is not None:
            self.classes, self.labelled = self.labels.classes or self.classes, True

    def label_of(self, index: int) -> Any:
        """Return the label of a sample; None where it is read with the sample, or there is none."""
        return None if self.labels is None else self.labels.values[index]

    def stamp(self) -> str:
        """Return a digest of names, sizes and times of the files, and of all else that decides what the samples are."""
        kind = None if self.labels is None else self.labels.kind
        folder, files = self.find_files()
        return stamp_files(folder, files, extra=(self.split, self.kind, self.classes, self.labelled, kind, self.about))

    def find_files(self) -> tuple[Path, Iterable[str]]:
        """Return a folder and names of files in it; none where `about` covers them."""
        return Path(), ()


def find_split(word: str) -> str | None:
    """Return the split that a folder or file of that name holds: ``val2017`` → ``val``; None where it names none."""
    plain = word.lower().rstrip("0123456789")
    return _OWN_WORDS.get(plain, plain if plain in _KNOWN else None)


def name_splits(words: Sequence[str]) -> list[str]:
    """Return a name for each: that of the split if it is unique, else the word itself."""
    found = [find_split(word) or word for word in words]
    return [name if found.count(name) == 1 else word for name, word in zip(found, words, strict=True)]


def check_options(options: Mapping[str, str], known: Mapping[str, Sequence[str]], *, form: str) -> None:
    """Raise `BadInput` for an option that the format does not know, one without a value, or one of another value.

    `known`: option → the words that it takes; none where it takes any.
    """
    for name, value in options.items():
        if name not in known:
            raise BadInput(
                f"data of the format {form} has no option {name!r}", advice=f"its options: {', '.join(known)}"
            )
        if not value:
            raise BadInput(f"the data option {name} has no value", advice=f"give it as {name}=VALUE")
        if known[name] and value not in known[name]:
            raise BadInput(f"the data option {name} can't be {value}", advice=f"one of: {', '.join(known[name])}")


def parse_words(text: str) -> list[str]:
    """Return the words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def stamp_files(root: Path, files: Iterable[str], *, extra: object = None) -> str:
    """Return a SHA-256 over names, sizes and times of `files`, relative to `root`; their content is not read.

    `extra`: whatever else decides what the samples are, such as options and labels; its `repr` counts.
    """
    found = hashlib.sha256(repr(extra).encode("utf-8", "surrogateescape"))
    base = os.fspath(root)
    for file in files:
        check()
        try:
            about = os.stat(os.path.join(base, file))  # noqa: PTH116, PTH118 - a million of them
            size, changed = about.st_size, about.st_mtime_ns
        except OSError:
            size, changed = -1, 0
        found.update(b"%s\0%d\0%d\0" % (os.fsencode(file), size, changed))
    return found.hexdigest()
