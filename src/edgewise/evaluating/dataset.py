"""Data sets: samples by number, read one at a time, from any format."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from edgewise.errors import BadInput, Unavailable
from edgewise.registry import Registry

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

Kind = Literal["array", "image", "audio", "text"]
"""What a sample is: an array ready but for scaling, uint8 pixels (height, width, channels), a waveform (frames,
channels) of float32 in [-1, 1], or text."""

SPLITS_TO_JUDGE = ("test", "validation", "val", "eval", "dev", "all", "train")
"""Splits for accuracy, in order of preference, unless the user chooses."""
SPLITS_TO_CALIBRATE = ("calibration", "train", "training", "all")
"""Splits for calibration, in order of preference, unless the user chooses."""


class CorruptSample(Exception):
    """One sample can't be used; the message says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """An object in an image. Coordinates are pixels of the image as stored: left, top, right, bottom.

    Attributes:
        category: index into `Dataset.classes`.
        crowd: COCO's ``iscrowd``: found or not, it does not count.
        area: of COCO's annotation, px²; None is that of the box.
    """

    left: float
    top: float
    right: float
    bottom: float
    category: int
    crowd: bool = False
    area: float | None = None


class Choices(NamedTuple):
    """A label: texts of which one is right, and its number, from 0."""

    texts: tuple[str, ...]
    answer: int


class Decoded(NamedTuple):
    """The content of one file: `data`, and for the other fields see `Sample`."""

    data: Any
    rate: int | None = None
    stored: str = ""
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One decoded sample, unchanged otherwise.

    Attributes:
        index: its number in the data set, from 0.
        name: what messages call it: its file's path below the data set, or ``x_test[17]``.
        data: an array or text by the kind of the data set; a mapping from input name to array for models with several
            inputs.
        label: the class's index (int); an array of class indices per pixel; a tuple of `Box`; text, or a tuple of texts
            of which any counts; `Choices`; a float or an array of floats; None where there is no label.
        rate: of audio: frames per second.
        stored: of a picture: its colours in its file where they are others than those of `data`, such as ``CMYK``.
        changes: what decoding changed or left out, such as ``with transparency dropped``.
    """

    index: int
    name: str
    data: Array | str | Mapping[str, Array]
    label: Any = None
    rate: int | None = None
    stored: str = ""
    changes: tuple[str, ...] = ()

    def digest(self) -> str:
        """Return a SHA-256 over data and label, not over name and place."""
        found = hashlib.sha256()
        _feed(found, self.data)
        _feed(found, self.label)
        _feed(found, self.rate)
        return found.hexdigest()


class Dataset(Protocol):
    """Samples of one split.

    Attributes:
        name: of its file or folder.
        path: where it is; None where a function made it.
        format: of its reader.
        split: ``train``, ``test`` … or ``all``.
        kind: what all its samples are.
        classes: their names in the order of their indices; empty where the data has none.
        labelled: whether samples have labels.

    A data set may also have `absent`: (name, reason) of samples that it has and can't give, not counted by `len`.
    """

    name: str
    path: Path | None
    format: str
    split: str
    kind: Kind
    classes: Sequence[str]
    labelled: bool

    def __len__(self) -> int:
        """Return how many samples there are, found without reading them."""

    def read(self, index: int) -> Sample:
        """Return the sample of that number, read now; nothing is kept.

        Raises:
            CorruptSample: this one can't be used.
            BadInput: none can be, because the file that holds them all is damaged.
        """

    def stamp(self) -> str:
        """Return a digest of paths, sizes and times that changes with the stored data; no sample is read."""


class DataFormat(Protocol):
    """A way to store data sets, in the entry-point group ``edgewise.datasets``.

    Attributes:
        name: what ``--data-format`` takes: ``npz``, ``folders`` …
        title: what it is, in a few words.
    """

    name: str
    title: str

    def matches(self, path: Path) -> bool:
        """Return whether `path` looks like one, from its name and a glance; never raises."""

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Return its splits by name, without reading samples.

        `options`: ``--data-option NAME=VALUE``, such as a column's name.

        Raises:
            BadInput: empty, broken, or an option that it does not know; one line with advice.
            Unavailable: a package that it needs is not installed.
        """


def data_formats() -> Registry[DataFormat]:
    """Return all formats, built-in and plugged in."""
    return Registry("edgewise.datasets", "data format")


def refuse_unlabelled(data: Dataset, purpose: str = "") -> BadInput:
    """Return the error of data without labels. `purpose`: what needs them, as the end of a sentence."""
    advice = "to compare with another model's outputs, use ⟦reference=MODEL⟧"
    if data.format == "folders" and data.path is not None:
        advice = f"if this is the folder of one class, give the one above: ⟦data⟧ {data.path.parent}; {advice}"
    return BadInput(f"{data.name} has no labels{purpose}", advice=advice)


def open_data(
    source: str, *, form: str | None = None, options: Mapping[str, str] | None = None
) -> Mapping[str, Dataset]:
    """Open the data set at `source`, a path or ``module:function`` (``file.py:function``), and return its splits.

    Raises:
        BadInput, Unavailable.
    """
    registry = data_formats()
    path = Path(source)
    if path.name in ("", ".."):  # a data set is named after its folder
        path = path.resolve()
    if form is not None:
        return _not_empty(registry.get(form).open(path, options or {}), source)
    exists = _exists(path)
    # `package.module:function` has no file of that name; the loader takes it.
    names = registry.names() if exists else ["loader"]
    for name in sorted(names, key=lambda one: one == "loader"):
        found = registry.get(name)
        if found.matches(path):
            return _not_empty(found.open(path, options or {}), source)
    if not exists:
        raise BadInput(f"no data found at {source}", advice="give a file, a folder, or MODULE:FUNCTION")
    empty = False
    with suppress(OSError):  # a folder that may not be read
        empty = path.is_dir() and not any(path.iterdir())
    if empty:
        raise BadInput(f"{source} is an empty folder", advice="is it the right one? Was it unpacked, or mounted?")
    known = ", ".join(registry.names())
    raise BadInput(f"{source} is not a known data set", advice=f"set its format with ⟦data_format⟧: {known}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def choose_split(splits: Mapping[str, Dataset], asked: str | None, order: Sequence[str]) -> Dataset:
    """Return the requested split, else the first existing one of `order`, else the first. Raises `Unavailable`."""
    if asked is not None:
        if asked not in splits:
            raise Unavailable(f"the data has no split {asked!r}", advice=f"it has: {', '.join(splits)}")
        return splits[asked]
    return splits[next((name for name in order if name in splits), next(iter(splits)))]


def choose_samples(size: int, *, limit: int | None, seed: int, leave_out: Sequence[int] = ()) -> list[int]:
    """Return numbers of the samples to use, ascending: all, or `limit` chosen at random, the same for the same seed.

    A larger limit with the same seed contains the samples of a smaller one. `leave_out`: numbers that must not be among
    them. Raises `BadInput`: a limit below 1.
    """
    if limit is not None and limit < 1:
        raise BadInput(f"⟦limit⟧ must be at least 1, not {limit}", advice="omit it for all samples")
    left = sorted(set(range(size)) - set(leave_out))
    if limit is None or limit >= len(left):
        return left
    # Random() without distributions: `random` itself is documented to give the same numbers in every version.
    source = random.Random(seed)  # noqa: S311 - a choice, not a secret
    ranked = sorted((source.random(), index) for index in range(size))
    allowed = set(left)
    return sorted([index for _, index in ranked if index in allowed][:limit])


def _not_empty(splits: Mapping[str, Dataset], source: str) -> Mapping[str, Dataset]:
    filled = {name: split for name, split in splits.items() if len(split)}
    if not filled:
        raise BadInput(f"{source} holds no samples", advice="is it the right folder or file?")
    return filled


def _feed(found: Any, value: Any) -> None:
    """Add `value` to a hash, unambiguously."""
    if value is None or isinstance(value, str | int | float | bool):
        text = repr(value).encode()
        found.update(b"%d:" % len(text) + text)
    elif isinstance(value, Mapping):
        for key in sorted(value):
            _feed(found, key)
            _feed(found, value[key])
    elif isinstance(value, list | tuple):
        found.update(b"[%d" % len(value))
        for each in value:
            _feed(found, each)
    elif isinstance(value, Box):
        _feed(found, (value.left, value.top, value.right, value.bottom, value.category, value.crowd, value.area))
    else:
        import numpy as np

        array = np.asarray(value)
        _feed(found, (array.dtype.str, *array.shape))
        found.update(np.ascontiguousarray(array).tobytes())
