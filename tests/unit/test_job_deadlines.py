"""How long a job of the studio may take to end once it was cancelled, by a clock that the test writes."""

from __future__ import annotations

import json
from io import StringIO
from types import SimpleNamespace

import pytest

from edgewise.cancellation import CancelToken, sleep
from edgewise.clock import now
from edgewise.store import open_store
from edgewise.studio.jobs import dispatcher
from edgewise.studio.jobs.messages import End
from scripted_clock import ScriptedClock

JOB = SimpleNamespace(id="0" * 36, fence=1)


class Child:
    """A process of a job: after `seconds` it says that it ended, None lets it hang."""

    def __init__(self, clock: ScriptedClock, seconds: float | None) -> None:
        self.says_at = None if seconds is None else clock.now() + seconds
        self.told: list[bytes] = []

    def send(self, line: bytes) -> None:
        self.told.append(line)

    def read_line(self, *, until: float) -> bytes:
        if self.says_at is not None and self.says_at <= until:
            sleep(self.says_at - now())
            return json.dumps({"kind": "end", "status": "cancelled"}).encode()
        sleep(until - now())
        raise TimeoutError


@pytest.fixture
def jobs(tmp_path, clock):
    with open_store(str(tmp_path / "runs.db")) as store:
        made = dispatcher.Dispatcher(store, folder=tmp_path, store_url=store.name)
        made._tokens[JOB.id] = CancelToken()
        yield made


def test_a_cancelled_job_that_does_not_end_has_its_grace_and_no_more(jobs, clock):
    child, begin = Child(clock, None), clock.now()
    clock.after(7.0, jobs._tokens[JOB.id].cancel)
    assert jobs._listen(JOB, child, StringIO()) is None
    assert clock.now() - begin == pytest.approx(7.0 + dispatcher.GRACE_S)
    assert child.told == [b"x"]  # asked to end, once


def test_a_cancelled_job_that_ends_within_its_grace_says_how(jobs, clock):
    child = Child(clock, 7.0 + dispatcher.GRACE_S - 1.0)
    clock.after(7.0, jobs._tokens[JOB.id].cancel)
    assert jobs._listen(JOB, child, StringIO()) == End(status="cancelled")


def test_a_studio_that_ends_gives_its_jobs_no_grace(jobs, clock):
    child, begin = Child(clock, None), clock.now()
    jobs._stopping = True
    clock.after(0.5, jobs._tokens[JOB.id].cancel)
    assert jobs._listen(JOB, child, StringIO()) is None
    assert clock.now() - begin == pytest.approx(0.5)


def test_a_running_job_is_looked_at_in_the_store_now_and_then(jobs, clock, monkeypatch):
    looks = []
    monkeypatch.setattr(jobs, "_look_at", lambda job: looks.append(clock.now()))
    begin = clock.now()
    assert jobs._listen(JOB, Child(clock, 4.5 * dispatcher.LOOK_S), StringIO()) is not None
    assert looks == [begin + dispatcher.LOOK_S * count for count in (1, 2, 3, 4)]
