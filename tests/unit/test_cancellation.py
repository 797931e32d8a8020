"""Cancelling: one token, seen by everything that waits."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from edgewise import cancellation
from edgewise.cancellation import Cancelled, CancelToken, cancellable
from edgewise.clock import MachineClock, timed_by
from messages import says
from patience import LIMIT_S


def test_nothing_is_cancelled_without_a_token() -> None:
    cancellation.check()
    cancellation.sleep(0)


def test_the_token_in_force_stops_what_checks() -> None:
    token = CancelToken()
    with cancellable(token):
        cancellation.check()
        token.cancel("stop pressed")
        token.cancel("a later reason")
        with pytest.raises(Cancelled, match="stop pressed"):
            cancellation.check()
    cancellation.check()


def test_a_wait_is_woken_by_another_thread() -> None:
    token = CancelToken()

    class Waking(MachineClock):
        def wait(self, *words: Any, **settings: Any) -> set[int]:
            threading.Thread(target=token.cancel).start()
            return super().wait(*words, **settings)

    with timed_by(Waking()), cancellable(token), pytest.raises(Cancelled):
        cancellation.sleep(600)


def test_a_deadline_sets_the_token() -> None:
    with (
        cancellable(CancelToken(deadline_s=0.01)),
        pytest.raises(Cancelled, match=says("where-raw", where=says("time"), raw="over")),
    ):
        cancellation.sleep(600)


def test_a_token_without_its_deadline_is_forgotten() -> None:
    token = CancelToken(deadline_s=0.05)
    descriptor = token.fileno()
    del token
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_waiting_tells_what_can_be_read() -> None:
    reader, writer = os.pipe()
    with cancellable(CancelToken()):
        assert cancellation.wait_readable([reader], 0) == []
        os.write(writer, b"x")
        assert cancellation.wait_readable([reader]) == [reader]
    os.close(reader)
    os.close(writer)


# What signals do is tried in processes of their own: a handler that goes wrong ends the process that it runs in.


def test_a_signal_sets_the_token_and_a_second_one_interrupts() -> None:
    _run("""
        before = signal.getsignal(signal.SIGINT)
        token = CancelToken()
        with cancelled_by_signal(token):
            signal.raise_signal(signal.SIGINT)
            assert token.cancelled and not token.seen
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as error:
                assert not isinstance(error, Cancelled)
            else:
                raise AssertionError("a second signal did not interrupt")
        assert signal.getsignal(signal.SIGINT) is before
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    """)


def test_work_that_never_looks_at_the_token_is_cancelled_by_a_signal_too() -> None:
    _run("""
        cancellation.GRACE_S = 0.02
        token = CancelToken()
        try:
            with cancelled_by_signal(token), cancellable(token):
                signal.raise_signal(signal.SIGTERM)
                time.sleep(60)
        except Cancelled:
            assert token.seen
        else:
            raise AssertionError("the work went on")
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    """)


def test_work_that_has_seen_the_token_is_left_to_finish() -> None:
    _run("""
        token = CancelToken()
        with cancelled_by_signal(token), cancellable(token):
            signal.raise_signal(signal.SIGINT)
            try:
                cancellation.check()
            except Cancelled:
                signal.setitimer(signal.ITIMER_REAL, 0.001)  # the grace ends now
            time.sleep(0.1)
    """)


def test_a_signal_that_comes_when_the_work_ends_leaves_no_timer_behind() -> None:
    # The signal arrives while the handlers are put back, which is where a timer could outlive its handler.
    _run("""
        cancellation.GRACE_S = 0.02
        put_back = signal.signal

        def signal_in_between(number, handler):
            if armed and number == signal.SIGINT:
                signal.raise_signal(signal.SIGINT)
            return put_back(number, handler)

        armed = []
        cancellation.signal.signal = signal_in_between
        with cancelled_by_signal(CancelToken()):
            armed.append(True)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
        time.sleep(0.1)
    """)


def _run(code: str) -> None:
    """Run Python code with the names of the module in a process of its own; it must end with 0."""
    head = "import signal, time\nfrom edgewise import cancellation\n"
    head += "from edgewise.cancellation import Cancelled, CancelToken, cancellable, cancelled_by_signal\n"
    process = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert process.returncode == 0, process.stderr
