"""A chart as a file of its own, with the colours of the pages' light or dark scheme in place of their variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from edgewise.report.assets import asset
from edgewise.report.chart_text import Spec
from edgewise.report.charts import INK, SOFT, Chart, draw_png, draw_svg


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
    """A specification with `colours` in place of variables; its data stays as it is."""
    if isinstance(part, dict):
        return {key: value if key == "values" else with_colours(value, colours) for key, value in part.items()}
    if isinstance(part, list):
        return [with_colours(each, colours) for each in part]
    return colours.get(part[4:-1], part) if isinstance(part, str) and part.startswith("var(--") else part
