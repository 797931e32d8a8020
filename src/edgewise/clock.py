"""The clock that edgewise waits by: the machine's, or one that a test writes, so that its deadlines are exact.

As with the cancel token, the clock in force belongs to the context (`contextvars`) and need not be handed through every
call. It is for deadlines and waits of the host; what is measured has the worker's clock (`edgewise.run.timing`).
"""

from __future__ import annotations

import contextlib
import math
import select
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol


class Clock(Protocol):
    """Time, and a way to wait for something until a time."""

    def now(self) -> float:
        """Monotonic time, s."""

    def wait(self, descriptors: Sequence[int], event: int, seconds: float, *, alarm: int | None) -> set[int]:
        """Block until `event` (``select.POLLIN``, ``select.POLLOUT``) on one of `descriptors`, or `seconds` are over.

        Args:
            seconds: `math.inf` waits for ever.
            alarm: one more descriptor, which ends the wait when it is readable.

        Returns those that are ready, the alarm among them.
        """


class MachineClock:
    """The clock of this machine. It blocks without polling: a parent that polls slows its child down."""

    def now(self) -> float:
        """As `Clock.now`."""
        return time.monotonic()

    def wait(self, descriptors: Sequence[int], event: int, seconds: float, *, alarm: int | None) -> set[int]:
        """As `Clock.wait`."""
        poller = select.poll()
        for descriptor in descriptors:
            poller.register(descriptor, event)
        if alarm is not None:
            poller.register(alarm, select.POLLIN)
        limit = None if math.isinf(seconds) else max(0.0, seconds) * 1000
        return {descriptor for descriptor, _ in poller.poll(limit)}


_MACHINE = MachineClock()
_CLOCK: ContextVar[Clock | None] = ContextVar("edgewise_clock", default=None)


def clock_in_force() -> Clock:
    """Return the clock of this context: the machine's, unless another one was put in force."""
    return _CLOCK.get() or _MACHINE


def now() -> float:
    """Monotonic time of the clock in force, s."""
    return clock_in_force().now()


@contextlib.contextmanager
def timed_by(clock: Clock) -> Iterator[None]:
    """`clock` is in force inside."""
    before = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(before)
