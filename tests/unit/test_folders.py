"""Temporary folders: gone with the job, swept when their host is dead and they are old, and no others."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from edgewise.run.folders import STALE_S, job_folder, sweep_folders


@pytest.fixture(autouse=True)
def private_tmp(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_folder_lives_as_long_as_its_job(tmp_path):
    with job_folder() as folder:
        (folder / "session-0").mkdir()
        assert folder.parent == tmp_path and f"-{os.getpid()}-" in folder.name
    assert not folder.exists()


def test_only_old_folders_of_dead_hosts_are_swept(tmp_path, dead_pid):
    dead, alive = tmp_path / f"edgewise-{dead_pid}-abc", tmp_path / f"edgewise-{os.getpid()}-abc"
    foreign = tmp_path / "edgewise-notes-abc"
    for folder in (dead, alive, foreign):
        folder.mkdir()
    assert sweep_folders(now=time.time() + STALE_S / 2) == 0
    assert sweep_folders(now=time.time() + 2 * STALE_S) == 1
    assert not dead.exists() and alive.exists() and foreign.exists()


def test_a_link_with_such_a_name_is_not_followed(tmp_path, dead_pid):
    target = tmp_path / "precious"
    target.mkdir()
    (target / "file").write_text("kept")
    (tmp_path / f"edgewise-{dead_pid}-link").symlink_to(target)
    sweep_folders(now=time.time() + 2 * STALE_S)
    assert (target / "file").exists()
