"""Writes unfinished cells for other schedulers: a request per cell, and what runs them side by side."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from edgewise.errors import as_flag
from edgewise.store.exchange import write_file

if TYPE_CHECKING:
    from edgewise.verbs.sweep.work import Plan

PER_PAGE = 256
"""Most jobs of one matrix of GitHub."""

USES = {
    "github": "copy {} to .github/workflows, and commit it with the requests",
    "slurm": "sbatch {}",
    "kubernetes": "fill in IMAGE, then kubectl apply -f {}",
}


def emit_cells(scheduler: str, plan: Plan) -> list[str]:
    """Write the requests of the waiting cells and the scheduler's file; the paths of what was written.

    Raises `BadInput` for a cell whose request can't be made.
    """
    folder = plan.folder / "requests"
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob("*.json"):
        earlier.unlink()
    if not plan.waiting:
        return [f"{folder}: nothing is left to carry out; {as_flag('again')} writes all cells"]
    names = []
    for at in plan.waiting:
        path = folder / f"{plan.keys[at] or at}.json"
        write_file(path, json.dumps(plan.requests.request(plan.cells[at]).to_document()), overwrite=True)
        names.append(path.name)
    title = plan.requests.file.path.stem
    ending, content = {"github": (".yml", _github), "slurm": (".sh", _slurm), "kubernetes": (".yaml", _kubernetes)}[
        scheduler
    ]
    target = plan.folder / f"{scheduler}{ending}"
    write_file(target, content(title, names, folder), overwrite=True)
    return [
        f"{folder}: {len(names)} requests for 'edgewise run'",
        str(target),
        f"next: {USES[scheduler].format(target)}",
    ]


def _github(title: str, names: Sequence[str], folder: Path) -> str:
    """A workflow; a matrix holds 256 jobs at most, so that there may be several."""
    jobs: dict[str, Any] = {}
    for page in range(0, len(names), PER_PAGE):
        command = f"edgewise run {folder.as_posix()}/${{{{ matrix.request }}}} -o run.json"
        upload = {"uses": "actions/upload-artifact@v4", "with": {"name": "${{ matrix.request }}", "path": "run.json"}}
        steps = [
            {"uses": "actions/checkout@v4"},
            {"uses": "actions/setup-python@v5", "with": {"python-version": "3.11"}},
            {"run": "pip install 'edgewise[engines]'"},
            {"run": command},
            upload,
        ]
        matrix = {"request": list(names[page : page + PER_PAGE])}
        jobs[f"cells-{page // PER_PAGE + 1}"] = {
            "runs-on": "ubuntu-latest", "strategy": {"fail-fast": False, "matrix": matrix}, "steps": steps,
        }  # fmt: skip
    document = {"name": f"sweep {title}", "on": {"workflow_dispatch": {}}, "jobs": jobs}
    return str(yaml.safe_dump(document, sort_keys=False))


def _slurm(title: str, names: Sequence[str], folder: Path) -> str:
    """An array job: one task per request, each with a node of its own."""
    listed = " ".join(shlex.quote(str(folder.absolute() / name)) for name in names)
    return (
        f"#!/bin/bash\n#SBATCH --job-name={shlex.quote(title)}\n#SBATCH --array=0-{max(0, len(names) - 1)}\n"
        f'#SBATCH --exclusive\nrequests=({listed})\nedgewise run "${{requests[$SLURM_ARRAY_TASK_ID]}}"\n'
    )


def _kubernetes(title: str, names: Sequence[str], folder: Path) -> str:
    """A Job per request; the image and the volume of the requests are the user's to fill in."""
    documents = []
    for name in names:
        container = {
            "name": "edgewise", "image": "IMAGE", "command": ["edgewise", "run", f"/requests/{name}"],
            "volumeMounts": [{"name": "requests", "mountPath": "/requests"}],
        }  # fmt: skip
        volume = {"name": "requests", "hostPath": {"path": str(folder.absolute())}}
        spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
        label = "".join(letter if letter.isalnum() else "-" for letter in f"{title}-{Path(name).stem}".lower())
        documents.append(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": label.strip("-")[:63]},
             "spec": {"backoffLimit": 0, "template": {"spec": spec}}}
        )  # fmt: skip
    return str(yaml.safe_dump_all(documents, sort_keys=False))
