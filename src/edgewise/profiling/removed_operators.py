"""Why an operator has no step of an engine: what proves that it was removed; without a proof it is *not matched*."""

from __future__ import annotations

from collections.abc import Set

from edgewise.model.cost import count
from edgewise.model.dialects.torch_network import base_name
from edgewise.model.graph import Graph, Operator
from edgewise.profiling.attribution import Attribution
from edgewise.runtime.base import EngineProfile

BEFOREHAND = "the engine computed it beforehand, because it depends only on constants and shapes"
UNUSED = "its output is not used"
PASSES = "it returns its input unchanged"
IDLE = "the engine's step for it does no work: input and output share memory"
MOVED = "it only moves values, and every step of the engine belongs to other operators"

_SHAPES = frozenset({"Shape", "ShapeOf", "SHAPE", "Size", "Rank", "RANK"})
_PASSES = frozenset(
    {"Identity", "Dropout", "StopGradient", "Reshape", "RESHAPE", "Flatten", "Squeeze", "SQUEEZE", "Unsqueeze",
     "EXPAND_DIMS", "ExpandDims"}
)  # fmt: skip
_TORCH_PASSES = frozenset(
    {"alias", "detach", "dropout", "flatten", "reshape", "squeeze", "unflatten", "unsqueeze", "view"}
)


def prove_removed(graph: Graph, found: Attribution, profile: EngineProfile) -> dict[int, str]:
    """Operators without a step that the engine need not execute → what proves it.

    An operator that computes something from what is fed is among them only where nothing uses its result.
    """
    fixed, used = _fixed(graph), _used(graph)
    idle = set(profile.idle)
    # A step that changes a layout may be a transposition of the model.
    open_steps = [*found.unattributed, *(at for at in found.overheads if profile.nodes[at].role in ("layout", "copy"))]
    proofs: dict[int, str] = {}
    for index in found.without_step:
        operator = graph.operators[index]
        outputs = {name for name in operator.outputs if name}
        cost = count(operator, graph)
        if outputs and outputs <= fixed:
            proofs[index] = BEFOREHAND
        elif index not in used:
            proofs[index] = UNUSED
        elif operator.op in _PASSES or (operator.op.startswith("aten.") and base_name(operator.op) in _TORCH_PASSES):
            proofs[index] = PASSES
        elif cost.macs == 0 and idle & {operator.name, *outputs}:
            proofs[index] = IDLE
        elif operator.kind == "movement" and not operator.subgraphs and not open_steps:
            proofs[index] = MOVED
    return proofs


def unmatched_because(found: Attribution) -> str:
    """Why it is not known which step executes an operator."""
    if count := len(found.unattributed):
        return f"no step of the engine names it, and {count} steps that ran are unknown"
    return "no step of the engine names it; it was either merged into another step or left out"


def _fixed(graph: Graph) -> Set[str]:
    """Tensors that don't depend on the values that are fed: constants, shapes that are known, and what follows."""
    fixed = {name for name, tensor in graph.tensors.items() if tensor.constant}
    for operator in graph.operators:
        taken = [name for name in operator.inputs if name]
        known = operator.op in _SHAPES and all(graph.tensors[name].elements is not None for name in taken)
        # Without inputs it may be random; with a body it may see more than its inputs.
        if taken and not operator.subgraphs and (known or fixed.issuperset(taken)):
            fixed |= {name for name in operator.outputs if name and not graph.tensors[name].variable}
    return fixed


def _used(graph: Graph) -> Set[int]:
    """Operators that an output of the model depends on, or that keep a state or run a body."""
    producers = graph.producers()
    pending = [name for name in graph.outputs if name in producers]
    used = {each.index for each in graph.operators if each.subgraphs or _keeps_state(graph, each)}
    pending += [name for index in used for name in graph.operators[index].inputs if name in producers]
    while pending:
        index = producers[pending.pop()]
        if index not in used:
            used.add(index)
            pending += [name for name in graph.operators[index].inputs if name in producers]
    return used


def _keeps_state(graph: Graph, operator: Operator) -> bool:
    # What writes a state may name it as an input only.
    return any(name and graph.tensors[name].variable for name in (*operator.inputs, *operator.outputs))
