"""Charts as data: Vega-Lite specifications, their channels, the five kinds, and the function that turns them into SVG.

Colours are CSS variables of the page, so that a chart follows the reader's light or dark scheme. Nothing is drawn that
the runs don't hold; what is left out of a drawing (far outliers, every k-th sample) is said in its caption.

The kinds are intervals, scatters, series and bars, each made of rows of data and the channels they are on, and the
`Matrix`. A row has the fields of its channels. ``low`` and ``high`` are the ends of its interval along x; a row without
them is drawn without one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgewise.errors import Unavailable
from edgewise.report.charts.texts import FONT, FONT_SIZE, Spec, fit_texts, row_axis
from edgewise.text import without_controls

SERIES_COLOURS = 8
MOST_TICKS = 8
SHORT_AXIS = 1.5
"""Ratio of its ends below which a logarithmic axis has ticks at equal steps."""
WIDE, NARROW = 860, 400
INK, SOFT, RULE, PAPER = "var(--ink)", "var(--soft)", "var(--rule)", "var(--paper)"
KEEP_APART = "\u2003"
"""An em space, which no name has: what follows it keeps rows of one name apart, and the axis does not show it."""
_NEEDLESS = re.compile(
    r' (?:aria-label|aria-roledescription|aria-hidden|role|pointer-events)="[^"]*"| (?:opacity|stroke-width)="1"'
    r'|<path class="foreground"[^>]*/>|<path class="background"[^>]* d="M0,0h0v0h0Z"[^>]*/>'
)
_LAYER = re.compile(r' aria-label="layer (\d+)"')
_GEOMETRY = re.compile(r' (?:transform|d|x2|y2|width|height)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d)\d+")
_PLACE = re.compile(r"translate\(([^,]*),([^)]*)\)")
_DOTS = re.compile(
    r'<path transform="[^"]*" d="M([\d.]+),0A[^"]*" (fill="[^"]*" stroke-width="[^"]*") opacity="([^"]*)"/>'
    r'(?:<path transform="[^"]*" d="M\1,0A[^"]*" \2 opacity="\3"/>)+'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart.

    Attributes:
        description: the same facts in words, for those who don't see it.
        caption: how to read it and what was left out.
        wide: whether it wants the width of the page.
        rows: what the ids of rows begin with that its marks stand for; they end with the number of the layer.
    """

    title: str
    description: str
    caption: str
    spec: Spec
    wide: bool = False
    rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Counts of answers (columns) to labels (rows): the diagonal is right.

    Attributes:
        title: what it is of.
        names: of the classes.
    """

    title: str
    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


_UNUSED = ' xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1"'
"""What every drawing declares and none uses."""


def render_svg(spec: Spec) -> str:
    """`spec` as an SVG element for a page; marks that stand for a layer have ``data-layer``.

    Raises `Unavailable` where vl-convert-python is not installed.
    """
    svg = _LAYER.sub(r' data-layer="\1"', draw_svg(spec))
    # `Chart.description` replaces the words on every mark; less than a tenth of a pixel is not visible.
    svg = _GEOMETRY.sub(lambda match: _DECIMALS.sub(r"\1", match[0]), _NEEDLESS.sub("", svg))
    svg = _DOTS.sub(_together, svg).replace(f' font-family="{FONT}"', "").replace(_UNUSED, "")
    return svg.replace("<svg ", f'<svg aria-hidden="true" focusable="false" font-family="{FONT}" ', 1)


def draw_svg(spec: Spec) -> str:
    """`spec` as an SVG file. Raises `Unavailable` where vl-convert-python is not installed."""
    # Without a base address nothing can be fetched: the specifications hold all their data.
    return fit_texts(str(_vl_convert().vegalite_to_svg(_clean(spec), allowed_base_urls=[])))


def draw_png(spec: Spec, *, scale: float) -> bytes:
    """`spec` as a PNG file. Raises `Unavailable` where vl-convert-python is not installed."""
    return bytes(_vl_convert().vegalite_to_png(_clean(spec), scale=scale, allowed_base_urls=[]))


def _vl_convert() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise Unavailable(
            "charts need the package vl-convert-python", advice="pip install 'edgewise[charts]'"
        ) from error
    return vl_convert


def _clean(part: Any) -> Any:
    """Return a specification without control characters, on which vl-convert aborts the process."""
    if isinstance(part, dict):
        return {key: _clean(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_clean(each) for each in part]
    return without_controls(part) if isinstance(part, str) else part


def _together(dots: re.Match[str]) -> str:
    """Dots of one size and colour as circles that share their attributes: a quarter of the bytes."""
    radius, paint, opacity = dots.groups()
    circles = "".join(f'<circle cx="{x}" cy="{y}" r="{radius}"/>' for x, y in _PLACE.findall(dots[0]))
    return f'<g {paint} fill-opacity="{opacity}">{circles}</g>'


def colour_of(index: int) -> str:
    """Return the CSS variable of the `index`-th run."""
    return f"var(--series-{index % SERIES_COLOURS + 1})"


def rounded(value: float, digits: int = 6) -> float:
    """`value` rounded to the digits that a drawing can show, which keeps specifications short."""
    return float(f"{value:.{digits}g}")


def number_axis(field: str, title: str | None, *, ticks: int | None = None, **scale: Any) -> Spec:
    """Return the channel of a number; `scale` as Vega-Lite has it."""
    channel: Spec = {"field": field, "type": "quantitative", "title": title}
    return channel | ({"scale": scale} if scale else {}) | ({"axis": {"tickCount": ticks}} if ticks else {})


def logarithmic_axis(field: str, title: str, lower: float, upper: float) -> Spec:
    """Return the logarithmic channel of a number from `lower` to `upper`, with round numbers at its ticks."""
    channel = number_axis(field, title, type="log", domain=[rounded(lower), rounded(upper)], nice=False)
    return channel | {"axis": {"values": _round_numbers(lower, upper), "format": "~g"}}


def _round_numbers(lower: float, upper: float) -> list[float]:
    """Round numbers of an axis: in equal steps on a short one, fewer for each power of ten on a long one."""
    if upper < SHORT_AXIS * lower:
        power = 10.0 ** math.floor(math.log10(upper - lower))
        step = next(part * power for part in (0.1, 0.2, 0.5, 1.0) if (upper - lower) / (part * power) <= 2 * MOST_TICKS)
        found = [rounded(step * at) for at in range(math.ceil(lower / step), math.floor(upper / step) + 1)]
    else:
        powers = range(math.floor(math.log10(lower)), math.ceil(math.log10(upper)) + 1)
        heads = (
            (1, 1.2, 1.5, 2, 3, 5, 8) if upper < 10 * lower else (1, 2, 5) if len(powers) <= MOST_TICKS // 2 else (1,)
        )
        every = -(-len(powers) // MOST_TICKS)
        found = [float(f"{head}e{power}") for power in powers if power % every == 0 for head in heads]
    return [value for value in found if lower <= value <= upper]


def name_axis(field: str, keys: Sequence[str], *, limit: int) -> Spec:
    """Return the channel of rows with names, in the order of `keys`; labels end at `limit` pixels."""
    return {"field": field, "type": "nominal", "title": None, "sort": list(keys), "axis": row_axis(keys, limit=limit)}


def colour_channel(field: str, colours: Mapping[str, str], *, legend: Spec | None = None) -> Spec:
    """Return the channel of colours by name."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend}


def interval_lines(channels: Spec, *, along: str = "x", low: str = "low", high: str = "high", **mark: Any) -> Spec:
    """Return the layer of 95 % intervals: lines from `low` to `high` along x or y, for each row that has them."""
    ends = {along: {**channels[along], "field": low}, f"{along}2": {"field": high}}
    return {
        "transform": [{"filter": f"isValid(datum.{low})"}],
        "mark": {"type": "rule", "strokeWidth": 3, **mark},
        "encoding": {**channels, **ends},
    }


def cut_interval(row: Spec, lower: float, upper: float, words: str = "") -> Spec:
    """`row` with its interval cut at the ends of an axis, and where it goes beyond them with `words` for it."""
    low, high = row.get("low"), row.get("high")
    if low is None or high is None or (lower <= low and high <= upper):
        return row
    beyond = {"first": lower} if low < lower else {}
    beyond |= {"last": upper} if high > upper else {}
    return row | {"low": max(low, lower), "high": min(high, upper), **beyond, "beyond": words}


ARROW = "An arrow marks an interval of grade D that goes on beyond the axis."
"""Explains `arrows_beyond`."""


def arrows_beyond(channels: Spec, rows: Sequence[Spec], *, along: str = "x") -> list[Spec]:
    """Arrows at the ends of intervals that `cut_interval` cut, with their words; nothing where it cut none."""
    layers, turned = [], 90 if along == "y" else 0
    for end, angle, align, shift in (("first", -90, "left", 10), ("last", 90, "right", -10)):
        if those := [row for row in rows if end in row]:
            place = {**channels, along: {**channels[along], "field": end}}
            mark = {"shape": "triangle", "angle": angle - turned, "filled": True, "size": 70, "color": INK}
            layers.append(layer("point", place, those, **mark))
            if told := [row for row in those if row["beyond"] and (end == "last" or "last" not in row)]:
                text = {**place, "text": {"field": "beyond", "type": "nominal"}}
                layers += legible(text, told, align=align, dx=shift, dy=-16, fontSize=11, color=INK)
    return layers


def layered_chart(
    title: str,
    layers: Sequence[Spec],
    rows: Sequence[Spec] | None = None,
    *,
    height: int | Spec,
    wide: bool,
    description: str,
    caption: str,
) -> Chart:
    """Return a chart in the pages' colours and font; `rows` are the data of layers without their own."""
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": WIDE if wide else NARROW,
        "height": height,
        "background": None,
        "padding": 4,
        "layer": list(layers),
        "config": {
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                "labelColor": SOFT, "titleColor": SOFT, "gridColor": RULE, "domainColor": RULE, "tickColor": RULE,
                "labelFontSize": FONT_SIZE, "titleFontSize": FONT_SIZE, "titleFontWeight": "normal", "titlePadding": 8,
            },
            "axisY": {"labelColor": INK},
            "legend": {"labelColor": INK, "labelFontSize": FONT_SIZE},
            "text": {"fontSize": FONT_SIZE},
        },
        **({} if rows is None else {"data": {"values": list(rows)}}),
    }  # fmt: skip
    return Chart(title=title, description=description, caption=caption, spec=spec, wide=wide)


wide_chart = partial(layered_chart, wide=True)
"""A chart as wide as the page."""


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
    """Return a point with its interval in a row for each name.

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
    return wide_chart(title, layers, rows, height={"step": step}, description=description, caption=caption)


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
    return layered_chart(title, layers, rows, height=height, wide=wide, description=description, caption=caption)


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
    """Return a bar with its interval in a row for each name.

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
    height = {"step": step}
    return layered_chart(title, layers, rows, height=height, wide=wide, description=description, caption=caption)


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
    layers += above
    return layered_chart(title, layers, rows, height=height, wide=wide, description=description, caption=caption)
