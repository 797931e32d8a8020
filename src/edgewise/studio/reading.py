"""What models are: found out by a limited child process (`model_worker`), kept in the studio's folder."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from edgewise.cancellation import Cancelled, CancelToken, cancellable
from edgewise.child_process import run_child
from edgewise.errors import RunFailed, error_of
from edgewise.studio.models import ModelEntry
from edgewise.version import __version__

Kind = Literal["inspect", "graph"]
READ_S = 300.0
"""Longest time for reading one model, or for unpacking, hashing and recognising one upload."""
MOST_BYTES = 32 * 10**6
"""Of one answer, which the server holds in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a model is.

    Attributes:
        sha256: as its runs have it.
        page: a fragment that `edgewise.report` made.
    """

    sha256: str
    format: str
    page: str


class Readings:
    """Reads models in child processes, two at a time, each once for each version of the file and of edgewise.

    Args:
        folder: where the results are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="reading")
        self._token = CancelToken()
        self._lock = threading.Lock()
        self._going: dict[str, Future[Reading]] = {}

    def known(self, entry: ModelEntry, kind: Kind = "inspect") -> Reading | None:
        """Return what is known of the model without reading it."""
        with suppress(OSError, ValueError, TypeError):
            return Reading(**json.loads(self._place(entry, kind).read_text(encoding="utf-8")))
        return None

    def read(self, entry: ModelEntry, kind: Kind = "inspect", *, wait_s: float) -> Reading | None:
        """Return what the model is, with a page that tells it or with its graph; None where that takes longer
        than `wait_s`.

        Raises `EdgewiseError` where it can't be read; a server that starts again tries again.
        """
        if (found := self.known(entry, kind)) is not None:
            return found
        try:
            return self.begin(entry, kind).result(wait_s)
        except Late:
            return None

    def begin(self, entry: ModelEntry, kind: Kind = "inspect") -> Future[Reading]:
        """Read the model in the background, unless that goes on already."""
        name = self._place(entry, kind).name
        with self._lock:
            if name not in self._going:
                self._going[name] = self._pool.submit(self._read, entry, kind)
            return self._going[name]

    def forget(self, entry: ModelEntry) -> None:
        """Remove what is known of a model that is deleted."""
        for kind in get_args(Kind):
            self._place(entry, kind).unlink(missing_ok=True)

    def close(self) -> None:
        """End what is being read."""
        self._token.cancel()
        self._pool.shutdown(cancel_futures=True)

    def _place(self, entry: ModelEntry, kind: Kind) -> Path:
        version = (__version__, kind, entry.key, str(entry.path), entry.size_bytes, entry.added.isoformat())
        return self._folder / f"{hashlib.sha256(json.dumps(version).encode()).hexdigest()}.json"

    def _read(self, entry: ModelEntry, kind: Kind) -> Reading:
        try:
            with cancellable(self._token):
                told = ask_worker({kind: str(entry.path), "title": entry.name}, what=entry.name)
        except Cancelled:  # is a KeyboardInterrupt, which must not end the thread
            raise RunFailed("the server ends", advice="") from None
        place = self._place(entry, kind)
        with suppress(OSError):  # a full disk: it is read again next time
            place.parent.mkdir(exist_ok=True, mode=0o700)
            fresh = place.with_suffix(f".{threading.get_ident()}")
            fresh.write_text(json.dumps(told), encoding="utf-8")
            fresh.rename(place)
        with self._lock:
            self._going.pop(place.name, None)
        return Reading(**told)


def ask_worker(request: dict[str, Any], *, what: str) -> dict[str, Any]:
    """Return the answer of a `model_worker`, which limits itself; `what` is what messages are about.

    Raises `EdgewiseError`: what it answers, or that it ended or took longer than `READ_S`.
    """
    command = [sys.executable, "-P", "-m", "edgewise.studio.model_worker"]
    done = run_child(command, request=json.dumps(request).encode(), seconds=READ_S, max_output=MOST_BYTES)
    if done.failure:
        raise RunFailed(
            f"{what}: the process that reads it {done.failure}",
            advice="check that it is a model; 'edgewise inspect' on the command line has no limits",
        )
    answer: dict[str, Any] = json.loads(done.output)
    if "error" in answer:
        raise error_of(answer)
    return answer
