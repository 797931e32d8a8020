"""A conversion at a host of a lab: the file comes back, with facts of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.cli.main import run
from edgewise.verbs.lab.engine import ANY
from edgewise.version import __version__
from labs import lab_keys, working
from patience import wait_until

CONVERT = ["convert", "model.onnx", "--to", "ort"]


@pytest.mark.engine
def test_a_conversion_in_a_lab_leaves_the_file_that_one_machine_makes(place, lab, capsys):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: nothing was converted")
    assert run(["example"]) == 0
    assert run([*CONVERT, "-o", "alone.ort"]) == 0
    with working("--host", "bench") as process:
        wait_until(lab.devices, process)
        capsys.readouterr()
        assert run([*CONVERT, "-o", "far.ort", "--lab", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert run([*CONVERT, "-o", "far.ort", "--lab"]) == 2
        assert "far.ort exists already" in capsys.readouterr().err
        assert run(["convert", "model.onnx", "--to", "ort", "--shape", "none=1", "-o", "not.ort", "--lab"]) == 4
        assert not Path("not.ort").exists()
    assert Path("far.ort").read_bytes() == Path("alone.ort").read_bytes()
    facts, own = (json.loads(Path(f"{name}.ort.provenance.json").read_text()) for name in ("far", "alone"))
    assert facts["command"] == "edgewise convert model.onnx --to ort --output far.ort"
    assert facts["steps"] == [*own["steps"], f"in a lab, at bench, by edgewise {__version__}"]
    same = ("model", "parent", "lost", "agreement")
    assert [facts[name] for name in same] == [{**own["model"], "name": "far.ort"}, *(own[name] for name in same[1:])]
    assert (told["path"], told["accepted"], told["source"]["path"]) == (
        "far.ort",
        True,
        str(Path("model.onnx").absolute()),
    )
    jobs = [lab.jobs.get(key) for key in lab_keys(lab)]
    assert [(job.queue, job.device, job.place) for job in jobs] == [(ANY, "any host", "local")] * 2
