"""Jobs in a store: who may claim, finish, cancel and repeat one."""

import os
import threading
from uuid import RFC_4122, UUID

import pytest

from edgewise.errors import BadInput
from edgewise.record import new_run_id
from messages import says
from stores import DATABASES, POSTGRESQL, new_store

BENCH = {"verb": "bench", "models": ["a.onnx"]}


@pytest.fixture(params=DATABASES)
def jobs(request, tmp_path):
    with new_store(request.param, tmp_path) as opened:
        yield opened.jobs


def add(jobs, title="A", *, queue="here", device="local"):
    return jobs.add(BENCH, title=title, queue=queue, device=device)


@pytest.mark.skipif(not os.environ.get(POSTGRESQL), reason=f"{POSTGRESQL} holds no URL: only SQLite was tested")
def test_postgresql_is_tested_too(request, jobs):
    assert "postgresql" in request.node.callspec.id or "runs.db" in jobs._database.name


def test_a_job_from_queue_to_end(jobs):
    job_id = add(jobs, "Bench of a\nmodel")
    queued = jobs.get(job_id)
    assert (queued.status, queued.title, queued.verb) == ("queued", "Bench of a model", "bench")
    assert (queued.attempt, queued.fence, queued.started, queued.finished, queued.runs) == (0, 0, None, None, ())
    assert queued.request == '{"verb": "bench", "models": ["a.onnx"]}'
    claimed = jobs.claim("here", "me")
    assert (claimed.id, claimed.status, claimed.attempt, claimed.fence, claimed.holder) == (
        job_id,
        "running",
        1,
        1,
        "me",
    )
    assert claimed.created <= claimed.started
    assert jobs.finish(claimed, "failed", message="it\x00 broke", advice="mend it", exit_code=4, runs=["r1", "r2"])
    ended = jobs.get(job_id)
    assert (ended.status, ended.message, ended.advice, ended.exit_code) == ("failed", "it broke", "mend it", 4)
    assert ended.runs == ("r1", "r2") and ended.started <= ended.finished


def test_the_oldest_job_of_the_own_queue_is_claimed_once(jobs):
    add(jobs, "elsewhere", queue="there")
    first, second = add(jobs, "first"), add(jobs, "second", device="ssh://board")
    assert jobs.claim("here", "me").id == first
    assert jobs.claim("here", "me").id == second
    assert jobs.claim("here", "me") is None
    assert [job.title for job in jobs.running("here")] == ["second", "first"]


def test_jobs_of_one_device_take_turns(jobs):
    first, second = add(jobs, "first"), add(jobs, "second")
    claimed = jobs.claim("here", "me")
    assert claimed.id == first and jobs.claim("here", "you") is None
    assert jobs.finish(claimed, "done")
    assert jobs.claim("here", "you").id == second


def test_an_older_fence_finishes_nothing(jobs):
    job_id = add(jobs)
    old = jobs.claim("here", "slow")
    assert jobs.finish(old, "lost")
    assert jobs.again(job_id) == job_id
    new = jobs.claim("here", "quick")
    assert (old.fence, new.fence, new.attempt) == (1, 2, 2)
    assert not jobs.finish(old, "done", runs=["late"])
    assert jobs.get(job_id).status == "running"
    assert jobs.finish(new, "done") and not jobs.finish(new, "failed")
    assert jobs.get(job_id).status == "done"


def test_many_claim_at_once_and_each_job_is_claimed_by_one(jobs):
    for number in range(12):
        add(jobs, str(number), device=f"board{number}")
    found, start = [], threading.Barrier(4)

    def work():
        start.wait()
        while (job := jobs.claim("here", "me")) is not None:
            found.append(job.title)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=int) == [str(number) for number in range(12)]


def test_only_one_cancels(jobs):
    job_id = add(jobs)
    assert jobs.cancel(job_id) == "cancelled"
    with pytest.raises(BadInput, match=says("job-already", status="cancelled")):
        jobs.cancel(job_id)
    assert jobs.claim("here", "me") is None
    assert jobs.again(job_id) == job_id
    with pytest.raises(BadInput, match=says("job-already", status="queued")):
        jobs.again(job_id)
    running = jobs.claim("here", "me")
    assert not running.cancelling and jobs.cancel(job_id) == "running"
    assert jobs.get(job_id).cancelling
    with pytest.raises(BadInput, match=says("being-cancelled-already")):
        jobs.cancel(job_id)
    with pytest.raises(BadInput, match=says("job-already", status="running")):
        jobs.again(job_id)
    assert jobs.finish(running, "cancelled")
    assert jobs.again(job_id) == job_id and not jobs.get(job_id).cancelling


def test_a_done_job_is_repeated_as_a_new_one(jobs):
    job_id = add(jobs)
    jobs.finish(jobs.claim("here", "me"), "done", runs=["r"])
    other = jobs.again(job_id)
    assert other != job_id and jobs.get(job_id).runs == ("r",)
    assert (jobs.get(other).request, jobs.get(other).title) == (jobs.get(job_id).request, "A")
    assert (jobs.get(other).status, jobs.get(other).queue, jobs.get(other).device) == ("queued", "here", "local")


def test_pages_follow_one_another(jobs):
    for number in range(5):
        add(jobs, str(number))
    jobs.cancel(jobs.list()[1].id)
    assert [job.title for job in jobs.list()] == ["4", "3", "2", "1", "0"]
    first = jobs.list(limit=2)
    second = jobs.list(limit=2, before=first[-1].id)
    assert [job.title for job in (*first, *second)] == ["4", "3", "2", "1"]
    assert [job.title for job in jobs.list(limit=2, before=second[-1].id)] == ["0"]
    assert [job.title for job in jobs.list(status=("cancelled", "lost"))] == ["3"]
    assert len(jobs.list(verbs=("estimate", "bench"))) == 5 and jobs.list(verbs=("estimate",)) == []


@pytest.mark.parametrize("job_id", ["nothing", "", "a\nb", "\udc80", "x" * 10_000])
def test_an_unknown_job(jobs, job_id):
    for ask in (jobs.get, jobs.cancel, jobs.again, lambda one: jobs.list(before=one)):
        with pytest.raises(BadInput, match=says("there-no-such-job")):
            ask(job_id)


def test_ids_sort_as_they_were_made_within_a_millisecond(monkeypatch):
    times = iter(1_700_000_000_000_000_000 + 250 * at for at in range(4000))
    monkeypatch.setattr("time.time_ns", lambda: next(times))
    ids = [new_run_id() for _ in range(4000)]
    assert ids == sorted(ids) and len(set(ids)) == 4000
    assert {(UUID(one).version, UUID(one).variant) for one in ids} == {(7, RFC_4122)}
