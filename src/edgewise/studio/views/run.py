"""One run: each number with how it is known, what it rests on, and what the run can be turned into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from edgewise.errors import BadInput
from edgewise.formatting import range_text, value_text
from edgewise.metrics import METRICS
from edgewise.record.facts import precision_of, threads_of
from edgewise.report.cells import failure_of, label_of
from edgewise.report.conditions import (
    engine_of,
    flatten,
    input_text,
    machine_of,
    processing_unit_of,
    provider_of,
    scenario_of,
)
from edgewise.studio.pages import page
from edgewise.studio.studio import studio_of
from edgewise.studio.views.runs import GRADE_TONES, ticked

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from edgewise.record import Measurement, Run
    from edgewise.studio.studio import Studio

BASES = {
    "measured": "read from a clock or a sensor",
    "derived": "computed from measured numbers or from the file",
    "simulated": "from a simulator of the hardware",
    "estimated": "from a model of the hardware",
}
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
    """A stored run: its numbers at once, its report when it is asked for or once the page's script has fetched it."""
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
        styles=("history.css", "result.css", "profile.css"),
        scripts=("run.js",),
        run=found,
        failure=failure_of(found),
        rows=[_row(found, row, f"m{index}") for index, row in enumerate(found.measurements)],
        bases=BASES,
        facts=[(name, words) for name, words in _facts(found) if words],
        conditions={
            "Settings in effect": list(flatten(found.effective)),
            "Environment": list(flatten(found.environment)),
        },
        files=[
            (ending, name) for ending, (name, _) in FILES.items() if ending not in OF_PROFILE or _is_profiled(found)
        ],
        links=list(_links(studio, found)),
        part=_part(request, found) if drawn else "",
        tones=GRADE_TONES,
        read_only=studio.store.read_only,
    )


def part(request: Request) -> Response:
    """The report of a run, for the page's script."""
    return HTMLResponse(_part(request, studio_of(request).store.get(request.path_params["run"])))


def download(request: Request) -> Response:
    """A file with the runs that the query names, written by the process that draws."""
    ids, ending = ticked(request.query_params), request.query_params.get("format", ".json")
    if ending not in FILES:
        raise BadInput(f"there is no download {ending!r}", advice=f"one of: {', '.join(FILES)}")
    studio = studio_of(request)
    ids = studio.store.find(ids)
    content = studio.renderer.file(ids, ending)
    name = f"edgewise-{ids[0][:18]}" + (f"-and-{len(ids) - 1}-more" if len(ids) > 1 else "") + ending
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(content, media_type=FILES[ending][1], headers=headers)


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
    kind = "profile" if _is_profiled(found) else "evaluation" if found.evaluation is not None else "runs"
    return studio_of(request).renderer.part(kind, [found.id])


def _is_profiled(found: Run) -> bool:
    return found.profile is not None and bool(found.layers)


def _row(found: Run, row: Measurement, identity: str) -> dict[str, Any]:
    """What the page needs of a measurement."""
    spread = row.half_width
    return {
        "id": identity,
        "metric": METRICS.get(row.metric),
        "label": label_of(row.metric),
        "value": None if row.value is None else value_text(row.metric, row.unit, row.value),
        "interval": range_text(row.metric, row.unit, row.low, row.high),
        "basis": row.basis or "absent",
        "spread": "" if spread is None else f"± {spread * 100:.2g} %" if spread < 1 else "wider than the value",
        "headline": row.metric == found.headline,
        "reason": row.absent_because or "no reason was recorded",
        "facts": [(name, words) for name, words in _how(found, row) if words],
        # Sizes and counts are exact, whatever the machine did while the run went on.
        "cautions": found.cautions if row.samples or row.low is not None else (),
    }


def _how(found: Run, row: Measurement) -> Iterator[tuple[str, str]]:
    """How a value is known: pairs of label and text, empty where there is nothing to say."""
    unit = "" if row.unit == "1" else f" {row.unit}"

    def ends(low: float | None, high: float | None) -> str:
        return "" if low is None or high is None else f"{_exact(low)} to {_exact(high)}{unit}"

    if row.value is None:
        yield "Why it is absent", row.absent_because or "no reason was recorded"
        return
    yield "Value", f"{_exact(row.value)}{unit}"
    yield "95 % interval", ends(row.low, row.high) or "none recorded"
    yield "Within this run", ends(row.within_low, row.within_high)
    yield "Basis", f"{row.basis}: {BASES[row.basis]}" if row.basis else ""
    yield "Method", row.method or "no method was recorded"
    if found.variation is not None and row.within_low is not None:
        yield "Run to run", f"{found.variation.sigma:.2%} ({found.variation.source}): {found.variation.method}"
    sessions = f" in {len(row.session_lengths)} sessions" if row.session_lengths else ""
    yield "Samples", f"{len(row.samples)}{sessions}" if row.samples else ""
    if (summary := row.summary) is not None:
        spread = {name: getattr(summary, name) for name in ("mean", "std", "min", "median", "max", "mad")}
        for name, value in {**spread, **summary.percentiles}.items():
            yield name, f"{_exact(value)}{unit}"
        yield "Outliers", f"{summary.outliers} of {summary.n}, all included"
        if summary.between_sessions is not None:
            yield "Between sessions", f"{summary.between_sessions:.2%} relative standard deviation of their medians"
        if summary.autocorrelation is not None:
            yield "Autocorrelation", f"{summary.autocorrelation:.3g}, lag 1"
    yield "Conditions", "; ".join(f"{name.lower()} {words}" for name, words in _conditions(found) if words)


def _exact(value: float) -> str:
    """All digits of a number but the last ones, which are the dust of binary fractions."""
    return f"{value:.15g}"


def _conditions(found: Run) -> Iterator[tuple[str, str | None]]:
    threads = threads_of(found)
    yield "Device", found.job.target.device
    yield "Machine", machine_of(found)
    yield "Engine", f"{engine_of(found)} ({provider_of(found).partition('/')[2] or 'default provider'})"
    yield "Threads", None if threads is None else str(threads)
    yield "Precision", precision_of(found)
    yield "Scenario", f"{scenario_of(found)}, batch {found.job.workload.batch}"


def _facts(found: Run) -> Iterator[tuple[str, str | None]]:
    """What was measured, where and when."""
    job = found.job
    yield "Made", f"{found.created_at[:16].replace('T', ' ')} UTC"
    yield "Model", job.model.name
    yield "File", f"{job.model.format}, sha256 {job.model.sha256[:16]}"
    yield from _conditions(found)
    yield "Computed by", processing_unit_of(found)
    yield "Inputs", input_text(found)
    yield "Settings", job.runtime.options_in_words
    if found.source is not None:
        yield "Imported from", f"{found.source.tool}, {found.source.file}"


def _links(studio: Studio, found: Run) -> Iterator[tuple[str, str]]:
    """Where to go from here: pairs of address and text."""
    job, profiled = found.job, _is_profiled(found)
    runtime, device, batch = job.runtime, job.target.device, job.workload.batch
    if profiled:
        yield f"/runs/{found.id}/graph", "Graph and timeline"
    yield f"/trend?{urlencode({'model': job.model.name, 'runtime': runtime.name, 'device': device})}", "Trend"
    yield f"/runs?{urlencode({'model': job.model.name})}", "Runs of this model"
    plain = not job.command and found.source is None and job.model.origin is None
    for entry in studio.models.entries() if plain else ():
        if entry.sha256 != job.model.sha256 and str(entry.path) != job.model.path:
            continue
        again = {"model": entry.key, "runtime": runtime.name, "provider": runtime.provider, "threads": runtime.threads,
                 "precision": runtime.precision, "batch": batch, "device": device}  # fmt: skip
        words = urlencode({name: value for name, value in again.items() if value is not None})
        yield f"/new/{'profile' if profiled else 'bench'}?{words}", "Measure again"
        break
