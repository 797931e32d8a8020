"""The list of runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgewise.studio.pages import page
from edgewise.studio.studio import studio_of

PAGE = 50


def runs(request: Request) -> Response:
    """The newest runs."""
    rows = studio_of(request).store.list(limit=PAGE)
    return page(request, "runs.html.jinja", title="Runs", rows=rows)


ROUTES = (Route("/runs", runs),)
