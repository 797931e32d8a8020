"""A model over time: one metric under one setting, with intervals, and what changed between the runs."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.errors import StoreError
from edgewise.formatting import range_text, scale_of, value_text
from edgewise.report.cells import label_of
from edgewise.stats.level_changes import level_changes
from edgewise.store.codec import parse_time
from edgewise.studio.pages import page
from edgewise.studio.studio import studio_of
from edgewise.studio.views.runs import GRADE_TONES, link
from edgewise.text import for_csv

if TYPE_CHECKING:
    from edgewise.store import Store
    from edgewise.store.tables import RunRow

MOST = 2_000
"""Runs of a model that are looked at, the newest."""
BREAKS = {"version": "runtime version", "machine": "machine", "sha256": "model file"}
"""What makes the runs before and after it hard to compare."""


def settings_of(row: RunRow) -> str:
    """The settings that only runs of one trend share."""
    threads = f"{row.threads or 'default'} thread{'' if row.threads == 1 else 's'}"
    return ", ".join(filter(None, (row.provider, threads, row.precision, f"batch {row.batch}", row.scenario)))


CHOICES: Mapping[str, Callable[[RunRow], str]] = {
    "runtime": lambda row: row.runtime,
    "device": lambda row: row.device,
    "shapes": lambda row: row.shapes or "unknown",
    "settings": settings_of,
}


def trend(request: Request) -> Response:
    """The trend of the model in the query; what the query leaves open is as in its newest run."""
    store, query = studio_of(request).store, request.query_params
    model, metric = query.get("model", ""), query.get("metric") or None
    found = store.trend(model, metric=metric, limit=MOST)
    rows = [row for row in found.points if metric is not None or row.metric == found.points[0].metric]
    metrics = _metrics_of(store, rows[0]) if rows else []
    choices = []
    for name, of in CHOICES.items():
        wanted = query.get(name) or (of(rows[0]) if rows else "")
        choices.append((name, wanted, Counter(map(of, rows)).most_common()))
        rows = [row for row in rows if of(row) == wanted]
    rows.reverse()
    if query.get("format") == ".csv":
        headers = {"content-disposition": "attachment; filename=trend.csv"}
        return Response(_csv(rows), media_type="text/csv; charset=utf-8", headers=headers)
    chosen, si = (rows[0].metric or "", rows[0].unit or "1") if rows else (metric or "", "1")
    scale, unit = scale_of(chosen, si, [row.value or 0 for row in rows])
    points = [_point(row, before, scale) for before, row in zip([None, *rows], rows, strict=False)]
    _mark_changes(points, chosen, si)
    return page(
        request,
        "trend.html.jinja",
        title=f"{model} over time" if model else "A model over time",
        styles=("vendor/uPlot.css", "history.css"),
        scripts=("trend.js",),
        model=model,
        metric=chosen,
        metrics=[(one, label_of(one)) for one in metrics],
        choices=choices,
        label=f"{label_of(chosen)} ({unit})" if unit else label_of(chosen),
        points=points,
        drawing=_drawing(points),
        link=partial(link, request),
        tones=GRADE_TONES,
        more=found.more,
        most=MOST,
    )


def _metrics_of(store: Store, newest: RunRow) -> list[str]:
    """The metrics that the newest run has a value of; its headline alone where its document can't be read."""
    try:
        return [row.metric for row in store.get(newest.id).measurements if row.value is not None]
    except StoreError:
        return [newest.metric or ""]


def _point(row: RunRow, before: RunRow | None, scale: Callable[[float], float]) -> dict[str, Any]:
    """What the table and the chart need of a run; numbers are in the chart's unit."""
    metric, unit = row.metric or "", row.unit or "1"
    numbers = {"v": row.value, "low": row.low, "high": row.high}
    broken = [
        f"{title}: {getattr(before, name)} → {getattr(row, name)}"
        for name, title in BREAKS.items()
        if before is not None and getattr(before, name) != getattr(row, name)
    ]
    return {
        "row": row,
        "t": parse_time(row.created_at).timestamp(),
        "value": value_text(metric, unit, row.value),
        "interval": range_text(metric, unit, row.low, row.high) or "none",
        "numbers": {name: "" if value is None else scale(value) for name, value in numbers.items()},
        "notes": broken,
        "mark": "break" if broken else "",
    }


def _mark_changes(points: Sequence[dict[str, Any]], metric: str, unit: str) -> None:
    """Note in `points` where the level changed, among those whose basis is the newest one's."""
    same = [point for point in points if point["row"].basis == points[-1]["row"].basis]
    rows = [point["row"] for point in same]
    found = level_changes([row.value for row in rows], [row.low for row in rows], [row.high for row in rows])
    for change in found:
        before, after = (value_text(metric, unit, value) for value in (change.before, change.after))
        same[change.index]["notes"].append(f"level: {before} → {after}")
        same[change.index]["mark"] = "change"


def _drawing(points: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The chart as lines in a box of 800 × 220, for pages without a script; None for fewer than two points."""
    if len(points) < 2:
        return None
    first, last = points[0]["t"], points[-1]["t"]
    numbers = [point["numbers"] for point in points]
    top = max(each["high"] if each["high"] != "" else each["v"] for each in numbers)
    bottom = min(0.0, *(each["low"] if each["low"] != "" else each["v"] for each in numbers))

    def place(point: dict[str, Any], name: str) -> str:
        value = point["numbers"][name] if point["numbers"][name] != "" else point["numbers"]["v"]
        x = 800 * (point["t"] - first) / ((last - first) or 1)
        return f"{x:.1f},{220 - 220 * (value - bottom) / ((top - bottom) or 1):.1f}"

    band = [place(point, "low") for point in points] + [place(point, "high") for point in reversed(points)]
    marks = [(place(point, "v").partition(",")[0], point["mark"]) for point in points if point["mark"]]
    return {"line": " ".join(place(point, "v") for point in points), "band": " ".join(band), "marks": marks, "top": top}


def _csv(rows: Sequence[RunRow]) -> str:
    """The runs of a trend in SI units."""
    names = ("id", "created_at", "model", "metric", "unit", "value", "low", "high", "basis", "grade", *BREAKS)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = (getattr(row, name) for name in names)
        writer.writerow([for_csv(cell) if isinstance(cell, str) else cell for cell in cells])
    return text.getvalue()
