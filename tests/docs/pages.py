"""What the tests of the documentation share: fenced blocks and a place to run them in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from patience import LIMIT_S

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(
    r"(?:<!-- ci: (?P<ci>\w+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
ENGINES = ("onnxruntime", "openvino", "ai-edge-litert")


@dataclass(frozen=True)
class Block:
    """A fenced block; `ci` names the line that continuous integration runs itself."""

    language: str
    text: str
    ci: str | None


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of `page` in these languages, in order."""
    found = [Block(match["language"], match["text"], match["ci"]) for match in _FENCE.finditer(page.read_text("utf-8"))]
    return [block for block in found if block.language in languages]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def need_engines() -> None:
    """Skip, saying which, where an engine that the documentation uses is not installed."""
    missing = []
    for engine in ENGINES:
        try:
            distribution(engine)
        except PackageNotFoundError:
            missing.append(engine)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def workplace(folder: Path, *, empty: bool = False) -> dict[str, str]:
    """Put what `edgewise example` writes into `folder`; gives the environment of a user who has nothing else.

    Args:
        empty: for pages that have the reader write these files.
    """
    from edgewise.cli.example.command import read_example

    for name, content in read_example().items() if not empty else ():
        (folder / name).write_bytes(content)
    home = folder / "home"
    home.mkdir()
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("EDGEWISE_", "PYTEST_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # Others that measure meanwhile, such as another test, are not waited for.
        "EDGEWISE_LOCKS": str(folder),
        "HOME": str(home),
        "EDGEWISE_STORE": str(folder / "store" / "runs.db"),
        "PYTHONPATH": str(folder),
    }


def run(command: list[str], *, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run to the end, with standard error merged into standard output."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
