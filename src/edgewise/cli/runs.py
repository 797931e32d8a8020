"""``edgewise runs``: list, show, export, import and remove stored runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgewise.cli.console import err, out, print_json, print_rows
from edgewise.errors import BadInput, StoreError
from edgewise.metrics import METRICS
from edgewise.record import SCHEMA, Measurement, Run
from edgewise.units import format_bytes, parse_duration

if TYPE_CHECKING:
    from rich.table import Table

    from edgewise.report.document import Cell, Document
    from edgewise.store.database import Store
    from edgewise.store.tables import RunRow

app = typer.Typer(no_args_is_help=True, help="List, show, export, import and remove stored runs.")

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Store of the runs: a path or a database URL (default: EDGEWISE_STORE, otherwise a file "
        "in your data folder)",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing file")]
_RUN_HELP = "Id, its beginning, a tag, last, last~2, group:ID, group:last or all."
References = Annotated[list[str], typer.Argument(metavar="RUN…", help=_RUN_HELP)]

_ID_SIZES = (13, 18, 23)  # of a version 7 UUID: its time in milliseconds, and the groups of digits after it
_TABLE_LIMIT = 50


@app.command("list")
def list_runs(
    model: Annotated[str | None, typer.Option(help="Part of the model's name, or the beginning of its sha256")] = None,
    runtime: Annotated[str | None, typer.Option("-r", "--runtime", help="The runtime's name")] = None,
    status: Annotated[str | None, typer.Option(help="done, failed or cancelled")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only runs made after this time: 2026-01-31, 2026-01-31T12:00, 36h or 7d")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="RUN", help="Only runs listed after this one: the next page")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help=f"Number of runs to list [table: {_TABLE_LIMIT}]")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    if status not in (None, "done", "failed", "cancelled"):
        raise BadInput(f"{status!r} is not a status", advice="write done, failed or cancelled")
    moment = None if since is None else _parse_since(since, now=datetime.now(UTC))
    with _open(store) as opened:
        shown = _TABLE_LIMIT if limit is None else limit
        size = limit if as_json else shown + 1
        found = opened.rows(model=model, runtime=runtime, status=status, since=moment, before=before, limit=size)
        name = opened.name
        if as_json:
            print_rows(
                {"schema": SCHEMA, "store": name}, ({key: getattr(row, key) for key in row.__slots__} for row in found)
            )
            return
        rows = list(found)
    more = len(rows) > shown
    rows = rows[:shown]
    if rows:
        from edgewise.report.text import print_document

        print_document(_listing(rows), out())
    filtered = any(value is not None for value in (model, runtime, status, since, before))
    what = "no runs match" if filtered and not rows else "no runs yet" if not rows else _count(len(rows))
    _say(
        f"{what} in {name}" + (f"; there are more: --limit {2 * len(rows)}, or --before {rows[-1].id}" if more else "")
    )


@app.command()
def show(references: References, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show runs in full: settings, measurements, cautions, environment."""
    with _open(store) as opened:
        runs = opened.resolve(references)
    if as_json:
        from edgewise.store import to_document

        print_json({"schema": SCHEMA, "runs": [to_document(run) for run in runs], "recommendation": None})
        return
    for index, run in enumerate(runs):
        if index:
            out().print()
        _show(run)


@app.command()
def export(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help=".json or .jsonl (to import), .csv or .md"),
    ],
    references: Annotated[list[str] | None, typer.Argument(metavar="[RUN…]", help=f"{_RUN_HELP} [all]")] = None,
    force: ForceOption = False,
    store: StoreOption = None,
) -> None:
    """Write runs to a file; runs that can't be read are reported and left out."""
    from edgewise.report.files import write_report
    from edgewise.store.exchange import export_runs

    lost: list[StoreError] = []
    with _open(store) as opened:
        runs = opened.each(references or ["all"], unreadable=lost.append)
        if output.suffix.lower() == ".md":
            found = list(runs)
            write_report(found, output, table="bench", overwrite=force)
            count = len(found)
        else:
            count = export_runs(runs, output, overwrite=force, redact=True)
    _say(f"{_count(count)} written to {output}")
    _warn_of_unreadable([error.message for error in lost])


@app.command("import")
def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Exports, or output of a command with --json.")],
    store: StoreOption = None,
) -> None:
    """Import runs from files into the store. If one run of a file is invalid, no run of that file is imported.

    If the store already has a run, the more complete version is kept.
    """
    from edgewise.store import open_store
    from edgewise.store.exchange import read_runs

    with open_store(store) as opened:
        for file in files:
            merged = opened.merge(read_runs(file))
            words = [f"{_count(merged.added)} added"]
            words += [f"{merged.updated} updated"] if merged.updated else []
            words += [f"{merged.skipped} were in the store already"] if merged.skipped else []
            _say(f"{file}: {', '.join(words)}")


@app.command()
def rm(
    references: References,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation")] = False,
    store: StoreOption = None,
) -> None:
    """Remove runs permanently."""
    with _open(store) as opened:
        ids = opened.find(references)
        if not yes:
            if not sys.stdin.isatty():
                raise BadInput(
                    f"{_count(len(ids))} would be removed, and standard input is not a terminal to confirm it",
                    advice="confirm with --yes",
                )
            if not _confirm(f"Remove {_count(len(ids))} from {opened.name} permanently?"):
                _say("nothing was removed")
                return
        _say(f"{_count(opened.remove(ids))} removed from {opened.name}")


@app.command()
def reindex(store: StoreOption = None) -> None:
    """Rebuild the index from the stored documents."""
    with _open(store) as opened:
        done = opened.reindex()
    _say(f"{_count(done.indexed)} indexed")
    _warn_of_unreadable([why for _, why in done.unreadable])


@app.command()
def schema() -> None:
    """Print the JSON Schema of a run."""
    from edgewise.store.codec import json_schema

    print_json(json_schema())


@app.command()
def tag(
    name: Annotated[str, typer.Argument(help="A letter, then letters, digits and . _ / + -")],
    run: Annotated[str | None, typer.Argument(help="Id, its beginning, a tag, last or last~2.")] = None,
    move: Annotated[bool, typer.Option("--move", help="Remove the tag from the run that has it")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the tag from every run")] = False,
    store: StoreOption = None,
) -> None:
    """Name a run, so that commands can refer to it: 'edgewise runs tag baseline last'."""
    if delete == (run is not None):
        raise BadInput("give a run or --delete, not both", advice="'edgewise runs tag NAME last' tags the newest run")
    with _open(store) as opened:
        if run is None:
            _say(f"{name} removed from {_count(opened.untag(name))}")
        else:
            _say(f"{name} is run {opened.tag(name, run, move=move)}")


def _warn_of_unreadable(reasons: list[str]) -> None:
    """Say which runs can't be read. Raises `StoreError` where there are any."""
    for why in reasons:
        err().print(f"[yellow]warning:[/] {_markup(why)}", soft_wrap=True)
    if reasons:
        raise StoreError(f"{_count(len(reasons))} can't be read", advice="'edgewise runs rm' removes what is damaged")


def _open(store: str | None) -> Store:
    """The store; one that was named must exist, as an empty new one would hide a misspelt name."""
    from edgewise.store import open_store
    from edgewise.store.location import find_location

    return open_store(store, create=not find_location(store).chosen)


def _confirm(question: str) -> bool:
    # Typer's own asks on standard output in part, where only results belong.
    err().print(f"{_markup(question)} \\[y/N] ", end="", soft_wrap=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _count(number: int, noun: str = "run") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _say(message: str) -> None:
    err().print(_markup(message), style="dim", soft_wrap=True)


def _parse_since(text: str, *, now: datetime) -> datetime:
    """The moment that `text` names: a date, a time, or how long before `now`. Local where it names no offset."""
    days = re.fullmatch(r"([0-9]{1,5})d", text)
    try:
        if days:
            return now - timedelta(days=int(days[1]))
        if re.fullmatch(r"[0-9.]+[a-z]+", text):
            return now - timedelta(seconds=parse_duration(text))
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, BadInput) as error:
        raise BadInput(
            f"--since: {text!r} is neither a time nor a duration", advice="write 2026-01-31, 36h or 7d"
        ) from error


def _markup(text: str) -> str:
    from rich.markup import escape

    return escape(_printable(text))


def _printable(text: str) -> str:
    """`text` without control characters, which could drive the terminal: runs may come from anywhere."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)


def _table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A plain table; columns in `right` are aligned right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _listing(rows: list[RunRow]) -> Document:
    """One line per run. Where all runs have the same headline metric, the heading names it."""
    from edgewise.report.cells import label_of
    from edgewise.report.document import Cell, Column, Document, Table

    # Runs measured side by side begin in the same millisecond: the next group of digits tells them apart.
    shown = next((size for size in _ID_SIZES if len({row.id[:size] for row in rows}) == len(rows)), None)
    metrics = {row.metric for row in rows if row.metric}
    tagged = any(row.tags for row in rows)
    columns = (
        Column(title="Run"),
        Column(title="Made, UTC", rank=4),
        Column(title="Model", name=True),
        Column(title="Runtime", name=True),
        Column(title=label_of(metrics.pop()) if len(metrics) == 1 else "Result", numeric=True),
        Column(title="Machine", name=True, rank=1),
        Column(title="Trust", rank=3),
        Column(title="Tags", rank=2, hidden=not tagged),
    )
    cells = tuple(
        (
            Cell(text=row.id[:shown]),
            Cell(text=_moment(row.created_at)),
            Cell(text=row.model),
            _engine_cell(row),
            Cell(text=_result(row, named=columns[4].title == "Result")),
            Cell(text=row.machine or "–", short=_MODEL_ALONE.sub("", row.machine or "").strip()),
            Cell(text=row.grade or ""),
            Cell(text=", ".join(row.tags)),
        )
        for row in rows
    )
    return Document(title="", tables=(Table(title="", columns=columns, rows=cells),))


_MODEL_ALONE = re.compile(r"\((R|TM)\)|\s+(CPU\b|\d+-Core\b|Processor\b|@).*")
"""Parts of a processor's name that say nothing about the model."""


def _engine_cell(row: RunRow) -> Cell:
    from edgewise.report.document import Cell

    words = [f"{row.threads}T"] if row.threads else []
    words += [f"batch {row.batch}"] if row.batch != 1 else []
    words += [row.scenario] if row.scenario != "single-stream" else []
    engine = row.runtime + (f"/{row.provider}" if row.provider else "")
    return Cell(text=" ".join([engine, *words]), short=" ".join([row.runtime, *words]))


def _result(row: RunRow, *, named: bool) -> str:
    """The run's headline, with the metric's name where the heading does not say it."""
    from edgewise.formatting import value_text
    from edgewise.report.cells import label_of

    if row.status != "done":
        return row.status + (f": {row.cause}" if row.cause else "")
    if row.value is None or row.unit is None or row.metric is None:
        return "absent"
    return f"{label_of(row.metric) if named else ''} {value_text(row.metric, row.unit, row.value)}".strip()


def _moment(created_at: str) -> str:
    from edgewise.store.codec import parse_time

    return f"{parse_time(created_at):%Y-%m-%d %H:%M}"


def _show(run: Run) -> None:
    """Print `run` for a person."""
    console = out()
    console.print(f"[bold]{_markup(run.job.label)}[/]")
    for name, value in _facts(run):
        console.print(f"  [dim]{name:<12}[/] {_markup(value)}", soft_wrap=True)
    if run.failure is not None:
        failure = run.failure
        where = f" in phase {failure.phase}" if failure.phase else ""
        console.print(f"[bold red]{failure.cause}[/]{_markup(where)}: {_markup(failure.message)}", soft_wrap=True)
        if failure.advice:
            console.print(f"[dim]try:[/] {_markup(failure.advice)}", soft_wrap=True)
        if failure.stderr_tail:
            console.print(f"[dim]{_markup(failure.stderr_tail.rstrip())}[/]", soft_wrap=True)
    if run.measurements:
        console.print()
        console.print(_measurements(run))
        _show_methods(run.measurements)
    for caution in run.cautions:
        console.print(f"[yellow]{_markup(caution.code)}:[/] {_markup(caution.message)}", soft_wrap=True)
        if caution.advice:
            console.print(f"  [dim]try:[/] {_markup(caution.advice)}", soft_wrap=True)
    for title, mapping in (("In force", run.effective), ("Environment", run.environment)):
        if mapping:
            console.print(f"\n[bold]{title}[/]")
            for name, value in _flat(mapping):
                console.print(f"  [dim]{_markup(name)}[/] {_markup(value)}", soft_wrap=True)
    _show_layers(run)


def _show_layers(run: Run) -> None:
    console = out()
    if run.layers and run.profile is None:
        console.print(f"\n{_count(len(run.layers), 'layer')}: see --json")
    elif run.layers:
        from edgewise.report.profile_text import render_profile_text

        console.print()
        render_profile_text([run], console, details=True)
    elif run.profile_absent_because:
        console.print(f"\n[dim]no layers:[/] {_markup(run.profile_absent_because)}", soft_wrap=True)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    """What was measured, where and when: pairs of label and text."""
    job = run.job
    yield "run", run.id
    yield "made", f"{_moment(run.created_at)} UTC"
    yield "model", f"{job.model.format}, {format_bytes(job.model.size_bytes)}, sha256 {job.model.sha256[:16]}"
    runtime = " ".join(filter(None, (job.runtime.name, job.runtime.version, job.runtime.provider)))
    threads = "its own number of" if job.runtime.threads is None else str(job.runtime.threads)
    yield "runtime", f"{runtime}, {threads} threads"
    yield "scenario", f"{job.workload.scenario.kind}, batch {job.workload.batch}"
    yield "device", job.target.device
    if run.evaluation is not None:
        from edgewise.report.accuracy import judged_on

        yield "judged on", judged_on(run)
    yield "status", run.status
    if run.trust is not None:
        yield "trust", run.trust.grade + "".join(f"; {reason}" for reason in run.trust.reasons)
    if run.tags:
        yield "tags", ", ".join(run.tags)
    if run.group:
        yield "group", run.group


def _measurements(run: Run) -> Table:
    from edgewise.formatting import range_text, value_text
    from edgewise.report.accuracy import judged_rows

    judged = judged_rows(run)
    table = _table("Metric", "Value", "95 % interval", "Basis", "Samples", right=("Value", "Samples"))
    for row in run.measurements:
        label = METRICS[row.metric].label if row.metric in METRICS else row.metric
        interval = range_text(row.metric, row.unit, row.low, row.high) or "absent"
        value = "absent" if row.value is None else value_text(row.metric, row.unit, row.value)
        count = str(len(row.samples)) if row.samples else ""
        if not count and run.evaluation is not None and row in judged:
            count = str(run.evaluation.n)
        table.add_row(*map(_markup, (label, value, interval if row.value is not None else "", row.basis or "", count)))
    return table


def _show_methods(rows: tuple[Measurement, ...]) -> None:
    """Print how each number was obtained, or why it is absent; metrics with the same text share a line."""
    answers: dict[str, dict[str, None]] = {}
    for row in rows:
        label = METRICS[row.metric].label if row.metric in METRICS else row.metric
        if row.value is None:
            answer = f"absent: {row.absent_because or 'no reason was recorded'}"
        else:
            answer = row.method or "no method was recorded"
        answers.setdefault(answer, {})[label] = None
    console = out()
    console.print()
    for answer, labels in answers.items():
        console.print(f"[dim]{_markup(', '.join(labels))}:[/] {_markup(answer)}", soft_wrap=True)


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of `mapping`, each with its dotted name."""
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, prefix=f"{prefix}{key}.")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            yield f"{prefix}{key}", "absent" if shown is None else str(shown)
