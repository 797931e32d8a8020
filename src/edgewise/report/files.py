"""Reports as files: the extension says the format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from edgewise.errors import BadInput
from edgewise.record import SCHEMA, Run
from edgewise.report.bench import bench_document, bench_table, default_title, recommendation, recommendations
from edgewise.report.document import Document, Table, json_text
from edgewise.report.field_tables import FIELD_TABLES, Options, field_document
from edgewise.report.profile import is_profiled
from edgewise.report.profile_files import PROFILE_EXTENSIONS, profiled, render_profile_file

EXTENSIONS = (".md", ".html", ".csv", ".json", *PROFILE_EXTENSIONS)
TABLES = ("bench", *FIELD_TABLES, "profile")


def extension_of(path: Path) -> str:
    """The extension that says the format: ``.trace.json`` is one, and ``.json`` another."""
    name = path.name.lower()
    found = (each for each in PROFILE_EXTENSIONS if name.endswith(each) and len(name) > len(each))
    return next(found, path.suffix.lower())


def table_of(runs: Sequence[Run], table: str | None) -> str:
    """`table`, or what suits `runs` where that is None: ``profile`` where all are profiled, else ``bench``."""
    if table is not None:
        return table
    return "profile" if runs and all(map(is_profiled, runs)) else "bench"


def check_target(path: Path, *, overwrite: bool) -> None:
    """Whether a report may be written to `path`. Raises `BadInput` with what to do instead."""
    if extension_of(path) not in EXTENSIONS:
        raise BadInput(
            f"{path} has no extension of a report" if not path.suffix else f"{path}: no report is a {path.suffix} file",
            advice=f"end the file's name with one of: {', '.join(EXTENSIONS)}",
        )
    check_place(path, overwrite=overwrite, example="report.html")


def check_place(path: Path, *, overwrite: bool, example: str) -> None:
    """Whether there can be a file at `path`. Raises `BadInput`, with `example` as the name of one."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder", advice=f"give a file in it, such as {example}")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}", advice="make it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadInput(f"can't write to {path}", advice="name another place")
    if path.exists() and not overwrite:
        raise BadInput(f"{path} exists already", advice="use --force to overwrite it, or another name")


def report_document(
    runs: Sequence[Run],
    *,
    table: str | None = None,
    task: str | None = None,
    reference: str | None = None,
    title: str = "",
    known: Sequence[Run] = (),
) -> Document:
    """The document of one of `TABLES`, or of what suits the runs. Raises `BadInput` for an unknown table or no runs.

    Args:
        known: other runs, whose numbers fill what these lack in the tables of the field.
    """
    table = _check(runs, table)
    if table == "profile":
        from edgewise.report.profile import profile_document

        return profile_document(runs, top=max(1, *(len(run.layers) for run in runs)), title=title)
    if table == "bench":
        return bench_document(runs, title=title)
    return field_document(table, runs, options=Options(task=task, reference=reference, known=known), title=title)


def render_report(
    runs: Sequence[Run],
    extension: str,
    *,
    table: str | None = None,
    task: str | None = None,
    reference: str | None = None,
    title: str = "",
    word: str = "",
    known: Sequence[Run] = (),
    only_tables: bool = False,
) -> str | bytes:
    """The content of a report; only that of ``.png`` is no text.

    Args:
        extension: one of `EXTENSIONS`.
        table: one of `TABLES`, or None for what suits the runs. There are two pages: that of profiles, and one with all
            other tables. JSON has the runs themselves, whatever this says.
        word: which chart or node data, see `render_profile_file`.
        known: as in `report_document`.
        only_tables: of Markdown nothing but the tables and their footnotes.

    Raises `BadInput` for an unknown table, an unknown extension or no runs, and where `render_profile_file` does.
    """
    table = _check(runs, table)
    options = Options(task=task, reference=reference, known=known)
    match extension.lower():
        case ".html" if table == "profile":
            from edgewise.report.profile_html import render_profile_html

            return render_profile_html(runs, title=title)
        case ".html":
            from edgewise.report.html import render_html

            return render_html(runs, title=title or default_title(runs), options=options)
        case ".json":
            return json_text(runs_document(runs))
        case ".csv" if table == "profile":
            from edgewise.report.profile_csv import layers_csv

            return layers_csv(profiled(runs))
        case ".csv":
            from edgewise.report.csv import render_csv

            return render_csv(_one_table(runs, table, options))
        case ".md":
            from edgewise.report.markdown import render_markdown

            document = report_document(runs, table=table, task=task, reference=reference, title=title, known=known)
            return render_markdown(document, only_tables=only_tables)
        case special if special in PROFILE_EXTENSIONS:
            return render_profile_file(runs, special, word)
        case _:
            raise BadInput(f"no report is a {extension} file", advice=f"one of: {', '.join(EXTENSIONS)}")


def write_report(
    runs: Sequence[Run],
    path: Path,
    *,
    table: str | None = None,
    task: str | None = None,
    reference: str | None = None,
    title: str = "",
    overwrite: bool = False,
    known: Sequence[Run] = (),
    only_tables: bool = False,
) -> None:
    """Write a report in the format of the extension of `path`, whole or not at all.

    Raises `BadInput` where `check_target` does, for an unknown table or no runs, and where the file can't be written;
    `StoreError` where the disk fails.
    """
    from edgewise.store.exchange import write_file
    from edgewise.store.places import for_others

    check_target(path, overwrite=overwrite)
    extension = extension_of(path)
    word = Path(path.name[: -len(extension)]).suffix[1:].lower()
    runs = [for_others(run) for run in runs]
    content = render_report(
        runs, extension, table=table, task=task, reference=reference, title=title, word=word, known=known,
        only_tables=only_tables,
    )  # fmt: skip
    write_file(path, content, overwrite=overwrite)


def _check(runs: Sequence[Run], table: str | None) -> str:
    """The table to make. Raises `BadInput` where there is none of that name, or no run."""
    chosen = table_of(runs, table)
    if chosen not in TABLES:
        raise BadInput(f"there is no table {chosen!r}", advice=f"one of: {', '.join(TABLES)}")
    if not runs:
        raise BadInput("there is nothing to report", advice="name a run: see 'edgewise runs list'")
    return chosen


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
        "schema": SCHEMA,
        "runs": [to_document(run) for run in runs],
        "recommendation": advice.to_document() if advice else None,
        "recommendations": [{"group": one.group, **one.to_document()} for one in recommendations(runs)],
    }
