"""The clock that the host waits by, and the one that tests write."""

from __future__ import annotations

import os
import threading
import time

import pytest

from edgewise.cancellation import Cancelled, CancelToken, cancellable, sleep, wait_readable, wait_writable
from edgewise.clock import clock_in_force, now, timed_by
from scripted_clock import Gone, ScriptedClock


@pytest.fixture
def pipe():
    """The reading and the writing end of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_without_another_clock_it_is_the_machine_s(pipe):
    reading, writing = pipe
    before = time.monotonic()
    assert before <= now() <= time.monotonic()  # real time: whatever lies between
    assert wait_readable([reading], 0.0) == wait_readable([reading], -1.0) == []
    assert wait_writable(writing)
    os.write(writing, b"x")
    assert wait_readable([reading]) == [reading]
    sleep(0.0)


def test_a_clock_is_in_force_inside_and_only_there(clock):
    outer = clock_in_force()
    other = ScriptedClock()
    with timed_by(other):
        other.let_pass(5.0)
        assert clock_in_force() is other and now() == outer.now() + 5.0
    assert clock_in_force() is outer is clock
    other.close()


def until_gone(speaker) -> None:
    """A thread that is silent until nobody listens."""
    with pytest.raises(Gone):
        speaker.sleep()


def test_waits_by_a_scripted_clock_take_no_time_and_end_exactly(clock, pipe):
    begin = now()
    sleep(3600.0)
    assert now() == begin + 3600.0
    speaker = clock.listen(pipe[0])
    thread = threading.Thread(target=until_gone, args=(speaker,))
    thread.start()
    assert wait_readable([pipe[0]], 7200.0) == [] and now() == begin + 3 * 3600.0
    speaker.end()
    thread.join()


def test_who_is_waited_for_speaks_when_its_silence_is_over(clock, pipe):
    reading, writing = pipe
    speaker, begin = clock.listen(reading), now()

    def speak() -> None:
        for _ in range(3):
            speaker.sleep(0.5)
            os.write(writing, b"x")

    thread = threading.Thread(target=speak)
    thread.start()
    for count in range(1, 4):
        assert wait_readable([reading], 1.0) == [reading] and now() == begin + 0.5 * count
        assert os.read(reading, 10) == b"x"
    thread.join()


def test_a_token_ends_a_wait_when_the_script_says_so(clock, pipe):
    token, begin = CancelToken(), now()
    clock.after(2.0, token.cancel)
    with cancellable(token), pytest.raises(Cancelled):
        sleep(10.0)
    assert now() == begin + 2.0


def test_a_wait_that_nothing_ends_is_a_failed_test(clock):
    with pytest.raises(AssertionError, match="waits for ever"):
        wait_readable([])
