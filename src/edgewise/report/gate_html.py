"""The page of a gate: checks, how they were measured, and the comparison they rest on."""

from __future__ import annotations

from edgewise.comparing.gate import GateResult
from edgewise.report import comparison_charts as charts
from edgewise.report.comparison import environments_table, variants_table
from edgewise.report.comparison_tables import before_after_table, compared_labels
from edgewise.report.gate import conclusion_of, gate_document, statements_of
from edgewise.report.page import Block, ChartRenderer, Part, render_result_page, table_block


def render_gate_html(outcome: GateResult) -> str:
    """The page of a gate. Without vl-convert-python it has no charts and says how to get them."""
    result = outcome.findings
    tables = [before_after_table(result, label) for label in compared_labels(result)]
    results: list[Block] = [table_block(table, f"result-{place}", sortable=True) for place, table in enumerate(tables)]
    if result.comparisons:
        results += ChartRenderer().blocks([charts.samples_chart(result), charts.forest_chart(result)])
    (section,) = gate_document(outcome).sections
    (checks,) = gate_document(outcome, folded=False).tables
    return render_result_page(
        "gate",
        conclusion_of(outcome),
        [
            Part(id="checks", title="Checks", blocks=[table_block(checks, "check-0")]),
            Part(id="basis", title="How this was measured", blocks=[("statements", statements_of(outcome))]),
            Part(id="results", title="Before and after", blocks=results),
            Part(
                id="conditions",
                title="Conditions",
                blocks=[
                    table_block(variants_table(result), "condition-0"),
                    table_block(environments_table(result), "condition-1"),
                ],
            ),
        ],
        title=f"Gate {conclusion_of(outcome)}",
        tone=section.tone,
    )
