"""Writes unfinished cells for other schedulers: a request per cell, and what runs them side by side.

Paths below the suite's repository, or below its folder where that is in none, are relative in the requests: the
repository works wherever it is copied to.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from edgewise.errors import BadInput, as_flag
from edgewise.folders import absolute_path
from edgewise.store.exchange import write_file
from edgewise.text import enumerate_few
from edgewise.verbs.outcome import PREFIX
from edgewise.verbs.sweep.ledger import RESULTS

if TYPE_CHECKING:
    from edgewise.verbs.sweep.work import Plan

PER_PAGE = 256
"""Most jobs of one matrix of GitHub."""
WORKFLOWS = ".github/workflows"


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Where the files are that jobs need. Folders are absolute.

    Attributes:
        root: the suite's repository, or its folder.
        folder: of the sweep.
        used: files and folders of `root`, from there, that the jobs read.
        elsewhere: those outside.
    """

    title: str
    root: Path
    in_repository: bool
    folder: Path
    used: dict[str, None] = field(default_factory=dict)
    elsewhere: dict[str, None] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """The sweep's folder from `root`; None where it is outside."""
        return self.folder.relative_to(self.root).as_posix() if self.folder.is_relative_to(self.root) else None

    def path_in_request(self, path: str) -> str:
        """`path` from the folder of the requests where both move together; a function of a module as it is."""
        if not Path(path).is_absolute():
            return path
        if self.place is not None and Path(path).is_relative_to(self.root):
            self.used[Path(path).relative_to(self.root).as_posix()] = None
        elif not Path(path).is_relative_to(self.folder):
            self.elsewhere[path] = None
            return path
        return os.path.relpath(path, self.folder / "requests")


def emit_cells(scheduler: str, plan: Plan) -> list[str]:
    """Write the requests of the waiting cells and the scheduler's file; what was written, and what to do with it.

    Raises `BadInput` for a cell whose request can't be made, and for a folder that the scheduler's machines don't get.
    """
    campaign = _campaign_of(plan)
    if campaign.place is None and scheduler != "slurm":
        message = f"the folder of the results, {plan.folder}, is outside {campaign.root}, which the jobs get"
        raise BadInput(message, advice="give a ⟦folder⟧ in it")
    folder = plan.folder / "requests"
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob("*.json"):
        earlier.unlink()
    if not plan.waiting:
        return [f"{folder}: nothing is left to carry out; {as_flag('again')} writes all cells"]
    names = []
    for at in plan.waiting:
        request = plan.request(at).with_paths_from(Path.cwd()).with_changed_paths(campaign.path_in_request)
        names.append(f"{plan.file_name(at)}.json")
        write_file(folder / names[-1], json.dumps(request.to_document()), overwrite=True)
    ending, content = {"github": (".yml", _github), "slurm": (".sh", _slurm), "kubernetes": (".yaml", _kubernetes)}[
        scheduler
    ]
    target = plan.folder / f"{scheduler}{ending}"
    write_file(target, content(campaign, names), overwrite=True)
    where = "each container" if scheduler == "kubernetes" else "each machine"
    apart = [f"{enumerate_few(list(campaign.elsewhere))} must be at this path on {where}"] if campaign.elsewhere else []
    return [
        f"{folder}: {len(names)} request{'s' if len(names) > 1 else ''} for 'edgewise run'",
        str(target),
        *{"github": _on_github, "slurm": _on_slurm, "kubernetes": _on_kubernetes}[scheduler](campaign, target),
        *apart,
    ]


def _campaign_of(plan: Plan) -> Campaign:
    suite = absolute_path(plan.requests.file.path).parent
    repository = next((folder for folder in (suite, *suite.parents) if (folder / ".git").exists()), None)
    return Campaign(
        title=plan.requests.file.path.stem,
        root=repository or suite,
        in_repository=repository is not None,
        folder=absolute_path(plan.folder),
    )


def _line(request: str) -> str:
    """What carries out `request`, a name that the shell expands, in the sweep's folder."""
    outcome, report = f'"{RESULTS}/{PREFIX}{request}"', f'"{RESULTS}/{request}"'
    return f'mkdir -p {RESULTS} && edgewise run "requests/{request}" --outcome {outcome} -o {report} --force'


def _github(campaign: Campaign, names: Sequence[str]) -> str:
    """A workflow; a matrix holds 256 jobs at most, so that there may be several."""
    jobs: dict[str, Any] = {}
    request = "${{ matrix.request }}"
    kept = {"name": request, "path": f"{campaign.place}/{RESULTS}/*{request}"}
    steps = [
        {"uses": "actions/checkout@v4"},
        {"uses": "actions/setup-python@v5", "with": {"python-version": "3.11"}},
        {"run": "pip install 'edgewise[engines]'"},
        {"run": _line(request), "working-directory": campaign.place},
        {"uses": "actions/upload-artifact@v4", "if": "always()", "with": kept},
    ]
    for page in range(0, len(names), PER_PAGE):
        matrix = {"request": list(names[page : page + PER_PAGE])}
        jobs[f"cells-{page // PER_PAGE + 1}"] = {
            "runs-on": "ubuntu-latest", "strategy": {"fail-fast": False, "matrix": matrix},
            "steps": json.loads(json.dumps(steps)),  # without anchors
        }  # fmt: skip
    document = {"name": f"sweep {campaign.title}", "on": {"workflow_dispatch": {}}, "jobs": jobs}
    return str(yaml.safe_dump(document, sort_keys=False))


def _on_github(campaign: Campaign, target: Path) -> list[str]:
    """What to do with the workflow; a file lists what is to be committed."""
    workflow = f"{WORKFLOWS}/sweep-{campaign.title}.yml"
    needed = sorted({workflow, f"{campaign.place}/requests", *campaign.used})
    write_file(target.with_name("files.txt"), "".join(f"{path}\n" for path in needed), overwrite=True)
    root, here = shlex.quote(str(campaign.root)), shlex.quote(f"{campaign.place}/{target.name}")
    listed, results = (shlex.quote(f"{campaign.place}/{name}") for name in ("files.txt", RESULTS))
    apart = f"{campaign.root} is in no git repository; the jobs need it as the root of one"
    return [
        str(target.with_name("files.txt")),
        *([] if campaign.in_repository else [apart]),
        f"next: cd {root}",
        f"mkdir -p {WORKFLOWS}",
        f"cp {here} {shlex.quote(workflow)}",
        f"git add -f --pathspec-from-file={listed}",
        "then commit, push, and start the workflow on GitHub",
        f"afterwards: gh run download RUN --dir {results}, and the same sweep without {as_flag('emit')}",
    ]


def _slurm(campaign: Campaign, names: Sequence[str]) -> str:
    """An array job: one task per request, each with a node of its own."""
    return (
        f"#!/bin/bash\n#SBATCH --job-name={shlex.quote(campaign.title)}\n#SBATCH --array=0-{len(names) - 1}\n"
        "#SBATCH --exclusive\n"
        'folder=$(dirname "$0")\n'
        '[ -d "$folder/requests" ] || folder=$SLURM_SUBMIT_DIR  # sbatch runs a copy of this file\n'
        'cd "$folder" || exit 1\n'
        f"requests=({' '.join(names)})\nrequest=${{requests[$SLURM_ARRAY_TASK_ID]}}\n{_line('$request')}\n"
    )


def _on_slurm(campaign: Campaign, target: Path) -> list[str]:
    """What to do with the script."""
    return [
        f"next: cd {shlex.quote(str(target.parent))} && sbatch {target.name}",
        f"afterwards: the same sweep without {as_flag('emit')}",
    ]


def _kubernetes(campaign: Campaign, names: Sequence[str]) -> str:
    """A Job per request; the image is the user's to fill in, and the volume, where it is no folder of the nodes."""
    documents = []
    for name in names:
        container = {
            "name": "edgewise", "image": "IMAGE", "command": ["sh", "-c", _line(name)],
            "workingDir": f"/suite/{campaign.place}",
            "volumeMounts": [{"name": "suite", "mountPath": "/suite"}],
        }  # fmt: skip
        volume = {"name": "suite", "hostPath": {"path": str(campaign.root)}}
        spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
        label = "".join(
            letter if letter.isalnum() else "-" for letter in f"{campaign.title[:40]}-{Path(name).stem}".lower()
        )
        documents.append(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": label.strip("-")[:63]},
             "spec": {"backoffLimit": 0, "template": {"spec": spec}}}
        )  # fmt: skip
    return str(yaml.safe_dump_all(documents, sort_keys=False))


def _on_kubernetes(campaign: Campaign, target: Path) -> list[str]:
    """What to do with the Jobs."""
    return [
        f"next: fill in IMAGE in {target}, then kubectl apply -f {shlex.quote(str(target))}",
        f"{campaign.root} must be at this path on each node, on storage that they share; or change the volume",
        f"afterwards: the same sweep without {as_flag('emit')}, where {target.parent / RESULTS} has the results",
    ]
