"""Why a pass makes a network faster or slower, in one line, from where an engine spends its time before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.model.graph import Graph
from edgewise.model.identity import read_graph

if TYPE_CHECKING:
    from edgewise.optimizing.microbenchmarks import PassTiming, StepTime

PRODUCTS = ("convolution", "transposed-convolution", "matrix-multiplication", "recurrent", "attention")
"""Kinds of operators that compute products."""
_SMALL = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})
_FARTHEST = 8
_NOTABLE = 0.1
"""What adds less than this share of the time before is not worth a word."""


_MOST_NAMES = 3
_ALIKE = 0.05
_FULL = frozenset({"float32", "float64"})


def explain(timing: PassTiming, *, speedup: float, remark: str = "") -> str:
    """One line: the heavy operators' coverage, their kernels before and after, and what else was added.

    Args:
        speedup: time before over time after, as it was measured.
        remark: on the processor; it stands last.
    """
    before, after = _scale(timing.before, 1.0), _scale(timing.after, 1.0 / speedup)
    parts = [_say_coverage(timing), _say_kernels(before, after), _say_added(before, after), remark]
    found = [part for part in parts if part]
    return "; ".join(found) or f"measured: {speedup:.2f}× the speed"


def _scale(steps: Sequence[StepTime], total: float) -> list[StepTime]:
    """Steps that together take `total`.

    Profiles of the two models are not made in turns, so that only their shares can be trusted; how their totals compare
    was measured in turns.
    """
    spent = _total(steps)
    return [replace(step, seconds=step.seconds * total / spent) for step in steps] if spent > 0 else []


def _say_coverage(timing: PassTiming) -> str:
    total = sum(timing.precisions.values())
    lower = {word: number for word, number in timing.precisions.items() if word not in _FULL and number}
    if not total:
        return ""
    if not lower:
        return f"none of {total} heavy operators changed its type"
    word = max(lower, key=lambda each: lower[each])
    return f"{lower[word]} of {total} heavy operators {'have' if word.endswith('weights') else 'compute in'} {word}"


def _say_kernels(steps_before: Sequence[StepTime], steps_after: Sequence[StepTime]) -> str:
    """The products' time after against before, with the names of the dominating kernels."""
    before, after = _products(steps_before), _products(steps_after)
    if not before or not after:
        return ""
    ratio = _total(after) / _total(before)
    old, new = _dominant(before), _dominant(after)
    if old == new:
        new, old = f"{new} afterwards", f"{old} before"
    if abs(ratio - 1.0) <= _ALIKE:
        return f"{new} is as fast as {old} here"
    if ratio > 1.0:
        return f"{new} takes {ratio:.1f}× the time of {old} here"
    return f"{new} is {1 / ratio:.1f}× faster than {old} here"


def _say_added(before: Sequence[StepTime], after: Sequence[StepTime]) -> str:
    """The steps that were not there before or take longer, where together they matter."""
    if not before:
        return ""
    old = _by_name([step for step in before if not step.product])
    new = _by_name([step for step in after if not step.product])
    grown = {op: seconds - old.get(op, 0.0) for op, seconds in new.items()}
    added = sorted(((share, op) for op, share in grown.items() if share > _NOTABLE / 5), reverse=True)
    share = sum(share for share, _ in added)
    if share < _NOTABLE:
        return ""
    names = [op for _, op in added[:_MOST_NAMES]]
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{text} add{'s' if len(names) == 1 else ''} {share:.0%} of the time before"


def _products(steps: Sequence[StepTime]) -> list[StepTime]:
    return [step for step in steps if step.product and step.seconds > 0]


def _total(steps: Sequence[StepTime]) -> float:
    return sum(step.seconds for step in steps)


def _by_name(steps: Sequence[StepTime]) -> dict[str, float]:
    found: dict[str, float] = {}
    for step in steps:
        found[step.op] = found.get(step.op, 0.0) + step.seconds
    return found


def _dominant(steps: Sequence[StepTime]) -> str:
    times = _by_name(steps)
    return max(times, key=lambda op: times[op])


def count_precisions(model: Path) -> dict[str, int]:
    """Type of arithmetic → how many convolutions and products compute in it, as the file says."""
    graph = read_graph(model)
    producers = graph.producers()
    found: dict[str, int] = {}
    for operator in graph.operators:
        at = int(operator.geometry.get("data", 0))
        if operator.kind not in PRODUCTS or at >= len(operator.inputs):
            continue
        word = _type_of_data(graph, producers, operator.inputs[at])
        weights = {graph.tensors[each].dtype for each in operator.weights} & _SMALL
        if weights and word not in _SMALL:
            word = f"{min(weights)} weights"
        found[word] = found.get(word, 0) + 1
    return found


def _type_of_data(graph: Graph, producers: Mapping[str, int], name: str) -> str:
    """The type in which a tensor's values arrive, seen through what only moves them."""
    dtype = graph.tensors[name].dtype if name else ""
    for _ in range(_FARTHEST):
        if name not in producers:
            break
        maker = graph.operators[producers[name]]
        name = maker.inputs[0] if maker.inputs else ""
        if maker.op == "FakeQuantize":
            return "int8"  # what OpenVINO makes of it
        if maker.kind == "dequantize" and name:
            dtype = graph.tensors[name].dtype
            break
        if maker.kind not in ("movement", "pooling"):
            break
    return "int8" if dtype == "uint8" else dtype
