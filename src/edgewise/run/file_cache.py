"""Files out of the kernel's cache, so that loading reads them from the disk. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path


def drop_files(paths: Iterable[Path]) -> dict[str, float | None]:
    """Ask the kernel to drop files from its cache, which needs no rights, and return what is left of them.

    Files in memory (tmpfs), files that are not written to the disk yet and those that a process has mapped stay.

    Returns:
        ``{"cached_before", "cached_after"}``: shares of their pages in the cache, 0…1; None where that can't be seen.
    """
    files = list(paths)
    before = _cached_share(files)
    for path in files:
        with contextlib.suppress(OSError, AttributeError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    return {"cached_before": before, "cached_after": _cached_share(files)}


def _cached_share(paths: Iterable[Path]) -> float | None:
    """Share of the files' pages in the cache (mincore(2)); None where that can't be seen."""
    cached = pages = 0
    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
        for path in paths:
            # A private mapping, because ctypes gives the address of writable memory only; nothing is written.
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
                flags = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
                first = ctypes.c_char.from_buffer(mapped)
                failed = mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(mapped)), flags)
                del first  # else the mapping can't be closed
            if failed:
                return None
            pages += len(flags)
            cached += sum(flag & 1 for flag in flags)
    except (OSError, ValueError, AttributeError):
        return None
    return cached / pages if pages else None
