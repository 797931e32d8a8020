"""Connections with a deadline: a client that is silent, or whose request comes slowly, can't hold one."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S = 10.0
"""How long the head of a request may take."""

MOST = 400
"""Open connections; another one is closed at once, so that the server keeps files to work with."""


class BoundedConnection(H11Protocol):
    """HTTP of one connection, closed when no request arrives in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MOST:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what arrived."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._stop_waiting()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
