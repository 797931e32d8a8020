"""The application: the routes of all views behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgewise.errors import EdgewiseError
from edgewise.studio.safety import Guard, Sessions
from edgewise.studio.studio import Studio

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from edgewise.studio.settings import Settings

VIEWS = ("entrance", "home", "runs", "new")
"""Modules of `edgewise.studio.views`, each with its ``ROUTES``."""


def make_app(settings: Settings) -> Starlette:
    """The studio as an ASGI application.

    Raises:
        StoreError: the store can't be opened.
        BadInput: its folder can't be written.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    sessions = Sessions(settings.folder, port=settings.port, secure=settings.own_origin.startswith("https"))
    studio = Studio(settings=settings, sessions=sessions)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await studio.start()
        try:
            yield
        finally:
            await studio.stop()

    app = Starlette(
        routes=[route for name in VIEWS for route in import_module(f"edgewise.studio.views.{name}").ROUTES],
        middleware=[Middleware(Guard, settings=settings, sessions=sessions)],
        exception_handlers={EdgewiseError: _explain, 404: _not_found},
        lifespan=lifespan,
    )
    app.state.studio = studio
    return app


async def _explain(request: Request, error: Any) -> Response:
    from edgewise.studio.pages import error_page

    return error_page(request, error)


async def _not_found(request: Request, error: Any) -> Response:
    from edgewise.studio.pages import page

    del error
    return page(request, "error.html.jinja", title="There is no such page", status=404, error=None)
