"""A model over time as data: which of its runs are one trend, and what changed between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.errors import StoreError
from edgewise.formatting import interval_text, scale_of, value_text
from edgewise.report import charts
from edgewise.report.runs.cells import label_of
from edgewise.stats.level_changes import level_changes
from edgewise.store import Store
from edgewise.store.codec import parse_time
from edgewise.store.tables import RunRow

MOST = 2_000
"""Runs of a model that are looked at, the newest."""
HEADROOM = 1.08
"""Length of the axis as a multiple of the largest number on it."""
BREAKS = {"version": "runtime version", "machine": "machine", "sha256": "model file"}
"""What makes the runs before and after it hard to compare."""


def settings_of(row: RunRow) -> str:
    """Return the settings that only runs of one trend share."""
    threads = f"{row.threads or 'default'} thread{'' if row.threads == 1 else 's'}"
    return ", ".join(filter(None, (row.provider, threads, row.precision, f"batch {row.batch}", row.scenario)))


CHOICES: Mapping[str, Callable[[RunRow], str]] = {
    "runtime": lambda row: row.runtime,
    "device": lambda row: row.device,
    "shapes": lambda row: row.shapes or "unknown",
    "settings": settings_of,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrend:
    """One metric of a model under one setting.

    Attributes:
        metrics: those that can be drawn in its place.
        label: of the metric, with the unit of the points' numbers.
        choices: name, chosen value, and values with their numbers of runs, of each of `CHOICES`.
        rows: its runs, the oldest first.
        points: what a page needs of each row.
        ends: of the axis of values, in the points' unit.
        more: whether the model has older runs that were not looked at.
    """

    model: str
    metric: str
    metrics: Sequence[str]
    label: str
    choices: Sequence[tuple[str, str, Sequence[tuple[str, int]]]]
    rows: Sequence[RunRow]
    points: Sequence[dict[str, Any]]
    ends: tuple[float, float]
    more: bool


def find_trend(store: Store, query: Mapping[str, str]) -> ModelTrend:
    """Return the trend of the model in `query`; what that leaves open is as in its ``run``, else the newest run."""
    model, metric = query.get("model", ""), query.get("metric") or None
    found = store.trend(model, metric=metric, limit=MOST)
    rows = [row for row in found.points if metric is not None or row.metric == found.points[0].metric]
    metrics = _metrics_of(store, rows[0]) if rows else []
    choices = []
    for name, of in CHOICES.items():
        usual = next((row for row in rows if row.id == query.get("run")), rows[0] if rows else None)
        wanted = query.get(name) or (of(usual) if usual is not None else "")
        choices.append((name, wanted, Counter(map(of, rows)).most_common()))
        rows = [row for row in rows if of(row) == wanted]
    rows.reverse()
    chosen, si = (rows[0].metric or "", rows[0].unit or "1") if rows else (metric or "", "1")
    scale, unit = scale_of(chosen, si, [row.value or 0 for row in rows])
    known = [scale(end) for row in rows for end in _known_ends(row) if end is not None]
    ends = min([0.0, *known]), charts.rounded(max(known, default=0.0) * HEADROOM) or 1.0
    points = [_point(row, before, scale, ends) for before, row in zip([None, *rows], rows, strict=False)]
    _mark_changes(points, chosen, si)
    return ModelTrend(
        model=model,
        metric=chosen,
        metrics=metrics,
        label=f"{label_of(chosen)} ({unit})" if unit else label_of(chosen),
        choices=choices,
        rows=rows,
        points=points,
        ends=ends,
        more=found.more,
    )


def _metrics_of(store: Store, newest: RunRow) -> list[str]:
    """Return the metrics that the newest run has a value of; its headline alone where its document can't be read."""
    try:
        return [row.metric for row in store.get(newest.id).measurements if row.value is not None]
    except StoreError:
        return [newest.metric or ""]


def _known_ends(row: RunRow) -> Sequence[float | None]:
    """Return the value, and the ends of its interval unless its grade is D: that may be thousands of times as wide."""
    return (row.value,) if row.grade == "D" else (row.low, row.value, row.high)


def _point(
    row: RunRow, before: RunRow | None, scale: Callable[[float], float], ends: tuple[float, float]
) -> dict[str, Any]:
    """Return what the table and the chart need of a run; numbers are in the chart's unit, cut at the `ends` of its
    axis.
    """
    metric, unit = row.metric or "", row.unit or "1"
    numbers = {
        name: None if value is None else scale(value)
        for name, value in (("v", row.value), ("low", row.low), ("high", row.high))
    }
    broken = [
        f"{title}: {getattr(before, name)} → {getattr(row, name)}"
        for name, title in BREAKS.items()
        if before is not None and getattr(before, name) != getattr(row, name)
    ]
    return {
        "row": row,
        "t": parse_time(row.created_at).timestamp(),
        "value": value_text(metric, unit, row.value),
        "interval": interval_text(metric, unit, row.value, row.low, row.high) or "none",
        "numbers": charts.cut_interval(numbers, *ends),
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
