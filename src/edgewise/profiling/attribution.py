"""From an engine's steps to the model's operators, whatever was fused, renamed, reordered or left out.

Four sources, in this order: names that the engine keeps (of operators or of the tensors they make), modules and types
of operators (`edgewise.profiling.module_operators`), tensors that its steps read and make, and where an engine keeps
nothing the order and kind of its steps (`edgewise.profiling.alignment`).
Steps and operators that belong together make one group; a group is one row of a profile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgewise.model.graph import Graph, Operator
from edgewise.profiling.alignment import align
from edgewise.profiling.module_operators import Claims, claim_by_module
from edgewise.runtime.base import EngineNode

PRODUCTS = frozenset({"convolution", "transposed-convolution", "matrix-multiplication"})
"""Kinds that do most of a network's arithmetic."""
_MERGED_BEHIND = frozenset({"activation", "elementwise", "normalization"})
"""Kinds that engines merge into the step that makes their input; where the model's input is that, into the next."""
_CONVERSIONS = frozenset({"quantize", "dequantize"})
"""Kinds that engines merge into the step that takes their output, or else into the one that makes their input."""
_FREE = frozenset({"movement"})
"""Kinds that cost nothing of their own: an engine names them with many steps, and they tie none of them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Steps of an engine and the operators they execute together.

    Attributes:
        steps: positions in the engine's nodes, in order.
        operators: indices in the graph, in order; empty for steps that stand for no operator.
    """

    steps: tuple[int, ...]
    operators: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """What an engine's steps execute.

    Attributes:
        groups: steps with their operators, in the order of their first step.
        overheads: positions of steps that do what the model does not ask for.
        unattributed: positions of steps that compute something nobody could tell.
        without_step: indices of operators that no step is known to execute.
    """

    groups: tuple[Group, ...]
    overheads: tuple[int, ...]
    unattributed: tuple[int, ...]
    without_step: tuple[int, ...]


def attribute(graph: Graph, nodes: Sequence[EngineNode], *, ordered: bool) -> Attribution:
    """Who executes what.

    Args:
        nodes: the engine's steps in the order of execution.
        ordered: whether that order follows the model's, which steps without names need.
    """
    claims = _claims_by_name(graph, nodes)
    claim_by_module(graph, nodes, claims)
    _look_behind_passes(graph, nodes, claims)
    _claim_by_tensors(graph, nodes, claims)
    _join_reshapes(graph, nodes, claims)
    if ordered:
        _claim_by_order(graph, nodes, claims)
    _adopt(graph, claims)
    groups = _group(graph, claims)
    grouped = {at for group in groups for at in group.steps}
    executed = {index for group in groups for index in group.operators}
    alone = [at for at in range(len(nodes)) if at not in grouped]
    return Attribution(
        groups=groups,
        overheads=tuple(at for at in alone if nodes[at].role != "operator"),
        unattributed=tuple(at for at in alone if nodes[at].role == "operator"),
        without_step=tuple(each.index for each in graph.operators if each.index not in executed),
    )


def _claims_by_name(graph: Graph, nodes: Sequence[EngineNode]) -> Claims:
    operators = {operator.name: operator.index for operator in graph.operators}
    tensors = graph.producers()
    # An operator and another one's tensor may share a name: an engine means the one or the other throughout.
    told = [name for node in nodes for name in node.originals]
    as_tensors = sum(name in tensors for name in told) > sum(name in operators for name in told)
    first, second = (tensors, operators) if as_tensors else (operators, tensors)
    claims: Claims = {}
    for at, node in enumerate(nodes):
        found = {index for name in node.originals if (index := first.get(name, second.get(name))) is not None}
        if found and node.role == "operator":
            claims[at] = found
    return claims


_PASSES = frozenset({"Identity", "Dropout", "StopGradient"})
"""Operators that hand on what they get: an engine that removes one gives its name to the operator before it."""


def _look_behind_passes(graph: Graph, nodes: Sequence[EngineNode], claims: Claims) -> None:
    """Let a step that is called after operators that do nothing execute the one whose output they hand on."""
    taken = {index for found in claims.values() for index in found}
    producers = graph.producers()
    for claimed in claims.values():
        while all(graph.operators[index].op in _PASSES for index in claimed):
            taken_in = (name for index in claimed for name in graph.operators[index].inputs)
            behind = {producers[name] for name in taken_in if name in producers}
            if not behind - claimed or behind & taken:
                break
            claimed.update(behind)
            taken |= behind


def _claim_by_tensors(graph: Graph, nodes: Sequence[EngineNode], claims: Claims) -> None:
    """Let a step without names execute what lies between the tensors it reads and those it makes."""
    producers = graph.producers()
    for at, node in enumerate(nodes):
        if at in claims or node.role != "operator" or not node.outputs:
            continue
        stop = {name for name in node.inputs if name in graph.tensors}
        found: set[int] = set()
        pending = [name for name in node.outputs if name in producers]
        while pending:
            index = producers[pending.pop()]
            if index in found:
                continue
            found.add(index)
            pending += [name for name in graph.operators[index].inputs if name in producers and name not in stop]
            if not stop:
                break  # without a beginning only the operator that makes the output is sure
        if found:
            claims[at] = found


def _join_reshapes(graph: Graph, nodes: Sequence[EngineNode], claims: Claims) -> None:
    """Give the operator whose output a step only moves to the step before it.

    ONNX Runtime makes a reshape, a Gemm and a reshape of a product and the addition behind it; the last one has the
    addition's output.
    """
    producers = graph.producers()
    owners: dict[int, list[int]] = {}
    for at, claimed in claims.items():
        for index in claimed:
            owners.setdefault(index, []).append(at)
    for at, claimed in list(claims.items()):
        kinds = nodes[at].kinds
        moves = kinds[:1] == ("movement",) and len(claimed) == 1
        index = min(claimed)
        if not moves or owners[index] != [at] or graph.operators[index].kind in kinds:
            continue
        makers = {producers[name] for name in graph.operators[index].inputs if name in producers}
        steps = [step for maker in makers for step in owners.get(maker, ()) if graph.operators[maker].kind in PRODUCTS]
        for step in steps[:1]:
            claims[step].add(index)


def _claim_by_order(graph: Graph, nodes: Sequence[EngineNode], claims: Claims) -> None:
    """Align the steps that nothing else told with the operators that nothing else claimed, between sure neighbours."""
    taken = {index for found in claims.values() for index in found}
    for steps, operators in _stretches(len(nodes), graph.operators, claims):
        open_steps = [at for at in steps if at not in claims and nodes[at].role == "operator"]
        open_operators = [index for index in operators if index not in taken]
        kinds = [graph.operators[index].kind for index in open_operators]
        found = align([frozenset(nodes[at].kinds) for at in open_steps], kinds)
        for at, place in zip(open_steps, found, strict=True):
            if place is not None:
                claims[at] = {open_operators[place]}


def _stretches(
    count: int, operators: Sequence[Operator], claims: Mapping[int, set[int]]
) -> Iterable[tuple[range, range]]:
    """Ranges of steps and of operators between claims that keep the order of both."""
    step, operator = 0, 0
    for at in sorted(claims):
        first, last = min(claims[at]), max(claims[at])
        if first < operator:
            continue  # out of order: no fixed point
        yield range(step, at), range(operator, first)
        step, operator = at + 1, last + 1
    yield range(step, count), range(operator, len(operators))


def _adopt(graph: Graph, claims: Claims) -> None:
    """Give operators that nobody claims, of kinds that engines merge, to the step that must have merged them.

    An operator that computes something can't have vanished: the step that makes all of its inputs does it too (a fused
    activation), or else the one that takes its output (a padding before a convolution, a conversion of its input).
    """
    owner = {index: at for at, found in claims.items() for index in found}
    producers, consumers = graph.producers(), graph.consumers()

    def before(operator: Operator) -> Iterable[int]:
        return (producers[name] for name in operator.inputs if name in producers)

    def after(operator: Operator) -> Iterable[int]:
        return (index for name in operator.outputs for index in consumers.get(name, ()))

    def settle(operator: Operator, neighbours: Iterable[int]) -> bool:
        at = next((owner[index] for index in neighbours if index in owner), None)
        if at is None:
            return False
        owner[operator.index] = at
        claims[at].add(operator.index)
        return True

    for operator in graph.operators:
        if operator.index in owner or operator.kind not in _MERGED_BEHIND or not _computes(operator, graph):
            continue
        makers = list(before(operator))
        if all(index in owner for index in makers):
            settle(operator, makers)
    for operator in reversed(graph.operators):
        first = operator.kind in _MERGED_BEHIND and not list(before(operator))
        merged = first or operator.kind in _CONVERSIONS or "pad" in operator.op.lower()
        if merged and operator.index not in owner and _computes(operator, graph):
            settle(operator, after(operator)) or settle(operator, before(operator))


def _computes(operator: Operator, graph: Graph) -> bool:
    """Whether it depends on the model's input: what works on constants alone is computed beforehand."""
    return any(name and not graph.tensors[name].constant for name in operator.inputs)


def _group(graph: Graph, claims: Claims) -> tuple[Group, ...]:
    """Put steps together that share an operator that costs something; a free one goes with the first that names it."""
    parent = {at: at for at in claims}

    def find(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    first: dict[int, int] = {}
    for at in sorted(claims):
        free = [index for index in claims[at] if graph.operators[index].kind in _FREE]
        whole = len(free) == len(claims[at])
        for index in sorted(claims[at]):
            if index not in first:
                first[index] = at
            elif index not in free or whole:
                one, other = sorted((find(first[index]), find(at)))
                parent[other] = one
    steps: dict[int, list[int]] = {}
    operators: dict[int, set[int]] = {}
    for at in sorted(claims):
        steps.setdefault(find(at), []).append(at)
    for index, at in first.items():
        operators.setdefault(find(at), set()).add(index)
    return tuple(
        Group(steps=tuple(members), operators=tuple(sorted(operators.get(root, ()))))
        for root, members in sorted(steps.items())
    )
