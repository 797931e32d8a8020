"""Workers in other Python environments of this machine: measured in turns, each with its own packages in the record."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.store import open_store
from edgewise.store.codec import encode
from edgewise.testing import write_fake_model
from far_targets import far_python, make_python  # noqa: F401

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def other(far_python, tmp_path_factory):  # noqa: F811
    """A second environment with the same packages, and with neither edgewise nor what others left in theirs."""
    packages = [Path(line) for line in next(far_python.parents[1].glob("lib/*/*/engines.pth")).read_text().splitlines()]
    return make_python(tmp_path_factory.mktemp("other") / "env", packages=packages)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "foreign"))
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)
    write_fake_model("m.fake", latency_ns=[2_000_000])


def document(capsys, *words):
    budget = ["--time-budget", "600s"] if words[0] == "compare" else []
    assert edgewise_command([*map(str, words), *budget, "-q", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_two_environments_take_turns_and_each_record_has_its_own(far_python, other, capsys):  # noqa: F811
    found = document(
        capsys, "compare", "m.fake", "-r", "fake", "--vary", f"python={far_python},{other}", "--rounds", "1"
    )
    with open_store() as store:
        runs = [json.loads(encode(store.get(variant["run"]))) for variant in found["variants"]]
    assert [run["job"]["target"]["environment"] for run in runs] == [str(far_python), str(other)]
    assert all(run["job"]["target"]["device"] == "local" for run in runs)
    assert all(run["environment"]["packages"]["numpy"] == version("numpy") for run in runs)
    (latency,) = [row for row in found["comparisons"] if row["metric"] == "latency"]
    assert latency["ratio"] == pytest.approx(1.0)


@pytest.mark.cold
def test_variables_reach_the_worker_and_the_record(tmp_path, capsys):
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nif 'MARK' in os.environ: open(os.environ['MARK_FILE'], 'a').write(os.environ['MARK'])\n"
    )
    marks = tmp_path / "marks"
    words = ["--vary", "env.MARK=a,b", "--env", f"PYTHONPATH={tmp_path}", "--env", f"MARK_FILE={marks}"]
    found = document(capsys, "compare", "m.fake", "-r", "fake", "--rounds", "1", *words)
    with open_store() as store:
        runs = [store.get(variant["run"]) for variant in found["variants"]]
    assert [run.job.target.variables[-1] for run in runs] == ["MARK=a", "MARK=b"]
    assert [variant["label"] for variant in found["variants"]] == ["MARK=a", "MARK=b"]
    assert set(marks.read_text()) == {"a", "b"}


def test_a_model_may_have_variables_of_its_own(capsys):
    words = ["compare", "m.fake", "m.fake,env.A=1,env.B=2", "--env", "A=3", "-r", "fake", "--rounds", "1"]
    found = document(capsys, *words)
    with open_store() as store:
        sets = [store.get(variant["run"]).job.target.variables for variant in found["variants"]]
    assert sets == [("A=3",), ("A=1", "B=2")]


def test_bench_and_profile_measure_in_an_environment(far_python, capsys):  # noqa: F811
    pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    short = ("--iterations", "5", "--sessions", "1", "-r", "onnxruntime", "--environment", far_python)
    (run,) = document(capsys, "bench", data.path("digits_cnn.onnx"), *short)["runs"]
    assert run["status"] == "done" and run["effective"]["engine_version"] == version("onnxruntime")
    (profiled,) = document(capsys, "profile", data.path("digits_cnn.onnx"), *short)["runs"]
    assert profiled["layers"] and profiled["job"]["target"]["environment"] == str(far_python)


def test_an_environment_without_the_engine_is_named(tmp_path, capsys):
    empty = make_python(tmp_path / "empty", packages=[])
    words = ["bench", str(data.path("digits_cnn.onnx")), "-r", "onnxruntime", "--environment", str(empty)]
    assert edgewise_command(words) == 3
    assert f"the environment {empty} has no numpy" in " ".join(capsys.readouterr().err.split())
