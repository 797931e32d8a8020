"""Every address of the studio and the view that answers it. The first request for a view imports its module."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgewise.studio.sessions import ENTER
from edgewise.studio.settings import METRICS


def page(path: str, view: str) -> Route:
    """Return a page to read; the view runs in a thread."""
    return Route(path, _lazy(view))


def form(path: str, view: str) -> Route:
    """Return a posted form, which the view takes as its second argument in a thread. Files are refused."""

    async def endpoint(request: Request) -> Response:
        async with request.form(max_files=0) as sent:
            return await run_in_threadpool(_lazy(view), request, sent)

    return Route(path, endpoint, methods=["POST"])


def stream(path: str, view: str, *, method: str) -> Route:
    """Return a view that reads its request, or writes its answer, piece by piece."""

    async def endpoint(request: Request) -> Response:
        found: Response = await _lazy(view)(request)
        return found

    return Route(path, endpoint, methods=[method])


def _lazy(view: str) -> Callable[..., Any]:
    """Return the function ``module.function`` of `edgewise.studio.views`, which a call imports."""
    module, _, function = view.partition(".")

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"edgewise.studio.views.{module}"), function)(*arguments)

    return call


ROUTES = (
    page(ENTER, "entrance.enter"),
    page("/static/{name:path}", "entrance.static"),
    page("/runs/{run}/graph", "graph.graph"),
    page("/runs/{run}/graph.json", "graph.graph_data"),
    page("/graph", "graph.of_model"),
    page("/", "home.home"),
    stream("/uploads", "home.upload", method="POST"),
    form("/uploads/{kind}/{key}/delete", "home.delete"),
    page("/models/{key:path}", "home.model"),
    page("/jobs", "jobs.jobs"),
    form("/jobs/remove", "jobs.remove"),
    page("/jobs/{job}", "jobs.job"),
    page("/jobs/{job}/state", "jobs.state"),
    form("/jobs/{job}/cancel", "jobs.cancel"),
    form("/jobs/{job}/again", "jobs.again"),
    page("/jobs/{job}/{file:path}", "jobs.file"),
    stream("/events", "events.events", method="GET"),
    page("/runs", "runs.runs"),
    form("/runs/remove", "runs.remove"),
    form("/runs/tag", "runs.tag"),
    page("/runs/download", "run.download"),
    page("/runs/{run}", "run.run"),
    page("/runs/{run}/report", "run.part"),
    form("/runs/{run}/tag", "run.tag"),
    page("/trend", "trend.trend"),
    page(METRICS, "metrics.metrics"),
    page("/atlas", "atlas.atlas"),
    page("/lab", "lab.lab"),
    page("/compare", "compare.compare"),
    page("/compare/file", "compare.file"),
    page("/share", "entrance.share"),
    page("/new/{verb}", "new.show"),
    form("/new/{verb}", "new.submit"),
    page("/new/{verb}/command", "new.command"),
)
