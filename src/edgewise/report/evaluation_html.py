"""The page of an evaluation: accuracy and latency, differences, all metrics, confusion matrices, conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgewise.evaluating.evaluation import EvaluationResults, ModelEvaluation
from edgewise.evaluating.plausibility import CODE
from edgewise.record import Evaluation
from edgewise.report.bench import caution_lines
from edgewise.report.charts import colour_of
from edgewise.report.document import Section
from edgewise.report.evaluation import IMPLAUSIBLE, class_name, sections_of, title_of
from edgewise.report.evaluation_charts import score_chart
from edgewise.report.evaluation_tables import differences_table, metrics_table, model_labels, overview_table
from edgewise.report.page import ChartRenderer, Part, metrics_part, render_result_page, table_block, warnings_part
from edgewise.text import one_line

WARNINGS = ("Failed", "Not saved", IMPLAUSIBLE)


def render_evaluation_html(results: EvaluationResults) -> str:
    """The page of `results`. Without vl-convert-python it has no charts and says how to get them."""
    labels = model_labels(results)
    pairs = list(zip(results.models, labels, strict=True))
    sections = sections_of(results)
    matrices = [_confusion(one, label, place) for place, (one, label) in enumerate(pairs)]
    tint = "A row is a label, a column an answer; the tint is the share of the row, the diagonal holds right answers."
    parts = [
        warnings_part(sections, WARNINGS),
        Part(
            id="results",
            title="Accuracy and latency",
            blocks=[
                table_block(overview_table(results), "overview", sortable=True),
                *ChartRenderer().blocks([score_chart(results)]),
            ]
            if pairs
            else [],
        ),
        Part(
            id="differences",
            title="Differences",
            blocks=[
                table_block(differences_table(one, label, labels[0]), f"difference-{place}")
                for place, (one, label) in enumerate(pairs)
            ],
        ),
        Part(
            id="scores",
            title="All metrics",
            blocks=[
                table_block(metrics_table(one, label), f"metrics-{place}") for place, (one, label) in enumerate(pairs)
            ],
        ),
        Part(
            id="confusion",
            title="Confusion",
            blocks=[("small", tint if any(matrices) else ""), *(("matrix", matrix) for matrix in matrices)],
        ),
        Part(
            id="conditions",
            title="Conditions",
            blocks=[
                ("sections", [each for each in sections if each.title not in WARNINGS] + _cautions(results)),
            ],
        ),
        metrics_part(score.metric for one in results.models for score in one.scores),
    ]
    subjects = [(label, one_line(one.run.job.label), colour_of(index)) for index, (one, label) in enumerate(pairs)]
    return render_result_page("evaluation", title_of(results), parts, subjects=subjects, subjects_title="Models")


def _cautions(results: EvaluationResults) -> list[Section]:
    # An implausible accuracy stands above, among the warnings.
    kept = [tuple(each for each in one.run.cautions if each.code != CODE) for one in results.models]
    runs = [replace(one.run, cautions=cautions) for one, cautions in zip(results.models, kept, strict=True)]
    lines = caution_lines(runs)
    return [Section(title="Cautions on the latency", lines=tuple(lines), tone="poor")] if lines else []


def _confusion(one: ModelEvaluation, label: str, place: int) -> dict[str, Any] | None:
    """The matrix for the template: counts with their share of the row; None where there is none."""
    evaluation = one.run.evaluation
    if evaluation is None or evaluation.confusion is None:
        return None
    size = max([len(evaluation.confusion), *map(len, evaluation.confusion)])
    return {
        "id": f"confusion-{place}",
        "label": label,
        "classes": [class_name(evaluation, index) for index in range(size)],
        "rows": [_row(evaluation, index, counts) for index, counts in enumerate(evaluation.confusion)],
    }


def _row(evaluation: Evaluation, index: int, counts: tuple[int, ...]) -> dict[str, Any]:
    total = sum(counts)
    cells = [
        {
            "count": count,
            "right": answer == index,
            "share": f"{count / total:.3f}" if count else "",
            "words": f"{count} of {total} {class_name(evaluation, index)} taken for {class_name(evaluation, answer)}",
        }
        for answer, count in enumerate(counts)
    ]
    return {"name": class_name(evaluation, index), "total": total, "cells": cells}
