"""Where things are printed: results on standard output, everything else on standard error."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import select
import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, TextIO, cast

from edgewise.text import one_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console


class _Sink(io.FileIO):
    """A file descriptor to which writing never fails: after an error, output is dropped."""

    fault: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        size = len(memoryview(data))
        while self.fault is None:
            try:
                written = super().write(data)
            except OSError as error:
                self.fault = error
                break
            if written is not None:
                return written
            select.select([], [self], [])  # a pipe that does not block, and is full
        return size


class SteadyStreams:
    """While open, neither a closed pipe nor a full disk ends a command that prints.

    Reports and the exit code must not depend on who reads: ``edgewise gate … | head -1`` fails where the gate fails.
    Characters that the stream's encoding lacks are written as escapes. What is written to a closed stream is dropped.
    """

    def __init__(self) -> None:
        self._before: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)
        self._sink: _Sink | None = None

    def __enter__(self) -> Self:
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:  # otherwise the next file that is opened, such as the store, would be printed to
                os.open(os.devnull, os.O_RDWR)
        for name in ("COLUMNS", "LINES"):
            if not re.fullmatch("0*[1-9][0-9]{0,3}", os.environ.get(name, "80")):
                del os.environ[name]  # as if it weren't set: Rich believes any number
        sys.stdout, self._sink = _steady(sys.stdout, 1)
        sys.stderr, _ = _steady(sys.stderr, 2)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = self._before

    def loss(self) -> OSError | None:
        """Why results did not reach standard output; None where they did, or where the reader had closed the pipe."""
        sys.stdout.flush()
        fault = self._sink.fault if self._sink else None
        return None if fault is None or fault.errno == errno.EPIPE else fault


def _steady(stream: TextIO | None, number: int) -> tuple[TextIO, _Sink | None]:
    """`stream` (None: the closed one with this file descriptor) so that writing never fails, and its sink."""
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(_Sink(number, "w", closefd=False)), encoding="utf-8"), None
    if not isinstance(stream, io.TextIOWrapper):  # a notebook's, a test's
        return stream, None
    stream.flush()
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):  # a Windows console's
        stream.reconfigure(errors="backslashreplace")
        return stream, None
    sink = _Sink(stream.fileno(), "w", closefd=False)
    by_lines = stream.line_buffering or stream.write_through
    text = io.TextIOWrapper(io.BufferedWriter(sink), stream.encoding, "backslashreplace", line_buffering=by_lines)
    return text, sink


class _Trimmed:
    """A file or pipe that drops the trailing blanks which Rich adds to wrapped lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        self._file.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def out() -> Console:
    """Return standard output, for results. Rich detects whether it is a terminal, and its width.

    In a notebook Rich would show each line as an output of its own.
    """
    from rich.console import Console

    file = sys.stdout if sys.stdout.isatty() else cast("IO[str]", _Trimmed(sys.stdout))
    return Console(soft_wrap=False, highlight=False, emoji=False, file=file, force_jupyter=False)


def err() -> Console:
    """Return standard error, for progress, cautions and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, force_jupyter=False)


def complain(message: str, advice: str = "") -> None:
    """Print an error on standard error: a red line with the message, and one with the advice."""
    from rich.markup import escape

    console = err()
    console.print(f"[bold red]error:[/] {escape(one_line(message))}", soft_wrap=True)
    if advice:
        console.print(f"[dim]try:[/] {escape(one_line(advice))}", soft_wrap=True)


def print_json(document: Any) -> None:
    """Exactly one JSON document on standard output; NaN and infinity are not JSON and become null."""
    from edgewise.report.document import json_text

    text = json_text(document)
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        text = re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)
    sys.stdout.write(text)


def print_rows(head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON document on standard output: `head`, and under ``rows`` one row per line, however many there are."""
    sys.stdout.write(json.dumps({**head, "rows": []})[:-2])
    for index, row in enumerate(rows):
        sys.stdout.write(f"{',' if index else ''}\n{json.dumps(row)}")
    sys.stdout.write("\n]}\n")
