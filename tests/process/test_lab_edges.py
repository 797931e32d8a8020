"""A lab whose hosts, clocks, disks, database and queue are not as they should be."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from test_lab import add, begin, board, hosts, lab, local, log, open_gate, place, server, status, store, url, working  # noqa: F401

from edgewise.cancellation import CancelToken
from edgewise.cli.main import run
from edgewise.errors import StoreError
from edgewise.store import lab as store_lab
from edgewise.store import open_store
from edgewise.verbs.lab.engine import DELIVER, free_lost_jobs, open_app
from edgewise.verbs.lab.files import FileCache
from edgewise.verbs.lab.job import JobRunner
from edgewise.verbs.lab.worker import RETRY_S, Host
from edgewise.verbs.sweep import in_lab
from edgewise.version import __version__
from patience import wait_until
from postgresql import find_programs

pytest.importorskip("procrastinate", reason="needs procrastinate: no lab was tested")
pytestmark = pytest.mark.skipif(find_programs() is None, reason="PostgreSQL is not installed: no lab was tested")
HASH = "0" * 64


def test_the_end_of_a_host_whose_clock_is_an_hour_fast_is_noticed(url, lab, tmp_path, monkeypatch):  # noqa: F811
    add(lab, "k", device="any", lock=None)
    monkeypatch.setenv("LAB_CLOCK_AHEAD_S", "3600")
    with hosts(url, tmp_path, "fast") as (fast,):
        wait_until(lambda: log(tmp_path, "begin"), fast)
        with lab._database.reading() as connection:
            ahead = connection.scalar(text(
                "SELECT max(defer_timestamp) - extract(epoch FROM now()) FROM procrastinate_periodic_defers"))  # fmt: skip
        assert ahead > 3000
        fast.kill()
        fast.wait()
    monkeypatch.delenv("LAB_CLOCK_AHEAD_S")
    open_gate(tmp_path)
    with hosts(url, tmp_path, "right", devices="d2") as (right,):
        wait_until(lambda: status(lab, "k") == "done", right)
    assert lab.jobs.get("k").host == "right"
    assert 0 < lab.jobs.get("k").finished - lab.jobs.get("k").created < 3000  # by the database's clock


def test_a_result_is_saved_after_five_minutes_without_a_database():
    waited, told = [], []

    class Clock(threading.Event):
        def wait(self, timeout=None):
            waited.append(timeout)
            return self.is_set()

    def write():
        if sum(waited) < 300:
            raise StoreError("the store is away")
        return "saved"

    host = Host(lab=None, name="h", devices=[], work=None, say=told.append, _stopping=Clock())
    assert host._persist(write) == "saved"
    assert (sum(waited), set(waited), told) == (300, {RETRY_S}, ["the store is away"])


def test_the_engine_connects_again_soon_however_long_the_database_was_away():
    """The pauses of its attempts double: five minutes later they would last for minutes."""
    pool = pytest.importorskip("psycopg_pool.base")
    timeout = open_app("").connector._pool_args["reconnect_timeout"]
    now = longest = 0.0
    while now < 300:
        attempt = pool.AttemptWithBackoff(timeout=timeout)
        while not attempt.time_to_give_up(now):
            attempt.update_delay(now)
            now, longest = now + attempt.delay, max(longest, attempt.delay)
        now += 1
    assert longest < 10


@pytest.mark.parametrize(
    "request_text",
    [
        "",
        "[" * 10_000,
        "null",
        '{"verb": ["bench"]}',
        '{"verb": "bench", "schema": 1}',
        '{"verb": "bench", "schema": 99}',
        '{"verb": "bench", "schema": 1, "models": ["/etc/passwd"]}',
        '{"verb": "bench", "schema": 1, "models": ["' + HASH + '/a\\u0000b.onnx"]}',
        '{"verb": "bench", "schema": 1, "models": ["' + HASH + "/" + "x" * 300 + '.onnx"]}',
        '{"verb": "bench", "schema": 1, "models": ["' + HASH + '/a.onnx"], "threads": [1e400]}',
        '{"verb": "optimize", "schema": 1, "model": "' + HASH + '/a.onnx"}',
    ],
    ids=range(11),
)
def test_a_poisoned_request_fails_with_a_reason(lab, tmp_path, request_text):  # noqa: F811
    add(lab, "k", request=request_text)
    runner = JobRunner(store="", cache=FileCache(tmp_path / "cache", lab.files, most=10**6))
    ended = runner(begin(lab, "k"), local("h"), CancelToken())
    assert ended.outcome["status"] == "failed"
    assert ended.outcome["cause"]
    assert not ended.runs


def test_a_poisoned_row_of_the_engine_does_not_keep_others_locked(store, lab, monkeypatch):  # noqa: F811
    """Whoever may queue may write such a row; the job after it is still taken from its dead worker."""
    monkeypatch.setattr(store_lab, "STALE_S", -1.0)
    add(lab, "k")
    with store._database.writing() as connection:
        connection.execute(text("UPDATE procrastinate_jobs SET status = 'doing'"))
        delivery = connection.scalar(text("SELECT id FROM procrastinate_jobs"))
        row = "INSERT INTO procrastinate_jobs (queue_name, task_name, status, args) VALUES ('q', :task, 'doing', :args)"
        for args in ("{}", '{"job": 7}', '{"job": "\\n"}'):
            connection.execute(text(row), {"task": DELIVER, "args": args})
        connection.execute(text(row), {"task": "no such task", "args": '{"a": 1}'})
    begin(lab, "k", delivery=delivery)

    async def sweep():
        app = open_app(lab.url)
        async with app.open_async():
            await free_lost_jobs(app, lab)

    asyncio.run(sweep())
    assert status(lab, "k") == "queued"
    with store._database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing'")) == 0


def test_a_worker_of_another_version_is_refused_with_the_version_it_needs(place, lab, capsys):  # noqa: F811
    with working("--host", "bench") as process:
        wait_until(lab.devices, process)
        with lab._database.writing() as connection:
            connection.execute(text("UPDATE lab_settings SET value = '9.9' WHERE name = 'version'"))
        assert process.wait(600) == 3
        assert "this lab works with edgewise 9.9" in process.stdout.read().decode()
    capsys.readouterr()
    assert run(["lab", "work"]) == 3
    told = capsys.readouterr().err
    assert f"this lab works with edgewise 9.9, and here is {__version__}" in " ".join(told.split())
    assert "pip install edgewise==9.9" in told


def test_a_model_that_vanishes_while_it_is_queued_fails_alone(place, lab, capsys, monkeypatch):  # noqa: F811
    lab.register("h", "w", version=__version__, boot="b", devices=[local("h")])
    opened = in_lab.open_queue

    def remove_first(lab):
        Path("nets/fast.fake").unlink()
        return opened(lab)

    monkeypatch.setattr(in_lab, "open_queue", remove_first)
    assert run(["sweep", "suite.yaml", "--lab"]) == 4
    assert "nets/fast.fake" in capsys.readouterr().out
    assert lab.status()["jobs"] == {"local": {"queued": 2}}


def test_cells_of_a_host_whose_disk_is_full_fail_and_are_measured_once_there_is_room(place, url, capsys):  # noqa: F811
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs the permission to mount a file system: no full disk was tested")
    disk = Path("disk").absolute()
    disk.mkdir()
    assert run(["lab", "init"]) == 0
    prefix = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=256k tmpfs {disk}; TMPDIR={disk} exec "$@"', "sh")
    with working("--host", "bench", prefix=prefix) as process, open_store(url) as opened:
        wait_until(opened.lab.devices, process)
        assert run(["sweep", "suite.yaml", "--lab", "--wait", "--only", "fast"]) == 0
        filler = Path(f"/proc/{process.pid}/root{disk}/filler")
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert run(["sweep", "suite.yaml", "--lab", "--wait"]) == 4
        assert "the job could not be started: No space left on device" in " ".join(capsys.readouterr().out.split())
        filler.unlink()
        assert run(["sweep", "suite.yaml", "--lab", "--wait"]) == 0
    assert {state for _, state, _ in board("suite-results")} == {"done"}
