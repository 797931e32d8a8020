"""A search on a device of a lab: its folder comes back, and holds what a search on one machine leaves."""

from __future__ import annotations

import json
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from edgewise.cli.main import run
from edgewise.errors import BadInput
from edgewise.store import open_store
from edgewise.verbs import context
from edgewise.verbs.lab.engine import ANY, queue_of
from edgewise.verbs.lab.files import FILES, name_of_folder
from edgewise.verbs.lab.safety import check_request
from edgewise.verbs.optimize.in_lab import FarOptimization
from edgewise.verbs.optimize.presentation import OptimizePresentation
from edgewise.verbs.outcome import Outcome
from edgewise.verbs.presentation import View
from edgewise.verbs.reading import read_request
from labs import working
from patience import wait_until

OPTIMIZE = ["optimize", "model.onnx", "-r", "onnxruntime", "--passes", "ort-dynamic", "--time-budget", "2min"]


@pytest.mark.engine
def test_a_search_in_a_lab_leaves_the_files_that_one_machine_makes(place, lab, capsys, short_races):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: nothing was optimised")
    assert run(["example"]) == 0
    assert run([*OPTIMIZE, "-o", "alone", "--store", "alone.db"]) == 0
    with working("--host", "bench", "--tags", "quick") as process:
        wait_until(lab.devices, process)
        capsys.readouterr()
        assert run([*OPTIMIZE, "-o", "far", "--lab", "-d", "quick", "--report", "page.html", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert run([*OPTIMIZE, "-o", "far", "--lab", "-d", "none"]) == 2
        assert "no device of the lab answers to 'none'" in capsys.readouterr().err
    original = Path("model.onnx").read_bytes()
    alone, far = ({one.read_bytes() for one in Path(name).rglob("*.onnx")} for name in ("alone", "far"))
    assert far == alone and far - {original}
    assert told["variants"] and told["command"] is None
    assert Path("page.html").read_text() == Path("far/optimization.html").read_text()
    assert str(Path("cache").absolute()) not in Path("far/optimization.html").read_text()
    second, first = lab.jobs.ended_on("bench", "local", most=9)
    assert (first.queue, json.loads(first.request)["lab"], second.queue) == (ANY, "make", queue_of("quick"))
    assert json.loads(second.request)["folder"] == first.end["rows"][0][FILES] != second.end["rows"][0][FILES]
    made = [json.loads(line) for line in Path("far/made.jsonl").read_text().splitlines()]
    assert made and len({one["key"] for one in made}) == len(made)  # the second made none again


@pytest.mark.engine
def test_variants_are_made_without_a_device_and_found_wherever_their_folder_is(place, monkeypatch, short_races):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: nothing was optimised")
    assert run(["example"]) == 0
    fields = {"model": "model.onnx", "runtimes": ["onnxruntime"], "passes": ["ort-dynamic"], "time_budget": 120.0}
    Path("make.json").write_text(
        json.dumps({"schema": 1, "verb": "optimize", "lab": "make", "folder": "made", **fields})
    )
    held = []
    monkeypatch.setattr(context, "measuring_on", lambda device, needed: held.append((device, needed)) or nullcontext())
    assert run(["run", "make.json", "--store", "alone.db"]) == 0
    assert held == [("local", False)]
    assert sorted(one.name for one in Path("made").iterdir()) == ["made.jsonl", "variants"]
    with open_store("alone.db") as alone:
        assert not alone.list()
    Path("made").rename("moved")
    before = Path("moved/made.jsonl").read_text()
    assert run([*OPTIMIZE, "-o", "moved", "--store", "alone.db"]) == 0
    assert Path("moved/made.jsonl").read_text() == before


@pytest.mark.parametrize(("maker", "made"), [("shop", "variants made at shop, "), ("", "")])
def test_the_hosts_of_a_search_are_named(tmp_path, maker, made):
    (tmp_path / "optimization.txt").write_text("as the host wrote it\n")
    outcome = Outcome(key="k", cell="", status="done", seconds=1.0, finished=0.0)
    console = Console(file=StringIO())
    result = FarOptimization(host="bench", maker=maker, folder=tmp_path, outcome=outcome)
    OptimizePresentation().show(result, console, view=View())
    told = f"Searched in the lab: {made}measured at bench; its files are in {tmp_path}\n"
    assert console.file.getvalue() == f"as the host wrote it\n{told}"


def test_the_folder_of_a_queued_search_is_a_name_alone():
    assert [name_of_folder(one) for one in (None, "", "/", "..", "a/..", "/etc/cron.d", "../x", "mine")] == [
        "optimized", "optimized", "optimized", "optimized", "optimized", "cron.d", "x", "mine",
    ]  # fmt: skip
    request = read_request({"schema": 1, "verb": "optimize", "model": f"{'0' * 64}/m.onnx", "folder": "/etc"})
    with pytest.raises(BadInput, match="/etc is a path of the worker's host"):
        check_request(request, None)
    check_request(request.model_copy(update={"folder": None}), None)


def test_a_sweep_in_a_lab_does_not_optimise(place, lab, capsys):
    Path("suite.yaml").write_text(yaml.safe_dump({"verb": "optimize", "models": ["nets/*.fake"]}))
    assert run(["sweep", "suite.yaml", "--lab"]) == 2
    assert "a sweep in a lab has no place for variants" in capsys.readouterr().err
