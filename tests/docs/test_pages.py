"""Generated pages are up to date, and links lead somewhere. That Sphinx warns of nothing, `just docs` checks."""

from __future__ import annotations

import re
from pathlib import Path

import generate
import pages
import pytest

from edgewise.cli.main import commands
from edgewise.metrics import METRICS
from edgewise.record import CAUTIONS

FACE = [*pages.PAGES, pages.ROOT / "CONTRIBUTING.md", pages.ROOT / "CHANGELOG.md"]
_LINK = re.compile(r"(?<!\\)\]\((?!https?:|#)([^)#\s]+)(?:#[^)\s]*)?\)")


def test_generated_pages_are_up_to_date():
    assert generate.outdated() == [], "run python docs/generate.py"


def test_a_page_that_was_edited_by_hand_is_out_of_date(tmp_path: Path):
    for name, page in generate.PAGES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(page(), encoding="utf-8")
    assert generate.outdated(tmp_path) == []
    (tmp_path / "metrics.md").write_text("by hand", encoding="utf-8")
    (tmp_path / "cli.md").unlink()
    assert generate.outdated(tmp_path) == ["metrics.md", "cli.md"]


def test_generated_pages_are_complete():
    assert all(f"| `{metric}` |" in generate.metrics_page() for metric in METRICS)
    assert all(f"| `{code}` |" in generate.cautions_table() for code in CAUTIONS)
    page = generate.command_page()
    assert all(f"\n## edgewise {name}\n" in page for name in commands())
    assert "| `--iterations N` |" in page


def test_the_readme_lists_every_command():
    readme = (pages.ROOT / "README.md").read_text("utf-8")
    assert all(f"| `edgewise {name}" in readme for name in commands())


@pytest.mark.parametrize("page", FACE, ids=pages.name)
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
    missing = [target for target in _LINK.findall(text) if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page", FACE, ids=pages.name)
def test_flags_that_the_documentation_speaks_of_exist(page: Path):
    """In every shell block, and in the column of coming-from.md that is ours."""
    known = set(re.findall(r"`(--?[a-z][a-z-]*)", generate.command_page())) | {
        "--help",
        "--help-all",
        "--version",
        "--debug",
        "-h",
    }
    text = "\n".join(
        line
        for block in pages.blocks(page, "bash", "text")
        for line in block.text.splitlines()
        if line.startswith("edgewise ")
    )
    if page.name == "coming-from.md":
        rows = [line.split("|") for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
        text += "\n".join(word for row in rows for word in re.findall(r"`(-[^`]*)`", row[2]))
    flags = set(re.findall(r"(?:^|\s)(--?[a-z][a-z-]*)", text))
    assert flags - known == set()


@pytest.mark.parametrize("page", FACE, ids=lambda page: page.name)
def test_prose_wraps_at_120_columns(page: Path):
    """Rows of tables, pictures and code blocks have one line each."""
    text = re.sub(r"(`{3,}|~{3,}).*?\1", "", page.read_text("utf-8"), flags=re.DOTALL)
    prose = [line for line in text.splitlines() if not line.startswith(("|", "<img", "<!--"))]
    assert [line for line in prose if len(line) > 120] == []


def test_the_readme_shows_pictures_that_are_there():
    text = re.sub(r"<!--.*?-->", "", (pages.ROOT / "README.md").read_text(), flags=re.DOTALL)
    starts = {".svg": b"<svg", ".png": b"\x89PNG"}
    pictures = [pages.ROOT / name for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)]
    assert len(pictures) == 2
    for picture in pictures:
        assert picture.read_bytes().startswith(starts[picture.suffix])


def test_the_benchmarks_page_has_a_result_of_every_script():
    page = (pages.ROOT / "docs" / "benchmarks.md").read_text()
    for script in (pages.ROOT / "benchmarks").glob("*.py"):
        if script.name != "models.py":
            assert f"`benchmarks/{script.name}`" in page, script.name
    assert page.count("|---") >= 3
