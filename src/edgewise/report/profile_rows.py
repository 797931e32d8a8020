"""Rows of the layer table of a page: cells, details, words for the search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from edgewise.formatting import quantity
from edgewise.record import Layer, LayerTensor, Run
from edgewise.report.cells import NOT_MEASURED
from edgewise.report.names import layer_names, shorten
from edgewise.report.profile import (
    WHOLE,
    count_words,
    layers_of,
    op_words,
    ranked,
    rate_reason,
    share_of,
    time_cell,
    time_reason,
    time_unit,
)
from edgewise.report.profile_csv import shape_words
from edgewise.report.profile_style import colours_of
from edgewise.text import one_line
from edgewise.units import format_bytes, significant

_ATTRIBUTE_WIDTH = 400
_NAME_WIDTH = 60


def layer_rows(run: Run) -> list[dict[str, Any]]:
    """Operators, the slowest first."""
    colours, done, rows = colours_of(run), 0.0, []
    for layer, row in zip(ranked(layers_of(run, "operator")), _timed_rows(run, "operator"), strict=True):
        done += row["share"] or 0.0
        row |= {
            "op": op_words(layer),
            "colour": colours.get(one_line(layer.op), "var(--soft)"),
            "cumulative": done if row["share"] is not None else None,
            "macs": count_words(layer.macs) if layer.macs is not None else None,
            "macs_value": layer.macs,
            "rate": significant(layer.ops_per_second * 1e-9) if layer.ops_per_second is not None else None,
            "rate_value": layer.ops_per_second,
            "roof": layer.roof_share,
            "bound": layer.bound,
            "why": {"macs": one_line(layer.cost_unknown_because) or NOT_MEASURED, "rate": rate_reason(layer)},
        }
        rows.append(row)
    return rows


def overhead_rows(run: Run) -> list[dict[str, Any]]:
    """Overheads, the slowest first."""
    return _timed_rows(run, "overhead")


def _timed_rows(run: Run, kind: str) -> list[dict[str, Any]]:
    """What all rows of layers share, the slowest first."""
    profile = run.profile
    unit, factor = time_unit(layer.time for layer in run.layers)
    most = max((layer.time or 0.0 for layer in run.layers), default=0.0)
    rows = []
    names = layer_names(run, _NAME_WIDTH)
    for layer in ranked(layers_of(run, kind)):
        cell, share = time_cell(layer, factor), share_of(layer, profile) if profile is not None else None
        rows.append(
            {
                "index": layer.index,
                "name": names[layer.index],
                "op": one_line(layer.op),
                "time": cell,
                "share": share,
                "bar": 100 * (layer.time or 0.0) / most if most > 0 else 0.0,
                "details": _details(layer),
                "words": _search_words(layer),
                "tip": _tip(layer, f"{cell.text} {unit}", share),
            }
        )
    return rows


def sum_rows(run: Run) -> list[tuple[str, str, str]]:
    """(name, time, share) of what is unattributed and of the whole."""
    profile = run.profile
    if profile is None:
        return []
    _, factor = time_unit(layer.time for layer in run.layers)
    rows = [("Unattributed", profile.unattributed), (WHOLE.capitalize(), profile.latency)]
    return [
        (name, significant(seconds * factor), f"{seconds / profile.latency * 100:.1f} %" if profile.latency > 0 else "")
        for name, seconds in rows
    ]


def stepless_rows(run: Run, kind: str) -> list[tuple[str, str, str]]:
    """(name, type, why) of operators without a step: ``unmatched`` or ``eliminated``."""
    found = layers_of(run, kind)
    return [(one_line(layer.title), one_line(layer.op), time_reason(layer)) for layer in found]


def _tip(layer: Layer, time: str, share: float | None) -> str:
    """What the charts' tooltip says, line by line."""
    lines = [
        one_line(layer.title),
        op_words(layer),
        time + ("" if share is None else f" · {share * 100:.1f} %"),
    ]
    if layer.macs:
        lines.append(f"{count_words(layer.macs)} MACs")
    if layer.roof_share is not None:
        lines.append(
            f"{layer.roof_share * 100:.0f} % of its roof" + (f", bound by {layer.bound}" if layer.bound else "")
        )
    return "\n".join(lines)


def _search_words(layer: Layer) -> str:
    words = [layer.title, layer.name, layer.op, *layer.nodes, layer.engine_op, layer.dtype or "", layer.provider or ""]
    return one_line(" ".join(words)).lower()


def _details(layer: Layer) -> list[tuple[str, str]]:
    """Details that a row shows when it is opened."""
    weights, activations = layer.weight_bytes, layer.activation_bytes
    pairs = [
        ("Name", layer.name if layer.label or len(one_line(layer.name)) > _NAME_WIDTH else ""),
        ("Operators", "; ".join(layer.nodes) if len(layer.nodes) > 1 else ""),
        ("Inputs", _tensors(layer.inputs)),
        ("Outputs", _tensors(layer.outputs)),
        ("Engine runs", "; ".join(layer.engine_nodes)),
        ("Kernels", layer.engine_op),
        ("Provider", layer.provider or ""),
        ("Parameters", count_words(layer.parameters) if layer.parameters else ""),
        ("Weights", format_bytes(weights) if weights else ""),
        ("Activations", format_bytes(activations) if activations else ""),
        ("Intensity", f"{significant(layer.intensity)} operations per byte" if layer.intensity else ""),
        ("Begins", f"{quantity(layer.start, 's')} after the inference began" if layer.start is not None else ""),
        ("Not accelerated", layer.error or ""),
        ("Cost", f"not known: {layer.cost_unknown_because}" if layer.cost_unknown_because else ""),
    ]
    options = [(str(key), _value(value)) for key, value in layer.attributes.items()]
    return [(name, one_line(text)) for name, text in [*pairs, *options] if text]


def _tensors(tensors: Sequence[LayerTensor]) -> str:
    return "; ".join(f"{tensor.name} {shape_words(tensor)} {tensor.dtype}" for tensor in tensors)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(text, _ATTRIBUTE_WIDTH)
