"""The chart of two metrics against each other, with the Pareto front of its points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from edgewise.metrics import SHARES
from edgewise.report.charts import DASHED, INK, Chart, layer, legible, number_axis, rounded, scatter_chart
from edgewise.report.charts.texts import Spec
from edgewise.report.comparison.words import lower_label
from edgewise.report.runs.cells import label_of

MOST_NUMBERS = 3
"""Number of points on one place that are named."""
ON_FRONT = "var(--good)"
"""The colour of the front's points."""
LEGEND: Spec = {"orient": "bottom", "title": None, "symbolOpacity": 1, "symbolType": "circle"}
BOTH = (("x", "xlow", "xhigh"), ("y", "ylow", "yhigh"))
"""Axes with the fields of their intervals."""

Convert = Callable[[float], float]


def pareto_chart(
    rows: Sequence[Spec],
    *,
    x_name: str,
    x_unit: str,
    metric: str,
    y_unit: str,
    colour: Spec,
    size: Spec | None = None,
    description: str,
    caption: str,
) -> Chart:
    """Points with their intervals on both axes (`fields_of`), and a dashed line through those with ``front``.

    Args:
        rows: beside their fields of both axes, points have their ``n``, a text or number beside them, if any.
        x_name: what is along x.
        metric: what is along y.
    """
    x = number_axis("x", _axis_title(x_name, x_unit), ticks=7, zero=False, padding=24)
    y = number_axis("y", _axis_title(label_of(metric), y_unit), ticks=7, zero=False, padding=24)
    if metric in SHARES and max(row["yhigh" if "yhigh" in row else "y"] for row in rows) > 99.0:
        y["scale"]["domainMax"] = 100.0
    front = sorted((row for row in rows if row["front"]), key=lambda row: (row["x"], row["y"]))
    along_x = {"x": x, "y": y, "order": {"field": "x", "type": "quantitative"}}
    return scatter_chart(
        f"{x_name} against {lower_label(metric)}",
        rows,
        x=x,
        y=y,
        colour=colour,
        size=size,
        lines=[layer(DASHED, along_x, front)],
        intervals=BOTH,
        above=numbers_beside(rows, x, y),
        height=320,
        wide=True,
        description=description,
        caption=caption,
    )


def _axis_title(label: str, unit: str) -> str:
    return f"{label} ({unit})" if unit else label


def fields_of(axis: str, value: float, low: float | None, high: float | None, convert: Convert) -> Spec:
    """Return a value with its interval under the names of the fields of an axis."""
    row: Spec = {axis: rounded(convert(value))}
    if low is not None and high is not None and low < high:
        row |= {f"{axis}low": rounded(convert(low)), f"{axis}high": rounded(convert(high))}
    return row


def numbers_beside(rows: Sequence[Spec], x: Spec, y: Spec, *, logarithmic: bool = False) -> list[Spec]:
    """Numbers beside the points; of points that lie on each other all stand at one."""
    change: Convert = math.log if logarithmic else float
    spans = []
    for field in ("x", "y"):
        ends = [change(row[key]) for row in rows for key in (field, f"{field}low", f"{field}high") if key in row]
        spans.append((max(ends) - min(ends)) or 1.0)
    groups: list[list[Spec]] = []
    for row in (row for row in rows if "n" in row):
        near = (
            group for group in groups
            if abs(change(group[0]["x"]) - change(row["x"])) < 0.03 * spans[0]
            and abs(change(group[0]["y"]) - change(row["y"])) < 0.05 * spans[1]
        )  # fmt: skip
        group = next(near, [])
        if not group:
            groups.append(group)
        group.append(row)
    labels = [
        {"x": group[0]["x"], "y": group[0]["y"], "text": _together(group), "below": bool(place % 2)}
        for place, group in enumerate(sorted(groups, key=lambda group: float(group[0]["x"])))
    ]
    layers = []
    for below, shift in ((False, -10), (True, 17)):  # neighbours on either side, so that they don't cover each other
        told = [label for label in labels if label["below"] == below]
        channels = {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}}
        layers += legible(channels, told, align="left", dx=9, dy=shift, fontSize=12, color=INK)
    return layers


def _together(group: Sequence[Spec]) -> str:
    shown = ", ".join(str(row["n"]) for row in group[:MOST_NUMBERS])
    rest = len(group) - MOST_NUMBERS
    return f"{shown} and {rest} more" if rest > 0 else shown
