"""What every measuring command does around a plan: progress, saving as it goes, showing, and the exit code."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.markup import escape

from edgewise.cli.console import err, out, print_json
from edgewise.cli.progress import ProgressLines
from edgewise.errors import EdgewiseError, ExitCode, StoreError
from edgewise.record import Run
from edgewise.run.assembly import METERS_OFF
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.plan import Plan
from edgewise.run.variation import stored_history
from edgewise.store import Store, open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a plan came to.

    Attributes:
        save_errors: why runs could not be saved; empty when all are.
        kept: whether saving was asked for at all.
    """

    runs: Sequence[Run]
    skipped: Sequence[str] = ()
    save_errors: Sequence[StoreError] = field(default=())
    kept: bool = True
    interrupted: bool = False


class Keeper:
    """Saves runs in a store opened with the first of them. A store that can't be opened costs no measurement."""

    def __init__(self, url: str | None, *, keep: bool) -> None:
        self._url = url
        self._keep = keep
        self._store: Store | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            self._store.close()

    def save(self, run: Run) -> None:
        """Keep `run`. Raises `StoreError`."""
        if not self._keep:
            return
        if self._store is None:
            self._store = open_store(self._url)
        self._store.save(run)


def measure(plan: Plan, *, store: str | None, keep: bool, meters: bool, quiet: bool) -> Outcome:
    """Execute `plan` with progress on standard error; Ctrl-C keeps what was finished."""
    sensors = None if meters else METERS_OFF
    with ProgressLines(err(), quiet=quiet) as lines, Keeper(store, keep=keep) as keeper:
        dispatcher = Dispatcher(save=keeper.save, observer=lines, sensors=sensors, history=stored_history(store))
        try:
            runs, interrupted = dispatcher.execute(plan), False
        except Interrupted as stop:
            runs, interrupted = list(stop.runs), True
    return Outcome(
        runs=runs, skipped=plan.skipped, save_errors=dispatcher.save_errors, kept=keep, interrupted=interrupted
    )


def show(outcome: Outcome, *, as_json: bool, layers: int | None = None, details: bool = False) -> None:
    """The results on standard output: one JSON document, or tables for a person.

    Args:
        layers: rows of a profile's table; None for all.
        details: whether to print cautions, reasons and conditions in full.
    """
    if as_json:
        from edgewise.report.files import runs_document

        print_json(runs_document(outcome.runs))
    elif any(run.job.workload.profile for run in outcome.runs):
        from edgewise.report.profile_text import render_profile_text

        top = layers or max(len(run.layers) for run in outcome.runs)
        render_profile_text(outcome.runs, out(), top=top, details=details)
    elif outcome.runs:
        from edgewise.report.bench import render_text

        render_text(outcome.runs, console=out(), details=details)
    for reason in outcome.skipped:
        err().print(f"[dim]not measured:[/] {escape(reason)}", soft_wrap=True)


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse a report file before measuring rather than after. Raises `BadInput`."""
    from edgewise.report.files import check_target

    check_target(path, overwrite=overwrite)


def write_report(runs: Sequence[Run], path: Path, *, overwrite: bool) -> None:
    """Write `runs` in the format of the file's extension."""
    from edgewise.report.files import write_report as write

    write(runs, path, overwrite=overwrite)
    err().print(f"[dim]wrote[/] {escape(str(path))}", soft_wrap=True)


def finish(outcome: Outcome) -> int:
    """Say what could not be kept, leave a recovery file, and give the exit code."""
    if outcome.save_errors:
        _recover(outcome)
    if outcome.interrupted:
        where = "above and in the store" if outcome.kept and not outcome.save_errors else "above"
        err().print(f"[bold red]interrupted[/]: what was finished is {where}", soft_wrap=True)
        return ExitCode.INTERRUPTED
    if any(run.status == "failed" for run in outcome.runs):
        return ExitCode.RUN_FAILED
    return ExitCode.UNAVAILABLE if outcome.save_errors else ExitCode.DONE


def _recover(outcome: Outcome) -> None:
    """The runs as a bundle in the current folder, else in the temporary one, with the command that imports it."""
    error = outcome.save_errors[0]
    err().print(f"[bold red]error:[/] not saved: {escape(error.message)}", soft_wrap=True)
    if error.advice:
        err().print(f"[dim]try:[/] {escape(error.advice)}", soft_wrap=True)
    from edgewise.store.exchange import export_runs

    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        path = folder / f"edgewise-recovery-{outcome.runs[0].id[:13]}.json"
        try:
            export_runs(outcome.runs, path)
        except (OSError, EdgewiseError):
            continue
        err().print(f"[dim]kept in[/] {path}; later: edgewise runs import {path}", soft_wrap=True, markup=True)
        return
    err().print(
        "[bold red]error:[/] no place for a recovery file either; use --json and keep its output", soft_wrap=True
    )
