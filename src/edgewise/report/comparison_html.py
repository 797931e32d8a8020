"""The page of a comparison: the conclusion, before and after metric by metric, charts, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from edgewise.comparing.comparison import Comparison, ComparisonResult
from edgewise.formatting import percent
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
    how_ratio,
    rows_of,
    sides_of,
)
from edgewise.report.comparison_words import but_text, evidence_text, factor_of, headline_text, waiting_text
from edgewise.report.conditions import engine_of, names_of
from edgewise.report.page import (
    Block,
    ChartRenderer,
    Part,
    Tile,
    metrics_part,
    render_result_page,
    table_block,
    warnings_part,
)
from edgewise.text import one_line

WARNINGS = ("Failed", "Not saved", "Not a fair comparison: it was forced", "Other causes that can't be ruled out")
FRONT = "Pareto front"


def render_comparison_html(result: ComparisonResult) -> str:
    """The page of `result`. Without vl-convert-python it has no charts and says how to get them."""
    document = comparison_document(result)
    headline, evidence = _headline(result)
    ranking = ranking_table(result)
    labels = compared_labels(result)
    colours = {one_line(variant.label): colour_of(index) for index, variant in enumerate(result.variants)}
    front = [section for section in document.sections if section.title == FRONT]
    above = [*WARNINGS, *([FRONT] if ranking is not None else [])]
    makers = (charts.samples_chart, charts.process_chart, charts.forest_chart)
    parts = [
        warnings_part(document.sections, WARNINGS),
        Part(
            id="ranking",
            title="Ranking",
            blocks=[table_block(ranking, "ranked", colours=colours), ("sections", front)] if ranking else [],
        ),
        Part(
            id="results",
            title="Before and after",
            blocks=[
                block for place, label in enumerate(labels) for block in _result_blocks(result, label, place, colours)
            ],
        ),
        Part(
            id="charts",
            title="Charts",
            blocks=ChartRenderer().blocks(
                [make(result) for make in makers], otherwise="None of these runs has samples, and no ratio is known."
            ),
        ),
        Part(
            id="basis",
            title="What it rests on",
            blocks=[("sections", [section for section in document.sections if section.title not in above])],
        ),
        Part(
            id="conditions",
            title="Conditions",
            blocks=[
                table_block(variants_table(result), "condition-0", colours=colours),
                table_block(environments_table(result), "condition-1"),
            ],
        ),
        metrics_part(
            (row.metric for row in result.comparisons),
            note="A ratio is after over before. An inconclusive row gives no verdict in either direction.",
        ),
    ]
    subjects = [
        (
            one_line(variant.label),
            f"{name}, {engine_of(variant.run)}",
            colours[one_line(variant.label)],
        )
        for variant, name in zip(result.variants, names_of([one.run for one in result.variants]), strict=True)
    ]
    return render_result_page(
        "comparison",
        headline,
        parts,
        title=document.title,
        evidence=evidence,
        subjects=subjects,
        subjects_title="Variants",
    )


def _headline(result: ComparisonResult) -> tuple[str, str]:
    """The conclusion, and the numbers that it rests on in smaller letters."""
    labels = compared_labels(result)
    if len(labels) == 1 and (result.ranking is None or len(result.ranking.places) <= 2):
        chief = chief_of(result, labels[0])
        others = [row for row in rows_of(result, labels[0]) if row is not chief]
        failed = failed_text(result)
        said = headline_text(chief) + but_text(chief, others) + (f"; {failed}" if failed else "")
        return said, evidence_text(chief)
    headline, _, evidence = title_of(result).partition("; ")
    return headline, evidence


def _result_blocks(result: ComparisonResult, label: str, place: int, colours: Mapping[str, str]) -> list[Block]:
    """One variant against the baseline: with one, a tile per metric; with several, a heading with the conclusion."""
    rows = rows_of(result, label)
    several = len(compared_labels(result)) > 1
    table = before_after_table(result, label)
    table = replace(table, title=f"Before and after: {one_line(rows[0].a)} → {one_line(label)}")
    heading = {"text": conclusion_of(result, label), "colour": colours.get(one_line(label), "var(--soft)")}
    return [
        ("heading", heading if several else None),
        ("tiles", [] if several else [_tile(result, row) for row in rows if row.ratio is not None]),
        table_block(table, f"result-{place}", sortable=True),
    ]


def _tile(result: ComparisonResult, row: Comparison) -> Tile:
    number, word = row.word, ""
    if row.verdict in ("faster", "slower"):
        number = factor_of(row) or row.word
        word = row.word if number != row.word else ""
    elif row.verdict == "same" and row.margin is not None:
        word = f"within ± {percent(row.margin)}"
    before, after = (cell.short for cell in sides_of(result, row))
    waiting = waiting_text(row) if row.verdict == "inconclusive" else ""
    return Tile(
        metric=label_of(row.metric),
        verdict=row.verdict,
        tone=TONES[row.verdict],
        number=number,
        word=word,
        change=f"{before} → {after}" + (f"; {waiting}" if waiting else ""),
        size="" if number[:1].isdigit() else "words",
        how=partial(how_ratio, row),
    )
