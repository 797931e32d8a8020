"""A gate's outcome as one self-contained page: checks, how they came about, and the comparison they rest on."""

from __future__ import annotations

from edgewise.comparing.gate import Outcome
from edgewise.report import comparison_charts as charts
from edgewise.report.comparison import environments_table, variants_table
from edgewise.report.comparison_tables import before_after_table, compared_labels
from edgewise.report.gate import gate_document, statements_of
from edgewise.report.page import Drawing, render_page, view_table
from edgewise.text import one_line


def render_gate_html(outcome: Outcome) -> str:
    """The page. Where vl-convert-python is missing it has no charts and says how to get them."""
    findings = outcome.findings
    drawing = Drawing()
    compared = bool(findings.comparisons)
    tables = [before_after_table(findings, label) for label in compared_labels(findings)]
    conditions = [table for table in (variants_table(findings), environments_table(findings)) if table is not None]
    drawn = [drawing.draw(make(findings)) for make in (charts.overlay_chart, charts.forest_chart)] if compared else []
    (section,) = gate_document(outcome).sections
    return render_page(
        "gate.html.jinja",
        scripts=["report.js"],
        styles=["report.css", "comparison.css"],
        conclusion=one_line(outcome.conclusion),
        tone=section.tone,
        checks=[
            view_table(table, f"check-{place}")
            for place, table in enumerate(gate_document(outcome, folded=False).tables)
        ],
        statements=statements_of(outcome),
        results=[view_table(table, f"result-{place}") for place, table in enumerate(tables)],
        charts=[chart for chart in drawn if chart is not None],
        missing=drawing.missing,
        conditions=[view_table(table, f"condition-{place}") for place, table in enumerate(conditions)],
    )
