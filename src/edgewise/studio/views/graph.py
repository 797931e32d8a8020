"""A profile on the graph of its network, or two, or a model without one; as a table where there is no script."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from edgewise.errors import BadInput
from edgewise.record.facts import is_profiled
from edgewise.report.runs.conditions import labels_of
from edgewise.studio.pages import page
from edgewise.studio.studio import Studio, studio_of
from edgewise.studio.views.home import WAIT_S


def graph(request: Request) -> Response:
    """Return the page of one run's graph, or with ``?with=ID`` of two."""
    studio, (names, errors), row = studio_of(request), _asked(request), request.query_params.get("from", "")
    first = int(row) if row.isascii() and row.isdigit() and len(row) < 9 else 0
    drawn = json.loads(studio.renderer.part("graph", names, first=first, errors=errors))
    runs = drawn["runs"]
    if runs[0] != request.path_params["run"]:  # a tag, or a profile in place of a run without one
        return RedirectResponse(f"/runs/{runs[0]}/graph?{request.url.query}", 303)
    rows = studio.store.list(model=drawn["model"], limit=20)
    found = {row.id: studio.store.get(row.id) for row in rows}
    shown = found.get(runs[0]) or studio.store.get(runs[0])
    others = [row for row in rows if row.id != shown.id and is_profiled(found[row.id])]
    beside = [found[row.id] for row in others if row.group and row.group == shown.group]
    return page(
        request,
        "graph.html.jinja",
        title=f"Graph of {drawn['name']}",
        styles=("graph.css",),
        scripts=("graph.js",),
        runs=runs,
        others=others,
        beside=list(zip(beside, labels_of([shown, *beside])[1:], strict=True)),
        part=drawn["part"],
    )


def graph_data(request: Request) -> Response:
    """Return what the page's script draws, as JSON."""
    names, errors = _asked(request)
    text = studio_of(request).renderer.file(names, ".json", kind="graph", errors=errors)
    return Response(text, media_type="application/json")


def of_model(request: Request) -> Response:
    """Return the graph of a model, or of its newest profile where there is one."""
    studio = studio_of(request)
    entry = studio.models.get(request.query_params.get("model", ""))
    reading = studio.readings.read(entry, "graph", wait_s=WAIT_S)
    if reading and (profile := _newest_profile(studio, reading.sha256)):
        return RedirectResponse(f"/runs/{profile}/graph", 303)
    answer = page(
        request,
        "graph.html.jinja",
        title=f"Graph of {entry.name}",
        styles=("graph.css",),
        scripts=("graph.js",) if reading else (),
        key=entry.key,
        part=reading and reading.page,
    )
    if reading is None:
        answer.headers["refresh"] = "2"
    return answer


def _asked(request: Request) -> tuple[list[str], tuple[str | int, ...]]:
    """Return the names of the runs to draw; the result of the job with errors of layers, and when it was written."""
    studio, asked = studio_of(request), request.query_params
    names = [name for name in (request.path_params["run"], asked.get("with", "").strip()) if name]
    if "job" not in asked:
        return names, ()
    result = studio.jobs.files_of(studio.store.jobs.get(asked["job"]).id).get("result.json")
    if result is None:
        raise BadInput("this job has no result", advice="see its page")
    return [_profiled(studio, names[0]), *names[1:]], (str(result), result.stat().st_mtime_ns)


def _profiled(studio: Studio, name: str) -> str:
    """Return the id of this run if it has a profile, else of the newest profile of its model, else of this run."""
    run = studio.store.get(name)
    return (run.profile is None and _newest_profile(studio, run.job.model.sha256)) or run.id


def _newest_profile(studio: Studio, sha256: str) -> str:
    """Return the newest profiled run among the last of a model; empty where there is none."""
    rows = studio.store.list(model=sha256, status="done", limit=20) if sha256 else []
    return next((row.id for row in rows if is_profiled(studio.store.get(row.id))), "")
