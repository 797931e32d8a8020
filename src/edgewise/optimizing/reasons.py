"""Explains in one line why a pass makes a network faster or slower, from an engine's profiles before and after."""

from __future__ import annotations

from collections import Counter
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
_FULL = frozenset({"float32", "float64"})
_FARTHEST = 8
_NOTABLE = 0.1
"""Added steps are named if they take at least this share of the time before."""
_ALIKE = 0.05
_MOST_NAMES = 3


def explain(timing: PassTiming, *, speedup: float, remark: str = "") -> str:
    """One line: the share of heavy operators that changed, their kernels before and after, and added steps.

    Args:
        speedup: time before over time after, as it was measured.
        remark: on the processor; it comes last.
    """
    before, after = _scale(timing.before, 1.0), _scale(timing.after, 1.0 / speedup)
    parts = [_explain_coverage(timing.precisions), _explain_kernels(before, after), _explain_added(before, after)]
    return "; ".join(filter(None, [*parts, remark])) or f"measured: {speedup:.2f}× the speed"


def _scale(steps: Sequence[StepTime], total: float) -> list[StepTime]:
    """Return the steps scaled to take `total` together.

    The two profiles are not made in turns, so only their shares are reliable; the ratio of the totals was measured in
    turns.
    """
    spent = sum(step.seconds for step in steps)
    return [replace(step, seconds=step.seconds * total / spent) for step in steps] if spent > 0 else []


def _explain_coverage(precisions: Mapping[str, int]) -> str:
    total = sum(precisions.values())
    lower = {word: number for word, number in precisions.items() if word not in _FULL and number}
    if not total:
        return ""
    if not lower:
        return f"none of {total} heavy operators changed its type"
    word = max(lower, key=lambda each: lower[each])
    return f"{lower[word]} of {total} heavy operators {'have' if word.endswith('weights') else 'compute in'} {word}"


def _explain_kernels(steps_before: Sequence[StepTime], steps_after: Sequence[StepTime]) -> str:
    """Return the products' time after against before, with the names of the dominating kernels."""
    before, after = (_times([step for step in steps if step.product]) for steps in (steps_before, steps_after))
    if not before or not after:
        return ""
    ratio = sum(after.values()) / sum(before.values())
    old, new = next(iter(before)), next(iter(after))
    if old == new:
        new, old = f"{new} after the pass", f"{old} before it"
    if abs(ratio - 1.0) <= _ALIKE:
        return f"{new} is as fast as {old} here"
    if ratio > 1.0:
        return f"{new} takes {ratio:.1f}× the time of {old} here"
    return f"{new} is {1 / ratio:.1f}× faster than {old} here"


def _explain_added(before: Sequence[StepTime], after: Sequence[StepTime]) -> str:
    """Return the steps that are new or take longer, where together they matter."""
    if not before:
        return ""
    old, new = (_times([step for step in steps if not step.product]) for steps in (before, after))
    added = sorted(((seconds - old.get(op, 0.0), op) for op, seconds in new.items()), reverse=True)
    added = [(share, op) for share, op in added if share > _NOTABLE / 5]
    share = sum(share for share, _ in added)
    if share < _NOTABLE:
        return ""
    names = [op for _, op in added[:_MOST_NAMES]]
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{text} add{'s' if len(names) == 1 else ''} {share:.0%} of the time before"


def _times(steps: Sequence[StepTime]) -> dict[str, float]:
    """Type of step → time, s; the longest first."""
    found: dict[str, float] = {}
    for step in steps:
        found[step.op] = found.get(step.op, 0.0) + step.seconds
    return dict(sorted(((op, time) for op, time in found.items() if time > 0), key=lambda each: -each[1]))


def count_precisions(model: Path) -> dict[str, int]:
    """Type of arithmetic → number of convolutions and products that compute in it, from the model file."""
    graph = read_graph(model)
    producers = graph.producers()
    found: Counter[str] = Counter()
    for operator in graph.operators:
        at = int(operator.geometry.get("data", 0))
        if operator.kind not in PRODUCTS or at >= len(operator.inputs):
            continue
        word = _type_of_data(graph, producers, operator.inputs[at])
        weights = {graph.tensors[each].dtype for each in operator.weights} & _SMALL
        found[f"{min(weights)} weights" if weights and word not in _SMALL else word] += 1
    return dict(found)


def _type_of_data(graph: Graph, producers: Mapping[str, int], name: str) -> str:
    """Return the type of a tensor's values before operators that only move or pool them."""
    dtype = graph.tensors[name].dtype if name else ""
    for _ in range(_FARTHEST):
        if name not in producers:
            break
        maker = graph.operators[producers[name]]
        name = maker.inputs[0] if maker.inputs else ""
        if maker.op == "FakeQuantize":
            return "int8"  # OpenVINO computes it in int8
        if maker.kind == "dequantize" and name:
            dtype = graph.tensors[name].dtype
            break
        if maker.kind not in ("movement", "pooling"):
            break
    return "int8" if dtype == "uint8" else dtype
