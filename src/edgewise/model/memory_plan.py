"""When tensors live, how much memory that needs at least, and where an arena would put each of them.

The arena plan is *greedy by size*: tensors from the largest to the smallest, each at the lowest offset where it
overlaps no tensor that lives at the same time (Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, https://arxiv.org/abs/2001.03288; TFLite and TFLite Micro plan so). It is what an interpreter needs
for activations alone: engines add scratch buffers, padding and copies of their own, and a tensor here is never computed
in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from edgewise.model.graph import Graph, Operator

ALIGNMENT = 16
"""Bytes to which offsets are rounded up; TFLite Micro's default."""
MAX_PAIRS = 10_000_000
"""Pairs of tensors that live together: planning more takes minutes, and no network that anybody runs has so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One tensor in the arena.

    Attributes:
        offset, size_bytes: where it lies; its size is not rounded up.
        first, last: indices of the operators between which it lives, both included; an input lives from the first
            operator on, an output to the last, a variable all the time.
    """

    tensor: str
    offset: int
    size_bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """How activations share memory.

    Attributes:
        placements: in the order of their first operator.
        arena_bytes: end of the highest placement, persistent tensors included; None where there are too many tensors to
            plan (`MAX_PAIRS`), and then there are no placements.
        lower_bound_bytes: the most that lives at one time: no plan that moves nothing can need less.
        persistent_bytes: of variables, which live through inferences.
        peak_operator: index of the operator at which `lower_bound_bytes` is reached; None without operators.
        live_bytes: per operator, bytes that live while it runs.
        alignment: of the offsets, bytes.
        folded_bytes: of tensors that follow from constants alone: engines compute them beforehand and keep them like
            weights, so they are not in the plan.
        fused_bytes: of float tensors between ``DequantizeLinear`` and ``QuantizeLinear``: kernels for integers take and
            give the quantised tensors, so these are not in the plan.
        unknown: tensors of unknown size, which are not in the plan.
    """

    placements: tuple[Placement, ...]
    arena_bytes: int | None
    lower_bound_bytes: int
    persistent_bytes: int
    peak_operator: int | None
    live_bytes: tuple[int, ...]
    alignment: int
    folded_bytes: int = 0
    fused_bytes: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def scratch_bytes(self) -> int | None:
        """What of the arena is free again after an inference."""
        return None if self.arena_bytes is None else self.arena_bytes - self.persistent_bytes


def plan_memory(graph: Graph, *, alignment: int = ALIGNMENT) -> MemoryPlan:
    """Lifetimes, bound and arena of the tensors of `graph`.

    What the body of a loop, or the branch that is known to run, needs besides its inputs and outputs is one block of
    memory, called after its operator, that lives while that runs.
    """
    folded = find_folded(graph)
    lifetimes, sizes = _planned(graph, folded)
    known = {name: size for name, size in sizes.items() if size is not None}
    fused = _in_integers(graph, find_lifetimes(graph)).keys() - folded
    return replace(
        plan_tensors(known, lifetimes, operators=len(graph.operators), alignment=alignment),
        persistent_bytes=sum(known[name] for name, each in graph.tensors.items() if each.variable and name in known),
        folded_bytes=sum(graph.tensors[name].size_bytes or 0 for name in folded),
        fused_bytes=sum(graph.tensors[name].size_bytes or 0 for name in fused),
        unknown=tuple(name for name, size in sizes.items() if size is None),
    )


def plan_tensors(
    sizes: Mapping[str, int], lifetimes: Mapping[str, tuple[int, int]], *, operators: int, alignment: int = ALIGNMENT
) -> MemoryPlan:
    """Bound and arena of tensors.

    Args:
        sizes: bytes.
        lifetimes: first and last operator, both included.
        operators: number of operators.
    """
    pairs = _count_pairs((lifetimes[name] for name in sizes), max(operators, 1))
    placements = _place(sizes, lifetimes, operators, alignment) if pairs <= MAX_PAIRS else []
    live = _live(sizes, lifetimes, operators)
    bound = max(live, default=0)
    return MemoryPlan(
        placements=tuple(sorted(placements, key=lambda each: (each.first, each.last, each.offset))),
        arena_bytes=max((each.offset + each.size_bytes for each in placements), default=0)
        if pairs <= MAX_PAIRS
        else None,
        lower_bound_bytes=bound,
        persistent_bytes=0,
        peak_operator=live.index(bound) if live else None,
        live_bytes=tuple(live),
        alignment=alignment,
    )


def find_peak(graph: Graph) -> int | None:
    """`MemoryPlan.lower_bound_bytes` alone, without placing tensors; None where the size of a tensor is not known."""
    lifetimes, sizes = _planned(graph, find_folded(graph))
    return _peak_of(sizes, lifetimes, len(graph.operators))


def _peak_of(sizes: Mapping[str, int | None], lifetimes: Mapping[str, tuple[int, int]], operators: int) -> int | None:
    """Return the most bytes that live at one time; None where a size is open."""
    known = {name: size for name, size in sizes.items() if size is not None}
    return max(_live(known, lifetimes, operators), default=0) if len(known) == len(sizes) else None


def _planned(graph: Graph, folded: Set[str]) -> tuple[dict[str, tuple[int, int]], dict[str, int | None]]:
    """Lifetimes and sizes of all that a plan has to place, bytes; None where a size is open."""
    lifetimes = find_lifetimes(graph)
    spans = _in_integers(graph, lifetimes)
    lifetimes = {name: span for name, span in lifetimes.items() if name not in folded and name not in spans}
    for name, (first, last) in chain.from_iterable(spans.values()):
        if name in lifetimes:
            lifetimes[name] = (min(first, lifetimes[name][0]), max(last, lifetimes[name][1]))
    sizes = {name: graph.tensors[name].size_bytes for name in lifetimes}
    for operator in graph.operators:
        inside = _peak_inside(operator, graph) if operator.subgraphs else 0
        if inside != 0:
            name = f"inside {operator.name}"
            lifetimes[name], sizes[name] = (operator.index, operator.index), inside
    return lifetimes, sizes


def _in_integers(
    graph: Graph, lifetimes: Mapping[str, tuple[int, int]]
) -> dict[str, list[tuple[str, tuple[int, int]]]]:
    """Float tensors that kernels for integers never write → the quantised tensors in their place, and for how long.

    The quantised input of a ``DequantizeLinear`` is read where its output is; the output of a ``QuantizeLinear`` is
    written by the operator, with the activation behind it, whose output alone it quantises.
    """
    consumers: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        for name in {*operator.inputs, *_captured(operator, graph)} - {""}:
            consumers.setdefault(name, []).append(operator)
    found: dict[str, list[tuple[str, tuple[int, int]]]] = {}
    for operator in reversed(graph.operators):
        for name in operator.outputs:
            if name not in lifetimes or name in graph.outputs:
                continue
            readers = consumers.get(name, [])
            if operator.op == "DequantizeLinear":
                found[name] = [(operator.inputs[0], lifetimes[name])]
            elif readers and all(each.op == "QuantizeLinear" for each in readers):
                found[name] = [(each.outputs[0], lifetimes[name]) for each in readers]
            elif len(readers) == 1 and readers[0].kind == "activation" and readers[0].outputs[0] in found:
                behind = found[readers[0].outputs[0]]
                found[name] = [(each, (lifetimes[name][0], last)) for each, (_, last) in behind]
    return found


def _peak_inside(operator: Operator, graph: Graph) -> int | None:
    """Return the most bytes that live at one time inside the graphs that `operator` runs; None where a size is open."""
    taken = operator.geometry.get("branch")
    if operator.kind == "branch" and taken is None:
        return 0
    found = [_peak_of_body(graph.subgraphs[name]) for name in operator.subgraphs if taken in (None, name)]
    known = [each for each in found if each is not None]
    return max(known, default=0) if len(known) == len(found) else None


def _peak_of_body(graph: Graph) -> int | None:
    made = {name for operator in graph.operators for name in operator.outputs}.difference(graph.outputs)
    lifetimes, sizes = _planned(graph, find_folded(graph))
    inside = {name: size for name, size in sizes.items() if name in made or name not in graph.tensors}
    return _peak_of(inside, lifetimes, len(graph.operators))


def find_folded(graph: Graph) -> set[str]:
    """Tensors that operators make from constants alone; outputs of the model are not among them."""
    fixed = {name for name, tensor in graph.tensors.items() if tensor.constant}
    folded: set[str] = set()
    for operator in graph.operators:
        taken = [name for name in operator.inputs if name]
        # Without inputs it may be random; with a body it may see more than its inputs.
        if taken and not operator.subgraphs and all(name in fixed for name in taken):
            made = {name for name in operator.outputs if name and not graph.tensors[name].variable}
            fixed |= made
            folded |= made
    return folded.difference(graph.outputs)


def find_lifetimes(graph: Graph) -> dict[str, tuple[int, int]]:
    """Tensor → first and last operator, both included, of all tensors that need memory while the network runs."""
    end = max(len(graph.operators) - 1, 0)
    first: dict[str, int] = dict.fromkeys(graph.inputs, 0)
    last: dict[str, int] = dict(first)
    for operator in graph.operators:
        for name in operator.outputs:
            if name:
                first.setdefault(name, operator.index)
                last[name] = max(last.get(name, 0), operator.index)
        for name in (*operator.inputs, *_captured(operator, graph)):
            if name and not graph.tensors[name].constant:
                # A value nobody makes comes from outside (a captured value, a state).
                first.setdefault(name, 0)
                last[name] = max(last.get(name, 0), operator.index)
    for name in graph.outputs:
        if name in first:
            last[name] = end
    lifetimes = {name: (first[name], last[name]) for name in first if not graph.tensors[name].constant}
    return {name: (0, end) if graph.tensors[name].variable else span for name, span in lifetimes.items()}


def _captured(operator: Operator, graph: Graph) -> Iterator[str]:
    """Values of `graph` that the bodies of `operator` take from outside, at whatever depth."""
    for name in operator.subgraphs:
        inner = graph.subgraphs.get(name)
        if inner is None:
            continue
        made = {each for step in inner.operators for each in step.outputs}
        taken = {each for step in inner.operators for each in (*step.inputs, *_captured(step, inner))}
        yield from (
            each for each in taken.union(inner.outputs) if each in graph.tensors and each not in made | {*inner.inputs}
        )


def _place(
    sizes: Mapping[str, int], lifetimes: Mapping[str, tuple[int, int]], operators: int, alignment: int
) -> list[Placement]:
    """Greedy by size; ties go to the tensor that lives earlier, then to the name, so that the plan is one for all."""
    order = sorted(sizes, key=lambda name: (-sizes[name], lifetimes[name], name))
    # What is placed, by the steps at which it lives and by the step at which it begins: with both, the tensors that
    # live together with another are found without looking at all the others.
    living: list[list[tuple[int, int]]] = [[] for _ in range(max(operators, 1))]
    beginning: list[list[tuple[int, int]]] = [[] for _ in living]
    answer: list[Placement] = []
    for name in order:
        size, (first, last) = sizes[name], lifetimes[name]
        offset = 0
        if size:
            together = [*living[first], *chain.from_iterable(beginning[first + 1 : last + 1])]
            offset = _lowest_gap(sorted(together), size, alignment)
            taken = (offset, offset + size)
            beginning[first].append(taken)
            for step in range(first, last + 1):
                living[step].append(taken)
        answer.append(Placement(tensor=name, offset=offset, size_bytes=size, first=first, last=last))
    return answer


def _lowest_gap(taken: Sequence[tuple[int, int]], size: int, alignment: int) -> int:
    """Return the lowest aligned offset at which `size` bytes overlap none of `taken`, (begin, end) sorted by begin."""
    offset = 0
    for begin, end in taken:
        if begin >= offset + size:
            break
        offset = max(offset, -(-end // alignment) * alignment)
    return offset


def _count_pairs(lifetimes: Iterable[tuple[int, int]], operators: int) -> int:
    """How many pairs of tensors live together, and steps they live, whichever is more: what planning takes."""
    spans = list(lifetimes)
    begins, ends = [0] * (operators + 2), [0] * (operators + 2)
    for first, last in spans:
        begins[first] += 1
        ends[last + 1] += 1
    pairs = alive = 0
    for step in range(operators):
        alive -= ends[step]
        pairs += begins[step] * (2 * alive + begins[step] - 1) // 2
        alive += begins[step]
    return max(pairs, sum(last - first + 1 for first, last in spans))


def _live(sizes: Mapping[str, int], lifetimes: Mapping[str, tuple[int, int]], operators: int) -> list[int]:
    """Bytes that live at each operator, by the changes between one and the next."""
    changes = [0] * (operators + 1)
    for name, size in sizes.items():
        first, last = lifetimes[name]
        if operators:
            changes[first] += size
            changes[last + 1] -= size
    live, total = [], 0
    for change in changes[:operators]:
        total += change
        live.append(total)
    return live


_TOTALS = (
    "arena_bytes", "lower_bound_bytes", "persistent_bytes", "scratch_bytes", "peak_operator", "live_bytes", "alignment",
    "folded_bytes", "fused_bytes",
)  # fmt: skip


def describe_totals(plan: MemoryPlan) -> dict[str, Any]:
    """Totals and live bytes of a plan, JSON-shaped, without the tensors' places: what records keep."""
    return {name: getattr(plan, name) for name in _TOTALS} | {"live_bytes": list(plan.live_bytes)}


def describe_plan(plan: MemoryPlan) -> dict[str, Any]:
    """All of a plan, JSON-shaped."""
    return {
        "method": "greedy by size; activations only, nothing computed in place",
        **describe_totals(plan),
        "unknown": list(plan.unknown),
        "tensors": [
            {"name" if key == "tensor" else key: value for key, value in asdict(each).items()}
            for each in plan.placements
        ],
    }
