"""Temporary folders of jobs: gone when the job is, and swept later where a killed host could not."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STALE_S = 24 * 3600.0
"""A folder is swept when its host is dead *and* it is this old: in a container the host may be alive out of sight."""

_NAME = re.compile(r"edgewise-(\d+)-\w+")


@contextmanager
def job_folder() -> Iterator[Path]:
    """A private folder that is removed afterwards; its name carries the host's process number."""
    with tempfile.TemporaryDirectory(prefix=f"edgewise-{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def sweep_folders(*, now: float | None = None) -> int:
    """Remove the folders of this user's dead hosts; returns how many."""
    now = time.time() if now is None else now
    swept = 0
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob("edgewise-*-*"):
            match = _NAME.fullmatch(folder.name)
            if match is None or _is_alive(int(match[1])):
                continue
            with suppress(OSError):
                status = folder.lstat()
                if status.st_uid == os.getuid() and now - status.st_mtime > STALE_S and folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)
                    swept += 1
    return swept


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
