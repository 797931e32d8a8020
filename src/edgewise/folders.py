"""Temporary folders: gone when the work is, and swept with the next one where their process was killed.

Also absolute paths, the check of a place before a file is written there, and which folders hold intermediate models.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from edgewise.errors import BadInput

JOURNAL, VARIANTS = "made.jsonl", "variants"
"""What a later search uses of the folder of an earlier one, wherever that is then."""
CELLS, MODELS = "cells.jsonl", "models"
"""In the folder of a suite's results: how its cells ended, and the reference networks that it measured."""
STALE_S = 60.0
"""Younger folders are not swept: between being made and being locked they look like a dead process's."""

_PREFIX = "edgewise-tmp-"


@contextmanager
def job_folder(*, within: Path | None = None) -> Iterator[Path]:
    """Yield a private folder that is removed afterwards; those that killed processes have left are swept before.

    It is locked as long as this process lives. A process number in its name would say less: containers that share the
    folder of temporary files have the same numbers.

    Args:
        within: the folder in which it is made; None is the folder of temporary files.
    """
    sweep_folders(within=within)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=within, ignore_cleanup_errors=True) as name:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            _lock(descriptor)
            yield Path(name)
        finally:
            os.close(descriptor)


def enclosing_job_folder(folder: Path) -> Path | None:
    """Return the job folder that `folder` lies directly in; None where it lies elsewhere."""
    return folder.parent if folder.parent.name.startswith(_PREFIX) else None


def sweep_folders(*, now: float | None = None, within: Path | None = None) -> int:
    """Remove this user's folders that no process holds any more, and return their number.

    Args:
        now: seconds since 1970; None asks the clock.
        within: as in `job_folder`.
    """
    now = time.time() if now is None else now
    swept = 0
    with suppress(OSError):
        for folder in (within or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
            with suppress(OSError):
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    status = os.fstat(descriptor)
                    if status.st_uid == os.getuid() and now - status.st_mtime > STALE_S and _lock(descriptor):
                        shutil.rmtree(folder, ignore_errors=True)
                        swept += 1
                finally:
                    os.close(descriptor)
    return swept


def _lock(descriptor: int) -> bool:
    """Whether no other process holds the folder. False where the system has no locks, since it can't be known."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def intermediate_folders(files: Sequence[str]) -> set[str]:
    """Return the names of the folders beside `files` with intermediate models: a search's variants, a suite's copies
    of reference networks.
    """
    return {folder for journal, folder in ((JOURNAL, VARIANTS), (CELLS, MODELS)) if journal in files}


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """Return `path` from the root. Links are kept: files are called as users call them."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve follows links


def check_place(path: Path, *, overwrite: bool, example: str) -> None:
    """Raise `BadInput` where a file can't be written to `path`; `example` is a file name for the advice."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder", advice=f"give a file in it, such as {example}")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}", advice="make it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadInput(f"can't write to {path}", advice="name another place")
    if path.exists() and not overwrite:
        raise BadInput(f"{path} exists already", advice="use ⟦force⟧ to overwrite it, or another name")
