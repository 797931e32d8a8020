"""A profile on the graph of its network, or two of them; as a table where there is no script."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from edgewise.errors import BadInput
from edgewise.formatting import plus_minus, with_range
from edgewise.profiling.layer_matching import LayerPair
from edgewise.record import Run
from edgewise.report.cells import reason_of_absence
from edgewise.report.conditions import engine_of, labels_of
from edgewise.report.document import DASH, Cell, absent
from edgewise.report.profile_diff import pair_row, whole_row
from edgewise.studio.graph import METRICS, Graph, change_ends, make_graph
from edgewise.studio.graph_document import document_of
from edgewise.studio.pages import page
from edgewise.studio.studio import Studio, studio_of
from edgewise.text import one_line
from edgewise.units import format_bytes, format_duration, format_si, significant

ROWS = 200
COLUMNS = ("#", "Layer", "Op", "Time (µs)", "Share", "Weights and activations", "MACs", "Share of the roof")
COLUMNS_OF_TWO = ("Layer", "Op", "Before (µs)", "After (µs)", "Change (µs)", "Ratio", "Verdict", "Change, 95 % (µs)")


def graph(request: Request) -> Response:
    """The page of one run's graph, or with ``?with=ID`` of two."""
    found = _graph_of(request)
    if found.runs[0].id != request.path_params["run"]:  # a tag, or a profile in place of a run without one
        return RedirectResponse(f"/runs/{found.runs[0].id}/graph?{request.url.query}", 303)
    pairs = found.pairs
    if found.is_diff:
        pairs = sorted(pairs, key=lambda pair: (pair.change is None, -abs(pair.change or 0.0)))
    first = min(_number(request.query_params.get("from", "")), max(len(pairs) - 1, 0))
    shown = pairs[first : first + ROWS]
    places = {id(pair): node for node, pair in enumerate(found.pairs)}
    model = one_line(found.runs[0].job.model.name)
    return page(
        request,
        "graph.html.jinja",
        title=f"Graph of {model}",
        styles=("graph.css",),
        scripts=("graph.js",),
        graph=found,
        data=document_of(found),
        runs=list(zip(found.runs, labels_of(found.runs), map(_facts, found.runs), strict=True)),
        columns=COLUMNS_OF_TWO if found.is_diff else (*COLUMNS, *[METRICS["snr"].title] * _has_snr(found)),
        rows=[(places[id(pair)], _row(found, pair)) for pair in shown],
        longest=max((value for value in found.values["time"][: len(pairs)] if value), default=0.0),
        total=[*whole_row(*found.runs), DASH] if found.is_diff else None,
        first=first,
        step=ROWS,
        others=_others(request, found.runs[0]),
    )


def graph_data(request: Request) -> Response:
    """What the page's script draws, as JSON."""
    text = json.dumps(document_of(_graph_of(request)), separators=(",", ":"), allow_nan=False)
    return Response(text, media_type="application/json")


def _graph_of(request: Request) -> Graph:
    studio, asked = studio_of(request), request.query_params
    runs = [studio.store.get(one) for one in (request.path_params["run"], asked.get("with", "").strip()) if one]
    snr = _snr_of(studio, asked["job"]) if "job" in asked else {}
    if snr and runs[0].profile is None:
        runs[0] = _profiled(studio, runs[0])
    return make_graph(runs, snr=snr)


def _snr_of(studio: Studio, job: str) -> dict[str, float]:
    """Operator → SNR of the outputs where it alone was quantised, dB, as an optimize job measured it."""
    result = studio.jobs.result_of(studio.store.jobs.get(job).id)
    try:
        rows = result.get("sensitivity") or ()
        found = {row["layer"]: float(row["snr_db"]) for row in rows if row.get("snr_db") is not None}
    except (ValueError, AttributeError, KeyError, TypeError):
        found = {}
    if not found:
        raise BadInput(f"job {job} measured no error of layers", advice="optimize with --sensitivity on")
    return found


def _profiled(studio: Studio, run: Run) -> Run:
    """The newest profile of the same model; `run` itself where there is none."""
    rows = studio.store.list(model=run.job.model.sha256, status="done", limit=20) if run.job.model.sha256 else []
    found = (studio.store.get(row.id) for row in rows)
    return next((one for one in found if one.profile is not None), run)


def _others(request: Request, run: Run) -> list[Any]:
    """Runs of the same model that this one can be compared with."""
    rows = studio_of(request).store.list(model=run.job.model.sha256 or run.job.model.name, limit=20)
    return [row for row in rows if row.id != run.id]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _has_snr(graph: Graph) -> bool:
    return not graph.is_diff and not graph.metrics["snr"].why


def _facts(run: Run) -> str:
    """``"onnxruntime 1.31, median latency 1.00 ms [0.99 ms, 1.01 ms]; times of layers are means of …"``."""
    profile, row = run.profile, run.measurement("latency")
    if profile is None:
        return engine_of(run)
    latency = f"n/a ({reason_of_absence(run, 'latency')})"
    if row is not None and row.value is not None:
        latency = with_range("latency", "s", row.value, row.low, row.high)
    return (
        f"{engine_of(run)}, median latency {latency}; times of layers are means of {profile.inferences} profiled "
        f"inferences in {profile.sessions} processes ({one_line(profile.method)}), with 95 % intervals; shares refer "
        f"to {format_duration(profile.latency)}"
    )


def _row(graph: Graph, pair: LayerPair) -> list[Cell]:
    """The cells of a node in the table: as the profile diff has them, or the values of a layer."""
    if graph.is_diff:
        low, high = change_ends(pair)
        known = low is not None and high is not None
        reach = f"{significant((low or 0) * 1e6)} to {significant((high or 0) * 1e6)}"
        return [*pair_row(pair), Cell(text=reach) if known else absent("an interval is not known")]
    (layer,) = pair.before
    node = layer.index
    low, high = (None if end is None else end * 1e6 for end in (graph.values[key][node] for key in ("low", "high")))
    words: dict[str, Callable[[float], str]] = {
        "time": lambda value: plus_minus(value * 1e6, low, high),
        "share": lambda value: f"{value * 100:.1f} %",
        "memory": format_bytes,
        "macs": lambda value: format_si(value, "") if value else "0",
        "roof": lambda value: f"{value * 100:.1f} %",
    }
    if _has_snr(graph):
        words["snr"] = lambda value: f"{value:.1f} dB"
    cells = []
    for key, write in words.items():
        value = graph.values[key][node]
        reason = graph.metrics[key].why or one_line(graph.why[key].get(node, ""))
        cells.append(absent(reason) if value is None else Cell(text=write(value)))
    return [Cell(text=str(node)), Cell(text=one_line(layer.title)), Cell(text=one_line(layer.op)), *cells]


ROUTES = (Route("/runs/{run}/graph", graph), Route("/runs/{run}/graph.json", graph_data))
