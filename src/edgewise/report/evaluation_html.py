"""An evaluation as one self-contained page: no request beyond the file, readable without scripts, light and dark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgewise.evaluating.examination import Examined, Results
from edgewise.evaluating.plausibility import CODE
from edgewise.metrics import METRICS
from edgewise.record import Evaluation
from edgewise.report.bench import caution_lines
from edgewise.report.charts import colour_of
from edgewise.report.document import Section, Table
from edgewise.report.evaluation import IMPLAUSIBLE, class_name, sections_of, title_of
from edgewise.report.evaluation_charts import score_chart
from edgewise.report.evaluation_tables import differences_table, metrics_table, model_labels, overview_table
from edgewise.report.page import Drawing, render_page, view_table
from edgewise.text import one_line

WARNINGS = ("Failed", "Not saved", IMPLAUSIBLE)


def render_evaluation_html(results: Results, *, title: str = "") -> str:
    """The page of `results`.

    Args:
        title: of the window; empty for the conclusion.

    Where vl-convert-python is missing the page has no charts and says how to get them.
    """
    drawing = Drawing()
    labels = model_labels(results)
    pairs = list(zip(results.examined, labels, strict=True))
    sections = sections_of(results)
    drawn = drawing.draw(score_chart(results))
    tables = [metrics_table(one, label) for one, label in pairs]
    gaps = [differences_table(one, label, labels[0]) for one, label in pairs]
    return render_page(
        "evaluation.html.jinja",
        scripts=["report.js"],
        styles=["report.css", "comparison.css", "evaluation.css"],
        title=one_line(title) or title_of(results),
        headline=title_of(results),
        models=[
            {"label": label, "colour": colour_of(index), "what": one_line(one.run.job.label)}
            for index, (one, label) in enumerate(pairs)
        ],
        warnings=[section for section in sections if section.title in WARNINGS],
        overview=_view(overview_table(results), "overview") if pairs else None,
        metrics=[_view(table, f"metrics-{place}") for place, table in enumerate(tables) if table is not None],
        differences=[_view(table, f"difference-{place}") for place, table in enumerate(gaps) if table is not None],
        confusions=[
            view for place, (one, label) in enumerate(pairs) if (view := _confusion(one, label, place)) is not None
        ],
        charts=[drawn] if drawn is not None else [],
        missing=drawing.missing,
        sections=[*(section for section in sections if section.title not in WARNINGS), *_cautions(results)],
        definitions=[METRICS[name] for name in dict.fromkeys(s.metric for one in results.examined for s in one.scores)],
    )


def _cautions(results: Results) -> list[Section]:
    # An implausible accuracy stands above, among the warnings.
    kept = [tuple(each for each in one.run.cautions if each.code != CODE) for one in results.examined]
    runs = [replace(one.run, cautions=cautions) for one, cautions in zip(results.examined, kept, strict=True)]
    lines = caution_lines(runs)
    return [Section(title="Cautions on the latency", lines=tuple(lines), tone="poor")] if lines else []


def _confusion(one: Examined, label: str, place: int) -> dict[str, Any] | None:
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


def _view(table: Table, identity: str) -> dict[str, Any]:
    """Rows have no colours of their own."""
    return {**view_table(table, identity), "colours": [None for _ in table.rows]}
