"""Charts as data: Vega-Lite specifications made of runs, and the one function that turns them into SVG.

Colours are CSS variables of the page, so that a chart follows the reader's light or dark scheme. Nothing is drawn that
the runs don't hold; what is left out of a drawing (far outliers, every k-th sample) is said in its caption.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.errors import Unavailable
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.report.cells import quantity

Spec = dict[str, Any]

STRIP_POINTS = 260
CURVE_POINTS = 160
SERIES_POINTS = 480
SERIES_COLOURS = 8
WIDE, NARROW = 860, 400
# What measures the text here and what draws it there must agree on its width: these have the same metrics.
_FONT = "Arial, Liberation Sans, Arimo, Helvetica, sans-serif"
_INK, _SOFT, _RULE = "var(--ink)", "var(--soft)", "var(--rule)"
_WORDS = re.compile(r' (?:aria-label|aria-roledescription|aria-hidden|role|pointer-events)="[^"]*"')
_GEOMETRY = re.compile(r' (?:transform|d|x2|y2|width|height)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart.

    Attributes:
        description: the same facts in words, for those who don't see it.
        caption: how to read it and what was left out.
        wide: whether it wants the width of the page.
    """

    title: str
    description: str
    caption: str
    spec: Spec
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A run with its name and colour on the page."""

    run: Run
    label: str
    colour: str


def render_svg(spec: Spec) -> str:
    """`spec` as an SVG element. Raises `Unavailable` where vl-convert-python is not installed."""
    try:
        import vl_convert
    except ImportError as error:
        raise Unavailable(
            "charts need the package vl-convert-python", advice="pip install 'edgewise[charts]'"
        ) from error
    # Without a base address nothing can be fetched: the specifications hold all their data.
    return _slim(str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])))


def _slim(svg: str) -> str:
    """`svg` without the words on every mark, which `Chart.description` replaces, and with two decimals."""
    svg = _WORDS.sub("", svg)
    svg = _GEOMETRY.sub(lambda match: _DECIMALS.sub(r"\1", match[0]), svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def colour_of(index: int) -> str:
    """The CSS variable of the `index`-th run."""
    return f"var(--series-{index % SERIES_COLOURS + 1})"


def distribution_chart(group: Sequence[Series]) -> Chart | None:
    """Samples, middle half, median and interval of comparable runs; None where no run has samples."""
    found = [(one, row) for one in group if (row := _headline(one.run)) is not None and row.samples]
    if not found:
        return None
    metric = found[0][1].metric
    scale, unit, limit = _axis([row for _, row in found])
    points, boxes, beyond = [], [], 0
    for one, row in found:
        ordered = sorted(row.samples)
        beyond += sum(value > limit for value in row.samples)
        points += _strip(one.label, row, scale=scale, limit=limit)
        boxes.append(_box(one.label, row, ordered, scale))
    shared = {"y": _rows(group), "color": _colours(group)}
    title = f"{METRICS[metric].label} ({unit})"
    x = _quantitative("x", title, upper=_digits(limit * scale))
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
        {
            "data": {"values": [box for box in boxes if "low" in box]},
            "mark": {"type": "rule", "strokeWidth": 4, "color": _INK},
            "encoding": {"y": shared["y"], "x": {**x, "field": "low"}, "x2": {"field": "high"}},
        },
        {
            "data": {"values": boxes},
            "mark": {"type": "tick", "thickness": 2, "size": 24, "color": _INK},
            "encoding": {"y": shared["y"], "x": {**x, "field": "value"}},
        },
    ]  # fmt: skip
    caption = (
        "Dots are samples, the band is their middle half, the line the headline value, the thick bar its 95 % interval."
    )
    return Chart(
        title=f"{METRICS[metric].label} by run",
        description="; ".join(_in_words(one.label, row) for one, row in found),
        caption=caption + _beyond(beyond, found),
        spec=layered_spec(layers, height={"step": 46}, width=WIDE),
        wide=True,
    )


def curve_chart(group: Sequence[Series]) -> Chart | None:
    """The share of inferences that are done within a time (ECDF); None where no run has samples of a time."""
    found = [(one, row) for one in group if (row := _headline(one.run)) is not None and row.samples and row.unit == "s"]
    if not found:
        return None
    scale, unit, limit = _axis([row for _, row in found])
    values, beyond = [], 0
    for one, row in found:
        ordered = sorted(row.samples)
        beyond += sum(value > limit for value in ordered)
        for index in _positions(len(ordered), CURVE_POINTS):
            if ordered[index] <= limit:
                share = (index + 1) / len(ordered)
                values.append({"run": one.label, "x": _digits(ordered[index] * scale), "share": _digits(share)})
    legend = {"orient": "bottom", "columns": 2, "title": None}
    layer = {
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
        "encoding": {
            "x": _quantitative("x", f"{METRICS[found[0][1].metric].label} ({unit})", upper=_digits(limit * scale)),
            "y": {
                "field": "share", "type": "quantitative", "title": "share of inferences",
                "axis": {"format": "%", "tickCount": 5}, "scale": {"domain": [0, 1]},
            },
            "color": {**_colours([one for one, _ in found]), "legend": legend},
        },
    }  # fmt: skip
    tails = [f"{one.label}: {_quantiles(row)}" for one, row in found]
    return Chart(
        title="Share of inferences done within a time",
        description="; ".join(tails),
        caption="Steeper is steadier; a long foot to the right is a slow tail." + _beyond(beyond, found),
        spec=layered_spec([layer], height=220),
    )


def memory_chart(group: Sequence[Series]) -> Chart | None:
    """Peak memory with the part that the engine alone takes; None where no run knows its peak."""
    rows, words = [], []
    for one in group:
        peak, base = one.run.value("memory_peak"), one.run.value("memory_baseline")
        if peak is None:
            continue
        row = {"run": one.label, "peak": _digits(peak * 1e-6), "text": quantity(peak, "B")}
        rows.append(row if base is None else {**row, "base": _digits(base * 1e-6)})
        known = f", of which {quantity(base, 'B')} before the model was loaded" if base is not None else ""
        words.append(f"{one.label}: peak {quantity(peak, 'B')}{known}")
    if not rows:
        return None
    y, colour = _rows(group), _colours(group)
    x = {"type": "quantitative", "title": "Memory (MB)", "axis": {"tickCount": 6}, "scale": {"zero": True}}
    layers: list[Spec] = [
        {"mark": {"type": "bar", "height": 18, "opacity": 0.85, "cornerRadiusEnd": 3},
         "encoding": {"y": y, "x": {**x, "field": "peak"}, "color": colour}},
        {"transform": [{"filter": "isValid(datum.base)"}],
         "mark": {"type": "bar", "height": 18, "color": "var(--paper)", "opacity": 0.55},
         "encoding": {"y": y, "x": {**x, "field": "base"}}},
        {"mark": {"type": "text", "align": "left", "dx": 6, "color": _SOFT},
         "encoding": {"y": y, "x": {**x, "field": "peak"}, "text": {"field": "text", "type": "nominal"}}},
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
    row = _headline(one.run)
    if row is None or not row.samples:
        return None
    scale, unit, limit = _axis([row])
    picked = _positions(len(row.samples), SERIES_POINTS)
    values = [{"i": index, "x": _digits(row.samples[index] * scale)} for index in picked if row.samples[index] <= limit]
    beyond = sum(value > limit for value in row.samples)
    edges, total = [], 0
    for length in row.session_lengths[:-1]:
        total += length
        edges.append({"i": total})
    x = {"field": "i", "type": "quantitative", "title": "sample, session after session",
         "scale": {"nice": False}, "axis": {"tickCount": 8}}  # fmt: skip
    y = {"field": "x", "type": "quantitative", "title": f"{METRICS[row.metric].label} ({unit})",
         "scale": {"zero": False}, "axis": {"tickCount": 4}}  # fmt: skip
    layers: list[Spec] = [
        {"data": {"values": values}, "mark": {"type": "circle", "size": 9, "opacity": 0.55, "color": one.colour},
         "encoding": {"x": x, "y": y}},
    ]  # fmt: skip
    if edges:
        mark = {"type": "rule", "color": _SOFT, "strokeDash": [3, 3]}
        layers.append({"data": {"values": edges}, "mark": mark, "encoding": {"x": x}})
    thinned = f" {len(picked)} of {len(row.samples)} samples, evenly picked." if len(picked) < len(row.samples) else ""
    return Chart(
        title="Samples over time",
        description=_in_words(one.label, row),
        caption="Dashed lines are where a fresh process begins." + thinned + _beyond(beyond, [(one, row)]),
        spec=layered_spec(layers, height=150, width=WIDE),
        wide=True,
    )


def _headline(run: Run) -> Measurement | None:
    row = run.measurement(run.headline)
    return row if row is not None and row.value is not None and run.status != "failed" else None


def _axis(rows: Sequence[Measurement]) -> tuple[float, str, float]:
    """The factor to the axis' unit, that unit, and the SI value up to which samples are drawn."""
    limit = max(max(_at(sorted(row.samples), 0.995), row.high or 0.0, row.value or 0.0) for row in rows) * 1.02
    if rows[0].unit != "s":
        return 1.0, rows[0].unit, limit
    size, unit = next(((size, unit) for size, unit in _TIMES if limit >= size), _TIMES[-1])
    return 1 / size, unit, limit


def _strip(label: str, row: Measurement, *, scale: float, limit: float) -> list[Spec]:
    """Some of the samples up to `limit`, spread over the height of the row."""
    inside = [value for value in _every(row.samples, STRIP_POINTS) if value <= limit]
    # Multiples of the golden ratio spread evenly and are the same in every process.
    jitter = (index * 0.6180339887 % 1.0 for index in range(len(inside)))
    return [
        {"run": label, "x": _digits(value * scale), "jitter": _digits(height)}
        for value, height in zip(inside, jitter, strict=True)
    ]


def _box(label: str, row: Measurement, ordered: Sequence[float], scale: float) -> Spec:
    value = row.value if row.value is not None else math.nan
    box = {"run": label, "value": value * scale, "q1": _at(ordered, 0.25) * scale, "q3": _at(ordered, 0.75) * scale}
    if row.low is not None and row.high is not None:
        box |= {"low": row.low * scale, "high": row.high * scale}
    return {key: _digits(item) if isinstance(item, float) else item for key, item in box.items()}


def _at(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` of the samples don't exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _positions(n: int, most: int) -> list[int]:
    """At most `most` positions, evenly over 0 … n−1, the last one included."""
    count = min(n, most)
    return sorted({round(index * (n - 1) / max(1, count - 1)) for index in range(count)})


def _every(samples: Sequence[float], most: int) -> list[float]:
    return [samples[index] for index in _positions(len(samples), most)]


def _digits(value: float) -> float:
    return float(f"{value:.5g}")


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
    return f" {count} of {total} samples lie beyond the axis." if count else ""


def _rows(group: Sequence[Series]) -> Spec:
    return {
        "field": "run", "type": "nominal", "title": None, "sort": [one.label for one in group],
        "axis": {"labelLimit": 230, "ticks": False, "domain": False, "labelPadding": 10},
    }  # fmt: skip


def _colours(group: Sequence[Series]) -> Spec:
    scale = {"domain": [one.label for one in group], "range": [one.colour for one in group]}
    return {"field": "run", "type": "nominal", "scale": scale, "legend": None}


def _quantitative(field: str, title: str, *, upper: float) -> Spec:
    scale = {"zero": True, "domainMin": 0, "domainMax": upper, "nice": False}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": {"tickCount": 7}}


def layered_spec(
    layers: Sequence[Spec], *, height: int | Spec, width: int = NARROW, legend: Spec | None = None
) -> Spec:
    """A layered specification in the pages' colours and font.

    Args:
        legend: settings of legends that this page has besides the common ones.
    """
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": width,
        "height": height,
        "background": None,
        "padding": 4,
        "layer": list(layers),
        "config": {
            "font": _FONT,
            "view": {"stroke": None},
            "axis": {
                "labelColor": _SOFT, "titleColor": _SOFT, "gridColor": _RULE, "domainColor": _RULE, "tickColor": _RULE,
                "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8,
            },
            "axisY": {"labelColor": _INK},
            "legend": {"labelColor": _INK, "labelFontSize": 12} | (legend or {"labelLimit": 280}),
            "text": {"fontSize": 12},
        },
    }  # fmt: skip


Maker = Callable[[Sequence[Series]], Chart | None]
GROUP_CHARTS: tuple[Maker, ...] = (distribution_chart, curve_chart, memory_chart)
"""The charts of one group of comparable runs."""
