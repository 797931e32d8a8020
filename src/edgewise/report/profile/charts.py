"""Charts of a profile: layers by time, the inference in time, memory, roofline, changes.

Marks that stand for a layer say which, so that a page can lead from them to the layer's row. Colours are CSS variables
of the page; a file of its own gets the light ones. Nothing is drawn that the run doesn't hold.

Roofline: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore
architectures", Communications of the ACM 52 (4), 2009. Both axes are logarithmic; a slanted roof is a bandwidth, a
level one a peak of arithmetic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from edgewise.errors import BadInput
from edgewise.formatting import time_unit_of
from edgewise.profiling.layer_matching import are_alike, pair_layers
from edgewise.record import Layer, Peak, Profile, Run
from edgewise.report.charts import (
    INK,
    KEEP_APART,
    PAPER,
    SERIES_COLOURS,
    SOFT,
    WIDE,
    Chart,
    colour_channel,
    colour_of,
    layer,
    name_axis,
    number_axis,
    rounded,
    wide_chart,
)
from edgewise.report.charts import bars_chart as bars
from edgewise.report.charts.files import render_chart_file
from edgewise.report.charts.texts import Spec, legend_below
from edgewise.report.document.names import distinct_names, keep_end, layer_names, short_names
from edgewise.report.profile.cells import layers_of, ranked, roof_words
from edgewise.report.profile.document import header, operator_names
from edgewise.report.profile.trace import place_in_latency
from edgewise.report.runs.conditions import labels_of
from edgewise.text import one_line
from edgewise.units import SCALES, format_bytes, format_duration, format_si, scale_for, significant

OVERHEAD = "overhead"
OTHER = "other"
KEY: Spec = {"field": "key", "type": "nominal"}
"""The channel of the layer that a mark stands for, which leads from it to a row of a page."""


def colours_of(run: Run) -> dict[str, str]:
    """Type of operator → colour, the most expensive types first; further types have none."""
    sums: dict[str, float] = {}
    for each in layers_of(run, "operator"):
        name = one_line(each.op)
        sums[name] = sums.get(name, 0.0) + (each.time or 0.0)
    slowest = sorted(sums, key=lambda name: -sums[name])[:SERIES_COLOURS]
    colours = {name: colour_of(index) for index, name in enumerate(slowest)}
    if any(layer.kind == "overhead" for layer in run.layers):
        colours[OVERHEAD] = "var(--overhead)"
    return colours


def op_of(layer: Layer, colours: dict[str, str]) -> str:
    """Return what the legend calls a layer: its type, `OVERHEAD`, or `OTHER` where there is no colour left for its
    type.
    """
    name = one_line(layer.op) if layer.kind == "operator" else OVERHEAD
    return name if name in colours else OTHER


def legend(colours: dict[str, str], rows: Iterable[Spec]) -> Spec:
    """Return the colour channel of marks whose field ``op`` is an `op_of`; the legend has just what `rows` have."""
    used = {row["op"] for row in rows}
    shown = {name: colour for name, colour in [*colours.items(), (OTHER, SOFT)] if name in used}
    return colour_channel("op", shown, legend=legend_below(list(shown), width=WIDE - 300, limit=140))


def _fitted(chart: Chart) -> Chart:
    """As all charts of a profile: equally wide, whatever room their labels take; legends have squares."""
    chart.spec["config"]["legend"]["symbolType"] = "square"
    chart.spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return chart


CLOSE = 2.0
"""Roofs within this ratio of each other are too near for two names."""
_WIDTH, _HEIGHT = WIDE - 70, 320
"""Of the plot within its axes, px; the width is approximate."""


def roofline_chart(run: Run) -> Chart | None:
    """Layers by intensity and rate under the measured roofs; None without peaks or without a layer to place."""
    peaks = run.profile.peaks if run.profile is not None else ()
    compute, bandwidth = _roofs(peaks, "compute"), _roofs(peaks, "bandwidth")
    found = [
        layer
        for layer in run.layers
        if layer.kind == "operator" and layer.intensity and layer.ops_per_second and layer.time
    ]
    if not compute or not bandwidth or not found:
        return None
    # The highest level roof meets the lowest slanted one there.
    ridge = max(peak.value for peak in compute) / min(peak.value for peak in bandwidth)
    left, right = _powers_around([layer.intensity or 0.0 for layer in found] + [ridge])
    rates = [layer.ops_per_second or 0.0 for layer in found] + [peak.value for peak in compute]
    low, high = _powers_around(rates)
    lines = [row for peak in bandwidth for row in _slanted(peak, max(each.value for each in compute), left, low)]
    lines += [row for peak in compute for row in _level(peak, max(each.value for each in bandwidth), right)]
    colours = colours_of(run)
    points = [
        {
            "x": layer.intensity,
            "y": layer.ops_per_second,
            "time": (layer.time or 0.0) * 1e6,
            "op": op_of(layer, colours),
            "key": f"layer {layer.index}",
        }
        for layer in found
    ]
    return wide_chart(
        "Roofline",
        _marks(points, lines, run, (left, right, low, high)),
        height=_HEIGHT,
        description="; ".join(_in_words(layer, run.profile) for layer in ranked(found)[:8]),
        caption="A point is a layer, its area the time it takes. On the slanted line memory is the limit, on the level "
        "one arithmetic; the further below its roof, the more time could be saved." + _left_out(run, found),
    )


def _left_out(run: Run, found: Sequence[Layer]) -> str:
    count = sum(layer.kind == "operator" for layer in run.layers) - len(found)
    return (
        f" {count} layers have no place here: they compute nothing, or their cost or time is not known."
        if count
        else ""
    )


def _roofs(peaks: Sequence[Peak], kind: str) -> list[Peak]:
    """Return the peaks of one kind, the highest of each data type and buffer."""
    best: dict[object, Peak] = {}
    for peak in peaks:
        key = (peak.dtype, peak.size_bytes)
        if peak.kind == kind and peak.value > 0 and (key not in best or best[key].value < peak.value):
            best[key] = peak
    return sorted(best.values(), key=lambda peak: -peak.value)


def _powers_around(values: Sequence[float]) -> tuple[float, float]:
    """Powers of ten around positive values."""
    return 10.0 ** math.floor(math.log10(min(values)) - 0.05), 10.0 ** math.ceil(math.log10(max(values)) + 0.15)


def _slanted(peak: Peak, ceiling: float, left: float, low: float) -> list[Spec]:
    """From the left or lower edge up to the highest level roof."""
    begin = max(left, low / peak.value)
    name = f"{format_si(peak.value, 'B/s')}" + (f" ({format_bytes(peak.size_bytes)})" if peak.size_bytes else "")
    ends = (begin, max(begin, ceiling / peak.value))
    return [{"roof": f"memory {name}", "x": x, "y": x * peak.value, "kind": "memory", "rate": peak.value} for x in ends]


def _level(peak: Peak, bandwidth: float, right: float) -> list[Spec]:
    """From where the steepest slanted roof reaches it to the right edge."""
    name = f"{peak.dtype or 'arithmetic'} {format_si(peak.value, 'op/s')}"
    ends = (min(peak.value / bandwidth, right), right)
    return [{"roof": name, "x": x, "y": peak.value, "kind": "compute", "rate": peak.value} for x in ends]


def _marks(
    points: Sequence[Spec], lines: Sequence[Spec], run: Run, domain: tuple[float, float, float, float]
) -> list[Spec]:
    left, right, low, high = domain
    x = number_axis("x", "operations per byte of weights and activations", type="log", domain=[left, right])
    y = number_axis("y", "operations per second", type="log", domain=[low, high])
    x["axis"] = {"values": _powers(left, right), "format": "~g"}
    y["axis"] = {"values": _powers(low, high), "format": "~s"}
    level = _legible([row for row in lines[1::2] if row["kind"] == "compute"])
    slanted = _legible([row for row in lines[::2] if row["kind"] == "memory"])
    steep = _angle(domain)
    size = {"field": "time", "type": "quantitative", "legend": None, "scale": {"range": [30, 900], "zero": True}}
    colour = legend(colours_of(run), points)
    place, names = {"x": x, "y": y}, {"x": x, "y": y, "text": {"field": "roof"}}
    marks = {**place, "size": size, "color": colour, "description": KEY}
    return [
        layer("line", {**place, "detail": {"field": "roof"}}, lines, strokeWidth=2, color=INK, clip=True),
        layer("circle", marks, points, opacity=0.75, stroke=PAPER),
        layer("text", names, level, align="right", dy=-8, dx=-4, color=INK),
        layer("text", names, slanted, align="left", angle=steep, dy=-8, dx=6, color=SOFT, fontSize=11),
    ]


def _legible(rows: Sequence[Spec]) -> list[Spec]:
    """Return the roofs, highest first, whose names don't overlap; the page lists all of them."""
    shown: list[Spec] = []
    for row in rows:
        if not shown or shown[-1]["rate"] / row["rate"] > CLOSE:
            shown.append(row)
    return shown


def _powers(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1)]


def _angle(domain: tuple[float, float, float, float]) -> float:
    """Of a line of slope 1 in both logarithms, as degrees that text is turned by."""
    left, right, low, high = domain
    rise = _HEIGHT / math.log10(high / low)
    run = _WIDTH / math.log10(right / left)
    return 360 - math.degrees(math.atan2(rise, run))


def _in_words(layer: Layer, profile: Profile | None) -> str:
    share = f", {words}" if (words := roof_words(layer, profile)) else ""
    return (
        f"{layer.op}: {significant(layer.intensity or 0.0)} operations per byte at "
        f"{format_si(layer.ops_per_second or 0.0, 'op/s')}{share}"
    )


MOST_BARS = 20
MOST_CHANGES = 14
MOST_STEPS = 400
CHARACTER = 7
"""Pixels of a character on a bar, at most."""
LEAST_CHARACTERS = 5
"""A bar with room for no more has no name."""


def bars_chart(run: Run) -> Chart | None:
    """Return the slowest layers with their intervals; None where no layer has a time."""
    found = [layer for layer in run.layers if layer.kind != "eliminated" and layer.time]
    shown = ranked(found)[:MOST_BARS]
    if not shown:
        return None
    unit, factor = time_unit_of(shown[0].time or 0.0)
    colours = colours_of(run)
    names = layer_names(run, 44)
    rows = [_bar(layer, names[layer.index], factor) | {"op": op_of(layer, colours)} for layer in shown]
    y = name_axis("row", [row["row"] for row in rows], limit=320)
    # The text after the longest bar needs a fifth of the width.
    room = [0, _short(max(row["end"] for row in rows) * 1.22)]
    x = number_axis("time", f"time per inference ({unit})", ticks=7, domain=room, nice=False)
    rest = len(found) - len(shown)
    return bars(
        "Layers by time",
        rows,
        x=x,
        y=y,
        colour=legend(colours, rows),
        text_at="end",
        mark=KEY,
        description="; ".join(f"{row['name']}: {row['text']}" for row in rows[:8]),
        caption="The thin line is the 95 % interval. " + (f"{rest} shorter ones are not drawn." if rest > 0 else ""),
    )


def _bar(layer: Layer, name: str, factor: float) -> Spec:
    time = layer.time or 0.0
    ends = [layer.low, layer.high]
    row: Spec = {
        "name": name,
        "row": f"{name}{KEEP_APART}{layer.index}",
        "key": f"layer {layer.index}",
        "time": _short(time * factor),
        "end": _short(max(time, layer.high or 0.0) * factor),
        "text": format_duration(time) + (f" · {layer.share * 100:.1f} %" if layer.share is not None else ""),
    }
    known = [end for end in ends if end is not None]
    return row | ({"low": _short(known[0] * factor), "high": _short(known[1] * factor)} if len(known) == 2 else {})


def timeline_chart(run: Run) -> Chart | None:
    """Layers along one inference; None where no layer has a time."""
    placed = place_in_latency(run)
    if all(lane is None for _, lane, _, _ in placed):
        return None
    end = max(ts + dur for _, _, ts, dur in placed)
    unit, factor = time_unit_of(end * 1e-6)
    lanes = max(lane for _, lane, _, _ in placed if lane is not None)
    names = ["layers", *(f"layers ({lane + 1})" for lane in range(1, lanes + 1)), "overheads"]
    spans = [(layer, names[-1 if lane is None else lane], ts, dur) for layer, lane, ts, dur in placed]
    colours, scale = colours_of(run), factor * 1e-6
    rows = [
        _span(layer, lane, (ts * scale, dur * scale), room=int(dur / end * WIDE / CHARACTER))
        | {"op": op_of(layer, colours)}
        for layer, lane, ts, dur in spans
    ]
    texts = Counter(row["short"] for row in rows)
    # A cut name that several bars have says nothing of any.
    told = [row for row in rows if row["short"] and (texts[row["short"]] == 1 or not row["short"].startswith("…"))]
    labels = [row | {"x": (row["x"] + row["x2"]) / 2} for row in told]
    y = {"field": "lane", "type": "nominal", "title": None, "sort": names,
         "axis": {"ticks": False, "domain": False, "labelPadding": 8}}  # fmt: skip
    end_of_axis = _short(end * scale)
    x = number_axis("x", f"time since the inference began ({unit})", ticks=8, domain=[0, end_of_axis], nice=False)
    bar = {"y": y, "x": x, "x2": {"field": "x2"}, "color": legend(colours, rows), "description": KEY}
    layers = [
        layer("bar", bar, rows, height=40, stroke=PAPER, strokeWidth=0.6),
        layer(
            "text",
            {"y": y, "x": {**x}, "text": {"field": "short", "type": "nominal"}},
            labels,
            color=PAPER,
            fontSize=11,
        ),
    ]
    lacking = any(layer.start is None for layer, lane, *_ in placed if lane is not None)
    where = "" if not lacking else " The engine does not report when layers begin: they are drawn one after another."
    return wide_chart(
        "The inference in time",
        layers,
        height={"step": 56},
        description=f"{sum(lane is not None for _, lane, _, _ in placed)} layers in {format_duration(end * 1e-6)}",
        caption="Layers in the order and for the time that the profiler saw; the profiler's own time between them is "
        f"left out. What is blank is time outside the layers. Overheads without a place follow the last layer.{where}",
    )


def _span(layer: Layer, lane: str, place: tuple[float, float], *, room: int) -> Spec:
    """Return a bar of the timeline, with as many characters of the end of its layer's name as it has room for."""
    begin, length = place
    title = one_line(layer.title)
    return {
        "lane": lane,
        "x": rounded(begin, 8),
        "x2": rounded(begin + length, 8),
        "short": title if len(title) <= room else f"…{title[1 - room :]}" if room > LEAST_CHARACTERS else "",
        "key": f"layer {layer.index}",
    }


def memory_chart(run: Run) -> Chart | None:
    """Live bytes of activations along the operators, with arena and lower bound; None where they are not known."""
    memory = run.profile.memory if run.profile is not None else None
    live = list((memory or {}).get("live_bytes") or ())
    if not live or not memory or max(live) <= 0:
        return None
    whole, unit = scale_for(max(live), SCALES["B"])
    scale = 1 / whole
    size = max(1, math.ceil(len(live) / MOST_STEPS))
    steps = [{"i": first, "bytes": max(live[first : first + size]) * scale} for first in range(0, len(live), size)]
    steps.append({"i": len(live), "bytes": steps[-1]["bytes"]})
    lines = [
        {"bytes": memory[key] * scale, "text": f"{name} {format_bytes(memory[key])}"}
        for key, name in (("arena_bytes", "arena"), ("lower_bound_bytes", "lower bound"))
        if memory.get(key) is not None
    ]
    if len(lines) == 2 and lines[0]["bytes"] == lines[1]["bytes"]:
        lines = [lines[0] | {"text": f"arena = lower bound {format_bytes(memory['arena_bytes'])}"}]
    x = number_axis("i", "operator, in the model's order", nice=False) | {"axis": {"tickMinStep": 1}}
    y = number_axis("bytes", f"live activations ({unit})", ticks=5)
    peak = live.index(max(live))
    at = [{"i": peak + 0.5, "bytes": live[peak] * scale}]
    outline = {"color": colour_of(0), "strokeWidth": 1.5}
    label = {"y": y, "text": {"field": "text"}, "x": {"value": "width"}}
    layers = [
        layer("area", {"x": x, "y": y}, steps, interpolate="step-after", color=colour_of(0), opacity=0.3, line=outline),
        layer("rule", {"y": y}, lines, color=INK, strokeDash=[5, 4]),
        layer("text", label, lines, align="right", dy=-7, color=INK),
        layer("circle", {"x": x, "y": y}, at, color=colour_of(1), size=70, opacity=1),
    ]
    name = operator_names(run).get(peak)
    where = f"operator {peak}" + (f" ({keep_end(name, 60)})" if name else "")
    return wide_chart(
        "Memory of the activations",
        layers,
        height=200,
        description=f"{'; '.join(line['text'] for line in lines)}; peak at {where}",
        caption=f"Memory that is live at the same time; the peak is at {where}, the orange point. As planned from the "
        "model's graph: engines add scratch buffers of their own.",
    )


def changes_chart(before: Run, after: Run) -> Chart | None:
    """Return the largest differences between two runs as pairs of bars; None where they have nothing in common."""
    if not are_alike(before, after):
        return None
    pairs = [pair for pair in pair_layers(before, after) if pair.change][:MOST_CHANGES]
    if not pairs:
        return None
    largest = max(time or 0.0 for pair in pairs for time in pair.times)
    unit, factor = time_unit_of(largest)
    labels = distinct_names(labels_of([before, after]), 44)
    names = short_names([pair.name for pair in pairs], 40, ends=True)
    rows: list[Spec] = [
        {"row": f"{names[place]}{KEEP_APART}{place}", "run": label, "time": _short((time or 0.0) * factor)}
        for place, pair in enumerate(pairs)
        for label, time in zip(labels, pair.times, strict=True)
    ]
    colours = {label: colour_of(index) for index, label in enumerate(labels)}
    channels = {
        "y": name_axis("row", list(dict.fromkeys(row["row"] for row in rows)), limit=300),
        "yOffset": {"field": "run", "sort": labels},
        "x": number_axis("time", f"time per inference ({unit})"),
        "color": colour_channel("run", colours, legend=legend_below(labels, width=WIDE // 2, limit=300)),
    }
    chart = wide_chart(
        "The largest differences",
        [layer("bar", channels, rows, cornerRadiusEnd=2)],
        height={"step": 17},
        description="; ".join(
            f"{pair.name}: {' | '.join('n/a' if time is None else format_duration(time) for time in pair.times)}"
            for pair in pairs[:8]
        ),
        caption="Work that both runs do, however they fuse it; the largest difference first.",
    )
    return _fitted(chart)


_CHARTS: dict[str, Callable[[Run], Chart | None]] = {
    "timeline": timeline_chart, "layers": bars_chart, "roofline": roofline_chart, "memory": memory_chart,
}  # fmt: skip
KINDS = tuple(_CHARTS)
"""The charts that a file of its own can hold."""


def chart_of(run: Run, kind: str) -> Chart | None:
    """One of `KINDS`; None where the run has nothing to draw. Raises `BadInput` for another."""
    if kind not in _CHARTS:
        raise BadInput(f"there is no chart {kind!r}", advice=f"one of: {', '.join(KINDS)}")
    chart = _CHARTS[kind](run)
    return None if chart is None else _fitted(chart)


def render_chart(run: Run, kind: str, extension: str) -> bytes:
    """One of `KINDS` as a file of its own, in the light colours.

    Args:
        extension: ``.svg`` or ``.png``.

    Raises `BadInput` where the run has nothing to draw or there is no such chart, `Unavailable` without vl-convert.
    """
    chart = chart_of(run, kind)
    if chart is None:
        raise BadInput(f"this run has nothing for the chart {kind!r}", advice="profile the model: 'edgewise profile'")
    return render_chart_file(chart, extension, subtitle=header(run))


def _short(value: float) -> float:
    return rounded(value, 5)
