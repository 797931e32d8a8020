"""Suites that a lab queues again by themselves, on a real PostgreSQL; its clock decides."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest
import yaml
from sqlalchemy import text

from edgewise.cli.main import run
from edgewise.errors import BadInput
from edgewise.store import open_store
from edgewise.verbs.lab.engine import next_time, queue_due_suites, ring
from edgewise.version import __version__
from labs import DONE, begin, board, column, local, status, working
from patience import wait_until

pytest.importorskip("procrastinate", reason="needs procrastinate: no lab was tested")
NIGHTLY = {"nightly": "0 3 * * *"}


def put(lab, crons=NIGHTLY, suite="s", cells="ab"):
    lab.schedules.put(suite, crons, [column(key, suite=suite) for key in cells], next_time)


def make_due(lab, seconds=1.0):
    with lab._database.writing() as connection:
        connection.execute(text(f"UPDATE lab_schedules SET due = {lab._database.now} - {seconds}"))


def database_time(lab):
    with lab._database.reading() as connection:
        return connection.scalar(text(f"SELECT {lab._database.now}"))


@pytest.mark.parametrize(
    ("cron", "after", "time_then"),
    [
        ("0 3 * * *", 1_000_000_000.0, 1_000_004_400.0),  # 01:46:40 → 03:00 UTC
        ("0 3 * * *", 1_000_004_400.0, 1_000_090_800.0),  # 03:00 → 03:00 of the next day
        ("*/5 * * * *", 1_000_000_000.0, 1_000_000_200.0),
        ("0 0 1 1 *", 1_000_000_000.0, 1_009_843_200.0),
    ],
)
def test_the_next_time_of_a_schedule_is_in_utc(cron, after, time_then, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert next_time(cron, after) == time_then
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("cron", ["", "nightly", "0 3 * *", "0 3 * * * *", "61 3 * * *", "0 0 31 2 *", "@daily"])
def test_what_is_no_schedule_is_refused(cron):
    with pytest.raises(BadInput, match="is no schedule"):
        next_time(cron, 1e9)


def test_a_suite_is_queued_once_when_its_time_has_come(lab):
    put(lab)
    now = database_time(lab)
    (one,) = lab.schedules.all()
    assert (one.suite, one.name, one.cron, one.queued, one.cells) == ("s", "nightly", "0 3 * * *", None, 2)
    assert now < one.due <= now + 86400.0 and one.due % 86400.0 == 3 * 3600.0
    assert queue_due_suites(lab) == []
    make_due(lab, seconds=3 * 86400.0)  # no host was there for three nights
    assert [(each.suite, each.cells) for each in queue_due_suites(lab)] == [("s", 2)]
    assert queue_due_suites(lab) == []
    assert {key: job.status for key, job in lab.jobs.find("ab").items()} == {"a": "queued", "b": "queued"}
    (after,) = lab.schedules.all()
    assert after.due == one.due
    assert now <= after.queued <= database_time(lab)


def test_the_cells_of_a_night_are_those_that_have_ended(lab):
    put(lab)
    make_due(lab)
    queue_due_suites(lab)
    assert lab.jobs.end(begin(lab, "a"), DONE)
    begin(lab, "b")
    make_due(lab)
    queue_due_suites(lab)  # the next night
    assert (status(lab, "a"), status(lab, "b")) == ("queued", "running")
    with lab._database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM procrastinate_jobs")) == 3


def test_hosts_that_look_at_the_same_time_queue_a_suite_once(lab, url):
    put(lab, cells=[f"k{number}" for number in range(50)])
    make_due(lab)
    found, ready = [], threading.Barrier(4)

    def look():
        with open_store(url) as own:
            own.lab.schedules.all()  # the connection is made
            ready.wait()
            found.extend(queue_due_suites(own.lab))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    with lab._database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM procrastinate_jobs")) == 50


def test_what_can_not_be_queued_leaves_the_schedule_due(lab):
    def fail(_connection, _jobs):
        raise KeyboardInterrupt

    put(lab)
    make_due(lab)
    (before,) = lab.schedules.all()
    with pytest.raises(KeyboardInterrupt):
        lab.schedules.queue_due(__version__, next_time, fail)
    assert lab.schedules.all() == [before]
    assert len(lab.schedules.queue_due(__version__, next_time, ring)) == 1


def test_a_clock_that_is_an_hour_off_changes_nothing(lab, monkeypatch):
    put(lab)
    due = lab.schedules.all()[0].due
    real = time.time
    for hours in (-1, 1, 30):
        monkeypatch.setattr(time, "time", lambda: real() + 3600.0 * hours)  # noqa: B023 - called here
        put(lab, {"other": "0 3 * * *"})
        put(lab)
        assert queue_due_suites(lab) == []
        assert lab.schedules.all()[0].due == due


def test_a_schedule_that_stays_the_same_keeps_its_time(lab):
    put(lab, {"nightly": "0 3 * * *", "hourly": "0 * * * *"})
    make_due(lab)
    put(lab, {"nightly": "0 3 * * *", "hourly": "30 * * * *"}, cells="abc")
    now = database_time(lab)
    assert [(one.name, one.due < now, one.cells) for one in lab.schedules.all()] == [
        ("nightly", True, 3), ("hourly", False, 3),
    ]  # fmt: skip
    put(lab, {}, suite="another")
    assert len(lab.schedules.all()) == 2
    put(lab, {})
    assert lab.schedules.all() == []
    with pytest.raises(BadInput, match="no schedule of s"):
        lab.schedules.remove("s")


def suite_with(**more):
    content = yaml.safe_load(Path("suite.yaml").read_text())
    Path("suite.yaml").write_text(yaml.safe_dump({**content, **more}))


def test_a_suite_says_when_it_is_measured_again(place, url, lab, capsys):
    suite_with(schedule=NIGHTLY)
    with working("--host", "bench") as process:
        wait_until(lab.devices, process)
        assert run(["sweep", "suite.yaml", "--lab", "--wait"]) == 0
        capsys.readouterr()
        assert run(["lab", "status"]) == 0
        assert re.search(r"^nightly +suite +4 +0 3 \* \* \* +\d{4}-\d\d-\d\d \d\d:\d\d", capsys.readouterr().out, re.M)
        first = {row["id"]: row["finished"] for row in outcomes()}
        make_due(lab)
        wait_until(lambda: {job.fence for job in jobs(lab)} == {2}, process)
        wait_until(lambda: not {"queued", "running"} & set(lab.status()["suites"]["suite"]), process)
        assert run(["sweep", "suite.yaml", "--lab"]) == 0  # shows the night
    night = {row["id"]: row["finished"] for row in outcomes()}
    assert len(night) == 4 and all(night[key] > first[key] for key in night)
    with open_store(url) as own:
        assert len(own.list()) == 8
    assert {state for _, state, _ in board("suite-results")} == {"done"}
    suite_with(schedule={})
    assert run(["sweep", "suite.yaml", "--lab", "--only", "fast"]) == 0
    assert len(lab.schedules.all()) == 1  # a part says nothing of the whole
    assert run(["sweep", "suite.yaml", "--lab"]) == 0
    assert lab.schedules.all() == []


def outcomes():
    lines = Path("suite-results/cells.jsonl").read_text().splitlines()
    found = {row["key"]: {"id": row["key"], "finished": row["finished"]} for row in map(json.loads, lines)}
    return list(found.values())


def jobs(lab):
    return lab.jobs.of_suite("suite", most=9)


def test_a_schedule_is_ended_and_a_bad_one_names_its_line(place, lab, capsys):
    lab.register("h", "w", version=__version__, boot="b", devices=[local("h")])
    suite_with(schedule={"nightly": "0 25 * * *"})
    assert run(["sweep", "suite.yaml", "--lab"]) == 2
    assert re.search(r"suite\.yaml, line \d+: '0 25 \* \* \*' is no schedule", capsys.readouterr().err)
    assert not lab.status()["jobs"]
    suite_with(schedule=NIGHTLY)
    assert run(["sweep", "suite.yaml", "--lab"]) == 0
    assert run(["lab", "cancel", "--schedule", "other"]) == 2
    assert "those with one: suite" in " ".join(capsys.readouterr().err.split())
    assert run(["lab", "cancel", "--schedule", "suite", "--all"]) == 2
    assert run(["lab", "cancel", "--schedule", "suite"]) == 0
    assert lab.schedules.all() == []
    assert {job.status for job in jobs(lab)} == {"queued"}
