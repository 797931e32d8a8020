"""Chooses the part of a network on which the pre-flight tries passes: all of it, or samples of a large one.

A convolution alone shows too little: its speed after a pass depends on its neighbours, since quantised tensors pass
from one to the next and activations fuse. The samples are therefore runs of neighbouring operators, as long as the
time allows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edgewise.model.cost import OperatorCost, count
from edgewise.model.graph import Graph, Operator

Extent = Literal["whole", "sampled"]

_MACS_PER_BYTE = 4
"""Multiply-accumulates in the time in which a byte is read or written: one core does 50 G of them per second with
512-bit vectors and moves 12 GB. It ranks operators; no prediction rests on it."""
_RUNS = 2
_FIXED_S = 0.5
"""Time of a pass on the smallest network, its libraries already imported."""
_SHAPE_ELEMENTS = 64
"""Integer tensors up to this size hold shapes and positions, not data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryTensor:
    """An input of a subgraph that is not an input of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """Attributes:
    kept: indices of operators in `Graph.operators`, ascending.
    inputs: tensors that operators outside a sampled subgraph would make.
    outputs: tensors that the subgraph makes for others.
    share: part of the network's estimated work that is in the subgraph, 0…1.
    digest: differs where operators, shapes or types differ; it does not depend on the weights.
    """

    extent: Extent
    kept: tuple[int, ...]
    inputs: tuple[BoundaryTensor, ...] = ()
    outputs: tuple[str, ...] = ()
    share: float = 1.0
    digest: str = ""


def choose_subgraph(graph: Graph, *, seconds: float, cuttable: bool = True) -> Subgraph | None:
    """The part of `graph` on which a pass takes about `seconds`; None where no part is that small.

    Args:
        cuttable: whether files of this format can be cut.
    """
    costs = [count(operator, graph) for operator in graph.operators]
    everything = tuple(range(len(graph.operators)))
    if _effort(everything, costs) <= seconds:
        return Subgraph(extent="whole", kept=everything, outputs=graph.outputs, digest=_digest(graph, everything))
    # The graph does not list what the bodies of branches and loops read from outside, so these can't be cut.
    return _sample(graph, costs, seconds) if cuttable and not graph.subgraphs else None


def _effort(kept: Sequence[int], costs: Sequence[OperatorCost]) -> float:
    """Estimated time of a pass on these operators, s: fitted to the slower passes on one core."""
    parameters = sum(costs[index].parameters or 0 for index in kept)
    macs = sum(costs[index].macs or 0 for index in kept)
    return _FIXED_S + 0.012 * len(kept) + 0.12e-6 * parameters + 0.1e-9 * macs


def _work(cost: OperatorCost) -> float:
    """Estimated work of an operator in multiply-accumulates, to rank operators."""
    moved = (cost.activation_bytes or 0) + (cost.weight_bytes or 0)
    return float((cost.macs or 0) + _MACS_PER_BYTE * moved)


def _sample(graph: Graph, costs: Sequence[OperatorCost], seconds: float) -> Subgraph | None:
    """Runs of neighbours, spread over the network's work, that together take `seconds`."""
    work = [_work(cost) for cost in costs]
    total = sum(work)
    groups = list(_groups(graph))
    kept: set[int] = set()
    for place in range(_RUNS):
        run: list[int] = []
        passed = 0.0
        for group in groups:
            passed += sum(work[index] for index in group)
            if passed < total * place / _RUNS or kept.intersection(group):
                continue
            fitting = _fitting(run, group, costs, (seconds - _FIXED_S) / _RUNS)
            run += fitting
            if len(fitting) < len(group):
                break
        kept.update(run)
    if not any(graph.operators[index].weights for index in kept):
        return None
    return _with_boundaries(graph, tuple(sorted(kept)), sum(work[index] for index in kept) / total)


def _fitting(run: Sequence[int], group: Sequence[int], costs: Sequence[OperatorCost], seconds: float) -> Sequence[int]:
    """The group where it fits behind `run`; the part of a first group that fits; else nothing."""
    if _effort([*run, *group], costs) - _FIXED_S <= seconds:
        return group
    if run:
        return ()
    count = 0
    while count < len(group) and _effort(group[: count + 1], costs) - _FIXED_S <= seconds:
        count += 1
    return group[:count]


def _groups(graph: Graph) -> Iterator[list[int]]:
    """Operators between two places where a single tensor is alive."""
    begin = 0
    for last in (*_joints(graph), len(graph.operators) - 1):
        if begin <= last:
            yield list(range(begin, last + 1))
        begin = last + 1


def _joints(graph: Graph) -> Iterator[int]:
    """Indices of operators after which a single tensor is alive, besides shapes."""
    until: dict[str, int] = {}
    for operator in graph.operators:
        until.update(dict.fromkeys(filter(None, operator.inputs), operator.index))
    until.update(dict.fromkeys(graph.outputs, len(graph.operators)))
    # A single input is data. Of several, some are masks and states that may be alive everywhere.
    alive = set(graph.inputs) if len(graph.inputs) == 1 else set()
    for operator in graph.operators:
        alive.update(name for name in operator.outputs if name and _carries_data(graph, name))
        alive = {name for name in alive if until.get(name, -1) > operator.index}
        if len(alive) == 1:
            yield operator.index


def _carries_data(graph: Graph, name: str) -> bool:
    tensor = graph.tensors[name]
    if tensor.constant:
        return False
    elements = tensor.elements
    return not (tensor.dtype in ("int64", "int32") and elements is not None and elements <= _SHAPE_ELEMENTS)


def _with_boundaries(graph: Graph, kept: tuple[int, ...], share: float) -> Subgraph | None:
    """The subgraph of operators with this share of the work; None where the shape of an input of it is not known."""
    members = set(kept)
    made = {name for index in kept for name in graph.operators[index].outputs if name}
    read = dict.fromkeys(name for index in kept for name in graph.operators[index].inputs if name)
    boundaries = []
    for name in read:
        tensor = graph.tensors[name]
        if name in made or tensor.constant or name in graph.inputs:
            continue
        if tensor.variable or tensor.elements is None or tensor.shape is None:
            return None
        shape = tuple(int(str(size)) for size in tensor.shape)
        boundaries.append(BoundaryTensor(name=name, shape=shape, dtype=tensor.dtype))
    others = (operator for operator in graph.operators if operator.index not in members)
    wanted = {*graph.outputs, *(name for operator in others for name in operator.inputs)} | made.difference(read)
    outputs = dict.fromkeys(name for index in kept for name in graph.operators[index].outputs if name in wanted)
    return Subgraph(
        extent="sampled",
        kept=kept,
        inputs=tuple(boundaries),
        outputs=tuple(name for name in outputs if name),
        share=share,
        digest=_digest(graph, kept),
    )


def describe_cut(graph: Graph, subgraph: Subgraph) -> dict[str, Any]:
    """The subgraph as `edgewise.optimizing.subgraph_files.cut_model` takes it; empty for the whole network."""
    if subgraph.extent == "whole":
        return {}
    kept = (graph.operators[index] for index in subgraph.kept)
    return {
        "format": graph.format,
        "operators": [{"index": one.index, "inputs": one.inputs, "outputs": one.outputs} for one in kept],
        "inputs": [asdict(boundary) for boundary in subgraph.inputs],
        "outputs": subgraph.outputs,
    }


def list_shapes(graph: Graph, subgraph: Subgraph) -> dict[str, list[int]]:
    """Shapes of the inputs of the network and of the subgraph, without those with open sizes."""
    known = {name: graph.tensors[name].shape for name in graph.inputs}
    known.update({boundary.name: boundary.shape for boundary in subgraph.inputs})
    sizes = {name: [size for size in shape or () if isinstance(size, int)] for name, shape in known.items()}
    return {name: found for name, found in sizes.items() if len(found) == len(known[name] or ())}


def _digest(graph: Graph, kept: Sequence[int]) -> str:
    """Hash of everything that decides the speed of these operators, and of no name."""
    local = {name: f"input {at}" for at, name in enumerate(graph.inputs)}
    words: list[object] = [graph.format, graph.version]
    for position, index in enumerate(kept):
        operator = graph.operators[index]
        local.update({name: f"{position}.{at}" for at, name in enumerate(operator.outputs) if name})
        words.append(_describe(graph, operator, local))
    return hashlib.sha256(json.dumps(words, default=str, sort_keys=True).encode()).hexdigest()


def _describe(graph: Graph, operator: Operator, local: dict[str, str]) -> list[object]:
    inputs = []
    for name in operator.inputs:
        tensor = graph.tensors[name] if name else None
        where = "" if tensor is None or tensor.constant else local.get(name, name)
        inputs.append([where, tensor and tensor.shape, tensor and tensor.dtype, tensor and tensor.constant])
    outputs = [(graph.tensors[name].shape, graph.tensors[name].dtype) if name else None for name in operator.outputs]
    return [operator.domain, operator.op, operator.version, operator.attributes, inputs, outputs]
