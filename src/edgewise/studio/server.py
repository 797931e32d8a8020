"""Listening: the port, the link that lets a browser in, and uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.studio.settings import LOOPBACK

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from edgewise.studio.settings import Settings

MOST_TRIED = 100


def serve(settings: Settings, *, next_port: bool, say: Callable[[str], None]) -> None:
    """Serve the studio until Ctrl-C.

    Args:
        next_port: whether to take the next free port where this one is in use.
        say: is told the link to open.

    Raises:
        BadInput: a port in use, an address that is not this machine's, or one beyond loopback without TLS or a proxy.
        StoreError: the store can't be opened.
    """
    from edgewise.studio.app import make_app

    check_reach(settings)
    listener, settings = listen(settings, next_port=next_port)
    with listener:
        app = make_app(settings)
        say(f"{settings.own_origin}/enter?key={app.state.studio.sessions.new_key()}")
        make_server(app, settings).run(sockets=[listener])


def make_server(app: Starlette, settings: Settings) -> uvicorn.Server:
    """The HTTP server of `app`."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
            timeout_graceful_shutdown=1,
            proxy_headers=False,
        )
    )


def check_reach(settings: Settings) -> None:
    """Refuse to be reached from other machines in plain text. Raises `BadInput`."""
    if settings.host not in LOOPBACK and settings.certificate is None and settings.origin is None:
        raise BadInput(
            f"--host {settings.host} can be reached from other machines, in plain text",
            advice="give --tls-certificate and --tls-key, or --proxy https://NAME for a proxy with TLS",
        )


def listen(settings: Settings, *, next_port: bool) -> tuple[socket.socket, Settings]:
    """A listening socket, and the settings with its port. Raises `BadInput`."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    for port in range(settings.port, min(settings.port + (MOST_TRIED if next_port else 1), 65536)):
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((settings.host, port))
            found.listen(128)
        except PermissionError as error:
            found.close()
            raise BadInput(f"port {port} needs more rights", advice="use one above 1023: --port 8765") from error
        except OSError as error:
            found.close()
            if error.errno != 98:
                raise BadInput(
                    f"can't listen at {settings.host}: {error.strerror}", advice="use --host 127.0.0.1"
                ) from error
            continue
        return found, replace(settings, port=found.getsockname()[1])
    raise BadInput(
        f"port {settings.port} is in use{holder_of(settings.port)}",
        advice="use another one with --port, or --next-port",
    )


def holder_of(port: int) -> str:
    """`` by NAME (process NUMBER)`` where this user may see that; empty otherwise."""
    import psutil

    try:
        found = next(
            (one.pid for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.port == port),
            None,
        )
        return f" by {psutil.Process(found).name()} (process {found})" if found else ""
    except psutil.Error:
        return ""
