"""A profile's graph as JSON: columns of nodes, of blocks, and of what each layer's details tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgewise.profiling.layer_matching import LayerPair
from edgewise.record import Layer, LayerTensor
from edgewise.report.conditions import labels_of
from edgewise.report.profile_diff import verdict_cell
from edgewise.studio.graph import Graph, Number, chief_of, short_line


def document_of(graph: Graph) -> dict[str, Any]:
    """`graph` as plain JSON types, in columns: node, then block."""
    texts = _Texts()
    chiefs = [chief_of(pair) for pair in graph.pairs]
    document: dict[str, Any] = {
        "runs": [
            {"id": run.id, "label": label, "layers": _layer_columns(run.layers, texts)}
            for run, label in zip(graph.runs, labels_of(graph.runs), strict=True)
        ],
        "keys": list(graph.metrics),
        "metrics": {
            key: {"title": metric.title, "unit": metric.unit, "why": short_line(metric.why)}
            for key, metric in graph.metrics.items()
        },
        "names": [short_line(pair.name) for pair in graph.pairs] + [block.name for block in graph.blocks],
        "ops": [texts.number(layer.op) for layer in chiefs],
        "kinds": [texts.number(pair.kind) for pair in graph.pairs],
        "parents": graph.parents,
        "opened": graph.opened,
        "edges": [end for edge in graph.edges for end in edge],
        "order": [end for edge in graph.order for end in edge],
        "values": {key: [_rounded(value) for value in column] for key, column in graph.values.items()},
        "lacking": graph.lacking,
        "why": {key: {node: texts.number(why) for node, why in of.items()} for key, of in graph.why.items()},
    }
    if graph.is_diff:
        document["members"] = [
            [[layer.index for layer in side] for side in (one.before, one.after)] for one in graph.pairs
        ]
        document["verdicts"] = [texts.number(word) for word in verdicts(graph)]
    return document | {"texts": texts.all}


def verdicts(graph: Graph) -> list[str]:
    """What the profile diff says of each node, then of each block as one piece of work."""
    blocks = [
        LayerPair(
            name="",
            op="",
            kind="operator",
            before=tuple(layer for node in nodes for layer in graph.pairs[node].before),
            after=tuple(layer for node in nodes for layer in graph.pairs[node].after),
        )
        for nodes in graph.inside
    ]
    return [verdict_cell(pair).text for pair in (*graph.pairs, *blocks)]


class _Texts:
    """Texts that occur many times, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def all(self) -> list[str]:
        return list(self._numbers)

    def number(self, text: str) -> int:
        """Its place in `all`."""
        return self._numbers.setdefault(short_line(text), len(self._numbers))


def _rounded(value: Number) -> Number:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _layer_columns(layers: Sequence[Layer], texts: _Texts) -> dict[str, list[Any]]:
    """What the details of a layer tell, by column."""
    columns: dict[str, Callable[[Layer], Any]] = {
        "name": lambda one: short_line(one.name),
        "op": lambda one: texts.number(one.op),
        "nodes": lambda one: [short_line(name) for name in one.nodes] if one.nodes != (one.name,) else 0,
        "kernel": lambda one: texts.number(one.engine_op),
        "steps": lambda one: short_line(", ".join(one.engine_nodes)),
        "dtype": lambda one: texts.number(one.dtype or ""),
        "provider": lambda one: texts.number(one.provider or ""),
        "inputs": lambda one: texts.number(_shapes(one.inputs)),
        "outputs": lambda one: texts.number(_shapes(one.outputs)),
        "attributes": lambda one: texts.number(
            json.dumps(one.attributes, ensure_ascii=False, default=str) if one.attributes else ""
        ),
        "note": lambda one: texts.number("; ".join(filter(None, (one.error, one.cost_unknown_because)))),
        "bound": lambda one: texts.number(one.bound or ""),
    }
    for name in ("time", "low", "high", "start", "intensity", "ops_per_second", "roof", "roof_share"):
        columns[name] = lambda one, name=name: _rounded(getattr(one, name))  # type: ignore[misc]
    for name in ("ops", "macs", "parameters", "weight_bytes", "activation_bytes"):
        columns[name] = lambda one, name=name: getattr(one, name)  # type: ignore[misc]
    return {name: [get(layer) for layer in layers] for name, get in columns.items()}


def _shapes(tensors: Iterable[LayerTensor]) -> str:
    return "; ".join(f"{_shape(one)} {one.dtype}" for one in tensors)


def _shape(tensor: LayerTensor) -> str:
    if tensor.shape is None:
        return "shape of unknown rank"
    return "×".join("?" if size is None else str(size) for size in tensor.shape) or "scalar"
