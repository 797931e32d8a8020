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

from edgewise.comparing.comparison import Comparison, ComparisonResult, Variant
from edgewise.formatting import percent, quantity, ratio_text, scale_of
from edgewise.record import Measurement
from edgewise.report.cells import label_of
from edgewise.report.chart_text import Spec, legend_below
from edgewise.report.charts import (
    INK,
    KEEP_APART,
    RULE,
    SOFT,
    WIDE,
    Chart,
    colour_channel,
    colour_of,
    interval_lines,
    name_axis,
    number_axis,
    rounded,
    wide_chart,
)
from edgewise.report.comparison_words import verdict_text
from edgewise.report.names import distinct_names
from edgewise.text import one_line

OUTLINE_POINTS = 140
LEAST_SAMPLES = 9
"""Fewer make no distribution."""
LOGARITHMIC_FROM = 6.0
"""Ratio of the longest to the shortest time from which on the axis is logarithmic."""
_COLOURS = {"faster": "var(--good)", "slower": "var(--bad)", "same": INK, "inconclusive": SOFT}

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


def sampled_variants(findings: ComparisonResult) -> list[Sampled]:
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
    """Short names that differ from each other."""
    return distinct_names([variant.label for variant in variants])


def overlay_chart(findings: ComparisonResult) -> Chart | None:
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
            {"run": one.label, "x": rounded(convert(at)), "height": rounded(height)}
            for at, height in _outline(samples, lower, upper, logarithmic=logarithmic)
        ]
    lane = 0.09
    marks = [_mark(one, -lane * (place + 0.75), convert) for place, one in enumerate(found)]
    ends = [rounded(convert(lower)), rounded(convert(upper))]
    kind = "log" if logarithmic else "linear"
    x = number_axis("x", f"{label_of(metric)} ({name})", ticks=8, type=kind, domain=ends, nice=False, zero=False)
    y = number_axis("height", None, domain=[-lane * (len(found) + 0.4), 1.05], nice=False) | {"axis": None}
    colour = _colours(found)
    beyond = sum(int(((samples < lower) | (samples > upper)).sum()) for samples in values)
    layers: list[Spec] = [
        {"data": {"values": outlines}, "mark": {"type": "area", "opacity": 0.22},
         "encoding": {"x": x, "y": {**y, "stack": None}, "color": colour}},
        {"data": {"values": outlines}, "mark": {"type": "line", "strokeWidth": 1.8},
         "encoding": {"x": x, "y": y, "color": colour}},
        {"data": {"values": marks}, **interval_lines({"x": x, "y": y, "color": colour}, strokeWidth=6)},
        {"data": {"values": marks}, "mark": {"type": "tick", "thickness": 2, "size": 16, "color": INK},
         "encoding": {"x": {**x, "field": "value"}, "y": y}},
    ]  # fmt: skip
    total = sum(len(samples) for samples in values)
    return wide_chart(
        f"{label_of(metric)}: all samples",
        layers,
        height=230,
        description="; ".join(_in_words(one) for one in found),
        caption="Outlines of the samples' density, each as high as the others whatever its number of samples. Below: "
        "the headline value and its own 95 % interval."
        + (" The axis is logarithmic." if logarithmic else "")
        + (f" {beyond} of {total} samples lie beyond the axis." if beyond else "")
        + _left_out(findings, found),
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


def process_chart(findings: ComparisonResult) -> Chart | None:
    """The median of each fresh process, in the order they were measured; None where no variant has several."""
    found = [one for one in sampled_variants(findings) if len(one.row.session_lengths) > 1
             and sum(one.row.session_lengths) == len(one.row.samples)]  # fmt: skip
    if not found:
        return None
    metric = found[0].row.metric
    medians = {one.label: _medians(one.row) for one in found}
    rows = [
        {"run": label, "process": place, "x": rounded((value / statistics.median(values) - 1.0) * 100.0)}
        for label, values in medians.items()
        for place, value in enumerate(values, 1)
        if statistics.median(values) > 0.0
    ]
    most = max(map(len, medians.values()))
    designs = {row.design for row in findings.comparisons if row.metric == metric}
    paired = bool(designs) and designs <= {"interleaved", "duet"}
    ticks = {"axis": {"values": list(range(1, most + 1, max(1, -(-most // 10)))), "format": "d"}}
    encoding = {
        "x": number_axis("process", "fresh process", nice=False, zero=False) | ticks,
        "y": number_axis("x", "off its own median (%)", ticks=5),
        "color": _colours(found),
    }
    layers: list[Spec] = [{"mark": {"type": "circle", "size": 55, "opacity": 0.9}, "encoding": encoding}]
    if paired:
        layers.insert(0, {"mark": {"type": "line", "strokeWidth": 1.2, "opacity": 0.6}, "encoding": encoding})
    order = "in the order they were measured."
    if paired:
        order = "those with one number were measured together: where they move together, the machine moved under both."
    return wide_chart(
        f"{label_of(metric)}: process by process",
        layers,
        height=190,
        rows=rows,
        description="; ".join(
            f"{label}: {len(values)} processes, medians {quantity(min(values), found[0].row.unit)} to "
            f"{quantity(max(values), found[0].row.unit)}"
            for label, values in medians.items()
        ),
        caption="Each dot is the median of one fresh process, as a deviation from the median of all processes of its "
        f"variant; {order}" + _left_out(findings, found),
    )


def _medians(row: Measurement) -> list[float]:
    medians, start = [], 0
    for length in row.session_lengths:
        if length:
            medians.append(statistics.median(row.samples[start : start + length]))
        start += length
    return medians


def forest_chart(findings: ComparisonResult) -> Chart | None:
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
    ends = [rounded(lower / room), rounded(upper * room)]
    x = number_axis("ratio", "after / before", type="log", domain=ends, nice=False)
    x["axis"] = {"values": _ticks(lower / room, upper * room), "format": "~g"}
    y = name_axis("row", [row["row"] for row in rows], limit=300)
    colour = colour_channel("verdict", _COLOURS)
    channels, words = {"x": x, "y": y}, {"field": "words", "type": "nominal"}
    label = {"type": "text", "dy": -14, "fontSize": 11}
    layers: list[Spec] = [
        {"transform": [{"filter": "isValid(datum.from)"}], "mark": {"type": "bar", "height": 26, "color": RULE},
         "encoding": {"y": y, "x": {**x, "field": "from"}, "x2": {"field": "to"}}},
        {"data": {"values": [{"one": 1}]}, "mark": {"type": "rule", "color": INK, "strokeDash": [4, 3]},
         "encoding": {"x": {**x, "field": "one"}}},
        interval_lines({**channels, "color": colour}),
        {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
         "encoding": {**channels, "color": colour}},
        {"mark": {**label, "stroke": "var(--paper)", "strokeWidth": 4}, "encoding": {**channels, "text": words}},
        {"mark": label, "encoding": {**channels, "color": colour, "text": words}},
    ]  # fmt: skip
    missing = len(findings.comparisons) - len(known)
    return wide_chart(
        "Ratios",
        layers,
        height={"step": 44},
        rows=rows,
        description="; ".join(map(_ratio_in_words, known)),
        caption="The dot is the ratio, the bar its 95 % interval, the dashed line no difference, the band what is too "
        f"small to matter{_bands(known)}. The axis is logarithmic."
        + (f" Without a ratio: {missing}." if missing else ""),
    )


def _ratio_in_words(row: Comparison) -> str:
    name = f"{one_line(row.b)}, {label_of(row.metric)}"
    return f"{name}: {ratio_text(row.ratio, row.low, row.high)}, {verdict_text(row)}"


def _forest_row(row: Comparison, name: str, place: int) -> Spec:
    ratio = row.ratio if row.ratio is not None else math.nan
    told: Spec = {"row": f"{name}{KEEP_APART}{place}", "ratio": ratio, "verdict": row.verdict, "words": row.word}
    if row.verdict in ("faster", "slower"):
        told["words"] = verdict_text(row)
    if row.low is not None and row.high is not None and row.low > 0.0:
        told |= {"low": row.low, "high": row.high}
    if row.margin is not None:
        told |= {"from": 1.0 / (1.0 + row.margin), "to": 1.0 + row.margin}
    return {key: rounded(item) if isinstance(item, float) else item for key, item in told.items()}


def _bands(rows: Sequence[Comparison]) -> str:
    margins = list(dict.fromkeys(percent(row.margin) for row in rows if row.margin is not None))
    return f" (± {margins[0]})" if len(margins) == 1 else ""


def _ticks(lower: float, upper: float) -> list[float]:
    """Round ratios for the ticks between `lower` and `upper`."""
    span = upper / lower
    if span > 1e3:
        powers = range(math.floor(math.log10(lower)), math.ceil(math.log10(upper)) + 1)
        chosen = [10.0**power for power in powers if power % max(1, len(powers) // 8) == 0]
    else:
        chosen = next(values for most, values in _TICKS if span < most)
    return [value for value in chosen if lower <= value <= upper]


def _left_out(findings: ComparisonResult, found: Sequence[Sampled]) -> str:
    drawn = {one.label for one in found}
    names = [name for name in chart_labels(findings.variants) if name not in drawn]
    return f" Not drawn, without enough samples: {', '.join(names)}." if names else ""


def _mark(one: Sampled, height: float, convert: Callable[[float], float]) -> Spec:
    value = one.row.value if one.row.value is not None else math.nan
    mark: Spec = {"run": one.label, "height": rounded(height), "value": rounded(convert(value))}
    if one.row.low is not None and one.row.high is not None:
        mark |= {"low": rounded(convert(one.row.low)), "high": rounded(convert(one.row.high))}
    return mark


def _in_words(one: Sampled) -> str:
    row = one.row
    value = quantity(row.value, row.unit) if row.value is not None else "n/a"
    if row.low is None or row.high is None:
        return f"{one.label}: {value} from {len(row.samples)} samples"
    interval = f"95 % interval {quantity(row.low, row.unit)} to {quantity(row.high, row.unit)}"
    return f"{one.label}: {value}, {interval}, from {len(row.samples)} samples"


def _colours(found: Sequence[Sampled]) -> Spec:
    colours = {one.label: one.colour for one in found}
    return colour_channel("run", colours, legend=legend_below(list(colours), width=WIDE, limit=240))
