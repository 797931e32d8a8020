"""The Python examples of README and docs run, and the plug-in of docs/extending.md passes the conformance suite."""

from __future__ import annotations

import sys
from pathlib import Path

import pages
import pytest

from installed_package import write_metadata

EXTENDING = pages.ROOT / "docs" / "extending.md"
PLUG_INS = (
    EXTENDING,
    *map(EXTENDING.with_name, ("extending-devices.md", "extending-improving.md", "extending-verbs.md", "meters.md")),
)
"""Their blocks are files of plug-ins, tested here and in the tests of these pages."""
WITH_PYTHON = {pages.name(page): page for page in pages.PAGES if page not in PLUG_INS and pages.blocks(page, "python")}


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize("name", WITH_PYTHON)
def test_python_blocks_run(name: str, tmp_path: Path):
    pages.need_engines()
    environment = pages.workplace(tmp_path)
    for block in pages.blocks(WITH_PYTHON[name], "python"):
        done = pages.run([sys.executable, "-W", "error", "-c", block.text], folder=tmp_path, environment=environment)
        assert done.returncode == 0, f"{name}:\n{block.text}\n{done.stdout[-3000:]}"
        assert done.stdout.strip(), f"{name}: the example prints nothing"


@pytest.mark.slow
def test_the_runtime_of_the_documentation_conforms(tmp_path: Path):
    environment = pages.workplace(tmp_path)
    plugin, check = pages.blocks(EXTENDING, "python")
    (tmp_path / "edgewise_reference.py").write_text(plugin.text, encoding="utf-8")
    done = pages.run([sys.executable, "-c", check.text], folder=tmp_path, environment=environment)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.long
def test_the_runtime_of_the_documentation_benches_once_it_is_installed(tmp_path: Path):
    environment = pages.workplace(tmp_path)
    plugin, _ = pages.blocks(EXTENDING, "python")
    (entry_point,) = pages.blocks(EXTENDING, "toml")
    (tmp_path / "edgewise_reference.py").write_text(plugin.text, encoding="utf-8")
    write_metadata(tmp_path, "edgewise-reference", entry_point.text)
    command = [sys.executable, "-m", "edgewise", "bench", "model.onnx", "-r", "onnx-reference", "--no-meters"]
    done = pages.run([*command, "--iterations", "3", "--warmup", "1"], folder=tmp_path, environment=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "onnx-reference" in done.stdout
