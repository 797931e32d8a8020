"""The graph of a profile or a model as a part of a page: the drawing and the table of layers.

Child processes make them (`edgewise.studio.draw`, `model_worker`): a network may have thousands of layers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from edgewise.errors import BadInput
from edgewise.formatting import with_range
from edgewise.model.inspection import Inspection
from edgewise.profiling.layer_matching import LayerPair
from edgewise.profiling.layers import layers_without_times
from edgewise.record import Run
from edgewise.report.document import DASH, Cell, absent
from edgewise.report.graph import Graph, make_graph, make_model_graph, short_line
from edgewise.report.graph.columns import bounds, document_of
from edgewise.report.inspection.document import summary
from edgewise.report.profile.cells import bound_note, roof_words, share_cell, tensors_text, time_cell, time_left
from edgewise.report.profile.diff import BEFORE_AFTER, change_cell, is_proven, pair_row, whole_row
from edgewise.report.profile.order import order_line
from edgewise.report.runs.cells import reason_of_absence
from edgewise.report.runs.conditions import engine_of, labels_of
from edgewise.studio.pages import templates
from edgewise.text import one_line
from edgewise.units import format_bytes, format_duration, format_si, significant

T = TypeVar("T")
ROWS = 200
_VERDICTS = {
    "faster": "faster, as the intervals don't overlap",
    "slower": "slower, as the intervals don't overlap",
    "unclear": "unclear which is faster",
}
"""Of runs on several machines, which can't take turns."""
NOT_PROFILED = "not profiled yet: 'edgewise profile MODEL' times the layers"
COLUMNS = ("#", "Layer", "Op", "Time (µs)", "Share", "Weights and activations", "MACs", "Share of the roof")
COLUMNS_OF_MODEL = ("#", "Layer", "Op", "MACs", "Parameters", "Weights and activations", "Output")


def render_graph(runs: Sequence[Run], extension: str, *, first: int = 0, errors: Sequence[str | int] = ()) -> str:
    """Return the graph of one run, or of two, as JSON: what the page's script draws, or for ``.html`` the parts of
    the page.

    Args:
        first: place of the first row of the table.
        errors: the result of an optimize job with errors of layers, and when it was written; empty for none.

    Raises `BadInput` as `make_graph` does, for more than two runs, and where that job measured no errors.
    """
    if len(runs) > 2:
        raise BadInput(f"a graph shows one run or two, not {len(runs)}", advice="name one run, and one to compare with")
    graph = make_graph(runs, snr=_snr_of(Path(str(errors[0]))) if errors else {})
    data = document_of(graph)
    if extension == ".json":
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    model = graph.runs[0].job.model
    names = {"name": one_line(model.name), "model": model.sha256 or model.name}
    return json.dumps({"runs": [run.id for run in graph.runs], "part": _part(graph, data, first), **names})


def render_model_graph(inspection: Inspection) -> str:
    """Return the parts of a page with the graph of a model that was not profiled. Raises as `make_model_graph` does."""
    layers = layers_without_times(inspection.graph, because=NOT_PROFILED)
    graph = make_model_graph(layers, inspection.plan.live_bytes)
    return _part(graph, document_of(graph), 0, summary=summary(inspection))


def _part(graph: Graph, data: Mapping[str, Any], first: int, **told: str) -> str:
    """Return the drawing and the table of a page, from row `first` on."""
    pairs = graph.pairs
    if graph.is_diff:
        pairs = sorted(pairs, key=lambda pair: (pair.change is None, -abs(pair.change or 0.0)))
    first = min(first, max(len(pairs) - 1, 0))
    places = {id(pair): node for node, pair in enumerate(graph.pairs)}
    added = [graph.metrics[key].title for key in _known_overlays(graph)]
    names = graph.headings[0] if graph.is_diff else []
    columns = _columns_of_two(graph) if graph.is_diff else (*COLUMNS, *added)
    made = templates().get_template("graph_part.html.jinja")
    return made.render(
        graph=graph,
        data=data,
        runs=list(zip(graph.runs, labels_of(graph.runs), map(_facts, graph.runs), strict=True)),
        sides=names if names == BEFORE_AFTER else [],
        change=graph.headings[1] if graph.is_diff else "",
        columns=columns if graph.runs else COLUMNS_OF_MODEL,
        rows=[(places[id(pair)], _row(graph, pair)) for pair in pairs[first : first + ROWS]],
        answer=_answer(graph) if graph.is_diff else [],
        notes=sorted({bound_note(words) for of in bounds(graph).values() for words in of.values()}),
        longest=max((value for value in graph.values["time"][: len(pairs)] if value), default=0.0),
        total=_in_order_of_two([*whole_row(*graph.runs), DASH]) if graph.is_diff else None,
        first=first,
        step=ROWS,
        **told,
    )


def _answer(graph: Graph) -> list[str]:
    """Whether one of two runs is faster end to end, then the layer with the largest clear change."""
    names, change, _ = graph.headings
    cells = whole_row(*graph.runs)
    before, after, word = *(cell.short or cell.text for cell in cells[2:4]), cells[-1].text
    named = names != BEFORE_AFTER
    words = f"{names[0]} {before} µs, {names[1]} {after} µs" if named else f"{before} → {after} µs"
    order = order_line(graph.runs)
    verdict = "" if order else f": {_VERDICTS.get(word, 'a latency has no interval')}"
    lines = [*([f"{order}."] if order else []), f"Median latency: {words}{verdict}."]
    clear = [pair for pair in graph.pairs if is_proven(pair)]
    if not clear:
        return [*lines, f"No layer has a clear {change.lower()}."]
    most = max(clear, key=lambda pair: abs(pair.change or 0.0))
    told = f"{short_line(most.name)}, {change_cell(most).text} µs"
    return [*lines, f"Largest clear {change.lower()}: {told}."]


def _columns_of_two(graph: Graph) -> tuple[str, ...]:
    names, change, verdict = graph.headings
    times = [f"{name} (µs)" for name in (*names, change)]
    return _in_order_of_two(["Layer", "Op", *times, "Ratio", verdict, f"{change}, 95 % (µs)"])


def _in_order_of_two(cells: Sequence[T]) -> tuple[T, ...]:
    """Return a row of two runs with what decides first after the name, so that a narrow screen shows it."""
    name, op, before, after, change, ratio, verdict, reach = cells
    return name, change, verdict, reach, before, after, ratio, op


def _snr_of(result: Path) -> Mapping[str, float]:
    """Operator → SNR of the outputs where it alone was quantised, dB, as an optimize job measured it."""
    try:
        rows = json.loads(result.read_bytes()).get("sensitivity") or ()
        found = {row["layer"]: float(row["snr_db"]) for row in rows if row.get("snr_db") is not None}
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        found = {}
    if not found:
        raise BadInput("this job measured no error of layers", advice="optimize with --sensitivity")
    return found


def _known_overlays(graph: Graph) -> list[str]:
    return [key for key in graph.overlays if not graph.metrics[key].why]


def _facts(run: Run) -> str:
    """``"onnxruntime 1.31, median latency 1.00 ms [0.99 ms, 1.01 ms]; times of layers are means of …"``."""
    profile, row = run.profile, run.measurement("latency")
    if profile is None:
        return engine_of(run)
    latency = f"n/a ({reason_of_absence(run, 'latency')})"
    if row is not None and row.value is not None:
        latency = with_range("latency", "s", row.value, row.low, row.high)
    ends = "with 95 % intervals" if any(each.high is not None for each in run.layers) else "without intervals"
    processes = "1 process" if profile.sessions == 1 else f"{profile.sessions} processes"
    return (
        f"{engine_of(run)}, median latency {latency}; times of layers are means of {profile.inferences} profiled "
        f"inferences in {processes} ({one_line(profile.method)}), {ends}; shares refer "
        f"to {format_duration(profile.latency)}"
    )


def _row(graph: Graph, pair: LayerPair) -> list[Cell]:
    """Return the cells of a node in the table: as the profile diff has them, or the values of a layer."""
    if graph.is_diff:
        low, high = pair.change_ends
        cell = absent("an interval is not known")
        if why := graph.unpaired(pair):
            cell = Cell(text=why)
        elif low is not None and high is not None:
            cell = Cell(text=f"{significant(low * 1e6)} to {significant(high * 1e6)}")
        return [*_in_order_of_two([*pair_row(pair), cell])]
    (layer,) = pair.before
    node = layer.index
    words: dict[str, Callable[[float], str]] = {
        "time": lambda value: time_cell(layer, 1e6, time_left([layer], graph.runs[0])).text,
        "share": lambda value: f"{share_cell(layer, value, graph.runs[0]).text} %",
        "memory": format_bytes,
        "macs": lambda value: format_si(value, "") if value else "0",
        "roof": lambda _: roof_words(layer, graph.profile, digits=1, of=""),
    }
    if not graph.runs:
        words = {"macs": words["macs"], "parameters": words["macs"], "memory": words["memory"]}
    words |= dict.fromkeys(_known_overlays(graph), lambda value: f"{value:.1f} dB")
    cells = []
    for key, write in words.items():
        value = graph.values[key][node]
        reason = graph.metrics[key].why or one_line(graph.why[key].get(node, ""))
        cells.append(absent(reason) if value is None else Cell(text=write(value)))
    if not graph.runs:
        cells.append(Cell(text=short_line(tensors_text(layer.outputs, named=False)) or DASH.text))
    return [Cell(text=str(node)), Cell(text=one_line(layer.title)), Cell(text=one_line(layer.op)), *cells]
