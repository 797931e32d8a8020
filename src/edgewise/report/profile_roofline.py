"""The roofline of a run: what its layers attain under what the machine was measured to allow.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52 (4), 2009. Both axes are logarithmic; a slanted roof is a bandwidth, a level one a peak of
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgewise.record import Layer, Peak, Run
from edgewise.report.chart_kinds import layer
from edgewise.report.chart_text import Spec
from edgewise.report.charts import INK, PAPER, SOFT, WIDE, Chart, number_axis
from edgewise.report.profile_cells import ranked
from edgewise.report.profile_style import KEY, colours_of, legend, op_of, profile_chart
from edgewise.units import format_bytes, format_si, significant

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
    return profile_chart(
        "Roofline",
        _marks(points, lines, run, (left, right, low, high)),
        height=_HEIGHT,
        description="; ".join(_in_words(layer) for layer in ranked(found)[:8]),
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
    """The peaks of one kind, the highest of each data type and buffer."""
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
    """The roofs, highest first, whose names don't overlap; the page lists all of them."""
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


def _in_words(layer: Layer) -> str:
    share = f", {layer.roof_share * 100:.0f} % of its roof" if layer.roof_share is not None else ""
    return (
        f"{layer.op}: {significant(layer.intensity or 0.0)} operations per byte at "
        f"{format_si(layer.ops_per_second or 0.0, 'op/s')}{share}"
    )
