"""Results for Python users: as text, as rows, and as files."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from edgewise.formatting import ABSENT, with_range
from edgewise.metrics import METRICS, WITHOUT_A_RUN
from edgewise.record import Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.registry import load_class
from edgewise.report import files
from edgewise.report import files as result_files
from edgewise.report.document import Document, Section, number_notes
from edgewise.report.document.text import plain_text, print_document, print_titled
from edgewise.report.runs.cells import failure_of, label_of, reason_of_absence
from edgewise.text import without_controls
from edgewise.verbs.verb import VERBS, Verb

NOTEBOOK_WIDTH = 120
"""Characters of a line where there is no terminal."""


def format_of(result: Any) -> result_files.ResultFormat[Any]:
    """How files of `result` are written: as the verb says whose results are of its class."""
    verb = _verb_of(result)
    found = None if verb is None else verb.presentation().files
    return result_files.DESCRIBED if found is None else found


def text_of(result: Any) -> str:
    """Return `result` as the command line prints it; a single run, and a list of none, in one line."""
    if isinstance(result, Run):
        return _line_of(result)
    if result == []:
        return "[]"
    document = _document_of(result)
    document = replace(document, sections=(*document.sections, *_arguments(document, result)))
    show = partial(print_document if isinstance(result, list) else print_titled, document, hint=False)
    return plain_text(show, width=get_terminal_size((NOTEBOOK_WIDTH, 24)).columns).rstrip()


def html_of(result: Any) -> str:
    """Return `result` for a notebook: the answer, the tables that the command line prints, and the sections, folded.

    The title stands above the answer as in `text_of`, since that of a comparison is its verdict.
    """
    from edgewise.report.document.page import environment  # pages need much that text does not

    document: Document = _document_of([result] if isinstance(result, Run) else result)
    document = replace(document, sections=(*document.sections, *_arguments(document, result)))
    if not document.answer or not isinstance(result, Run | list):
        document = document.led_by([document.title])
    shown = [table for table in document.tables if not table.detail]
    page = environment().get_template("notebook.html.jinja")
    return without_controls(page.render(document=document, numbers=number_notes(shown)))


_FLAG = re.compile(r"(?<![\w'-])--([a-z][a-z0-9-]*)")
_COMMAND = re.compile(r"\bedgewise [a-z]+ .*")


def _arguments(document: Document, result: Any) -> list[Section]:
    """Return which arguments flags in the words of `document` are, where the names differ; not of commands."""
    sections = (*document.lead, *document.sections)
    texts = [*document.answer, *(line for section in sections for line in (section.brief or "", *section.lines))]
    texts += [note for table in document.tables for note in (*table.notes, *number_notes([table]))]
    flags = dict.fromkeys(flag for text in texts for flag in _FLAG.findall(_COMMAND.sub("", text)))
    verb = _verb_of(result) if flags else None
    if verb is None:
        return []
    found = {flag: verb.option_of(flag.replace("-", "_")) for flag in flags}
    names = {flag: verb.argument_of(option.name) for flag, option in found.items() if option and option.flags}
    words = ", ".join(f"--{flag} is {name}" for flag, name in names.items() if name != flag.replace("-", "_"))
    return [Section(title="In Python", lines=(f"{words} (edgewise.{verb.name})",), brief=words)] if words else []


def _verb_of(result: Any) -> Verb | None:
    """Return the verb that gives results such as `result`; None where that is not known."""
    if isinstance(result, Run | list):
        table = files.table_of([result] if isinstance(result, Run) else result, None)
        return VERBS.get("profile" if table == "profile" else "bench")
    for _, verb in VERBS:
        with suppress(Exception):  # a plug-in that is broken must not hide the other verbs
            found = verb.presentation().files
            if found is not None and found.shows == type(result).__name__:
                return verb
    return None


def rows_of(result: Any) -> list[dict[str, Any]]:
    """Return the rows of the CSV file of `result`: numbers where a text is one, None for what is not known.

    Runs without layers have a row each, of their measurements.
    """
    runs = [result] if isinstance(result, Run) else result
    if isinstance(runs, list):
        if files.table_of(runs, None) != "profile":
            return _rows_of_runs(runs)
        text = str(files.render_report(runs, ".csv"))
    else:
        text = format_of(result).writers[".csv"](result)
    rows = csv.DictReader(io.StringIO(text))
    return [{key: _value(key, word) for title, word in row.items() for key in (key_of(title),)} for row in rows]


_HEADING = re.compile(r"(?P<place>.+: )?(?P<name>.*?)(?: \((?P<unit>[^)]*)\))?(?P<end> low| high)?")
_IDS = {metric.label.lower(): metric.id for metric in METRICS.values()}
_KEYS = {
    "#": "index", "-d": "device", "layer": "name", "operator": "op", "ops/b": "intensity (1/B)", "params": "parameters",
    "input": "inputs", "output": "outputs", "share_of_latency": "share", "j/op": "energy_per_op (J)",
    "j/mac": "energy_per_mac (J)", "adjusted_p": "p_adjusted", "activations": "activations",
}  # fmt: skip
"""Headings that mean the same, and the name that JSON has for it; activations are those of a layer, not a metric."""

_TEXTS = frozenset({
    "run", "model", "runtime", "provider", "device", "precision", "name", "op", "a", "b", "metric", "unit", "label",
    "variant", "parent", "data", "split", "data_sha256", "sha256", "path", "notes",
})  # fmt: skip
"""Keys whose values are text even where one looks like a number, as the unit ``1`` does."""


def key_of(heading: str) -> str:
    """Return the key of a row for a heading of a CSV table: ``"memory_peak (B) low"`` for ``"Peak memory (B) low"``.

    A metric has its id. Pure numbers have no unit; a place before a colon stays as it is.
    """
    found = _HEADING.fullmatch(heading)
    assert found is not None
    place, name, unit, end = found.groups("")
    words = name.lower().replace("speed-up", "speedup").replace(" ", "_")
    part = _IDS.get(place[:-2].lower(), "")  # a class of instructions
    key = _KEYS.get(words) or words if part else _KEYS.get(words) or _IDS.get(name.lower(), words)
    return f"{(part and f'{part}: ') or place}{key}{f' ({unit})' if unit not in ('', '1') else ''}{end}"


def write(result: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a report in the format of the extension of `path`. Raises `BadInput`."""
    runs = [result] if isinstance(result, Run) else result
    if isinstance(runs, list):
        files.write_report(runs, Path(path), overwrite=overwrite)
    else:
        format_of(result).write(result, Path(path), overwrite=overwrite)


def _rows_of_runs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per run with all metrics that one of them has; a failed run has no values but those of
    `WITHOUT_A_RUN`.
    """
    units = {row.metric: "" if row.unit == "1" else f" ({row.unit})" for run in runs for row in run.measurements}
    return [_row_of_run(run, units) for run in runs]


def _row_of_run(run: Run, units: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of `run`, whose keys depend on no value; `units` are those of the metrics, as the keys have
    them.
    """
    from edgewise.store.exchange import conditions_of

    values: dict[str, float | None] = {}
    absent: dict[str, list[str]] = {}
    for metric, unit in units.items():
        row = run.measurement(metric) if run.failure is None or metric in WITHOUT_A_RUN else None
        value, low, high = (row.value, row.low, row.high) if row is not None else (None, None, None)
        values |= {f"{metric}{unit}": value, f"{metric}{unit} low": low, f"{metric}{unit} high": high}
        if value is None:
            absent.setdefault(failure_of(run) if run.failure else reason_of_absence(run, metric), []).append(metric)
    return {
        **conditions_of(run),
        "threads": threads_of(run),
        "precision": precision_of(run),
        "device": run.job.target.device,
        "status": run.status,
        "grade": run.trust.grade if run.trust is not None else None,
        **values,
        "notes": "; ".join(f"{', '.join(metrics)}: {reason}" for reason, metrics in absent.items()),
    }


def _document_of(result: Any) -> Any:
    if isinstance(result, list):
        return files.report_document(result)
    return load_class(f"edgewise.report.{format_of(result).document}")(result)


def _value(key: str, word: str) -> str | float | None:
    if key == "snr (dB)" and word == "exact":
        return math.inf  # a column of a frame has numbers alone
    for kind in () if key in _TEXTS else (int, float):
        with suppress(ValueError):
            return kind(word)
    return None if word == ABSENT else word


def _line_of(run: Run) -> str:
    row = run.measurement(run.headline)
    if row is None or row.value is None:
        return f"<run {run.id} of {run.job.label}: {failure_of(run) if run.failure else run.status}>"
    value = with_range(row.metric, row.unit, row.value, row.low, row.high)
    grade = f", grade {run.trust.grade}" if run.trust is not None else ""
    return f"<run {run.id} of {run.job.label}: {label_of(row.metric)} {value}{grade}>"
