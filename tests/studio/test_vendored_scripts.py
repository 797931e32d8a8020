"""The third-party scripts in the wheel are those of the lock file, byte for byte, with their licences."""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = "edgewise/report/templates/vendor/"
LOCK = json.loads((ROOT / "vendor/package-lock.json").read_text())["packages"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    for name in ("hatchling", "hatch_vcs"):
        pytest.importorskip(name, reason=f"{name}, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_the_wheel_holds_every_file_with_the_hash_that_was_recorded_when_it_was_copied(wheel):
    recorded = json.loads(wheel[f"{FOLDER}versions.json"])
    hashes = {name: digest for package in recorded.values() for name, digest in package["files"].items()}
    inside = {
        name.removeprefix(FOLDER): hashlib.sha256(content).hexdigest()
        for name, content in wheel.items()
        if name.startswith(FOLDER) and not name.endswith("versions.json")
    }
    assert inside == hashes
    assert {"dagre.js", "uPlot.js", "uPlot.css"} < set(hashes)


def test_versions_licences_and_hashes_of_the_packages_are_those_of_the_lock(wheel):
    recorded = json.loads(wheel[f"{FOLDER}versions.json"])
    keys = ("version", "license", "integrity")
    assert {name: [package[key] for key in keys] for name, package in recorded.items()} == {
        path.removeprefix("node_modules/"): [entry[key] for key in keys] for path, entry in LOCK.items() if path
    }
    for package in recorded.values():
        licence = next(name for name in package["files"] if name.endswith(".LICENSE"))
        assert b"Permission is hereby granted, free of charge" in wheel[f"{FOLDER}{licence}"]
        assert package["license"] == "MIT"
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", package["integrity"])


def test_the_lock_names_no_host():
    assert all("resolved" not in entry for entry in LOCK.values())
    assert "://" not in (ROOT / "vendor/package-lock.json").read_text()


def test_the_scripts_ask_for_nothing_else():
    """Modules that import nothing, and a style sheet that loads nothing."""
    folder = ROOT / "src" / FOLDER
    others = re.compile(
        r"^\s*import\b|\bimport\s*\(|^\s*export .* from|\bfetch\(|XMLHttpRequest|\beval\(|new Function", re.M
    )
    for name in ("dagre.js", "uPlot.js"):
        assert not others.search((folder / name).read_text())
    assert "url(" not in (folder / "uPlot.css").read_text()
