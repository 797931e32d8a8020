"""One run: each number with how it is known, what it rests on, and what the run can be turned into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from edgewise.errors import BadInput
from edgewise.formatting import interval_text, value_text, width_text
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.record.facts import is_profiled
from edgewise.report.runs.cells import engine_notes, failure_of, label_of, mean_notes
from edgewise.report.runs.conditions import flatten, input_text, processing_unit_of
from edgewise.report.runs.provenance import cautions_of, conditions_of, measurement_facts
from edgewise.studio.pages import attachment, page
from edgewise.studio.studio import Studio, studio_of
from edgewise.studio.views.runs import GRADE_TONES, ticked

FILES = {
    ".json": ("JSON", "application/json"),
    ".csv": ("CSV", "text/csv; charset=utf-8"),
    ".md": ("Markdown", "text/markdown; charset=utf-8"),
    ".html": ("HTML, one file", "text/html; charset=utf-8"),
    ".trace.json": ("Trace", "application/json"),
    ".nodes.json": ("Model Explorer nodes", "application/json"),
    ".mltk.json": ("MLTK JSON", "application/json"),
}
"""Extension → name and type of a download; the last three need a profile."""
OF_PROFILE = (".trace.json", ".nodes.json", ".mltk.json")


def run(request: Request) -> Response:
    """Return a stored run: its numbers at once, its report when asked for, or when the page's script fetches it."""
    studio, reference = studio_of(request), request.path_params["run"]
    found = studio.store.get(reference)
    if found.id != reference:  # a tag, or the beginning of an id: the permalink is the whole one
        return RedirectResponse(f"/runs/{found.id}", 303)
    job = found.job
    drawn = "report" in request.query_params
    return page(
        request,
        "run.html.jinja",
        title=job.label,
        styles=("history.css",),
        scripts=("run.js",),
        run=found,
        failure=failure_of(found),
        rows=[_row(found, row, f"m{index}") for index, row in enumerate(found.measurements)],
        facts=[(name, words) for name, words in _facts(found) if words],
        conditions={
            "Settings in effect": list(flatten(found.effective)),
            "Environment": list(flatten(found.environment)),
        },
        files=[(ending, name) for ending, (name, _) in FILES.items() if ending not in OF_PROFILE or is_profiled(found)],
        links=list(_links(studio, found)),
        part=_part(request, found) if drawn else "",
        tones=GRADE_TONES,
        read_only=studio.store.read_only,
    )


def part(request: Request) -> Response:
    """Return the report of a run, for the page's script."""
    return HTMLResponse(_part(request, studio_of(request).store.get(request.path_params["run"])))


def download(request: Request) -> Response:
    """Return a file with the runs that the query names, written by the process that draws."""
    ids, ending = ticked(request.query_params), request.query_params.get("format", ".json")
    if ending not in FILES:
        raise BadInput(f"there is no download {ending!r}", advice=f"one of: {', '.join(FILES)}")
    studio = studio_of(request)
    ids = studio.store.find(ids)
    content = studio.renderer.file(ids, ending)
    name = f"edgewise-{ids[0][:18]}" + (f"-and-{len(ids) - 1}-more" if len(ids) > 1 else "") + ending
    return attachment(content, name, FILES[ending][1])


def tag(request: Request, form: FormData) -> Response:
    """Give the run a tag, or take one away."""
    store = studio_of(request).store
    one = store.find([request.path_params["run"]])[0]
    if remove := str(form.get("remove", "")):
        if remove not in store.get(one).tags:  # it may have moved since the page was loaded
            raise BadInput(f"this run has no tag {remove!r}", advice=f"load /runs/{one} again")
        store.untag(remove)
    else:
        store.tag(str(form.get("name", "")).strip(), one, move=form.get("move") == "yes")
    return RedirectResponse(f"/runs/{one}", 303)


def _part(request: Request, found: Run) -> str:
    kind = "profile" if is_profiled(found) else "evaluation" if found.evaluation is not None else "runs"
    return studio_of(request).renderer.part(kind, [found.id])


def _relative(row: Measurement) -> str:
    """Return the half-width of the interval over the value; empty where there is none."""
    if row.half_width is None or row.value is None or row.low is None or row.high is None:
        return ""
    return width_text(row.value, row.low, row.high, row.unit) if row.half_width < 1 else "wider than the value"


def _row(found: Run, row: Measurement, identity: str) -> dict[str, Any]:
    """Return what the page needs of a measurement."""
    metric = METRICS.get(row.metric)
    better = f" {metric.better.capitalize()} is better." if metric and metric.better != "none" else ""
    meaning = ("Meaning", metric.definition + better if metric else "")
    return {
        "id": identity,
        "label": label_of(row.metric),
        "value": None if row.value is None else value_text(row.metric, row.unit, row.value),
        "interval": interval_text(row.metric, row.unit, row.value, row.low, row.high),
        "basis": row.basis or "absent",
        "spread": _relative(row),
        "notes": (*engine_notes(found, row), *mean_notes(found, row.metric)),
        "headline": row.metric == found.headline,
        "reason": row.absent_because or "no reason was recorded",
        "facts": [meaning, *measurement_facts(found, row, summary=True)],
        "cautions": cautions_of(found, row),
    }


def _facts(found: Run) -> Iterator[tuple[str, str | None]]:
    """Yield what was measured, where and when."""
    job = found.job
    yield "Made", f"{found.created_at[:16].replace('T', ' ')} UTC"
    yield "Model", job.model.name
    yield "File", f"{job.model.format}, sha256 {job.model.sha256[:16]}"
    yield from conditions_of(found)
    yield "Computed by", processing_unit_of(found)
    yield "Inputs", input_text(found)
    yield "Settings", job.runtime.options_in_words
    if found.source is not None:
        yield "Imported from", f"{found.source.tool}, {found.source.file}"


def _links(studio: Studio, found: Run) -> Iterator[tuple[str, str]]:
    """Where to go from here: pairs of address and text."""
    job, profiled = found.job, is_profiled(found)
    runtime, device, batch = job.runtime, job.target.device, job.workload.batch
    if profiled:
        yield f"/runs/{found.id}/graph", "Graph and timeline"
    yield f"/trend?{urlencode({'model': job.model.name, 'metric': found.headline, 'run': found.id})}", "Trend"
    yield f"/runs?{urlencode({'model': job.model.name})}", "Runs of this model"
    plain = not job.command and found.source is None and job.model.origin is None
    for entry in studio.models.entries() if plain else ():
        if entry.sha256 != job.model.sha256 and str(entry.path) != job.model.path:
            continue
        again = {"model": entry.key, "runtime": runtime.name, "provider": runtime.provider, "threads": runtime.threads,
                 "precision": runtime.precision, "batch": batch, "device": device}  # fmt: skip
        words = urlencode({name: value for name, value in again.items() if value is not None})
        yield f"/new/{'profile' if profiled else 'bench'}?{words}", "Measure again"
        if not profiled:
            yield f"/graph?{urlencode({'model': entry.key})}", "Graph of the model"
        break
