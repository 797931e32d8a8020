"""The results of finished samples in a file, from which an interrupted evaluation is resumed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

FLUSH_LINES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One sample: its digest and record, or why it was skipped; and what preparing it changed, each in a few words."""

    index: int
    name: str
    digest: str = ""
    record: Any = None
    reason: str = ""
    changes: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        line = {"i": self.index, "n": self.name, "d": self.digest, "r": self.record, "s": self.reason}
        return {**line, "c": self.changes} if self.changes else line

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Self:
        """Read what `to_document` gave. Raises `ValueError`, `KeyError`, `TypeError` or `OverflowError`."""
        return cls(
            index=int(found["i"]), name=str(found["n"]), digest=str(found["d"]), record=found["r"],
            reason=str(found["s"]), changes=tuple(map(str, found.get("c", ()))),
        )  # fmt: skip


@dataclass(slots=True)
class Checkpoint:
    """Entries of one evaluation: in memory, and in the file at `path` if given.

    The file is locked meanwhile: what another process writes there is no interrupted evaluation.

    Attributes:
        path: None once another evaluation turns out to use it, or the file can't be made.
        fresh: begin without what the file has.
        entries: by the sample's number.
    """

    path: Path | None = None
    fresh: bool = False
    entries: dict[int, Entry] = field(default_factory=dict)
    _file: IO[str] | None = None
    _unwritten: int = 0

    def __enter__(self) -> Self:
        if self.path is not None:
            try:
                self._open(self.path)
            except OSError:  # costs the resuming, not the evaluation
                self._close()
                self.path = None
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def discard(self) -> None:
        """Remove the file: nothing is left to resume."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _open(self, path: Path) -> None:
        """Lock the file and read it. Raises OSError, also where another evaluation has it or has just removed it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system without locks
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise FileNotFoundError(path)
        if self.fresh:
            self._file.truncate(0)
        self.entries = {entry.index: entry for entry in _read(path)}
        if path.stat().st_size:  # the last line may be incomplete
            self._file.write("\n")

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def write(self, entry: Entry) -> None:
        """Note what became of one sample."""
        self.entries[entry.index] = entry
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(entry.to_document(), separators=(",", ":")) + "\n")
            self._unwritten += 1
            if self._unwritten >= FLUSH_LINES:
                self._file.flush()
                self._unwritten = 0
        except OSError:  # a full disk costs the resuming, not the evaluation
            self._close()


def checkpoint_path(identity: Mapping[str, Any], *, folder: Path | None = None) -> Path:
    """Return the checkpoint file of the evaluation with this identity, in `folder`, by default the user's cache."""
    from platformdirs import user_cache_path

    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), default=str)
    folder = folder or user_cache_path("edgewise") / "evaluations"
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl"


def _read(path: Path) -> Iterator[Entry]:
    """Yield the valid lines of a checkpoint; an incomplete last line is left out."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    yield Entry.read(json.loads(line))
    except FileNotFoundError:
        return
