"""``examples/profiler/lines.py``: networks built, measured here, and related to a device by lines."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

import pytest

from messages import says

SCRIPT = Path(__file__).parents[2] / "examples" / "profiler" / "lines.py"
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("profiler_lines", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_measured_networks_are_related_by_their_line(script, tmp_path, capsys):
    here = script.measure(tmp_path, [1], families=["video"], resolution=24, iterations=20, sessions=1)
    (measured,) = script.read(here).items()
    assert measured[0] == ("video", 1) and set(measured[1]) == {path.name for path in tmp_path.glob("*.onnx")}
    device = tmp_path / "device.csv"
    with device.open("w", newline="") as file:
        rows = [[name, "video", 1, 3 * value + 2] for name, value in measured[1].items()]
        csv.writer(file).writerows([script.COLUMNS, *rows])
    script.main(["fit", str(here), str(device)])
    _, linear, best = capsys.readouterr().out.splitlines()
    assert linear.split()[:5] == ["video", "1", "linear", "1.000", "0.000"]
    assert "3 × host + 0.002" in linear
    assert best.split()[2] != "linear"


def test_families_and_threads_are_fitted_apart(script):
    here = {("image", 1): {"a": 1.0, "b": 2.0, "c": 4.0}, ("image", 2): {"a": 0.6, "b": 1.1, "c": 2.2}}
    device = {
        ("image", 1): {"a": 3.0, "b": 5.0, "c": 9.0},
        ("image", 2): {"a": 2.0, "b": 4.0, "c": 9.0},
        ("video", 1): {"v": 1.0},
    }
    lines = list(script.fit(here, device))[1:]
    assert [line.split()[:3] for line in lines[:4:2]] == [["image", "1", "linear"], ["image", "2", "linear"]]
    assert "2 × host + 0.001" in lines[0]
    assert lines[-1].split()[:2] == ["video", "1"] and re.search(says("measured-models-too-few-predict"), lines[-1])
