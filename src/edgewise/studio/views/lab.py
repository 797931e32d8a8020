"""The lab of a team's store: devices and what they do, the queue by suite, one suite, and the history of a device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from edgewise.errors import BadInput
from edgewise.formatting import with_range
from edgewise.report.document.names import shorten
from edgewise.store.lab import Lab
from edgewise.store.lab_jobs import LabJob
from edgewise.store.redaction import redact_paths
from edgewise.studio.pages import page
from edgewise.studio.studio import Studio, studio_of
from edgewise.studio.views.jobs import TONES, moment, took
from edgewise.units import long_time

MOST_CELLS = 1000
"""Of a suite, the newest."""
MOST_ENDED = 50
"""Jobs in the history of a device, the latest."""
MOST_WORDS = 120
"""Characters of the reason of a failure."""
STATES = ("queued", "running", "done", "failed", "cancelled")
_TONES = {"free": "good", "busy": "fair", "draining": "poor", "suspect": "bad", "gone": "bad"}


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    link: str = ""
    tone: str = ""


class Table(NamedTuple):
    """A table; `words` stand above it, and alone where it has no rows."""

    title: str
    words: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def lab(request: Request) -> Response:
    """Return the whole lab; with ``suite`` the cells of one, with ``host`` and ``device`` what that device did."""
    studio, query = studio_of(request), request.query_params
    there, part, title = studio.store.lab, "", "Lab"
    suite, host, device = (query.get(name, "") for name in ("suite", "host", "device"))
    if not there.exists:
        tables = [Table("Devices", "This store holds no lab: 'edgewise lab init' makes one in PostgreSQL.", (), ())]
    elif suite:
        jobs = there.jobs.of_suite(suite, most=MOST_CELLS)
        title, tables, part = f"Suite {suite}", [_suite(jobs)], _results(studio, suite, jobs)
    elif device:
        title, tables = f"{device} of {host}", [_history(there.jobs.ended_on(host, device, most=MOST_ENDED))]
    else:
        tables = list(_whole(there))
    scripts = ("report.js", "lab.js")
    styles = ("history.css",)
    return page(request, "lab.html.jinja", title=title, tables=tables, part=part, scripts=scripts, styles=styles)


def _whole(lab: Lab) -> Iterator[Table]:
    status = lab.status()
    rows = [list(_device(one, status["jobs"])) for one in status["devices"]]
    heads = ("Device", "Host", "State", "Job", "Since, UTC", "Queued for it", "Last seen", "Worker")
    yield Table("Devices", "" if rows else "'edgewise lab work' makes a host part of the lab.", heads, rows)
    suites = [
        [Cell(name, f"/lab?{urlencode({'suite': name})}"), *(Cell(str(numbers.get(state, 0))) for state in STATES)]
        for name, numbers in status["suites"].items()
    ]
    words = f"{status['ended_within_an_hour']} jobs ended within the last hour."
    yield Table("Queue", words, ("Suite", *map(str.capitalize, STATES)), suites)


def _device(one: Mapping[str, Any], jobs: Mapping[str, Mapping[str, int]]) -> Iterator[Cell]:
    """Yield what a device is and does, from the lab's status."""
    yield Cell(one["device"], f"/lab?{urlencode({'host': one['host'], 'device': one['device']})}")
    yield Cell(one["host"])
    state = one["state"] if one["state"] != "ready" else "busy" if one["job"] else "free"
    yield Cell(state, tone=_TONES[state])
    yield Cell(_without_folder(one["title"], one["model"]) if one["job"] else "")
    yield Cell(f"{moment(one['since'])} ({long_time(round(one['busy_s']))})" if one["job"] else "")
    yield Cell(str(sum(jobs.get(answer, {}).get("queued", 0) for answer in one["answers"])))
    yield Cell("left" if one["seen_s"] is None else f"{long_time(round(one['seen_s']))} ago")
    yield Cell(one["worker"])


def _suite(jobs: Sequence[LabJob]) -> Table:
    """Return the cells of a suite by model and place."""
    cells: dict[str, dict[str, LabJob]] = {}
    for job in jobs:
        cells.setdefault(job.model, {})[job.title.removeprefix(f"{job.model} on ")] = job
    places = sorted({place for of_model in cells.values() for place in of_model})
    rows = [
        [Cell(_without_folder(model, model)), *(_state(of_model.get(place)) for place in places)]
        for model, of_model in sorted(cells.items())
    ]
    newest = "newest " if len(jobs) == MOST_CELLS else ""
    words = f"The {newest}{len(jobs):,} cells of this suite." if jobs else "It has queued no cell."
    return Table("Cells", words, ("Model", *places), rows)


def _history(jobs: Sequence[LabJob]) -> Table:
    """Return the jobs that a device carried out, the latest first."""
    rows = [
        [Cell(_without_folder(job.title, job.model)), _state(job), Cell(", ".join(dict.fromkeys(_results_of(job)))),
         Cell(moment(job.finished) if job.finished else ""), Cell(took(job))]
        for job in jobs
    ]  # fmt: skip
    words = f"The latest {len(jobs)} of its jobs, also several of a cell." if jobs else "No job has ended on it."
    return Table("Jobs", words, ("Cell", "State", "Result", "Ended, UTC", "Took"), rows)


def _state(job: LabJob | None) -> Cell:
    if job is None:
        return Cell("no cell", tone="soft")
    why = f": {_without_folder(shorten(job.message, MOST_WORDS), job.model)}" if job.status == "failed" else ""
    return Cell(f"{job.status}{why}", f"/runs/{job.runs[0]}" if job.runs else "", TONES[job.status])


def _results_of(job: LabJob) -> Iterator[str]:
    """Yield the headline of each row of a job, with its interval, basis and grade."""
    for row in job.end.get("rows", ()):
        if (number := row["metrics"].get(metric := row["headlines"][0])) is not None:
            words = with_range(metric, number["unit"], number["value"], number["low"], number["high"])
            yield ", ".join(filter(None, (words, number["basis"], row.get("grade") and f"grade {row['grade']}")))


def _results(studio: Studio, suite: str, jobs: Sequence[LabJob]) -> str:
    """Return the tables and charts of a suite's results, as the process draws them; "" without a stored run."""
    version = hashlib.sha256(repr([(job.id, job.status, job.fence) for job in jobs]).encode()).hexdigest()
    for run in (run for job in jobs for run in job.runs):
        with suppress(BadInput):  # the run was removed
            return studio.renderer.part("suite", [run], suite=suite, version=version)
    return ""


def _without_folder(title: str, model: str) -> str:
    """Return the title of a job without the folder of its model."""
    return redact_paths(title, [model])
