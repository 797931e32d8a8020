"""A profile as node data of Google's Model Explorer: numbers and colours on the nodes of the model's graph.

One metric a file, without a graph id: Model Explorer then applies it to the graph that is open ("Add per-node data").
Keys are names of the model's operators. Those of TFLite are the names of the tensors that they make, which Model
Explorer matches as output tensors; those of ONNX are node names, which its ONNX adapter takes for ids. A fused step is
one number at its slowest operator: on all of them it would be counted several times in the sums of a group.
Schema: ``GraphNodeData`` of https://github.com/google-ai-edge/model-explorer (``node_data_builder.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from edgewise.errors import BadInput
from edgewise.profiling.roofline import share_of_roof
from edgewise.record import Layer, Peak, Run
from edgewise.report.profile.cells import moved_bytes
from edgewise.report.runs.conditions import provider_of
from edgewise.text import one_line

Getter = Callable[[Layer, Sequence[Peak]], float | int | None]


def _roof(layer: Layer, peaks: Sequence[Peak]) -> float | None:
    share = share_of_roof(layer, peaks)
    return None if share is None or share.possible is None else share.possible * 100


#: metric → (its name with the unit, how to get it from a layer in that unit)
METRICS: dict[str, tuple[str, Getter]] = {
    "time": ("time (µs)", lambda layer, _: None if layer.time is None else layer.time * 1e6),
    "share": ("share of the latency (%)", lambda layer, _: None if layer.share is None else layer.share * 100),
    "macs": ("MACs", lambda layer, _: layer.macs),
    "ops": ("operations", lambda layer, _: layer.ops),
    "roof": ("share of the roof (%), 100 at the limit", _roof),
    "memory": ("weights and activations (bytes)", lambda layer, _: moved_bytes(layer)),
}
_COLD, _HOT = "#fff7e0", "#d1495b"
_NEAR, _FAR = "#2a9d8f", "#fff7e0"


def node_data(run: Run, metric: str = "time") -> dict[str, Any]:
    """``{"name", "results": {node: {"value"}}, "gradient"}``; what has no number has no entry.

    Raises `BadInput` for an unknown metric and for a run that no layer of which has a number.
    """
    if metric not in METRICS:
        raise BadInput(f"there is no node data of {metric!r}", advice=f"one of: {', '.join(METRICS)}")
    title, get = METRICS[metric]
    peaks = run.profile.peaks if run.profile is not None else ()
    found = [(layer, get(layer, peaks)) for layer in run.layers if layer.kind == "operator"]
    # Names are keys as the model has them: a cleaned one would match nothing.
    results = {layer.name: {"value": _number(value)} for layer, value in found if value is not None}
    if not results:
        raise BadInput(
            f"no layer of this run has a value for {title}", advice="profile the run, or take another metric"
        )
    low, high = (_FAR, _NEAR) if metric == "roof" else (_COLD, _HOT)
    data: dict[str, Any] = {"name": f"{title} · {one_line(provider_of(run))}", "results": results}
    values = [each["value"] for each in results.values()]
    if min(values) == max(values):
        # A gradient between equal ends divides by 0 in the viewer.
        return data | {"thresholds": [{"value": max(values), "bgColor": high}]}
    return data | {"gradient": [{"stop": 0, "bgColor": low}, {"stop": 1, "bgColor": high}]}


def render_node_data(run: Run, metric: str = "time") -> str:
    """`node_data` as JSON."""
    return json.dumps(node_data(run, metric), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _number(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.6g}")
