"""Files that a table or an annotation names: only those inside its own folder are ever opened."""

from __future__ import annotations

from pathlib import Path

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample


def check_name(name: str, place: str, *, advice: str) -> None:
    """Raises `BadInput` for a name that leads out of the folder it is relative to, by its text."""
    if not name.strip() or "\0" in name:
        raise BadInput(f"{place} names no file", advice=advice)
    if name.startswith(("/", "\\", "~")) or name[1:2] == ":" or ".." in name.replace("\\", "/").split("/"):
        raise BadInput(f"{place} names {name[:200]!r}, which is outside of the data's folder", advice=advice)


def find_inside(root: Path, name: str) -> Path:
    """The file, if it is there and, links followed, inside of `root`. Raises `CorruptSample`."""
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


def check_some_there(root: Path, names: list[str], *, advice: str) -> None:
    """Raises `BadInput` where none of the first files is there: the folder is the wrong one, not a file missing."""
    if names and not any((root / name).exists() for name in names):
        raise BadInput(f"none of the first {len(names)} files, such as {names[0]}, is in {root}", advice=advice)
