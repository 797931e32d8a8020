"""Stored runs side by side: picked in the list of runs or here, with verdicts by their stored samples."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from edgewise.errors import BadInput
from edgewise.formatting import value_text
from edgewise.record import Run
from edgewise.record.facts import is_profiled
from edgewise.report.charts import colour_of
from edgewise.store.tables import RunRow
from edgewise.studio.pages import attachment, page
from edgewise.studio.studio import studio_of
from edgewise.studio.views.run import FILES
from edgewise.studio.views.runs import interval_of, result_of

MOST_COMPARED = 24
"""Runs on one page: more could not be told apart in its tables and charts."""
MOST_FOUND = 12
UNFAIR = "this can't be compared fairly"
EXTENSIONS = (".html", ".md", ".csv", ".json")


def compare(request: Request) -> Response:
    """Return the runs that are picked, what they say about each other, and runs that can be added.

    ``oldest=first`` comes from lists with ticks, which show the newest first: the oldest becomes the baseline.
    """
    studio, wanted = studio_of(request), request.query_params.get("q", "").strip()
    runs, forced = _picked(request), "force" in request.query_params
    if "oldest" in request.query_params:
        return RedirectResponse(_to([run.id for run in sorted(runs, key=lambda run: (run.created_at, run.id))]), 303)
    part, problem = "", None
    if len(runs) > 1:
        try:
            part = studio.renderer.part("comparison", [run.id for run in runs], force=forced)
        except BadInput as error:
            problem = error
    ids = [run.id for run in runs]
    return page(
        request,
        "compare.html.jinja",
        title="Compare runs",
        styles=("history.css", "compare.css"),
        scripts=("report.js",),
        picks=[
            {
                "run": run,
                "headline": _headline(run),
                "colour": colour_of(place),
                "first": _to([run.id, *(one for one in ids if one != run.id)]),
                "without": _to([one for one in ids if one != run.id]),
            }
            for place, run in enumerate(runs)
        ],
        part=part,
        problem=problem,
        anyway=_to(ids, force="1") if problem is not None and problem.message.startswith(UNFAIR) else "",
        files=[
            (_to(ids, "/compare/file", format=each, **({"force": "1"} if forced else {})), FILES[each][0])
            for each in EXTENSIONS
        ],
        command=f"edgewise compare {' '.join(ids)}" + (" --force" if forced else ""),
        apart=_why_again(runs),
        graph=f"/runs/{ids[0]}/graph?{urlencode({'with': ids[1]})}"
        if len(runs) == 2 and all(map(is_profiled, runs))
        else "",
        again=f"/new/compare?{urlencode([('model', one) for one in ids])}",
        wanted=wanted,
        result_of=result_of,
        interval_of=interval_of,
        found=[row for row in _found(request, wanted, runs) if row.id not in ids][:MOST_FOUND],
        room=len(runs) < MOST_COMPARED,
    )


def file(request: Request) -> Response:
    """Return the comparison of the picked runs as a file, without paths of this machine."""
    extension = request.query_params.get("format", ".html")
    if extension not in EXTENSIONS:
        raise BadInput(f"a comparison can't be written as {extension}", advice=f"one of: {', '.join(EXTENSIONS)}")
    ids = [run.id for run in _picked(request)]
    content = studio_of(request).renderer.file(ids, extension, kind="comparison", force="force" in request.query_params)
    return attachment(content, f"comparison{extension}", FILES[extension][1])


def _picked(request: Request) -> list[Run]:
    """Return the runs that the query names, in order, each once. Raises `BadInput`."""
    names = [name for name in request.query_params.getlist("run") if name]
    if "all" in names:
        raise BadInput("all runs can't be compared at once", advice=f"pick at most {MOST_COMPARED}")
    store = studio_of(request).store
    ids = store.find(names)
    if len(ids) > MOST_COMPARED:
        raise BadInput(
            f"{len(ids)} runs are too many to compare on one page",
            advice=f"pick at most {MOST_COMPARED}, or use 'edgewise compare RUN RUN… -o comparison.html'",
        )
    return store.resolve(ids)


def _found(request: Request, wanted: str, runs: Sequence[Run]) -> list[RunRow]:
    """Return stored runs to add, the newest first: by model's name, tag or id; without a search, of one model."""
    store = studio_of(request).store
    most = MOST_FOUND + MOST_COMPARED
    if not wanted:
        return store.list(model=runs[0].job.model.sha256 if runs else None, limit=most)
    named = {row.id: row for row in (*store.list(tag=wanted, limit=most), *store.list(model=wanted, limit=most))}
    return list(named.values())


def _why_again(runs: Sequence[Run]) -> str:
    """Why measuring again in turns says more than these stored runs; empty where they were measured in turns."""
    from edgewise.comparing.fairness import is_together

    if len(runs) < 2 or all(is_together(runs[0], run) or run.turns_against(runs[0]) is not None for run in runs[1:]):
        return ""
    first, last = (pick(runs, key=lambda run: run.created_at).created_at[:16].replace("T", " ") for pick in (min, max))
    when = f"at {first} UTC" if first == last else f"from {first} to {last} UTC"
    return f"These runs were measured one after the other, {when}."


def _headline(run: Run) -> str:
    row = run.measurement(run.headline)
    return run.status if row is None or row.value is None else value_text(row.metric, row.unit, row.value)


def _to(ids: Sequence[str], path: str = "/compare", **settings: str) -> str:
    return f"{path}?{urlencode([*(('run', one) for one in ids), *settings.items()])}"
