"""A search on a device of a lab: its folder comes back, and holds what a search on one machine leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from edgewise.cli.main import run
from edgewise.errors import BadInput
from edgewise.verbs.lab.safety import check_request
from edgewise.verbs.optimize.in_lab import FILES, name_of_folder
from edgewise.verbs.reading import read_request
from labs import working
from patience import wait_until

OPTIMIZE = ["optimize", "model.onnx", "-r", "onnxruntime", "--passes", "ort-dynamic", "--time-budget", "2min"]


@pytest.mark.engine
def test_a_search_in_a_lab_leaves_the_files_that_one_machine_makes(place, lab, capsys):
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
    (job,) = lab.jobs.ended_on("bench", "local", most=9)
    assert (job.status, job.verb, FILES in job.end["rows"][0]) == ("done", "optimize", True)


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
