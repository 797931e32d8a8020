"""Charts as data: Vega-Lite specifications made of runs, and the one function that turns them into SVG.

Colours are CSS variables of the page, so that a chart follows the reader's light or dark scheme. Nothing is drawn that
the runs don't hold; what is left out of a drawing (far outliers, every k-th sample) is said in its caption.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from edgewise.errors import Unavailable
from edgewise.formatting import quantity, time_unit_of
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.report.chart_text import FONT, FONT_SIZE, Spec, fit_texts, legend_below, row_axis
from edgewise.text import without_controls

STRIP_POINTS = 120
CURVE_POINTS = 100
SERIES_POINTS = 240
"""Most points of one run in each of its charts: with more, a page of 20 runs is slow to load and to draw."""
_BY_RANK = "evenly picked by rank with the smallest and the largest"
LOGARITHMIC_FROM = 6.0
"""Ratio of the longest to the shortest time from which the axis of a comparison is logarithmic."""
SERIES_COLOURS = 8
WIDE, NARROW = 860, 400
INK, SOFT, RULE = "var(--ink)", "var(--soft)", "var(--rule)"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A run with its name and colour on the page."""

    run: Run
    label: str
    colour: str

    @property
    def row(self) -> Measurement | None:
        """The headline of the run; None where it failed or has no value."""
        row = self.run.measurement(self.run.headline)
        return row if row is not None and row.value is not None and self.run.status != "failed" else None


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


def distribution_chart(group: Sequence[Series], *, zoomed: bool = False) -> Chart | None:
    """Samples, middle half, median and interval of runs with one headline metric; None where no run has samples.

    Args:
        zoomed: whether the axis begins near the smallest sample, for a comparison, instead of at 0.
    """
    found = [(one, row) for one in group if (row := one.row) is not None and row.samples]
    if not found:
        return None
    metric = found[0][1].metric
    rows = [row for _, row in found]
    scale, unit, limit = _axis(rows)
    lower = 0.0
    if zoomed:
        lower, limit = _bulk(rows)
    points, boxes, beyond, thinned = [], [], 0, False
    for one, row in found:
        ordered = sorted(row.samples)
        inside = [value for value in ordered if lower <= value <= limit]
        beyond += len(ordered) - len(inside)
        thinned |= len(inside) > STRIP_POINTS
        points += _strip(one.label, inside, scale=scale)
        boxes.append(_box(one.label, row, ordered, scale))
    shared = {"y": _rows([one for one, _ in found]), "color": _colours(group)}
    title = f"{METRICS[metric].label} ({unit})"
    logarithmic = lower > 0.0 and limit / lower >= LOGARITHMIC_FROM
    x = _from_zero("x", title, upper=_short(limit * scale))
    if zoomed:
        ends = [_short(lower * scale), _short(limit * scale)]
        kind = "log" if logarithmic else "linear"
        x = number_axis("x", title, ticks=8, type=kind, domain=ends, nice=False, zero=False)
    jitter = {"field": "jitter", "type": "quantitative", "scale": {"domain": [-0.6, 1.6]}}
    layers = [
        {
            "data": {"values": points},
            "mark": {"type": "circle", "size": 10, "opacity": 0.3},
            "encoding": {**shared, "x": x, "yOffset": jitter},
        },
        {
            "data": {"values": boxes},
            "mark": {"type": "bar", "height": 16, "opacity": 0.45, "cornerRadius": 2},
            "encoding": {**shared, "x": {**x, "field": "q1"}, "x2": {"field": "q3"}},
        },
        {"data": {"values": boxes}, **interval_lines({"y": shared["y"], "x": x}, strokeWidth=4, color=INK)},
        {
            "data": {"values": boxes},
            "mark": {"type": "tick", "thickness": 2, "size": 24, "color": INK},
            "encoding": {"y": shared["y"], "x": {**x, "field": "value"}},
        },
    ]
    caption = (
        "Dots are samples, the band is their middle half, the line the headline value, the thick bar its 95 % interval."
        + (f" Of a run with more than {STRIP_POINTS} samples, {STRIP_POINTS} are drawn, {_BY_RANK}." if thinned else "")
        + (" The axis is logarithmic." if logarithmic else "")
    )
    return wide_chart(
        f"{METRICS[metric].label} by run",
        layers,
        height={"step": 46},
        description="; ".join(_in_words(one.label, row) for one, row in found),
        caption=caption + _beyond(beyond, found),
    )


def curve_chart(group: Sequence[Series]) -> Chart | None:
    """The share of inferences that are done within a time (ECDF); None where no run has samples of a time."""
    found = [(one, row) for one in group if (row := one.row) is not None and row.samples and row.unit == "s"]
    if not found:
        return None
    scale, unit, limit = _axis([row for _, row in found])
    values, beyond, thinned = [], 0, False
    for one, row in found:
        inside = [value for value in sorted(row.samples) if value <= limit]
        beyond += len(row.samples) - len(inside)
        thinned |= len(inside) > CURVE_POINTS
        for index in _positions(len(inside), CURVE_POINTS):
            share = (index + 1) / len(row.samples)
            values.append({"run": one.label, "x": _short(inside[index] * scale), "share": _short(share)})
    legend = legend_below([one.label for one, _ in found], width=NARROW)
    layer = {
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
        "encoding": {
            "x": _from_zero("x", f"{METRICS[found[0][1].metric].label} ({unit})", upper=_short(limit * scale)),
            "y": {
                "field": "share", "type": "quantitative", "title": "share of inferences",
                "axis": {"format": "%", "tickCount": 5}, "scale": {"domain": [0, 1]},
            },
            "color": _colours([one for one, _ in found], legend=legend),
        },
    }  # fmt: skip
    tails = [f"{one.label}: {_quantiles(row)}" for one, row in found]
    return Chart(
        title="Share of inferences done within a time",
        description="; ".join(tails),
        caption="Steeper is steadier; a long tail to the right means that some inferences are slow."
        + (f" Drawn through {CURVE_POINTS} samples a run, {_BY_RANK}." if thinned else "")
        + _beyond(beyond, found),
        spec=layered_spec([layer], height=220),
    )


def memory_chart(group: Sequence[Series]) -> Chart | None:
    """Peak memory with the part that the engine alone takes; None where no run knows its peak."""
    rows, words = [], []
    for one in group:
        peak, base = one.run.value("memory_peak"), one.run.value("memory_baseline")
        if peak is None:
            continue
        row = {"run": one.label, "peak": _short(peak * 1e-6), "text": quantity(peak, "B")}
        rows.append(row if base is None else {**row, "base": _short(base * 1e-6)})
        known = f", of which {quantity(base, 'B')} before the model was loaded" if base is not None else ""
        words.append(f"{one.label}: peak {quantity(peak, 'B')}{known}")
    if not rows:
        return None
    y, colour = _rows(group), _colours(group)
    x = number_axis("peak", "Memory (MB)", ticks=6, zero=True)
    layers: list[Spec] = [
        {"mark": {"type": "bar", "height": 18, "opacity": 0.85, "cornerRadiusEnd": 3},
         "encoding": {"y": y, "x": x, "color": colour}},
        {"transform": [{"filter": "isValid(datum.base)"}],
         "mark": {"type": "bar", "height": 18, "color": "var(--paper)", "opacity": 0.55},
         "encoding": {"y": y, "x": {**x, "field": "base"}}},
        {"mark": {"type": "text", "align": "left", "dx": 6, "color": SOFT},
         "encoding": {"y": y, "x": x, "text": {"field": "text", "type": "nominal"}}},
    ]  # fmt: skip
    return Chart(
        title="Peak memory",
        description="; ".join(words),
        caption="Resident memory at its highest in inference; the pale part is the process with the engine, "
        "before the model was loaded.",
        spec={**layered_spec(layers, height={"step": 32}), "data": {"values": rows}},
    )


def series_chart(one: Series) -> Chart | None:
    """Samples in the order they were taken, session after session; None where there are none."""
    row = one.row
    if row is None or not row.samples:
        return None
    scale, unit, limit = _axis([row])
    picked = _stretches(row.samples, SERIES_POINTS)
    values = [{"i": index, "x": _short(row.samples[index] * scale)} for index in picked if row.samples[index] <= limit]
    beyond = sum(value > limit for value in row.samples)
    edges, total = [], 0
    for length in row.session_lengths[:-1]:
        total += length
        edges.append({"i": total})
    x = number_axis("i", "sample, session after session", ticks=8, nice=False)
    y = number_axis("x", f"{METRICS[row.metric].label} ({unit})", ticks=4, zero=False)
    layers: list[Spec] = [
        {"data": {"values": values}, "mark": {"type": "circle", "size": 9, "opacity": 0.55, "color": one.colour},
         "encoding": {"x": x, "y": y}},
    ]  # fmt: skip
    if edges:
        mark = {"type": "rule", "color": SOFT, "strokeDash": [3, 3]}
        layers.append({"data": {"values": edges}, "mark": mark, "encoding": {"x": x}})
    thinned = (
        f" {len(picked)} of {len(row.samples)} samples are picked: of each of {SERIES_POINTS // 4} equal stretches the "
        "smallest, the largest and two others."
        if len(picked) < len(row.samples)
        else ""
    )
    return wide_chart(
        "Samples over time",
        layers,
        height=150,
        description=_in_words(one.label, row),
        caption="Dashed lines are where a fresh process begins." + thinned + _beyond(beyond, [(one, row)]),
    )


def _axis(rows: Sequence[Measurement]) -> tuple[float, str, float]:
    """The factor to the unit of the axis, the unit, and the largest SI value that is drawn."""
    limit = max(max(_at(sorted(row.samples), 0.995), row.high or 0.0, row.value or 0.0) for row in rows) * 1.02
    if rows[0].unit != "s":
        return 1.0, rows[0].unit, limit
    unit, factor = time_unit_of(limit)
    return factor, unit, limit


def _bulk(rows: Sequence[Measurement]) -> tuple[float, float]:
    """The part of the axis with the bulk of all samples and every interval; far tails would squeeze the rest."""
    ends = []
    for row in rows:
        ordered = sorted(row.samples)
        quarter, three = _at(ordered, 0.25), _at(ordered, 0.75)
        reach = 6.0 * (three - quarter)
        ends += [max(_at(ordered, 0.002), quarter - reach), min(_at(ordered, 0.99), three + reach)]
        ends += [end for end in (row.low, row.value, row.high) if end is not None]
    lower, upper = min(ends), max(ends)
    room = 0.03 * (upper - lower) or 0.01 * abs(upper) or 1.0
    return (lower - room if lower > room else lower), upper + room


def _strip(label: str, ordered: Sequence[float], *, scale: float) -> list[Spec]:
    """Some of the samples, spread over the height of the row."""
    # Multiples of the golden ratio spread evenly and are the same in every process.
    return [
        {"run": label, "x": _short(ordered[index] * scale), "jitter": _short(place * 0.6180339887 % 1.0)}
        for place, index in enumerate(_positions(len(ordered), STRIP_POINTS))
    ]


def _box(label: str, row: Measurement, ordered: Sequence[float], scale: float) -> Spec:
    value = row.value if row.value is not None else math.nan
    box = {"run": label, "value": value * scale, "q1": _at(ordered, 0.25) * scale, "q3": _at(ordered, 0.75) * scale}
    if row.low is not None and row.high is not None:
        box |= {"low": row.low * scale, "high": row.high * scale}
    return {key: _short(item) if isinstance(item, float) else item for key, item in box.items()}


def _at(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` of the samples don't exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _positions(n: int, most: int) -> list[int]:
    """At most `most` positions, evenly over 0 … n−1, the last one included."""
    count = min(n, most)
    return sorted({round(index * (n - 1) / max(1, count - 1)) for index in range(count)})


def _stretches(samples: Sequence[float], most: int) -> list[int]:
    """At most `most` positions: of each of equal stretches the smallest sample's, the largest's, and two others'."""
    if len(samples) <= most:
        return list(range(len(samples)))
    edges = [index * len(samples) // (most // 4) for index in range(most // 4 + 1)]
    found: set[int] = set()
    for begin, end in pairwise(edges):
        stretch = range(begin, end)
        found |= {
            begin,
            (begin + end) // 2,
            min(stretch, key=samples.__getitem__),
            max(stretch, key=samples.__getitem__),
        }
    return sorted(found)


def _short(value: float) -> float:
    return rounded(value, 5)


def _in_words(label: str, row: Measurement) -> str:
    value = quantity(row.value, row.unit) if row.value is not None else "n/a"
    interval = ""
    if row.low is not None and row.high is not None:
        interval = f" (95 % interval {quantity(row.low, row.unit)} to {quantity(row.high, row.unit)})"
    return f"{label}: {METRICS[row.metric].label.lower()} {value}{interval}"


def _quantiles(row: Measurement) -> str:
    percentiles = row.summary.percentiles if row.summary is not None else {}
    said = ", ".join(f"{name} {quantity(value, row.unit)}" for name, value in percentiles.items())
    return said or "too few samples for percentiles"


def _beyond(count: int, found: Sequence[tuple[Series, Measurement]]) -> str:
    total = sum(len(row.samples) for _, row in found)
    largest, unit = max((max(row.samples), row.unit) for _, row in found)
    return f" {count} of {total} samples lie beyond the axis, up to {quantity(largest, unit)}." if count else ""


def _rows(group: Sequence[Series]) -> Spec:
    return name_axis("run", [one.label for one in group], limit=230)


def _colours(group: Sequence[Series], *, legend: Spec | None = None) -> Spec:
    return colour_channel("run", {one.label: one.colour for one in group}, legend=legend)


def _from_zero(field: str, title: str, *, upper: float) -> Spec:
    return number_axis(field, title, ticks=7, zero=True, domainMin=0, domainMax=upper, nice=False)


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


Maker = Callable[[Sequence[Series]], Chart | None]
GROUP_CHARTS: tuple[Maker, ...] = (distribution_chart, curve_chart, memory_chart)
"""The charts of one group of comparable runs."""
