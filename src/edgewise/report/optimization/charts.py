"""Charts of a search as data: speed against accuracy, what was predicted against what was measured, fragile layers.

As in all charts, colours are CSS variables of the page, and what is left out of a drawing is said in its caption.
Points have the numbers of the table's rows: names of variants are long and would cover each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from edgewise.formatting import quantity, scale_of, with_range
from edgewise.metrics import METRICS
from edgewise.optimizing.variant import Candidate, MetricValue, Optimization
from edgewise.report import charts
from edgewise.report.charts.pareto import BOTH, LEGEND, Convert, fields_of, numbers_beside, pareto_chart
from edgewise.report.charts.texts import Spec
from edgewise.report.comparison.words import lower_label
from edgewise.report.document.names import short_names
from edgewise.report.optimization.elsewhere import titled
from edgewise.report.optimization.tables import compared_metrics, ordered_candidates
from edgewise.report.optimization.words import number_of, speedup_text, verdict_of
from edgewise.report.runs.cells import label_of
from edgewise.text import one_line

MOST_BARS = 40
_KINDS: dict[str, str] = {
    "original": charts.INK, "chosen": "var(--good)", "accepted": "var(--series-1)", "not accepted": "var(--series-2)",
}  # fmt: skip
_COLOUR = charts.colour_channel("kind", _KINDS, legend=LEGEND)


def front_chart(result: Optimization) -> charts.Chart | None:
    """Latency against accuracy, or against size where there is none; None where fewer than two were raced."""
    every = ordered_candidates(result)
    other = result.headline or "model_size"
    first = compared_metrics(result)[0]
    found = [
        (place, one)
        for place, one in enumerate(every)
        if _number(result, one, first).value is not None and number_of(one, other).value is not None
    ]
    if len(found) < 2:
        return None
    x_scale, y_scale = _axis_scale(result, first, found), _axis_scale(result, other, found)
    axes = {"x": (first, x_scale[0]), "y": (other, y_scale[0])}
    rows = [_point(result, one, place, axes) for place, one in found]
    size = {"field": "size", "type": "quantitative", "legend": None,
            "scale": {"type": "linear", "domainMin": 0, "range": [25, 420]}}  # fmt: skip
    left = len(every) - len(found)
    short = sum(one.stage == "screened" for _, one in found)
    intervals = "intervals of the estimates" if result.device else "95 % intervals"
    return pareto_chart(
        rows,
        x_name=titled(result, first, label_of(first)),
        x_unit=x_scale[1],
        metric=other,
        y_unit=y_scale[1],
        colour=_COLOUR,
        size=size,
        description="; ".join(_point_in_words(result, one, first, other) for _, one in found),
        caption=f"Numbers are those of the table, 0 is the original; bars are {intervals}, areas are sizes of files; "
        "the dashed line joins the Pareto front."
        + (f" By their ratio in a short race, without an interval: {short}." if short else "")
        + (f" Not drawn, because their {lower_label(first)} is not known: {left} of {len(every)}." if left else ""),
    )


def _number(result: Optimization, one: Candidate, metric: str) -> MetricValue:
    """As `number_of`; the latency of a variant that lost the short race follows from its ratio there."""
    number, ratio = number_of(one, metric), number_of(one, "speedup")
    whole = number_of(result.baseline, "latency").value
    if metric != "latency" or one.stage != "screened" or not ratio.value or not whole:
        return number
    return MetricValue(value=whole / ratio.value, basis="derived", method=ratio.method)


def _axis_scale(result: Optimization, metric: str, found: Sequence[tuple[int, Candidate]]) -> tuple[Convert, str]:
    values = [value for _, one in found if (value := _number(result, one, metric).value) is not None]
    return scale_of(metric, METRICS[metric].unit, values)


def _kind(result: Optimization, one: Candidate) -> str:
    verdict = verdict_of(result, one)
    return verdict if verdict in _KINDS else "not accepted"


def _point(result: Optimization, one: Candidate, place: int, axes: Mapping[str, tuple[str, Convert]]) -> Spec:
    """Return a row of the scatter; `axes` has field → metric and its scale."""
    size = number_of(one, "model_size").value
    row: Spec = {"n": place, "kind": _kind(result, one), "front": one.id in result.front, "size": size or 0.0}
    for field, (metric, convert) in axes.items():
        row |= _fields(field, _number(result, one, metric), convert)
    return row


def _fields(axis: str, number: MetricValue, convert: Convert) -> Spec:
    assert number.value is not None
    return fields_of(axis, number.value, number.low, number.high, convert)


def _point_in_words(result: Optimization, one: Candidate, first: str, other: str) -> str:
    latency, second = _number(result, one, first), number_of(one, other)
    words = with_range(other, METRICS[other].unit, second.value, second.low, second.high)
    size = number_of(one, "model_size").value
    told = f", {quantity(size, 'B')}" if size is not None and other != "model_size" else ""
    front = ", on the front" if one.id in result.front else ""
    time = with_range(first, METRICS[first].unit, latency.value, latency.low, latency.high)
    return f"{one_line(one.id)} ({verdict_of(result, one)}): {time}, {words}{told}{front}"


def prediction_chart(result: Optimization) -> charts.Chart | None:
    """Return the predicted against the measured speed-up; None where no variant has both."""
    found: list[tuple[int, Candidate, MetricValue, MetricValue]] = []
    for place, one in enumerate(ordered_candidates(result)):
        told, speed = one.predicted, number_of(one, "speedup")
        if told is not None and told.speedup and speed.value and told.speedup > 0.0 < speed.value:
            predicted = MetricValue(value=told.speedup, low=told.low, high=told.high)
            found.append((place, one, predicted, speed))
    if not found:
        return None
    rows: list[Spec] = [
        {"n": place, "kind": _kind(result, one), **_fields("x", predicted, float), **_fields("y", speed, float)}
        for place, one, predicted, speed in found
    ]
    rows = [{key: value for key, value in row.items() if key in ("n", "kind") or value > 0.0} for row in rows]
    ends = [row[key] for row in rows for key in ("x", "xlow", "xhigh", "y", "ylow", "yhigh") if key in row]
    lower, upper = min(*ends, 0.9) / 1.08, max(*ends, 1.1) * 1.08
    x, y = (
        charts.logarithmic_axis(field, f"{word} speed-up", lower, upper)
        for field, word in (("x", "predicted"), ("y", "measured"))
    )
    diagonal = [{"x": end, "y": end} for end in (charts.rounded(lower), charts.rounded(upper))]
    left = len(result.candidates) - len(found)
    own = {"color": charts.RULE, "strokeWidth": 1.5, "strokeDash": []}
    return charts.scatter_chart(
        "Predicted and measured speed-up",
        rows,
        x=x,
        y=y,
        colour=_COLOUR,
        lines=[
            charts.lines_at({"x": x}, [1.0], **own),
            charts.lines_at({"y": y}, [1.0], **own),
            charts.layer(charts.DASHED, {"x": x, "y": y}, diagonal),
        ],
        intervals=BOTH,
        above=numbers_beside(rows, x, y, logarithmic=True),
        height=300,
        wide=True,
        description="; ".join(
            f"{one_line(one.id)}: predicted {speedup_text(predicted.value, predicted.low, predicted.high)}, "
            f"measured {speedup_text(speed.value, speed.low, speed.high)}"
            for _, one, predicted, speed in found
        ),
        caption="On the dashed line a prediction came true; the full lines are the original's own speed. Both axes are "
        "logarithmic, bars are 95 % intervals."
        + (f" Not drawn, because one of the two was not measured: {left}." if left else ""),
    )


def layers_chart(result: Optimization) -> charts.Chart | None:
    """How far the outputs stay the same when one layer alone is changed; None where no layer was tried."""
    known = [one for one in result.sensitivity if one.snr_db is not None and math.isfinite(one.snr_db)]
    if not known:
        return None
    drawn = known[:MOST_BARS]
    names = short_names([one_line(one.layer) for one in drawn], 34, ends=True)
    kinds = {"kept in float": "var(--bad)", "changed": "var(--series-1)"}
    rows: list[Spec] = [
        {"layer": f"{name}{charts.KEEP_APART}{place}", "snr": charts.rounded(one.snr_db or 0.0),
         "kind": "kept in float" if one.fragile else "changed"}
        for place, (one, name) in enumerate(zip(drawn, names, strict=True))
    ]  # fmt: skip
    broken = len(result.sensitivity) - len(known)
    return charts.bars_chart(
        "Layer sensitivity",
        rows,
        x=charts.number_axis("snr", "SNR of the outputs (dB)", ticks=6),
        y=charts.name_axis("layer", [row["layer"] for row in rows], limit=260),
        colour=charts.colour_channel("kind", kinds, legend={"orient": "bottom", "title": None}),
        thick=13,
        step=20,
        description="; ".join(
            f"{one_line(one.layer)}: {one.snr_db:.1f} dB{', kept in float' if one.fragile else ''}" for one in drawn
        ),
        caption="Each bar is the signal-to-noise ratio of the network's outputs when this layer alone is changed: "
        "shorter is more fragile."
        + (f" Less fragile and not drawn: {len(known) - len(drawn)}." if len(known) > len(drawn) else "")
        + (f" Without such a number, for reasons in the table: {broken}." if broken else ""),
    )


CHARTS: tuple[Callable[[Optimization], charts.Chart | None], ...] = (front_chart, prediction_chart, layers_chart)
"""In the order of the page."""
