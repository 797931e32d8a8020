"""Where things are printed: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

from edgewise.report.document import json_text


class _Results(Console):
    """A reader that goes away (a pager, head) is no failure: Rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out() -> Console:
    """Results. Rich finds out itself whether this is a terminal and how wide."""
    return _Results(soft_wrap=False, highlight=False)


def err() -> Console:
    """Progress, cautions, errors."""
    return Console(stderr=True, highlight=False)


def print_json(document: Any) -> None:
    """Exactly one JSON document on standard output; NaN and infinity are not JSON and become null."""
    sys.stdout.write(json_text(document))
