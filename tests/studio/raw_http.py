"""Requests written by hand: what no client library would send."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from patience import LIMIT_S


@dataclass
class Answer:
    """One answer; `headers` in order, names in lower case."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def one(self, name: str) -> str:
        (value,) = self.all(name)
        return value


def connect(studio) -> socket.socket:
    settings = studio.settings
    return socket.create_connection((settings.host, settings.port), timeout=LIMIT_S)


def send(studio, text: bytes) -> bytes:
    """All that comes back for `text` until the studio closes the connection; the first of a stream of events."""
    with connect(studio) as connection:
        try:
            connection.sendall(text)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the studio has answered already
        parts = []
        try:
            while part := connection.recv(2**16):
                parts.append(part)
                if b"\r\ncontent-type: text/event-stream" in part:
                    break
        except ConnectionResetError:
            pass
    return b"".join(parts)


def parse(raw: bytes) -> Answer:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Answer(int(first.split()[1]), headers, body)


def ask(studio, method="GET", path="/", *, host=None, cookie=None, headers=(), body=b"", version="1.1") -> Answer:
    """The answer to one request; `host` and `cookie` are the right ones where they are None, absent where empty."""
    host = studio.url.partition("://")[2] if host is None else host
    cookie = "=".join(studio.cookie) if cookie is None else cookie
    lines = [f"{method} {path} HTTP/{version}", "Connection: close"]
    lines += [f"Host: {host}"] * bool(host) + [f"Cookie: {cookie}"] * bool(cookie) + list(headers)
    return parse(send(studio, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body))


def post(studio, path="/", *, headers=None, body=b"a=1", **settings) -> Answer:
    """A form that comes from the studio's own page unless `headers` say otherwise."""
    headers = [f"Origin: {studio.url}"] if headers is None else headers
    form = [f"Content-Length: {len(body)}", "Content-Type: application/x-www-form-urlencoded"]
    return ask(studio, "POST", path, headers=[*headers, *form], body=body, **settings)
