"""What every measuring command does around a plan: progress, saving as it goes, showing, and the exit code."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.markup import escape

from edgewise.cli import settings
from edgewise.cli.console import complain, err, out, print_json, write_files
from edgewise.cli.progress import ProgressLines
from edgewise.errors import EdgewiseError, ExitCode, StoreError
from edgewise.record import Run
from edgewise.run.assembly import METERS_OFF
from edgewise.run.dispatch import Dispatcher, Interrupted
from edgewise.run.plan import Plan
from edgewise.run.variation import stored_history
from edgewise.store import Store, open_store
from edgewise.text import one_line


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
    """Saves runs in a store opened with the first of them. A store that can't be opened costs no measurement.

    What it can't save it leaves in a recovery file when it closes, however the command ends.
    """

    def __init__(self, url: str | None, *, keep: bool) -> None:
        self._url = url
        self._keep = keep
        self._store: Store | None = None
        self._unsaved: dict[str, Run] = {}
        self._error: StoreError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            self._store.close()
        if self._error is not None:
            complain(f"not saved: {self._error.message}", self._error.advice)
        if self._unsaved:
            _recover(list(self._unsaved.values()))

    def save(self, run: Run) -> None:
        """Keep `run`. Raises `StoreError`."""
        if not self._keep:
            return
        try:
            if self._store is None:
                self._store = open_store(self._url)
            self._store.save(run)
        except StoreError as error:
            self._unsaved[run.id] = run
            self._error = self._error or error
            raise
        self._unsaved.pop(run.id, None)


def measure(plan: Plan, *, store: str | None, keep: bool, meters: bool, quiet: bool) -> Outcome:
    """Execute `plan` with progress on standard error; Ctrl-C keeps what was finished."""
    sensors = None if meters else METERS_OFF
    with Keeper(store, keep=keep) as keeper, ProgressLines(err(), quiet=quiet) as lines:
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
        err().print(f"[dim]not measured:[/] {escape(one_line(reason))}", soft_wrap=True)


def check_outputs(paths: Sequence[Path], *, overwrite: bool) -> None:
    """Refuse report files before measuring rather than after. Raises `BadInput`."""
    from edgewise.report.files import check_target

    settings.check_outputs(paths, check_target, overwrite=overwrite)


def write_reports(runs: Sequence[Run], paths: Sequence[Path], *, overwrite: bool) -> int:
    """Write `runs` to each file in the format of its extension; the exit code as `write_files` gives it."""
    from edgewise.report.files import write_report

    return write_files(paths, lambda path: write_report(runs, path, overwrite=overwrite)) if runs else ExitCode.DONE


def finish(outcome: Outcome) -> int:
    """Say whether it was interrupted, and give the exit code."""
    if outcome.interrupted:
        where = "above and in the store" if outcome.kept and not outcome.save_errors else "above"
        err().print(f"[bold red]interrupted[/]: what was finished is {where}", soft_wrap=True)
        return ExitCode.INTERRUPTED
    if any(run.status == "failed" for run in outcome.runs):
        return ExitCode.RUN_FAILED
    return ExitCode.UNAVAILABLE if outcome.save_errors else ExitCode.DONE


def _recover(runs: Sequence[Run]) -> None:
    """The runs as a bundle in the current folder, else in the temporary one, with the command that imports it."""
    from edgewise.store.exchange import export_runs

    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        path = folder / f"edgewise-recovery-{runs[0].id[:13]}.json"
        try:
            export_runs(runs, path)
        except (OSError, EdgewiseError):
            continue
        err().print(f"[dim]kept in[/] {path}; later: edgewise runs import {path}", soft_wrap=True, markup=True)
        return
    complain("no place for a recovery file either; use --json and keep its output")
