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

CONVERT = ["convert", "model.onnx", "--precision", "int8", "--data", "digits.npz", "--prepare", "scale=1/255"]


@pytest.mark.engine
def test_a_conversion_in_a_lab_leaves_the_file_that_one_machine_makes(place, lab, capsys):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: nothing was converted")
    assert run(["example"]) == 0
    assert run([*CONVERT, "-o", "alone.onnx"]) == 0
    with working("--host", "bench") as process:
        wait_until(lab.devices, process)
        capsys.readouterr()
        assert run([*CONVERT, "-o", "far.onnx", "--lab", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert run([*CONVERT, "-o", "far.onnx", "--lab"]) == 2
        assert "far.onnx exists already" in capsys.readouterr().err
        assert run(["convert", "model.onnx", "--to", "ort", "--shape", "none=1", "-o", "not.ort", "--lab"]) == 4
        assert not Path("not.ort").exists()
    assert Path("far.onnx").read_bytes() == Path("alone.onnx").read_bytes()
    facts, own = (json.loads(Path(f"{name}.onnx.provenance.json").read_text()) for name in ("far", "alone"))
    given = "--precision int8 --data digits.npz --prepare scale=1/255"
    assert facts["command"] == f"edgewise convert model.onnx --output far.onnx {given}"
    assert facts["steps"] == [*own["steps"], f"in a lab, at bench, by edgewise {__version__}"]
    same = ("model", "parent", "lost", "agreement", "calibration")
    assert [facts[name] for name in same] == [{**own["model"], "name": "far.onnx"}, *(own[name] for name in same[1:])]
    assert (told["path"], told["source"]["path"]) == ("far.onnx", str(Path("model.onnx").absolute()))
    jobs = [lab.jobs.get(key) for key in lab_keys(lab)]
    assert [(job.queue, job.device, job.place) for job in jobs] == [(ANY, "any host", "local")] * 2
