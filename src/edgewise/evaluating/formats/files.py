"""Splits whose samples are a file each, and how a file of a kind is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Decoded, Kind, Sample
from edgewise.evaluating.formats.images import decode_image, require_pillow
from edgewise.evaluating.formats.sounds import decode_sound, require_soundfile
from edgewise.evaluating.formats.split import Split
from edgewise.workload.arrays import open_array


@dataclass(kw_only=True)
class Files(Split):
    """Samples that are a file each, decoded when they are read.

    Attributes:
        root: folder that `files` are relative to.
        confined: whether a file outside of `root` is refused, because the data itself names its files.
    """

    root: Path
    files: Sequence[str]
    confined: bool = False

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        """Return the sample, decoded now. Raises `CorruptSample`."""
        name = self.files[index]
        file = find_inside(self.root, name) if self.confined else self.root / name
        found = self._decode(file, index)
        return Sample(index=index, name=name, label=self._label(index, found.data), **found._asdict())

    def _decode(self, file: Path, index: int) -> Decoded:
        return decode_file(file, self.kind, self.files[index])

    def _label(self, index: int, data: Any) -> Any:
        return self.label_of(index)

    def find_files(self) -> tuple[Path, Iterable[str]]:
        """As `Split.find_files`."""
        return self.root, self.files


def decode_file(source: Path | bytes, kind: Kind, name: str) -> Decoded:
    """Decode an image, a recording or a ``.npy`` file. Raises `CorruptSample` for one that is missing or broken."""
    if kind == "image":
        return decode_image(source, name)
    if kind == "audio":
        return Decoded(*decode_sound(source, name))
    if not isinstance(source, Path) or not source.is_file():
        raise CorruptSample(name, "no such file")
    try:
        return Decoded(open_array(source).whole())
    except (BadInput, OSError, ValueError) as error:
        raise CorruptSample(name, f"not a .npy file that can be read: {error}") from error


def require_decoder(kind: Kind) -> None:
    """Raise `Unavailable` where the package that decodes files of this kind is not installed."""
    needed: Mapping[Kind, Callable[[], None]] = {"image": require_pillow, "audio": require_soundfile}
    if kind in needed:
        needed[kind]()


def check_name(name: str, place: str, *, advice: str) -> None:
    """Raise `BadInput` for a name that leads out of the folder it is relative to, by its text."""
    if not name.strip() or "\0" in name:
        raise BadInput(f"{place} names no file", advice=advice)
    if name.startswith(("/", "\\", "~")) or name[1:2] == ":" or ".." in name.replace("\\", "/").split("/"):
        raise BadInput(f"{place} names {name[:200]!r}, which is outside of the data's folder", advice=advice)


def find_inside(root: Path, name: str) -> Path:
    """Return the file, if it exists and, links followed, is inside of `root`. Raises `CorruptSample`."""
    try:
        file = (root / name).resolve(strict=True)
        if not file.is_relative_to(root.resolve()):
            raise CorruptSample(name, "a link that leads out of the data's folder")
        if not file.is_file():
            raise CorruptSample(name, "not a file")
    except FileNotFoundError as error:
        raise CorruptSample(name, "no such file") from error
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a link that leads to itself, up to Python 3.12
        raise CorruptSample(name, f"can't be found: {error}") from error
    return file


def check_some_there(root: Path, names: Sequence[str], *, advice: str) -> None:
    """Raise `BadInput` where none of the first files exists: the folder is the wrong one, not a file missing."""
    if names and not any((root / name).exists() for name in names):
        raise BadInput(f"none of the first {len(names)} files, such as {names[0]}, is in {root}", advice=advice)
