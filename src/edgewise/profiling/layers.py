"""The rows of a profile: groups of operators with their time, cost and tensors; overheads; operators without a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from edgewise.model.cost import OperatorCost, add_known, count, stored_size
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.memory_plan import find_folded
from edgewise.profiling.attribution import PRODUCTS, Attribution, Group, attribute
from edgewise.profiling.conservation import TOLERANCE, LatencyBreakdown, break_down_latency
from edgewise.profiling.removed_operators import prove_removed, unmatched_because
from edgewise.profiling.step_times import MeanDuration, StepTimings
from edgewise.record import Layer, LayerTensor, Profile
from edgewise.record.layer import LayerKind
from edgewise.runtime.base import EngineNode, EngineProfile

_ROUNDING = 1e-12
"""Seconds that are nothing but what is left of rounding."""
_SHARES = "; each is its share of the latency, by what an ordinary inference took in turns with the profiled ones"
NOT_IN_TURNS = (
    "the layers and the whole are from other processes, not in turns: beside other work they may differ by more than "
    "their intervals say"
)
STRETCHED = 0.1
"""How much longer than the processor time of their inferences the steps may be before a caution says so."""
NOT_THE_WHOLE = "layer times of this run don't add up to the whole: "
NAMELESS = "not attributed"
"""What the row of a step says that nobody could attribute."""

_ROLES = {
    "layout": "change of layout",
    "precision": "conversion of type",
    "copy": "copy",
    "control": "control",
    "operator": NAMELESS,
}
_PLACES = {
    "between operators": "the engine's own work between operators",
    "guards": "torch.compile's check that its code still fits",
    "session": "entering and leaving an inference in the engine",
    "call": "the call of the engine",
    "buffers and call": "passing buffers and calling the engine",
}


def build_profile(
    graph: Graph,
    profiles: Sequence[EngineProfile],
    *,
    latency: float,
    uncertainty: float = 0.0,
    provider: str | None = None,
) -> tuple[tuple[Layer, ...], Profile]:
    """Layers and totals of a run.

    Args:
        profiles: one per process, at least one.
        latency: end to end without profiling, s; above 0: the whole that the layers add up to.
        uncertainty: half-width of its interval, relative.
        provider: the accelerated provider that was asked for, by the engine's own word; None for the processor.
    """
    nodes = profiles[0].nodes
    timings = StepTimings(profiles, latency=latency, uncertainty=uncertainty)
    found = attribute(graph, nodes, ordered=profiles[0].ordered)
    lookup = _GraphLookup(graph, found.groups)
    rows = [_operator_row(lookup, group, nodes, timings, provider) for group in found.groups]
    rows += [_overhead_row(nodes[at], timings.duration([at])) for at in (*found.overheads, *found.unattributed)]
    nameless = timings.duration(found.unattributed).value
    accounts = break_down_latency(
        latency=latency,
        steps=sum(row.time or 0.0 for row in rows) - nameless,
        nameless=nameless,
        bounds=_bounds(profiles[0], timings),
    )
    rows.sort(key=lambda row: (row.start is None, row.start or 0.0))
    # Drawn from the first step on: before it only the profiler may be at work.
    zero = next((row.start for row in rows if row.start is not None), 0.0)
    rows = [row if row.start is None else replace(row, start=row.start - zero) for row in rows]
    rows += [
        Layer(index=0, name=name, op=_PLACES.get(name, "the engine's own work"), kind="overhead", time=seconds)
        for name, seconds in accounts.overheads.items()
        if seconds > _ROUNDING
    ]
    proofs = prove_removed(graph, found, profiles[0])
    unknown = unmatched_because(found)
    rows += [
        _stepless_row(
            lookup,
            graph.operators[index],
            "eliminated" if index in proofs else "unmatched",
            because=proofs.get(index) or unknown,
        )
        for index in found.without_step
    ]
    layers = tuple(
        replace(row, index=at, share=None if row.time is None else row.time / latency) for at, row in enumerate(rows)
    )
    notes = list(profiles[0].notes)
    if abs(accounts.conservation - 1) > TOLERANCE:
        notes.append(
            f"the parts add up to {accounts.conservation:.1%} of the whole, because the engine's times under the "
            "profiler differ"
        )
    if timings.stretched > 1 + STRETCHED:
        notes.append(
            f"{NOT_THE_WHOLE}by the engine's clock they are {timings.stretched:.0%} of the processor time of their "
            "inferences, as on a machine with other work; each is its share of their sum"
        )
    if not timings.in_turns:
        notes.append(NOT_IN_TURNS)
    if timings.left_out:
        notes.append(f"{timings.left_out} process(es) compiled the model to other steps and were left out")
    profile = _totals(layers, found, timings, accounts)
    return layers, replace(
        profile,
        method=profiles[0].method + (_SHARES if timings.in_turns else ""),
        latency=latency,
        notes=tuple(notes),
        inputs=tuple(_tensor(graph.tensors[name]) for name in graph.inputs),
        outputs=tuple(_tensor(graph.tensors[name]) for name in graph.outputs),
    )


def layers_without_times(graph: Graph, *, because: str) -> tuple[Layer, ...]:
    """Return the operators of a network that was not profiled, as layers; `because` is why they have no time."""
    lookup = _GraphLookup(graph, ())
    rows = (_stepless_row(lookup, operator, "operator", because=because) for operator in graph.operators)
    return tuple(replace(row, index=at) for at, row in enumerate(rows))


class _GraphLookup:
    """A graph with what is looked up of it again and again.

    Attributes:
        consumers: tensor → operators that take it.
        folded: tensors that follow from constants alone, which engines compute beforehand.
    """

    def __init__(self, graph: Graph, groups: Sequence[Group]) -> None:
        self.graph = graph
        self.consumers = graph.consumers()
        self._producers = graph.producers()
        self.folded = find_folded(graph)
        kinds = [({graph.operators[index].kind for index in group.operators}, group.operators) for group in groups]
        # Conversions that the engine really makes: what they hand on is read as they made it.
        self._converted = {index for found, members in kinds if found == {"dequantize"} for index in members}

    def source(self, name: str, inside: Set[int]) -> tuple[Tensor, bool]:
        """Return the tensor that is read where operators `inside` a step take `name`, and whether it is kept
        like a weight.

        A dequantise without a step of its own is computed with its consumer, which reads the integers.
        """
        while (maker := self._producers.get(name)) is not None and maker not in inside | self._converted:
            operator = self.graph.operators[maker]
            if operator.kind != "dequantize" or not operator.inputs:
                break
            name = operator.inputs[0]
        tensor = self.graph.tensors[name]
        return tensor, tensor.constant or name in self.folded


def _totals(layers: Sequence[Layer], found: Attribution, timings: StepTimings, accounts: LatencyBreakdown) -> Profile:
    operators = timings.duration([at for group in found.groups for at in group.steps])
    return Profile(
        method="",
        sessions=timings.sessions,
        inferences=timings.inferences,
        latency=0.0,
        operators_time=operators.value,
        operators_low=operators.low,
        operators_high=operators.high,
        overheads_time=sum(each.time or 0.0 for each in layers if each.kind == "overhead" and each.op != NAMELESS),
        conservation=accounts.conservation,
        attributed=accounts.attributed,
        unattributed=accounts.unattributed,
        profiled_latency=timings.total_s,
        profiler_time=timings.profiler_s,
    )


def _bounds(profile: EngineProfile, timings: StepTimings) -> dict[str, float]:
    """Return the engine's own places → s in profiled inferences, without what its clock cut from the steps."""
    cut = timings.correction(range(timings.steps))
    return {
        name: seconds - cut if name == "between operators" else seconds for name, seconds in timings.overheads.items()
    }


def _operator_row(
    lookup: _GraphLookup, group: Group, nodes: Sequence[EngineNode], timings: StepTimings, provider: str | None
) -> Layer:
    graph = lookup.graph
    members = [graph.operators[index] for index in group.operators]
    steps = [nodes[at] for at in group.steps]
    costs = [count(operator, graph) for operator in members]
    main, op = _main(members, costs, sorted(steps, key=lambda node: -sum(node.times_ns)))
    time = timings.duration(group.steps)
    inputs, outputs, weights = _boundary(lookup, members)
    ran_by = sorted({node.provider for node in steps if node.provider})
    accelerated = None if provider is None or not ran_by else ran_by == [provider]
    return Layer(
        index=0,
        name=main.name,
        label=main.label,
        op=op,
        nodes=tuple(operator.name for operator in members),
        operators=group.operators,
        engine_nodes=tuple(node.name for node in steps),
        engine_op=_distinct(node.op for node in steps),
        time=time.value,
        low=time.low,
        high=time.high,
        start=_start(steps),
        # Without the engine's word, the type of the first input that is data in the model.
        dtype=_distinct(node.dtype or "" for node in steps)
        or next((tensor.dtype for tensor in graph.input_tensors(main)), None),
        provider=_distinct(ran_by) or None,
        inputs=tuple(map(_tensor, inputs)),
        outputs=tuple(map(_tensor, outputs)),
        attributes=dict(main.attributes),
        supported=accelerated,
        error=None if accelerated is not False else f"{provider} does not support it; {', '.join(ran_by)} does",
        **_costs(costs, weights=weights, moving=(*inputs, *outputs)),
    )


def _main(
    members: Sequence[Operator], costs: Sequence[OperatorCost], steps: Sequence[EngineNode]
) -> tuple[Operator, str]:
    """Return the operator a group is called after, and its type: the engine's own for what it fused under another name.

    The operator has the most arithmetic, or where none is known the kind that the longest step is for.

    Args:
        steps: the longest first.
    """
    own = [node.kinds[0] if node.kinds else "" for node in steps]
    # A conversion around an operator is never what a row is about.
    weight = [
        (cost.macs or 0, operator.kind == own[0], operator.kind not in ("quantize", "dequantize"), cost.ops or 0)
        for operator, cost in zip(members, costs, strict=True)
    ]
    chief = max(range(len(members)), key=lambda at: (weight[at], -at))
    main, macs = members[chief], costs[chief].macs
    is_product = bool(macs) or (macs is None and main.kind in PRODUCTS)
    if len(members) == 1 or not steps[0].type or (is_product and (main.kind in own or not own[0])):
        return main, main.op
    return main, steps[0].type


def _costs(costs: Sequence[OperatorCost], *, weights: Mapping[str, Tensor], moving: Iterable[Tensor]) -> dict[str, Any]:
    """MACs, ops, parameters and bytes of a group; what flows inside it moves no bytes."""
    stored = add_known(list(map(stored_size, weights.values())))
    activations = add_known([tensor.size_bytes for tensor in {tensor.name: tensor for tensor in moving}.values()])
    ops = add_known([cost.ops for cost in costs])
    # Packed, sparse and repeated weights are unpacked before they are read.
    unpacked = add_known([tensor.size_bytes for tensor in weights.values()])
    moved = None if unpacked is None or activations is None else unpacked + activations
    return {
        "macs": add_known([cost.macs for cost in costs]),
        "ops": ops,
        "parameters": add_known([tensor.elements for tensor in weights.values()]),
        "weight_bytes": stored,
        "activation_bytes": activations,
        "intensity": None if ops is None or not moved else ops / moved,
        "cost_unknown_because": next((cost.why for cost in costs if cost.why), ""),
    }


def _boundary(
    lookup: _GraphLookup, members: Sequence[Operator]
) -> tuple[list[Tensor], list[Tensor], dict[str, Tensor]]:
    """Return what a group reads and what it hands on, constants left out, each once; and its weights by name."""
    graph, consumers = lookup.graph, lookup.consumers
    made = dict.fromkeys(name for operator in members for name in operator.outputs if name)
    reads = dict.fromkeys(name for operator in members for name in operator.inputs if name and name not in made)
    inside = {operator.index for operator in members}
    hands_on = [
        name
        for name in made
        if name not in lookup.folded
        if len(members) == 1 or name in graph.outputs or name not in consumers or not inside.issuperset(consumers[name])
    ]
    weights = {
        name: graph.tensors[name] for operator in members for name in (*operator.weights, *operator.option_weights)
    }
    taken: dict[str, Tensor] = {}
    for name in reads:
        tensor, kept = lookup.source(name, inside)
        if not kept:
            taken[tensor.name] = tensor
        elif tensor.name != name or not tensor.constant:
            weights[tensor.name] = tensor  # behind a dequantise, or computed beforehand
    return list(taken.values()), [graph.tensors[name] for name in hands_on], weights


def _tensor(tensor: Tensor) -> LayerTensor:
    return LayerTensor(name=tensor.name, shape=tensor.shape, dtype=tensor.dtype)


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(word for word in words if word))


def _start(steps: Sequence[EngineNode]) -> float | None:
    begins = [node.start_ns for node in steps if node.start_ns is not None]
    return min(begins) * 1e-9 if begins else None


def _overhead_row(node: EngineNode, time: MeanDuration) -> Layer:
    return Layer(
        index=0,
        name=node.name,
        op=_ROLES[node.role],
        kind="overhead",
        engine_nodes=(node.name,),
        engine_op=node.op,
        time=time.value,
        low=time.low,
        high=time.high,
        start=_start([node]),
        dtype=node.dtype,
        provider=node.provider,
    )


def _stepless_row(lookup: _GraphLookup, operator: Operator, kind: LayerKind, *, because: str) -> Layer:
    """Return an operator without a time, which is absent `because` of something."""
    graph = lookup.graph
    inputs, outputs, weights = _boundary(lookup, [operator])
    cost = count(operator, graph)
    return Layer(
        index=0,
        name=operator.name,
        label=operator.label,
        op=operator.op,
        kind=kind,
        nodes=(operator.name,),
        operators=(operator.index,),
        time_absent_because=because,
        inputs=tuple(map(_tensor, inputs)),
        outputs=tuple(map(_tensor, outputs)),
        attributes=dict(operator.attributes),
        **_costs([cost], weights=weights, moving=(*inputs, *outputs)),
    )
