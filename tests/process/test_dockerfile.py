"""The repository's Dockerfile, built by Podman on a stand-in for Python's image and run without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from container_images import IMAGE, prepare
from far_targets import make_python

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.engine]

BASE = f"""FROM {IMAGE}
COPY python /opt/python
COPY wheels /fetched
ENV PATH=/opt/python/bin:/usr/bin:/bin HOME=/root PIP_NO_INDEX=1 PIP_FIND_LINKS=/fetched
"""


def test_the_image_builds_and_benches_a_bundled_model(tmp_path, monkeypatch, request):
    def clean_up():
        """Each layer is a copy of all files: gigabytes that the next run of pytest would delete before its first test."""
        subprocess.run(["podman", "rm", "--all", "--force"], capture_output=True, check=False)
        shutil.rmtree(tmp_path, ignore_errors=True)

    settings = prepare("podman", tmp_path)
    if isinstance(settings, str):
        pytest.skip(settings)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    request.addfinalizer(clean_up)
    base = tmp_path / "base"
    found = {Path(find_spec(name).origin).parents[1] for name in ("numpy", "onnxruntime")}
    interpreter = make_python(base / "python", packages=sorted(found))
    (interpreter.parent / "pip").write_text('#!/bin/sh\nexec python -m pip "$@"\n')
    (interpreter.parent / "pip").chmod(0o755)
    (base / "Dockerfile").write_text(BASE)
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", base / "wheels", "hatchling", "hatch-vcs"]
    subprocess.run(fetch, check=True)
    seen = [
        word
        for folder in sorted({"/usr", sys.base_prefix, *map(str, found)})
        for word in ("-v", f"{folder}:{folder}:ro")
    ]

    def podman(*words):
        done = subprocess.run(["podman", *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    build = ("build", "--pull=never", "--network=none", *seen)
    names = [f"docker.io/library/python:{tag}" for tag in ("3.12", "3.12-slim")]
    podman(*build, *(f"--tag={name}" for name in names), base)
    podman(*build, "--tag=localhost/edgewise", f"--file={ROOT / 'Dockerfile'}", ROOT)
    work = tmp_path / "work"
    work.mkdir()
    run = ("run", "--rm", "--pull=never", "--network=none", *seen, "-v", f"{work}:/work", "localhost/edgewise")
    assert "Usage: edgewise" in podman(*run)
    assert "onnxruntime" in podman(*run, "doctor")
    podman(*run, "example")
    bench = podman(*run, "bench", "model.onnx", "-r", "onnxruntime", "--iterations", "20", "--sessions", "1", "--json")
    (result,) = json.loads(bench)["runs"]
    assert {row["metric"] for row in result["measurements"]} >= {"latency"}
