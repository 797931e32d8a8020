"""A model over time: the page of one metric under one setting, with intervals, and what changed between the runs."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.errors import BadInput
from edgewise.report.charts import ARROW
from edgewise.report.runs.cells import label_of
from edgewise.store.series import series_csv
from edgewise.studio.pages import attachment, page
from edgewise.studio.studio import studio_of
from edgewise.studio.trend import CHOICES, MOST, ModelTrend, find_trend
from edgewise.studio.views.runs import GRADE_TONES, link


def trend(request: Request) -> Response:
    """Return the trend that the query names as a page; with ``format``, its chart as SVG or its runs as CSV."""
    studio, query = studio_of(request), request.query_params
    found = find_trend(studio.store, query)
    if query.get("format") == ".csv":
        return attachment(series_csv(found.rows), "trend.csv", "text/csv; charset=utf-8")
    if query.get("format") == ".svg":
        return attachment(
            studio.renderer.file(extension=".svg", **_drawing(request, found)), "trend.svg", "image/svg+xml"
        )
    charted = len(found.points) > 1
    drawn = charted and "report" in query
    return page(
        request,
        "trend.html.jinja",
        title=f"{found.model} over time" if found.model else "A model over time",
        styles=("vendor/uPlot.css", "history.css"),
        scripts=("trend.js",) if charted and not drawn else (),
        found=found,
        note=f" {ARROW}" if any("beyond" in point["numbers"] for point in found.points) else "",
        metrics=[(one, label_of(one)) for one in found.metrics],
        part=studio.renderer.part(**_drawing(request, found)) if drawn else "",
        link=partial(link, request),
        tones=GRADE_TONES,
        most=MOST,
    )


def _drawing(request: Request, found: ModelTrend) -> dict[str, Any]:
    """Return what the renderer needs to draw a trend. Raises `BadInput` where the trend has no runs."""
    if not found.rows:
        raise BadInput("there are no runs to draw", advice="see the page of the trend for other settings")
    query = request.query_params
    return {
        "kind": "trend",
        "references": [found.rows[-1].id],
        "query": {name: query[name] for name in ("model", "metric", "run", *CHOICES) if name in query},
        "dark": query.get("scheme") == "dark",
        "version": hashlib.sha256(repr(found.rows).encode()).hexdigest(),
    }
