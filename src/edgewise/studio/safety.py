"""Who may ask for what: the host, the session, the origin of writes, the size of bodies, and headers of every answer.

An ASGI layer around all pages. What it refuses reaches no view.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from edgewise.studio.settings import Settings

MOST_BODY = 2**20
"""Bytes of a body, but for uploads."""

UPLOADS = "/uploads"
"""The path that takes models."""

ENTER = "/enter"
_OPEN_TO_ALL = (ENTER,)
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_METHODS = ("GET", "HEAD", "POST")

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
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with "no-referrer", browsers send "Origin: null" with forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Sessions:
    """Links that open the studio once, and the cookie that a browser has afterwards.

    Args:
        folder: holds the secret, so that browsers stay in when the server starts again.
    """

    def __init__(self, folder: Path, *, port: int, secure: bool) -> None:
        self._secret = _secret(folder / "secret")
        self._keys: set[bytes] = set()
        self._lock = threading.Lock()
        # Cookies of one host are sent to all its ports.
        self.name = f"edgewise-{port}"
        self._secure = secure

    def new_key(self) -> str:
        """A key for one link."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._keys.add(_digest(key))
        return key

    def use(self, key: str) -> bool:
        """Whether `key` is one that was not used yet; from now on it is."""
        with self._lock:
            found = _digest(key) in self._keys
            self._keys.discard(_digest(key))
        return found

    def set_cookie(self) -> str:
        """The value of the ``Set-Cookie`` header that lets a browser in."""
        secure = "; Secure" if self._secure else ""
        return f"{self.name}={self._value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}"

    def knows(self, header: str) -> bool:
        """Whether a ``Cookie`` header holds the cookie."""
        try:
            morsel = SimpleCookie(header).get(self.name)
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(morsel.value.encode(), self._value.encode())

    @property
    def _value(self) -> str:
        return hmac.new(self._secret, self.name.encode(), hashlib.sha256).hexdigest()


def _secret(path: Path) -> bytes:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            content = path.read_bytes()
            if len(content) == 32 and not path.stat().st_mode & 0o077:
                return content
            path.unlink()
            return _secret(path)
        content = secrets.token_bytes(32)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return content
    except OSError as error:
        raise BadInput(
            f"the studio can't write to {path.parent}: {error.strerror}", advice="free it, or use another --store"
        ) from error


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class Refused(Exception):
    """A request that no view sees, with the status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """The layer. What it refuses gets a short text and no cookie."""

    def __init__(self, app: ASGIApp, *, settings: Settings, sessions: Sessions) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions
        self._hosts = frozenset(origin.partition("://")[2] for origin in settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), text.encode()) for name, text in _HEADERS.items()),
                    *([] if b"cache-control" in own else [(b"cache-control", b"no-store")]),
                ]
            await send(message)

        try:
            limit = self._check(scope)
        except Refused as refused:
            from starlette.responses import PlainTextResponse

            answer = PlainTextResponse(f"{refused.reason}\n", refused.status, {"connection": "close"})
            await answer(scope, receive, send_safely)
            return
        await self._app(scope, _limited(receive, limit), send_safely)

    def _check(self, scope: Scope) -> int:
        """The most bytes that the body may have. Raises `Refused`."""
        headers = _Headers(scope)
        if headers.one("host") not in self._hosts:
            raise Refused(421, f"this is not the address of the studio; it is {self._settings.own_origin}")
        method = scope["method"]
        if method not in _METHODS:
            raise Refused(405, "not allowed")
        if scope["path"] not in _OPEN_TO_ALL and not self._sessions.knows(headers.one("cookie")):
            raise Refused(
                403, "this browser is not in the studio: open the link that 'edgewise serve' printed, or start it again"
            )
        if method in _WRITES:
            self._check_origin(headers)
        limit = self._settings.most_upload + MOST_BODY if scope["path"] == UPLOADS else MOST_BODY
        length = headers.one("content-length")
        if length and (not length.isascii() or not length.isdigit() or int(length) > limit):
            raise Refused(413, f"more than {limit} bytes")
        return limit

    def _check_origin(self, headers: _Headers) -> None:
        site, origin = headers.one("sec-fetch-site"), headers.one("origin")
        if site and site != "same-origin":
            raise Refused(403, "a write from another page")
        if origin and origin not in self._settings.origins:
            raise Refused(403, "a write from another page")
        if not site and not origin:
            raise Refused(403, "a write that does not say which page it comes from")


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
    """`receive` that ends a body which is longer than `limit`, whatever its header said."""
    done = 0

    async def receive_within() -> Message:
        nonlocal done
        message = await receive()
        if message["type"] == "http.request":
            done += len(message.get("body", b""))
            if done > limit:
                return {"type": "http.disconnect"}
        return message

    return receive_within
