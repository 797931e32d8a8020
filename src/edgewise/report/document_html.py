"""The page of any `Document`: its warnings, each of its tables, and its sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import shorten

from edgewise.report.document import Document, Section, Table, in_prose
from edgewise.report.graph_document import document_of
from edgewise.report.page import Block, Part, render_result_page, view_table
from edgewise.text import one_line

URGENT = ("poor", "bad")
"""Tones of sections that must be read before the tables."""

NAV_WIDTH = 34
"""Characters of a section's title in the navigation."""


def render_document_page(document: Document, *, kind: str) -> str:
    """The page of `document`: answer, sections with a warning, graph, tables, other sections.

    Args:
        kind: what it is a page of, such as ``estimate``.
    """
    return render_result_page(
        kind,
        one_line(document.title),
        [
            *urgent_parts((*document.lead, *document.sections)),
            *graph_parts(document),
            *table_parts(document.tables),
            *section_parts((*document.lead, *document.sections)),
        ],
        evidence=in_prose(document.answer),
    )


def urgent_parts(sections: Iterable[Section]) -> list[Part]:
    """One part with the sections that must be read before the tables; empty where there is none."""
    found = [section for section in sections if section.tone in URGENT]
    return [Part(id="warnings", title="Warnings", blocks=[("sections", found)])] if found else []


def graph_parts(document: Document) -> list[Part]:
    """One part with the graph; empty where there is none."""
    if document.graph is None:
        return []
    graph = document.graph()
    blocks: list[Block] = [("graph", {"graph": graph, "data": document_of(graph)})]
    return [Part(id="graph", title="On the graph", nav="Graph", blocks=blocks)]


def table_parts(tables: Iterable[Table]) -> list[Part]:
    """A part for each table that has rows, with the table's title as heading."""
    return [
        Part(
            id=f"part-table-{number}",
            title=table.title or "Results",
            blocks=[_table_block(table, f"table-{number}")],
        )
        for number, table in enumerate(tables)
        if table.rows
    ]


def _table_block(table: Table, identity: str) -> Block:
    sortable = len(table.rows) > 1 and all(table.columns[index].title for index in table.visible)
    kind = "wide table" if len(table.visible) > 7 else "table"
    return kind, view_table(table, identity, sortable=sortable, headed=True)


def section_parts(sections: Sequence[Section]) -> list[Part]:
    """A part for each section without a warning."""
    calm = [section for section in sections if section.tone not in URGENT]
    return [
        Part(
            id=f"part-section-{number}",
            title=section.title,
            nav=shorten(section.title, NAV_WIDTH, placeholder=" …"),
            blocks=_blocks(section),
        )
        for number, section in enumerate(calm)
    ]


def _blocks(section: Section) -> list[Block]:
    return [("command", "\n".join(section.drawing)), ("statements", section.lines)]
