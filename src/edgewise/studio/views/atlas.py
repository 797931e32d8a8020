"""Models × devices: the best run of each, by how its value is known; and the devices that are known from elsewhere."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from edgewise.device import calibrations
from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput
from edgewise.formatting import interval_text, percent, value_text
from edgewise.metrics import METRICS
from edgewise.report.runs.cells import label_of
from edgewise.report.runs.provenance import BASES
from edgewise.store import Store
from edgewise.store.best import Best, LeftOut, Matrix, ModelFile, Workload
from edgewise.store.location import default_path
from edgewise.studio.estimates import Estimated, newest_estimates
from edgewise.studio.pages import page
from edgewise.studio.studio import studio_of
from edgewise.studio.views.runs import GRADE_TONES
from edgewise.text import one_line, plural

ESTIMATED = Workload("latency", "single-stream", 1)
"""Estimates are of one inference at a time."""
FILTERS = ("model", "workload", "runtime", "precision")
MOST_MODELS, MOST_MACHINES = 30, 12
MOST_BYTES = 50 * 10**6
"""Of a table of the atlas, which is read to count what is in it."""


def atlas(request: Request) -> Response:
    """Return the matrix of the query: one workload, of all runtimes and precisions or of one."""
    store, query = studio_of(request).store, request.query_params
    words = {name: query.get(name, "") for name in FILTERS}
    workload = None
    if words["workload"]:
        metric, _, rest = words["workload"].partition("/")
        scenario, _, batch = rest.rpartition("/")
        if not batch.isdecimal() or len(batch) > 9:
            raise BadInput(f"{words['workload']!r} is not a workload", advice="pick one from the list")
        workload = Workload(metric, scenario, int(batch))
    model, runtime, precision = (words[name] or None for name in ("model", "runtime", "precision"))
    matrix = store.matrix(
        model=model,
        runtime=runtime,
        precision=precision,
        workload=workload,
        most_models=MOST_MODELS,
        most_machines=MOST_MACHINES,
    )
    cells = cells_of(matrix)
    files, machines = set(matrix.models), set(matrix.machines)
    shown = matrix.workload or workload or ESTIMATED
    if shown[1:] == ESTIMATED[1:] and not runtime and not precision:
        for one in newest_estimates(studio_of(request), shown.metric):
            if words["model"].casefold() in one.model.casefold():
                # An estimate does not tell its shapes: they are those of the file's runs where these have only one.
                same = [file for file in matrix.models if (file.model, file.sha256) == (one.model, one.sha256)]
                file = same[0] if len(same) == 1 else ModelFile(one.model, one.sha256, "")
                cells.setdefault((file, one.device), []).append(_estimated_cell(one))
                files.add(file)
                machines.add(one.device)
    order = list(BASES)
    for found in cells.values():
        found.sort(key=lambda each: order.index(each["basis"]) if each["basis"] in order else len(order))
    return page(
        request,
        "atlas.html.jinja",
        title="Atlas",
        styles=("history.css",),
        matrix=matrix,
        files=sorted(files),
        machines=sorted(machines),
        workload=shown,
        cells=cells,
        words=words,
        bases=BASES,
        label_of=label_of,
        tones=GRADE_TONES,
        runtimes=[one.value for one in store.facets()["runtime"]],
        calibrated=list(_calibrated(store)),
        tables=list(_tables()),
    )


def cells_of(matrix: Matrix) -> dict[tuple[ModelFile, str], list[dict[str, Any]]]:
    """Return what the page needs of the best runs, by row and column."""
    cells: dict[tuple[ModelFile, str], list[dict[str, Any]]] = {}
    for best in matrix.cells:
        cells.setdefault((ModelFile.of(best), best.machine), []).append(_cell(best))
    if matrix.workload:
        for one in matrix.left_out:
            basis = one.basis or "unknown basis"
            there = cells.setdefault((one.file, one.machine), [])
            cell = next((cell for cell in there if cell["basis"] == basis), None)
            if cell is None:
                # A device with runs of grade D alone has no best, but it was measured.
                cell = {"link": f"/runs/{one.run}", "basis": basis, "value": "no best", "interval": "", "grade": None,
                        "how": "all runs have grade D", "runs": 0}  # fmt: skip
                there.append(cell)
            cell["left_out"] = _left_out(one, matrix.workload)
    return cells


def _left_out(one: LeftOut, workload: Workload) -> dict[str, Any]:
    """Return what the page says of runs of grade D."""
    return {
        "runs": plural(one.runs, "run"),
        "link": f"/runs/{one.run}",
        "value": value_text(workload.metric, one.unit or "1", one.value),
        "end": "largest" if METRICS[workload.metric].better == "higher" else "smallest",
        "command": _again(one, workload.batch),
    }


def _again(one: LeftOut, batch: int) -> str:
    """Return the command that measures the model of a run again on its device, by the name of its file."""
    words = ["edgewise", "bench", one.file.model, "-r", one.runtime]
    words += [] if one.device == LOCAL else ["-d", one.device]
    return one_line(shlex.join([*words, *(["--batch", str(batch)] if batch > 1 else [])]))


def _cell(best: Best) -> dict[str, Any]:
    """Return what the page needs of the best run of one basis."""
    how = (best.runtime, f"/{best.provider}" if best.provider else "", f" {best.precision}" if best.precision else "")
    return {
        "link": f"/runs/{best.run}",
        "basis": best.basis or "unknown basis",
        "value": value_text(best.metric, best.unit or "1", best.value),
        "interval": interval_text(best.metric, best.unit or "1", best.value, best.low, best.high) or "no interval",
        "grade": best.grade,
        "how": "".join(how) + (f", {plural(best.threads, 'thread')}" if best.threads else ""),
        "runs": best.runs,
        "trend": urlencode({"model": best.model, "metric": best.metric, "run": best.run}),
    }


def _estimated_cell(one: Estimated) -> dict[str, Any]:
    """Return what the page needs of a job's estimate, or of the reason that it gives for none."""
    coverage = "" if one.coverage is None else f", {percent(one.coverage)} interval"
    interval = interval_text(one.metric, one.unit, one.value, one.low, one.high)
    return {
        "link": f"/jobs/{one.job}",
        "basis": one.basis or "absent",
        "value": "absent" if one.value is None else value_text(one.metric, one.unit, one.value),
        "interval": "" if one.value is None else interval + coverage if interval else "no interval",
        "grade": None,
        "how": one.reason if one.value is None else "by a job of the studio",
        "runs": 0,
    }


def _calibrated(store: Store) -> Iterator[dict[str, Any]]:
    """Devices that were learnt from a few measured models, or why the file of one can't be read."""
    for name in calibrations.names(store):
        try:
            document = json.loads(calibrations.file_of(name, store).read_text("utf-8"))
            counts = calibrations.models_used(document)
            models = {metric: calibrations.count_text(*counts[metric]) for metric in counts}
            yield {"name": name, "runtime": str(document["runtime"]), "models": models, "problem": ""}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            problem = "its file is damaged: calibrate the device again"
            yield {"name": name, "runtime": "", "models": {}, "problem": problem}


def _tables() -> Iterator[dict[str, Any]]:
    """Yield the tables that `edgewise atlas import` read, with what is in them."""
    for path in sorted(default_path().with_name("atlas").glob("*.csv")):
        state = path.stat()
        yield {"name": path.stem, **_counts(path, state.st_mtime_ns, state.st_size)}


@lru_cache(maxsize=64)
def _counts(path: Path, changed: int, size: int) -> dict[str, Any]:
    """Numbers of measurements, models and devices in a table, and where it is from; kept until the file changes."""
    del changed
    sources: dict[str, None] = {}
    models, devices, number = set[str](), set[str](), 0
    try:
        if size > MOST_BYTES:
            raise ValueError("too large")
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                number += 1
                models.add(row["model"])
                devices.add(row["device"])
                sources[" ".join(filter(None, (row["source"], row["licence"])))] = None
    except (OSError, ValueError, LookupError, csv.Error):
        return {"problem": "its file is damaged, or too large to be counted here"}
    return {
        "number": number,
        "models": len(models),
        "devices": sorted(devices),
        "sources": list(sources),
        "problem": "",
    }
