"""Files that are made once and kept in the user's cache folder, under a hash of all that they depend on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgewise.errors import RunFailed

KEPT_FILES = 64
"""Number of files with one suffix; the oldest are deleted."""


def cached(name: str, make: Callable[[Path], object], *, folder: Path) -> Path:
    """Return the file `name` of the cache; if it does not exist, `make` writes it into `folder` first.

    Where the cache folder can't be written, the result is the file in `folder`. Processes that make the same file at
    the same time don't disturb each other: the last one replaces the file as a whole.
    """
    from platformdirs import user_cache_path

    target = user_cache_path("edgewise") / "mcu" / name
    with contextlib.suppress(OSError):
        if target.is_file():
            return target
    made = folder / name
    make(made)
    fresh = target.with_name(f"{name}.{os.getpid()}-{threading.get_ident()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(made, fresh)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
        files = sorted(target.parent.glob(f"*{target.suffix}"), key=lambda file: file.stat().st_mtime)
        for old in files[:-KEPT_FILES]:
            old.unlink(missing_ok=True)
    except OSError:  # a full disk, a folder that can't be written, or another process that deletes the same files
        return made
    return target


def cached_report(name: str, make: Callable[[], Mapping[str, Any]], *, folder: Path) -> Mapping[str, Any]:
    """Return what `make` returned, which the cache keeps in the JSON file `name`; `folder` as for `cached`.

    Raises:
        RunFailed: the file is damaged.
    """
    file = cached(name, lambda target: target.write_text(json.dumps(make())), folder=folder)
    try:
        report: Mapping[str, Any] = json.loads(file.read_bytes())
    except ValueError:
        raise RunFailed(f"{file} is damaged", advice="delete this file, and run the command again") from None
    return report


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is deleted at the end. Raises `RunFailed` where a file in it can't be written."""
    try:
        with tempfile.TemporaryDirectory(prefix="edgewise-mcu-") as name:
            yield Path(name)
    except OSError as error:
        raise RunFailed(
            f"temporary files can't be written: {error.strerror}",
            advice="make room in the folder for temporary files, or set TMPDIR to another folder",
        ) from error
