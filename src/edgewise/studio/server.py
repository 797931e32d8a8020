"""Listening: the port, the link that lets a browser in, and uvicorn."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.studio.settings import ANY_ADDRESS, LOOPBACK

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from edgewise.studio.settings import Settings

MOST_TRIED = 100
MOST_OF_COMMAND = 80
"""Characters of the command that holds a port; whole words of it are quoted."""
RELEASE_S = 30.0
"""After requests, free memory goes back to the system at this interval."""


def serve(settings: Settings, *, next_port: bool, open_browser: bool, say: Callable[[str], None]) -> None:
    """Serve the studio until Ctrl-C.

    Args:
        next_port: whether to take the next free port where this one is in use.
        open_browser: whether to open the link in a browser.
        say: prints a line: the link to open, and the next one when it was used.

    Raises:
        BadInput: a port in use, an address that is not this machine's, or one beyond loopback without TLS or a proxy.
        StoreError: the store can't be opened.
    """
    from edgewise.studio.app import make_app

    check_reach(settings)
    call_libc("mallopt", -8, 1)  # M_ARENA_MAX: with a heap for each thread, twenty open tabs cost 10 MB more
    listener, settings = listen(settings, next_port=next_port)
    with listener:
        app = make_app(settings)
        server = make_server(app, settings)
        sessions = app.state.studio.sessions

        def say_link(text: str) -> str:
            link: str = sessions.new_link(settings.own_origin)
            say(f"{text} {link}")
            return link

        sessions.when_used = lambda: say_link("a browser is logged in; the link for another browser is")
        link = say_link("the studio is at")
        if app.state.studio.store.read_only:
            say(f"the store {app.state.studio.store.name} is read-only: its runs can be seen, nothing can be measured")
        say("Ctrl-C ends it.")
        if open_browser:
            webbrowser.open(link)
        server.run(sockets=[listener])


def make_server(app: Starlette, settings: Settings) -> uvicorn.Server:
    """Return the HTTP server of `app`. Raises `BadInput` for a certificate or key that can't be used."""
    import uvicorn

    from edgewise.studio.connections import BoundedConnection

    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,  # uvicorn's closes the log handlers of the whole process
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,  # uvicorn's is written by its looks; `Guard` adds one
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        timeout_graceful_shutdown=1,
        proxy_headers=False,
    )
    try:
        config.load()
    except OSError as error:  # an ssl.SSLError is one
        raise BadInput(
            f"TLS does not work with {settings.certificate} and {settings.key}: {error.strerror or error}",
            advice="give a certificate and its unencrypted key, both in PEM",
        ) from error

    class Server(uvicorn.Server):
        """Waits until it is to end; uvicorn's own looks ten times a second whether it is."""

        _exits = False
        _wake: Callable[[], object] | None = None

        @property
        def should_exit(self) -> bool:
            return self._exits

        @should_exit.setter
        def should_exit(self, value: bool) -> None:  # set by uvicorn's handler of signals, and from other threads
            self._exits = value
            if self._wake is not None:
                with suppress(RuntimeError):  # the loop has ended
                    self._wake()

        async def main_loop(self) -> None:
            told, served = asyncio.Event(), -1
            self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, told.set)
            while not self.should_exit:
                if self.server_state.total_requests != served:
                    served = self.server_state.total_requests
                    call_libc("malloc_trim", 0)  # a page about thousands of layers leaves 20 MB of free pieces
                with suppress(TimeoutError):
                    await asyncio.wait_for(told.wait(), RELEASE_S)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.studio.jobs.live.close()  # streams of events would keep their connections open
            # Answers that are not done in time are cut off; that is no error to be told with a traceback.
            log = logging.getLogger("uvicorn.error")
            before = log.level
            log.setLevel(logging.CRITICAL)
            try:
                await super().shutdown(sockets)
                await asyncio.sleep(0)  # what was cut off ends here
            finally:
                log.setLevel(before)

    return Server(config)


def call_libc(name: str, *arguments: int) -> None:
    """Call a function of glibc, where it is there."""
    import ctypes

    with suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), name)(*arguments)


def check_reach(settings: Settings) -> None:
    """Refuse to be reached from other machines in plain text. Raises `BadInput`."""
    if settings.host in LOOPBACK or settings.origin is not None:
        return
    if settings.certificate is None:
        raise BadInput(
            f"--host {settings.host} can be reached from other machines, in plain text",
            advice="give --tls-certificate and --tls-key, or --proxy https://NAME for a proxy with TLS",
        )
    if settings.host in ANY_ADDRESS:
        raise BadInput(
            f"--host {settings.host!r} stands for all addresses of this machine; browsers need the one that the "
            "certificate is for",
            advice="give that name or address: --host lab.example.org",
        )


def listen(settings: Settings, *, next_port: bool) -> tuple[socket.socket, Settings]:
    """Return a listening socket, and the settings with its port. Raises `BadInput`."""
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
            if error.errno != errno.EADDRINUSE:
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
    """`` by COMMAND (process NUMBER)`` where this user may see that; empty otherwise."""
    import psutil

    from edgewise.text import one_line

    try:
        found = next(
            (one.pid for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.port == port),
            None,
        )
        command = one_line(" ".join(psutil.Process(found).cmdline())) if found else ""
        shown = shorten(command, width=MOST_OF_COMMAND, placeholder=" …")
        return f" by '{shown}' (process {found})" if found else ""
    except psutil.Error:
        return ""
