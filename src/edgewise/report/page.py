"""What all pages share: the frame, parts made of blocks, tables and charts for the templates."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from edgewise.errors import Unavailable
from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.report.assets import asset, script_of
from edgewise.report.chart_data import chart_csv
from edgewise.report.charts import Chart, render_svg
from edgewise.report.document import Provenance, Section, Table, number_notes
from edgewise.text import one_line, without_controls
from edgewise.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment


Block = tuple[str, Any]
"""(kind, content) of something on a page; ``result.html.jinja`` lists the kinds. Empty blocks are left out."""

MOST_PRESSED = 300
"""Rows of a table with a button for each number; in a longer one the script presses the `?` of the heading instead."""
NO_VALUE = "n/a is a value that is not known, with the reason beside it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The change in one metric in large letters.

    Attributes:
        verdict: a verdict of a comparison, which the border's colour shows.
        number, word: such as ``2.43×`` and ``faster``.
        change: both values; `interval` stands above it.
        size: ``words`` where `number` is text rather than a number.
        how: works out how the number is known.
    """

    metric: str
    verdict: str
    tone: str
    number: str
    word: str
    change: str
    interval: str = ""
    size: str = ""
    how: partial[Provenance] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a page of results.

    Attributes:
        id: of its heading, which the navigation leads to.
        nav: what the navigation calls it; empty for `title`.
        blocks: what it shows, in order; a part whose blocks are all empty is left out.
    """

    id: str
    title: str
    blocks: Sequence[Block]
    nav: str = ""


def render_result_page(
    kind: str,
    headline: str,
    parts: Sequence[Part],
    *,
    title: str = "",
    tone: str = "",
    evidence: str = "",
    subjects: Sequence[tuple[str, str, str]] = (),
    subjects_title: str = "",
) -> str:
    """The page of a comparison, a gate, an evaluation or an optimization.

    Args:
        kind: what it is a page of, such as ``comparison``.
        title: of the window; empty for the headline.
        evidence: the numbers that the headline rests on.
        subjects: (label, what it is, colour) of each model or variant that the page is about.
    """
    draws = any(block == "graph" for part in parts for block, _ in part.blocks)
    return render_page(
        "result.html.jinja",
        scripts=["report.js", *["graph.js"] * draws],
        styles=["report.css", "result.css", *["graph.css"] * draws],
        kind=kind,
        title=one_line(title or headline),
        headline=headline,
        tone=tone,
        evidence=evidence,
        subjects=subjects,
        subjects_title=subjects_title,
        parts=[part for part in parts if any(content for _, content in part.blocks)],
    )


def warnings_part(sections: Iterable[Section], titles: Sequence[str]) -> Part:
    """Those of `sections` that must be read before the numbers, by their `titles`."""
    return Part(
        id="warnings", title="Warnings", blocks=[("sections", [each for each in sections if each.title in titles])]
    )


def metrics_part(names: Iterable[str], *, note: str = "") -> Part:
    """The definitions of metrics, each once, and `note` before the words on what is not known."""
    metrics = [METRICS[name] for name in dict.fromkeys(names) if name in METRICS]
    blocks = [("metrics", metrics), ("small", f"{note} {NO_VALUE}".strip())] if metrics else []
    return Part(id="metrics", title="What the metrics mean", nav="Metrics", blocks=blocks)


class ChartRenderer:
    """Renders charts until it turns out that vl-convert is missing.

    Attributes:
        missing: why no chart can be rendered, once that is known.
    """

    def __init__(self) -> None:
        self.missing: Unavailable | None = None
        self._count = 0

    def draw(self, chart: Chart | None) -> dict[str, Any] | None:
        """What the template needs of `chart`; None where there is no chart or no means to render it."""
        if chart is None or self.missing is not None:
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
            "svg": svg,
            "data": chart_csv(chart.spec) if is_part() else "",
        }

    def draw_all(self, charts: Iterable[Chart | None]) -> list[dict[str, Any]]:
        """As `draw`, without what can't be rendered."""
        return [drawn for chart in charts if (drawn := self.draw(chart)) is not None]

    def blocks(self, charts: Iterable[Chart | None], *, otherwise: str = "") -> list[Block]:
        """The charts as blocks of a part; how to get them where vl-convert is missing, `otherwise` where none is."""
        drawn = self.draw_all(charts)
        return [("no charts", self.missing), ("charts", drawn), ("text", "" if drawn or self.missing else otherwise)]


class Popovers:
    """What the numbers of a page open: how each of them is known, once however many tables show it."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], tuple[str, partial[Provenance]]] = {}

    def add(self, how: partial[Provenance]) -> str:
        """The id of the element that tells `how`; the template makes these elements of `shown`."""
        # The values live as long as `how` does, so that their addresses are theirs alone.
        key = (id(how.func), *map(id, how.args))
        return self._found.setdefault(key, (f"how-{len(self._found) + 1}", how))[0]

    def shown(self) -> list[tuple[str, Provenance]]:
        """Id and content of each element."""
        return [(identity, how()) for identity, how in self._found.values()]


def render_page(template: str, *, scripts: Sequence[str], styles: Sequence[str], **told: Any) -> str:
    """The page that `template` makes of `told`, with its scripts and style sheets in it.

    Args:
        scripts, styles: names of assets, in order; the page's policy allows just these scripts, by their hash.
    """
    script = "\n".join(map(script_of, scripts))
    frame = _FRAME.get()
    page = (
        environment()
        .get_template(template)
        .render(
            frame=frame,
            popovers=Popovers(),
            version=__version__,
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style="\n".join(map(asset, styles)),
            **told,
        )
    )
    return without_controls(page)


_PART = "part.html.jinja"
_FRAME = ContextVar("edgewise_report_frame", default="base.html.jinja")


@contextmanager
def as_part() -> Iterator[None]:
    """Inside, `render_page` gives what stands between header and footer, for a page that has its own frame."""
    before = _FRAME.set(_PART)
    try:
        yield
    finally:
        _FRAME.reset(before)


def is_part() -> bool:
    """Whether what is rendered becomes a part of a larger page, which offers the data of its charts, too."""
    return _FRAME.get() == _PART


def view_table(
    table: Table,
    identity: str,
    *,
    sortable: bool = False,
    headed: bool = False,
    colours: Mapping[str, str] | None = None,
    colour_by: str = "Variant",
    runs: Container[str] = (),
) -> dict[str, Any]:
    """What the template needs of a table.

    Args:
        identity: the id of its element.
        headed: whether a heading above it shows its title, so that its caption is for screen readers only.
        colours: text in the column titled `colour_by` → colour of the row.
        runs: ids of the runs that have an entry on the page, which their rows link to.
    """
    named = next((index for index, column in enumerate(table.columns) if column.title == colour_by), None)
    keys = [None if named is None else row[named].text for row in table.rows]
    return {
        "id": identity,
        "table": table,
        "columns": table.visible,
        "notes": number_notes([table]),
        "sortable": sortable,
        "long": len(table.rows) > MOST_PRESSED,
        "headed": headed,
        "colours": [(colours or {}).get(key or "") for key in keys],
        "runs": [key if key in runs else None for key in keys],
    }


def table_block(table: Table | None, identity: str, *, sortable: bool = False, **settings: Any) -> Block:
    """`table` as a block; empty where it is None."""
    return "table", None if table is None else view_table(table, identity, sortable=sortable, **settings)


@cache
def environment() -> Environment:
    """Templates that escape what they print, as one line (`|e` keeps lines); an undefined name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("edgewise.report"),
        autoescape=True,
        finalize=lambda value: one_line(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["seconds"] = partial(quantity, unit="s")
    return found
