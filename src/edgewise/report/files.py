"""Reports as files: the extension says the format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.record import Run
from edgewise.report.bench import bench_document, bench_table, default_title, recommendation, recommendations
from edgewise.report.document import Document, Table
from edgewise.report.field_tables import FIELD_TABLES, Options, field_document

EXTENSIONS = (".md", ".html", ".csv", ".json")
TABLES = ("bench", *FIELD_TABLES)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Whether a report may be written to `path`. Raises `BadInput` with what to do instead."""
    if path.suffix.lower() not in EXTENSIONS:
        raise BadInput(
            f"{path} has no extension of a report" if not path.suffix else f"{path}: no report is a {path.suffix} file",
            advice=f"end the file's name with one of: {', '.join(EXTENSIONS)}",
        )
    if path.is_dir():
        raise BadInput(f"{path} is a folder", advice="give a file in it, such as report.html")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}", advice="make it first")
    if path.exists() and not overwrite:
        raise BadInput(f"{path} exists already", advice="use --force to overwrite it, or another name")


def report_document(
    runs: Sequence[Run], *, table: str = "bench", task: str | None = None, reference: str | None = None, title: str = ""
) -> Document:
    """The document of one of `TABLES`. Raises `BadInput` for an unknown table or no runs."""
    _check(runs, table)
    if table == "bench":
        return bench_document(runs, title=title)
    return field_document(table, runs, options=Options(task=task, reference=reference), title=title)


def render_report(
    runs: Sequence[Run],
    extension: str,
    *,
    table: str = "bench",
    task: str | None = None,
    reference: str | None = None,
    title: str = "",
) -> str:
    """The text of a report.

    Args:
        extension: one of `EXTENSIONS`.
        table: one of `TABLES`; the page has all of them and JSON has the runs themselves, whatever this says.

    Raises `BadInput` for an unknown table, an unknown extension or no runs.
    """
    _check(runs, table)
    match extension.lower():
        case ".html":
            from edgewise.report.html import render_html

            return render_html(
                runs, title=title or default_title(runs), options=Options(task=task, reference=reference)
            )
        case ".json":
            return _json(runs)
        case ".csv":
            from edgewise.report.csv import render_csv

            return render_csv(_one_table(runs, table, Options(task=task, reference=reference)))
        case ".md":
            from edgewise.report.markdown import render_markdown

            return render_markdown(report_document(runs, table=table, task=task, reference=reference, title=title))
        case _:
            raise BadInput(f"no report is a {extension} file", advice=f"one of: {', '.join(EXTENSIONS)}")


def write_report(
    runs: Sequence[Run],
    path: Path,
    *,
    table: str = "bench",
    task: str | None = None,
    reference: str | None = None,
    title: str = "",
    overwrite: bool = False,
) -> None:
    """Write a report in the format of the extension of `path`, whole or not at all.

    Raises `BadInput` where `check_target` does, for an unknown table or no runs, and where the file can't be written;
    `StoreError` where the disk fails.
    """
    from edgewise.store.exchange import write_file

    check_target(path, overwrite=overwrite)
    text = render_report(runs, path.suffix, table=table, task=task, reference=reference, title=title)
    write_file(path, text, overwrite=overwrite)


def _check(runs: Sequence[Run], table: str) -> None:
    if table not in TABLES:
        raise BadInput(f"there is no table {table!r}", advice=f"one of: {', '.join(TABLES)}")
    if not runs:
        raise BadInput("there is nothing to report", advice="name a run: see 'edgewise runs list'")


def _one_table(runs: Sequence[Run], table: str, options: Options) -> Table:
    """CSV has one table a file: scenarios side by side, the two halves of the watch metrics one below the other."""
    if table == "bench":
        return bench_table(runs)
    first, *others = field_document(table, runs, options=options).tables
    rows = (*first.rows, *(row for other in others for row in other.rows))
    return Table(title=first.title, columns=first.columns, rows=rows, notes=first.notes)


def runs_document(runs: Sequence[Run]) -> dict[str, object]:
    """``{"schema", "runs", "recommendation", "recommendations"}``, the shape that every measuring command has.

    `recommendation` is the first that there is; `recommendations` has one for each group of comparable runs.
    """
    from edgewise.store import to_document

    advice = recommendation(runs)
    return {
        "schema": 1,
        "runs": [to_document(run) for run in runs],
        "recommendation": advice.to_document() if advice else None,
        "recommendations": [{"group": one.group, **one.to_document()} for one in recommendations(runs)],
    }


def _json(runs: Sequence[Run]) -> str:
    return json.dumps(runs_document(runs), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
