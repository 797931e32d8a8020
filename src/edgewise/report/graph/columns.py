"""A graph as JSON in columns of nodes, blocks and details: what the script of a page draws."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from operator import attrgetter
from typing import Any

from edgewise.formatting import interval_text
from edgewise.profiling.layer_matching import has_bound
from edgewise.record import Layer, Run
from edgewise.report.graph import Graph, Number, chief_of, short_line
from edgewise.report.profile.cells import BELOW, PARTLY_BELOW, roof_words, sum_text, tensors_text, time_left, whole_left
from edgewise.report.profile.diff import change_cell, is_proven, verdict_cell
from edgewise.report.profile.trace import place_in_latency
from edgewise.report.runs.conditions import labels_of


def document_of(graph: Graph) -> dict[str, Any]:
    """`graph` as plain JSON types, in columns: node, then block."""
    texts = _Texts()
    chiefs = [chief_of(pair) for pair in graph.pairs]
    runs = [
        {"id": run.id, "label": label, "layers": _layer_columns(run.layers, _begins(run), texts, run)}
        for run, label in zip(graph.runs, labels_of(graph.runs), strict=True)
    ]
    document: dict[str, Any] = {
        "runs": runs or [{"id": "", "label": "", "layers": _layer_columns(graph.sides[0], {}, texts)}],
        "keys": list(graph.metrics),
        "metrics": {
            key: {"title": metric.title, "unit": metric.unit, "sums": metric.sums, "why": short_line(metric.why)}
            for key, metric in graph.metrics.items()
        },
        "names": [short_line(pair.name) for pair in graph.pairs] + [block.name for block in graph.blocks],
        "ops": [texts.number(layer.op) for layer in chiefs],
        "kinds": [texts.number(pair.kind) for pair in graph.pairs],
        "parents": graph.parents,
        "opened": graph.opened,
        "edges": [end for edge in graph.edges for end in edge],
        "order": [end for edge in graph.order for end in edge],
        "values": {key: _rounded(column) for key, column in graph.values.items()},
        "intervals": [
            texts.number(interval_text("latency", "s", *ends))
            for ends in zip(*(graph.values[key] for key in (graph.first, "low", "high")), strict=True)
        ],
        "bounds": {key: {node: texts.number(words) for node, words in of.items()} for key, of in bounds(graph).items()},
        "below": BELOW,
        "partly": PARTLY_BELOW,
        "lacking": graph.lacking,
        "why": {key: {node: texts.number(why) for node, why in of.items()} for key, of in graph.why.items()},
    }
    if graph.is_diff:
        document["members"] = [
            [[layer.index for layer in side] for side in (one.before, one.after)] for one in graph.pairs
        ]
        names, _, document["verdict"] = graph.headings
        for name, run in zip(names, document["runs"], strict=True):
            run["name"] = short_line(name)
        document["alone"] = [-1 if work.is_paired else int(not work.before) for work in graph.works]
        document["verdicts"] = [texts.number(word) for word in verdicts(graph)]
        document["clear"] = [is_proven(work) for work in graph.works]
    return document | {"texts": texts.all}


def verdicts(graph: Graph) -> list[str]:
    """Return what the profile diff says of each node, then of each block as one piece of work."""
    return [verdict_cell(work).text for work in graph.works]


def bounds(graph: Graph) -> dict[str, dict[int, str]]:
    """Metric → node or block → its bounds in words, where a time in it is less than the profiler can tell."""
    found: dict[str, dict[int, str]] = {"time": {}, "after": {}, "change": {}, "share": {}}
    rests = [time_left((), run) for run in graph.runs]
    whole = 0.0 if graph.is_diff or not graph.runs else whole_left((), graph.runs[0])
    for at, work in enumerate(graph.works):
        sides = zip(("time", "after"), (work.before, work.after), graph.runs, rests, strict=False)
        for key, layers, run, rest in sides:
            if has_bound(layers):
                found[key][at] = f"{sum_text(layers, 1e6, time_left(layers, run, rest))} µs"
        if graph.is_diff and work.is_bounded and graph.values["change"][at] is not None:
            found["change"][at] = f"{change_cell(work).text.replace('-', '−')} µs"
        elif not graph.is_diff and at in found["time"] and graph.profile.latency > 0:
            most = whole_left(work.before, graph.runs[0], whole)
            found["share"][at] = f"{sum_text(work.before, 100 / graph.profile.latency, most)} %"
    return {key: of for key, of in found.items() if key in graph.metrics}


class _Texts:
    """Texts that occur many times, each once.

    Attributes:
        all: in the order of their numbers.
    """

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """Return the place of a text in `all`."""
        text = text or ""
        if text not in self._numbers:
            self._numbers[text] = len(self.all)
            self.all.append(short_line(text))
        return self._numbers[text]


def _rounded(values: Iterable[Number]) -> list[Number]:
    # JSON has no other numbers than finite ones; a damaged record may.
    return [
        value if type(value) is not float else float(f"{value:.6g}") if isfinite(value) else None for value in values
    ]


_NUMBERS = (
    *("time", "low", "high", "intensity", "ops_per_second", "roof"),
    *("ops", "parameters", "weight_bytes", "activation_bytes"),
)
_WORDS = {"op": "op", "kernel": "engine_op", "dtype": "dtype", "provider": "provider", "bound": "bound"}


def _begins(run: Run) -> dict[int, float]:
    """Index of a layer → when it begins in an inference without the profiler, s."""
    return {layer.index: ts * 1e-6 for layer, _, ts, _ in place_in_latency(run) if layer.start is not None}


def _layer_columns(
    layers: Sequence[Layer], begins: Mapping[int, float], texts: _Texts, run: Run | None = None
) -> dict[str, list[Any]]:
    """Return what the details of a layer tell, by column; numbers are of `texts`, but those of `_NUMBERS`."""
    number = texts.number
    profile = None if run is None else run.profile
    rest = None if run is None else time_left((), run)

    def most_of(layer: Layer) -> str:
        return f"{sum_text([layer], 1e6, math.inf if run is None else time_left([layer], run, rest))} µs"

    columns: dict[str, list[Any]] = {name: _rounded(map(attrgetter(name), layers)) for name in _NUMBERS}
    columns |= {key: [number(word) for word in map(attrgetter(name), layers)] for key, name in _WORDS.items()}
    return columns | {
        "interval": [number(interval_text("latency", "s", one.time, one.low, one.high)) for one in layers],
        "most": [number(most_of(one) if one.is_bounded else "") for one in layers],
        "attained": [number(roof_words(one, profile, digits=1, of=" attained")) for one in layers],
        "start": _rounded(begins.get(one.index) for one in layers),
        "name": [short_line(one.name) for one in layers],
        "nodes": [0 if one.nodes == (one.name,) else [short_line(name) for name in one.nodes] for one in layers],
        "steps": [short_line(", ".join(one.engine_nodes)) for one in layers],
        "inputs": [number(tensors_text(one.inputs, named=False)) for one in layers],
        "outputs": [number(tensors_text(one.outputs, named=False)) for one in layers],
        "attributes": [
            number(json.dumps(one.attributes, ensure_ascii=False, default=str) if one.attributes else "")
            for one in layers
        ],
        "note": [number("; ".join(filter(None, (one.error, one.cost_unknown_because)))) for one in layers],
    }
