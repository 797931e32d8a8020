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
from starlette.routing import Route

from edgewise.formatting import range_text, scale_of, value_text
from edgewise.report.cells import label_of
from edgewise.store.codec import parse_time
from edgewise.studio.pages import page
from edgewise.studio.studio import studio_of
from edgewise.studio.views.runs import GRADE_TONES, link
from edgewise.text import for_csv

if TYPE_CHECKING:
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
    "metric": lambda row: row.metric or "",
    "runtime": lambda row: row.runtime,
    "device": lambda row: row.device,
    "settings": settings_of,
}


def trend(request: Request) -> Response:
    """The trend of the model in the query; what the query leaves open is as in its newest run."""
    model = request.query_params.get("model", "")
    rows = studio_of(request).store.list(model=model, status="done", limit=MOST)
    rows = [row for row in rows if row.model == model and row.metric and row.value is not None]
    choices = []
    for name, of in CHOICES.items():
        wanted = request.query_params.get(name) or (of(rows[0]) if rows else "")
        choices.append((name, wanted, Counter(map(of, rows)).most_common()))
        rows = [row for row in rows if of(row) == wanted]
    rows.reverse()
    if request.query_params.get("format") == ".csv":
        headers = {"content-disposition": "attachment; filename=trend.csv"}
        return Response(_csv(rows), media_type="text/csv; charset=utf-8", headers=headers)
    scale, unit = (
        scale_of(rows[0].metric or "", rows[0].unit or "1", [row.value or 0 for row in rows]) if rows else (float, "")
    )
    return page(
        request,
        "trend.html.jinja",
        title=f"{model} over time" if model else "A model over time",
        styles=("vendor/uPlot.css", "history.css"),
        scripts=("trend.js",),
        model=model,
        choices=choices,
        label=f"{label_of(rows[0].metric or '')} {f'({unit})' if unit else ''}".strip() if rows else "",
        points=[_point(row, before, scale) for before, row in zip([None, *rows], rows, strict=False)],
        link=partial(link, request),
        tones=GRADE_TONES,
        most=MOST,
    )


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
        "note": "; ".join(broken),
        "mark": "break" if broken else "",
    }


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


ROUTES = (Route("/trend", trend),)
