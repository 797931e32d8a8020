"""What a release, the container image and the devcontainer run is what the README and the justfile have."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib

import pages
import pytest
import yaml

WORKFLOW, CI = (
    yaml.safe_load((pages.ROOT / f".github/workflows/{name}.yml").read_text("utf-8")) for name in ("release", "ci")
)
SCRIPTS, CI_SCRIPTS = (
    [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    for workflow in (WORKFLOW, CI)
)
DOCKERFILE = (pages.ROOT / "Dockerfile").read_text("utf-8")
DEVCONTAINER = json.loads((pages.ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
README = (pages.ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    "script", [*SCRIPTS, *CI_SCRIPTS, DEVCONTAINER["postCreateCommand"], *re.findall(r"^RUN (.+)$", DOCKERFILE, re.M)]
)
def test_the_shell_can_read_every_script(script):
    assert subprocess.run(["bash", "-n", "-c", script], check=False).returncode == 0


def test_a_release_runs_recipes_that_there_are():
    recipes = set(re.findall(r"^(\w[\w-]*)\b.*:$", (pages.ROOT / "justfile").read_text("utf-8"), re.MULTILINE))
    used = {name for script in SCRIPTS for name in re.findall(r"^ *just (\S+)", script, re.MULTILINE)}
    assert used == {"dist", "sbom"} <= recipes


def test_ci_runs_every_python_that_the_package_names():
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert named == CI["jobs"]["pythons"]["strategy"]["matrix"]["python"]
    (looked_for,) = re.findall(r"for version in (3\..*); do", (pages.ROOT / ".ci/run").read_text("utf-8"))
    assert looked_for.split() == named and project["requires-python"] == f">={named[0]}"


def test_ci_runs_the_readmes_lines():
    lines = [script.split()[1] for script in CI_SCRIPTS if script.startswith(".ci/readme_line ")]
    assert lines == re.findall(r"<!-- ci: (\w+) -->", README) == ["setup", "test"]


def test_only_the_job_that_publishes_may_and_it_runs_nothing_of_the_repository():
    publish = WORKFLOW["jobs"]["publish"]
    assert WORKFLOW["permissions"] == {"contents": "read"} and publish["permissions"] == {"id-token": "write"}
    assert not any("run" in step or "checkout" in step["uses"] for step in publish["steps"])
    assert publish["steps"][-1]["with"] == {"attestations": True}


def test_the_devcontainer_is_set_up_by_the_readmes_line_and_takes_the_tour():
    line = next(line for line in README.splitlines() if "-c constraints/all.txt" in line)
    assert (
        DEVCONTAINER["postCreateCommand"] == f"{line.partition(' && v/bin/python -m pytest')[0]} && v/bin/edgewise tour"
    )


def test_the_image_copies_what_its_first_stage_makes():
    assert re.findall(r"--wheel-dir (\S+)", DOCKERFILE) == re.findall(r"COPY --from=build (\S+)", DOCKERFILE)
    assert len(re.findall(r"^FROM \S+/python:3\.12", DOCKERFILE, re.MULTILINE)) == 2
