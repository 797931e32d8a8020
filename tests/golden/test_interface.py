"""What users and scripts rest on stays: commands, flags, defaults, JSON keys, Python names, exit codes, the store."""

from __future__ import annotations

import difflib

import pytest

import interface


@pytest.mark.slow
def test_the_interface_is_what_was_written_down(monkeypatch, tmp_path):
    monkeypatch.delenv("EDGEWISE_DEBUG", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # peaks that other tests kept have keys, too
    golden = interface.GOLDEN.read_text(encoding="utf-8").splitlines()
    found = difflib.unified_diff(golden, interface.lines(), "tests/golden/interface.txt", "now", lineterm="", n=0)
    different = "\n".join(found)
    assert not different, f"{different}\nwhere that is on purpose: python tests/interface.py"


def test_keys_are_found_at_every_depth_and_those_of_a_run_once():
    run = {"job": {"x": 1}, "measurements": [{"value": 1}, {"value": None, "low": {}}], "status": "done"}
    assert sorted(set(interface.keys({"schema": 3, "runs": [run, run], "more": [[{"a": 1}]]}, "bench "))) == [
        "bench more", "bench more[][].a", "bench runs", "bench runs[] is a run", "bench schema = 3",
        "run job", "run job.x", "run measurements", "run measurements[].low", "run measurements[].value", "run status",
    ]  # fmt: skip


def test_places_that_depend_on_the_machine_are_left_open():
    document = {"environment": {"cpu": {"flags": []}}, "missing": [{"what": "numpy"}]}
    assert list(interface.keys(document, "devices check ")) == ["devices check environment", "devices check missing"]
