"""Charts of a calibration and of its forecasts: the fitted curve, left-out points, residuals, coverage, intervals.

Colours are CSS variables of the page. Families have colours of their own where there are any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgewise.formatting import amount_interval, quantity, scale_of
from edgewise.metrics import METRICS
from edgewise.predicting.base import Subject
from edgewise.predicting.calibration import Calibration, covered
from edgewise.predicting.choice import COVERAGE, MOST_REFITTED, Choice, LeftOut, Prediction, leave_out
from edgewise.predicting.forecast import Forecast, Forecasts
from edgewise.report import charts
from edgewise.report.charts.texts import Spec, legend_below
from edgewise.report.document.names import short_names
from edgewise.text import one_line

MOST_ROWS = 40
CURVE_STEPS = 24
MANY = 20
"""Points below which the share inside an interval says little."""
BEYOND = 3.0
"""An axis ends at most this factor beyond its points: wider intervals are cut there."""
_NO_FAMILY = "no family"


def validation_charts(calibration: Calibration) -> list[charts.Chart | None]:
    """For each metric, how well the chosen law predicts models that it was not fitted to."""
    found: list[charts.Chart | None] = []
    for metric, choice in calibration.choices.items():
        left_out = leave_out(choice.chosen, choice.points)
        drawn = [
            left_out_chart(metric, choice, left_out),
            curve_chart(metric, choice),
            coverage_chart(left_out),
            residual_chart(left_out, choice),
        ]
        several = f"{METRICS[metric].label}: " if len(calibration.choices) > 1 else ""
        found += [each and replace(each, title=several + each.title) for each in drawn]
    return found


def curve_chart(metric: str, choice: Choice) -> charts.Chart | None:
    """Return the law as a curve over this machine's value; None where it needs more of a model than that value."""
    hosts = [point.subject.host for point in choice.points if point.subject.host]
    if len(hosts) < len(choice.points) or choice.chosen.lacking(Subject(name="", host=1.0)):
        return None
    ends = (min(hosts) / 1.5, max(hosts) * 1.5)
    steps = np.geomspace(*ends, CURVE_STEPS).tolist()
    curve = choice.predict([Subject(name="", host=host) for host in steps])
    values = [*(point.value for point in choice.points), *(row.value for row in curve)]
    (x, to_x), (y, to_y) = (
        _axis("x", metric, "on this machine", ends),
        _axis("y", metric, "on the device", values, curve),
    )
    band = [
        {"x": to_x(host), "y": to_y(row.value), "low": to_y(row.low), "high": to_y(row.high)}
        for host, row in zip(steps, curve, strict=True)
    ]
    points = [
        {"x": to_x(host), "y": to_y(point.value), "family": _family(point.subject)}
        for host, point in zip(hosts, choice.points, strict=True)
    ]
    equation = choice.chosen.fitted.equation if choice.chosen.fitted else ""
    edges = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return charts.scatter_chart(
        "Fitted curve",
        points,
        x=x,
        y=y,
        colour=_colours(choice),
        lines=[
            charts.layer("area", edges, band, opacity=0.15, color=charts.SOFT),
            charts.layer("line", {"x": x, "y": y}, band, color=charts.INK),
        ],
        description=f"{choice.chosen.predictor.name}: {equation}; " + _in_words(metric, choice),
        caption=f"{choice.chosen.predictor.name}: {equation}. The band is the {COVERAGE:.0%} interval of a new model.",
    )


def left_out_chart(metric: str, choice: Choice, left_out: Sequence[LeftOut]) -> charts.Chart:
    """Return the measured values over those that were predicted without them."""
    found = [row.prediction() for row in left_out]
    values = [*(row.value for row in found), *(row.point.value for row in left_out)]
    (x, to_x), (y, to_y) = (
        _axis(field, metric, word, values, found) for field, word in (("x", "predicted"), ("y", "measured"))
    )
    rows = [
        {
            "x": to_x(each.value), "low": to_x(each.low), "high": to_x(each.high),
            "y": to_y(row.point.value), "family": _family(row.point.subject),
        }
        for row, each in zip(left_out, found, strict=True)
    ]  # fmt: skip
    ends = [{"x": end, "y": end} for end in x["scale"]["domain"]]
    return charts.scatter_chart(
        "Predicted and measured",
        rows,
        x=x,
        y=y,
        colour=_colours(choice),
        lines=[charts.layer(charts.DASHED, {"x": x, "y": y}, ends)],
        description=_in_words(metric, choice),
        caption=f"Each model is predicted by {choice.chosen.predictor.name}, fitted without it; bars are its "
        f"{COVERAGE:.0%} intervals. On the dashed line a prediction came true. Both axes are logarithmic."
        + _cut(found, values),
    )


def residual_chart(left_out: Sequence[LeftOut], choice: Choice) -> charts.Chart:
    """Measured over predicted value of left-out points, by family, or by model where no family is given."""
    by_family = any(row.point.subject.family for row in left_out)
    keys = [
        _family(row.point.subject) if by_family else f"{row.point.subject.name}{at}" for at, row in enumerate(left_out)
    ]
    drawn = list(dict.fromkeys(keys))[:MOST_ROWS]
    labels = drawn if by_family else [one_line(row.point.subject.name) for row in left_out[:MOST_ROWS]]
    shown = {
        key: f"{name}{charts.KEEP_APART}{at}"
        for at, (key, name) in enumerate(zip(drawn, short_names(labels, 34), strict=True))
    }
    rows: list[Spec] = [
        {
            "row": shown[key],
            "x": charts.rounded(row.point.value / math.exp(row.log)),
            "family": _family(row.point.subject),
        }
        for key, row in zip(keys, left_out, strict=True)
        if key in shown
    ]
    x, _ = _logarithmic("x", "measured / predicted", [*(float(row["x"]) for row in rows), 0.8, 1.25])
    return charts.intervals_chart(
        f"Residuals by {'family' if by_family else 'model'}",
        rows,
        x=x,
        y=charts.name_axis("row", list(shown.values()), limit=260),
        colour={**_colours(choice), "legend": None},
        at=charts.lines_at({"x": x}, [1.0], color=charts.RULE, strokeDash=[]),
        step=26,
        description="; ".join(
            f"{one_line(row.point.subject.name)}: {row.point.value / math.exp(row.log):.3g}" for row in left_out
        ),
        caption="Measured over predicted value of left-out models: to the right of the line, a model takes more than "
        "predicted. The axis is logarithmic."
        + (f" Not drawn: {len(left_out) - len(rows)} more models." if len(rows) < len(left_out) else ""),
    )


def coverage_chart(left_out: Sequence[LeftOut]) -> charts.Chart:
    """Return the share of left-out points inside intervals of several widths."""
    rows = [{"x": charts.rounded(row["nominal"]), "y": charts.rounded(row["share"])} for row in covered(left_out)]
    x, y = (
        charts.number_axis(field, title, domain=[low, 1.0], nice=False)
        | {"axis": {"format": "%", "values": [at / 10 for at in range(round(10 * low), 11)]}}
        for field, title, low in (("x", "nominal coverage", 0.4), ("y", "share of models inside", 0.0))
    )
    without = "coefficients and error were" if len(left_out) <= MOST_REFITTED else "coefficients were"
    diagonal = [{"x": end, "y": end} for end in (0.4, 1.0)]
    return charts.scatter_chart(
        "Coverage of the intervals",
        rows,
        x=x,
        y=y,
        lines=[
            charts.layer(charts.DASHED, {"x": x, "y": y}, diagonal),
            charts.layer("line", {"x": x, "y": y}, color=charts.colour_of(0)),
        ],
        intervals=(),
        description="; ".join(f"{row['y']:.0%} inside intervals of {row['x']:.0%}" for row in rows),
        caption=f"Intervals of {len(left_out)} left-out models: {without} found without the model; the law was chosen "
        "with all of them. Above the dashed line, intervals are wider than they need to be."
        + (f" {len(left_out)} models tell little about coverage." if len(left_out) < MANY else ""),
    )


def forecast_chart(found: Forecasts, metric: str) -> charts.Chart | None:
    """Draw predicted values with intervals, smallest first; None where no model has a predicted value."""
    known = [(row, row.prediction) for row in found.of(metric) if row.prediction is not None]
    drawn = known[:MOST_ROWS]
    if not drawn:
        return None
    predictions = [prediction for _, prediction in drawn]
    target = found.targets.get(metric)
    values = [*(each.value for each in predictions), *([target] if target else [])]
    x, to_x = _axis("x", metric, "", values, predictions)
    names = short_names([one_line(row.subject.name) for row, _ in drawn], 34)
    rows: list[Spec] = [
        {"row": f"{name}{charts.KEEP_APART}{at}", "x": to_x(each.value), "low": to_x(each.low), "high": to_x(each.high)}
        for at, (name, each) in enumerate(zip(names, predictions, strict=True))
    ]
    left, refused = len(known) - len(drawn), len(found.of(metric)) - len(known)
    return charts.intervals_chart(
        f"{METRICS[metric].label} of the models",
        rows,
        x=x,
        y=charts.name_axis("row", [str(row["row"]) for row in rows], limit=260),
        at=charts.lines_at({"x": x}, [to_x(target)]) if target else None,
        step=30,
        description="; ".join(_forecast_in_words(row, metric) for row, _ in drawn),
        caption=f"The dot is the prediction, the bar its {COVERAGE:.0%} interval. The axis is logarithmic."
        + (" The dashed line is the target." if target else "")
        + _cut(predictions, values)
        + (f" Not drawn: {left} more." if left else "")
        + (f" Refused: {refused}." if refused else ""),
    )


def _forecast_in_words(row: Forecast, metric: str) -> str:
    this, unit = row.prediction, METRICS[metric].unit
    assert this is not None
    ends = amount_interval(unit, this.value, this.low, this.high)
    return f"{one_line(row.subject.name)}: {quantity(this.value, unit)}, {COVERAGE:.0%} interval {ends}"


def _in_words(metric: str, choice: Choice) -> str:
    def told(value: float) -> str:
        return quantity(value, METRICS[metric].unit)

    return "; ".join(
        f"{one_line(point.subject.name)}: {told(point.value)} measured, {told(value)} predicted"
        for point, value in zip(choice.points, choice.chosen.left_out.tolist(), strict=True)
        if math.isfinite(value)
    )


def _family(subject: Subject) -> str:
    return one_line(subject.family) or _NO_FAMILY


def _colours(choice: Choice) -> Spec:
    """Return a colour for each family, with a legend where there are several; one colour where there are too many."""
    families = list(dict.fromkeys(_family(point.subject) for point in choice.points))
    legend = legend_below(families, width=charts.NARROW) if 1 < len(families) <= charts.SERIES_COLOURS else None
    return charts.colour_channel(
        "family", {name: charts.colour_of(at) for at, name in enumerate(families)}, legend=legend
    )


def _axis(
    field: str, metric: str, word: str, values: Sequence[float], intervals: Sequence[Prediction] = ()
) -> tuple[Spec, Callable[[float], float]]:
    """Return the logarithmic channel of `metric`, and the function from SI to its unit, cut at the ends of the axis."""
    convert, unit = scale_of(metric, METRICS[metric].unit, values)
    lower = max(min([*values, *(each.low for each in intervals)]), min(values) / BEYOND)
    upper = min(max([*values, *(each.high for each in intervals)]), max(values) * BEYOND)
    title = " ".join(part for part in (METRICS[metric].label, word, f"({unit})") if part)
    return _logarithmic(field, title, [convert(lower), convert(upper)], convert)


def _logarithmic(
    field: str, title: str, values: Sequence[float], convert: Callable[[float], float] = float
) -> tuple[Spec, Callable[[float], float]]:
    lower, upper = min(values) / 1.1, max(values) * 1.1
    return charts.logarithmic_axis(field, title, lower, upper), lambda value: charts.rounded(
        min(max(convert(value), lower), upper)
    )


def _cut(found: Sequence[Prediction], values: Sequence[float]) -> str:
    beyond = sum(each.low < min(values) / BEYOND or each.high > max(values) * BEYOND for each in found)
    return f" Wider than the axis and cut: {beyond} intervals." if beyond else ""
