"""The page of an evaluation: accuracy and latency, differences, all metrics, confusion matrices, conditions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from edgewise.evaluating.evaluation import EvaluationResults
from edgewise.evaluating.plausibility import CODE
from edgewise.formatting import range_text, scale_of, value_text
from edgewise.metrics import METRICS
from edgewise.record import ABOUT_DATA, Evaluation
from edgewise.report.cautions import caution_lines
from edgewise.report.cells import label_of
from edgewise.report.changed_answers import AGAINST_REFERENCE, changed_part
from edgewise.report.chart_text import Spec
from edgewise.report.charts import (
    KEEP_APART,
    Chart,
    colour_channel,
    colour_of,
    interval_lines,
    name_axis,
    number_axis,
    wide_chart,
)
from edgewise.report.document import Section
from edgewise.report.evaluation import ABOUT_ACCURACY, IMPLAUSIBLE, chief_score, class_name, sections_of, title_of
from edgewise.report.evaluation_tables import (
    changed_models,
    differences_table,
    metrics_table,
    model_labels,
    overview_table,
)
from edgewise.report.names import short_names
from edgewise.report.page import ChartRenderer, Part, metrics_part, render_result_page, table_block, warnings_part
from edgewise.text import one_line

WARNINGS = ("Failed", "Not saved", IMPLAUSIBLE, ABOUT_ACCURACY)


def render_evaluation_html(results: EvaluationResults) -> str:
    """The page of `results`. Without vl-convert-python it has no charts and says how to get them."""
    labels = model_labels(results)
    pairs = list(zip(results.models, labels, strict=True))
    sections = sections_of(results)
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
        confusion_part((one.run.evaluation, label) for one, label in pairs),
        changed_part(changed_models(results), results.thumbnails, AGAINST_REFERENCE),
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
    # Cautions on the accuracy stand above, among the warnings.
    kept = [tuple(each for each in one.run.cautions if each.code not in (CODE, *ABOUT_DATA)) for one in results.models]
    runs = [replace(one.run, cautions=cautions) for one, cautions in zip(results.models, kept, strict=True)]
    lines = caution_lines(runs)
    return [Section(title="Cautions on the latency", lines=tuple(lines), tone="poor")] if lines else []


def confusion_part(evaluations: Iterable[tuple[Evaluation | None, str]]) -> Part:
    """The part of a page with the confusion matrix of each (evaluation, label) that has one."""
    matrices = [_confusion(one, label, place) for place, (one, label) in enumerate(evaluations)]
    tint = "A row is a label, a column an answer; the tint is the share of the row, the diagonal holds right answers."
    blocks = [("small", tint if any(matrices) else ""), *(("matrix", matrix) for matrix in matrices)]
    return Part(id="confusion", title="Confusion", blocks=blocks)


def _confusion(evaluation: Evaluation | None, label: str, place: int) -> dict[str, Any] | None:
    """The matrix for the template: counts with their share of the row; None where there is none."""
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


def score_chart(results: EvaluationResults) -> Chart | None:
    """The headline metric of every model; None where fewer than two models know the same one."""
    labels = model_labels(results)
    scores = [chief_score(one) for one in results.models]
    found = [
        (index, label, score, score.value)
        for index, (label, score) in enumerate(zip(labels, scores, strict=True))
        if score is not None and score.value is not None
    ]
    metrics = {score.metric for _, _, score, _ in found}
    if len(found) < 2 or len(metrics) != 1:
        return None
    metric = metrics.pop()
    unit = METRICS[metric].unit
    convert, word = scale_of(metric, unit, [value for *_, value in found])
    names = short_names([label for _, label, _, _ in found], 34)
    rows: list[Spec] = []
    for (index, _, score, value), name in zip(found, names, strict=True):
        row: Spec = {"model": f"{name}{KEEP_APART}{index}", "x": convert(value), "colour": str(index)}
        if score.low is not None and score.high is not None:
            row |= {"low": convert(score.low), "high": convert(score.high)}
        rows.append(row)
    x = number_axis("x", f"{label_of(metric)} ({word})" if word else label_of(metric), ticks=8, zero=False)
    y = name_axis("model", [row["model"] for row in rows], limit=260)
    colour = colour_channel("colour", {str(index): colour_of(index) for index, *_ in found})
    channels = {"x": x, "y": y, "color": colour}
    layers: list[Spec] = [
        interval_lines(channels),
        {"mark": {"type": "point", "filled": True, "size": 110, "opacity": 1}, "encoding": channels},
    ]
    left = len(results.models) - len(found)
    return wide_chart(
        f"{label_of(metric)} by model",
        layers,
        height={"step": 40},
        rows=rows,
        description="; ".join(
            f"{label}: {value_text(metric, unit, value)}"
            + (f", 95 % interval {text}" if (text := range_text(metric, unit, score.low, score.high)) else "")
            for _, label, score, value in found
        ),
        caption="The dot is the value, the bar its 95 % interval. All models were evaluated on the same samples, so "
        "judge by the paired differences, not by whether intervals overlap."
        + (f" Without a value: {left}." if left else ""),
    )
