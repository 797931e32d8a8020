"""Work that a program at a terminal does: its store, its progress, its files, and what is kept where those fail."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.markup import escape

from edgewise.cancellation import CancelToken, cancelled_by_signal
from edgewise.errors import EdgewiseError, StoreError
from edgewise.terminal.console import complain, err
from edgewise.terminal.errors import explain

if TYPE_CHECKING:
    from edgewise.record import Run
    from edgewise.verbs.context import Context

T = TypeVar("T")


def in_context(work: Callable[[Context], T], *, quiet: bool = False, store: str | None = None, keep: bool = True) -> T:
    """Return what `work` gives in a context with `store`, with progress on standard error; a signal cancels it.

    Args:
        quiet: whether there is no progress.
        keep: whether runs are saved.
    """
    from edgewise.terminal.progress import ProgressLines
    from edgewise.verbs.context import Context

    with ProgressLines(err(), quiet=quiet) as lines:

        def on_unsaved(error: StoreError, runs: Sequence[Run]) -> None:
            lines.close()
            recover(error, runs)

        token = CancelToken()
        context = Context(store=store, keep=keep, progress=lines, cancel=token, on_unsaved=on_unsaved)
        with cancelled_by_signal(token), context.in_force():
            return work(context)


def recover(error: StoreError, runs: Sequence[Run]) -> None:
    """Write runs that could not be saved to a file in the current folder, else in the temporary one, and say so."""
    from edgewise.store.exchange import export_runs

    complain(f"not saved: {error.message}", error.advice)
    if not runs:
        return
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        path = folder / f"edgewise-recovery-{runs[0].id[:13]}.json"
        try:
            export_runs(runs, path)
        except (OSError, EdgewiseError):
            continue
        err().print(f"[dim]kept in[/] {path}; later: edgewise runs import {path}", soft_wrap=True, markup=True)
        return
    complain("a recovery file can't be written either; use --json and keep its output")


def write_files(paths: Sequence[Path], write: Callable[[Path], None]) -> int:
    """Write every file, even after one failed; returns the exit code of the first failure, else 0."""
    code = 0
    for path in paths:
        try:
            write(path)
        except Exception as error:  # the other files are still worth writing
            found = explain(error, debug="--debug" in sys.argv)
            code = code or found
        else:
            err().print(f"[dim]wrote[/] {escape(str(path))}", soft_wrap=True)
    return code
