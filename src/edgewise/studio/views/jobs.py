"""The list of jobs, and the page of one: live while it runs, then its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response

from edgewise.errors import BadInput, EdgewiseError
from edgewise.store.jobs import ENDED, JobRow
from edgewise.studio.jobs.live import document_of
from edgewise.studio.pages import page
from edgewise.studio.studio import studio_of
from edgewise.text import plural
from edgewise.units import format_bytes, long_time

PAGE = 50
TONES = {
    "queued": "faint", "waiting": "poor", "running": "fair", "done": "good", "failed": "bad", "cancelled": "poor",
    "lost": "bad",
}  # fmt: skip
WORDS = {"queued": "It starts when the jobs before it have ended.", "lost": "No part of it is still running."}
NAMES = {
    ".html": "HTML, one file", ".json": "JSON", ".md": "Markdown", ".csv": "CSV", ".xml": "JUnit", ".txt": "Text",
    ".mltk.json": "MLTK JSON", ".trace.json": "Trace", ".nodes.json": "Model Explorer nodes",
}  # fmt: skip
"""Extension of a file of a result → its name."""


def jobs(request: Request) -> Response:
    """Jobs that run or wait, and those that have ended, newest first."""
    studio, before = studio_of(request), request.query_params.get("before")
    ended = studio.store.jobs.list(status=ENDED, before=before, limit=PAGE + 1)
    now = () if before else studio.store.jobs.list(status=("running", "queued"), limit=10 * PAGE)
    return page(
        request,
        "jobs.html.jinja",
        title="Jobs",
        styles=("jobs.css",),
        scripts=("jobs.js",),
        problem=studio.jobs.problem,
        now=[(row, studio.jobs.state_of(row) if row.status == "running" else None) for row in reversed(now)],
        ended=ended[:PAGE],
        older=ended[PAGE - 1].id if len(ended) > PAGE else None,
        before=before,
        tones=TONES,
        moment=moment,
        took=took,
    )


def job(request: Request) -> Response:
    """One job."""
    studio = studio_of(request)
    row = studio.store.jobs.get(request.path_params["job"])
    state = studio.jobs.state_of(row)
    files = studio.jobs.files_of(row.id) if row.status in ENDED else {}
    part = files["part.html"].read_text(encoding="utf-8") if "part.html" in files else ""
    drawn = 'id="graph-data"' in part
    return page(
        request,
        "job.html.jinja",
        title=row.title,
        styles=("jobs.css", *["graph.css"] * drawn),
        scripts=(*(("report.js",) if part else () if row.status in ENDED else ("job.js",)), *["graph.js"] * drawn),
        job=row,
        live=document_of(state),
        size=format_bytes(studio.jobs.size_of(row.id)) if row.status in ENDED else "",
        part=part,
        files=[(name, NAMES[name.removeprefix("result")]) for name in files if name.startswith("result.")],
        models=[(name, name.removeprefix("files/")) for name in files if name.startswith("files/")],
        links=_links(row, files),
        command=_command_of(row),
        tones=TONES,
        words=WORDS.get(row.status, ""),
        moment=moment,
        took=took,
    )


def state(request: Request) -> Response:
    """Return the state of a job as JSON, for browsers that have no stream of events."""
    studio = studio_of(request)
    row = studio.store.jobs.get(request.path_params["job"])
    return JSONResponse(document_of(studio.jobs.state_of(row)), headers={"cache-control": "no-store"})


def file(request: Request) -> Response:
    """Return a file that a job left; to be saved, never shown."""
    studio = studio_of(request)
    row = studio.store.jobs.get(request.path_params["job"])
    name = request.path_params["file"]
    place = studio.jobs.files_of(row.id).get(name)
    if place is None or name == "part.html":
        raise BadInput("this job has no such file", advice="see its page")
    own = f"edgewise-{row.verb}-{row.id[-12:]}{'' if name.startswith('result.') else '-'}{name.removeprefix('result')}"
    return FileResponse(
        place,
        filename=place.name if name.startswith("files/") else own,
        media_type="application/octet-stream",
        headers={"cache-control": "no-store"},
    )


def cancel(request: Request, form: FormData) -> Response:
    """Cancel a job."""
    studio_of(request).jobs.cancel(request.path_params["job"])
    return RedirectResponse(f"/jobs/{request.path_params['job']}", 303)


def again(request: Request, form: FormData) -> Response:
    """Start a job again."""
    return RedirectResponse(f"/jobs/{studio_of(request).jobs.again(request.path_params['job'])}", 303)


def remove(request: Request, form: FormData) -> Response:
    """Remove the ticked jobs with their files, once that is confirmed; before, show which they are."""
    from edgewise.studio.views.runs import question, ticked

    studio = studio_of(request)
    rows = [studio.store.jobs.get(one) for one in ticked(form, "job")]
    for row in rows:
        if row.status not in ENDED:
            raise BadInput(f"{row.title} is {row.status}", advice="cancel it and wait for its end")
    if form.get("sure") == "yes":
        for row in rows:
            studio.jobs.remove(row.id)
        return RedirectResponse("/jobs", 303)
    asked = [(row.id, f"{row.title}, {row.status}, {format_bytes(studio.jobs.size_of(row.id))}") for row in rows]
    return question(request, "job", asked, title=f"Remove {plural(len(rows), 'job')}?", back="")


def moment(seconds: float) -> str:
    """Return a time, s since 1970, in UTC as on the other pages."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def took(row: JobRow) -> str:
    """How long a job that has ended took; empty where it never began."""
    return "" if row.started is None or row.finished is None else long_time(max(0.0, row.finished - row.started))


def _links(row: JobRow, files: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Where a job with these files leads to: address and words."""
    from edgewise.studio.forms import maker_of

    form = maker_of(row.verb)
    graph = form.own.graph if form and row.runs else ""
    query = "&".join(f"run={run}" for run in row.runs)
    found = [(f"/compare?{query}", "Compare these runs")] if len(row.runs) > 1 else []
    if graph == "times":
        found += [(f"/runs/{run}/graph", "Graph coloured by time") for run in row.runs[:1]]
        found += [(f"/runs/{row.runs[0]}/graph?with={row.runs[1]}", "Both on one graph")] if len(row.runs) == 2 else []
    result = files.get("result.json")
    if graph == "errors" and result is not None and b'"snr_db"' in result.read_bytes():
        found.append((f"/runs/{row.runs[0]}/graph?job={row.id}", "Graph with the error of each layer"))
    return [*found, *([(f"/new/{form.verb.name}?job={row.id}", "Change and run")] if form else [])]


def _command_of(row: JobRow) -> str:
    """Return the command line that does the same; empty where this edgewise does not read the request."""
    from edgewise.verbs.reading import read_request
    from edgewise.verbs.verb import command_of

    try:
        document: Any = json.loads(row.request)
        return command_of(read_request(document))
    except (EdgewiseError, ValueError):
        return ""
