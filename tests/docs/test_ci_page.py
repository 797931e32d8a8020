"""The workflow and the job of docs/ci.md do what the page says: their shell lines are run, step by step."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pages
import pytest
import yaml

from edgewise.errors import ExitCode
from edgewise.testing import write_fake_model

PAGE = pages.ROOT / "docs" / "ci.md"
MS = 1_000_000
GITHUB = {"github.token": "a-token", "github.event.number": "7"}


@dataclass(frozen=True)
class Step:
    """A shell script of a pipeline; `always` runs after a failure too."""

    script: str
    environment: dict[str, str]
    always: bool = False


def documents() -> list[dict[str, Any]]:
    return [yaml.safe_load(block.text) for block in pages.blocks(PAGE, "yaml")]


def github_steps() -> list[Step]:
    (job,) = documents()[0]["jobs"].values()
    steps = []
    for step in job["steps"]:
        if "run" in step:
            own = {key: _expression(str(value)) for key, value in {**job["env"], **step.get("env", {})}.items()}
            steps.append(Step(_expression(step["run"]), own, always="always()" in step.get("if", "")))
    return steps


def gitlab_steps() -> list[Step]:
    (job,) = documents()[1].values()
    return [Step(line, {key: str(value) for key, value in job["variables"].items()}) for line in job["script"]]


def _expression(text: str) -> str:
    """`text` with GitHub's expressions evaluated; an unknown one is an error."""
    return re.sub(r"\$\{\{\s*([^}]+?)\s*\}\}", lambda match: GITHUB[match[1]], text)


def model(path: Path, latency_ms: float) -> None:
    """A fake model: what a file is, its content says, and this one runs anywhere in no time."""
    times = [round(latency_ms * MS * (1 + 0.001 * step)) for step in (-1, 0, 1, 0, 1, -1)]
    write_fake_model(path, latency_ns=times)


@pytest.fixture(scope="module")
def committed(tmp_path_factory) -> Path:
    """A repository whose main branch has the model, and its bundle with the model beside it."""
    place = tmp_path_factory.mktemp("committed")
    folder = place / "repository"
    (folder / "baseline").mkdir(parents=True)
    model(folder / "model.onnx", 2.0)
    model(folder / "baseline" / "model.onnx", 2.0)
    store = {"EDGEWISE_STORE": str(place / "runs.db")}
    record = "edgewise bench model.onnx --iterations 40 --sessions 3 --no-meters -q && edgewise runs export last -o baseline/run.json"
    assert shell(record, folder, store).returncode == 0
    commands = (
        "git init -q . && git add -A && "
        "git -c user.name=T -c user.email=t@example.com commit -q -m model && git update-ref refs/remotes/origin/main HEAD"
    )
    assert shell(commands, folder, {}).returncode == 0
    return folder


@pytest.fixture
def checkout(committed, tmp_path) -> Path:
    """A copy of it to work in."""
    return Path(shutil.copytree(committed, tmp_path / "repository"))


def shell(script: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("EDGEWISE_", "PYTEST_", "GIT_"))}
    tools = folder.parent / "tools"
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**clean, "PATH": path, "HOME": str(folder.parent), "EDGEWISE_LOCKS": str(folder.parent), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_pipeline(steps: list[Step], folder: Path, **environment: str) -> list[int]:
    """The exit codes of the steps that ran; installing is looked at and not done."""
    codes: list[int] = []
    for step in steps:
        if step.script.startswith("pip install"):
            continue
        if any(codes) and not step.always:
            continue
        done = shell(step.script, folder, {**step.environment, **environment})
        codes.append(done.returncode)
        assert done.returncode in (0, 4, 5), f"{step.script}\n{done.stdout}\n{done.stderr}"
    return codes


def failures(folder: Path) -> int:
    (suite,) = ElementTree.parse(folder / "gate.xml").getroot()
    assert suite.get("errors") == "0"
    return int(suite.get("failures", "-1"))


def test_what_the_pipelines_install_exists():
    extras = metadata("edgewise").get_all("Provides-Extra")
    steps = [step for step in (*github_steps(), *gitlab_steps()) if step.script.startswith("pip install")]
    assert [step.script for step in steps] == ['pip install "$EDGEWISE"'] * 2
    for step in steps:
        # A wheel and not a name: nobody knows what a package index has under it before edgewise is there.
        wheel = r"\./ci/edgewise-(.+)-py3-none-any\.whl\[(\w+)\]"
        version, extra = re.fullmatch(wheel, step.environment["EDGEWISE"]).groups()
        assert version == metadata("edgewise")["Version"] and extra in extras


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("latency", "code"), [(2.001, ExitCode.DONE), (2.2, ExitCode.BUDGET_EXCEEDED)])
def test_the_github_workflow_gates_and_comments(checkout, latency, code):
    """`gh` is none of ours: in its place stands a script that notes what it was asked for."""
    tools = checkout.parent / "tools"
    tools.mkdir()
    gh = tools / "gh"
    gh.write_text('#!/bin/sh\necho "$GH_TOKEN $*" > gh.txt\ncat gate.md >> gh.txt\n')
    gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
    model(checkout / "model.onnx", latency)
    assert run_pipeline(github_steps(), checkout, GITHUB_BASE_REF="main") == [0, code, 0]
    asked, marker, *_ = (checkout / "gh.txt").read_text("utf-8").splitlines()
    assert asked == "a-token pr comment 7 --edit-last --create-if-none --body-file gate.md"
    assert marker == "<!-- edgewise gate -->"
    assert failures(checkout) == (code != 0)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("steps", [github_steps, gitlab_steps])
def test_the_change_that_adds_the_model_is_held_to_its_own_limits(checkout, steps):
    (checkout / "model.onnx").rename(checkout / "added.onnx")
    shutil.rmtree(checkout / "baseline")
    (checkout.parent / "tools").mkdir()
    gh = checkout.parent / "tools" / "gh"
    gh.write_text("#!/bin/sh\n")
    gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
    codes = run_pipeline(steps(), checkout, GITHUB_BASE_REF="main", MODEL="added.onnx")
    assert not any(codes) and failures(checkout) == 0


@pytest.mark.slow
@pytest.mark.long
def test_the_gitlab_job_gates_and_leaves_what_it_says(checkout):
    model(checkout / "model.onnx", 2.2)
    assert run_pipeline(gitlab_steps(), checkout) == [ExitCode.BUDGET_EXCEEDED]
    (job,) = documents()[1].values()
    assert all((checkout / name).is_file() for name in job["artifacts"]["paths"])
    assert job["artifacts"]["reports"]["junit"] == "gate.xml"
    assert failures(checkout) == 1
    assert job["allow_failure"]["exit_codes"] == ExitCode.RUN_FAILED
