"""Searches as files: the extension says the format."""

from __future__ import annotations

from pathlib import Path

from edgewise.errors import BadInput
from edgewise.optimizing.variant import Optimization
from edgewise.report.document import json_text
from edgewise.report.files import check_place, extension_of
from edgewise.report.optimization import describe_optimization
from edgewise.report.optimization_tables import csv_table

OPTIMIZATION_EXTENSIONS = (".md", ".html", ".csv", ".json")
"""Extensions of files that hold a search."""


def check_target(path: Path, *, overwrite: bool) -> None:
    """Whether a search may be written to `path`. Raises `BadInput` with what to do instead."""
    if extension_of(path) not in OPTIMIZATION_EXTENSIONS:
        raise BadInput(
            f"{path}: no report of a search is a {extension_of(path)} file"
            if path.suffix
            else f"{path} has no extension of a report",
            advice=f"end the file's name with one of: {', '.join(OPTIMIZATION_EXTENSIONS)}",
        )
    check_place(path, overwrite=overwrite, example="optimization.html")


def render_optimization(result: Optimization, extension: str) -> str:
    """The content of a file of `result`; `extension` is one of `OPTIMIZATION_EXTENSIONS`. Raises `BadInput`."""
    match extension.lower():
        case ".md":
            from edgewise.report.markdown import render_markdown

            return render_markdown(describe_optimization(result))
        case ".html":
            from edgewise.report.optimization_html import render_optimization_html

            return render_optimization_html(result)
        case ".csv":
            from edgewise.report.csv import render_csv

            return render_csv(csv_table(result))
        case ".json":
            return json_text(result.to_document())
        case _:
            raise BadInput(
                f"no report of a search is a {extension} file",
                advice=f"one of: {', '.join(OPTIMIZATION_EXTENSIONS)}",
            )


def write_optimization(result: Optimization, path: Path, *, overwrite: bool = False) -> None:
    """Write `result` in the format of the extension of `path`, whole or not at all.

    Raises `BadInput` where `check_target` does and where the file can't be written; `StoreError` where the disk fails.
    """
    from edgewise.store.exchange import write_file
    from edgewise.store.places import without_places

    check_target(path, overwrite=overwrite)
    text = render_optimization(result, extension_of(path))
    original = result.baseline.model
    write_file(path, without_places(text, [] if original is None else [original.path]), overwrite=overwrite)
