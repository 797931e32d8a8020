"""A comparison as one self-contained page: no request beyond the file, readable without scripts, in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgewise.comparing.comparison import Comparison, Findings
from edgewise.metrics import METRICS
from edgewise.report import comparison_charts as charts
from edgewise.report.cells import label_of
from edgewise.report.charts import colour_of
from edgewise.report.comparison import (
    comparison_document,
    environments_table,
    failed_text,
    ranking_table,
    title_of,
    variants_table,
)
from edgewise.report.comparison_tables import (
    TONES,
    before_after_table,
    chief_of,
    compared_labels,
    conclusion_of,
    rows_of,
    side_texts,
)
from edgewise.report.comparison_words import but_text, evidence_text, factor_of, headline_text, percent, waiting_text
from edgewise.report.conditions import engine_of
from edgewise.report.document import Document, Section, Table
from edgewise.report.page import Drawing, render_page, view_table
from edgewise.text import one_line

WARNINGS = ("Failed", "Not saved", "Not a fair comparison: it was forced", "What can't be excluded")
FRONT = "Pareto front"


def render_comparison_html(findings: Findings, *, title: str = "") -> str:
    """The page of `findings`.

    Args:
        title: of the window; empty for the conclusion.

    Where vl-convert-python is missing the page has no charts and says how to get them.
    """
    drawing = Drawing()
    document = comparison_document(findings)
    headline, evidence = _headline(findings)
    ranking = ranking_table(findings)
    tables = [table for table in (variants_table(findings), environments_table(findings)) if table is not None]
    makers = (charts.overlay_chart, charts.process_chart, charts.forest_chart)
    drawn = [drawing.draw(make(findings)) for make in makers]
    return render_page(
        "comparison.html.jinja",
        scripts=["report.js"],
        styles=["report.css", "comparison.css"],
        title=one_line(title) or document.title,
        headline=headline,
        evidence=evidence,
        variants=_variants(findings),
        warnings=_sections(document, WARNINGS),
        ranking=_table_view(ranking, "ranked", findings) if ranking is not None else None,
        front=_sections(document, (FRONT,)),
        results=[_result(findings, label, place) for place, label in enumerate(compared_labels(findings))],
        charts=[chart for chart in drawn if chart is not None],
        missing=drawing.missing,
        sections=[
            section
            for section in document.sections
            if section.title not in WARNINGS and not (section.title == FRONT and ranking is not None)
        ],
        conditions=[_table_view(table, f"condition-{place}", findings) for place, table in enumerate(tables)],
        metrics=[METRICS[metric] for metric in dict.fromkeys(row.metric for row in findings.comparisons)],
    )


def _headline(findings: Findings) -> tuple[str, str]:
    """The conclusion, and the numbers that it rests on in smaller letters."""
    labels = compared_labels(findings)
    if len(labels) == 1 and (findings.ranking is None or len(findings.ranking.places) <= 2):
        chief = chief_of(findings, labels[0])
        others = [row for row in rows_of(findings, labels[0]) if row is not chief]
        failed = failed_text(findings)
        said = headline_text(chief) + but_text(chief, others) + (f"; {failed}" if failed else "")
        return said, evidence_text(chief)
    headline, _, evidence = title_of(findings).partition("; ")
    return headline, evidence


def _variants(findings: Findings) -> list[dict[str, str]]:
    return [
        {
            "label": one_line(variant.label),
            "colour": colour_of(index),
            "what": f"{one_line(variant.run.job.model.name)}, {engine_of(variant.run)}",
        }
        for index, variant in enumerate(findings.variants)
    ]


def _sections(document: Document, titles: Sequence[str]) -> list[Section]:
    return [section for section in document.sections if section.title in titles]


def _result(findings: Findings, label: str, place: int) -> dict[str, Any]:
    """One variant against the baseline; with more than one the tables are enough to look through."""
    rows = rows_of(findings, label)
    several = len(compared_labels(findings)) > 1
    colours = {variant.label: colour_of(index) for index, variant in enumerate(findings.variants)}
    table = before_after_table(findings, label)
    table = replace(table, title=f"Before and after: {one_line(rows[0].a)} → {one_line(label)}")
    return {
        "conclusion": conclusion_of(findings, label),
        "colour": colours.get(label, "var(--soft)"),
        "tiles": [] if several else [_tile(findings, row) for row in rows if row.ratio is not None],
        "table": _table_view(table, f"result-{place}", findings),
    }


def _tile(findings: Findings, row: Comparison) -> dict[str, str]:
    """The verdict of one metric in large letters, and what became of what."""
    number, word = row.word, ""
    if row.verdict in ("faster", "slower"):
        number = factor_of(row) or row.word
        word = row.word if number != row.word else ""
    elif row.verdict == "same" and row.margin is not None:
        word = f"within ± {percent(row.margin)}"
    before, after = side_texts(findings, row)
    change = f"{before} → {after}"
    waiting = waiting_text(row) if row.verdict == "inconclusive" else ""
    return {
        "metric": label_of(row.metric),
        "verdict": row.verdict,
        "tone": TONES[row.verdict],
        "number": number,
        "size": "" if number[:1].isdigit() else "words",
        "word": word,
        "change": f"{change}; {waiting}" if waiting else change,
    }


def _table_view(table: Table, identity: str, findings: Findings) -> dict[str, Any]:
    """`table` for the template; rows that name a variant get its colour."""
    colours = {one_line(variant.label): colour_of(index) for index, variant in enumerate(findings.variants)}
    named = next((index for index, column in enumerate(table.columns) if column.title == "Variant"), None)
    return {
        **view_table(table, identity),
        "colours": [colours.get(row[named].text) if named is not None else None for row in table.rows],
    }
