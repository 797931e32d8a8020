"""Passes that crash, hang, eat all memory or lie: any end of one is a result, and the next work is done all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import warm_start
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.pass_runner import apply_pass
from fake_passes import Deed
from patience import wait_until

TESTS = str(Path(__file__).parents[1])
DEADLINE_S = 600.0
LOCATION = "fake_passes:Deeds"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", TESTS)


def task(folder: Path, do: str, **settings) -> PassTask:
    return PassTask(model="m.fake", format="fake", settings=Deed(do=do, **settings), folder=folder)


def apply(folder: Path, *deeds: str, seconds=DEADLINE_S, location=LOCATION, memory_limit=None, **settings):
    tasks = [task(folder / f"{place}", do, **settings) for place, do in enumerate(deeds)]
    return list(apply_pass(location, tasks, seconds=seconds, memory_limit=memory_limit))


def is_alive(pid: int) -> bool:
    return pid > 0 and psutil.pid_exists(pid)


def assert_gone(pid: int) -> None:
    def ended() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(ended)


def await_file(path: Path) -> str:
    return wait_until(lambda: path.exists() and path.read_text())


def test_works_of_one_pass_share_a_process_and_come_in_order(tmp_path):
    pids = tmp_path / "pids"
    made = apply(tmp_path, "make", "cannot", "make", count=str(pids))
    assert [one.model is not None for one in made] == [True, False, True]
    assert made[0].model == tmp_path / "0" / "model.bin" and made[0].model.read_bytes() == b"made"
    assert made[0].versions == {"scripted": "1.0"} and made[0].seconds >= 0.0
    assert len(set(pids.read_text().split())) == 1 and len(pids.read_text().split()) == 3


@pytest.mark.parametrize(
    ("do", "cause", "words"),
    [
        ("segfault", "crashed", "the pass crashed (SIGSEGV)"),
        ("abort", "crashed", "the pass crashed (SIGABRT)"),
        ("kill", "memory", "killed"),
        ("exit", "crashed", "exit code 0 and no result"),
        ("exit-3", "crashed", "exit code 3"),
        ("interrupt", "crashed", "the pass crashed (SIGINT)"),
        ("mute", "crashed", "exit code"),
    ],
)
def test_a_pass_that_dies_fails_alone_and_the_next_gets_a_new_process(tmp_path, do, cause, words):
    first, second = apply(tmp_path, do, "make")
    assert (first.model, first.cause) == (None, cause) and words in first.reason, first
    assert second.model is not None


@pytest.mark.parametrize(
    ("do", "cause", "reason"),
    [
        ("cannot", "unsuitable", "not this one"),
        ("full", "disk", "No space left on device"),
        ("quota", "disk", "Disk quota exceeded"),
        ("os-error", "failed", "odd thing"),
        ("memory", "memory", "there was not enough memory"),
        ("bad-alloc", "memory", "RuntimeError: std::bad_alloc"),
        ("nothing", "failed", "AttributeError: 'NoneType' object has no attribute 'unchanged'"),
        ("no-file", "failed", "the pass made no file model.bin"),
        ("folder", "failed", "the pass made no file 0"),
        ("text", "failed", "AttributeError: 'str' object has no attribute 'is_file'"),
    ],
)
def test_what_a_pass_raises_or_lacks_is_told_in_one_line(tmp_path, do, cause, reason):
    pids = tmp_path / "pids"
    first, second = apply(tmp_path, do, "make", count=str(pids))
    assert (first.model, first.cause, first.reason) == (None, cause, reason)
    assert second.model is not None
    assert len(set(pids.read_text().split())) == 1  # the process went on


def test_an_error_with_many_lines_and_control_characters_is_one_printable_line(tmp_path):
    (made,) = apply(tmp_path, "odd")
    assert (
        made.reason.isprintable() and made.reason.startswith("OddError: first") and made.reason.endswith("second line")
    )


def test_notes_and_versions_of_any_kind_become_words(tmp_path):
    notes, versions = apply(tmp_path, "odd-notes", "odd-versions")
    assert notes.notes == ("3", "None", "['x']")
    assert set(versions.versions) == {"x"} and isinstance(versions.versions["x"], str)


def test_a_pass_that_prints_is_not_believed(tmp_path):
    first, second = apply(tmp_path, "babble", "make")
    assert first.model == tmp_path / "0" / "model.bin" and second.model is not None


def test_a_pass_that_hangs_is_ended_at_its_deadline_with_all_it_started(tmp_path, clock):
    touch = tmp_path / "hanging"
    clock.silent_when = lambda: touch.exists() and is_alive(int(touch.read_text() or 0))
    begin = clock.now()
    first, second = apply(tmp_path, "hang", "make", seconds=4.0, touch=str(touch))
    assert (first.cause, first.reason) == ("late", "it took longer than 4 s") and second.model is not None
    assert clock.now() - begin == 4.0
    assert_gone(int(touch.read_text()))


def test_a_pass_that_eats_memory_ends_at_the_limit_and_the_next_work_has_room(tmp_path):
    pids = tmp_path / "pids"
    first, second = apply(tmp_path, "eat", "make", memory_limit=512 * 2**20, count=str(pids))
    assert (first.cause, first.reason) == ("memory", "there was not enough memory") and second.model is not None
    assert len(set(pids.read_text().split())) == 1


@pytest.mark.parametrize("do", ["fork", "fork-crash"])
def test_a_child_that_a_pass_leaves_behind_ends_with_it(tmp_path, do):
    touch = tmp_path / "child"
    (made,) = apply(tmp_path, do, touch=str(touch))
    assert (made.model is not None) == (do == "fork")
    assert_gone(int(touch.read_text()))


@pytest.mark.parametrize("location", ["no_such_module:Pass", "fake_passes:NoSuch", "fake_passes:MARK"])
def test_a_pass_that_can_t_be_loaded_is_a_result(tmp_path, location):
    first, second = apply(tmp_path, "make", "make", location=location)
    assert first.cause == second.cause == "crashed" and "exit code 1" in first.reason and first.reason.isprintable()


def test_a_consumer_that_stops_early_leaves_no_process(tmp_path):
    results = apply_pass(LOCATION, [task(tmp_path / "0", "make"), task(tmp_path / "1", "hang")], seconds=DEADLINE_S)
    assert next(results).model is not None
    children = warm_start.children()
    results.close()
    for child in children:
        assert_gone(child.pid)


def test_no_works_are_no_process(tmp_path):
    assert apply(tmp_path) == []


def test_a_full_temporary_folder_is_a_result(tmp_path, monkeypatch):
    def refuse(*args, **settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    made = apply(tmp_path, "make", "make")
    assert [(one.cause, one.reason) for one in made] == [("disk", "No space left on device")] * 2


HOST = """
import sys
from pathlib import Path
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.pass_runner import apply_pass
from fake_passes import Deed
from patience import wait_until
folder = Path(sys.argv[1])
work = PassTask(model="m", format="fake", settings=Deed(do="hang", touch=str(folder / "hanging")), folder=folder / "0")
print(list(apply_pass("fake_passes:Deeds", [work], seconds=1000.0)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_host_takes_the_pass_with_it(tmp_path, number):
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], env=dict(os.environ))
    try:
        worker = int(await_file(tmp_path / "hanging"))
        host.send_signal(number)
        host.wait(DEADLINE_S)
        assert_gone(worker)
    finally:
        host.kill()
        host.wait()


def test_ctrl_c_in_the_host_ends_the_pass(tmp_path):
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        worker = int(await_file(tmp_path / "hanging"))
        host.send_signal(signal.SIGINT)
        assert host.wait(DEADLINE_S) != 0
        assert_gone(worker)
    finally:
        host.kill()
        host.wait()
