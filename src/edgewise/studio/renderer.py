"""The server's end of drawing: pages and files of stored runs, made by a child process (`edgewise.studio.draw`).

The child holds what the server must not load: numpy, the reports and the drawing library. It is started when something
is to be drawn, ends after a minute without work or with the server, and is killed where it takes too long.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import threading
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from edgewise.child_process import ChildProcess, explain_end
from edgewise.clock import now
from edgewise.errors import BadInput, Unavailable, error_of
from edgewise.store import Store

MOST_RUNS = 200
"""Runs on one page."""
MOST_WAITING = 24
"""Requests that wait at once; the server has 40 threads, and the others must stay free for other pages."""
MOST_KEPT = 16 * 10**6
"""Bytes of finished pages in memory, compressed."""
DRAW_S, WAIT_S, IDLE_S = 60.0, 45.0, 60.0
_COMMAND: Final = (sys.executable, "-P", "-m", "edgewise.studio.draw")


class Renderer:
    """Draws what stored runs have to show; may be used from many threads, whose requests are carried out in turn.

    Args:
        url: of `store`, for the child; None is the user's own.
        draw_s, wait_s, idle_s: longest time in s for one drawing, for waiting until it is one's turn, and for a child
            without work.
        command: starts the child.
    """

    def __init__(
        self,
        store: Store,
        url: str | None,
        *,
        draw_s: float = DRAW_S,
        wait_s: float = WAIT_S,
        idle_s: float = IDLE_S,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        self._store, self._url, self._command = store, url, tuple(command)
        self._draw_s, self._wait_s, self._idle_s = draw_s, wait_s, idle_s
        self._turn = threading.Lock()
        self._waiting = threading.Semaphore(MOST_WAITING)
        self._child: ChildProcess | None = None
        self._end: threading.Timer | None = None
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_lock = threading.Lock()

    def part(self, kind: str, references: Sequence[str], **settings: Any) -> str:
        """Return the fragment of a page that shows stored runs.

        Args:
            kind: ``runs``, ``profile``, ``graph``, ``comparison`` or ``evaluation``; ``suite`` of a lab.
            references: ids and tags, as for `edgewise.store.Store.resolve`.
            settings: those of the kind in `edgewise.studio.draw`, such as ``force`` of a comparison.

        Raises:
            BadInput: a run that is not there, too many of them, or runs that have no such page.
            Unavailable: it takes too long, or too many others are waiting.
            StoreError: the store can't be read.
        """
        return self._draw(kind, "", references, settings).decode()

    def file(self, references: Sequence[str], extension: str, *, kind: str = "report", **settings: Any) -> bytes:
        """Return the content of a file for download, without the paths of this machine.

        Args:
            extension: ``report`` takes those of `edgewise.report.files`, other kinds take those of their results.
            kind: ``report``, ``trend``, or ``graph``, ``comparison`` or ``evaluation`` as in `part`.

        Raises as `part` does, and `BadInput` for an extension that can't be written.
        """
        return self._draw(kind, extension, references, settings)

    def close(self) -> None:
        """End the child. One that is drawing ends as soon as it finds its standard input closed."""
        if self._turn.acquire(timeout=1):
            try:
                self._stop()
            finally:
                self._turn.release()

    def _draw(self, kind: str, extension: str, references: Sequence[str], settings: Mapping[str, Any]) -> bytes:
        if not references:
            raise BadInput("no run is picked", advice="pick one in the list of runs")
        if "all" in references:
            raise BadInput("a page does not show all runs at once", advice=f"pick at most {MOST_RUNS}")
        ids, content = self._store.identify(references)
        if len(ids) > MOST_RUNS:
            raise BadInput(f"{len(ids)} runs are too many for one page", advice=f"pick at most {MOST_RUNS}")
        told = {"store": self._url, "kind": kind, "extension": extension, "runs": ids, "settings": settings}
        request = json.dumps(told).encode() + b"\n"
        if len(request) > 2**15:
            raise BadInput("a setting of this page is too long", advice="shorten its title")
        key = hashlib.sha256(request + content.encode()).hexdigest()
        if (found := self._find(key)) is not None:
            return zlib.decompress(found)
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("too many pages are being drawn", advice="load this page again in a moment")
        try:
            if not self._turn.acquire(timeout=self._wait_s):
                raise Unavailable("other pages are still being drawn", advice="load this page again in a moment")
            try:
                if (found := self._find(key)) is None:  # another tab may have had the same wish
                    found = self._ask(request)
                    self._keep(key, found)
            finally:
                self._turn.release()
        finally:
            self._waiting.release()
        return zlib.decompress(found)

    def _ask(self, request: bytes) -> bytes:
        """Return the child's answer, compressed.

        A child that has drawn before and fails is replaced once: it may just have grown large.

        Raises `Unavailable`, and what the child answers.
        """
        if self._end is not None:
            self._end.cancel()
        for fresh in (True,) if self._child is None else (False, True):
            line, failure = b"", ""
            try:
                if self._child is None:
                    self._child = ChildProcess(self._command, request=None)
                with suppress(BrokenPipeError):  # how it ended says more
                    self._child.send(request)
                line = self._child.read_line(until=now() + self._draw_s)
            except TimeoutError:
                failure = f"took longer than {self._draw_s:g} s"
            except OSError as error:
                failure = error.strerror or str(error)
            if line:
                self._end = threading.Timer(self._idle_s, self.close)
                self._end.daemon = True
                self._end.start()
                return _read(line)
            ended = self._stop()
            if fresh or failure.startswith("took"):
                raise Unavailable(
                    f"drawing these runs {failure or ended or 'failed'}",
                    advice="pick fewer runs, or use 'edgewise report RUN… -o report.html'",
                )
        raise AssertionError("unreachable")

    def _stop(self) -> str:
        """End the child; how it ended by itself, as a predicate."""
        child, self._child = self._child, None
        if child is None:
            return ""
        child.kill()
        return explain_end(child.returncode, child.tail)[1]

    def _find(self, key: str) -> bytes | None:
        with self._kept_lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: str, content: bytes) -> None:
        with self._kept_lock:
            if len(content) <= MOST_KEPT // 4:
                self._kept[key] = content
            while sum(map(len, self._kept.values())) > MOST_KEPT:
                self._kept.popitem(last=False)


def _read(line: bytes) -> bytes:
    """Return the compressed content in an answer. Raises the error that it tells of."""
    answer = json.loads(line)
    if "error" not in answer:
        return base64.b64decode(answer["content"])
    raise error_of(answer)
