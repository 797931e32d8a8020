"""A chart as files: its data as CSV, and its drawing with the colours of the pages' light or dark scheme."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from edgewise.report.charts import INK, SOFT, Chart, draw_png, draw_svg
from edgewise.report.charts.texts import Spec
from edgewise.report.document.assets import asset
from edgewise.text import csv_text


def chart_csv(spec: Spec) -> str:
    """Return the rows that a chart draws, one after the other: those of the whole chart, then those of its layers.

    Columns are called as the axes and legends are, with their unit: ``Latency (µs)``, or ``Latency (µs): q1`` where an
    axis shows several fields. A field that no axis shows keeps its own name.
    """
    titles: dict[str, str] = {}
    found: dict[int, Sequence[dict[str, Any]]] = {}
    for part in _parts(spec):
        values = part.get("data", {}).get("values", ())
        if any(len(row) > 1 for row in values):  # a row with one value is a line that helps to read
            found.setdefault(id(values), values)  # layers share data
        for channel in part.get("encoding", {}).values():
            if isinstance(channel, dict) and isinstance(title := channel.get("title"), str) and "field" in channel:
                titles.setdefault(channel["field"], title)
    rows = list({id(row): row for values in found.values() for row in values}.values())  # some are in several layers
    fields = list(dict.fromkeys(name for row in rows for name in row))
    used = list(titles.values())
    heads = [
        f"{title}: {name}" if used.count(title) > 1 else title for name in fields for title in [titles.get(name, name)]
    ]
    return csv_text(heads, ([row.get(name) for name in fields] for row in rows))


def _parts(part: Any) -> Iterator[Spec]:
    """Yield a specification, and the layers and charts in it."""
    yield part
    for name in ("layer", "hconcat", "vconcat", "concat"):
        for each in part.get(name, ()):
            yield from _parts(each)


@cache
def scheme_colours(*, dark: bool) -> Mapping[str, str]:
    """Name of a style sheet's variable → its colour in one of the schemes."""
    # Each style sheet has the light colours before the dark ones.
    found = re.findall(r"(--[\w-]+): (#\w+);", asset("report.css"))
    return dict(found if dark else reversed(found))


def render_chart_file(chart: Chart, extension: str, *, subtitle: str, dark: bool = False) -> bytes:
    """`chart` under its title as ``.svg`` or ``.png``. Raises `Unavailable` where vl-convert is not installed."""
    title = {"text": chart.title, "subtitle": subtitle, "anchor": "start", "offset": 14, "subtitleColor": SOFT,
             "color": INK}  # fmt: skip
    spec: Spec = {**chart.spec, "background": "var(--paper)", "padding": 16, "title": title}
    spec = with_colours(spec, scheme_colours(dark=dark))
    return draw_png(spec, scale=2) if extension.lower() == ".png" else draw_svg(spec).encode()


def with_colours(part: Any, colours: Mapping[str, str]) -> Any:
    """Return a specification with `colours` in place of variables; its data stays as it is."""
    if isinstance(part, dict):
        return {key: value if key == "values" else with_colours(value, colours) for key, value in part.items()}
    if isinstance(part, list):
        return [with_colours(each, colours) for each in part]
    return colours.get(part[4:-1], part) if isinstance(part, str) and part.startswith("var(--") else part
