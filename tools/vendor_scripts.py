"""Copies the pages' third-party scripts and their licences from ``vendor/node_modules`` into the package.

``just vendor`` runs it after ``npm ci``, which has checked each package against its hash in the lock file. Beside the
copies it writes ``versions.json``: version and hash of each package as in the lock, and the SHA-256 of each copy.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "vendor"
TARGET = ROOT / "src/edgewise/report/templates/vendor"
FILES = {
    "@dagrejs/dagre": {"dist/dagre.esm.js": "dagre.js", "LICENSE": "dagre.LICENSE"},
    "@dagrejs/graphlib": {"LICENSE": "graphlib.LICENSE"},  # dagre.js contains it
    "uplot": {"dist/uPlot.esm.js": "uPlot.js", "dist/uPlot.min.css": "uPlot.css", "LICENSE": "uPlot.LICENSE"},
}
"""Package → its file → name of the copy."""


def main() -> None:
    """Copy the files and write their versions and hashes."""
    locked = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    told = {}
    for package, files in FILES.items():
        lock = locked[f"node_modules/{package}"]
        hashes = {}
        for name, copy in files.items():
            content = (SOURCE / "node_modules" / package / name).read_bytes()
            (TARGET / copy).write_bytes(content)
            hashes[copy] = hashlib.sha256(content).hexdigest()
        told[package] = {key: lock[key] for key in ("version", "license", "integrity")} | {"files": hashes}
    (TARGET / "versions.json").write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
