"""Every shell block of README and docs runs. Marked ``text``: not run. ``<!-- ci: … -->`` before it: run by .ci/run."""

from __future__ import annotations

import re
from pathlib import Path

import pages
import pytest

from edgewise.cli.example.command import FILES

RUNNABLE = {pages.name(page): page for page in pages.PAGES if pages.blocks(page, "bash", "console")}


def commands(block: pages.Block) -> str:
    """What a reader would type; in a console block, the lines after the prompt."""
    if block.language == "bash":
        return block.text
    return "".join(line[2:] for line in block.text.splitlines(keepends=True) if line.startswith("$ "))


def test_the_pages_that_should_have_examples_have_them():
    assert {"README.md", "docs/getting-started.md", "docs/records.md"} <= set(RUNNABLE)


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize("name", RUNNABLE)
def test_shell_blocks_run(name: str, tmp_path: Path):
    pages.need_engines()
    writes = any("edgewise example" in block.text for block in pages.blocks(RUNNABLE[name], "bash"))
    environment = pages.workplace(tmp_path, empty=writes)
    # One after the other in one place, as a reader does: a block may use what the one before it stored.
    for block in pages.blocks(RUNNABLE[name], "bash", "console"):
        if block.ci is None:
            script = commands(block)
            done = pages.run(["bash", "-euo", "pipefail", "-c", script], folder=tmp_path, environment=environment)
            assert done.returncode == 0, f"{name}:\n{script}\nexit code {done.returncode}\n{done.stdout[-3000:]}"


@pytest.mark.parametrize("name", ["README.md", "docs/getting-started.md"])
def test_who_starts_there_gets_the_files_before_any_line_that_needs_them(name: str):
    runnable = [block.text for block in pages.blocks(RUNNABLE[name], "bash") if block.ci is None]
    first = next(index for index, text in enumerate(runnable) if "edgewise example" in text)
    assert not any(file in text for text in runnable[:first] for file in FILES)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *RUNNABLE])
def test_nobody_is_told_to_install_from_an_index_where_edgewise_is_not(name: str):
    text = (pages.ROOT / name).read_text("utf-8")
    for found in re.finditer(r"pip install [^`\n./]*\bedgewise\b", text):
        assert "From the first release on" in " ".join(text[max(0, found.start() - 150) : found.start()].split()), (
            found[0]
        )


def test_the_two_lines_that_ci_runs_are_single_lines():
    lines = {block.ci: block.text for block in pages.blocks(pages.ROOT / "README.md", "bash") if block.ci}
    assert set(lines) == {"setup", "test"}
    assert all(text.count("\n") == 1 for text in lines.values())
    assert lines["setup"].rstrip().endswith("edgewise tour")
    assert "pytest" in lines["test"]
    assert lines["test"] in (pages.ROOT / "CONTRIBUTING.md").read_text("utf-8")
