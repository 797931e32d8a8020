"""Temporary folders: gone with the job, swept once their process was killed, and no others."""

import subprocess
import sys
import tempfile
import time

import pytest

from edgewise.folders import STALE_S, job_folder, sweep_folders

HOLD = "from edgewise.folders import job_folder\nwith job_folder() as folder: print(folder, flush=True); input()"


@pytest.fixture(autouse=True)
def private_tmp(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def later():
    return time.time() + 2 * STALE_S


def test_a_folder_lives_as_long_as_its_job(tmp_path):
    with job_folder() as folder:
        (folder / "session-0").mkdir()
        assert folder.parent == tmp_path
        assert sweep_folders(now=later()) == 0  # not its own
    assert not folder.exists()


def test_the_folder_of_a_killed_process_is_swept_within_minutes(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith(str(tmp_path))
    assert sweep_folders(now=later()) == 0  # it lives
    process.kill()
    process.communicate()
    assert sweep_folders() == 0  # a moment ago somebody may just have made it
    assert STALE_S <= 600
    assert sweep_folders(now=later()) == 1
    assert list(tmp_path.iterdir()) == []


def test_other_folders_and_links_are_left_alone(tmp_path):
    target = tmp_path / "edgewise-notes-abc"
    target.mkdir()
    (target / "file").write_text("kept")
    (tmp_path / "edgewise-tmp-link").symlink_to(target)
    assert sweep_folders(now=later()) == 0
    assert (target / "file").exists()


def test_a_new_folder_sweeps_the_old_ones(tmp_path, monkeypatch):
    (tmp_path / "edgewise-tmp-left").mkdir()
    monkeypatch.setattr("edgewise.folders.STALE_S", -1.0)
    with job_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]
