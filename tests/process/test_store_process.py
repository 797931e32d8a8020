"""The store between processes: writers at once, writers killed, disks that are full or can't be written."""

import json
import os
import random
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import StoreError
from edgewise.store import from_document, open_store

GOLDEN = Path(__file__).parents[1] / "golden" / "schema1"
LIMIT_S = 120

# Every script begins with this: `golden` is a run, `numbered(name, n)` another with that id and many samples.
PRELUDE = f"""
import json, os, sys
from dataclasses import replace
from pathlib import Path
from edgewise.errors import EdgewiseError
from edgewise.store import from_document, open_store
golden = from_document(json.loads(Path({str(GOLDEN / "done.json")!r}).read_text(encoding="utf-8")))
def numbered(name, n):
    row = replace(golden.measurements[0], samples=(n + 0.5,) * 2000, session_lengths=(2000,))
    return replace(golden, id=f"0193-{{name}}-{{n:04}}", measurements=(row, *golden.measurements[1:]))
"""

WRITE = """
name, count, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sys.stdin.readline()
with open_store(path) as store:
    for n in range(count):
        store.save(numbered(name, n))
        print(n, flush=True)
"""

# One process that has everything imported forks a writer for each line it is told: twenty writers cost no twenty imports.
FORK = """
path = sys.argv[1]
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        store = open_store(path)
        n = 0
        while True:
            store.save(numbered(line.strip(), n))
            os.write(1, f"{n}\\n".encode())
            n += 1
    os.write(1, f"child {child}\\n".encode())
    os.waitpid(child, 0)
    os.write(1, b"ended\\n")
"""

ATTEMPT = """
try:
    with open_store(sys.argv[1]) as store:
        before = len(store.list())
        if "save" in sys.argv:
            store.save(numbered("new", 0))
    print(json.dumps({"runs": before, "read_only": store.read_only}))
except EdgewiseError as error:
    print(json.dumps({"kind": type(error).__name__, "message": error.message, "advice": error.advice}))
"""


def start(script, *arguments, prefix=()):
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", PRELUDE + script, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip


def attempt(path, *words, prefix=()):
    """What opening (and saving, with the word ``save``) in a process of its own came to."""
    with start(ATTEMPT, path, *words, prefix=prefix) as process:
        answer, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    return json.loads(answer)


def golden():
    return from_document(json.loads((GOLDEN / "done.json").read_text(encoding="utf-8")))


def assert_whole(path):
    """The file is sound, every run can be read, and the index holds exactly what the documents say."""
    with open_store(str(path)) as store:
        runs = store.resolve(["all"])
        for run in runs:
            n = int(run.id[-4:])
            assert run.measurements[0].samples == (n + 0.5,) * 2000
            assert run.tags == ("baseline",)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    counts = [
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("documents", "runs", "measurements", "tags")
    ]
    connection.close()
    assert counts == [len(runs), len(runs), 3 * len(runs), len(runs)]
    return {run.id for run in runs}


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "runs.db"
    writers = [start(WRITE, name, 100, path) for name in ("a", "b")]
    for writer in writers:  # both have imported everything before either opens the store, which neither has made
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        answer, _ = writer.communicate(timeout=LIMIT_S)
        assert writer.returncode == 0
        assert answer.split() == [str(n) for n in range(100)]
    assert assert_whole(path) == {f"0193-{name}-{n:04}" for name in "ab" for n in range(100)}


def test_many_processes_may_make_the_store_at_once(tmp_path):
    path = tmp_path / "runs.db"
    writers = [start(WRITE, name, 1, path) for name in "abcdef"]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=LIMIT_S)
    assert [writer.returncode for writer in writers] == [0] * 6
    assert assert_whole(path) == {f"0193-{name}-0000" for name in "abcdef"}


def test_a_writer_that_is_killed_leaves_a_whole_store_with_all_it_had_saved(tmp_path):
    path = tmp_path / "runs.db"
    chance = random.Random(7)
    saved = set()
    with start(FORK, path) as forker:
        channel = forker.stdout.fileno()
        for round_ in range(20):
            forker.stdin.write(f"k{round_}\n")
            forker.stdin.flush()
            text = ""
            wanted = chance.randint(1, 4)
            child = None
            while child is None or text.count("\n") < wanted + 1:
                text += os.read(channel, 4096).decode()
                found = re.search(r"child ([0-9]+)\n", text)
                child = int(found[1]) if found else None
            # Wait for up to a save's time, so that the kill falls anywhere in the next one.
            select.select([channel], [], [], chance.random() * 0.01)
            os.kill(child, signal.SIGKILL)
            while "ended" not in text:
                text += os.read(channel, 4096).decode()
            saved |= {f"0193-k{round_}-{int(line):04}" for line in text.splitlines() if line.isdigit()}
            assert saved <= assert_whole(path)
        forker.stdin.close()
    assert forker.returncode == 0
    assert len(saved) >= 20


def test_a_full_disk_is_said_and_keeps_what_was_saved(tmp_path):
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        store.save(replace(golden(), id="0193-before"))
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed")
    # The limit also holds for the write-ahead log, which starts empty: a run with 2,000 samples goes past it.
    answer = attempt(path, "save", prefix=("prlimit", "--fsize=20000"))
    assert answer["kind"] == "StoreError"
    assert "can't be written" in answer["message"]
    assert "free some space" in answer["advice"]
    assert attempt(path) == {"runs": 1, "read_only": False}
    with open_store(str(path)) as store:
        assert store.get("last").id == "0193-before"
        store.save(replace(golden(), id="0193-after"))


def test_a_new_store_on_a_full_disk_is_said(tmp_path):
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed")
    path = tmp_path / "runs.db"
    answer = attempt(path, "save", prefix=("prlimit", "--fsize=4096"))
    assert answer["kind"] == "StoreError"
    assert "free some space" in answer["advice"]
    with open_store(str(path)) as store:
        store.save(golden())
        assert store.get("last") == golden()


@pytest.fixture
def bound_by_modes():
    """What a command begins with so that file modes bind it even where the tests are run by root."""
    if os.geteuid() != 0:
        return ()
    prefix = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    if (
        shutil.which("setpriv") is None
        or subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("run by root, which modes do not bind, and setpriv can't drop that")
    return prefix


@pytest.fixture
def locked_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with open_store(str(folder / "runs.db")) as store:
        store.save(golden())
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize(("of_file", "of_folder"), [(0o444, 0o555), (0o644, 0o555), (0o444, 0o755)])
def test_a_store_that_can_not_be_written_can_be_read(locked_folder, bound_by_modes, of_file, of_folder):
    path = locked_folder / "runs.db"
    path.chmod(of_file)
    locked_folder.chmod(of_folder)
    assert attempt(path, prefix=bound_by_modes) == {"runs": 1, "read_only": True}
    answer = attempt(path, "save", prefix=bound_by_modes)
    assert answer["kind"] == "StoreError"
    assert "read-only" in answer["message"]
    assert "--store" in answer["advice"]


def test_a_read_only_reader_sees_what_a_writer_has_not_yet_moved_into_the_file(locked_folder, bound_by_modes):
    path = locked_folder / "runs.db"
    with open_store(str(path)) as store:
        store.save(replace(golden(), id="0193-in-the-log"))
        assert path.with_name("runs.db-wal").stat().st_size > 0
        locked_folder.chmod(0o555)
        assert attempt(path, prefix=bound_by_modes) == {"runs": 2, "read_only": True}
        locked_folder.chmod(0o755)


def test_a_file_that_can_not_be_read_and_a_folder_that_takes_none(locked_folder, bound_by_modes):
    path = locked_folder / "runs.db"
    path.chmod(0o000)
    answer = attempt(path, prefix=bound_by_modes)
    assert (answer["kind"], "can't be opened" in answer["message"], bool(answer["advice"])) == (
        "StoreError",
        True,
        True,
    )
    locked_folder.chmod(0o555)
    answer = attempt(locked_folder / "other.db", prefix=bound_by_modes)
    assert (answer["kind"], "is read-only" in answer["message"], bool(answer["advice"])) == ("StoreError", True, True)


def test_a_store_that_stays_busy_is_said(tmp_path, monkeypatch):
    from edgewise.store import connection

    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.0)
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="in use by another process"):
            store.save(golden())
        assert store.list() == []
        other.close()
        store.save(golden())
