"""Workers that are forked are processes like those that are started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import edgewise
import warm_start
from edgewise.testing import write_fake_model
from patience import LIMIT_S

MODULE = """
import os, sys
if sys.argv[1] == "abort":
    os.abort()
print(os.getppid(), os.getcwd(), os.environ["WORD"], os.getsid(0) == os.getpid(), sys.stdin.read(), flush=True)
print("numpy" in sys.modules, file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts the module above."""
    (tmp_path / "odd_worker.py").write_text(MODULE)
    monkeypatch.setattr(warm_start, "MODULES", {"odd_worker"})
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "WORD": "hi"}

    def start(*arguments, **more):
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "odd_worker", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=tmp_path, env={**environment, **more}, start_new_session=True,
        )  # fmt: skip

    return start


def test_it_is_a_child_with_the_folder_environment_and_pipes_it_was_given(start, tmp_path):
    out, said = start("x").communicate(b"in", timeout=LIMIT_S)
    assert out.decode().split() == [str(os.getpid()), str(tmp_path), "hi", "True", "in"] and said == b"True\n"
    assert warm_start.children() == []


def test_it_ends_as_any_process_does(start):
    for words, code in (("x", 7), ("abort", -signal.SIGABRT)):
        with start(words) as process:
            process.communicate(b"", timeout=LIMIT_S)
        assert process.returncode == code
    with start("x") as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_other_settings_of_the_interpreter_start_one(start):
    assert start("x", PYTHONIOENCODING="latin-1").communicate(b"", timeout=LIMIT_S)[1] == b"False\n"


def test_workers_of_a_run_are_forked(tmp_path, monkeypatch, nursery):
    started = []
    start = nursery.start
    monkeypatch.setattr(nursery, "start", lambda *args, **words: started.append(start(*args, **words)) or started[-1])
    (run,) = edgewise.bench(write_fake_model(tmp_path / "a.fake"), runtimes=["fake"], sessions=2, iterations=5)
    assert run.status == "done" and len(started) == 2 and not any(map(psutil.pid_exists, started))


def test_what_an_added_package_reads_when_it_is_imported_starts_one(start, monkeypatch):
    monkeypatch.setenv("EDGEWISE_TEST_WARM", "json")
    assert start("x", OMP_NUM_THREADS="1").communicate(b"", timeout=LIMIT_S)[1] == b"False\n"


def test_temporary_files_lie_where_the_worker_was_told_even_after_an_import_that_asked_for_the_folder(
    tmp_path, monkeypatch
):
    (tmp_path / "asks.py").write_text("import tempfile\ntempfile.gettempdir()\n")
    (tmp_path / "tells_folder.py").write_text("import tempfile\nprint(tempfile.gettempdir())\n")
    monkeypatch.setattr(warm_start, "_nursery_pid", None)
    monkeypatch.setenv("EDGEWISE_TEST_WARM", "asks")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "own").mkdir()
    own = {**os.environ, "TMPDIR": str(tmp_path / "own")}
    nursery, (answer, written) = warm_start.Nursery(), os.pipe()
    with Path(os.devnull).open("rb") as nothing, os.fdopen(answer) as told:
        words = [sys.executable, "-P", "-m", "tells_folder"]
        streams = [nothing.fileno(), written, 2]
        nursery.start(words, folder=tmp_path, environment=own, streams=streams, session=True)
        os.close(written)
        assert told.read().strip() == own["TMPDIR"]
    nursery.close()
