"""The page of any `Document`: its answer and warnings, tables, charts, sections, and folded parts."""

from __future__ import annotations

from collections.abc import Container, Iterator
from textwrap import shorten
from typing import Any

from edgewise.metrics import METRICS, Metric
from edgewise.report.document import Document, Table
from edgewise.report.graph_document import document_of
from edgewise.report.page import ChartRenderer, render_page, view_table
from edgewise.text import one_line

URGENT = ("poor", "bad")
"""Tones of sections that must be read before the tables, where they have no shorter form."""

NAV_WIDTH = 60
"""Characters of a heading in the navigation."""
WIDE_COLUMNS = 7
"""Columns from which the next one makes a table closer set."""


def render_document_page(document: Document, *, kind: str) -> str:
    """The page of `document`. Without vl-convert-python it has no charts and says how to get them.

    Args:
        kind: what it is a page of, such as ``estimate``.
    """
    drawing = ChartRenderer()
    headline, rest = _parted(one_line(document.title))
    view = _view(document, drawing, "")
    graph = document.graph() if document.graph is not None else None
    return render_page(
        "document.html.jinja",
        scripts=["report.js", *["graph.js"] * (graph is not None)],
        styles=["report.css", *["graph.css"] * (graph is not None)],
        graph=graph,
        data="" if graph is None else document_of(graph),
        kind=kind,
        title=headline,
        evidence=[*filter(None, [rest]), *document.answer],
        view=view,
        nav=[(identity, shorten(title, NAV_WIDTH, placeholder=" …")) for identity, title in _headings(view)],
        missing=drawing.missing,
        undrawn=document.charts is not tuple and drawing.missing is None,
        metrics=_metrics_in(view),
    )


def _parted(title: str) -> tuple[str, str]:
    """What stands before the first semicolon outside brackets, and the rest, in smaller letters."""
    ends = [place for place in range(len(title)) if title.startswith("; ", place)]
    end = next((place for place in ends if title.count("(", 0, place) == title.count(")", 0, place)), len(title))
    return title[:end], title[end + 2 :]


def _view(document: Document, drawing: ChartRenderer, prefix: str) -> dict[str, Any]:
    """What the template needs of `document`; `prefix` keeps the ids of its tables apart from those of other parts."""
    sections = (*document.lead, *document.sections)
    urgent = [section for section in sections if section.tone in URGENT and section.brief is None]
    parts = [(title, documents) for title, documents in document.parts() if documents]
    runs = {each.id.removeprefix("run-") for _, documents in parts for each in documents}
    tables = [
        _view_of_table(table, f"{prefix}table-{number}", headed=not prefix, runs=runs)
        for number, table in enumerate(document.tables)
        if table.rows
    ]
    return {
        "document": document,
        "prefix": prefix,
        "warnings": urgent,
        "tables": [view for view in tables if not view["table"].detail],
        "charts": drawing.draw_all(document.charts()),
        "details": [view for view in tables if view["table"].detail],
        "lead": [section for section in document.lead if section not in urgent],
        "sections": [section for section in document.sections if section not in urgent],
        "parts": [
            (title, [_view(each, drawing, f"{prefix}{place}-{number}-") for number, each in enumerate(documents)])
            for place, (title, documents) in enumerate(parts)
        ],
    }


def _view_of_table(table: Table, identity: str, *, headed: bool, runs: Container[str]) -> dict[str, Any]:
    sortable = headed and len(table.rows) > 1 and all(table.columns[index].title for index in table.visible)
    view = view_table(table, identity, sortable=sortable, headed=headed, runs=runs)
    # In folded parts the ? of a heading is pressed by its numbers: a button for each of them would double a long page.
    return view | {"wide": len(table.visible) > WIDE_COLUMNS, "long": view["long"] or not headed}


def _headings(view: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Id and text of each heading, in the order of the page."""
    yield from ((each["id"], each["table"].title or "Results") for each in view["tables"])
    if view["charts"]:
        yield "charts", "Charts"
    yield from ((each["id"], each["table"].title or "Results") for each in view["details"])
    if view["sections"]:
        yield "notes", "Conditions and notes"
    yield from ((f"part-{number}", title) for number, (title, _) in enumerate(view["parts"], 1))


def _metrics_in(view: dict[str, Any]) -> list[Metric]:
    """The metrics that tables name in a heading or at the beginning of a row."""
    views = [view, *(each for _, parts in view["parts"] for each in parts)]
    words = set()
    for table in (table for each in views for table in each["document"].tables):
        words |= {table.title.partition(":")[0], *(column.title for column in table.columns)}
        words |= {cell.text for row in table.rows for cell in row[:2]}
    words |= {word.partition(" (")[0] for word in words}
    return [metric for metric in METRICS.values() if metric.label in words]
