"""Who is in: links that open the studio once, and the cookie that a browser has afterwards."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from edgewise.errors import BadInput

ENTER = "/enter"
"""The path of links."""

_SECRET_BYTES = 32
_DAYS_30 = 30 * 24 * 3600


class Sessions:
    """Links that open the studio once, and the cookie that a browser has afterwards.

    Args:
        folder: holds the secret, so that browsers stay in when the server starts again. Where it can't be written,
            the secret ends with the server.
        port: of the server. Browsers send the cookies of a host to all its ports, so the name has the port in it.
        secure: whether browsers come by HTTPS.

    Attributes:
        when_used: called after a link let a browser in.
    """

    def __init__(self, folder: Path, *, port: int, secure: bool) -> None:
        self._secret = _secret(folder)
        self._keys: set[bytes] = set()
        self._lock = threading.Lock()
        self.name = f"{'__Host-' if secure else ''}edgewise-{port}"
        self._attributes = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={_DAYS_30}{'; Secure' if secure else ''}"
        self.when_used: Callable[[], None] = lambda: None

    def new_link(self, origin: str) -> str:
        """Return a link that lets one browser in, once; `origin` is how browsers reach the studio."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._keys.add(_digest(key))
        return f"{origin}{ENTER}?key={key}"

    def use(self, key: str) -> bool:
        """Use up the key of a link; False where there is no such key, or it was used before."""
        digest = _digest(key)
        with self._lock:
            if digest not in self._keys:
                return False
            self._keys.remove(digest)
        self.when_used()
        return True

    def set_cookie(self) -> str:
        """Return the value of the ``Set-Cookie`` header that lets a browser in."""
        return f"{self._cookie}; {self._attributes}"

    def knows(self, header: str) -> bool:
        """Whether a ``Cookie`` header holds the cookie, whatever other programs of this host put beside it."""
        own = self._cookie.encode()
        return any(hmac.compare_digest(part.strip(" \t").encode(), own) for part in header.split(";"))

    @property
    def _cookie(self) -> str:
        return f"{self.name}={hmac.new(self._secret, self.name.encode(), hashlib.sha256).hexdigest()}"


def make_private(folder: Path) -> None:
    """Make `folder` where it is missing, and close it to other users.

    Raises `BadInput`: another user owns it; `OSError`: it can't be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise BadInput(
            f"the studio's folder {folder} belongs to another user, who could change its jobs and uploads",
            advice="use another store: ⟦store=PATH⟧",
        )
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _secret(folder: Path) -> bytes:
    path = folder / "secret"
    with suppress(OSError):
        make_private(folder)
        if (found := _kept_secret(path)) is not None:
            return found
        path.unlink(missing_ok=True)
        # A hard link appears with its whole content, and fails where another server was quicker.
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
            file.flush()
            os.link(file.name, path)
    return _kept_secret(path) or secrets.token_bytes(_SECRET_BYTES)


def _kept_secret(path: Path) -> bytes | None:
    """Return the secret in a file that only this user can read or write; None where there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        content = file.read(_SECRET_BYTES + 1) if private else b""
    return content if len(content) == _SECRET_BYTES else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
