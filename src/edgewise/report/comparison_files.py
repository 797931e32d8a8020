"""Comparisons as files: the extension says the format."""

from __future__ import annotations

from pathlib import Path

from edgewise.comparing.comparison import Findings
from edgewise.errors import BadInput
from edgewise.report.comparison import comparison_document
from edgewise.report.comparison_tables import csv_table
from edgewise.report.document import json_text
from edgewise.report.files import check_target, extension_of

COMPARISON_EXTENSIONS = (".md", ".html", ".csv", ".json")
"""Extensions of files that hold a comparison."""


def check_comparison_target(path: Path, *, overwrite: bool) -> None:
    """Whether a comparison may be written to `path`. Raises `BadInput` with what to do instead."""
    if extension_of(path) not in COMPARISON_EXTENSIONS:
        raise BadInput(
            f"{path}: no comparison is a {extension_of(path)} file"
            if path.suffix
            else f"{path} has no extension of a comparison",
            advice=f"end the file's name with one of: {', '.join(COMPARISON_EXTENSIONS)}",
        )
    check_target(path, overwrite=overwrite)


def render_comparison(findings: Findings, extension: str) -> str:
    """The content of a file of `findings`.

    Args:
        extension: one of `COMPARISON_EXTENSIONS`. JSON is ``findings.to_document()``.

    Raises `BadInput` for another extension.
    """
    match extension.lower():
        case ".md":
            from edgewise.report.markdown import render_markdown

            return render_markdown(comparison_document(findings))
        case ".html":
            from edgewise.report.comparison_html import render_comparison_html

            return render_comparison_html(findings)
        case ".csv":
            from edgewise.report.csv import render_csv

            return render_csv(csv_table(findings))
        case ".json":
            return json_text(findings.to_document())
        case _:
            raise BadInput(f"no comparison is a {extension} file", advice=f"one of: {', '.join(COMPARISON_EXTENSIONS)}")


def write_comparison(findings: Findings, path: Path, *, overwrite: bool = False) -> None:
    """Write `findings` in the format of the extension of `path`, whole or not at all.

    Raises `BadInput` where `check_comparison_target` does and where the file can't be written; `StoreError` where the
    disk fails.
    """
    from edgewise.store.exchange import write_file
    from edgewise.store.places import without_places_of

    check_comparison_target(path, overwrite=overwrite)
    text = render_comparison(findings, extension_of(path))
    write_file(path, without_places_of(text, [one.run for one in findings.variants]), overwrite=overwrite)
