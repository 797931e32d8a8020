"""Which of a model's operators each step of an engine executes, after the engine has fused, renamed and reordered them.

An engine tells only part of it: names that it kept, tensors that are still there. From these *claims* the rest follows
along the model's own data flow: what lies between two steps was executed by one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

PASSES = frozenset({"Identity", "Dropout"})
"""They hand on what they get; an engine that shows no step for them has left them out."""
#: they prepare what the operator after them takes, and are executed with it where they are fused
_PREPARES = frozenset({"DequantizeLinear", "Pad", "Cast"})
BEGINS = frozenset(
    {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "MatMul", "Gemm", "MatMulInteger", "QLinearMatMul",
     "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "LSTM", "GRU", "RNN"}
)  # fmt: skip
"""They begin a step or are alone: engines merge what follows into them, never them into what went before."""
#: changes of shape and order; without a step of their own, between two steps that share a hidden tensor, they are gone
_MOVES = frozenset({"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """One operator as a file has it.

    Attributes:
        inputs, outputs: names of tensors; "" where one is left out.
        signature: equal for two operators with the same type and attributes; "" where that is not known.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Outline:
    """Operators of a graph in an order in which they can run, and its tensors whose values are in the file.

    Attributes:
        values: of small constants: equal for two of equal content.
    """

    nodes: tuple[OutlineNode, ...]
    constants: frozenset[str] = field(default_factory=frozenset)
    values: Mapping[str, str] = field(default_factory=dict)

    def producers(self) -> dict[str, int]:
        """Name of a tensor → index of the operator that makes it."""
        return {name: index for index, node in enumerate(self.nodes) for name in node.outputs if name}


def name_operators(outline: Outline) -> tuple[str, ...]:
    """Return a unique name for every operator: the file's, otherwise that of the first tensor it makes."""
    count: dict[str, int] = {}
    for node in outline.nodes:
        count[node.name] = count.get(node.name, 0) + 1
    return tuple(
        node.name if node.name and count[node.name] == 1 else next(filter(None, node.outputs), node.name)
        for node in outline.nodes
    )


def complete_claims(outline: Outline, claims: Sequence[Set[int]], *, visible: Set[int]) -> list[tuple[int, ...]]:
    """Extend what each step is known to execute to all that it executes.

    Operators whose value is constant, copies of a claimed one, and those that only pass on get no step: engines
    compute them beforehand or leave them out.

    Args:
        outline: the model's operators.
        claims: of every step, in the order of execution, the operators it is known to execute (indices).
        visible: operators whose outputs the engine's graph still has as tensors: nothing after one of them can have
            been executed by the same step.
    """
    owners: dict[int, set[int]] = {}
    for step, claimed in enumerate(claims):
        for index in claimed:
            owners.setdefault(index, set()).add(step)
    before = _predecessors(outline)
    left = _left_out(outline, before, owners)
    hidden = _absorb_following(outline, before, owners, left=left, visible=visible)
    _absorb_preceding(outline, before, owners, left=left, hidden=hidden)
    found: list[list[int]] = [[] for _ in claims]
    for index in sorted(owners):
        for step in owners[index]:
            found[step].append(index)
    return [tuple(indices) for indices in found]


def _predecessors(outline: Outline) -> list[tuple[int, ...]]:
    """Of every operator, the operators whose outputs it takes."""
    producers = outline.producers()
    return [
        tuple(dict.fromkeys(producers[name] for name in node.inputs if name in producers)) for node in outline.nodes
    ]


def find_constant(outline: Outline) -> set[int]:
    """Return the operators that depend on no input of the model."""
    producers = outline.producers()
    constant: set[int] = set()
    for index, node in enumerate(outline.nodes):
        fed = [name for name in node.inputs if name and name not in outline.constants]
        if all(producers.get(name) in constant for name in fed):
            constant.add(index)
    return constant


def _left_out(outline: Outline, before: Sequence[Sequence[int]], owners: dict[int, set[int]]) -> set[int]:
    """Operators without a step that depend on no input of the model, or do what a claimed one does."""
    producers = outline.producers()
    constant = find_constant(outline)
    first: dict[str, int] = {}
    same: list[int] = []
    for index, node in enumerate(outline.nodes):
        stands_for = [same[before_it] if before_it < index else before_it for before_it in before[index]]
        own = [outline.values.get(name, name) for name in node.inputs if name not in producers]
        key = f"{node.op}\0{node.signature}\0{stands_for}\0{own}" if node.signature else f"\0{index}"
        same.append(first.setdefault(key, index))
    # Of operators that do the same an engine keeps any one.
    kept = {same[index] for index in owners}
    copies = {index for index, stands_for in enumerate(same) if index not in owners and stands_for in kept}
    left = {index for index in constant if index not in owners} | copies
    # What leads to copies alone, and has a duplicate that leads to what is kept, is a copy too.
    duplicates = Counter(same)
    after: list[set[int]] = [set() for _ in outline.nodes]
    for index in reversed(range(len(outline.nodes))):
        if index not in owners and duplicates[same[index]] > 1 and after[index] and after[index] <= left:
            left.add(index)
        for at in before[index]:
            after[at].add(index)
    return left


def _absorb_following(
    outline: Outline, before: Sequence[Sequence[int]], owners: dict[int, set[int]], *, left: Set[int], visible: Set[int]
) -> set[int]:
    """Give each free operator after a hidden tensor to the step that made that tensor, the last one where several did.

    Returns the operators whose output is hidden inside or right after a step.
    """
    hidden: set[int] = set()
    for index, node in enumerate(outline.nodes):
        behind = [at for at in before[index] if at in hidden]
        if index not in owners and index not in left and node.op not in PASSES | _PREPARES | _MOVES | BEGINS:
            fed = [at for at in before[index] if at not in left]
            if behind and all(at in owners for at in fed):
                last = max(step for at in fed for step in owners[at])
                if any(last in owners[at] for at in behind):
                    owners[index] = {last}
        if (index in owners and index not in visible) or (index not in owners and behind):
            hidden.add(index)
    return hidden


def _absorb_preceding(
    outline: Outline, before: Sequence[Sequence[int]], owners: dict[int, set[int]], *, left: Set[int], hidden: Set[int]
) -> None:
    """Give every operator that is still free to the first of the steps that take its outputs.

    Where several steps repeat it (a dequantisation), one row for it is enough, and none of them is tied to the others.
    """
    after: list[set[int]] = [set() for _ in outline.nodes]
    for index in reversed(range(len(outline.nodes))):
        if index not in owners and index not in left:
            node = outline.nodes[index]
            gone = node.op in PASSES or (node.op in _MOVES and any(at in hidden for at in before[index]))
            if after[index] and not gone:
                owners[index] = {min(after[index])}
        for at in before[index]:
            if index not in left:
                after[at] |= owners.get(index, after[index])
