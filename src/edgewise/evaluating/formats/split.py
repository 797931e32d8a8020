"""What the splits of all formats share: description, names and options."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import SPLITS_TO_CALIBRATE, SPLITS_TO_JUDGE, Kind

ALL = "all"
"""The name of the split of data that is not split."""
_OWN_WORDS = {"valid": "validation", "testing": "test", "evaluation": "eval"}
_KNOWN = (frozenset(SPLITS_TO_JUDGE) | frozenset(SPLITS_TO_CALIBRATE)) - {ALL}


@dataclass(kw_only=True)
class Split:
    """The attributes of `edgewise.evaluating.dataset.Dataset`; formats add how samples are read.

    Attributes:
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
    absent: Sequence[tuple[str, str]] = ()


def find_split(word: str) -> str | None:
    """Return the split that a folder or file of that name holds: ``val2017`` → ``val``; None where it names none."""
    plain = word.lower().rstrip("0123456789")
    return _OWN_WORDS.get(plain, plain if plain in _KNOWN else None)


def name_splits(words: Sequence[str]) -> list[str]:
    """Return a name for each: that of the split if it is unique, else the word itself."""
    found = [find_split(word) or word for word in words]
    return [name if found.count(name) == 1 else word for name, word in zip(found, words, strict=True)]


def check_options(options: Mapping[str, str], *, known: Sequence[str], form: str) -> None:
    """Raise `BadInput` for an option that the format does not know, or one without a value."""
    for name, value in options.items():
        if name not in known:
            raise BadInput(
                f"data of the format {form} has no option {name!r}",
                advice=f"its options: {', '.join(known) or 'none'}",
            )
        if not value:
            raise BadInput(f"the data option {name} has no value", advice=f"give it as {name}=VALUE")


def choose(options: Mapping[str, str], name: str, possible: Sequence[str]) -> str | None:
    """Return the value of an option that is one of a few words; None where it is not given. Raises `BadInput`."""
    value = options.get(name)
    if value is not None and value not in possible:
        raise BadInput(f"the data option {name} can't be {value}", advice=f"one of: {', '.join(possible)}")
    return value


def parse_words(text: str) -> list[str]:
    """``a, b`` → a and b."""
    return [word.strip() for word in text.split(",") if word.strip()]


def stamp_files(root: Path, files: Iterable[str], *, extra: object = None) -> str:
    """A SHA-256 over the names, sizes and times of `files`, which are relative to `root`; their content is not read.

    Args:
        extra: whatever else decides what the samples are, such as options and labels; its `repr` counts.
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


def read_names(file: Path, what: str, *, most: int = 4 * 2**20, gaps: bool = False) -> list[str]:
    """Return the lines of a text file in UTF-8 of at most `most` bytes. Raises `BadInput`.

    Args:
        what: they are, in messages.
        gaps: keep empty lines.
    """
    try:
        if file.stat().st_size > most:
            raise BadInput(f"{file} is too large for {what}", advice="one name per line")
        lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't read {what} from {file}: {error}", advice="one name per line, in UTF-8") from error
    return lines if gaps else [line for line in lines if line]
