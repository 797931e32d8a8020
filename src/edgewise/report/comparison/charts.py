"""Charts of a comparison as data: samples, processes in their order, ratios with intervals.

As in all charts, colours are CSS variables of the page, and what is left out of a drawing is said in its caption.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from edgewise.comparing.comparison import Comparison, ComparisonResult, Variant
from edgewise.formatting import percent, quantity, ratio_text
from edgewise.record import Measurement
from edgewise.report import charts
from edgewise.report.bench.charts import Series, distribution_chart
from edgewise.report.charts.texts import Spec, legend_below
from edgewise.report.comparison.words import verdict_text
from edgewise.report.document.names import distinct_names
from edgewise.report.runs.cells import label_of
from edgewise.text import one_line

LEAST_SAMPLES = 9
"""Fewer make no distribution."""
_COLOURS = {"faster": "var(--good)", "slower": "var(--bad)", "same": charts.INK, "inconclusive": charts.SOFT}


def sampled_variants(findings: ComparisonResult) -> list[Series]:
    """Variants with samples of the metric that the baseline is about, in their order."""
    metrics = [variant.run.headline for variant in findings.variants[:1]]
    series = [
        Series(run=variant.run, label=label, colour=charts.colour_of(index))
        for index, (variant, label) in enumerate(zip(findings.variants, chart_labels(findings.variants), strict=True))
    ]
    return [
        one for one in series
        if one.run.headline in metrics and one.row is not None and len(one.row.samples) >= LEAST_SAMPLES
    ]  # fmt: skip


def chart_labels(variants: Sequence[Variant]) -> list[str]:
    """Short names that differ from each other."""
    return distinct_names([variant.label for variant in variants])


def samples_chart(findings: ComparisonResult) -> charts.Chart | None:
    """Return samples, middle half and interval of every variant on one axis; None where no variant has samples."""
    found = sampled_variants(findings)
    chart = distribution_chart(found, zoomed=True)
    if chart is None:
        return None
    title = f"{label_of(found[0].run.headline)}: samples"
    return replace(chart, title=title, caption=chart.caption + _left_out(findings, found))


def process_chart(findings: ComparisonResult) -> charts.Chart | None:
    """Return the median of each fresh process, in the order they were measured; None where no variant has several."""
    found = [
        (one, row)
        for one in sampled_variants(findings)
        if (row := one.row) and len(row.session_lengths) > 1 and sum(row.session_lengths) == len(row.samples)
    ]
    if not found:
        return None
    metric, unit = found[0][1].metric, found[0][1].unit
    medians = {one.label: _medians(row) for one, row in found}
    colours = {one.label: one.colour for one, _ in found}
    rows = [
        {"run": label, "process": place, "x": charts.rounded((value / statistics.median(values) - 1.0) * 100.0)}
        for label, values in medians.items()
        for place, value in enumerate(values, 1)
        if statistics.median(values) > 0.0
    ]
    most = max(map(len, medians.values()))
    designs = {row.design for row in findings.comparisons if row.metric == metric}
    paired = designs == {"interleaved"}
    ticks = {"axis": {"values": list(range(1, most + 1, max(1, -(-most // 10)))), "format": "d"}}
    order = "in the order they were measured."
    if paired:
        order = "those with one number were measured together: where they move together, the machine moved under both."
    return charts.series_chart(
        f"{label_of(metric)}: process by process",
        rows,
        x=charts.number_axis("process", "fresh process", nice=False, zero=False) | ticks,
        y=charts.number_axis("x", "off its own median (%)", ticks=5),
        colour=charts.colour_channel("run", colours, legend=legend_below(list(colours), width=charts.WIDE, limit=240)),
        line={"strokeWidth": 1.2, "opacity": 0.6} if paired else None,
        point={"size": 55, "opacity": 0.9},
        height=190,
        description="; ".join(
            f"{label}: {len(values)} processes, medians {quantity(min(values), unit)} to {quantity(max(values), unit)}"
            for label, values in medians.items()
        ),
        caption="Each dot is the median of one fresh process, as a deviation from the median of all processes of its "
        f"variant; {order}" + _left_out(findings, [one for one, _ in found]),
    )


def _medians(row: Measurement) -> list[float]:
    medians, start = [], 0
    for length in row.session_lengths:
        if length:
            medians.append(statistics.median(row.samples[start : start + length]))
        start += length
    return medians


def forest_chart(findings: ComparisonResult) -> charts.Chart | None:
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
    x = charts.logarithmic_axis("ratio", "after / before", lower / room, upper * room)
    missing = len(findings.comparisons) - len(known)
    margins = list(dict.fromkeys(percent(row.margin) for row in known if row.margin is not None))
    band = f" (± {margins[0]})" if len(margins) == 1 else ""
    return charts.intervals_chart(
        "Ratios",
        rows,
        x=x,
        y=charts.name_axis("row", [row["row"] for row in rows], limit=300),
        colour=charts.colour_channel("verdict", _COLOURS),
        at=charts.lines_at({"x": x}, [1]),
        words="words",
        step=44,
        description="; ".join(map(_ratio_in_words, known)),
        caption="The dot is the ratio, after over before, the bar its 95 % interval, the dashed line no difference, "
        f"the band what is too small to matter{band}. The axis is logarithmic."
        + (f" Without a ratio: {missing}." if missing else ""),
    )


def _ratio_in_words(row: Comparison) -> str:
    name = f"{one_line(row.b)}, {label_of(row.metric)}"
    return f"{name}: {ratio_text(row.ratio, row.low, row.high)}, {verdict_text(row)}"


def _forest_row(row: Comparison, name: str, place: int) -> Spec:
    ratio = row.ratio if row.ratio is not None else math.nan
    told: Spec = {"row": f"{name}{charts.KEEP_APART}{place}", "ratio": ratio, "verdict": row.verdict, "words": row.word}
    if row.verdict in ("faster", "slower"):
        told["words"] = verdict_text(row)
    if row.low is not None and row.high is not None and row.low > 0.0:
        told |= {"low": row.low, "high": row.high}
    if row.margin is not None:
        told |= {"from": 1.0 / (1.0 + row.margin), "to": 1.0 + row.margin}
    return {key: charts.rounded(item) if isinstance(item, float) else item for key, item in told.items()}


def _left_out(findings: ComparisonResult, found: Sequence[Series]) -> str:
    drawn = {one.label for one in found}
    names = [name for name in chart_labels(findings.variants) if name not in drawn]
    return f" Not drawn, without enough samples: {', '.join(names)}." if names else ""


CHARTS = (samples_chart, process_chart, forest_chart)
"""In the order of the page."""
