"""Two measurements never share a machine: who waits for whom, how often it looks, and what it tells.

What the kernel does with the lock of a process, and locks on other machines: ``tests/process/test_lease_process.py``.
"""

from __future__ import annotations

import os

import pytest

from edgewise.cancellation import Cancelled, CancelToken, cancellable, sleep
from edgewise.device.agent import lock_file, try_lock
from edgewise.device.lease import INHERITED, RETRY_S, measuring_on
from edgewise.errors import BadInput
from edgewise.progress import LogLine, reporting_to
from edgewise.verbs.outcome import outcome_of
from edgewise.verbs.verb import VERBS


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    return tmp_path


@pytest.fixture
def hold():
    """A function that takes the lock as another process does: by a descriptor of its own. It returns what frees it."""
    held = []

    def take(holder="somebody"):
        held.append(try_lock(lock_file(), holder))
        assert isinstance(held[-1], int), held[-1]
        return lambda: os.close(held.pop())

    yield take
    for descriptor in held:
        os.close(descriptor)


@pytest.fixture
def lines():
    """What was told meanwhile."""
    told = []

    def note(event):
        if isinstance(event, LogLine):
            told.append(event.text)

    with reporting_to(note):
        yield told


def is_free():
    found = try_lock(lock_file(), "test")
    if isinstance(found, int):
        os.close(found)
    return isinstance(found, int)


def test_a_second_measurement_waits_and_is_told_for_whom(hold, lines, clock):
    clock.after(4.5 * RETRY_S, hold("user bob, process 7 since 2026"))
    begin = clock.now()
    with measuring_on("local"):
        assert clock.now() - begin == 5 * RETRY_S  # it is looked at once a second
        assert not is_free()
    assert lines == ["waiting for local: in use by user bob, process 7 since 2026"]
    assert is_free()


def test_a_newcomer_waits_for_who_is_next_in_the_queue(lines, clock):
    ahead = try_lock(lock_file().with_suffix(".next"), "somebody who waits")
    clock.after(2.5 * RETRY_S, lambda: os.close(ahead))
    begin = clock.now()
    assert is_free()
    with measuring_on("local"):
        assert clock.now() - begin == 3 * RETRY_S
    assert len(lines) == 1


def test_who_has_left_is_not_named_as_the_holder(lines, clock):
    with measuring_on("local"):
        assert lock_file().read_text() != ""
    ahead = try_lock(lock_file().with_suffix(".next"), "somebody who waits")
    clock.after(0.5 * RETRY_S, lambda: os.close(ahead))
    with measuring_on("local"):
        pass
    assert lines == ["waiting for local: in use by somebody who waits"]


def test_without_progress_a_warning_names_the_first_holder_once(hold, clock):
    free = hold("first")

    def pass_on():
        free()
        clock.after(2.0, hold("second"))

    clock.after(2.5, pass_on)
    with pytest.warns(RuntimeWarning) as warned, measuring_on("local"):
        pass
    assert [str(one.message) for one in warned] == ["waiting for local: in use by first"]


@pytest.mark.usefixtures("lines")
def test_who_waits_is_next_until_the_lock_is_held(hold, clock):
    turn, found = lock_file().with_suffix(".next"), []
    clock.after(1.5 * RETRY_S, lambda: found.append(try_lock(turn, "a newcomer")))
    clock.after(2.5 * RETRY_S, hold("somebody"))
    with measuring_on("local"):
        os.close(try_lock(turn, "the next"))
    assert len(found) == 1 and isinstance(found[0], str)


def test_the_next_holder_is_told_too(hold, lines, clock):
    free = hold("first")

    def pass_on():
        free()
        clock.after(2.0, hold("second"))

    clock.after(2.5, pass_on)
    with measuring_on("local"):
        pass
    assert lines == [f"waiting for local: in use by {name}" for name in ("first", "second")]


def test_a_wait_can_be_cancelled(hold, lines, clock):
    hold()
    token, begin = CancelToken(), clock.now()
    clock.after(100.25, token.cancel)
    with cancellable(token), pytest.raises(Cancelled), measuring_on("local"):
        raise AssertionError("it was not free")
    assert clock.now() - begin == 100.25 and len(lines) == 1


def test_a_measurement_within_one_waits_for_nobody():
    with measuring_on("local"):
        with measuring_on("local"):
            assert not is_free()
        assert not is_free() and os.environ[INHERITED] == "local"
    assert is_free() and INHERITED not in os.environ


def test_what_measures_nothing_waits_for_nobody(hold):
    hold()
    with measuring_on("local", needed=False):
        assert not is_free()


def test_a_folder_of_locks_that_is_not_there_is_made_for_the_user_alone(tmp_path, monkeypatch, lines):
    folder = tmp_path / "some" / "missing"
    monkeypatch.setenv("EDGEWISE_LOCKS", str(folder))
    with measuring_on("local"):
        assert (folder / "edgewise-measuring.lock").is_file() and not is_free()
    assert folder.stat().st_mode & 0o777 == 0o700 and lines == []
    taken = tmp_path / "file"
    taken.write_text("no folder")
    monkeypatch.setenv("EDGEWISE_LOCKS", str(taken / "locks"))
    with pytest.raises(BadInput, match=r"EDGEWISE_LOCKS: the folder .*/file/locks can't be made: Not a dir") as caught:
        measuring_on("local").__enter__()
    assert "in which you can write" in caught.value.advice and INHERITED not in os.environ


def test_a_default_folder_that_can_not_be_written_costs_no_measurement(tmp_path, monkeypatch, lines):
    monkeypatch.setattr("edgewise.device.lease.lock_file", lambda: tmp_path / "missing" / "edgewise-measuring.lock")
    monkeypatch.delenv("EDGEWISE_LOCKS")
    with measuring_on("local"):
        pass
    assert f"no lock of local: there is no folder {tmp_path / 'missing'}, so" in lines[0]
    assert "EDGEWISE_LOCKS" in lines[0] and not (tmp_path / "missing").exists()


def test_something_else_in_the_place_of_the_lock_file_costs_no_measurement(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    os.mkfifo(tmp_path / "edgewise-measuring.lock")
    with measuring_on("local"):
        pass


@pytest.mark.usefixtures("lines")
def test_what_a_request_waited_is_no_part_of_its_seconds(hold, clock):
    def work():
        sleep(3.0)
        with measuring_on("local"):
            sleep(7.0)
        raise BadInput("enough")

    clock.after(4.5, hold("somebody"))  # is looked at from 3 s on, and free at 5 s
    outcome, error = outcome_of("key", "cell", work, VERBS.get("bench"))
    assert (outcome.seconds, outcome.waited, outcome.status, str(error)) == (10.0, 2.0, "failed", "enough")
    outcome, _ = outcome_of("key", "cell", work, VERBS.get("bench"))
    assert (outcome.seconds, outcome.waited) == (10.0, 0.0)
