"""What a process prints without end, and what it leaves, where only a process can do that."""

from __future__ import annotations

import os
import sys
import tracemalloc
from pathlib import Path

import edgewise
from edgewise.device.transports.local import KEPT_BYTES, LocalTransport
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.testing import write_fake_model
from fake_passes import Deed

PREFIX = "import json, os, sys, tempfile\nsys.stdin.readline()\n"


def failure_of(folder, script, monkeypatch):
    """How a run fails whose worker is this script."""
    monkeypatch.setattr("edgewise.device.target.command_of", lambda module: (sys.executable, "-c", PREFIX + script))
    path = write_fake_model(folder / "m.fake")
    (run,) = edgewise.bench(path, iterations=3, warmup=1, sessions=1, meters=False)
    assert run.status == "failed"
    return run.failure


def test_of_what_a_process_prints_the_end_is_kept(tmp_path):
    script = "import os\nfor _ in range(512): os.write(2, b'x' * 65536)\nos.write(2, b'last words')"
    tracemalloc.start()
    process = LocalTransport().start(
        [sys.executable, "-c", script], folder=tmp_path, environment=dict(os.environ), stderr=tmp_path / "stderr"
    )
    process.wait(600)
    process.kill()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = process.stderr.read_bytes()
    assert len(kept) == KEPT_BYTES and kept.endswith(b"x" * 1000 + b"last words")
    assert peak < 2**20


def test_endless_words_on_standard_error_end_with_the_timeout(tmp_path, monkeypatch, clock):
    clock.silent_when = (tmp_path / "flooded").exists
    begin = clock.now()
    script = f"for count in range(10**9):\n    os.write(2, b'noise ' * 10000)\n    if count == 100: open({str(tmp_path / 'flooded')!r}, 'w')"
    failure = failure_of(tmp_path, script, monkeypatch)
    assert failure.cause == "Timeout" and "noise" in failure.stderr_tail
    assert clock.now() - begin == 120.0  # the timeout


def test_a_pass_that_prints_without_end_fills_no_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    task = PassTask(model="m.fake", format="fake", settings=Deed(do="flood"), folder=tmp_path / "0")
    (made,) = apply_pass("fake_passes:Deeds", [task], seconds=600.0)
    printed, size = map(int, made.reason.split()[-2:])
    assert size < printed / 2


def test_temporary_files_of_an_engine_go_with_its_session(tmp_path, monkeypatch):
    script = (
        "name = tempfile.mkdtemp()\nopen(name + '/file', 'w').close()\n"
        "os.write(1, json.dumps({'kind': 'failed', 'cause': 'BadModel', 'message': name}).encode() + b'\\n')"
    )
    folder = Path(failure_of(tmp_path, script, monkeypatch).message)
    assert folder.parent.name == "measure-0" and folder.parents[1].name.startswith("edgewise-tmp-")
    assert not folder.exists()
