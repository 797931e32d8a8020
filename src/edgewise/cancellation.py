"""One way to stop what is going on: a token that a signal, a button or a deadline sets, and that every wait looks at.

The token in force belongs to the context (`contextvars`), so that it need not be handed through every call:

    with cancellable(token):
        runs = dispatcher.execute(plan)

What waits polls `CancelToken.fileno` too (`wait_readable` does); what loops calls `check`; what sleeps calls `sleep`.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
import weakref
from collections.abc import Iterator
from contextvars import ContextVar

from edgewise.clock import clock_in_force

GRACE_S = 0.4
"""How long the work has to look at the token after a signal."""


class Cancelled(KeyboardInterrupt):
    """The work was stopped on request; code that catches it keeps what is finished.

    A `KeyboardInterrupt`, since that is what Ctrl-C raises where no token is in force, and both mean the same.
    """

    def __init__(self, reason: str = "cancelled") -> None:
        super().__init__(reason)
        self.reason = reason


class CancelToken:
    """Set once, by anybody, from any thread; never unset.

    Args:
        deadline_s: seconds from now after which the token counts as set; None sets no deadline.
    """

    def __init__(self, *, deadline_s: float | None = None) -> None:
        self._event = threading.Event()
        self._reason = "cancelled"
        self._seen = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._timer: threading.Timer | None = None
        weakref.finalize(self, _close, self._reader, self._writer)
        if deadline_s is not None:
            alarm = weakref.WeakMethod(self.cancel)
            self._timer = threading.Timer(deadline_s, lambda: (alarm() or _ignore)("the time is over"))
            self._timer.daemon = True
            self._timer.start()

    @property
    def cancelled(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    @property
    def seen(self) -> bool:
        """Whether `Cancelled` was raised for it: the work has noticed."""
        return self._seen

    @property
    def reason(self) -> str:
        """Why it was set."""
        return self._reason

    def cancel(self, reason: str = "cancelled") -> None:
        """Set it. Safe in a signal handler and from other threads; the first reason stays."""
        if not self._event.is_set():
            self._reason = reason
            self._event.set()
            with contextlib.suppress(OSError):
                os.write(self._writer, b"x")

    def fileno(self) -> int:
        """Return a descriptor that is readable from the moment the token is set; for `select` and `poll`.

        Not to be closed.
        """
        return self._reader

    def check(self) -> None:
        """Raise `Cancelled` if it is set."""
        if self._event.is_set():
            self._seen = True
            raise Cancelled(self._reason)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _ignore(reason: str) -> None:
    """Drop the token before its deadline."""


_TOKEN: ContextVar[CancelToken | None] = ContextVar("edgewise_cancel_token", default=None)


@contextlib.contextmanager
def cancellable(token: CancelToken | None) -> Iterator[None]:
    """Put the token in force inside; None leaves the one that is."""
    if token is None:
        yield
        return
    before = _TOKEN.set(token)
    try:
        yield
    finally:
        _TOKEN.reset(before)


@contextlib.contextmanager
def cancelled_by_signal(token: CancelToken) -> Iterator[None]:
    """Ctrl-C (SIGINT) and SIGTERM set the token inside; a second Ctrl-C raises KeyboardInterrupt at once.

    Where nothing looks at the token within `GRACE_S`, such as in a library, `Cancelled` is raised all the same.
    Only the main thread can receive signals; in other threads nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: object) -> None:
        if token.cancelled and number == signal.SIGINT:
            raise KeyboardInterrupt
        token.cancel("interrupted")
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    def insist(_number: int, _frame: object) -> None:
        if not token.seen:
            token.check()

    alarm_before = signal.signal(signal.SIGALRM, insist)
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        # The timer's handler outlives what can start the timer: the default action of SIGALRM ends the process.
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, alarm_before)


def check() -> None:
    """Raise `Cancelled` if the token in force is set."""
    token = _TOKEN.get()
    if token is not None:
        token.check()


def sleep(seconds: float) -> None:
    """Sleep, woken by the token in force. Raises `Cancelled`."""
    wait_readable([], max(0.0, seconds))


def wait_readable(descriptors: list[int], seconds: float = math.inf) -> list[int]:
    """Those of `descriptors` that can be read or were closed; empty after `seconds`. Raises `Cancelled`."""
    return _wait(descriptors, select.POLLIN, seconds)


def wait_writable(descriptor: int, seconds: float = math.inf) -> bool:
    """Whether `descriptor` can be written or was closed within `seconds`. Raises `Cancelled`."""
    return bool(_wait([descriptor], select.POLLOUT, seconds))


def _wait(descriptors: list[int], event: int, seconds: float) -> list[int]:
    token = _TOKEN.get()
    alarm = None if token is None else token.fileno()
    ready = clock_in_force().wait(descriptors, event, seconds, alarm=alarm)
    if token is not None and alarm in ready:
        token.check()
    return [descriptor for descriptor in descriptors if descriptor in ready]
