"""Renews ``constraints/``: the versions that continuous integration and the README's test line install.

``just constraints`` writes the newest versions that pip finds to fit together with the Python that runs it; with
``--check`` nothing is written, and what is newer than the files say is printed. Nothing is installed either way.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "constraints"
SETS = {
    "all": [".[all,mcp]", "--group", "dev", "--group", "docs"],
    "torch": [".[all,huggingface,torch-optimize,executorch,mlflow]", "--group", "dev", "torchmetrics"],
    "tensorflow": [".[openvino,tensorflow,keras]", "--group", "dev"],
}
"""File below `FOLDER` → what .ci/run installs with it. PyTorch's and TensorFlow's packages don't fit together."""
HEADER = "# Written by tools/renew_constraints.py (just constraints): the newest versions with Python {}.{} on {}.\n"


def main() -> None:
    """Write the files, or say what is newer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where something is newer")
    check = parser.parse_args().check
    changed = False
    for name, arguments in SETS.items():
        found, path = versions(resolved(arguments)), FOLDER / f"{name}.txt"
        lines = differences(read(path), found)
        changed |= bool(lines)
        print(f"constraints/{name}.txt:", *lines or ["as newest"], sep="\n  ")
        if not check:
            header = HEADER.format(*sys.version_info[:2], sys.platform)
            path.write_text(header + "".join(f"{package}=={version}\n" for package, version in found.items()))
    if check and changed:
        raise SystemExit(1)


def resolved(arguments: list[str]) -> dict[str, Any]:
    """Return what pip would install into an empty environment, as its own report."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *arguments], cwd=ROOT, check=True)
        told: dict[str, Any] = json.loads(report.read_text())
        return told


def versions(report: dict[str, Any]) -> dict[str, str]:
    """Package → version, without edgewise itself and without what an index adds to a version (``2.13.0+cpu``)."""
    rows = (each["metadata"] for each in report["install"])
    found = {re.sub(r"[-_.]+", "-", row["name"]).lower(): row["version"].partition("+")[0] for row in rows}
    return {name: found[name] for name in sorted(found) if name != "edgewise"}


def read(path: Path) -> dict[str, str]:
    """Package → version of a file of constraints; nothing where there is none."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return a line for each package whose version is another one, was added or is no longer needed."""
    return [
        f"{name} {old.get(name, 'absent')} → {new.get(name, 'absent')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


if __name__ == "__main__":
    main()
