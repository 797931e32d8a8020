"""Steps of engines that keep no names of operators, but their types and the modules that run them (PyTorch)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from edgewise.model.dialects.torch_network import base_name
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.runtime.base import EngineNode

Claims = dict[int, set[int]]
"""Position of a step → indices of the operators it executes."""


def claim_by_module(graph: Graph, nodes: Sequence[EngineNode], claims: Claims) -> None:
    """Add to `claims` what each step of `nodes` executes, by its `EngineNode.executes`.

    The operators of one type in one module are told apart by their order, if graph and engine have the same number of
    them; without any module, those of the whole network. A step whose type the graph does not have in that module
    (PyTorch runs a whole encoder layer in one call) executes what nothing else executes in it.
    """
    known = any(each.module for node in nodes for each in node.executes)
    places: dict[tuple[str, str], list[int]] = {}
    for operator in graph.operators:
        places.setdefault((_module_of(operator) if known else "", base_name(operator.op)), []).append(operator.index)
    for at, node in enumerate(nodes):
        found = {
            group[each.place]
            for each in node.executes
            if len(group := places.get((each.module, each.type), ())) == each.count
        }
        if found and node.role == "operator":
            claims[at] = claims.get(at, set()) | found
    if known:
        _claim_rest_of_modules(graph, nodes, claims)


def _claim_rest_of_modules(graph: Graph, nodes: Sequence[EngineNode], claims: Claims) -> None:
    open_steps: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        if at not in claims and node.executes and node.role == "operator":
            module = os.path.commonpath(["/" + each.module.replace(".", "/") for each in node.executes])
            open_steps.setdefault(module.strip("/").replace("/", "."), []).append(at)
    # The innermost modules first: what is left in them is not their parents'.
    for module in sorted(open_steps, key=lambda path: -path.count(".") - bool(path)):
        taken = {index for found in claims.values() for index in found}
        rest = {
            operator.index
            for operator in graph.operators
            if operator.index not in taken and f"{_module_of(operator)}.".startswith(f"{module}." if module else "")
        }
        for at in open_steps[module] if rest else ():
            claims[at] = set(rest)


def _module_of(operator: Operator) -> str:
    return str(operator.attributes.get("module", ""))


def graph_of_steps(nodes: Sequence[EngineNode], model_format: str, *, because: str) -> Graph:
    """Return the operators that an engine ran as a graph: types under the paths of their modules.

    So the layers of a network whose graph can't be read still have names. Their tensors and arithmetic are unknown.

    Args:
        because: the reason why the graph can't be read.
    """
    executed = dict.fromkeys(each for node in nodes for each in node.executes)
    operators, tensors = [], {}
    for index, each in enumerate(executed):
        name = f"{each.module}/{each.type}".strip("/") + (f"_{each.place}" if each.place else "")
        unknown = {role: Tensor(name=f"{name}:{role}", shape=None, dtype="unknown") for role in ("weights", "output")}
        tensors.update({tensor.name: tensor for tensor in unknown.values()})
        operators.append(
            Operator(
                index=index,
                name=name,
                op=f"aten.{each.type}",
                outputs=(unknown["output"].name,),
                weights=(unknown["weights"].name,),
                attributes={"module": each.module} if each.module else {},
                unknown_because=because,
            )
        )
    note = f"layers are the operators that ran, by module; their tensors and MACs are unknown: {because}"
    return Graph(
        name="",
        format=model_format,
        tensors=tensors,
        operators=tuple(operators),
        inputs=(),
        outputs=(),
        metadata={"unobserved": note},
    )
