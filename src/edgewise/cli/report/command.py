"""``edgewise report``: stored runs, bundles and JSON files as tables, CSV, JSON or a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option

if TYPE_CHECKING:
    from edgewise.record import Run
    from edgewise.report.document import Document
    from edgewise.report.files import ReportSettings


MOST_RELATED = 10
"""Number of stored runs to look through for each missing number."""


OPTIONS = (
    argument(
        "runs",
        "Stored runs (id, its beginning, a tag, last, last~2, group:ID, group:last, all) or exports (default: last)",
        list[str],
        metavar="RUN…",
        default=None,
        choices=choices.runs,
        files=True,
    ),
    options.OUTPUTS.worded(
        "File to write, by extension: .md, .html, .csv, .json; for profiles also .trace.json, .nodes.json, .mltk.json, "
        ".svg, .png; repeatable"
    ),
    option(
        "--table NAME",
        options.OUTPUT,
        "bench, zoo, networks, long, watch, platform, profile or usage (default: profile for profiles, else bench)",
        choices=("bench", "zoo", "networks", "long", "watch", "platform", "profile", "usage"),
    ),
    option("--task NAME", options.OUTPUT, "Task of the models, for the table 'zoo'"),
    option("--reference TEXT", options.OUTPUT, "Text, URL or Markdown link, for the table 'zoo'"),
    option("--title TEXT", options.OUTPUT, "Heading of the report", default=""),
    option(
        "--only-table",
        options.OUTPUT,
        "Of Markdown, write only the table, machine and footnotes, for a README",
        bool,
    ),
    option(
        "--badge METRIC",
        options.OUTPUT,
        "Write only a badge of this value, such as latency: .svg, or .json for shields.io",
    ),
    options.DETAILS,
    options.STORE,
    options.FORCE.worded("Overwrite the file"),
)


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Turn stored runs into tables, CSV, JSON or an HTML page.

    Without RUN, the newest run is reported. Without -o, the tables are printed: formatted on a terminal, as Markdown
    in a pipe or file.

    Missing numbers of zoo, networks, long, watch and platform are taken from stored runs of the same model, engine and
    machine. These runs are named below the table.
    """
    from edgewise.cli.verb import check_files
    from edgewise.errors import BadInput
    from edgewise.report.files import TABLES, ReportSettings, check_target, report_document, write_report
    from edgewise.terminal.context import write_files

    output, table, force, only_table = (values[name] for name in ("output", "table", "force", "only_table"))
    output = output or ()
    if table is not None and table not in TABLES:
        raise BadInput(f"there is no table {table!r}", advice=f"one of: {', '.join(TABLES)}")
    if values["badge"]:
        return _write_badges(values, output)
    check_files(output, check_target, overwrite=force)
    if only_table and output and not any(path.suffix.lower() in (".md", ".csv") for path in output):
        raise BadInput("--only-table is for Markdown", advice="end the file's name with .md, or print it without -o")
    found = read_runs(values["runs"] or ["last"], store=values["store"])
    settings = ReportSettings(
        table=table,
        task=values["task"],
        reference=values["reference"],
        title=values["title"],
        known=find_related(found, table=table, output=output, store=values["store"]),
        only_tables=only_table,
        last=group_lines(found, store=values["store"]),
    )
    if not output:
        _print(found, report_document(found, **settings), settings, details=values["details"])
        return 0
    return write_files(output, lambda path: write_report(found, path, overwrite=force, **settings))


def _write_badges(values: Values, output: Sequence[Path]) -> int:
    from edgewise.cli.verb import check_files
    from edgewise.errors import BadInput
    from edgewise.folders import check_place
    from edgewise.report.runs.badge import EXTENSIONS, render_badge
    from edgewise.store.exchange import write_file
    from edgewise.terminal.context import write_files

    def check(path: Path, *, overwrite: bool) -> None:
        if path.suffix.lower() not in EXTENSIONS:
            raise BadInput(f"{path}: a badge can't be written as that", advice=f"one of: {', '.join(EXTENSIONS)}")
        check_place(path, overwrite=overwrite, example="badge.svg")

    if values["table"] or values["only_table"]:
        raise BadInput("a badge has no table", advice="leave --table and --only-table out")
    metric, force = values["badge"], values["force"]
    check_files(output, check, overwrite=force)
    found = read_runs(values["runs"] or ["last"], store=values["store"])
    if len(found) != 1:
        raise BadInput(f"a badge holds one run, and these are {len(found)}", advice="name one run")
    texts = {suffix: render_badge(found[0], metric, suffix) for suffix in EXTENSIONS}
    if not output:
        sys.stdout.write(texts[".svg"])
        return 0
    return write_files(output, lambda path: write_file(path, texts[path.suffix.lower()], overwrite=force))


def read_runs(references: Sequence[str], *, store: str | None) -> list[Run]:
    """Return the runs that `references` name, in order, each once. Raises `BadInput`, `Unavailable` or `StoreError`.

    A reference that is an existing file is read as an export; every other one is looked up in the store.
    """
    from edgewise.comparing.jobs import runs_among
    from edgewise.errors import BadInput
    from edgewise.verbs.subjects import read_subjects

    subjects = read_subjects(references, store=store)
    if model := next((one.thing for one in subjects if isinstance(one.thing, Path)), None):
        raise BadInput(f"{model} is not an export of runs", advice="name a stored run or a file of exported runs")
    found: dict[str, Run] = {}
    for run in runs_among(subjects):
        found.setdefault(run.id, run)
    return list(found.values())


def group_lines(runs: Sequence[Run], *, store: str | None) -> list[str]:
    """Return how the other runs of the command that measured the only run are reported; empty where it has none."""
    from edgewise.errors import EdgewiseError
    from edgewise.store import open_store

    if len(runs) != 1 or runs[0].group is None:
        return []
    name = f"group:{runs[0].group}"
    try:
        with open_store(store, create=False) as opened:
            count = len(opened.find([name]))
    except EdgewiseError:  # a run from a file need not be in the store
        return []
    return [f"'edgewise report {name}' compares the {count} runs of that command"] if count > 1 else []


def find_related(runs: Sequence[Run], *, table: str | None, output: Sequence[Path], store: str | None) -> list[Run]:
    """Return the newest stored runs of the same models that have the numbers which `runs` lack for the tables."""
    from edgewise.errors import EdgewiseError
    from edgewise.report.runs.cells import CHIEF
    from edgewise.report.runs.field_tables import JOINED
    from edgewise.report.runs.merged import ACCURACY, is_lacking
    from edgewise.store import open_store

    page = table != "profile" and any(path.suffix.lower() == ".html" for path in output)
    wanted = dict.fromkeys(metric for name in JOINED if page or name == table for metric in JOINED[name])
    asked = {
        (run.job.model.sha256, metric)
        for run in runs
        for name in wanted
        if is_lacking(run, name)
        for metric in (CHIEF if name == ACCURACY else (name,))
    }
    if not asked:
        return []
    try:
        with open_store(store, create=False) as opened:
            rows = [
                row
                for sha256, metric in sorted(asked)
                for row in opened.list(model=sha256, metric=metric, status="done", limit=MOST_RELATED)
            ]
            return [opened.get(name) for name in dict.fromkeys(row.id for row in rows)]
    except EdgewiseError:  # runs from a file need no store
        return []


def _print(runs: Sequence[Run], document: Document, settings: ReportSettings, *, details: bool) -> None:
    """Print tables: for a person on a terminal, else as Markdown."""
    from edgewise.report.files import table_of
    from edgewise.terminal.console import out

    console, only_tables = out(), settings["only_tables"]
    if only_tables or not console.is_terminal:
        from edgewise.report.document.markdown import render_markdown
        from edgewise.store.redaction import redact_run_paths

        sys.stdout.write(redact_run_paths(render_markdown(document, only_tables=only_tables), runs))
        return
    from edgewise.report.document.text import print_document

    if table_of(runs, settings["table"]) == "profile":
        from edgewise.report.profile.document import profile_document

        document = profile_document(runs, width=console.width)
    print_document(document, console, details=details)
