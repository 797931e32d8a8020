"""Which part of a network stands for all of it: the whole, one without repeated blocks, or samples of a large one.

A convolution alone says too little: what a pass makes of it depends on its neighbours (quantised tensors pass from one
to the next, activations fuse). A subgraph is therefore made of runs of neighbouring operators as they are in the
network, and each run is as long as the time allows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from edgewise.model.cost import OperatorCost, count
from edgewise.model.graph import Graph, Operator

Extent = Literal["whole", "abridged", "sampled"]

_MACS_PER_BYTE = 4
"""Reading or writing a byte takes about as long as so many multiply-accumulates: one core does 50 G of them a second
with 512-bit vectors and moves some 12 GB. It ranks operators; no prediction rests on it."""
_COPIES = 2
"""Of a repeated block so many stay: one more than the first, so that a boundary between two of them is there too."""
_LONGEST_UNIT = 24
"""Segments of one repeated block, at most."""
_WINDOWS = 2
_FIXED_S = 0.5
"""What a pass takes for the smallest network, its libraries already imported."""
_SHAPE_ELEMENTS = 64
"""Integer tensors up to this size carry shapes and positions, not data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryTensor:
    """A tensor at the edge of a subgraph that is no input of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """Attributes:
    extent: how it was chosen.
    kept: indices of operators in `Graph.operators`, ascending.
    renamed: name of a tensor that a left-out block makes → the one that is read instead of it.
    inputs: tensors that left-out operators would make, for sampled ones; the network's own inputs stay inputs.
    outputs: tensors that the subgraph shall make.
    share: of the network's estimated work that is in it, or of which an equal copy is, 0…1.
    digest: tells networks of different operators, shapes or types apart, not those of other weights only.
    """

    extent: Extent
    kept: tuple[int, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[BoundaryTensor, ...] = ()
    outputs: tuple[str, ...] = ()
    share: float = 1.0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class _Segment:
    """Operators `first` … `last` between two places where a single tensor crosses."""

    first: int
    last: int
    enters: str
    leaves: str
    pattern: str


def choose_subgraph(graph: Graph, *, seconds: float, cuttable: bool = True) -> Subgraph | None:
    """The part of `graph` to work on, so that a pass takes about `seconds` for it; None where none can be had.

    Args:
        cuttable: files of this format can be cut; otherwise it is the whole or nothing.
    """
    costs = [count(operator, graph) for operator in graph.operators]
    everything = range(len(graph.operators))
    affordable = _effort(everything, costs) <= seconds
    if not cuttable or graph.subgraphs or not graph.operators:
        # What the bodies of branches and loops read from outside is not told, so such networks are not cut.
        return _whole(graph) if affordable else None
    abridged = _abridge(graph, costs)
    if _effort(abridged.kept, costs) <= seconds:
        # Leaving out what is cheap anyway would only make the answer less exact.
        return _whole(graph) if affordable else abridged
    return _sample(graph, costs, abridged, seconds)


def _whole(graph: Graph) -> Subgraph:
    return Subgraph(
        extent="whole",
        kept=tuple(range(len(graph.operators))),
        outputs=graph.outputs,
        digest=_digest(graph, range(len(graph.operators)), {}),
    )


def _effort(kept: Sequence[int], costs: Sequence[OperatorCost]) -> float:
    """Seconds that passes take for these operators, roughly: what the slower ones were seen to need on one core."""
    parameters = sum(costs[index].parameters or 0 for index in kept)
    macs = sum(costs[index].macs or 0 for index in kept)
    return _FIXED_S + 0.012 * len(kept) + 0.12e-6 * parameters + 0.1e-9 * macs


def work_of(cost: OperatorCost) -> float:
    """What an operator takes, in multiply-accumulates; the estimate that ranks operators."""
    moved = (cost.activation_bytes or 0) + (cost.weight_bytes or 0)
    return float((cost.macs or 0) + _MACS_PER_BYTE * moved)


def _abridge(graph: Graph, costs: Sequence[OperatorCost]) -> Subgraph:
    """The network without copies of equal blocks that follow each other."""
    segments = _segments(graph)
    renamed: dict[str, str] = {}
    dropped: set[int] = set()
    at = 0
    while at < len(segments):
        length, times = _repetition(segments, at)
        for block in range(_COPIES, times):
            begin = at + block * length
            members = segments[begin : begin + length]
            renamed[members[-1].leaves] = members[0].enters
            dropped.update(index for each in members for index in range(each.first, each.last + 1))
        at += max(1, length * times)
    renamed = {name: _resolve(name, renamed) for name in renamed}
    if _reads_what_is_gone(graph, dropped, renamed):
        renamed, dropped = {}, set()
    kept = tuple(index for index in range(len(graph.operators)) if index not in dropped)
    return Subgraph(
        extent="abridged",
        kept=kept,
        renamed=renamed,
        outputs=tuple(renamed.get(name, name) for name in graph.outputs),
        digest=_digest(graph, kept, renamed),
    )


def _reads_what_is_gone(graph: Graph, dropped: Set[int], renamed: Mapping[str, str]) -> bool:
    """Whether something that stays needs another value of a dropped block than its data: a shape, say."""
    gone = {name for index in dropped for name in graph.operators[index].outputs if name} - renamed.keys()
    read = {name for operator in graph.operators if operator.index not in dropped for name in operator.inputs}
    return bool(gone & (read | set(graph.outputs)))


def _resolve(name: str, renamed: Mapping[str, str]) -> str:
    while name in renamed:
        name = renamed[name]
    return name


def _repetition(segments: Sequence[_Segment], at: int) -> tuple[int, int]:
    """Length of the block of segments at `at` and how often it follows itself; (0, 1) where it doesn't."""
    patterns = [segment.pattern for segment in segments]
    best = (0, 1)
    for length in range(1, min(_LONGEST_UNIT, (len(patterns) - at) // 2) + 1):
        unit = patterns[at : at + length]
        times = 1
        while patterns[at + times * length : at + (times + 1) * length] == unit:
            times += 1
        if times > 1 and times * length > best[0] * best[1]:
            best = (length, times)
    return best


def _segments(graph: Graph) -> list[_Segment]:
    """The network cut at every place where one tensor crosses, besides shapes and, of several, its inputs."""
    joints = dict(_joints(graph))
    found: list[_Segment] = []
    first, enters = 0, graph.inputs[0] if len(graph.inputs) == 1 else ""
    for last, leaves in joints.items():
        pattern = _pattern(graph, range(first, last + 1), enters)
        found.append(_Segment(first, last, enters, leaves, pattern))
        first, enters = last + 1, leaves
    return found


def _joints(graph: Graph) -> Iterator[tuple[int, str]]:
    """Index of an operator after which a single tensor is alive, and that tensor."""
    until: dict[str, int] = {}
    for operator in graph.operators:
        until.update(dict.fromkeys(filter(None, operator.inputs), operator.index))
    until.update(dict.fromkeys(graph.outputs, len(graph.operators)))
    # One input is data like any other. Of several some are masks and states, which may cross every place.
    alive = set(graph.inputs) if len(graph.inputs) == 1 else set()
    for operator in graph.operators:
        alive.update(name for name in operator.outputs if name and _carries_data(graph, name))
        alive = {name for name in alive if until.get(name, -1) > operator.index}
        if len(alive) == 1:
            yield operator.index, next(iter(alive))


def _carries_data(graph: Graph, name: str) -> bool:
    tensor = graph.tensors[name]
    if tensor.constant:
        return False
    elements = tensor.elements
    return not (tensor.dtype in ("int64", "int32") and elements is not None and elements <= _SHAPE_ELEMENTS)


def _pattern(graph: Graph, indices: Sequence[int], enters: str) -> str:
    """What equal runs of operators have in common, and nothing else has."""
    local: dict[str, str] = {enters: "enters"} if enters else {}
    words: list[object] = []
    for index in indices:
        operator = graph.operators[index]
        local.update({name: f"{index - indices[0]}.{at}" for at, name in enumerate(operator.outputs) if name})
        words.append(_describe(graph, operator, local))
    return hashlib.sha256(json.dumps(words, default=str, sort_keys=True).encode()).hexdigest()


def _describe(graph: Graph, operator: Operator, local: Mapping[str, str]) -> list[object]:
    inputs = []
    for name in operator.inputs:
        tensor = graph.tensors[name] if name else None
        where = "" if tensor is None or tensor.constant else local.get(name, name)
        inputs.append([where, tensor and tensor.shape, tensor and tensor.dtype, tensor and tensor.constant])
    outputs = [(graph.tensors[name].shape, graph.tensors[name].dtype) if name else None for name in operator.outputs]
    return [operator.domain, operator.op, operator.version, operator.attributes, inputs, outputs]


def _digest(graph: Graph, kept: Sequence[int], renamed: Mapping[str, str]) -> str:
    """Of everything that decides how fast it is, whatever its tensors are called."""
    local = {name: f"input {at}" for at, name in enumerate(graph.inputs)}
    words: list[object] = [graph.format, graph.version]
    for position, index in enumerate(kept):
        operator = graph.operators[index]
        local.update({name: f"{position}.{at}" for at, name in enumerate(operator.outputs) if name})
        local.update({name: local[source] for name, source in renamed.items() if source in local})
        words.append(_describe(graph, operator, local))
    return hashlib.sha256(json.dumps(words, default=str, sort_keys=True).encode()).hexdigest()


def _sample(graph: Graph, costs: Sequence[OperatorCost], abridged: Subgraph, seconds: float) -> Subgraph | None:
    """Runs of neighbours, spread over the network's work, that together take `seconds`."""
    work = {index: work_of(costs[index]) for index in abridged.kept}
    total = sum(work.values())
    groups = list(_groups(graph, abridged.kept))
    kept: set[int] = set()
    for window in range(_WINDOWS):
        run: list[int] = []
        passed = 0.0
        for group in groups:
            passed += sum(work[index] for index in group)
            if passed < total * window / _WINDOWS or kept.intersection(group):
                continue
            fitting = _fitting(run, group, costs, (seconds - _FIXED_S) / _WINDOWS)
            run += fitting
            if len(fitting) < len(group):
                break
        kept.update(run)
    if not any(graph.operators[index].weights for index in kept):
        return None
    return _with_boundaries(graph, tuple(sorted(kept)), abridged.renamed, sum(work[index] for index in kept) / total)


def _groups(graph: Graph, kept: Sequence[int]) -> Iterator[list[int]]:
    """Operators that are kept, segment by segment; what follows the last one is a group too."""
    begin = 0
    for last in (*(segment.last for segment in _segments(graph)), len(graph.operators) - 1):
        if group := [index for index in kept if begin <= index <= last]:
            yield group
        begin = last + 1


def _fitting(run: Sequence[int], group: Sequence[int], costs: Sequence[OperatorCost], seconds: float) -> Sequence[int]:
    """The whole group where it still fits; what fits of it where it would be the first; else nothing."""
    if _effort([*run, *group], costs) - _FIXED_S <= seconds:
        return group
    if run:
        return ()
    count = 0
    while count < len(group) and _effort(group[: count + 1], costs) - _FIXED_S <= seconds:
        count += 1
    return group[:count]


def _with_boundaries(graph: Graph, kept: tuple[int, ...], renamed: Mapping[str, str], share: float) -> Subgraph | None:
    members = set(kept)
    made = {name for index in kept for name in graph.operators[index].outputs if name}
    read = [renamed.get(name, name) for index in kept for name in graph.operators[index].inputs if name]
    outside = [name for name in dict.fromkeys(read) if name not in made and not graph.tensors[name].constant]
    boundaries = []
    for name in outside:
        tensor = graph.tensors[name]
        if name in graph.inputs:
            continue
        if tensor.variable or tensor.elements is None or tensor.shape is None:
            return None
        boundaries.append(
            BoundaryTensor(name=name, shape=tuple(int(str(size)) for size in tensor.shape), dtype=tensor.dtype)
        )
    wanted = {renamed.get(name, name) for name in graph.outputs}
    for operator in graph.operators:
        if operator.index not in members:
            wanted.update(renamed.get(name, name) for name in operator.inputs if name)
    unread = made.difference(read)
    outputs = tuple(name for index in kept for name in graph.operators[index].outputs if name in wanted | unread)
    return Subgraph(
        extent="sampled",
        kept=kept,
        renamed=renamed,
        inputs=tuple(boundaries),
        outputs=tuple(dict.fromkeys(outputs)),
        share=share,
        digest=_digest(graph, kept, renamed),
    )
