"""Which requests reach a view: checks of the host, the session, the origin and the size; headers of every answer.

An ASGI layer around the whole application, errors included. What it refuses reaches no view.
"""

from __future__ import annotations

import asyncio
import logging
import time
from email.utils import formatdate
from html import escape
from itertools import chain

from starlette.datastructures import URL
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgewise.studio.sessions import ENTER, Sessions
from edgewise.studio.settings import METRICS, Settings
from edgewise.units import format_bytes

MOST_BODY = 2**20
"""Bytes of a body, except for uploads."""

MOST_HEAD = 2**16
"""Bytes of a request before its body."""

MOST_HEADERS = 100

PATIENCE_S = 20.0
"""How long a client may take to send a body, besides one second per `SLOWEST` bytes."""

SLOWEST = 10_000
"""Bytes per second of a body that is not refused."""

UPLOADS = "/uploads"
"""The path that takes models."""

_METHODS = ("GET", "HEAD", "POST")
_READS = ("GET", "HEAD")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # charts and bars carry their colours and sizes
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with "no-referrer", browsers send "Origin: null" with forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_NOT_IN = (
    "this browser is not in the studio: open the link that 'edgewise serve' printed last, or start 'edgewise serve' "
    "again for a new one"
)
# A browser keeps a strict cookie from a page that a link elsewhere leads to, but not from what that page leads to.
_ONCE_MORE = '<!doctype html><title>edgewise</title><meta http-equiv="refresh" content="0;url={url}">'


class Refused(Exception):
    """A request that can't be served, with the status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """The layer. What it refuses gets a short text and no cookie."""

    def __init__(self, app: ASGIApp, *, settings: Settings, sessions: Sessions) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions
        self._origins = {origin.partition("://")[2]: origin for origin in settings.origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        answered = False

        async def send_safely(message: Message) -> None:
            nonlocal answered
            answered = True
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), text.encode()) for name, text in HEADERS.items()),
                    (b"date", formatdate(usegmt=True).encode()),
                    *([] if b"cache-control" in own else [(b"cache-control", b"no-store")]),
                ]
            await send(message)

        try:
            limit = self._check(scope)
        except Refused as refused:
            await self._refuse(refused, scope)(scope, receive, send_safely)
            return
        try:
            await self._app(scope, _limited(receive, limit), send_safely)
        except Exception:
            if not answered:
                raise
            # The answer tells the browser; its connection serves the next request.
            logging.getLogger("uvicorn.error").exception("a bug in edgewise: %s %s", scope["method"], scope["path"])

    def _refuse(self, refused: Refused, scope: Scope) -> Response:
        if refused.reason is _NOT_IN and _led_from_elsewhere(_Headers(scope)):
            url = URL(scope=scope)
            place = f"{url.path}?{url.query}" if url.query else url.path
            return HTMLResponse(_ONCE_MORE.format(url=escape(place)), refused.status)
        return refusal(refused)

    def _check(self, scope: Scope) -> int:
        """Return the most bytes that the body may have. Raises `Refused`."""
        head = len(scope["raw_path"]) + len(scope["query_string"]) + sum(map(len, chain(*scope["headers"])))
        if len(scope["headers"]) > MOST_HEADERS or head > MOST_HEAD:
            raise Refused(431, f"more than {MOST_HEADERS} headers, or more than {MOST_HEAD} bytes of them")
        headers = _Headers(scope)
        origin = self._origins.get(headers.one("host"))
        if origin is None:
            raise Refused(421, f"this is not the address of the studio; it is {self._settings.own_origin}")
        if scope["method"] not in _METHODS:
            raise Refused(405, "the studio only takes GET, HEAD and POST")
        path = scope["path"]
        if not path.startswith("/") or path.startswith("//") or any(part in (".", "..") for part in path.split("/")):
            raise Refused(400, "no path of the studio")
        if any(character < " " or character == "\x7f" for character in path):
            raise Refused(400, "control characters in the path")
        is_scrape = self._settings.metrics and path == METRICS and scope["method"] in _READS
        if path != ENTER and not is_scrape and not self._sessions.knows(headers.one("cookie")):
            raise Refused(403, _NOT_IN)
        if scope["method"] in _READS:
            _check_read(headers)
        else:
            _check_write(headers, origin)
        return self._check_length(headers, path)

    def _check_length(self, headers: _Headers, path: str) -> int:
        limit = self._settings.most_upload + MOST_BODY if path == UPLOADS else MOST_BODY
        length, chunked = headers.one("content-length"), headers.one("transfer-encoding")
        if length and chunked:
            raise Refused(400, "two lengths of the body")
        if length and not (length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= limit):
            raise _too_large(limit)
        return limit


def _too_large(limit: int) -> Refused:
    return Refused(413, f"what was sent is larger than {format_bytes(limit)}, the most that the studio takes")


def refusal(refused: Refused) -> Response:
    """Return the answer to a request that is refused."""
    allowed = {"allow": ", ".join(_METHODS)} if refused.status == 405 else {}
    return PlainTextResponse(f"{refused.reason}\n", refused.status, {"connection": "close", **allowed})


def _check_read(headers: _Headers) -> None:
    """Refuse what a page elsewhere loads into itself; links to the studio are welcome."""
    if headers.one("sec-fetch-site") in ("cross-site", "same-site") and not _led_from_elsewhere(headers):
        raise Refused(403, "a page elsewhere can't load parts of the studio")


def _check_write(headers: _Headers, own: str) -> None:
    site, origin = headers.one("sec-fetch-site"), headers.one("origin")
    if (site and site != "same-origin") or (origin and origin != own):
        raise Refused(403, "a write from another page")
    if not site and not origin:
        raise Refused(403, "a write that does not name the page it comes from: it needs the header Origin")


def _led_from_elsewhere(headers: _Headers) -> bool:
    """Whether a browser follows a link on a page of another site, in a window of its own."""
    return (
        headers.one("sec-fetch-site") in ("cross-site", "same-site")
        and headers.one("sec-fetch-mode") == "navigate"
        and headers.one("sec-fetch-dest") == "document"
    )


class _Headers:
    """The headers of a request; one that is there twice has no value that could be trusted."""

    def __init__(self, scope: Scope) -> None:
        self._pairs = [(name.lower(), value) for name, value in scope["headers"]]

    def one(self, name: str) -> str:
        found = [value for key, value in self._pairs if key == name.encode()]
        if len(found) > 1:
            raise Refused(400, f"{name} is there twice")
        return found[0].decode("latin-1") if found else ""


def _limited(receive: Receive, limit: int) -> Receive:
    """`receive` that raises `Refused` for a body that is slow, or has more than `limit` bytes, whatever its header."""
    done, waited, whole = 0, 0.0, False

    async def receive_within() -> Message:
        nonlocal done, waited, whole
        if whole:  # what still comes is the end of the connection
            return await receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(PATIENCE_S + done / SLOWEST - waited, 0)):
                message = await receive()
        except TimeoutError:
            raise Refused(408, "the body came too slowly") from None
        waited += time.monotonic() - began
        done += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if done > limit:
            raise _too_large(limit)
        return message

    return receive_within
