"""Files of a lab's jobs: packed and kept in the lab by who queues, fetched and checked by the worker.

In a queued request a path is ``SHA256/NAME`` for a file and ``SHA256.tar/NAME`` for several files or a folder, which
counts from the worker's cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tarfile
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from edgewise.errors import BadInput, BadModel
from edgewise.evaluating.instructions import files_of
from edgewise.folders import job_folder
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.store.lab_files import LabFiles
from edgewise.store.lab_folder import CHUNK
from edgewise.units import format_bytes

_PLACE = re.compile(r"([0-9a-f]{64})(\.tar)?/(.+)", re.DOTALL)
TAR = ".tar"
FILES = "files"
"""The key of a row that has the place, in the lab, of the folder that a job made."""


def is_lab_path(path: str) -> bool:
    """Whether `path` is one of a queued request, which leads nowhere but into its own folder of the cache."""
    found = _PLACE.fullmatch(path)
    return found is not None and ".." not in PurePosixPath(found[3]).parts and not found[3].startswith("/")


class Packer:
    """Puts files of requests into a lab, each content once."""

    def __init__(self, files: LabFiles, *, most: int) -> None:
        self._files = files
        self._most = most
        self._packed: dict[str, str] = {}

    def pack(self, path: str, others: Iterable[Path] = ()) -> str:
        """Return the path of a queued request for that of a file or a folder; code and what is no file stay as
        they are.

        Args:
            others: files that go along, where the path was not packed before.

        Raises `BadInput` for a file that is larger than the lab takes.
        """
        if path not in self._packed:
            place = Path(path)
            self._packed[path] = path if is_factory(path) or path.endswith(".py") else self._put(place, others)
        return self._packed[path]

    def _put(self, place: Path, others: Iterable[Path]) -> str:
        if not place.exists():
            return str(place)
        members, root = _members_of(place)
        if more := {one for one in others if one.is_file()} - {place}:
            members = [place, *sorted(more)]
            root = Path(os.path.commonpath({one.parent for one in members}))
        if len(members) == 1 and members[0] == place:
            with place.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            self._keep(sha256, place)
            return f"{sha256}/{place.name}"
        with job_folder() as folder:
            archive = folder / "files.tar"
            write_archive(archive, members, root)
            with archive.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            self._keep(sha256, archive)
        return f"{sha256}{TAR}/{place.relative_to(root).as_posix()}"

    def _keep(self, sha256: str, path: Path) -> None:
        size = path.stat().st_size
        if size > self._most:
            raise BadInput(
                f"{path.name} has {format_bytes(size)}, and the lab takes files of up to {format_bytes(self._most)}",
                advice="the lab's owner can allow more: edgewise lab init ⟦most_file=SIZE⟧",
            )
        if self._files.size(sha256) != size:
            self._files.put(sha256, path)


def _members_of(place: Path) -> tuple[Sequence[Path], Path]:
    """Return the files that belong to a file or a folder, and the folder from which their names count."""
    if place.is_dir():
        return sorted(one for one in place.rglob("*") if one.is_file()), place.parent
    beside = [one for one in (place.with_name(f"{place.name}.yaml"), place.with_suffix(".yaml")) if one.is_file()]
    try:
        files = [Path(one) for one in open_model(place).files]
    except (BadModel, BadInput):  # no model: data, a list of names, or instructions
        files, beside = [], [place] if place.suffix in (".yaml", ".yml") else []
    named = [file for document in beside for file in files_of(document)]
    members = {one.resolve(): one for one in (*files, *beside, *named) if one != place}
    near = [one for one in members.values() if one.is_relative_to(place.parent)]
    return [place, *sorted(near)], place.parent


def write_archive(path: Path, members: Iterable[Path], root: Path) -> None:
    """Write an archive of files whose bytes depend on their names and contents alone."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            entry = tarfile.TarInfo(member.relative_to(root).as_posix())
            entry.size, entry.mode = member.stat().st_size, 0o644
            with member.open("rb") as file:
                archive.addfile(entry, file)


def name_of_folder(folder: str | None) -> str:
    """Return the name of what a queued request is to make, without the folders around it."""
    name = Path(folder or "").name
    return name if name not in ("", "..") else "optimized"


def fetch_folder(files: LabFiles, path: str, folder: Path) -> None:
    """Copy the content of a folder of the lab into `folder`, over what is there. Raises as `FileCache.place`."""
    with tempfile.TemporaryDirectory(prefix="edgewise-lab-") as near:
        shutil.copytree(FileCache(Path(near), files, most=sys.maxsize).place(path), folder, dirs_exist_ok=True)


class FileCache:
    """The files that a worker has fetched. The oldest go where there are more bytes than `most`."""

    def __init__(self, folder: Path, files: LabFiles, *, most: int) -> None:
        self._folder = folder
        self.files = files
        self._most = most
        self._lock = threading.Lock()
        self._kept = Counter[Path]()

    @contextlib.contextmanager
    def keeping(self) -> Iterator[Callable[[str], str]]:
        """Yield a function that does what `place` does; what it gives stays there inside."""
        mine: list[Path] = []

        def place(path: str) -> str:
            with self._lock:  # devices may need the same file at the same time
                placed = self.place(path)
                mine.append(self._folder / path.partition("/")[0])
                self._kept[mine[-1]] += 1
            return placed

        try:
            yield place
        finally:
            with self._lock:
                self._kept.subtract(mine)

    def place(self, path: str) -> str:
        """Return the absolute path of a path of a queued request, whose content is there and checked.

        Raises `BadInput` for content that the lab does not have, and where it can't be kept; `StoreError`.
        """
        found = _PLACE.fullmatch(path)
        assert found is not None and is_lab_path(path)
        sha256, archive, name = found.groups()
        folder = self._folder / (sha256 + (archive or ""))
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if archive is None and not self._is_whole(folder / name, sha256):
                shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                self._fetch(sha256, folder, None if archive else name)
            os.utime(folder)
        except (OSError, ValueError, tarfile.TarError) as error:  # a name that no file can have is a ValueError
            reason = getattr(error, "strerror", None) or error
            raise BadInput(f"the worker can't keep {name}: {reason}", advice="see its disk") from error
        return str(folder / name)

    def _is_whole(self, file: Path, sha256: str) -> bool:
        with contextlib.suppress(OSError), file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
        return False

    def _fetch(self, sha256: str, folder: Path, name: str | None) -> None:
        """Fetch content into a new folder; `name` is that of the file, None unpacks an archive."""
        size = self.files.size(sha256)
        if size is None:
            raise BadInput(f"the lab has no file {sha256[:12]}", advice="queue the sweep again")
        self._make_room(size if name else 2 * size)
        partial = self._folder / f"{sha256}.part"
        whole = partial.stat().st_size // CHUNK if partial.exists() else 0
        with partial.open("ab") as file:
            file.truncate(whole * CHUNK)
            for piece in self.files.read(sha256, first=whole):
                file.write(piece)
        if not self._is_whole(partial, sha256):
            partial.unlink()
            raise BadInput(f"the file {sha256[:12]} was damaged on its way", advice="queue the sweep again")
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="new-") as room:
            new = Path(room) / "files"
            new.mkdir()
            if name:
                partial.rename(new / name)
            else:
                with tarfile.open(partial) as archive:
                    archive.extractall(new, filter="data")
                partial.unlink()
            new.rename(folder)

    def _make_room(self, size: int) -> None:
        """Remove what was used longest ago until `size` more bytes fit."""
        every = [one for one in self._folder.iterdir() if one.is_dir()]
        folders = sorted(every, key=lambda one: (self._kept[one] > 0, one.stat().st_mtime))
        sizes = {one: sum(file.stat().st_size for file in one.rglob("*") if file.is_file()) for one in folders}
        left = sum(sizes.values())
        for folder in folders:
            if left + size <= self._most:
                return
            if self._kept[folder] > 0:
                break
            shutil.rmtree(folder, ignore_errors=True)
            left -= sizes[folder]
        if left + size > self._most:
            limit = format_bytes(self._most)
            raise BadInput(f"files of {format_bytes(size)} don't fit into the worker's cache", advice=f"it has {limit}")
