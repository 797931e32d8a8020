"""Results for Python users: as text, as rows, and as files."""

from __future__ import annotations

import csv
import io
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from edgewise.formatting import ABSENT, range_text, value_text
from edgewise.record import Run
from edgewise.registry import load_class
from edgewise.report import files, result_files
from edgewise.report.cells import failure_of, label_of
from edgewise.report.text import plain_text, print_document, print_titled

NOTEBOOK_WIDTH = 120
"""Characters of a line where there is no terminal."""
_FORMATS: dict[str, result_files.ResultFormat[Any]] = {
    "Calibration": result_files.CALIBRATIONS,
    "ComparisonResult": result_files.COMPARISON,
    "Conversion": result_files.CONVERSIONS,
    "Estimate": result_files.ESTIMATES,
    "EvaluationResults": result_files.EVALUATION,
    "Fits": result_files.FITS,
    "Forecasts": result_files.FORECASTS,
    "Inspection": result_files.INSPECTIONS,
    "Optimization": result_files.OPTIMIZATION,
}


def text_of(result: Any) -> str:
    """`result` as the command line prints it; a single run, and a list of none, in one line."""
    if isinstance(result, Run):
        return _line_of(result)
    if result == []:
        return "[]"
    show = partial(print_document if isinstance(result, list) else print_titled, _document_of(result), hint=False)
    return plain_text(show, width=get_terminal_size((NOTEBOOK_WIDTH, 24)).columns).rstrip()


def rows_of(result: Any) -> list[dict[str, Any]]:
    """The rows of the CSV file of `result`: numbers where a text is one, None for what is not known."""
    runs = [result] if isinstance(result, Run) else result
    if isinstance(runs, list):
        text = str(files.render_report(runs, ".csv")) if runs else ""
    else:
        text = _FORMATS[type(result).__name__].writers[".csv"](result)
    return [{title: _value(word) for title, word in row.items()} for row in csv.DictReader(io.StringIO(text))]


def write(result: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a report in the format of the extension of `path`. Raises `BadInput`."""
    runs = [result] if isinstance(result, Run) else result
    if isinstance(runs, list):
        files.write_report(runs, Path(path), overwrite=overwrite)
    else:
        _FORMATS[type(result).__name__].write(result, Path(path), overwrite=overwrite)


def _document_of(result: Any) -> Any:
    if isinstance(result, list):
        return files.report_document(result)
    return load_class(f"edgewise.report.{_FORMATS[type(result).__name__].document}")(result)


def _value(word: str) -> str | float | None:
    for kind in (int, float):
        with suppress(ValueError):
            return None if word == ABSENT else kind(word)
    return word


def _line_of(run: Run) -> str:
    row = run.measurement(run.headline)
    if row is None or row.value is None:
        return f"<run {run.id} of {run.job.label}: {failure_of(run) if run.failure else run.status}>"
    value = value_text(row.metric, row.unit, row.value)
    within = range_text(row.metric, row.unit, row.low, row.high)
    grade = f", grade {run.trust.grade}" if run.trust is not None else ""
    return f"<run {run.id} of {run.job.label}: {label_of(row.metric)} {value}{within and f' ({within})'}{grade}>"
