"""Meters of somebody else, installed from a folder: the one of docs/meters.md, and one that sees whether the process works."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pages
import pytest

from edgewise import data
from installed_package import write_metadata

PAGE = pages.ROOT / "docs" / "meters.md"
WORKING = """
import time
from edgewise.registry import Availability
from edgewise.run.meters.base import Reading

class WorkMeter:
    name, title, metrics = "work", "Work", ("energy",)

    def availability(self):
        return Availability(True)

    def begin(self):
        self.start, self.spent = time.monotonic(), time.process_time()

    def sample(self):
        pass

    def end(self):
        seconds = time.monotonic() - self.start
        watts = 3.0 if time.process_time() - self.spent > 0.02 else 1.0
        return [Reading(metric="energy", value=watts * seconds, seconds=seconds, method="3 W at work, else 1 W")]
"""


def install(folder: Path, code: str, location: str) -> dict[str, str]:
    """Put a module and what pip writes beside it into `folder`; gives an environment that finds both."""
    assert len([line for line in code.splitlines() if line]) <= 20
    environment = pages.workplace(folder, empty=True)
    module, _, kind = location.partition(":")
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    write_metadata(folder, module, {"edgewise.meters": {kind.removesuffix("Meter").lower(): location}})
    return environment


def edgewise(folder: Path, environment: dict[str, str], *words: object) -> str:
    done = pages.run([sys.executable, "-m", "edgewise", *map(str, words)], folder=folder, environment=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def bench(folder: Path, environment: dict[str, str]) -> dict[str, dict]:
    model = data.path("digits_cnn.onnx")
    words = ("bench", model, "-r", "onnxruntime", "--threads", 1, "--iterations", 10, "--sessions", 1)
    edgewise(folder, environment, *words, "-o", folder / "runs.json")
    (run,) = json.loads((folder / "runs.json").read_text())["runs"]
    return {"session": run["sessions"][0], **{row["metric"]: row for row in run["measurements"]}}


@pytest.mark.engine
@pytest.mark.long
def test_a_meter_of_20_lines_gives_energy_above_idle(tmp_path: Path):
    pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    environment = install(tmp_path, WORKING, "edgewise_work:WorkMeter")
    rows = bench(tmp_path, environment)
    (sensor,) = [each for each in rows["session"]["facts"]["meters"]["sensors"] if each["name"] == "work"]
    unknown = (sensor["place"], sensor["rate_hz"], sensor["resolution"], sensor["cannot_see"])
    assert unknown == ("target", None, {}, "")
    load = rows["session"]["facts"]["meters"]["load"]
    assert rows["power"]["value"] == pytest.approx(2.0)
    # The power is exact; how many inferences a window has is up to the machine. Where that scatters so much that the
    # interval of the energy reaches 0, the record says so, with the mean.
    energy, expected = rows["energy"], 2.0 * load["seconds"] / load["inferences"]
    if energy["value"] is not None:
        assert 0 < energy["low"] <= energy["value"] <= energy["high"]
        assert energy["low"] < expected * 1.2 and energy["high"] > expected * 0.8
        method = "3 W at work, else 1 W; the meter does not state what it sees; mean of 6 pairs"
        assert energy["method"].startswith(method)
    else:
        assert re.search(r"work: .*J above idle can't be told from 0: 6 pairs", energy["absent_because"])


@pytest.mark.engine
@pytest.mark.long
def test_the_meter_of_the_documentation_is_listed_and_used(tmp_path: Path):
    pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    (plugin,) = pages.blocks(PAGE, "python")
    environment = install(tmp_path, plugin.text, "edgewise_supply:SupplyMeter")
    environment["SUPPLY_FILE"] = str(tmp_path / "watts")
    environment["COLUMNS"] = "80"
    told = edgewise(tmp_path, environment, "doctor", "--json")
    (supply,) = [each for each in json.loads(told[told.index("{") :])["meters"] if each["name"] == "supply"]
    assert supply == {
        "name": "supply",
        "title": "Laboratory supply",
        "metrics": ["energy"],
        "available": False,
        "version": None,
        "reason": f"no {tmp_path}/watts",
        "install_hint": None,
        "place": "target",
        "rate_hz": 50.0,
        "resolution": {"power": 0.01},
        "cannot_see": "devices on a hub with its own supply",
    }
    (tmp_path / "watts").write_text("3.5\n")
    text = edgewise(tmp_path, environment, "doctor")
    assert max(map(len, text.splitlines())) <= 80
    words = "Laboratory supply gives energy; 50.0 Hz; power in steps of 10.0 mW; can't see devices on a hub with its own supply"
    assert words in " ".join(text.split())
    energy = bench(tmp_path, environment)["energy"]
    # The supply shows the same power in all windows.
    assert energy["value"] is None
    assert energy["absent_because"].startswith("supply: ") and "can't be told from 0" in energy["absent_because"]
