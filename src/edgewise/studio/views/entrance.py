"""The way in by a one-time link, static files, and any page as one file."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from edgewise.studio.pages import attachment, static_file, static_path
from edgewise.studio.studio import studio_of

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_INSIDE = """<!doctype html><html lang="en"><title>edgewise</title><meta http-equiv="refresh" content="0;url=/">
<p><a href="/">To the studio</a></p></html>"""


def enter(request: Request) -> Response:
    """Let a browser in that brings the key of a link."""
    if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
        return Response(status_code=204)  # what only looks ahead does not use the link up
    sessions = studio_of(request).sessions
    if sessions.knows(request.headers.get("cookie", "")) or sessions.use(request.query_params.get("key", "")):
        # A page rather than a redirection: browsers send a new strict cookie only from the studio's own pages.
        return HTMLResponse(_INSIDE, headers={"set-cookie": sessions.set_cookie()})
    return PlainTextResponse(
        "this link was used already, or is not whole: 'edgewise serve' printed another one when it was used\n", 403
    )


def static(request: Request) -> Response:
    """Return a style sheet or script."""
    name = request.path_params["name"]
    content = static_file(name)
    if content is None:
        return PlainTextResponse("there is no such file\n", 404)
    # What a script imports is named without the hash of its content: the browser must look whether it has changed.
    digest = static_path(name).partition("?")[2]
    kept = "max-age=31536000, immutable" if request.url.query == digest else "no-cache"
    headers = {"cache-control": f"private, {kept}", "etag": f'"{digest}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


def share(request: Request) -> Response:
    """Return the page at the address in ``of``, to keep or to send."""
    from edgewise.studio.sharing import shared_page

    address = request.query_params.get("of", "")
    content = shared_page(request.app, address)
    name = "-".join(part for part in urlsplit(address).path.split("/") if part.replace("-", "").isalnum())[:60]
    return attachment(content, f"edgewise-{name.encode('ascii', 'ignore').decode()}.html", "text/html; charset=utf-8")
