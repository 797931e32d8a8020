"""Charts of a comparison as data: distributions on top of each other, processes in their order, ratios with intervals.

As in all charts, colours are CSS variables of the page, and what is left out of a drawing is said in its caption.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgewise.comparing.comparison import Comparison, Findings, Variant
from edgewise.record import Measurement
from edgewise.report.cells import label_of, quantity
from edgewise.report.charts import WIDE, Chart, colour_of, layered_spec
from edgewise.report.comparison_tables import scale_of
from edgewise.report.comparison_words import percent, ratio_text, verdict_text
from edgewise.report.lettering import Spec, legend_below, row_axis
from edgewise.report.names import distinct_names
from edgewise.text import one_line

OUTLINE_POINTS = 140
LEAST_SAMPLES = 9
"""Fewer make no distribution."""
LOGARITHMIC_FROM = 6.0
"""Times of which the longest is so many times the shortest share a logarithmic axis."""
_INK, _SOFT, _RULE = "var(--ink)", "var(--soft)", "var(--rule)"
_COLOURS = {"faster": "var(--good)", "slower": "var(--bad)", "same": _INK, "inconclusive": _SOFT}

_TICKS: tuple[tuple[float, list[float]], ...] = (
    (1.15, [0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03, 1.04, 1.06, 1.08, 1.1]),
    (1.5, [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4]),
    (15.0, [0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0]),
    (math.inf, [0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0]),
)
"""Up to which span of the axis which ratios are written at it."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A variant whose headline has samples, with its name and colour on the page."""

    label: str
    colour: str
    row: Measurement


def sampled_variants(findings: Findings) -> list[Sampled]:
    """Variants with samples of the metric that the baseline is about, in their order."""
    if not findings.variants:
        return []
    metric = findings.variants[0].run.headline
    names = chart_labels(findings.variants)
    found = []
    for index, (variant, name) in enumerate(zip(findings.variants, names, strict=True)):
        row = variant.run.measurement(metric)
        if row is not None and row.value is not None and len(row.samples) >= LEAST_SAMPLES:
            found.append(Sampled(label=name, colour=colour_of(index), row=row))
    return found


def chart_labels(variants: Sequence[Variant]) -> list[str]:
    """Short names that stay apart."""
    return distinct_names([variant.label for variant in variants])


def overlay_chart(findings: Findings) -> Chart | None:
    """Outlines of the headline's distributions over one axis; None where no variant has samples."""
    found = sampled_variants(findings)
    if not found:
        return None
    metric, unit = found[0].row.metric, found[0].row.unit
    values = [np.asarray(one.row.samples, dtype=np.float64) for one in found]
    lower, upper = _limits(values, [one.row for one in found])
    convert, name = scale_of(metric, unit, [lower or upper])
    logarithmic = lower > 0.0 and upper / lower >= LOGARITHMIC_FROM
    outlines: list[Spec] = []
    for one, samples in zip(found, values, strict=True):
        outlines += [
            {"run": one.label, "x": _digits(convert(at)), "height": _digits(height)}
            for at, height in _outline(samples, lower, upper, logarithmic=logarithmic)
        ]
    lane = 0.09
    marks = [_mark(one, -lane * (place + 0.75), convert) for place, one in enumerate(found)]
    ends = [_digits(convert(lower)), _digits(convert(upper))]
    kind = {"type": "log" if logarithmic else "linear", "domain": ends, "nice": False, "zero": False}
    x = {"field": "x", "type": "quantitative", "title": f"{label_of(metric)} ({name})", "scale": kind,
         "axis": {"tickCount": 8}}  # fmt: skip
    y = {"field": "height", "type": "quantitative", "title": None, "axis": None,
         "scale": {"domain": [-lane * (len(found) + 0.4), 1.05], "nice": False}}  # fmt: skip
    colour = _colours(found)
    beyond = sum(int(((samples < lower) | (samples > upper)).sum()) for samples in values)
    layers: list[Spec] = [
        {"data": {"values": outlines}, "mark": {"type": "area", "opacity": 0.22},
         "encoding": {"x": x, "y": {**y, "stack": None}, "color": colour}},
        {"data": {"values": outlines}, "mark": {"type": "line", "strokeWidth": 1.8},
         "encoding": {"x": x, "y": y, "color": colour}},
        {"data": {"values": [mark for mark in marks if "low" in mark]}, "mark": {"type": "rule", "strokeWidth": 6},
         "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": colour}},
        {"data": {"values": marks}, "mark": {"type": "tick", "thickness": 2, "size": 16, "color": _INK},
         "encoding": {"x": {**x, "field": "value"}, "y": y}},
    ]  # fmt: skip
    total = sum(len(samples) for samples in values)
    return Chart(
        title=f"{label_of(metric)}: all samples",
        description="; ".join(_in_words(one) for one in found),
        caption="Outlines of the samples' density, each as high as the others whatever its number of samples. Below: "
        "the headline value and its own 95 % interval."
        + (" The axis is logarithmic." if logarithmic else "")
        + (f" {beyond} of {total} samples lie beyond the axis." if beyond else "")
        + _left_out(findings, found),
        spec=layered_spec(layers, height=230, width=WIDE),
        wide=True,
    )


def _limits(values: Sequence[Values], rows: Sequence[Measurement]) -> tuple[float, float]:
    """The part of the axis that is drawn: the bulk of all samples and all intervals; far tails would squeeze them."""
    lower, upper = math.inf, -math.inf
    for samples, row in zip(values, rows, strict=True):
        quarter, three = np.quantile(samples, [0.25, 0.75])
        reach = 6.0 * (three - quarter)
        told = [end for end in (row.low, row.value, row.high) if end is not None and math.isfinite(end)]
        lower = min(lower, max(float(np.quantile(samples, 0.002)), quarter - reach), *told)
        upper = max(upper, min(float(np.quantile(samples, 0.99)), three + reach), *told)
    room = 0.03 * (upper - lower) or 0.01 * abs(upper) or 1.0
    return (lower - room if lower > room else lower), upper + room


def _outline(samples: Values, lower: float, upper: float, *, logarithmic: bool) -> list[tuple[float, float]]:
    """Points of a Gaussian kernel density within the limits, its peak at 1.

    The bandwidth is Silverman's with the smaller of deviation and quartile distance (B. W. Silverman, "Density
    Estimation", 1986, eq. 3.31), a third less so that clusters stay apart.
    """
    change = np.log if logarithmic else np.asarray
    inside = samples[(samples >= lower) & (samples <= upper)]
    data = np.asarray(change(inside), dtype=np.float64)
    if not len(data):
        return []
    low, high = (float(change(end)) for end in (lower, upper))
    quarter, three = np.quantile(data, [0.25, 0.75])
    spread = min((part for part in (float(data.std()), float(three - quarter) / 1.34) if part > 0.0), default=0.0)
    # A clock that ticks coarsely leaves no spread; a hair's width shows where all samples are.
    width = max(0.6 * spread * len(data) ** -0.2, (high - low) / 1500.0)
    start, end = max(low, float(data.min()) - 4 * width), min(high, float(data.max()) + 4 * width)
    grid = np.unique(np.concatenate([np.linspace(start, end, OUTLINE_POINTS),
                                     np.quantile(data, np.linspace(0.02, 0.98, OUTLINE_POINTS // 2))]))  # fmt: skip
    density = np.zeros(len(grid))
    for part in np.array_split(data, max(1, len(data) // 4096)):
        density += np.exp(-0.5 * ((grid[:, None] - part[None, :]) / width) ** 2).sum(axis=1)
    places = np.exp(grid) if logarithmic else grid
    return list(zip(places.tolist(), (density / density.max()).tolist(), strict=True))


def process_chart(findings: Findings) -> Chart | None:
    """The median of each fresh process, in the order they were measured; None where no variant has several."""
    found = [one for one in sampled_variants(findings) if len(one.row.session_lengths) > 1
             and sum(one.row.session_lengths) == len(one.row.samples)]  # fmt: skip
    if not found:
        return None
    metric = found[0].row.metric
    medians = {one.label: _medians(one.row) for one in found}
    rows = [
        {"run": label, "process": place, "x": _digits((value / statistics.median(values) - 1.0) * 100.0)}
        for label, values in medians.items()
        for place, value in enumerate(values, 1)
        if statistics.median(values) > 0.0
    ]
    most = max(map(len, medians.values()))
    designs = {row.design for row in findings.comparisons if row.metric == metric}
    paired = bool(designs) and designs <= {"interleaved", "duet"}
    encoding = {
        "x": {"field": "process", "type": "quantitative", "title": "fresh process",
              "scale": {"nice": False, "zero": False},
              "axis": {"values": list(range(1, most + 1, max(1, -(-most // 10)))), "format": "d"}},
        "y": {"field": "x", "type": "quantitative", "title": "off its own median (%)",
              "axis": {"tickCount": 5}},
        "color": _colours(found),
    }  # fmt: skip
    layers: list[Spec] = [{"mark": {"type": "circle", "size": 55, "opacity": 0.9}, "encoding": encoding}]
    if paired:
        layers.insert(0, {"mark": {"type": "line", "strokeWidth": 1.2, "opacity": 0.6}, "encoding": encoding})
    order = "in the order they were measured."
    if paired:
        order = "those with one number were measured together: where they move together, the machine moved under both."
    return Chart(
        title=f"{label_of(metric)}: process by process",
        description="; ".join(
            f"{label}: {len(values)} processes, medians {quantity(min(values), found[0].row.unit)} to "
            f"{quantity(max(values), found[0].row.unit)}"
            for label, values in medians.items()
        ),
        caption="Each dot is the median of one fresh process, as a deviation from the median of all processes of its "
        f"variant; {order}" + _left_out(findings, found),
        spec={**layered_spec(layers, height=190, width=WIDE), "data": {"values": rows}},
        wide=True,
    )


def _medians(row: Measurement) -> list[float]:
    medians, start = [], 0
    for length in row.session_lengths:
        if length:
            medians.append(statistics.median(row.samples[start : start + length]))
        start += length
    return medians


def forest_chart(findings: Findings) -> Chart | None:
    """Ratios with their intervals, the line of no difference, and what is too small to matter; None without ratios."""
    known = [row for row in findings.comparisons if row.ratio is not None and row.ratio > 0.0]
    if not known:
        return None
    several = len({row.b for row in findings.comparisons}) > 1
    labels = dict(zip((one.label for one in findings.variants), chart_labels(findings.variants), strict=True))
    rows = [
        _forest_row(row, f"{labels.get(row.b, one_line(row.b))}: {label_of(row.metric)}" if several
                    else label_of(row.metric), place)
        for place, row in enumerate(known)
    ]  # fmt: skip
    ends = [end for row in rows for key in ("ratio", "low", "high", "from", "to") if (end := row.get(key)) is not None]
    lower, upper = min(*ends, 0.97), max(*ends, 1.03)
    room = (upper / lower) ** 0.04
    scale = {"type": "log", "domain": [_digits(lower / room), _digits(upper * room)], "nice": False}
    x = {"type": "quantitative", "title": "after / before", "scale": scale,
         "axis": {"values": _ticks(lower / room, upper * room), "format": "~g"}}  # fmt: skip
    keys = [row["row"] for row in rows]
    y = {"field": "row", "type": "nominal", "title": None, "sort": keys, "axis": row_axis(keys, limit=300)}
    colour = {"field": "verdict", "type": "nominal", "legend": None,
              "scale": {"domain": list(_COLOURS), "range": list(_COLOURS.values())}}  # fmt: skip
    layers: list[Spec] = [
        {"transform": [{"filter": "isValid(datum.from)"}], "mark": {"type": "bar", "height": 26, "color": _RULE},
         "encoding": {"y": y, "x": {**x, "field": "from"}, "x2": {"field": "to"}}},
        {"data": {"values": [{"one": 1}]}, "mark": {"type": "rule", "color": _INK, "strokeDash": [4, 3]},
         "encoding": {"x": {**x, "field": "one"}}},
        {"transform": [{"filter": "isValid(datum.low)"}], "mark": {"type": "rule", "strokeWidth": 3},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
         "encoding": {"y": y, "x": {**x, "field": "ratio"}, "color": colour}},
        {"mark": {"type": "text", "dy": -14, "fontSize": 11, "stroke": "var(--paper)", "strokeWidth": 4},
         "encoding": {"y": y, "x": {**x, "field": "ratio"}, "text": {"field": "words", "type": "nominal"}}},
        {"mark": {"type": "text", "dy": -14, "fontSize": 11},
         "encoding": {"y": y, "x": {**x, "field": "ratio"}, "color": colour,
                      "text": {"field": "words", "type": "nominal"}}},
    ]  # fmt: skip
    missing = len(findings.comparisons) - len(known)
    return Chart(
        title="Ratios",
        description="; ".join(map(_ratio_in_words, known)),
        caption="The dot is the ratio, the bar its 95 % interval, the dashed line no difference, the band what is too "
        f"small to matter{_bands(known)}. The axis is logarithmic."
        + (f" Without a ratio: {missing}." if missing else ""),
        spec={**layered_spec(layers, height={"step": 44}, width=WIDE), "data": {"values": rows}},
        wide=True,
    )


def _ratio_in_words(row: Comparison) -> str:
    name = f"{one_line(row.b)}, {label_of(row.metric)}"
    return f"{name}: {ratio_text(row.ratio, row.low, row.high)}, {verdict_text(row)}"


def _forest_row(row: Comparison, name: str, place: int) -> Spec:
    ratio = row.ratio if row.ratio is not None else math.nan
    # An em space and a number keep rows of one name apart; the axis shows what is before it.
    told: Spec = {"row": f"{name}\u2003{place}", "ratio": ratio, "verdict": row.verdict, "words": row.word}
    if row.verdict in ("faster", "slower"):
        told["words"] = verdict_text(row)
    if row.low is not None and row.high is not None and row.low > 0.0:
        told |= {"low": row.low, "high": row.high}
    if row.margin is not None:
        told |= {"from": 1.0 / (1.0 + row.margin), "to": 1.0 + row.margin}
    return {key: _digits(item) if isinstance(item, float) else item for key, item in told.items()}


def _bands(rows: Sequence[Comparison]) -> str:
    margins = list(dict.fromkeys(percent(row.margin) for row in rows if row.margin is not None))
    return f" (± {margins[0]})" if len(margins) == 1 else ""


def _ticks(lower: float, upper: float) -> list[float]:
    """Ratios that people know, as many as fit between `lower` and `upper`."""
    span = upper / lower
    if span > 1e3:
        powers = range(math.floor(math.log10(lower)), math.ceil(math.log10(upper)) + 1)
        chosen = [10.0**power for power in powers if power % max(1, len(powers) // 8) == 0]
    else:
        chosen = next(values for most, values in _TICKS if span < most)
    return [value for value in chosen if lower <= value <= upper]


def _left_out(findings: Findings, found: Sequence[Sampled]) -> str:
    drawn = {one.label for one in found}
    names = [name for name in chart_labels(findings.variants) if name not in drawn]
    return f" Not drawn, for want of samples: {', '.join(names)}." if names else ""


def _mark(one: Sampled, height: float, convert: Callable[[float], float]) -> Spec:
    value = one.row.value if one.row.value is not None else math.nan
    mark: Spec = {"run": one.label, "height": _digits(height), "value": _digits(convert(value))}
    if one.row.low is not None and one.row.high is not None:
        mark |= {"low": _digits(convert(one.row.low)), "high": _digits(convert(one.row.high))}
    return mark


def _in_words(one: Sampled) -> str:
    row = one.row
    value = quantity(row.value, row.unit) if row.value is not None else "n/a"
    if row.low is None or row.high is None:
        return f"{one.label}: {value} from {len(row.samples)} samples"
    interval = f"95 % interval {quantity(row.low, row.unit)} to {quantity(row.high, row.unit)}"
    return f"{one.label}: {value}, {interval}, from {len(row.samples)} samples"


def _colours(found: Sequence[Sampled]) -> Spec:
    labels = [one.label for one in found]
    scale = {"domain": labels, "range": [one.colour for one in found]}
    return {"field": "run", "type": "nominal", "scale": scale, "legend": legend_below(labels, width=WIDE, limit=240)}


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
