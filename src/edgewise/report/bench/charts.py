"""Charts of measured runs: distributions, shares within a time, memory, and samples in their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgewise.formatting import interval_text, quantity, time_unit_of, with_range
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.report import charts
from edgewise.report.charts.texts import Spec, legend_below

STRIP_POINTS = 120
CURVE_POINTS = 100
SERIES_POINTS = 240
"""Most points of one run in each of its charts: with more, a page of 20 runs is slow to load and to draw."""
_BY_RANK = "evenly picked by rank with the smallest and the largest"
LOGARITHMIC_FROM = 6.0
"""Ratio of the longest to the shortest time from which the axis of a comparison is logarithmic."""


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


def distribution_chart(group: Sequence[Series], *, zoomed: bool = False) -> charts.Chart | None:
    """Return samples, middle half, median and interval of runs with one headline metric; None where no run has samples.

    Args:
        zoomed: whether the axis begins near the smallest sample, for a comparison, instead of at 0.
    """
    found = [(one, row) for one in group if (row := one.row) is not None and row.samples]
    if not found:
        return None
    metric = found[0][1].metric
    scale, unit, limit = _axis(found)
    lower = 0.0
    if zoomed:
        lower, limit = _bulk(found)
    points, boxes, beyond, thinned = [], [], 0, False
    for one, row in found:
        ordered = sorted(row.samples)
        inside = [value for value in ordered if lower <= value <= limit]
        beyond += len(ordered) - len(inside)
        thinned |= len(inside) > STRIP_POINTS
        points += _strip(one.label, inside, scale=scale)
        box = _box(one.label, row, ordered, scale)
        words = interval_text(row.metric, row.unit, row.value, row.low, row.high)
        boxes.append(charts.cut_interval(box, _short(lower * scale), _short(limit * scale), words))
    shared = {"y": _rows([one for one, _ in found]), "color": _colours(group)}
    title = f"{METRICS[metric].label} ({unit})"
    logarithmic = lower > 0.0 and limit / lower >= LOGARITHMIC_FROM
    x = _from_zero("x", title, upper=_short(limit * scale))
    if zoomed:
        ends = [_short(lower * scale), _short(limit * scale)]
        kind = "log" if logarithmic else "linear"
        x = charts.number_axis("x", title, ticks=8, type=kind, domain=ends, nice=False, zero=False)
    jitter = {"field": "jitter", "type": "quantitative", "scale": {"domain": [-0.6, 1.6]}}
    place = {"y": shared["y"], "x": x}
    layers = [
        charts.layer("circle", {**shared, "x": x, "yOffset": jitter}, points, size=10, opacity=0.3),
        charts.layer(
            "bar",
            {**shared, "x": {**x, "field": "q1"}, "x2": {"field": "q3"}},
            boxes,
            height=16,
            opacity=0.45,
            cornerRadius=2,
        ),
        {"data": {"values": boxes}, **charts.interval_lines(place, strokeWidth=4, color=charts.INK)},
        charts.layer("tick", {**place, "x": {**x, "field": "value"}}, boxes, thickness=2, size=24, color=charts.INK),
        *charts.arrows_beyond(place, boxes),
    ]
    caption = (
        "Dots are samples, the band is their middle half, the line the headline value, the thick bar its 95 % interval."
        + (f" Of a run with more than {STRIP_POINTS} samples, {STRIP_POINTS} are drawn, {_BY_RANK}." if thinned else "")
        + (" The axis is logarithmic." if logarithmic else "")
        + (f" {charts.ARROW}" if any("beyond" in box for box in boxes) else "")
    )
    return charts.wide_chart(
        f"{METRICS[metric].label} by run",
        layers,
        height={"step": 46},
        description="; ".join(_in_words(one.label, row) for one, row in found),
        caption=caption + _beyond(beyond, found),
    )


def curve_chart(group: Sequence[Series]) -> charts.Chart | None:
    """Return the share of inferences or executions done within a time (ECDF); None where no run has samples of one."""
    found = [(one, row) for one in group if (row := one.row) is not None and row.samples and row.unit == "s"]
    if not found:
        return None
    scale, unit, limit = _axis(found)
    values, beyond, thinned = [], 0, False
    for one, row in found:
        inside = [value for value in sorted(row.samples) if value <= limit]
        beyond += len(row.samples) - len(inside)
        thinned |= len(inside) > CURVE_POINTS
        for index in _positions(len(inside), CURVE_POINTS):
            share = (index + 1) / len(row.samples)
            values.append({"run": one.label, "x": _short(inside[index] * scale), "share": _short(share)})
    legend = legend_below([one.label for one, _ in found], width=charts.NARROW)
    tails = [f"{one.label}: {_quantiles(row)}" for one, row in found]
    what = "executions" if found[0][0].run.job.command else "inferences"
    shares = charts.number_axis("share", f"share of {what}", domain=[0, 1]) | {"axis": {"format": "%", "tickCount": 5}}
    return charts.series_chart(
        f"Share of {what} done within a time",
        values,
        x=_from_zero("x", f"{METRICS[found[0][1].metric].label} ({unit})", upper=_short(limit * scale)),
        y=shares,
        colour=_colours([one for one, _ in found], legend=legend),
        line={"interpolate": "step-after", "strokeWidth": 2},
        height=220,
        wide=False,
        description="; ".join(tails),
        caption=f"Steeper is steadier; a long tail to the right means that some {what} are slow."
        + (f" Drawn through {CURVE_POINTS} samples a run, {_BY_RANK}." if thinned else "")
        + _beyond(beyond, found),
    )


def memory_chart(group: Sequence[Series]) -> charts.Chart | None:
    """Peak memory with the part that the engine alone takes; None where no run knows its peak."""
    rows, words = [], []
    for one in group:
        peak, base = one.run.value("memory_peak"), one.run.value("memory_baseline")
        if peak is None:
            continue
        row = {"run": one.label, "peak": _short(peak / 2**20), "text": quantity(peak, "B")}
        rows.append(row if base is None else {**row, "base": _short(base / 2**20)})
        known = f", of which {quantity(base, 'B')} before the model was loaded" if base is not None else ""
        words.append(f"{one.label}: peak {quantity(peak, 'B')}{known}")
    if not rows:
        return None
    return charts.bars_chart(
        "Peak memory",
        rows,
        x=charts.number_axis("peak", "Memory (MiB)", ticks=6, zero=True),
        y=_rows(group),
        colour=_colours(group),
        text_at="peak",
        base="base",
        thick=18,
        step=32,
        wide=False,
        description="; ".join(words),
        caption="Resident memory at its highest in inference; the pale part is the process with the engine, "
        "before the model was loaded.",
    )


def series_chart(one: Series) -> charts.Chart | None:
    """Return samples in the order they were taken, session after session; None where there are none."""
    row = one.row
    if row is None or not row.samples:
        return None
    scale, unit, limit = _axis([(one, row)])
    picked = _stretches(row.samples, SERIES_POINTS)
    values = [{"i": index, "x": _short(row.samples[index] * scale)} for index in picked if row.samples[index] <= limit]
    beyond = sum(value > limit for value in row.samples)
    edges, total = [], 0
    for length in row.session_lengths[:-1]:
        total += length
        edges.append(total)
    x = charts.number_axis("i", "sample, session after session", ticks=8, nice=False)
    y = charts.number_axis("x", f"{METRICS[row.metric].label} ({unit})", ticks=4, zero=False)
    thinned = (
        f" {len(picked)} of {len(row.samples)} samples are picked: of each of {SERIES_POINTS // 4} equal stretches the "
        "smallest, the largest and two others."
        if len(picked) < len(row.samples)
        else ""
    )
    return charts.series_chart(
        "Samples over time",
        values,
        x=x,
        y=y,
        point={"size": 9, "opacity": 0.55, "color": one.colour},
        above=[charts.lines_at({"x": x}, edges, color=charts.SOFT, strokeDash=[3, 3])] if edges else [],
        height=150,
        description=_in_words(one.label, row),
        caption="Dashed lines are where a fresh process begins." + thinned + _beyond(beyond, [(one, row)]),
    )


def _axis(found: Sequence[tuple[Series, Measurement]]) -> tuple[float, str, float]:
    """Return the factor to the unit of the axis, the unit, and the largest SI value that is drawn."""
    limit = max(max(_at(sorted(row.samples), 0.995), *_known_ends(one, row)) for one, row in found) * 1.02
    rows = [row for _, row in found]
    if rows[0].unit != "s":
        return 1.0, rows[0].unit, limit
    unit, factor = time_unit_of(limit)
    return factor, unit, limit


def _known_ends(one: Series, row: Measurement) -> list[float]:
    """Return the value, and the ends of its interval unless its grade is D: that may be thousands of times as wide."""
    vague = one.run.trust is not None and one.run.trust.grade == "D"
    return [end for end in ((row.value,) if vague else (row.low, row.value, row.high)) if end is not None]


def _bulk(found: Sequence[tuple[Series, Measurement]]) -> tuple[float, float]:
    """Return the part of the axis with the bulk of all samples and every interval; far tails would squeeze the rest."""
    ends = []
    for one, row in found:
        ordered = sorted(row.samples)
        quarter, three = _at(ordered, 0.25), _at(ordered, 0.75)
        reach = 6.0 * (three - quarter)
        ends += [max(_at(ordered, 0.002), quarter - reach), min(_at(ordered, 0.99), three + reach)]
        ends += _known_ends(one, row)
    lower, upper = min(ends), max(ends)
    room = 0.03 * (upper - lower) or 0.01 * abs(upper) or 1.0
    return (lower - room if lower > room else lower), upper + room


def _strip(label: str, ordered: Sequence[float], *, scale: float) -> list[Spec]:
    """Return some of the samples, spread over the height of the row."""
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
    """Return the smallest sample that at least `share` of the samples don't exceed."""
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
    return charts.rounded(value, 5)


def _in_words(label: str, row: Measurement) -> str:
    value = with_range(row.metric, row.unit, row.value, row.low, row.high)
    return f"{label}: {METRICS[row.metric].label.lower()} {value}"


def _quantiles(row: Measurement) -> str:
    percentiles = row.summary.percentiles if row.summary is not None else {}
    said = ", ".join(f"{name} {quantity(value, row.unit)}" for name, value in percentiles.items())
    return said or "too few samples for percentiles"


def _beyond(count: int, found: Sequence[tuple[Series, Measurement]]) -> str:
    total = sum(len(row.samples) for _, row in found)
    largest, unit = max((max(row.samples), row.unit) for _, row in found)
    return f" {count} of {total} samples lie beyond the axis, up to {quantity(largest, unit)}." if count else ""


def _rows(group: Sequence[Series]) -> Spec:
    return charts.name_axis("run", [one.label for one in group], limit=230)


def _colours(group: Sequence[Series], *, legend: Spec | None = None) -> Spec:
    return charts.colour_channel("run", {one.label: one.colour for one in group}, legend=legend)


def _from_zero(field: str, title: str, *, upper: float) -> Spec:
    return charts.number_axis(field, title, ticks=7, zero=True, domainMin=0, domainMax=upper, nice=False)


GROUP_CHARTS: tuple[Callable[[Sequence[Series]], charts.Chart | None], ...] = (
    distribution_chart,
    curve_chart,
    memory_chart,
)
"""The charts of one group of comparable runs."""
