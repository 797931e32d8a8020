"""The first page: models to drop or to pick; and the page of a model."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from edgewise.errors import EdgewiseError
from edgewise.studio.models import Kind, ModelEntry
from edgewise.studio.pages import page
from edgewise.studio.studio import Studio, studio_of
from edgewise.units import format_bytes

MOST_SHOWN = 200
"""Models on the first page, unless all are asked for."""
MOST_RESULTS = 5
"""Newest runs on the first page."""
NEWEST = ("model", "result", "interval", "trust", "runtime", "threads", "shapes", "device", "made")
"""Columns of these runs."""
MOST_RUNS = 10
"""Runs on the page of a model."""
OF_MODEL = ("made", "result", "interval", "trust", "runtime", "threads", "shapes", "device", "basis", "status")
"""Columns of these runs."""
WAIT_S = 2.5
"""Longest time that the page of a model waits for it to be read, and the first page for all."""


def home(request: Request) -> Response:
    """Return a place to drop a model, the newest results, and the models that are there."""
    from edgewise.studio.views.runs import COLUMNS

    studio = studio_of(request)
    models, data = studio.models.entries(), studio.models.entries("data")
    most = None if "all" in request.query_params else MOST_SHOWN
    return page(
        request,
        "home.html.jinja",
        title="Models",
        styles=("models.css",),
        scripts=("drop.js",) if studio.jobs.has_folder else (),
        takes_uploads=studio.jobs.has_folder,
        runs=studio.store.named(studio.store.list(limit=MOST_RESULTS)),
        columns=[COLUMNS[name] for name in NEWEST],
        models=_model_lines(studio, models[:most]),
        data=[_line(entry) for entry in data[:most]],
        hidden=0 if most is None else max(len(models), len(data)) - most,
        most_upload=format_bytes(studio.settings.most_upload),
        roots=len(studio.settings.roots),
        lab=studio.store.lab.exists,
    )


def _line(entry: ModelEntry) -> dict[str, Any]:
    return {
        "entry": entry,
        "link": f"/models/{quote(entry.key)}",
        "size": "" if entry.size_bytes is None else format_bytes(entry.size_bytes),
        "added": f"{entry.added:%Y-%m-%d %H:%M}",
    }


def _model_lines(studio: Studio, entries: Sequence[ModelEntry]) -> list[dict[str, Any]]:
    """Lines with the number of runs so far; of a file below a root that is not read yet, those of its name.

    Files are read in the background where runs have their name.
    """
    unread = {entry.key: Path(entry.name).name for entry in entries if not _sha256_of(studio, entry)}
    by_name = studio.store.count_files(list(unread.values()), by="model")
    wait([studio.readings.begin(entry) for entry in entries if unread.get(entry.key) in by_name], WAIT_S)
    known = [(entry, _sha256_of(studio, entry), Path(entry.name).name) for entry in entries]
    counts = {**by_name, **studio.store.count_files([sha256 for _, sha256, _ in known if sha256])}
    return [
        {**_line(entry), "sha256": sha256, "file": name, "runs": counts.get(sha256 or name, 0)}
        for entry, sha256, name in known
    ]


def _sha256_of(studio: Studio, entry: ModelEntry) -> str:
    known = None if entry.sha256 else studio.readings.known(entry)
    return known.sha256 if known else entry.sha256


def model(request: Request) -> Response:
    """Return what a model is, what can be done with it, and its newest runs."""
    from edgewise.studio.views.runs import COLUMNS

    studio, reading, problem = studio_of(request), None, None
    entry = studio.models.get(request.path_params["key"])
    try:
        reading = studio.readings.read(entry, wait_s=WAIT_S)
    except EdgewiseError as error:
        problem = error
    sha256 = reading.sha256 if reading else _sha256_of(studio, entry)
    runs = studio.store.named(studio.store.list(model=sha256, limit=MOST_RUNS)) if sha256 else ()
    from edgewise.studio.forms import all_forms

    forms = [(f"/new/{form.verb.name}", form.action) for form in all_forms() if form.takes_models]
    answer = page(
        request,
        "model.html.jinja",
        title=entry.name,
        styles=("models.css",),
        scripts=("report.js",),
        **_line(entry),
        actions=[(f"{at}?model={quote(entry.key, safe='')}", words) for at, words in (*forms, ("/graph", "Graph"))],
        sha256=sha256,
        reading=reading,
        problem=problem,
        runs=runs,
        columns=[COLUMNS[name] for name in OF_MODEL],
    )
    if reading is None and problem is None:
        answer.headers["refresh"] = "2"
    return answer


async def upload(request: Request) -> Response:
    """Take models and data, and show the model where it is one alone."""
    from edgewise.studio.uploads import receive

    studio = studio_of(request)
    added = await receive(request, studio.models, most_bytes=studio.settings.most_upload)
    for entry in added:
        if entry.kind == "models":
            studio.readings.begin(entry)
    one = len(added) == 1 and added[0].kind == "models"
    return RedirectResponse(f"/models/{added[0].key}" if one else "/", 303)


def delete(request: Request, form: FormData) -> Response:
    """Delete an upload."""
    del form
    kind: Kind = "models" if request.path_params["kind"] == "models" else "data"
    studio = studio_of(request)
    studio.readings.forget(studio.models.remove(kind, request.path_params["key"]))
    return RedirectResponse("/", 303)
