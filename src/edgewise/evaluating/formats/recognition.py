"""Which of the built-in formats a file or folder is in: decided in one place, so that only one format claims it."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from edgewise.evaluating.dataset import Dataset
from edgewise.evaluating.formats.listing import glance_media, suffix_of
from edgewise.evaluating.formats.split import check_options

IDX_NAME = re.compile(r"(?P<stem>.+)-(?P<what>images|labels)[-.]idx\d+-[a-z]+\d*(?P<packed>\.gz)?", re.IGNORECASE)
"""``train-images-idx3-ubyte.gz``, ``t10k-labels.idx1-ubyte`` …"""
_COCO_KEYS = (b'"images"', b'"annotations"', b'"categories"')
_GLANCE_BYTES = 2**16


class BuiltInFormat:
    """What the built-in formats share; see `edgewise.evaluating.dataset.DataFormat`.

    Attributes:
        options: option → the words that it takes; none where it takes any.
    """

    name: str
    options: ClassVar[Mapping[str, Sequence[str]]] = {}

    def matches(self, path: Path) -> bool:
        """Return whether it looks like one."""
        return recognise(path) == self.name

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Return its splits. Raises `BadInput`, `Unavailable`."""
        check_options(options, self.options, form=self.name)
        return self._open(path, options)

    @abstractmethod
    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Return its splits; the options are known."""


def recognise(path: Path) -> str | None:
    """Return the name of the format, from the path and a glance; None where it is none of them. Never raises."""
    from edgewise.model.callable_loader import is_factory

    try:
        if path.is_dir():
            return _recognise_folder(path)
        if path.is_file():
            return _recognise_file(path)
        return "loader" if is_factory(str(path)) else None
    except (OSError, ValueError):
        return None


def _recognise_file(path: Path) -> str | None:
    if IDX_NAME.fullmatch(path.name):
        return "idx"
    match suffix_of(path.name):
        case ".npz":
            return "npz"
        case ".csv" | ".tsv":
            return "csv"
        case ".txt":
            return "text"
        case ".jsonl":
            return "jsonl"
        case ".json":
            return "coco" if is_instances(path) else None
    return None


def _recognise_folder(path: Path) -> str | None:
    if (path / "dataset_dict.json").is_file() or all(
        (path / name).is_file() for name in ("state.json", "dataset_info.json")
    ):
        return "huggingface"
    with os.scandir(path) as entries:
        names = [entry.name for _, entry in zip(range(1000), entries, strict=False)]
    if any(IDX_NAME.fullmatch(name) for name in names):
        return "idx"
    if find_instances(path):
        return "coco"
    medium = glance_media(path)
    return {"image": "folders", "audio": "wav"}[medium] if medium else None


def find_instances(folder: Path) -> list[Path]:
    """Return the COCO files in ``annotations/``, else those beside the images of the folder or of one of its splits."""
    inside = folder / "annotations"
    if inside.is_dir():
        found = [file for file in sorted(inside.glob("*.json")) if is_instances(file)]
        return [file for file in found if file.name.startswith("instances")] or found
    found = [file for file in sorted(folder.glob("*.json")) if is_instances(file)]
    return found or [file for file in sorted(folder.glob("*/_annotations.coco.json")) if is_instances(file)]


def is_instances(file: Path) -> bool:
    """Return whether the beginning and the end of a JSON file have the keys of COCO. Never raises."""
    try:
        if not file.is_file() or file.name.startswith("."):
            return False
        with file.open("rb") as stream:
            text = stream.read(_GLANCE_BYTES)
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(len(text), size - _GLANCE_BYTES))
            text += stream.read()
    except OSError:
        return False
    # In the folder of a data set of another kind, what describes it may use one of these words.
    return text.lstrip()[:1] == b"{" and sum(key in text for key in _COCO_KEYS) >= 2 and _COCO_KEYS[0] in text
