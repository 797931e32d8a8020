"""What happened to the cells of a suite: a line of JSON per cell that ended, in the folder of the results."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgewise.errors import BadInput, StoreError, Unavailable
from edgewise.folders import CELLS
from edgewise.verbs.outcome import Outcome, line_of

RESULTS = "results"
"""The folder, in that of the sweep, of outcomes of cells that a scheduler carried out."""
ELSEWHERE = "make room, or give another ⟦folder⟧"


class Ledger:
    """The outcomes in a folder. A line that a crash cut short is left out; of two of a cell the last one counts."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CELLS
        self.outcomes: dict[str, Outcome] = {}
        for outcome in self._read():
            self.outcomes[outcome.key] = outcome

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Write outcomes at once, which survive a crash from now on. Raises `StoreError`."""
        self.outcomes |= {outcome.key: outcome for outcome in outcomes}
        lines = "".join(map(line_of, outcomes))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                if file.tell() and not self._ends_whole():
                    file.write(b"\n")
                file.write(lines.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"can't write {self._path}: {error.strerror or error}", advice=ELSEWHERE) from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other sweeps from writing to the folder. Raises `Unavailable` where one is doing so."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._path.with_name(".lock").open("ab")
        except OSError as error:
            raise StoreError(f"can't write to {self._path.parent}: {error.strerror}", advice=ELSEWHERE) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                message = f"another sweep writes to {self._path.parent}"
                raise Unavailable(message, advice="wait for it, or give another ⟦folder⟧") from None
            yield

    def _ends_whole(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _read(self) -> Iterator[Outcome]:
        try:
            with self._path.open("rb") as file:
                for line in file:
                    try:
                        yield Outcome(**json.loads(line))
                    except (ValueError, TypeError):
                        continue
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadInput(f"can't read {self._path}: {error.strerror}", advice="give another ⟦folder⟧") from error
