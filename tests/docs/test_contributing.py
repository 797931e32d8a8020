"""CONTRIBUTING.md draws the house as it is: every file and folder that it names exists."""

from __future__ import annotations

import re
import tomllib

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
    assert len(paths) > 100 and absent == []


def test_the_table_of_packages_is_the_import_contract():
    """A row for each layer, which knows every package and module (`tests/unit/test_import_circles.py`)."""
    table = TEXT.split("## How the code is organised")[1].split("### How a command runs")[0]
    rows = [
        re.findall(r"`(\w+)(?:/|\.py)`", line.split(" | ")[0]) for line in table.splitlines() if line.startswith("| `")
    ]
    settings = tomllib.loads((pages.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    assert rows == [layer.removeprefix("__main__ | ").split(" | ") for layer in layers]
