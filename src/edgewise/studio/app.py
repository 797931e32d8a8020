"""The application: the routes of all views behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from edgewise.errors import EdgewiseError
from edgewise.studio.pages import error_page, page
from edgewise.studio.routes import ROUTES
from edgewise.studio.safety import Guard, Refused, refusal
from edgewise.studio.sessions import Sessions
from edgewise.studio.settings import Settings
from edgewise.studio.studio import Studio


def make_app(settings: Settings) -> Starlette:
    """Return the studio as an ASGI application.

    Raises `StoreError`: the store can't be opened; `BadInput`: its folder can't be written.
    """
    sessions = Sessions(settings.folder, port=settings.port, secure=settings.own_origin.startswith("https"))
    studio = Studio(settings=settings, sessions=sessions)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        studio.jobs.start()
        try:
            yield
        finally:
            await studio.stop()

    app = Starlette(
        routes=ROUTES,
        exception_handlers={
            EdgewiseError: error_page,
            HTTPException: _explain_status,
            Refused: _refuse,
            ClientDisconnect: _end,
            Exception: _confess,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.studio = studio
    # Around everything, so that answers to errors have its headers as well.
    app.middleware_stack = Guard(app.build_middleware_stack(), settings=settings, sessions=sessions)
    return app


async def _explain_status(request: Request, error: Any) -> Response:
    if error.status_code == 404:
        return page(request, "error.html.jinja", title="There is no such page", status=404, error=None)
    problem = EdgewiseError(error.detail)
    return page(request, "error.html.jinja", title="This did not work", status=error.status_code, error=problem)


async def _confess(request: Request, error: Any) -> Response:
    problem = EdgewiseError(
        f"this is a bug in edgewise: {type(error).__name__}",
        advice="the terminal in which 'edgewise serve' runs shows where it is; please report it",
    )
    return page(request, "error.html.jinja", title="This did not work", status=500, error=problem)


async def _refuse(request: Request, error: Any) -> Response:
    return refusal(error)


async def _end(request: Request, error: Any) -> Response:
    """Nothing: the browser that asked is gone."""
    return Response(status_code=400)
