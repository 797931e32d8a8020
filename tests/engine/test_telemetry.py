"""Nothing that edgewise starts keeps or sends events of use: engines and tools leave no trace of any in a fresh home."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from edgewise import data
from edgewise.optimizing.calibration import write_calibration
from patience import LIMIT_S

pytestmark = pytest.mark.engine

for module in ("onnxruntime", "openvino", "nncf"):
    pytest.importorskip(module, reason=f"{module} is not installed")

# NNCF keeps quiet in processes that have pytest, and a process that has it before is no user's.
SCRIPT = """
import sys
from pathlib import Path
from edgewise.cli.main import run
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.optimizing.passes.nncf_ptq import PtqSettings
from edgewise.optimizing.passes.ort_dynamic import DynamicSettings
from edgewise.registry import Registry

model, samples = sys.argv[1:]
assert run(["bench", model, "--iterations", "10", "--sessions", "1", "--no-meters", "-q"]) == 0
registry = Registry("edgewise.passes", "pass")
for name in ("ort-dynamic", "nncf-ptq"):
    folder = Path(name)
    folder.mkdir()
    settings = PtqSettings() if name == "nncf-ptq" else DynamicSettings()
    work = PassTask(model=model, format="onnx", settings=settings, folder=folder, calibration=Path(samples), threads=2)
    (made,) = apply_pass(registry.location(name), [work], seconds=120)
    assert made.model is not None, made
import nncf.telemetry.wrapper as wrapper, onnxruntime  # in this process too
assert not isinstance(wrapper.telemetry, wrapper.NNCFTelemetry)
"""


@pytest.mark.long
def test_a_fresh_home_has_files_of_edgewise_alone(tmp_path):
    samples = tmp_path / "samples.npz"
    np = pytest.importorskip("numpy")
    write_calibration(samples, [[np.full((1, 1, 32, 32), value, np.float32)] for value in (0.0, 0.5, 1.0)], None)
    home, task = tmp_path / "home", tmp_path / "work"
    for folder in (home, task, home / "tmp"):
        folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "EDGEWISE_"))}
    for switch in ("ORT_DISABLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY"):
        environment.pop(switch, None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(data.path("digits_cnn.onnx")), str(samples)],
        env={**environment, "HOME": str(home), "TMPDIR": str(home / "tmp")},
        cwd=task,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kept = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    foreign = {path for path in kept if not path.startswith((".cache/edgewise/", ".local/share/edgewise/"))}
    assert kept and not foreign
