"""The kind of device of docs/extending-devices.md, installed from a folder, with a vendor's program that a script plays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pages
import pytest

from installed_package import write_metadata

PAGE = pages.ROOT / "docs" / "extending-devices.md"
PROGRAM = """#!/bin/sh
[ "$1" = 0 ] || { echo "no card $1" >&2; exit 2; }
[ $# = 1 ] && { echo "Card X1"; exit; }
for i in $(seq $3); do echo 2500; done
"""


@pytest.fixture
def edgewise(tmp_path: Path):
    """A function that runs a command of a user who has installed the example; it gives exit code and output."""
    environment = pages.workplace(tmp_path)
    (plugin,) = pages.blocks(PAGE, "python")
    (points,) = pages.blocks(PAGE, "toml")
    (tmp_path / "edgewise_card.py").write_text(plugin.text, encoding="utf-8")
    write_metadata(tmp_path, "edgewise-card", points.text)
    program = tmp_path / "card-bench"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"

    def command(*words: str) -> tuple[int, str]:
        line = [sys.executable, "-W", "error", "-m", "edgewise", *words]
        done = pages.run(line, folder=tmp_path, environment=environment)
        return done.returncode, done.stdout

    return command


@pytest.mark.slow
def test_the_card_of_the_documentation_is_measured_examined_and_refused(edgewise, tmp_path: Path):
    code, told = edgewise("bench", "model.onnx", "-d", "card://0", "--iterations", "20", "-o", "runs.json")
    assert code == 0, told
    (run,) = json.loads((tmp_path / "runs.json").read_text())["runs"]
    latency, energy = (
        next(row for row in run["measurements"] if row["metric"] == name) for name in ("latency", "energy")
    )
    assert latency["samples"] == [0.0025] * 20 and run["job"]["runtime"]["name"] == "card"
    assert energy["absent_because"] == "card-bench does not tell it"
    assert run["environment"]["device"]["model"] == "Card X1"
    for words in (("devices", "check", "card://0"), ("doctor", "-d", "card://0")):
        code, told = edgewise(*words)
        assert code == 0 and "Card X1" in told, told
    code, told = edgewise("profile", "model.onnx", "-d", "card://0")
    assert code == 3 and "card://0 can't be profiled" in told, told
    code, told = edgewise("bench", "model.onnx", "-d", "card://9")
    assert code == 3 and "card://9 can't be used: no card 9" in told and "check the card's driver" in told, told
