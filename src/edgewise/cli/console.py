"""Where things are printed: results on standard output, everything else on standard error."""

from __future__ import annotations

import re
import sys
from typing import IO, Any, cast

from rich.console import Console

from edgewise.report.document import json_text


class _Results(Console):
    """A reader that goes away (a pager, head) is no failure: Rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Trimmed:
    """A file or pipe without the blanks with which Rich fills up folded lines: they stay in files and in diffs."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        self._file.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def out() -> Console:
    """Results. Rich finds out itself whether this is a terminal and how wide."""
    file = sys.stdout if sys.stdout.isatty() else cast("IO[str]", _Trimmed(sys.stdout))
    return _Results(soft_wrap=False, highlight=False, file=file)


def err() -> Console:
    """Progress, cautions, errors."""
    return Console(stderr=True, highlight=False)


def print_json(document: Any) -> None:
    """Exactly one JSON document on standard output; NaN and infinity are not JSON and become null."""
    sys.stdout.write(json_text(document))
