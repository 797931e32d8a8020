"""A lab whose hosts, clocks, disks, database and queue are not as they should be."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from fsspec.core import url_to_fs
from sqlalchemy import text

from edgewise.cancellation import CancelToken
from edgewise.cli.main import run
from edgewise.errors import BadInput, StoreError
from edgewise.store import lab as store_lab
from edgewise.store import open_store
from edgewise.store.lab import LabSettings
from edgewise.store.lab_folder import CHUNK, LabFolder
from edgewise.verbs.lab.engine import DELIVER, free_lost_jobs, make_engine, open_app, protocol
from edgewise.verbs.lab.files import FileCache, Packer
from edgewise.verbs.lab.job import JobRunner
from edgewise.verbs.lab.worker import RETRY_S, Host
from edgewise.verbs.sweep import in_lab
from edgewise.version import __version__
from labs import add, begin, board, hosts, local, log, open_gate, status, working
from patience import wait_until

HASH = "0" * 64


def test_the_end_of_a_host_whose_clock_is_an_hour_fast_is_noticed(url, lab, tmp_path, monkeypatch):
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
def test_a_poisoned_request_fails_with_a_reason(lab, tmp_path, request_text):
    add(lab, "k", request=request_text)
    runner = JobRunner(store="", cache=FileCache(tmp_path / "cache", lab.files, most=10**6))
    ended = runner(begin(lab, "k"), local("h"), CancelToken())
    assert ended.outcome["status"] == "failed"
    assert ended.outcome["cause"]
    assert not ended.runs


def test_a_poisoned_row_of_the_engine_does_not_keep_others_locked(store, lab, monkeypatch):
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


def test_a_worker_of_another_version_is_refused_with_the_version_it_needs(place, lab, capsys):
    with working("--host", "bench") as process:
        wait_until(lab.devices, process)
        with lab._database.writing() as connection:
            connection.execute(text("UPDATE lab_settings SET value = '9.9' WHERE name IN ('version', 'protocol')"))
        assert process.wait(600) == 3
        assert "this lab works with edgewise 9.9" in process.stdout.read().decode()
    capsys.readouterr()
    assert run(["lab", "work"]) == 3
    told = capsys.readouterr().err
    assert f"this lab works with edgewise 9.9, and here is {__version__}" in " ".join(told.split())
    assert "use edgewise 9.9 here" in told
    assert run(["lab", "status"]) == 0
    last = f"the lab works with edgewise 9.9; here is {__version__}, whose requests or results have another form"
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_versions_whose_requests_and_results_have_the_same_form_work_together(place, lab, capsys):
    lab.make(LabSettings(version="9.9", protocol=protocol(), most_file=10_000_000), make_engine)
    with working("--host", "bench") as process:
        wait_until(lab.devices, process)
        assert run(["bench", "nets/fast.fake", "-r", "fake", "--lab", "--iterations", "9", "--sessions", "1"]) == 0
        capsys.readouterr()
        assert run(["lab", "status"]) == 0
        assert capsys.readouterr().out.splitlines()[-2:] == [
            f"bench has edgewise {__version__}", f"the lab works with edgewise 9.9; here is {__version__}",
        ]  # fmt: skip
        assert run(["lab", "status", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["version"], told["version_here"], told["works_with_this_version"]) == ("9.9", __version__, True)


def test_a_model_that_vanishes_while_it_is_queued_fails_alone(place, lab, capsys, monkeypatch):
    lab.register("h", "w", version=__version__, boot="b", devices=[local("h")])
    opened = in_lab.open_queue

    def remove_first(lab):
        Path("nets/fast.fake").unlink()
        return opened(lab)

    monkeypatch.setattr(in_lab, "open_queue", remove_first)
    assert run(["sweep", "suite.yaml", "--lab"]) == 4
    assert "nets/fast.fake" in capsys.readouterr().out
    assert lab.status()["jobs"] == {"local": {"queued": 2}}


def test_cells_of_a_host_whose_disk_is_full_fail_and_are_measured_once_there_is_room(place, url, capsys):
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


@pytest.fixture(params=["folder", "memory", "file"])
def far(request, tmp_path):
    """The URL of an empty folder for files."""
    return {"folder": str(tmp_path / "far"), "memory": f"memory://{tmp_path}", "file": (tmp_path / "far").as_uri()}[
        request.param
    ]


def contents(folder):
    system, root = url_to_fs(folder)
    return {name.rpartition("/")[2]: system.cat_file(name) for name in system.ls(root, detail=False)}


def test_files_elsewhere_are_kept_once_and_checked(far, url, store, lab, tmp_path):
    assert run(["lab", "init", url, "--files", far]) == 0
    one, folder = tmp_path / "one.bin", tmp_path / "data"
    one.write_bytes(os.urandom(CHUNK + 7))
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.txt").write_text("a")
    packer = Packer(lab.files, most=10**8)
    single, several = packer.pack(str(one)), packer.pack(str(folder))
    sha256 = single.partition("/")[0]
    assert contents(far).keys() == {sha256, several.partition(".")[0]}
    with store._database.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM lab_files")) == 0
    cache = FileCache(tmp_path / "cache", lab.files, most=10**8)
    assert (Path(cache.place(several)) / "in" / "a.txt").read_text() == "a"
    (tmp_path / "cache" / f"{sha256}.part").write_bytes(one.read_bytes()[: CHUNK + 3])  # a worker was killed
    assert Path(cache.place(single)).read_bytes() == one.read_bytes()
    with pytest.raises(BadInput, match="the lab has no file"):
        cache.place(f"{HASH}/x")
    system, root = url_to_fs(far)
    system.pipe_file(f"{root}/{sha256}", b"short")
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(BadInput, match="was damaged on its way"):
        cache.place(single)
    assert Packer(lab.files, most=10**8).pack(str(one)) == single  # another size: it is brought again
    assert Path(cache.place(single)).read_bytes() == one.read_bytes()
    with pytest.raises(BadInput, match="changed while it was read"):
        lab.files.put(HASH, one)
    assert contents(far).keys() == {sha256, several.partition(".")[0]}
    assert run(["lab", "init", url]) == 0  # which keeps the place
    assert lab.settings().files.rpartition("/")[2] == Path(far).name
    assert run(["lab", "init", url, "--files", "database"]) == 0
    assert lab.settings().files == ""
    assert lab.files.size(sha256) is None


def test_a_transfer_goes_on_where_it_broke(lab, tmp_path):
    folder = LabFolder((tmp_path / "far").as_uri())
    (tmp_path / "one").write_bytes(content := os.urandom(2 * CHUNK + 5))
    folder.put(sha256 := hashlib.sha256(content).hexdigest(), tmp_path / "one")
    assert [len(piece) for piece in folder.read(sha256, first=1)] == [CHUNK, 5]
    assert b"".join(folder.read(sha256, first=0)) == content


@pytest.mark.parametrize(
    ("files", "code", "told"),
    [
        ("sftp://me:secret@host/lab", 2, "must not contain a password"),
        ("nosuch://x", 3, "can't be used: Protocol not known: nosuch"),
        ("/dev/null/lab", 3, "can't be used: [Errno 20] Not a directory"),
    ],
)
def test_a_place_for_files_is_checked_first(url, lab, capsys, files, code, told):
    assert run(["lab", "init", url, "--files", files]) == code
    errors = " ".join(capsys.readouterr().err.split())
    assert told in errors
    assert "secret" not in errors
    assert lab.settings().files == ""


def test_a_sweep_whose_files_are_in_a_folder_gives_what_a_sweep_alone_gives(place, url):
    assert run(["sweep", "suite.yaml", "--folder", "alone", "--store", "alone.db"]) == 0
    assert run(["lab", "init", "--files", "far"]) == 0
    with working("--host", "bench") as process, open_store(url) as opened:
        wait_until(opened.lab.devices, process)
        assert run(["sweep", "suite.yaml", "--folder", "shared", "--lab", "--wait"]) == 0
    assert board("shared") == board("alone")
    assert len(list(Path("far").iterdir())) == 2
