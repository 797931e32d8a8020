"""The way in by a one-time link, and static files."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from edgewise.studio.pages import static_file
from edgewise.studio.studio import studio_of

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def enter(request: Request) -> Response:
    """Let a browser in that brings the key of a link."""
    sessions = studio_of(request).sessions
    if sessions.knows(request.headers.get("cookie", "")) or sessions.use(request.query_params.get("key", "")):
        return RedirectResponse("/", 303, {"set-cookie": sessions.set_cookie()})
    return PlainTextResponse(
        "this link was used already, or is not whole: start 'edgewise serve' again for a new one\n", 403
    )


def static(request: Request) -> Response:
    """A style sheet or script."""
    name = request.path_params["name"]
    content = static_file(name)
    if content is None:
        return PlainTextResponse("there is no such file\n", 404)
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(content, media_type=kind, headers={"cache-control": "private, max-age=31536000, immutable"})


ROUTES = (Route("/enter", enter), Route("/static/{name:path}", static))
