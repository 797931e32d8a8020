"""The GitHub Action and the GitLab job do what docs/ci.md says: their shell lines are run, step by step."""

from __future__ import annotations

import os
import re
import shutil
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
from patience import LIMIT_S
from tiny_models import write_tiny_onnx

PAGE = pages.ROOT / "docs" / "ci.md"
MS = 1_000_000
ACTION = yaml.safe_load((pages.ROOT / "action.yml").read_text("utf-8"))
BUDGET = "600s"
"""On a busy machine a round of fresh processes takes longer than the usual budget."""
GITHUB = {"github.token": "a-token", "github.event.number": "7", "github.base_ref": "main"}
GH = """#!/bin/sh
echo "$GH_TOKEN $*" >> gh.txt
case "$*" in *--jq*) cat found.txt 2>/dev/null;; *) exit "$(cat refuse.txt 2>/dev/null || echo 0)";; esac
"""


@dataclass(frozen=True)
class Step:
    """A shell script of a pipeline."""

    script: str
    environment: dict[str, str]


def documents() -> list[dict[str, Any]]:
    return [yaml.safe_load(block.text) for block in pages.blocks(PAGE, "yaml")]


def run_action(folder: Path, *, token_may_comment: bool = True, **inputs: str) -> tuple[int, str]:
    """Run the steps of the action as GitHub does; return the last exit code and what the steps printed.

    `gh` is none of ours: in its place stands a script that notes what it was asked for, and `found.txt` is what it finds.
    """
    tools, scratch = folder.parent / "tools", folder.parent / "scratch"
    for place in (tools, scratch):
        place.mkdir(exist_ok=True)
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)
    if not token_may_comment:
        (folder / "refuse.txt").write_text("1")
    known = {**GITHUB, **{f"inputs.{name}": one.get("default", "") for name, one in ACTION["inputs"].items()}}
    known = {name: _expression(value, known) for name, value in known.items()}
    known |= {f"inputs.{name.replace('_', '-')}": value for name, value in ({"time_budget": BUDGET} | inputs).items()}
    printed, code = "", 0
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] == "Install edgewise":
            continue
        written = scratch / "output"
        own = {
            "RUNNER_TEMP": str(scratch), "GITHUB_STEP_SUMMARY": str(scratch / "summary.md"),
            "GITHUB_OUTPUT": str(written), "GITHUB_REPOSITORY": "someone/something",
        }  # fmt: skip
        own |= {name: _expression(value, known) for name, value in step["env"].items()}
        done = shell(step["run"], folder, own)
        printed, code = printed + done.stdout + done.stderr, done.returncode
        if code:
            break
        if "id" in step:
            pairs = dict(line.split("=", 1) for line in written.read_text().splitlines())
            known |= {f"steps.{step['id']}.outputs.{name}": value for name, value in pairs.items()}
    return code, printed


def gitlab_steps() -> list[Step]:
    (job,) = documents()[2].values()
    variables = {key: str(value) for key, value in job["variables"].items()} | {"TIME_BUDGET": BUDGET}
    return [Step(line, variables) for line in job["script"]]


def _expression(text: str, known: dict[str, str]) -> str:
    """`text` with GitHub's expressions evaluated; an unknown one is an error, but for outputs that no step wrote."""
    return re.sub(
        r"\$\{\{\s*([^}]+?)\s*\}\}",
        lambda match: known.get(match[1], "") if match[1].startswith("steps.") else known[match[1]],
        text,
    )


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
        "git init -q -b main . && git add -A && git -c user.name=T -c user.email=t@example.com commit -q -m model"
    )
    assert shell(commands, folder, {}).returncode == 0
    return folder


@pytest.fixture
def checkout(committed, tmp_path) -> Path:
    """A shallow clone of it to work in, as actions/checkout makes it."""
    folder = tmp_path / "repository"
    assert shell(f"git clone -q --depth=1 file://{committed} {folder}", tmp_path, {}).returncode == 0
    return folder


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
        timeout=LIMIT_S,
        check=False,
    )


def run_pipeline(steps: list[Step], folder: Path, **environment: str) -> list[int]:
    """The exit codes of the steps that ran, up to one that failed; installing is looked at and not done."""
    codes: list[int] = []
    for step in steps:
        if step.script.startswith("pip install"):
            continue
        done = shell(step.script, folder, {**step.environment, **environment})
        codes.append(done.returncode)
        assert done.returncode in (0, 4, 5), f"{step.script}\n{done.stdout}\n{done.stderr}"
        if done.returncode:
            break
    return codes


def failures(folder: Path) -> int:
    (suite,) = ElementTree.parse(folder / "gate.xml").getroot()
    assert suite.get("errors") == "0"
    return int(suite.get("failures", "-1"))


def test_what_the_pipelines_install_exists():
    extras = metadata("edgewise").get_all("Provides-Extra")
    assert ACTION["inputs"]["runtime"]["default"] in extras
    (install,) = (step for step in gitlab_steps() if step.script.startswith("pip install"))
    # A wheel, not a package name: until edgewise is published, an index may have another package of that name.
    (extra,) = re.fullmatch(r'pip install "\$\(echo ci/edgewise-\*\.whl\)\[(\w+)\]"', install.script).groups()
    assert extra in extras


def test_the_page_uses_inputs_that_the_action_has():
    workflow, comment, _ = documents()
    (step,) = (step for step in workflow["jobs"]["gate"]["steps"] if "with" in step)
    release = re.search(r"^## (\S+)", (pages.ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)[1]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert step["uses"].endswith(f"@v{release}")
    assert comment["on" if "on" in comment else True]["workflow_run"]["workflows"] == [workflow["name"]]
    for name in re.findall(r"`([a-z]+(?:-[a-z]+)+)(?:: (?:true|false))?`", PAGE.read_text("utf-8")):
        assert name in {*ACTION["inputs"], *ACTION["outputs"], "edgewise-gate"} or name.startswith("git-"), name


@pytest.mark.slow
@pytest.mark.long
def test_the_action_passes_an_unchanged_model_without_a_comment(checkout):
    model(checkout / "model.onnx", 2.001)
    code, printed = run_action(checkout, model="model.onnx", runtime="fake")
    assert code == 0, printed
    report = checkout.parent / "scratch" / "edgewise-gate"
    assert failures(report) == 0 and (report / "pull-request.txt").read_text() == "7\n"
    assert (checkout.parent / "scratch" / "summary.md").read_text() == (report / "gate.md").read_text()
    assert len((checkout / "gh.txt").read_text().splitlines()) == 1  # it looked for a comment, and made none


@pytest.mark.slow
@pytest.mark.long
def test_the_action_fails_for_a_slower_model_and_changes_its_own_comment(checkout):
    model(checkout / "model.onnx", 2.2)
    (checkout / "found.txt").write_text("42\n")
    code, printed = run_action(checkout, model="model.onnx", runtime="fake", budget="model_size=1MB")
    assert code == ExitCode.BUDGET_EXCEEDED, printed
    report = checkout.parent / "scratch" / "edgewise-gate"
    asked = (checkout / "gh.txt").read_text().splitlines()
    assert asked[-1] == (
        f"a-token api --silent -X PATCH repos/someone/something/issues/comments/42 -F body=@{report}/comment.md"
    )
    assert failures(report) == 1
    assert (report / "comment.md").read_text() == "<!-- edgewise-gate -->\n" + (report / "gate.md").read_text()
    assert (report / "gate.html").is_file() and (report / "gate.json").is_file()


@pytest.mark.slow
@pytest.mark.long
def test_a_token_that_may_not_comment_is_a_warning_and_alerts_need_not_fail(checkout):
    model(checkout / "model.onnx", 2.2)
    inputs = {"model": "model.onnx", "runtime": "fake", "fail_on_alert": "false", "baseline": "baseline/run.json"}
    code, printed = run_action(checkout, token_may_comment=False, **inputs)
    assert code == 0, printed
    assert "::warning::edgewise: the token may not comment" in printed
    asked = (checkout / "gh.txt").read_text().splitlines()
    assert "repos/someone/something/issues/7/comments -F body=@" in asked[-1] and "PATCH" not in asked[-1]


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.long
def test_the_baseline_has_the_weights_beside_it_and_a_second_gate_its_own_report(tmp_path):
    pytest.importorskip("onnxruntime")
    origin, folder = tmp_path / "origin", tmp_path / "repository"
    (origin / "models").mkdir(parents=True)
    write_tiny_onnx(origin / "models" / "net.onnx", external=True)
    (origin / "other.txt").write_text("not of the model")
    commit = "git init -q -b main . && git add -A && git -c user.name=T -c user.email=t@example.com commit -q -m model"
    clone = f"git clone -q --depth=1 file://{origin} {folder}"
    assert shell(f"{commit} && {clone}", origin, {}).returncode == 0
    inputs = {"model": "models/net.onnx", "max_regression": "model_size=3%", "name": "of-net"}
    for _ in range(2):
        code, printed = run_action(folder, **inputs)
        assert code == 0, printed
    scratch = tmp_path / "scratch"
    assert failures(scratch / "of-net") == 0
    assert (scratch / "of-net" / "comment.md").read_text().startswith("<!-- of-net -->\n")
    assert 'startswith("<!-- of-net -->")' in (folder / "gh.txt").read_text()
    assert not [*scratch.glob("before.*/other.txt")]


@pytest.mark.parametrize(
    ("found", "conclusion", "last"),
    [
        ("42", "success", "-X PATCH repos/someone/something/issues/comments/42 -F body=@comment.md"),
        ("", "failure", "repos/someone/something/issues/7/comments -F body=@comment.md"),
        ("", "success", "--jq"),
    ],
)
def test_the_second_workflow_comments_as_the_action_does(tmp_path, found, conclusion, last):
    folder, tools = tmp_path / "artifact", tmp_path / "tools"
    folder.mkdir()
    tools.mkdir()
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)
    (folder / "found.txt").write_text(found)
    (folder / "pull-request.txt").write_text("7\n")
    (step,) = (step for step in documents()[1]["jobs"]["comment"]["steps"] if "run" in step)
    environment = {"GH_TOKEN": "a-token", "CONCLUSION": conclusion, "GITHUB_REPOSITORY": "someone/something"}
    done = shell(step["run"], folder, environment)
    assert done.returncode == 0, done.stderr
    assert last in (folder / "gh.txt").read_text().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.long
def test_the_change_that_adds_the_model_is_held_to_its_own_limits(checkout):
    model(checkout / "added.onnx", 2.0)
    code, printed = run_action(checkout, model="added.onnx", runtime="fake", budget="latency=1s")
    assert code == 0, printed
    assert failures(checkout.parent / "scratch" / "edgewise-gate") == 0
    code, printed = run_action(checkout, model="added.onnx", runtime="fake")
    assert code == 0 and "no baseline yet, and no budget" in printed
    shutil.rmtree(checkout / "baseline")
    codes = run_pipeline(gitlab_steps(), checkout, MODEL="added.onnx")
    assert not any(codes) and failures(checkout) == 0


@pytest.mark.long
def test_a_model_that_is_not_there_fails_the_job_whatever_is_asked(checkout):
    code, printed = run_action(checkout, model="missing.onnx", budget="latency=1s", fail_on_alert="false")
    assert code == ExitCode.BAD_INPUT and "missing.onnx" in printed


@pytest.mark.slow
@pytest.mark.long
def test_the_gitlab_job_gates_and_leaves_what_it_says(checkout):
    model(checkout / "model.onnx", 2.2)
    assert run_pipeline(gitlab_steps(), checkout) == [ExitCode.BUDGET_EXCEEDED]
    (job,) = documents()[2].values()
    assert all((checkout / name).is_file() for name in job["artifacts"]["paths"])
    assert job["artifacts"]["reports"]["junit"] == "gate.xml"
    assert failures(checkout) == 1
    assert job["allow_failure"]["exit_codes"] == ExitCode.RUN_FAILED
