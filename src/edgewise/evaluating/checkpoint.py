"""The results of finished samples in a file, from which an interrupted evaluation is resumed."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
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
            index=int(found["i"]),
            name=str(found["n"]),
            digest=str(found["d"]),
            record=found["r"],
            reason=str(found["s"]),
            changes=tuple(map(str, found.get("c", ()))),
        )


@dataclass(slots=True)
class Checkpoint:
    """Entries of one evaluation: in memory, and in the file at `path` if given.

    Attributes:
        entries: by the sample's number.
    """

    path: Path | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    _file: IO[str] | None = None
    _unwritten: int = 0

    def __enter__(self) -> Self:
        if self.path is not None:
            # A folder that can't be written to costs the resuming, not the evaluation.
            with contextlib.suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.entries = {entry.index: entry for entry in _read(self.path)}
                self._file = self.path.open("a", encoding="utf-8")
                if self._file.tell():  # the last line may be incomplete
                    self._file.write("\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

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
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


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
