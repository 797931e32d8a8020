"""Charts as data: Vega-Lite specifications, their channels, and the one function that turns them into SVG.

Colours are CSS variables of the page, so that a chart follows the reader's light or dark scheme. Nothing is drawn that
the runs don't hold; what is left out of a drawing (far outliers, every k-th sample) is said in its caption.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.errors import Unavailable
from edgewise.report.chart_text import FONT, FONT_SIZE, Spec, fit_texts, row_axis
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


def render_svg(spec: Spec) -> str:
    """`spec` as an SVG element for a page; marks that stand for a layer have ``data-layer``.

    Raises `Unavailable` where vl-convert-python is not installed.
    """
    svg = _LAYER.sub(r' data-layer="\1"', draw_svg(spec))
    # `Chart.description` replaces the words on every mark; less than a tenth of a pixel is not visible.
    svg = _GEOMETRY.sub(lambda match: _DECIMALS.sub(r"\1", match[0]), _NEEDLESS.sub("", svg))
    svg = _DOTS.sub(_together, svg).replace(f' font-family="{FONT}"', "")
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
    """A specification without control characters, on which vl-convert aborts the process."""
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
    """The CSS variable of the `index`-th run."""
    return f"var(--series-{index % SERIES_COLOURS + 1})"


def rounded(value: float, digits: int = 6) -> float:
    """`value` rounded to the digits that a drawing can show, which keeps specifications short."""
    return float(f"{value:.{digits}g}")


def number_axis(field: str, title: str | None, *, ticks: int | None = None, **scale: Any) -> Spec:
    """The channel of a number; `scale` as Vega-Lite has it."""
    channel: Spec = {"field": field, "type": "quantitative", "title": title}
    return channel | ({"scale": scale} if scale else {}) | ({"axis": {"tickCount": ticks}} if ticks else {})


def logarithmic_axis(field: str, title: str, lower: float, upper: float) -> Spec:
    """The logarithmic channel of a number from `lower` to `upper`, with round numbers at its ticks."""
    channel = number_axis(field, title, type="log", domain=[rounded(lower), rounded(upper)], nice=False)
    return channel | {"axis": {"values": _round_numbers(lower, upper), "format": "~g"}}


def _round_numbers(lower: float, upper: float) -> list[float]:
    """Round numbers of an axis: in equal steps on a short one, fewer for each power of ten on a long one."""
    if upper < SHORT_AXIS * lower:
        power = 10.0 ** math.floor(math.log10(upper - lower))
        step = next(part * power for part in (0.1, 0.2, 0.5) if (upper - lower) / (part * power) <= 2 * MOST_TICKS)
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
    """The channel of rows with names, in the order of `keys`; labels end at `limit` pixels."""
    return {"field": field, "type": "nominal", "title": None, "sort": list(keys), "axis": row_axis(keys, limit=limit)}


def colour_channel(field: str, colours: Mapping[str, str], *, legend: Spec | None = None) -> Spec:
    """The channel of colours by name."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend}


def interval_lines(channels: Spec, *, along: str = "x", low: str = "low", high: str = "high", **mark: Any) -> Spec:
    """The layer of 95 % intervals: a line from `low` to `high` for each row that has them.

    Args:
        along: the channel, x or y, that the interval runs along.
    """
    ends = {along: {**channels[along], "field": low}, f"{along}2": {"field": high}}
    return {
        "transform": [{"filter": f"isValid(datum.{low})"}],
        "mark": {"type": "rule", "strokeWidth": 3, **mark},
        "encoding": {**channels, **ends},
    }


def wide_chart(
    title: str,
    layers: Sequence[Spec],
    *,
    height: int | Spec,
    description: str,
    caption: str,
    rows: Sequence[Spec] | None = None,
) -> Chart:
    """A chart as wide as the page; `rows` are the data of layers without their own."""
    spec = layered_spec(layers, height=height, width=WIDE)
    if rows is not None:
        spec["data"] = {"values": list(rows)}
    return Chart(title=title, description=description, caption=caption, spec=spec, wide=True)


def layered_spec(layers: Sequence[Spec], *, height: int | Spec, width: int = NARROW) -> Spec:
    """A layered specification in the pages' colours and font."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": width,
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
    }  # fmt: skip
