"""When tensors live, how much memory that needs at least, and where an arena would put each of them.

The arena plan is *greedy by size*: tensors from the largest to the smallest, each at the lowest offset where it
overlaps no tensor that lives at the same time (Y. Pisarchyk, J. Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, https://arxiv.org/abs/2001.03288; TFLite and TFLite Micro plan so). It is what an interpreter needs
for activations alone: engines add scratch buffers, padding and copies of their own, and a tensor here is never computed
in place.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass

from edgewise.model.graph import Graph

ALIGNMENT = 16
"""Bytes to which offsets are rounded up; TFLite Micro's default."""


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
        arena_bytes: end of the highest placement, persistent tensors included.
        lower_bound_bytes: the most that lives at one time: no plan that moves nothing can need less.
        persistent_bytes: of variables, which live through inferences.
        peak_operator: index of the operator at which `lower_bound_bytes` is reached; None without operators.
        live_bytes: per operator, bytes that live while it runs.
        alignment: of the offsets, bytes.
        unknown: tensors of unknown size, which are not in the plan.
    """

    placements: tuple[Placement, ...]
    arena_bytes: int
    lower_bound_bytes: int
    persistent_bytes: int
    peak_operator: int | None
    live_bytes: tuple[int, ...]
    alignment: int
    unknown: tuple[str, ...] = ()

    @property
    def scratch_bytes(self) -> int:
        """What of the arena is free again after an inference."""
        return self.arena_bytes - self.persistent_bytes


def plan_memory(graph: Graph, *, alignment: int = ALIGNMENT) -> MemoryPlan:
    """Lifetimes, bound and arena of the tensors of `graph` (not of the graphs its operators run)."""
    lifetimes = find_lifetimes(graph)
    sizes = {name: graph.tensors[name].size_bytes for name in lifetimes}
    known = {name: size for name, size in sizes.items() if size is not None}
    placements = _place(known, lifetimes, alignment)
    live = _live(known, lifetimes, len(graph.operators))
    bound = max(live, default=0)
    return MemoryPlan(
        placements=tuple(sorted(placements, key=lambda each: (each.first, each.last, each.offset))),
        arena_bytes=max((each.offset + each.size_bytes for each in placements), default=0),
        lower_bound_bytes=bound,
        persistent_bytes=sum(size for name, size in known.items() if graph.tensors[name].variable),
        peak_operator=live.index(bound) if live else None,
        live_bytes=tuple(live),
        alignment=alignment,
        unknown=tuple(name for name, size in sizes.items() if size is None),
    )


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
        for name in operator.inputs:
            if name and not graph.tensors[name].constant:
                # A value nobody makes comes from outside (a captured value, a state).
                first.setdefault(name, 0)
                last[name] = max(last.get(name, 0), operator.index)
    for name in graph.outputs:
        if name in first:
            last[name] = end
    lifetimes = {name: (first[name], last[name]) for name in first if not graph.tensors[name].constant}
    return {name: (0, end) if graph.tensors[name].variable else span for name, span in lifetimes.items()}


def _place(sizes: Mapping[str, int], lifetimes: Mapping[str, tuple[int, int]], alignment: int) -> list[Placement]:
    """Greedy by size; ties go to the tensor that lives earlier, then to the name, so that the plan is one for all."""
    order = sorted(sizes, key=lambda name: (-sizes[name], lifetimes[name], name))
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), sorted by offset
    answer: list[Placement] = []
    for name in order:
        size, (first, last) = sizes[name], lifetimes[name]
        offset = 0
        for low, high, begin, end in placed:
            if begin > last or end < first:
                continue
            if low >= offset + size and size:
                break
            offset = max(offset, -(-high // alignment) * alignment)
        if size:
            insort(placed, (offset, offset + size, first, last))
        answer.append(Placement(tensor=name, offset=offset, size_bytes=size, first=first, last=last))
    return answer


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
