"""The newest values for programs that scrape them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from edgewise.store.series import CONTENT_TYPE, newest_of_each_setting, openmetrics
from edgewise.studio.studio import studio_of

MOST = 10_000
"""Runs that are looked at, the newest."""


def metrics(request: Request) -> Response:
    """Return the newest headline of each model under each setting, as OpenMetrics."""
    rows = studio_of(request).store.rows(status="done", limit=MOST)
    return Response(openmetrics(newest_of_each_setting(rows)), media_type=CONTENT_TYPE)
