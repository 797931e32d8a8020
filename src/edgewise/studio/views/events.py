"""The stream of events: one per browser, whose tabs share it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from edgewise.studio.jobs.live import Feed, Live
from edgewise.studio.studio import studio_of

PING_S = 20.0
"""A line is sent at least this often, so that proxies and browsers keep the connection."""

MOST_STREAMS = 32
"""Streams at once; a browser needs one."""


async def events(request: Request) -> Response:
    """Server-sent events: ``job`` with the state of a job that changed, ``list`` where the list of jobs changed."""
    since = request.headers.get("last-event-id") or request.query_params.get("since", "")
    live = studio_of(request).jobs.live
    if live.listeners >= MOST_STREAMS:
        return Response("too many browsers listen already\n", 503, {"retry-after": "5"})
    headers = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}
    if request.method == "HEAD":
        return Response(headers=headers)
    return StreamingResponse(_stream(live, since), headers=headers)


async def _stream(live: Live, since: str) -> AsyncIterator[bytes]:
    changed, loop, feed = asyncio.Event(), asyncio.get_running_loop(), Feed(live, since)

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(changed.set)

    end = live.listen(wake)
    try:
        if live.listeners > MOST_STREAMS:  # they came at the same moment
            yield b"retry: 5000\n\n"
            return
        yield b"retry: 2000\n\n"
        while not live.closed:
            changed.clear()
            for event in feed.due(time.monotonic()):
                yield event
            wait = feed.wait_s(time.monotonic())
            try:
                await asyncio.wait_for(changed.wait(), PING_S if wait is None else wait)
            except TimeoutError:
                if wait is None:
                    yield b": still here\n\n"
    finally:
        end()
