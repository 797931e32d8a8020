"""A clock that no test waits for: time passes only where a test says so, or where somebody waits for what does not come.

`edgewise.clock.timed_by` puts it in force. A worker that is a thread (`threaded_workers`) tells it when it falls silent:
a host that waits for that worker is at its deadline, or at the end of the silence, at once.
"""

from __future__ import annotations

import itertools
import math
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from edgewise.clock import timed_by

PATIENCE_S = 300.0
"""Real seconds after which a test fails in which a thread or process neither speaks nor falls silent."""

LOOK_S = 0.02
"""How often `ScriptedClock.silent_when` is asked."""


class Gone(BaseException):
    """The host does not listen any more: whoever was silent ends."""


class Speaker:
    """A thread that writes to a descriptor, and says when it does not."""

    def __init__(self, clock: ScriptedClock | None = None) -> None:
        self._clock = clock
        self._gone = False
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self.until: float | None = None
        """When its silence ends; None while it is not silent."""
        self.changed = threading.Event()
        """Set once it has fallen silent or ended."""

    def sleep(self, seconds: float = math.inf) -> None:
        """Say nothing for so long by the scripted clock. Raises `Gone` where the host does not wait for that."""
        with self._lock:
            if self._gone:
                raise Gone
            self._woken.clear()
            self.until = math.inf if self._clock is None else self._clock.now() + seconds
        if self._clock is not None:
            self._clock.ring()
        self.changed.set()
        assert self._woken.wait(PATIENCE_S), "nobody waited for a worker that was silent, and nobody ended it"
        if self._gone:
            raise Gone

    def wake(self) -> None:
        """Its silence is over."""
        with self._lock:
            self.until = None
            self.changed.clear()
            self._woken.set()

    def end(self) -> None:
        """Nobody listens any more."""
        with self._lock:
            self._gone = True
            self._woken.set()


class ScriptedClock:
    """A `edgewise.clock.Clock` whose time is a number.

    Attributes:
        silent_when: tells that a real process, which is waited for like a busy thread, has said all that it will say.
    """

    def __init__(self) -> None:
        self.silent_when: Callable[[], bool] = lambda: False
        self._time = 1000.0
        self._bell, self._rope = os.pipe()
        self._speakers: dict[int, Speaker] = {}
        self._actions: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def close(self) -> None:
        """Close its descriptors."""
        os.close(self._bell)
        os.close(self._rope)

    def now(self) -> float:
        """As `Clock.now`."""
        return self._time

    def let_pass(self, seconds: float) -> None:
        """So much time passes while the host is busy: for scripts in the host's own thread."""
        self._time += seconds

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something when so much time has passed and the host waits."""
        self._actions.append((self._time + seconds, next(self._numbers), action))
        self._actions.sort()

    def ring(self) -> None:
        """A speaker has fallen silent: whoever waits looks at the time."""
        os.write(self._rope, b".")

    def listen(self, descriptor: int) -> Speaker:
        """A new speaker at the other end of a pipe."""
        self._speakers[descriptor] = speaker = Speaker(self)
        return speaker

    def forget(self, descriptor: int) -> None:
        """The pipe is closed."""
        self._speakers.pop(descriptor, None)

    def wait(self, descriptors: Sequence[int], event: int, seconds: float, *, alarm: int | None) -> set[int]:
        """As `Clock.wait`. Time passes once nobody who is waited for is busy."""
        end = self._time + max(0.0, seconds)
        watched = dict.fromkeys(descriptors, event) | ({} if alarm is None else {alarm: select.POLLIN})
        give_up = time.monotonic() + PATIENCE_S
        while True:
            ready = _poll(watched, 0)
            if ready or self._time >= end:
                return ready
            speakers = [self._speakers[each] for each in descriptors if each in self._speakers]
            if speakers:
                silent = all(speaker.until is not None for speaker in speakers)
            else:
                silent = not descriptors or self.silent_when()
            if not silent:
                left = give_up - time.monotonic()
                # real time: somebody has to give up in the end
                assert left > 0.0, f"nothing came for {PATIENCE_S:g} real seconds"
                self._wait_really(watched, left if speakers else LOOK_S)
            elif not _poll(watched, 0):  # nothing was said before it fell silent
                self._pass_until(end, speakers)

    def _wait_really(self, watched: dict[int, int], seconds: float) -> None:
        """Until somebody speaks or falls silent; for a process, until it is time to look whether it did."""
        if self._bell in _poll(watched | {self._bell: select.POLLIN}, seconds):
            os.read(self._bell, 2**16)

    def _pass_until(self, end: float, speakers: Sequence[Speaker]) -> None:
        """Go to the next moment at which something happens, or to `end`."""
        moments = [speaker.until or 0.0 for speaker in speakers] + [moment for moment, _, _ in self._actions[:1]]
        self._time = max(self._time, min([end, *moments]))
        assert self._time < math.inf, "waits for ever"
        while self._actions and self._actions[0][0] <= self._time:
            self._actions.pop(0)[2]()
        for speaker in speakers:
            if speaker.until is not None and speaker.until <= self._time:
                speaker.wake()


def _poll(watched: dict[int, int], seconds: float) -> set[int]:
    poller = select.poll()
    for descriptor, event in watched.items():
        poller.register(descriptor, event)
    return {descriptor for descriptor, _ in poller.poll(seconds * 1000)}


@pytest.fixture(name="clock")
def scripted_clock() -> Iterator[ScriptedClock]:
    """A scripted clock, in force in this test."""
    clock = ScriptedClock()
    with timed_by(clock):
        yield clock
    clock.close()
