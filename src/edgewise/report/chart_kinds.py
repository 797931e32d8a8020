"""The kinds of charts: intervals, scatters, series and bars, each made of rows of data and the channels they are on.

A row has the fields of its channels. ``low`` and ``high`` are the ends of its interval along x; a row without
them is drawn without one. The fifth kind is the `Matrix` of `report.charts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from edgewise.report.chart_text import Spec
from edgewise.report.charts import INK, PAPER, RULE, SOFT, Chart, colour_of, interval_lines, layered_spec, wide_chart

DASHED: Spec = {"type": "line", "color": SOFT, "strokeDash": [5, 4]}
"""The mark of a line that helps to read."""


def layer(mark: str | Spec, channels: Spec, rows: Sequence[Spec] | None = None, **settings: Any) -> Spec:
    """One layer: `mark` with its `settings`, for `rows` or those of the whole chart."""
    kind = mark if isinstance(mark, dict) else {"type": mark}
    data = {} if rows is None else {"data": {"values": list(rows)}}
    return data | {"mark": kind | settings, "encoding": channels}


def lines_at(channels: Spec, values: Iterable[float], **mark: Any) -> Spec:
    """Lines across the chart at `values` of the one channel of `channels`."""
    ((name, channel),) = channels.items()
    settings = {"color": INK, "strokeDash": [4, 3]} | mark
    return layer("rule", {name: channel}, [{channel["field"]: value} for value in values], **settings)


def legible(channels: Spec, rows: Sequence[Spec] | None = None, **mark: Any) -> list[Spec]:
    """Texts on a ground that keeps them legible above other marks."""
    plain = {name: channel for name, channel in channels.items() if name != "color"}
    halo = {key: value for key, value in mark.items() if key != "color"}
    return [layer("text", plain, rows, **halo, stroke=PAPER, strokeWidth=4), layer("text", channels, rows, **mark)]


def intervals_chart(
    title: str,
    rows: Sequence[Spec],
    *,
    x: Spec,
    y: Spec,
    colour: Spec | None = None,
    at: Spec | None = None,
    words: str = "",
    step: int = 40,
    description: str,
    caption: str,
) -> Chart:
    """A point with its interval in a row for each name.

    Args:
        colour: the channel of colours; None for one colour.
        at: a layer of `lines_at` behind the points.
        words: field of a text above each point.
        step: pixels from one row to the next.

    Rows that have the fields ``from`` and ``to`` have a band between them.
    """
    channels = {"x": x, "y": y} | ({"color": colour} if colour else {})
    paint: Spec = {} if colour else {"color": colour_of(0)}
    layers: list[Spec] = []
    if any("from" in row for row in rows):
        ends = {"y": y, "x": {**x, "field": "from"}, "x2": {"field": "to"}}
        layers.append({"transform": [{"filter": "isValid(datum.from)"}]} | layer("bar", ends, height=26, color=RULE))
    layers += [at] if at else []
    layers += [interval_lines(channels, **paint), layer("point", channels, filled=True, size=90, opacity=1, **paint)]
    if words:
        layers += legible({**channels, "text": {"field": words, "type": "nominal"}}, dy=-14, fontSize=11)
    return _chart(title, layers, rows, height={"step": step}, wide=True, words=(description, caption))


def scatter_chart(
    title: str,
    rows: Sequence[Spec],
    *,
    x: Spec,
    y: Spec,
    colour: Spec | None = None,
    size: Spec | None = None,
    lines: Sequence[Spec] = (),
    intervals: Sequence[tuple[str, str, str]] = (("x", "low", "high"),),
    above: Sequence[Spec] = (),
    height: int = 280,
    wide: bool = False,
    description: str,
    caption: str,
) -> Chart:
    """Points on two axes, with their intervals, over lines such as a front, a law or a diagonal.

    Args:
        size: the channel of sizes.
        lines: layers behind the points.
        intervals: axis and the fields of both ends of the intervals that run along it.
        above: layers above the points, such as names.
        wide: whether it wants the width of the page.
    """
    channels = {"x": x, "y": y} | ({"color": colour} if colour else {})
    faint: Spec = {"strokeWidth": 1.5, "opacity": 0.7}
    paint: Spec = {} if colour else {"color": colour_of(0)}
    layers = [
        *lines,
        *(interval_lines(channels, along=along, low=low, high=high, **faint) for along, low, high in intervals),
        layer("point", {**channels, "size": size or {"value": 80}}, filled=True, opacity=0.9, **paint),
        *above,
    ]
    return _chart(title, layers, rows, height=height, wide=wide, words=(description, caption))


def bars_chart(
    title: str,
    rows: Sequence[Spec],
    *,
    x: Spec,
    y: Spec,
    colour: Spec,
    text_at: str = "",
    base: str = "",
    thick: int = 15,
    step: int = 22,
    wide: bool = True,
    description: str,
    caption: str,
    mark: Spec | None = None,
) -> Chart:
    """A bar with its interval in a row for each name.

    Args:
        text_at: field of the place after which the ``text`` of a row stands.
        base: field of a part at the beginning of the bar that is drawn pale.
        thick: pixels of a bar.
        mark: the channel of what a bar stands for, which leads from it to a row of a page.
    """
    said = {"description": mark} if mark else {}
    layers = [layer("bar", {"y": y, "x": x, "color": colour, **said}, height=thick, cornerRadiusEnd=3)]
    if base:
        pale = layer("bar", {"y": y, "x": {**x, "field": base}}, height=thick, color=PAPER, opacity=0.55)
        layers.append({"transform": [{"filter": f"isValid(datum.{base})"}]} | pale)
    if any("low" in row for row in rows):
        layers.append(interval_lines({"x": x, "y": y}, color=INK, strokeWidth=1.5))
    if text_at:
        told = {"y": y, "x": {**x, "field": text_at}, "text": {"field": "text", "type": "nominal"}}
        layers.append(layer("text", told, align="left", dx=8, color=SOFT))
    return _chart(title, layers, rows, height={"step": step}, wide=wide, words=(description, caption))


def series_chart(
    title: str,
    rows: Sequence[Spec],
    *,
    x: Spec,
    y: Spec,
    colour: Spec | None = None,
    line: Spec | None = None,
    point: Spec | None = None,
    behind: Sequence[Spec] = (),
    above: Sequence[Spec] = (),
    height: int = 180,
    wide: bool = True,
    description: str,
    caption: str,
) -> Chart:
    """Values in an order, such as that of time: a line, points or both for each colour.

    Args:
        line, point: settings of their marks; None for none of them.
        behind, above: layers behind and above them, such as lines at events.
    """
    channels = {"x": x, "y": y} | ({"color": colour} if colour else {})
    layers = [*behind]
    layers += [] if line is None else [layer("line", channels, **line)]
    layers += [] if point is None else [layer("circle", channels, **point)]
    return _chart(title, [*layers, *above], rows, height=height, wide=wide, words=(description, caption))


def _chart(
    title: str, layers: Sequence[Spec], rows: Sequence[Spec], *, height: int | Spec, wide: bool, words: tuple[str, str]
) -> Chart:
    description, caption = words
    if wide:
        return wide_chart(title, layers, height=height, rows=rows, description=description, caption=caption)
    spec = {**layered_spec(layers, height=height), "data": {"values": list(rows)}}
    return Chart(title=title, description=description, caption=caption, spec=spec)
