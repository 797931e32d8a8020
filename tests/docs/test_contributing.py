"""CONTRIBUTING.md draws the house as it is: every file and folder that it names exists."""

from __future__ import annotations

import re

import pages

TEXT = (pages.ROOT / "CONTRIBUTING.md").read_text("utf-8")
PACKAGE = pages.ROOT / "src" / "edgewise"


def named() -> list[str]:
    """Paths in code spans and in the drawings: modules, folders of the package, documentation, tests."""
    drawings = "\n".join(re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL))
    spans = " ".join(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)))
    found = re.findall(
        r"(?<![\w./-])[a-z_][\w/]*\.py\b|(?<![\w./-])[a-z_]+(?:/[a-z_]+)*/(?!\w)|docs/\w+\.md", f"{drawings} {spans}"
    )
    return sorted({path for path in found if "NAME" not in path})


def test_every_path_in_contributing_exists():
    paths = named()
    absent = [path for path in paths if not (pages.ROOT / path).exists() and not (PACKAGE / path).exists()]
    assert len(paths) > 200 and absent == []


def test_every_package_and_module_of_the_house_has_its_line():
    table = TEXT.split("## How the code is organised")[1].split("### How a command runs")[0]
    for path in PACKAGE.iterdir():
        if path.name.startswith("__") or path.name == "py.typed" or path.name == "data":
            continue
        name = f"`{path.name}/`" if path.is_dir() else f"`{path.name}`"
        assert name in table, name
