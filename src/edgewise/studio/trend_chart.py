"""The chart of a trend, made by the process that draws (`edgewise.studio.draw`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.report.charts import (
    ARROW,
    SOFT,
    WIDE,
    Chart,
    arrows_beyond,
    colour_channel,
    colour_of,
    number_axis,
    rounded,
    wide_chart,
)
from edgewise.report.charts.files import render_chart_file
from edgewise.report.charts.texts import Spec, legend_below
from edgewise.report.document.names import shorten
from edgewise.report.document.page import ChartRenderer, as_part, environment
from edgewise.store import Store
from edgewise.studio.trend import ModelTrend, find_trend

DAYS = 10
"""Length of a trend from which its axis shows dates without times."""


def render_trend(store: Store, extension: str, *, query: Mapping[str, str], dark: bool, version: str) -> str | bytes:
    """Return the chart of the trend that `query` names: for ``.svg`` a file, otherwise a figure of a page.

    Args:
        dark: whether a file has the colours of the dark scheme.
        version: changes with the runs, so that the server keeps no drawing of others.

    The trend has at least one run. Raises `Unavailable` for a file without vl-convert.
    """
    del version
    found = find_trend(store, query)
    chart = trend_chart(found)
    if extension == ".svg":
        under = [shorten(found.model, 60), *(shorten(wanted, 60) for _, wanted, _ in found.choices)]
        return render_chart_file(chart, extension, subtitle=" · ".join(under), dark=dark)
    drawing = ChartRenderer()
    with as_part():
        drawn = drawing.draw(chart)
    parts: Any = environment().get_template("parts.html.jinja").module
    return str(parts.render_chart(drawn, 2) if drawn else parts.no_charts(drawing.missing))


def trend_chart(found: ModelTrend) -> Chart:
    """Values of a trend as a line for each basis, over the band of their 95 % intervals, and marks where it changed."""
    rows = [
        {"made": point["row"].created_at, "basis": point["row"].basis or "", "mark": point["mark"]}
        | {name: rounded(one) if isinstance(one, float) else one for name, one in point["numbers"].items()}
        for point in found.points
    ]
    bases = list(dict.fromkeys(row["basis"] for row in rows))
    colours = {basis: colour_of(index) for index, basis in enumerate(bases)}
    y = number_axis("v", found.label, ticks=6, domain=list(found.ends), nice=False)
    dates = found.points[-1]["t"] - found.points[0]["t"] > DAYS * 86_400
    x: Spec = {
        "field": "made", "type": "temporal", "title": "Made (UTC)", "scale": {"type": "utc"},
        "axis": {"format": "%Y-%m-%d" if dates else "%m-%d %H:%M", "tickCount": 7, "labelOverlap": True},
    }  # fmt: skip
    legend = legend_below(bases, width=WIDE) if len(bases) > 1 else None
    colour = colour_channel("basis", colours, legend=legend)
    scale = {"domain": bases, "range": [[1, 0] if basis == "measured" else [6, 5] for basis in bases]}
    dash: Spec = {"field": "basis", "type": "nominal", "scale": scale, "legend": None}
    hollow = {basis: colours[basis] if basis == "measured" else "var(--paper)" for basis in bases}
    layers: list[Spec] = [
        {"mark": {"type": "area", "opacity": 0.18},
         "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high", "title": found.label},
                      "color": colour}},
        *(_rules(x, kind, **mark) for kind, mark in (("break", {"color": SOFT, "strokeDash": [4, 4]}),
                                                     ("change", {"color": "var(--bad)"}))),
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash}},
        {"mark": {"type": "point", "size": 36, "strokeWidth": 2, "opacity": 1},
         "encoding": {"x": x, "y": y, "color": colour, "fill": colour_channel("basis", hollow)}},
        *arrows_beyond({"x": x, "y": y}, rows, along="y"),
    ]  # fmt: skip
    ends_of_time = [f"{point['value']} ({point['interval']})" for point in (found.points[0], found.points[-1])]
    changes = [f"{point['row'].created_at[:10]}: {note}" for point in found.points for note in point["notes"]]
    return wide_chart(
        f"{found.label} over time",
        layers,
        height=300,
        rows=rows,
        description="; ".join([f"{len(rows)} runs, the first {ends_of_time[0]}, the last {ends_of_time[1]}", *changes]),
        caption="The band is the 95 % interval. Dashed: another machine, runtime version or model file, which breaks "
        "comparability. Red: the level changed. Times are UTC."
        + (f" {ARROW}" if any("beyond" in row for row in rows) else ""),
    )


def _rules(x: Spec, kind: str, **mark: object) -> Spec:
    """Vertical lines at the runs whose mark is `kind`."""
    transform = [{"filter": {"field": "mark", "equal": kind}}]
    return {"transform": transform, "mark": {"type": "rule", **mark}, "encoding": {"x": x}}
