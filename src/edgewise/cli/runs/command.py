"""``edgewise runs``: list, show, export, import and remove stored runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from edgewise.errors import BadInput, StoreError
from edgewise.metrics import METRICS
from edgewise.record import SCHEMA
from edgewise.terminal.console import err, out, print_json, print_rows
from edgewise.text import one_line
from edgewise.units import parse_duration
from edgewise.verbs import choices
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import JSON_TOO, PLAIN, STORE_TOO

if TYPE_CHECKING:
    from edgewise.record import Run
    from edgewise.store.database import Store
    from edgewise.store.filters import RunFilter

STATUSES = ("done", "failed", "cancelled")
_RUN_HELP = "Id, its beginning, a tag, last, last~2, group:ID, group:last or all."
_RUNS = argument("runs", _RUN_HELP, list[str], metavar="RUN…", choices=choices.runs)
_SOME_RUNS = replace(_RUNS, default=None)
_FILTERS = (
    option("--model", PLAIN, "Part of the model's name, or the beginning of its sha256"),
    option("-r --runtime", PLAIN, "Only runs on this runtime", choices=choices.runtimes),
    option("-d --device", PLAIN, "Only runs on this device", choices=choices.devices),
    option("--tag", PLAIN, "Only runs with this tag", choices=choices.tags),
    option(
        "--metric",
        PLAIN,
        "Only runs that have a value of this metric, such as latency or energy",
        choices=tuple(METRICS),
    ),
    option("--status", PLAIN, "Only runs with this status: done, failed or cancelled", choices=STATUSES),
    option("--since", PLAIN, "Only runs made after this time: 2026-01-31, 2026-01-31T12:00, 36h or 7d"),
    option("--until", PLAIN, "Only runs made before this time, written as for --since"),
)
_TABLE_LIMIT = 50


@takes(
    *_FILTERS,
    option("--before RUN", PLAIN, "Only runs that follow this one in the list: the next page", choices=choices.runs),
    option("--limit", PLAIN, f"Number of runs to list (default: {_TABLE_LIMIT}; all with --json)", int, minimum=1),
    option("--count", PLAIN, "Print the number of runs instead; 10,000+ where counting stopped", bool),
    STORE_TOO,
    JSON_TOO,
)
def list_runs(values: Values) -> None:
    """List runs, newest first."""
    before, limit, as_json = values["before"], values["limit"], values["json"]
    wanted = _filter(values)
    if values["count"] and (before, limit) != (None, None):
        raise BadInput("--count counts all pages", advice="leave out --before and --limit")
    with _open(values["store"]) as opened:
        if values["count"]:
            number = opened.count(**wanted)
            counted = {"schema": SCHEMA, "store": opened.name, "count": number.value, "more": number.more}
            print_json(counted) if as_json else out().print(str(number), highlight=False)
            return
        wanted["before"] = before
        shown = _TABLE_LIMIT if limit is None else limit
        wanted["limit"] = limit if as_json else shown + 1
        found = opened.rows(**wanted)
        name = opened.name
        if as_json:
            print_rows(
                {"schema": SCHEMA, "store": name}, ({key: getattr(row, key) for key in row.__slots__} for row in found)
            )
            return
        rows = list(found)
        more = len(rows) > shown
        rows = opened.named(rows[:shown])
        id_size = opened.id_size([row.id for row in rows])
        scores = opened.scores(rows)
    if rows:
        from edgewise.report.document.text import print_document
        from edgewise.report.runs.document import listing_document

        print_document(listing_document(rows, id_size=id_size, scores=scores), out())
    filtered = any(value is not None for name, value in wanted.items() if name != "limit")
    what = "no runs match" if filtered and not rows else "no runs yet" if not rows else _count(len(rows))
    _say(
        f"{what} in {name}" + (f"; there are more: --limit {2 * len(rows)}, or --before {rows[-1].id}" if more else "")
    )


@takes(_RUNS, STORE_TOO, JSON_TOO)
def show(values: Values) -> None:
    """Show runs in full: settings, measurements, cautions, environment."""
    with _open(values["store"]) as opened:
        runs = opened.resolve(values["runs"])
    if values["json"]:
        from edgewise.store import to_document

        print_json({"schema": SCHEMA, "runs": [to_document(run) for run in runs], "recommendation": None})
        return
    from edgewise.report.runs.document import print_run

    for index, run in enumerate(runs):
        if index:
            out().print()
        print_run(run, out())


@takes(
    option(
        "-o --output FILE",
        PLAIN,
        ".json or .jsonl (to import), .csv, .md, .trend.csv (a line a run, of the newest run's setting) or .prom "
        "(OpenMetrics); repeatable",
        list[Path],
    ),
    option("--mlflow URI", PLAIN, "Log the runs to this MLflow tracking server, each of them once"),
    _SOME_RUNS.worded("Id, its beginning, a tag, last, last~2, group:ID, group:last or all (default: all)."),
    *_FILTERS,
    option("--force", PLAIN, "Overwrite an existing file", bool),
    STORE_TOO,
)
def export(values: Values) -> None:
    """Write runs to files, oldest first; runs that can't be read are reported and left out."""
    from edgewise.cli.verb import check_files
    from edgewise.report.files import write_report
    from edgewise.store.exchange import check_export, export_runs

    output, force, mlflow = values["output"] or [], values["force"], values["mlflow"]
    if not output and not mlflow:
        raise BadInput("name a file to write", advice="such as -o runs.json, or --mlflow for a tracking server")
    check_files(output, check_export, overwrite=force)
    wanted = _filter(values)
    lost: dict[str, None] = {}
    with _open(values["store"]) as opened:
        chosen = _chosen(opened, values["runs"], wanted) or ["all"]
        if len(output) + bool(mlflow) > 1:
            chosen = opened.find(chosen)  # the same runs in each file
        for path in output:
            runs = opened.each(chosen, unreadable=lambda error: lost.setdefault(error.message))
            if path.suffix.lower() == ".md":
                found = list(runs)
                write_report(found, path, table="bench", overwrite=force)
                count = len(found)
            else:
                count = export_runs(runs, path, overwrite=force, redact=True, metric=values["metric"])
            _say(f"{_count(count)} written to {path}")
        if mlflow:
            from edgewise.store.mlflow_runs import log_runs

            runs = opened.each(chosen, unreadable=lambda error: lost.setdefault(error.message))
            logged, known = log_runs(runs, mlflow)
            _say(f"{_count(logged)} logged to {mlflow}" + (f"; {known} were there already" if known else ""))
    _warn_of_unreadable(list(lost))


@takes(
    argument(
        "files", "Exports, output of a command with --json, or results of another tool.", list[Path], metavar="FILE…"
    ),
    option(
        "--from TOOL",
        PLAIN,
        "Tool that wrote the files, such as benchmark_app or trtexec; an unknown name lists all (default: recognised "
        "by content)",
        default="auto",
        choices=choices.tools,
    ),
    option("--model FILE", PLAIN, "File of the model that the tool measured", Path),
    option("-d --device NAME", PLAIN, "Device that ran the tool (local: this machine)", choices=choices.devices),
    option(
        "--set NAME=VALUE",
        PLAIN,
        "Setting that the file does not have: threads, batch, precision, provider or version",
        list[str],
    ),
    STORE_TOO,
)
def import_files(values: Values) -> None:
    """Import runs, or results of other tools, into the store. If one run of a file is invalid, none is imported.

    If the store already has a run, the more complete version is kept.
    """
    from edgewise.importing import Told, read_any
    from edgewise.importing.reader import read_settings
    from edgewise.store import open_store

    settings = read_settings(_pairs(values["set"] or ()))
    told = Told(model=values["model"], device=values["device"], settings=settings)
    with open_store(values["store"]) as opened:
        for file in values["files"]:
            told_of: list[str] = []
            merged = opened.merge(_noting_failures(read_any(file, values["from"], told), told_of.append))
            words = [f"{_count(merged.added)} added"]
            words += [f"{merged.updated} updated"] if merged.updated else []
            words += [f"{merged.skipped} were in the store already"] if merged.skipped else []
            _say(f"{file}: {', '.join(words)}")
            for line in told_of:
                err().print(f"[yellow]warning:[/] {escape(one_line(line))}", soft_wrap=True)


def _noting_failures(runs: Iterable[Run], note: Callable[[str], object]) -> Iterator[Run]:
    """Yield the runs, while `note` takes what another tool recorded of failures, in words."""
    for run in runs:
        if run.source is not None and run.failure is not None:
            note(f"{run.job.label} failed: {run.failure.message}")
        for caution in run.cautions:
            if run.source is not None and caution.code == "failed-executions":
                note(f"{run.job.label}: {caution.message}")
        yield run


@takes(_SOME_RUNS, *_FILTERS, option("-y --yes", PLAIN, "Don't ask for confirmation", bool), STORE_TOO)
def rm(values: Values) -> None:
    """Remove runs permanently: those that are named, or those that match all options."""
    wanted = _filter(values)
    with _open(values["store"]) as opened:
        if not (chosen := _chosen(opened, values["runs"], wanted)):
            raise BadInput("name runs, or filter them", advice="such as 'edgewise runs rm --until 30d'")
        ids = opened.find(chosen)
        if not values["yes"]:
            if not sys.stdin.isatty():
                raise BadInput(
                    f"{_count(len(ids))} would be removed, and standard input is not a terminal to confirm it",
                    advice="confirm with --yes",
                )
            if not _confirm(f"Remove {_count(len(ids))} from {opened.name} permanently?"):
                _say("nothing was removed")
                return
        _say(f"{_count(opened.remove(ids))} removed from {opened.name}")


@takes(STORE_TOO)
def reindex(values: Values) -> None:
    """Rebuild, from the stored runs, the tables that make listing fast."""
    with _open(values["store"]) as opened:
        done = opened.reindex()
    _say(f"{_count(done.indexed)} indexed")
    _warn_of_unreadable([why for _, why in done.unreadable])


@takes()
def schema(values: Values) -> None:
    """Print the JSON Schema of a run."""
    from edgewise.store.codec import json_schema

    print_json(json_schema())


@takes(
    argument("name", "A letter, then letters, digits and . _ / + -", str, metavar="NAME", choices=choices.tags),
    argument(
        "run", "Id, its beginning, a tag, last or last~2.", str, metavar="RUN", default=None, choices=choices.runs
    ),
    option("--move", PLAIN, "Remove the tag from the run that has it", bool),
    option("--delete", PLAIN, "Remove the tag from every run", bool),
    STORE_TOO,
)
def tag(values: Values) -> None:
    """Name a run, so that commands can refer to it: 'edgewise runs tag baseline last'."""
    name, run = values["name"], values["run"]
    if values["delete"] == (run is not None):
        both = "give a run or --delete, not both"
        message = both if run is not None else f"give the run that the tag {name!r} is for, or --delete"
        raise BadInput(message, advice="'edgewise runs tag NAME last' tags the newest run")
    with _open(values["store"]) as opened:
        if run is None:
            _say(f"{name} removed from {_count(opened.untag(name))}")
        else:
            _say(f"{name} is run {opened.tag(name, run, move=values['move'])}")


def _warn_of_unreadable(reasons: list[str]) -> None:
    """Say which runs can't be read. Raises `StoreError` where there are any."""
    for why in reasons:
        err().print(f"[yellow]warning:[/] {escape(one_line(why))}", soft_wrap=True)
    if reasons:
        raise StoreError(f"{_count(len(reasons))} can't be read", advice="'edgewise runs rm' removes what is damaged")


def _open(store: str | None) -> Store:
    """Return the store; one that was named must exist, as an empty new one would hide a misspelt name."""
    from edgewise.store import open_store
    from edgewise.store.location import find_location

    return open_store(store, create=not find_location(store).chosen)


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` words by name. Raises `BadInput`."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in found:
            raise BadInput(
                f"--set {word}: {'given twice' if equals else 'has no value'}", advice="write --set threads=4, once"
            )
        found[name] = value
    return found


def _confirm(question: str) -> bool:
    err().print(f"{escape(one_line(question))} \\[y/N] ", end="", soft_wrap=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _count(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _say(message: str) -> None:
    err().print(escape(one_line(message)), style="dim", soft_wrap=True)


def _filter(values: Values) -> RunFilter:
    """Return the conditions of `_FILTERS`. Raises `BadInput`."""
    if "" in (values["model"], values["runtime"], values["device"], values["tag"]):
        # an empty variable of a script must not choose all runs
        raise BadInput("an option has an empty value", advice="leave it out, or give it a value")
    metric, status = values["metric"], values["status"]
    if status not in (None, *STATUSES):
        raise BadInput(f"{status!r} is not a status", advice="write done, failed or cancelled")
    if metric is not None and metric not in METRICS:
        similar = get_close_matches(metric, METRICS, 5, 0.3) or ["latency", "energy", "memory_peak"]
        raise BadInput(f"{metric!r} is not a metric", advice=f"similar: {', '.join(similar)}")
    plain: RunFilter = {
        "model": values["model"], "runtime": values["runtime"], "device": values["device"], "tag": values["tag"],
        "metric": metric, "status": status,
    }  # fmt: skip
    return plain | _times(values["since"], values["until"])


def _chosen(opened: Store, references: list[str] | None, wanted: RunFilter) -> list[str]:
    """Return `references`, or the runs that match `wanted`, oldest first; empty where neither says anything.

    Raises `BadInput` for both at once, and where no run matches.
    """
    if all(value is None for value in wanted.values()):
        return references or []
    if references:
        raise BadInput("name runs, or filter them, not both", advice="leave out RUN…, or --device, --tag and the like")
    found = [row.id for row in opened.rows(**wanted)][::-1]
    if not found:
        raise BadInput(f"no runs match in {opened.name}", advice="'edgewise runs list' shows what is there")
    return found


def _times(since: str | None, until: str | None) -> RunFilter:
    """Return the conditions of --since and --until. Raises `BadInput`."""
    now = datetime.now(UTC)
    return {
        "since": None if since is None else _parse_time(since, "--since", now=now),
        "until": None if until is None else _parse_time(until, "--until", now=now),
    }


def _parse_time(text: str, option: str, *, now: datetime) -> datetime:
    """Return the moment that `text` names: a date, a time, or how long before `now`. Local where it names no offset."""
    days = re.fullmatch(r"([0-9]{1,5})d", text)
    try:
        if days:
            return now - timedelta(days=int(days[1]))
        if re.fullmatch(r"[0-9.]+[a-z]+", text):
            return now - timedelta(seconds=parse_duration(text))
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, BadInput) as error:
        raise BadInput(
            f"{option}: {text!r} is neither a time nor a duration", advice="write 2026-01-31, 36h or 7d"
        ) from error


COMMANDS = {
    "list": list_runs,
    "show": show,
    "export": export,
    "import": import_files,
    "rm": rm,
    "reindex": reindex,
    "schema": schema,
    "tag": tag,
}
