"""An engine's profile as a worker sends it: read back with every field checked, for a worker is not trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from edgewise.runtime.base import EngineNode, EngineOverhead, EngineProfile, Role

MAX_NODES = 1_000_000
MOST_NS = 1e15
"""Eleven days: no inference that anybody profiles takes longer."""


def read_profile(document: Mapping[str, Any]) -> EngineProfile:
    """The profile in a worker's message.

    Raises ValueError, TypeError or LookupError where it is none: counts that disagree, times that are no times.
    """
    inference_ns = tuple(round(value) for value in _times(document["inference_ns"]))
    if not inference_ns:
        raise ValueError("a profile without inferences")
    if len(document["nodes"]) > MAX_NODES:
        raise ValueError("a profile of more than a million steps")
    nodes = tuple(_read_node(node, len(inference_ns)) for node in document["nodes"])
    if len({node.name for node in nodes}) != len(nodes):
        raise ValueError("two steps of one name")
    resolution_ns = _number(document["resolution_ns"])
    if not 0 <= resolution_ns <= 1e9:
        raise ValueError(f"a clock with a resolution of {resolution_ns} ns")
    total = None if document.get("inferences") is None else int(document["inferences"])
    if total is not None and not len(inference_ns) <= total <= 10**9:
        raise ValueError(f"{len(inference_ns)} times of {total} inferences")
    return EngineProfile(
        method=str(document["method"]),
        resolution_ns=resolution_ns,
        truncates=bool(document["truncates"]),
        nodes=nodes,
        overheads=tuple(
            EngineOverhead(name=str(each["name"]), times_ns=_counted(each["times_ns"], len(inference_ns), lowest=None))
            for each in document["overheads"]
        ),
        inference_ns=inference_ns,
        unprofiled_ns=tuple(round(value) for value in _times(document.get("unprofiled_ns", ()))),
        inferences=total,
        ordered=bool(document["ordered"]),
        idle=_words(document.get("idle", ())),
        notes=tuple(str(note) for note in document["notes"]),
    )


def _read_node(node: Mapping[str, Any], inferences: int) -> EngineNode:
    if node["role"] not in get_args(Role):
        raise ValueError(f"a step with the role {node['role']!r}")
    return EngineNode(
        name=str(node["name"]),
        op=str(node["op"]),
        times_ns=_counted(node["times_ns"], inferences, lowest=0.0),
        role=node["role"],
        kinds=_words(node["kinds"]),
        originals=_words(node["originals"]),
        inputs=_words(node["inputs"]),
        outputs=_words(node["outputs"]),
        start_ns=None if node["start_ns"] is None else _number(node["start_ns"]),
        provider=None if node["provider"] is None else str(node["provider"]),
        dtype=None if node["dtype"] is None else str(node["dtype"]),
        truncates=None if node.get("truncates") is None else bool(node["truncates"]),
        type=str(node.get("type", "")),
        taken_out_ns=_times([node.get("taken_out_ns", 0.0)])[0],
        detail=dict(node["detail"]),
    )


def _words(values: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError("text instead of a list of texts")
    return tuple(str(value) for value in values)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or abs(number) > MOST_NS:
        raise ValueError("an invalid time")
    return number


def _times(values: Sequence[Any], *, lowest: float | None = 0.0) -> tuple[float, ...]:
    times = tuple(map(_number, values))
    if lowest is not None and any(time < lowest for time in times):
        raise ValueError("a time below 0")
    return times


def _counted(values: Sequence[Any], count: int, *, lowest: float | None) -> tuple[float, ...]:
    if len(values) != count:
        raise ValueError(f"{len(values)} times for {count} inferences")
    return _times(values, lowest=lowest)
