"""Models and data that pages can name: uploads, and files below the folders given at the start.

    FOLDER/models/SHA256/entry.json, files/…     an uploaded model; SHA256 is that of its runs
    FOLDER/data/SHA256/entry.json, files/…       an uploaded data set
    ROOT/some/model.onnx                         is named ROOT's name, then the path below it

Nothing is read here but names, sizes and times: what a file is, a process with limits finds out (`model_worker`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Literal

from edgewise.errors import BadInput
from edgewise.evaluating.formats.recognition import recognise
from edgewise.folders import intermediate_folders, job_folder, sweep_folders
from edgewise.text import one_line

Kind = Literal["models", "data"]
KINDS: tuple[Kind, ...] = ("models", "data")

SAVED_MODEL = "saved_model.pb"
FORMATS = {
    ".onnx": "onnx", ".tflite": "tflite", ".lite": "tflite", ".xml": "openvino", ".pt2": "torch",
    ".pte": "executorch", ".keras": "keras", ".ort": "ort", ".pb": "tensorflow", ".pdmodel": "paddle",
}  # fmt: skip
"""Ending of a file's name → format of the model that it holds, as its runs name it."""
WEIGHTS = {".xml": ".bin", ".pdmodel": ".pdiparams"}
"""Ending of a model's name → that of the file beside it with its weights."""
DATA = (".npz", ".npy", ".csv", ".tsv")
"""Endings of files that hold data."""

MOST_SEEN = 20_000
"""Files and folders that a look at one root goes through."""
MOST_DEPTH = 8
_KEY = re.compile(r"[0-9a-f]{64}")


class NotThere(BadInput):
    """A model or data set that is not there, or that no page may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """A model, or a data set.

    Attributes:
        key: names it in URLs: the sha256 of an upload; the root's name and the path below it of a file of a root.
        name: for people; of an upload the client's name for it.
        path: the file or folder that requests name.
        sha256: as its runs have it; empty for files of a root, which are not read for a list.
        format: as its runs have it; of a file of a root by the ending of its name.
        size_bytes: of all its files; of a folder below a root None, since it is not gone through.
        added: when it was uploaded or last changed.
        left_out: members of its archive that were not taken, such as settings.
        uploaded: whether it is an upload, which can be deleted.
    """

    kind: Kind
    key: str
    name: str
    path: Path
    sha256: str = ""
    format: str
    size_bytes: int | None
    added: datetime
    left_out: Sequence[str] = ()
    uploaded: bool = False


@dataclass(slots=True, kw_only=True)
class Models:
    """What the studio may read.

    Args:
        folder: of uploads.
        roots: folders given at the start.
    """

    folder: Path
    roots: Sequence[Path] = ()
    _names: dict[str, Path] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for root in self.roots:
            name = root.name or "root"
            while name in self._names:
                name += "-2"
            self._names[name] = root.resolve()
        with suppress(OSError):  # whether it can be written is found out by the first upload
            self.incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
            sweep_folders(within=self.incoming)

    @property
    def incoming(self) -> Path:
        """Where uploads lie until they are whole."""
        return self.folder / "incoming"

    def entries(self, kind: Kind = "models") -> list[ModelEntry]:
        """All models, or all data sets and files of input arrays, the newest first."""
        uploads: list[ModelEntry] = []
        with suppress(FileNotFoundError):
            names = os.listdir(self.folder / kind)  # noqa: PTH208 - names alone
            uploads = [entry for name in names if (entry := self._upload(kind, name)) is not None]
        found = [*uploads, *(entry for name, root in self._names.items() for entry in look(name, root, kind))]
        return sorted(found, key=lambda entry: (entry.added, entry.key), reverse=True)

    def get(self, key: str, kind: Kind = "models") -> ModelEntry:
        """Return the model, or the data set, that `key` names. Raises `NotThere`."""
        found = self._upload(kind, key) or self._below_root(kind, key)
        if found is None:
            noun = "model" if kind == "models" else "data set"
            raise NotThere(f"there is no {noun} {key[:80]!r}", advice="pick one from the list, or upload it")
        return found

    def add(self, made: Path, *, kind: Kind, key: str, main: str, label: str, **facts: object) -> ModelEntry:
        """Keep the upload whose files lie in `made`, a folder in `incoming`; one that is there already stays as it is.

        Args:
            main: the file or folder in `made` that requests name; "" is `made` itself.
            label: the client's name for it.
            facts: further attributes of its entry.

        Raises `OSError`: the disk is full, or the folder can't be written.
        """
        there = self._upload(kind, key)
        if there is not None:
            return there
        whole = made.with_name(f"{made.name}.whole")
        whole.mkdir(mode=0o700)
        made.rename(whole / "files")
        now = datetime.now(UTC).isoformat()
        entry = {"name": clean_label(label), "main": main, "added": now, **facts}
        (whole / "entry.json").write_text(json.dumps(entry), encoding="utf-8")
        target = self.folder / kind / key
        target.parent.mkdir(exist_ok=True, mode=0o700)
        try:
            whole.rename(target)
        except OSError:
            if self._upload(kind, key) is None:  # no other upload of the same files was quicker
                raise
        return self.get(key, kind)

    def remove(self, kind: Kind, key: str) -> ModelEntry:
        """Delete an upload and return what it was. Raises `NotThere` where `key` names none."""
        if (entry := self._upload(kind, key)) is None:
            raise NotThere("there is no such upload", advice="files of a folder are not deleted by the studio")
        with suppress(FileNotFoundError), job_folder(within=self.incoming) as gone:
            # At once, however much is in it: half an upload is never listed.
            (self.folder / kind / key).rename(gone / key)
        return entry

    def _upload(self, kind: Kind, key: str) -> ModelEntry | None:
        folder = self.folder / kind / key
        if not _KEY.fullmatch(key):
            return None
        try:
            facts = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
            return ModelEntry(
                kind=kind,
                key=key,
                sha256=key,
                path=folder / "files" / facts.pop("main"),
                added=datetime.fromisoformat(facts.pop("added")),
                uploaded=True,
                **facts,
            )
        except (OSError, ValueError, KeyError, TypeError):  # none, or one that is being deleted
            return None

    def _below_root(self, kind: Kind, key: str) -> ModelEntry | None:
        """Return the file or folder below a root that `key` names, where a look at the root would have found it."""
        name, *parts = key.split("/")
        root = self._names.get(name)
        if root is None or not parts or len(parts) > MOST_DEPTH or any(map(_hidden, parts)) or "\0" in key:
            return None
        return _entry(name, root, Path(*parts), kind)


def clean_label(text: str) -> str:
    """Return a client's name for a file as a label of one line: what stands after the last slash, without controls."""
    name = one_line(re.split(r"[/\\]", text)[-1])
    return name if len(name) <= 80 else f"{name[:79]}…"


def safe_name(label: str, *, otherwise: str) -> str:
    """Return a file's name of ASCII letters, digits, ``-``, ``_``, inner dots, without its ending; else `otherwise`."""
    stem = Path(clean_label(label)).stem
    kept = re.sub(r"[^A-Za-z0-9._-]+", "_", stem.encode("ascii", "ignore").decode()).strip("._-")
    return kept[:60].strip("._-") or otherwise


def look(name: str, root: Path, kind: Kind) -> Iterator[ModelEntry]:
    """Yield what lies below a folder, within bounds, with keys below `name`; nothing hidden, no links leading out."""
    seen, endings = 0, FORMATS if kind == "models" else DATA
    for folder, folders, files in os.walk(root):
        below = Path(folder).relative_to(root)
        seen += len(folders) + len(files)
        if seen > MOST_SEEN:
            return
        named = {each for each in folders if not _hidden(each)} - intermediate_folders(files)
        folders[:] = sorted(named) if len(below.parts) < MOST_DEPTH else []
        possible = (each for each in files if not _hidden(each) and Path(each).suffix.lower() in endings)
        for each in [*folders, *possible]:
            if (entry := _entry(name, root, below / each, kind)) is not None:
                yield entry
        # Neither a data set nor a SavedModel has others inside; the files of one may be a hundred thousand.
        folders[:] = [each for each in folders if not any(_entry(name, root, below / each, one) for one in KINDS)]


def format_of(path: Path, kind: Kind) -> str | None:
    """Return the format of the model or data set at `path` by its name and the names inside; None where it is none."""
    suffix = path.suffix.lower()
    if path.is_dir():
        if kind == "models":
            return "savedmodel" if (path / SAVED_MODEL).is_file() else None
        with os.scandir(path) as found:  # a folder of models may hold pictures, too
            holds_models = any(Path(each.name).suffix in FORMATS for each in islice(found, 1000))
        return None if holds_models else recognise(path)
    if not path.is_file() or path.name == SAVED_MODEL:
        return None
    if kind == "data":
        return suffix[1:] if suffix in DATA else None
    # Other programs have .xml files, too.
    return FORMATS.get(suffix) if suffix != ".xml" or path.with_suffix(".bin").is_file() else None


def _hidden(name: str) -> bool:
    """Whether a name is left out; one with a colon could be taken for ``FILE.py:FUNCTION``."""
    return name.startswith(".") or not name or ":" in name


def _entry(root_name: str, root: Path, below: Path, kind: Kind) -> ModelEntry | None:
    """Return the model or data set at `below` in a root; None where there is none, or a link leads out of the root."""
    path = root / below
    try:
        # Links that lead out are not followed: there may be a whole disk.
        form = format_of(path, kind) if path.resolve(strict=True).is_relative_to(root) else None
        if form is None:
            return None
        weights = path.with_suffix(WEIGHTS.get(path.suffix.lower(), path.suffix))
        size = sum(each.stat().st_size for each in {path, weights} if each.is_file())
        added = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, RuntimeError, ValueError):
        return None
    return ModelEntry(
        kind=kind,
        key="/".join((root_name, *below.parts)),
        name="/".join(map(one_line, below.parts)),
        path=path,
        format=form,
        size_bytes=None if path.is_dir() else size,
        added=added,
    )
