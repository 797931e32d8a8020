"""The first page: models to drop or to pick."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgewise.studio.pages import page


def home(request: Request) -> Response:
    """Models that are there, and a place to drop another."""
    return page(request, "home.html.jinja", title="Models")


ROUTES = (Route("/", home),)
