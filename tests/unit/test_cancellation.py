"""Cancelling: one token, seen by everything that waits."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from edgewise import cancellation
from edgewise.cancellation import Cancelled, CancelToken, cancellable, cancelled_by_signal


def test_nothing_is_cancelled_without_a_token() -> None:
    cancellation.check()
    cancellation.sleep(0)
    assert cancellation.current_token() is None


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
    timer = threading.Timer(0.05, token.cancel)
    timer.start()
    begin = time.monotonic()
    with cancellable(token), pytest.raises(Cancelled):
        cancellation.sleep(30)
    timer.join()
    assert time.monotonic() - begin < 15


def test_a_deadline_sets_the_token() -> None:
    with cancellable(CancelToken(deadline_s=0.01)), pytest.raises(Cancelled, match="the time is over"):
        cancellation.sleep(30)


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


def test_a_signal_sets_the_token_and_a_second_one_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    # A machine that pauses this test for longer than the grace would end the process that the tests share.
    monkeypatch.setattr(cancellation, "GRACE_S", 600.0)
    token = CancelToken()
    before = signal.getsignal(signal.SIGINT)
    with cancelled_by_signal(token):
        signal.raise_signal(signal.SIGINT)
        assert token.cancelled
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_work_that_never_looks_at_the_token_is_cancelled_by_a_signal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "GRACE_S", 0.02)
    token = CancelToken()
    begin = time.monotonic()
    with pytest.raises(Cancelled), cancelled_by_signal(token), cancellable(token):
        signal.raise_signal(signal.SIGINT)
        while time.monotonic() - begin < 10.0:
            pass
    assert time.monotonic() - begin < 5.0 and token.seen
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_work_that_has_seen_the_token_is_left_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "GRACE_S", 0.02)
    token = CancelToken()
    with cancelled_by_signal(token), cancellable(token):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Cancelled):
            cancellation.check()
        time.sleep(0.05)  # nothing is raised here any more
