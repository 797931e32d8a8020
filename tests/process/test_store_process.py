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

GOLDEN = Path(__file__).parents[1] / "golden" / "schema2"
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

# One process that has everything imported forks the writers: many writers cost no import each.
WRITE = """
names, count, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
children = []
for name in names:
    children.append(os.fork())
    if children[-1] == 0:
        with open_store(path) as store:
            for n in range(count):
                store.save(numbered(name, n))
        os._exit(0)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]))
"""

# The same, with a writer for each line that it is told.
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
def attempt(path, save):
    try:
        with open_store(path) as store:
            before = len(store.list())
            if save:
                store.save(numbered("new", 0))
        return {"runs": before, "read_only": store.read_only}
    except EdgewiseError as error:
        return {"kind": type(error).__name__, "message": error.message, "advice": error.advice}
print(json.dumps([attempt(path, save) for path, save in json.loads(sys.argv[1])]))
"""


def start(script, *arguments, prefix=()):
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", PRELUDE + script, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip


def attempt(*stores, prefix=()):
    """What opening each store, and saving where it is a pair of path and True, came to in a process of its own."""
    pairs = [each if isinstance(each, tuple) else (each, False) for each in stores]
    with start(ATTEMPT, json.dumps([(str(path), save) for path, save in pairs]), prefix=prefix) as process:
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


@pytest.mark.parametrize(("names", "count"), [("ab", 100), ("abcdef", 1)])
def test_processes_that_make_the_store_and_write_at_once_lose_nothing(tmp_path, names, count):
    path = tmp_path / "runs.db"
    with start(WRITE, names, count, path) as writers:
        answer, _ = writers.communicate(timeout=LIMIT_S)
    assert json.loads(answer) == [0] * len(names)
    assert assert_whole(path) == {f"0193-{name}-{n:04}" for name in names for n in range(count)}


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
    (answer,) = attempt((path, True), prefix=("prlimit", "--fsize=20000"))
    assert answer["kind"] == "StoreError"
    assert "can't be written" in answer["message"]
    assert "free some space" in answer["advice"]
    with open_store(str(path)) as store:
        assert len(store.list()) == 1 and not store.read_only
        assert store.get("last").id == "0193-before"
        store.save(replace(golden(), id="0193-after"))


def test_a_new_store_on_a_full_disk_is_said(tmp_path):
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed")
    path = tmp_path / "runs.db"
    (answer,) = attempt((path, True), prefix=("prlimit", "--fsize=4096"))
    assert answer["kind"] == "StoreError"
    assert "free some space" in answer["advice"]
    with open_store(str(path)) as store:
        store.save(golden())
        assert store.get("last") == golden()


@pytest.fixture
def locked_folder(tmp_path):
    """Makes folders with a store, whose modes a test may set."""
    made = []

    def make(name):
        made.append(tmp_path / name)
        made[-1].mkdir()
        with open_store(str(made[-1] / "runs.db")) as store:
            store.save(golden())
        return made[-1]

    yield make
    for folder in made:
        folder.chmod(0o755)


def test_a_store_that_can_not_be_written_can_be_read(locked_folder, bound_by_modes):
    steps = []
    for of_file, of_folder in ((0o444, 0o555), (0o644, 0o555), (0o444, 0o755)):
        folder = locked_folder(f"{of_file:o}-{of_folder:o}")
        (folder / "runs.db").chmod(of_file)
        folder.chmod(of_folder)
        steps += [folder / "runs.db", (folder / "runs.db", True)]
    answers = attempt(*steps, prefix=bound_by_modes)
    assert answers[::2] == [{"runs": 1, "read_only": True}] * 3
    for answer in answers[1::2]:
        assert answer["kind"] == "StoreError"
        assert "read-only" in answer["message"]
        assert "--store" in answer["advice"]


def test_a_read_only_reader_sees_what_a_writer_has_not_yet_moved_into_the_file(locked_folder, bound_by_modes):
    folder = locked_folder("folder")
    path = folder / "runs.db"
    with open_store(str(path)) as store:
        store.save(replace(golden(), id="0193-in-the-log"))
        assert path.with_name("runs.db-wal").stat().st_size > 0
        folder.chmod(0o555)
        assert attempt(path, prefix=bound_by_modes) == [{"runs": 2, "read_only": True}]
        folder.chmod(0o755)


def test_a_file_that_can_not_be_read_and_a_folder_that_takes_none(locked_folder, bound_by_modes):
    unreadable, full = locked_folder("unreadable") / "runs.db", locked_folder("full")
    unreadable.chmod(0o000)
    full.chmod(0o555)
    answers = attempt(unreadable, full / "other.db", prefix=bound_by_modes)
    for answer, words in zip(answers, ("can't be opened", "is read-only"), strict=True):
        assert (answer["kind"], words in answer["message"], bool(answer["advice"])) == ("StoreError", True, True)


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
