"""Writes unfinished cells for other schedulers: a request per cell, and what runs them side by side.

Paths below the suite's repository, or below its folder where that is in none, are relative in the requests: the
repository works wherever it is copied to.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distribution
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import yaml
from packaging.version import Version

from edgewise.errors import BadInput, as_flag
from edgewise.folders import absolute_path
from edgewise.store.exchange import write_file
from edgewise.text import enumerate_few, one_line
from edgewise.verbs.outcome import PREFIX
from edgewise.verbs.sweep.ledger import RESULTS
from edgewise.version import __version__

if TYPE_CHECKING:
    from edgewise.verbs.sweep.work import Plan

PER_PAGE = 256
"""Most jobs of one matrix of GitHub."""
MOST_TASKS = 1000
"""Most tasks of an array job: Slurm's MaxArraySize is 1001 unless a cluster sets it, and indices are below it."""
FILES = "files.txt"
_NAMED = "SETUPTOOLS_SCM_PRETEND_VERSION"
"""The variable that gives a wheel its version: metadata of an editable install may be older than the clone."""
WHEELS = "ci"
"""The folder, in a repository, of the wheel of an edgewise that was installed from files."""
MARK = "# Written by 'edgewise sweep --emit"
"""The beginning of a line near the top of a scheduler's file; files without it are left alone."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """Where the files are that jobs need. Folders are absolute.

    Attributes:
        root: the suite's repository, or its folder.
        folder: of the sweep.
        names: file of a request → name of its cell.
        used: files and folders of `root`, from there, that the jobs read.
        elsewhere: those outside.
    """

    title: str
    root: Path
    in_repository: bool
    folder: Path
    names: Mapping[str, str] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    elsewhere: dict[str, None] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """The sweep's folder from `root`; None where it is outside."""
        return self.folder.relative_to(self.root).as_posix() if self.folder.is_relative_to(self.root) else None

    @property
    def workflow(self) -> str:
        """The file of the workflow in a repository of GitHub, from `root`."""
        return f".github/workflows/sweep-{self.title}.yml"

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
    number = len(plan.waiting)
    if campaign.place is None and scheduler != "slurm":
        message = f"the folder of the results, {plan.folder}, is outside {campaign.root}, which the jobs get"
        raise BadInput(message, advice="give a ⟦folder⟧ in it")
    name, content, advice = SCHEDULERS[scheduler]
    target, folder = plan.folder / name, plan.folder / "requests"
    if plan.waiting and target.exists() and not _is_ours(target):
        raise BadInput(f"{target} exists, and edgewise did not write it", advice="move it, or give another ⟦folder⟧")
    files = [target, plan.folder / FILES] if scheduler == "github" else [target]
    removed = [path for path in files if path.exists()] if _is_ours(target) else []
    others = [path for other, *_ in SCHEDULERS.values() if other != name and _is_ours(path := plan.folder / other)]
    _remove_earlier(folder, removed, others)
    kept = [f"unchanged: {path}, of an earlier {as_flag('emit')}" for path in others]
    if not plan.waiting:
        workflow = campaign.root / campaign.workflow
        return [
            f"{folder}: nothing is left to carry out; {as_flag('again')} writes all cells",
            *(f"removed: {path}" for path in removed),
            *([f"no longer needed: {workflow}"] if scheduler == "github" and _is_ours(workflow) else []),
            *kept,
        ]
    folder.mkdir(parents=True, exist_ok=True)
    for at in plan.waiting:
        request = plan.request(at).with_paths_from(Path.cwd()).with_changed_paths(campaign.path_in_request)
        write_file(folder / f"{plan.file_name(at)}.json", json.dumps(request.to_document()), overwrite=True)
    write_file(target, content(campaign), overwrite=True)
    where = "each container" if scheduler == "kubernetes" else "each machine"
    apart = [f"{enumerate_few(list(campaign.elsewhere))} must be at this path on {where}"] if campaign.elsewhere else []
    return [
        f"{folder}: {number} request{'s' if number > 1 else ''} for 'edgewise run'",
        str(target),
        *advice(campaign, target),
        f"afterwards: the same sweep without {as_flag('emit')} counts the results, and measures here those of the "
        f"{number} cells that have none; with {as_flag('dry_run')} it only tells which",
        *apart,
        *kept,
    ]


def _remove_earlier(requests: Path, files: Sequence[Path], others: Sequence[Path]) -> None:
    """Remove `files`, and the requests in a folder that none of `others`, files of other schedulers, names."""
    needed = "".join(path.read_text(errors="replace") for path in others)
    for path in (*files, *(request for request in requests.glob("*.json") if request.name not in needed)):
        path.unlink()


def _is_ours(path: Path) -> bool:
    """Whether edgewise wrote a scheduler's file."""
    try:
        with path.open(errors="replace") as file:
            return any(line.startswith(MARK) for line in islice(file, 2))
    except OSError:
        return False


def _campaign_of(plan: Plan) -> Campaign:
    suite = absolute_path(plan.requests.file.path).parent
    repository = next((folder for folder in (suite, *suite.parents) if (folder / ".git").exists()), None)
    return Campaign(
        title=plan.requests.file.path.stem,
        root=repository or suite,
        in_repository=repository is not None,
        folder=absolute_path(plan.folder),
        names={f"{plan.file_name(at)}.json": one_line(plan.cells[at].name) for at in plan.waiting},
    )


def _line(request: str) -> str:
    """Return the shell command of a request in the sweep's folder; the shell expands the name `request`."""
    outcome, report = f'"{RESULTS}/{PREFIX}{request}"', f'"{RESULTS}/{request}"'
    return f'mkdir -p {RESULTS} && edgewise run "requests/{request}" --outcome {outcome} -o {report} --force'


def _github(campaign: Campaign) -> str:
    """Return a workflow; a matrix holds 256 jobs at most, so that there may be several."""
    cells = [{"cell": f"{cell} ({Path(name).stem})", "request": name} for name, cell in campaign.names.items()]
    jobs: dict[str, Any] = {}
    request = "${{ matrix.request }}"
    kept = {"name": request, "path": f"{campaign.place}/{RESULTS}/*{request}"}
    steps = [
        {"uses": "actions/checkout@v4"},
        {"uses": "actions/setup-python@v5", "with": {"python-version": "3.11"}},
        {"run": 'pip install "$EDGEWISE"'},
        {"run": _line(request), "working-directory": campaign.place},
        {"uses": "actions/upload-artifact@v4", "if": "always()", "with": kept},
    ]
    for page in range(0, len(cells), PER_PAGE):
        matrix = {"include": cells[page : page + PER_PAGE]}
        jobs[f"cells-{page // PER_PAGE + 1}"] = {
            "name": "${{ matrix.cell }}", "runs-on": "ubuntu-latest",
            "strategy": {"fail-fast": False, "matrix": matrix},
            "steps": json.loads(json.dumps(steps)),  # without anchors
        }  # fmt: skip
    document = {"name": f"sweep {campaign.title}", "on": {"workflow_dispatch": {}},
                "env": {"EDGEWISE": _installed_from(campaign.root)[0]}, "jobs": jobs}  # fmt: skip
    return f"{MARK} github'.\n{_EDGEWISE}{yaml.safe_dump(document, sort_keys=False)}"


_EDGEWISE = """\
# EDGEWISE is the argument of 'pip install' in each job, with the extra of the engines:
#   edgewise[engines]                                from a package index
#   .[engines] or ./FOLDER[engines]                  from a clone in this repository
#   ./ci/edgewise-VERSION-py3-none-any.whl[engines]  from a wheel: pip wheel --no-deps --wheel-dir ci CLONE
#   edgewise[engines] @ git+https://HOST/PATH.git    from another repository
"""


def _installed_from(root: Path) -> tuple[str, Path | None]:
    """Return what pip installs in a job: the edgewise of this machine, from where it was installed here (PEP 610).

    Files of this machine are not in the job: it gets a release by its number, and another version as a wheel.
    Also returns the folder or file of this machine of which `root` needs that wheel; None where it needs none.
    """
    origin = json.loads(distribution("edgewise").read_text("direct_url.json") or "{}")
    url, number = origin.get("url", ""), Version(__version__)
    source = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
    if source == root:
        return ".[engines]", None
    if not url or (source and not number.is_devrelease and not number.local):
        return f"edgewise[engines]=={__version__}", None
    if source:
        return f"./{WHEELS}/edgewise-{__version__}-py3-none-any.whl[engines]", source
    if vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"edgewise[engines] @ {url}", None


def _on_github(campaign: Campaign, target: Path) -> list[str]:
    """Return what to do with the workflow; a file lists what is to be committed."""
    requirement, source = _installed_from(campaign.root)
    wheel = {requirement.removeprefix("./").removesuffix("[engines]")} if source else set()
    needed = sorted({campaign.workflow, f"{campaign.place}/requests", *campaign.used, *wheel})
    write_file(target.with_name(FILES), "".join(f"{path}\n" for path in needed), overwrite=True)
    root, here = shlex.quote(str(campaign.root)), shlex.quote(f"{campaign.place}/{target.name}")
    listed, results = (shlex.quote(f"{campaign.place}/{name}") for name in (FILES, RESULTS))
    apart = f"{campaign.root} is in no git repository; the jobs need it as the root of one"
    gone = source is not None and not source.exists()
    clone = "CLONE" if gone else shlex.quote(str(source))
    return [
        str(target.with_name(FILES)),
        *([] if campaign.in_repository else [apart]),
        *([f"{source}, from which edgewise was installed, is gone: CLONE is a clone of its source"] if gone else []),
        f"next: cd {root}",
        f"mkdir -p {Path(campaign.workflow).parent}",
        f"cp {here} {shlex.quote(campaign.workflow)}",
        *([f"{_NAMED}={__version__} pip wheel --no-deps --wheel-dir {WHEELS} {clone}"] if source else []),
        f"git add -f --pathspec-from-file={listed}",
        "then commit, push, and start the workflow on GitHub",
        f"when it has ended: gh run download RUN --dir {results}",
    ]


def _slurm(campaign: Campaign) -> str:
    """Return an array job, each task with a node of its own: one per request, or where these are too many, some by
    turns.
    """
    number = len(campaign.names)
    tasks = min(number, MOST_TASKS)
    return (
        f"#!/bin/bash\n{MARK} slurm'.\n#SBATCH --job-name={shlex.quote(campaign.title)}\n"
        f"#SBATCH --array=0-{tasks - 1}\n"
        "#SBATCH --exclusive\n"
        f"requests=({' '.join(campaign.names)})\nindex=${{1:-$SLURM_ARRAY_TASK_ID}}\n"
        "if ! [[ $index =~ ^(0|[1-9][0-9]{0,8})$ && -n ${requests[$index]} ]]; then\n"
        f'  echo "usage: cd $(dirname "$0") && sbatch ${{0##*/}}" >&2\n'
        f'  echo "or, for one cell: bash $0 INDEX, from 0 to {number - 1}" >&2\n'
        "  exit 2\nfi\n"
        'folder=$(dirname "$0")\n'
        '[ -d "$folder/requests" ] || folder=$SLURM_SUBMIT_DIR  # sbatch runs a copy of this file\n'
        'cd "$folder" || exit 1\n'
        f'last=$index\n[ -n "$1" ] || last={number - 1}\nended=0\n'
        f"for ((at = index; at <= last; at += {tasks})); do\n"
        f"  request=${{requests[$at]}}\n  {{ {_line('$request')}; }} || ended=$?\ndone\nexit $ended\n"
    )


def _on_slurm(campaign: Campaign, target: Path) -> list[str]:
    """Return what to do with the script."""
    number = len(campaign.names)
    words = (
        f"an array of {MOST_TASKS} tasks, as many as Slurm allows unless MaxArraySize is set: each carries out up to"
    )
    return [
        *([f"{words} {-(-number // MOST_TASKS)} cells, one after the other"] if number > MOST_TASKS else []),
        f"next: cd {shlex.quote(str(target.parent))} && sbatch {target.name}",
    ]


def _kubernetes(campaign: Campaign) -> str:
    """Return a Job per request; the image is the user's to fill in, and the volume, where it is no folder of the
    nodes.
    """
    documents = []
    for name in campaign.names:
        container = {
            "name": "edgewise", "image": "IMAGE", "command": ["sh", "-c", _line(name)],
            "workingDir": f"/suite/{campaign.place}",
            "volumeMounts": [{"name": "suite", "mountPath": "/suite"}],
        }  # fmt: skip
        volume = {"name": "suite", "hostPath": {"path": str(campaign.root)}}
        spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
        label = "".join(
            letter if letter.isascii() and letter.isalnum() else "-"
            for letter in f"{campaign.title[:40]}-{Path(name).stem}".lower()
        )
        documents.append(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": label.strip("-")[:63]},
             "spec": {"backoffLimit": 0, "template": {"spec": spec}}}
        )  # fmt: skip
    return f"{MARK} kubernetes'.\n{yaml.safe_dump_all(documents, sort_keys=False)}"


def _on_kubernetes(campaign: Campaign, target: Path) -> list[str]:
    """Return what to do with the Jobs."""
    return [
        f"next: fill in IMAGE in {target}, then kubectl apply -f {shlex.quote(str(target))}",
        f"{campaign.root} must be at this path on each node, on storage that they share; or change the volume",
        f"when they have ended: {target.parent / RESULTS} must have the results here",
    ]


SCHEDULERS: dict[str, tuple[str, Callable[[Campaign], str], Callable[[Campaign, Path], list[str]]]] = {
    "github": ("github.yml", _github, _on_github),
    "slurm": ("slurm.sh", _slurm, _on_slurm),
    "kubernetes": ("kubernetes.yaml", _kubernetes, _on_kubernetes),
}
"""The name of each scheduler's file, its content, and what to do with it."""
