"""``edgewise sweep --emit``: what a scheduler runs works in another place, and its results come back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.store import open_store
from edgewise.testing import write_fake_model
from edgewise.verbs.sweep import emit

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


@pytest.fixture(autouse=True)
def install(monkeypatch):
    """A function that makes edgewise one that pip installed from there; at first from a package index."""

    def set_origin(origin: dict[str, object] | None, version: str = "1.2.3") -> None:
        text = origin and json.dumps(origin)
        own = SimpleNamespace(read_text=lambda name: text if name == "direct_url.json" else None)
        monkeypatch.setattr(emit, "distribution", {"edgewise": own}.get)
        monkeypatch.setattr(emit, "__version__", version)

    set_origin(None)
    return set_origin


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
    lines = [
        line.removeprefix("next: ")
        for line in advice[begin:]
        if not line.startswith(("then ", "when ", "afterwards: "))
    ]
    shell("\n".join([*lines, "git -c user.name=a -c user.email=a@b commit -qm x"]), place)
    shell("git clone -q . clone", root)
    workflow = yaml.safe_load((root / "clone/.github/workflows/sweep-suite.yml").read_text())
    (job,) = workflow["jobs"].values()
    step = next(one for one in job["steps"] if "edgewise run" in one.get("run", ""))
    first, second = job["strategy"]["matrix"]["include"]
    name = first["request"]
    assert job["name"] == "${{ matrix.cell }}" and second["cell"].startswith("nets/slow.fake on fake, 1 thread (")
    assert first["cell"] == f"nets/fast.fake on fake, 1 thread ({name.removesuffix('.json')})"
    work = root / "clone" / step["working-directory"]
    shell(step["run"].replace("${{ matrix.request }}", name), work)
    kept = job["steps"][-1]["with"]["path"].replace("${{ matrix.request }}", name)
    artifact = place / "night" / "results" / name
    artifact.mkdir(parents=True)
    for file in (root / "clone").glob(kept):
        shutil.copy(file, artifact)
    assert "when it has ended: gh run download RUN --dir here/night/results" in advice
    (afterwards,) = (line for line in advice if line.startswith("afterwards: the same sweep without --emit "))
    assert "measures here those of the 2 cells that have none" in afterwards
    assert run(["sweep", "suite.yaml", "--folder", "night", "--dry-run"]) == 0
    assert "1 of 2 cells to carry out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("origin", "version", "requirement"),
    [
        (None, "1.2.3", "edgewise[engines]==1.2.3"),
        ({"url": "https://host/edgewise.whl", "archive_info": {}}, "1.2.3",
         "edgewise[engines] @ https://host/edgewise.whl"),
        ({"url": "https://host/ew.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}, "0+source",
         "edgewise[engines] @ git+https://host/ew.git@c0ffee"),
        ({"url": "file:///a%20b/edgewise", "dir_info": {"editable": True}}, "1.2.3", "edgewise[engines]==1.2.3"),
        ({"url": "file:///a%20b/edgewise", "dir_info": {"editable": True}}, "0+source.gc0ffee",
         "./ci/edgewise-0+source.gc0ffee-py3-none-any.whl[engines]"),
        ({"url": Path(__file__).parent.as_uri(), "dir_info": {}}, "1.2.4.dev1",
         "./ci/edgewise-1.2.4.dev1-py3-none-any.whl[engines]"),
    ],
)  # fmt: skip
def test_jobs_on_github_install_edgewise_from_where_it_was_installed_here(
    origin, version, requirement, install, capsys
):
    install(origin, version)
    advice = emitted("github", capsys=capsys)
    workflow = yaml.safe_load(Path("suite-results/github.yml").read_text())
    assert workflow["env"] == {"EDGEWISE": requirement}
    assert {"run": 'pip install "$EDGEWISE"'} in workflow["jobs"]["cells-1"]["steps"]
    wheel = "./ci/" in requirement
    gone = "/a b/edgewise, from which edgewise was installed, is gone: CLONE is a clone of its source"
    build = f"SETUPTOOLS_SCM_PRETEND_VERSION={version} pip wheel --no-deps --wheel-dir ci"
    assert (gone in advice) == (f"{build} CLONE" in advice) == (wheel and "a%20b" in str(origin))
    assert (f"{build} {Path(__file__).parent}" in advice) == (wheel and gone not in advice)
    needed = Path("suite-results/files.txt").read_text().splitlines()
    assert (f"ci/edgewise-{version}-py3-none-any.whl" in needed) == wheel


def test_a_campaign_in_a_clone_of_edgewise_installs_the_clone(place, install, capsys):
    install({"url": place.as_uri(), "dir_info": {"editable": True}})
    advice = emitted("github", capsys=capsys)
    assert yaml.safe_load(Path("suite-results/github.yml").read_text())["env"] == {"EDGEWISE": ".[engines]"}
    assert not any("pip wheel" in line for line in advice)


@pytest.mark.parametrize("words", [[], ["7"], ["-1"], ["x[$(touch hit)]"], ["08"]])
def test_the_script_of_slurm_carries_out_nothing_without_the_index_of_a_cell(words, place, capsys):
    emitted("slurm", capsys=capsys)
    variables = {name: value for name, value in os.environ.items() if name != "SLURM_ARRAY_TASK_ID"}
    line = ["bash", "suite-results/slurm.sh", *words]
    done = subprocess.run(line, env=variables, capture_output=True, text=True)
    assert done.returncode == 2 and not Path("suite-results/results").exists() and not Path("hit").exists()
    assert "usage: cd suite-results && sbatch slurm.sh" in done.stderr
    assert "for one cell: bash suite-results/slurm.sh INDEX, from 0 to 1" in done.stderr


def test_the_script_of_slurm_takes_the_index_of_a_cell_as_its_argument(place):
    assert run(["sweep", "suite.yaml", "--emit", "slurm", "-q"]) == 0
    shell("bash suite-results/slurm.sh 1", place)
    assert len(list(Path("suite-results/results").glob("outcome-*.json"))) == 1


def test_a_model_that_is_not_there_is_refused_before_anything_is_written(place, capsys):
    write(models=["nets/fast.fake", "nofile.onnx"])
    assert run(["sweep", "suite.yaml", "--emit", "slurm", "-q"]) == ExitCode.BAD_INPUT
    assert "nofile.onnx" in capsys.readouterr().err and not Path("suite-results/slurm.sh").exists()


def test_a_scheduler_removes_only_what_was_written_for_it(place, capsys):
    folder = Path("suite-results")
    emitted("slurm", capsys=capsys)
    script = (folder / "slurm.sh").read_text()
    write(models=["nets/fast.fake"])
    lines = emitted("github", capsys=capsys)
    assert f"unchanged: {folder}/slurm.sh, of an earlier --emit" in lines and not any("removed" in one for one in lines)
    assert (folder / "slurm.sh").read_text() == script
    assert len(models()) == 2  # the script names both
    (folder / "kubernetes.yaml").write_text("mine: true\n")
    assert run(["sweep", "suite.yaml", "--emit", "kubernetes"]) == ExitCode.BAD_INPUT
    assert "edgewise did not write it" in capsys.readouterr().err and (folder / "slurm.sh").exists()
    emitted("slurm", capsys=capsys)
    assert len(models()) == 1
    assert run(["sweep", "suite.yaml", "-q"]) == 0
    workflow = Path(".github/workflows/sweep-suite.yml")
    workflow.parent.mkdir(parents=True)
    workflow.write_text(f"{emit.MARK} github'.\n")
    lines = emitted("slurm", capsys=capsys)
    assert "nothing is left to carry out" in lines[0]
    assert lines[1:] == [f"removed: {folder}/slurm.sh", f"unchanged: {folder}/github.yml, of an earlier --emit"]
    lines = emitted("github", capsys=capsys)
    assert lines[1:] == [
        f"removed: {folder}/github.yml", f"removed: {folder}/files.txt", f"no longer needed: {place / workflow}"
    ]  # fmt: skip
    assert not models() and (folder / "kubernetes.yaml").read_text() == "mine: true\n"


@pytest.mark.long
def test_more_cells_than_an_array_of_slurm_holds_are_carried_out_by_turns(place, capsys, monkeypatch):
    monkeypatch.setattr(emit, "MOST_TASKS", 2)
    write(threads=["1", "2"], models=["nets/*.fake"])
    lines = emitted("slurm", capsys=capsys)
    assert any("an array of 2 tasks" in line and "carries out up to 2 cells" in line for line in lines)
    assert "#SBATCH --array=0-1\n" in Path("suite-results/slurm.sh").read_text()
    shell("bash suite-results/slurm.sh", place, SLURM_ARRAY_TASK_ID="1")
    assert runs() == 2
    shell("bash suite-results/slurm.sh 0", place)
    assert runs() == 3
    assert run(["sweep", "suite.yaml", "--dry-run"]) == 0
    assert "1 of 4 cells to carry out" in capsys.readouterr().out


@pytest.mark.long
def test_a_task_of_slurm_goes_on_after_a_cell_that_failed_and_ends_as_failed(place, capsys, monkeypatch):
    monkeypatch.setattr(emit, "MOST_TASKS", 1)
    write_fake_model("nets/fast.fake", behaviour={"at": "load", "do": "raise"})
    emitted("slurm", capsys=capsys)
    variables = os.environ | {"SLURM_ARRAY_TASK_ID": "0"}
    done = subprocess.run(["bash", "suite-results/slurm.sh"], env=variables, capture_output=True)
    assert done.returncode == ExitCode.RUN_FAILED
    outcomes = [json.loads(path.read_text()) for path in Path("suite-results/results").glob("outcome-*.json")]
    assert sorted(one["status"] for one in outcomes) == ["done", "failed"]


@pytest.mark.long
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
    name = Path(json.loads(first.read_text())["models"][0]).name
    mine.write_text(json.dumps(document))
    damaged.write_text(damaged.read_text()[:-40])
    assert run(["sweep", "suite.yaml", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "2 of 2 cells to carry out" in out
    assert f"does not count: {damaged}: the file is damaged" in " ".join(err.split())
    assert f"does not count: {mine}: no model of the suite has the content that {name} had" in " ".join(err.split())


def not_counted(*words: str, capsys) -> list[str]:
    capsys.readouterr()
    assert run(["sweep", "suite.yaml", "-q", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)["not_counted"]


def test_results_that_no_longer_count_are_named_with_the_reason(capsys):
    write(models=["nets/fast.fake"])
    emitted("slurm", capsys=capsys)
    (request,) = Path("suite-results/requests").iterdir()
    result = Path("suite-results/results") / f"outcome-{request.name}"
    result.parent.mkdir()
    assert run(["run", str(request), "--outcome", str(result), "-q"]) == 0
    assert not_counted(capsys=capsys) == [] and not_counted(capsys=capsys) == []
    write(models=["nets/*.fake"])
    assert not_counted("--only", "slow", capsys=capsys) == []  # of a cell that is not wanted now
    write(models=["nets/fast.fake"], threads=["2"])
    other = "the suite, its options, an engine or edgewise has changed since"
    assert not_counted(capsys=capsys) == [f"{result}: {other}"]
    document = json.loads(result.read_text())
    document["rows"][0]["version"] = "0.9"
    result.write_text(json.dumps(document))
    (line,) = not_counted(capsys=capsys)
    assert "measured by fake 0.9; " in line and line.endswith(" is installed here")
    write_fake_model("nets/fast.fake", latency_ns=[2_000_000])
    assert run(["sweep", "suite.yaml", "-q"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"Results that do not count {result}: no model of the suite has the content that fast.fake had" in out


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
