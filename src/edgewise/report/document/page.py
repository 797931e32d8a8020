"""The page of any `Document`: its frame, answer and warnings, tables, charts, sections, and folded parts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from edgewise.errors import Unavailable
from edgewise.metrics import METRICS, Metric
from edgewise.report.charts import Chart, render_svg
from edgewise.report.charts.files import chart_csv
from edgewise.report.document import Document, Provenance, Table, number_notes
from edgewise.report.document.assets import asset, script_of
from edgewise.report.graph.columns import document_of
from edgewise.text import one_line, without_controls
from edgewise.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_PRESSED = 300
"""Rows of a table with a button for each number; in a longer one the script presses the `?` of the heading instead."""


class ChartRenderer:
    """Renders charts until it turns out that vl-convert is missing.

    Attributes:
        missing: why no chart can be rendered, once that is known.
    """

    def __init__(self) -> None:
        self.missing: Unavailable | None = None
        self._count = 0

    def draw(self, chart: Any) -> Any:
        """Return `chart` rendered as SVG for the template; None where there is no chart or no means to render it."""
        if not isinstance(chart, Chart):
            return chart  # nothing, or drawn already
        if self.missing is not None:
            return None
        try:
            svg = render_svg(chart.spec)
        except Unavailable as error:
            self.missing = error
            return None
        # Each SVG numbers its clip paths from 1; on one page their names must differ.
        self._count += 1
        svg = svg.replace('id="clip', f'id="c{self._count}-').replace("url(#clip", f"url(#c{self._count}-")
        return {
            "title": chart.title,
            "description": chart.description,
            "caption": chart.caption,
            "wide": chart.wide,
            "rows": chart.rows,
            "svg": svg,
            "data": chart_csv(chart.spec) if is_part() else "",
        }


class Popovers:
    """What the numbers of a page open: how each of them is known, once however many tables show it."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], tuple[str, partial[Provenance]]] = {}

    def add(self, how: partial[Provenance]) -> str:
        """Return the id of the element that tells `how`; the template makes these elements of `shown`."""
        # The values live as long as `how` does, so that their addresses are theirs alone.
        key = (id(how.func), *map(id, how.args))
        return self._found.setdefault(key, (f"how-{len(self._found) + 1}", how))[0]

    def shown(self) -> list[tuple[str, Provenance]]:
        """Id and content of each element."""
        return [(identity, how()) for identity, how in self._found.values()]


_PART = "part.html.jinja"
_FRAME = ContextVar("edgewise_report_frame", default="base.html.jinja")


@contextmanager
def as_part() -> Iterator[None]:
    """Inside, a page is what stands between header and footer, for a page that has its own frame."""
    before = _FRAME.set(_PART)
    try:
        yield
    finally:
        _FRAME.reset(before)


def is_part() -> bool:
    """Whether what is rendered becomes a part of a larger page, which offers the data of its charts, too."""
    return _FRAME.get() == _PART


@cache
def environment() -> Environment:
    """Templates that escape what they print, as one line (`|e` keeps lines); an undefined name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("edgewise.report"),
        autoescape=True,
        finalize=lambda value: one_line(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


URGENT = ("poor", "bad")
"""Tones of sections that must be read before the tables, where they have no shorter form."""

NAV_WIDTH = 60
"""Characters of a heading in the navigation."""
WIDE_COLUMNS = 7
"""Columns from which the next one makes a table closer set."""


def render_document_page(document: Document, *, kind: str) -> str:
    """Return the page of `document`, with its scripts and styles in it; its policy allows just these scripts, by hash.

    Args:
        kind: what it is a page of, such as ``estimate``.

    Without vl-convert-python it has no charts and says how to get them.
    """
    drawing = ChartRenderer()
    headline, rest = _parted(one_line(document.title))
    view = _view(document, drawing, "")
    graph = document.graph() if document.graph is not None else None
    drawn = ["graph"] if graph is not None else []
    script = "\n".join(script_of(f"{name}.js") for name in ("report", *drawn))
    page = environment().get_template("document.html.jinja")
    text = page.render(
        frame=_FRAME.get(),
        popovers=Popovers(),
        version=__version__,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style="\n".join(asset(f"{name}.css") for name in ("report", *drawn)),
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
    return without_controls(text)


def _parted(title: str) -> tuple[str, str]:
    """Return what stands before the first semicolon outside brackets, and the rest, in smaller letters."""
    ends = [place for place in range(len(title)) if title.startswith("; ", place)]
    end = next((place for place in ends if title.count("(", 0, place) == title.count(")", 0, place)), len(title))
    return title[:end], title[end + 2 :]


def _view(document: Document, drawing: ChartRenderer, prefix: str) -> dict[str, Any]:
    """Return what the template needs of `document`; `prefix` keeps ids of tables apart from those of other parts."""
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
        "charts": [drawn for chart in document.charts() if (drawn := drawing.draw(chart)) is not None],
        "details": [view for view in tables if view["table"].detail],
        "lead": [section for section in document.lead if section not in urgent],
        "sections": [section for section in document.sections if section not in urgent],
        "parts": [
            (title, [_view(each, drawing, f"{prefix}{place}-{number}-") for number, each in enumerate(documents)])
            for place, (title, documents) in enumerate(parts)
        ],
    }


def _view_of_table(table: Table, identity: str, *, headed: bool, runs: Container[str]) -> dict[str, Any]:
    """Return what the template needs of a table.

    Args:
        identity: the id of its element.
        headed: whether a heading above it shows its title, so that its caption is for screen readers only.
        runs: ids of the runs that have an entry on the page, which rows with the id link to.
    """
    named = next((index for index, column in enumerate(table.columns) if column.title == "Run"), None)
    keys = [None if named is None else row[named].text for row in table.rows]
    shown = _answer_first(table)
    return {
        "id": identity,
        "table": table,
        "columns": shown,
        "notes": number_notes([table], columns=shown),
        "sortable": headed and len(table.rows) > 1 and all(table.columns[index].title for index in table.visible),
        # In folded parts the ? of a heading is pressed by its numbers: a button for each of them would double a page.
        "long": not headed or len(table.rows) > MOST_PRESSED,
        "headed": headed,
        "wide": len(table.visible) > WIDE_COLUMNS,
        "runs": [key if key in runs else None for key in keys],
    }


def _answer_first(table: Table) -> list[int]:
    """Return the positions of the visible columns; what decides stands behind the names, where no screen cuts it."""
    shown = list(table.visible)
    name = next((place for place, index in enumerate(shown) if not table.columns[index].numeric), 0)
    return [*shown[: name + 1], *sorted(shown[name + 1 :], key=lambda index: not table.columns[index].decides)]


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
    """Return the metrics that tables name in a heading or at the beginning of a row."""
    views = [view, *(each for _, parts in view["parts"] for each in parts)]
    words = set()
    for table in (table for each in views for table in each["document"].tables):
        words |= {table.title.partition(":")[0], *(column.title for column in table.columns)}
        words |= {cell.text for row in table.rows for cell in row[:2]}
    words |= {word.partition(" (")[0] for word in words}
    return [metric for metric in METRICS.values() if metric.label in words]
