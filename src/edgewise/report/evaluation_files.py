"""Evaluations as files: the extension says the format."""

from __future__ import annotations

from pathlib import Path

from edgewise.errors import BadInput
from edgewise.evaluating.examination import Examined, Results
from edgewise.evaluating.scores import Gap, Score
from edgewise.metrics import METRICS
from edgewise.report.cells import label_of, reason_of_absence
from edgewise.report.conditions import provider_of
from edgewise.report.document import Cell, Column, Table, absent, json_text
from edgewise.report.evaluation import NO_CHIEF, describe_results, evaluation_document
from edgewise.report.evaluation_tables import NO_REASON, model_labels
from edgewise.report.files import check_place, extension_of
from edgewise.text import one_line

EVALUATION_EXTENSIONS = (".md", ".html", ".csv", ".json")
"""Extensions of files that hold an evaluation."""


def csv_table(results: Results) -> Table:
    """One row per model and metric, SI units, nothing rounded, for machines; one row of a model that failed."""
    titles = ("Model", "Runtime", "Metric", "Label", "Unit", "Value", "n", "Method", "Difference to the first", "p",
              "Method of the difference", "Data", "Split", "Data sha256", "Status", "Run")  # fmt: skip
    numeric = {"Value", "n", "Difference to the first", "p"}
    columns = tuple(Column(title=title, numeric=title in numeric) for title in titles)
    rows = [
        _csv_row(one, label, score)
        for one, label in zip(results.examined, model_labels(results), strict=True)
        for score in (one.scores or (None,))
    ]
    return Table(title="Evaluation", columns=columns, rows=tuple(rows))


def _csv_row(one: Examined, label: str, score: Score | None) -> tuple[Cell, ...]:
    evaluation, none = one.run.evaluation, Cell(text="n/a", tone="faint")
    metric = one.headline if score is None else score.metric
    gap = next((each for each in one.gaps if each.metric == metric), None)
    known = (none, none, none)
    if evaluation is not None:
        data = evaluation.data
        known = (_text(data.name), _text(data.split), _text(data.sha256))
    return (
        _text(label),
        _text(provider_of(one.run)),
        _text(metric),
        _text(label_of(metric)) if metric else none,
        _text(METRICS[metric].unit) if metric else none,
        _value(one, score),
        none if score is None else Cell(text=str(score.n), value=score.n),
        none if score is None else _text(score.method),
        *_gap(gap),
        *known,
        _text(one.run.status),
        _text(one.run.id),
    )


def _value(one: Examined, score: Score | None) -> Cell:
    if score is None:
        return absent(reason_of_absence(one.run, one.headline) if one.run.failure is not None else NO_CHIEF)
    if score.value is None:
        return absent(one_line(score.absent_because or NO_REASON))
    return Cell(text="", value=score.value, low=score.low, high=score.high)


def _gap(gap: Gap | None) -> tuple[Cell, Cell, Cell]:
    none = Cell(text="n/a", tone="faint")
    if gap is None:
        return none, none, none
    method = _text(gap.method)
    p_value = none if gap.p_value is None else Cell(text="", value=gap.p_value)
    if gap.difference is None:
        return absent(one_line(gap.absent_because or NO_REASON)), p_value, method
    return Cell(text="", value=gap.difference, low=gap.low, high=gap.high), p_value, method


def _text(text: str) -> Cell:
    return Cell(text=one_line(text) or "n/a")


def check_target(path: Path, *, overwrite: bool) -> None:
    """Whether an evaluation may be written to `path`. Raises `BadInput` with what to do instead."""
    if extension_of(path) not in EVALUATION_EXTENSIONS:
        raise BadInput(
            f"{path}: no evaluation is a {extension_of(path)} file"
            if path.suffix
            else f"{path} has no extension of an evaluation",
            advice=f"end the file's name with one of: {', '.join(EVALUATION_EXTENSIONS)}",
        )
    check_place(path, overwrite=overwrite, example="evaluation.html")


def render_evaluation(results: Results, extension: str) -> str:
    """The content of a file of `results`; `extension` is one of `EVALUATION_EXTENSIONS`. Raises `BadInput`."""
    match extension.lower():
        case ".md":
            from edgewise.report.markdown import render_markdown

            return render_markdown(describe_results(results))
        case ".html":
            from edgewise.report.evaluation_html import render_evaluation_html

            return render_evaluation_html(results)
        case ".csv":
            from edgewise.report.csv import render_csv

            return render_csv(csv_table(results))
        case ".json":
            return json_text(evaluation_document(results))
        case _:
            raise BadInput(f"no evaluation is a {extension} file", advice=f"one of: {', '.join(EVALUATION_EXTENSIONS)}")


def write_evaluation(results: Results, path: Path, *, overwrite: bool = False) -> None:
    """Write `results` in the format of the extension of `path`, whole or not at all.

    Raises `BadInput` where `check_target` does and where the file can't be written; `StoreError` where the
    disk fails.
    """
    from edgewise.store.exchange import write_file
    from edgewise.store.places import without_places_of

    check_target(path, overwrite=overwrite)
    text = render_evaluation(results, extension_of(path))
    write_file(path, without_places_of(text, [one.run for one in results.examined]), overwrite=overwrite)
