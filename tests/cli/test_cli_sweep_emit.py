"""``edgewise sweep --emit``: what a scheduler runs works in another place, and its results come back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.store import open_store
from edgewise.testing import write_fake_model

SUITE = {
    "models": ["nets/*.fake"],
    "runtimes": ["fake"],
    "threads": ["1"],
    "options": {"iterations": "9", "sessions": "1"},
    "order": "listed",
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a suite of two cells, and a command ``edgewise`` for shells."""
    folder = tmp_path / "here"
    (folder / "nets").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    command = tmp_path / "bin" / "edgewise"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m edgewise "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    for name, latency in (("fast", 1_000_000), ("slow", 4_000_000)):
        write_fake_model(f"nets/{name}.fake", latency_ns=[latency])
    write()
    return folder


def write(**parts: object) -> None:
    Path("suite.yaml").write_text(yaml.safe_dump({**SUITE, **parts}))


def emitted(scheduler: str, *words: str, capsys) -> list[str]:
    capsys.readouterr()
    assert run(["sweep", "suite.yaml", "--emit", scheduler, "-q", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)["emitted"]


def models(folder: str = "suite-results") -> set[str]:
    return {json.loads(path.read_text())["models"][0] for path in Path(folder, "requests").iterdir()}


def runs() -> int:
    with open_store() as store:
        return len(store.list())


def shell(script: str, folder: Path, **variables: str) -> None:
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_copied_folder_runs_elsewhere_and_its_results_are_counted(place, capsys, monkeypatch):
    emitted("slurm", capsys=capsys)
    copy = place.with_name("there")
    place.rename(copy)  # nothing of the first place is left
    shell("bash there/suite-results/slurm.sh", copy.parent, SLURM_ARRAY_TASK_ID="0")
    assert runs() == 1
    monkeypatch.chdir(copy)
    assert run(["sweep", "suite.yaml", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "nets/fast.fake on fake, 1 thread (finished)" in out and "1 of 2 cells to carry out" in out
    assert not Path("suite-results/cells.jsonl").exists()
    assert run(["sweep", "suite.yaml", "-q"]) == 0 and runs() == 2
    assert len(Path("suite-results/cells.jsonl").read_text().splitlines()) == 2
    assert run(["sweep", "suite.yaml", "-q"]) == 0 and runs() == 2
    assert len(Path("suite-results/cells.jsonl").read_text().splitlines()) == 2


def test_sbatch_runs_a_copy_of_the_script_from_the_folder_of_submission(place, capsys):
    advice = emitted("slurm", capsys=capsys)
    assert "next: cd suite-results && sbatch slurm.sh" in advice
    spool = place.with_name("spool")
    spool.mkdir()
    shutil.copy("suite-results/slurm.sh", spool / "slurm_script")
    where = str(place / "suite-results")
    shell("bash slurm_script", spool, SLURM_ARRAY_TASK_ID="1", SLURM_SUBMIT_DIR=where)
    assert run(["sweep", "suite.yaml", "--dry-run"]) == 0
    assert "nets/slow.fake on fake, 1 thread (finished)" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_github_needs_is_committed_by_the_lines_as_printed_and_its_step_runs(place, capsys, monkeypatch):
    root = place.parent
    shell("git init -q .", root)
    Path("night").mkdir()
    advice = emitted("github", "--folder", "night", capsys=capsys)
    begin = advice.index(f"next: cd {root}")
    lines = [line.removeprefix("next: ") for line in advice[begin:] if not line.startswith(("then ", "afterwards: "))]
    shell("\n".join([*lines, "git -c user.name=a -c user.email=a@b commit -qm x"]), place)
    shell("git clone -q . clone", root)
    workflow = yaml.safe_load((root / "clone/.github/workflows/sweep-suite.yml").read_text())
    (job,) = workflow["jobs"].values()
    step = next(one for one in job["steps"] if "edgewise run" in one.get("run", ""))
    name = job["strategy"]["matrix"]["request"][0]
    work = root / "clone" / step["working-directory"]
    shell(step["run"].replace("${{ matrix.request }}", name), work)
    kept = job["steps"][-1]["with"]["path"].replace("${{ matrix.request }}", name)
    artifact = place / "night" / "results" / name
    artifact.mkdir(parents=True)
    for file in (root / "clone").glob(kept):
        shutil.copy(file, artifact)
    assert "afterwards: gh run download RUN --dir here/night/results, and the same sweep without --emit" in advice
    assert run(["sweep", "suite.yaml", "--folder", "night", "--dry-run"]) == 0
    assert "1 of 2 cells to carry out" in capsys.readouterr().out


def test_a_job_of_kubernetes_works_in_the_mounted_folder(place, capsys):
    advice = emitted("kubernetes", capsys=capsys)
    first = next(yaml.safe_load_all(Path("suite-results/kubernetes.yaml").read_text()))["spec"]["template"]["spec"]
    (container,) = first["containers"]
    assert first["volumes"][0]["hostPath"]["path"] == str(place)
    assert any(str(place) in line and "must be at this path on each node" in line for line in advice)
    shutil.copytree(place, mounted := place.with_name("suite"))
    work = mounted / Path(container["workingDir"]).relative_to("/suite")
    shell(container["command"][-1], work)
    assert len(list((work / "results").glob("outcome-*.json"))) == 1


def test_models_elsewhere_keep_their_path_and_are_named(place, capsys):
    other = place.with_name("other.fake")
    write_fake_model(str(other), latency_ns=[2_000_000])
    write(models=["nets/fast.fake", str(other)])
    advice = emitted("slurm", capsys=capsys)
    assert models() == {"../../nets/fast.fake", str(other)}
    assert f"{other} must be at this path on each machine" in advice


def test_a_folder_outside_keeps_absolute_paths_where_machines_share_it_and_is_refused_elsewhere(place, capsys):
    outside = str(place.with_name("outside"))
    emitted("slurm", "--folder", outside, capsys=capsys)
    assert models(outside) == {str(place / "nets/fast.fake"), str(place / "nets/slow.fake")}
    assert run(["sweep", "suite.yaml", "--emit", "github", "--folder", outside]) == ExitCode.BAD_INPUT
    assert "give a --folder in it" in capsys.readouterr().err


def test_a_reference_network_in_a_relative_folder_is_found(capsys):
    pytest.importorskip("onnx", reason="reference networks are written with it")
    write(models=["zoo:ds-cnn@0.5"], runtimes=["onnxruntime"])
    emitted("slurm", "--folder", "night", capsys=capsys)
    assert models("night") == {"../models/ds-cnn-w0.5.onnx"}


def test_what_was_emitted_is_named_and_nothing_else(capsys):
    assert run(["sweep", "suite.yaml", "--emit", "slurm", "-q"]) == 0
    out = capsys.readouterr().out
    assert "cells.jsonl" not in out and "\n\n\n" not in out and "suite-results/slurm.sh" in out


def test_a_result_of_another_model_or_a_damaged_one_is_not_counted(capsys):
    emitted("slurm", capsys=capsys)
    first, second = sorted(Path("suite-results/requests").iterdir())
    results = Path("suite-results/results")
    results.mkdir()
    for request in (first, second):
        assert run(["run", str(request), "--outcome", str(results / f"outcome-{request.name}"), "-q"]) == 0
    mine, damaged = (results / f"outcome-{request.name}" for request in (first, second))
    document = json.loads(mine.read_text())
    document["rows"][0]["sha256"] = "0" * 64
    mine.write_text(json.dumps(document))
    damaged.write_text(damaged.read_text()[:-40])
    assert run(["sweep", "suite.yaml", "--dry-run"]) == 0
    assert "2 of 2 cells to carry out" in capsys.readouterr().out


def test_a_cell_that_failed_elsewhere_is_shown_and_tried_again(capsys):
    write_fake_model("nets/slow.fake", behaviour={"at": "load", "do": "raise"})
    write(models=["nets/slow.fake"])
    emitted("slurm", capsys=capsys)
    (request,) = Path("suite-results/requests").iterdir()
    Path("suite-results/results").mkdir()
    words = ["run", str(request), "--outcome", f"suite-results/results/outcome-{request.name}", "-q"]
    assert run(words) == ExitCode.RUN_FAILED
    assert run(words) == ExitCode.BAD_INPUT  # nothing is replaced without --force
    assert run([*words, "--force"]) == ExitCode.RUN_FAILED
    capsys.readouterr()
    assert run(["sweep", "suite.yaml", "--emit", "slurm", "-q"]) == 0
    out = capsys.readouterr().out
    assert "0 of 1 cells are finished; 1 failed" in out and "1 request for 'edgewise run'" in out
    assert run(["sweep", "suite.yaml", "-q"]) == ExitCode.RUN_FAILED
    lines = [json.loads(line) for line in Path("suite-results/cells.jsonl").read_text().splitlines()]
    assert [one["status"] for one in lines] == ["failed", "failed"] and lines[0][
        "cell"
    ] == "nets/slow.fake on fake, 1 thread"
