"""Files below a folder, by name alone: nothing is opened, hidden ones are left out, the order is that of the names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from edgewise.cancellation import check
from edgewise.errors import BadInput

Medium = Literal["image", "audio"]

IMAGES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"})
SOUNDS = frozenset({".wav", ".flac", ".ogg"})
UNREADABLE: dict[Medium, frozenset[str]] = {
    "image": frozenset({".heic", ".heif", ".avif", ".jp2", ".jxl", ".svg", ".psd", ".dng"}),
    "audio": frozenset({".mp3", ".m4a", ".aac", ".opus", ".wma", ".aif", ".aiff"}),
}
"""Kind of samples → endings of files of that kind that are not read."""
_NOT_DATA = frozenset({"__MACOSX", "@eaDir"})
_GLANCE = 2000
"""How many names a glance into a folder looks at."""
_DEPTH = 12


def suffix_of(name: str) -> str:
    """Return the ending of a file's name, small, with its dot."""
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - a million of them


def list_folder(folder: str | Path) -> tuple[list[str], list[str]]:
    """Return sorted names of the sub-folders and the files of a folder. Links are followed; broken ones are files.

    Raises `BadInput`: it can't be listed.
    """
    try:
        return _scan(folder)
    except OSError as error:
        raise BadInput(
            f"can't list {folder}: {error.strerror or error}", advice="give a folder that can be read"
        ) from error


def _scan(folder: str | Path, limit: int | None = None) -> tuple[list[str], list[str]]:
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in itertools.islice(entries, limit):
            if entry.name.startswith(".") or entry.name in _NOT_DATA:
                continue
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file() or entry.is_symlink():
                    files.append(entry.name)
            except OSError:  # a link that leads to itself
                files.append(entry.name)
    return sorted(folders), sorted(files)


def walk_files(root: str | Path, below: str, endings: Collection[str]) -> Iterator[str]:
    """Yield files with one of these endings in the folder `below` of `root` and in its sub-folders, relative to `root`.

    Every real folder is visited once, so that links which lead back up do no harm.
    """
    seen: set[tuple[int, int]] = set()
    pending = [below]
    while pending:
        check()
        folder = pending.pop()
        full = os.path.join(root, folder)  # noqa: PTH118
        try:
            about = os.stat(full)  # noqa: PTH116
        except OSError as error:
            raise BadInput(f"can't list {full}: {error.strerror or error}") from error
        if (about.st_dev, about.st_ino) in seen:
            continue
        seen.add((about.st_dev, about.st_ino))
        folders, files = list_folder(full)
        prefix = f"{folder}/" if folder else ""
        for name in files:
            if suffix_of(name) in endings:
                yield prefix + name
        pending += [prefix + name for name in reversed(folders)]


def glance_media(folder: str | Path) -> Medium | None:
    """Return what the first few files below a folder are, images or sounds; None where neither is there.

    The one that there is more of counts, images where there are as many. Never raises.
    """
    counts: dict[Medium, int] = {"image": 0, "audio": 0}
    looked = 0
    pending = [(os.fspath(folder), 0)]
    while pending and looked < _GLANCE:
        at, depth = pending.pop(0)
        try:
            folders, names = _scan(at, limit=_GLANCE)
        except OSError:
            continue
        looked += len(names) + 1
        for name in names:
            ending = suffix_of(name)
            if ending in IMAGES:
                counts["image"] += 1
            elif ending in SOUNDS:
                counts["audio"] += 1
        if any(counts.values()):
            return "audio" if counts["audio"] > counts["image"] else "image"
        if depth < _DEPTH:
            pending += [(os.path.join(at, name), depth + 1) for name in folders]  # noqa: PTH118
    return None
