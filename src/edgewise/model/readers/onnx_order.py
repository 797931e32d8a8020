"""Whether an ONNX graph holds together: every value made once, made somewhere, and before it is used.

The rules are those of https://onnx.ai/onnx/repo-docs/IR.html (static single assignment, topological order, values of
outer graphs visible in inner ones). Nodes that stand in a wrong order are put into one in which they can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.model.readers.base import Wrong, order_by_needs
from edgewise.model.readers.onnx_blocks import MAX_OPERATORS, Block, attach, graphs_of
from edgewise.model.readers.onnx_types import Proto, read_text

MAX_CALLS = 100
"""Functions that call one another, from the outermost to the innermost: ONNX Runtime's limit and the inliner's."""
MAX_PATH = 240
"""Last characters of an operator's path that are kept: thousands of operators may be inside calls of long names."""


def put_in_order(block: Block) -> None:
    """Sorts the nodes of a whole model's graph, and of the graphs inside, where they are out of order.

    Raises:
        Wrong: a value that is made twice or nowhere, or a circle; the message names a node.
    """
    for name, user in _order(block).items():
        raise Wrong(f"{user} reads {name!r}, which no node makes")


def _order(block: Block) -> dict[str, str]:
    """Sorts one graph; returns the values it needs from outside, each with what uses it."""
    graph = block.proto
    ready = {info.name for info in graph.input}
    ready.update([tensor.name for tensor in graph.initializer])
    ready.update([sparse.values.name for sparse in graph.sparse_initializer])
    ready.discard("")
    made = _find_makers(block, ready)
    needs: list[list[str]] = []
    outside: dict[str, str] = {}
    sorted_already = True
    for step in block.steps:
        names = step.inputs
        for _, inner in step.inner:
            names = (*names, *_order(inner))
        wanted = []
        for name in names:
            if name in made:
                wanted.append(name)
                sorted_already = sorted_already and name in ready
            elif name and name not in ready:
                outside.setdefault(name, step.label)
        needs.append(wanted)
        ready.update(step.outputs)
    if not sorted_already:
        _sort(block, needs, made)
    for info in graph.output:
        if info.name not in ready:
            outside.setdefault(info.name, f"the graph {graph.name!r}, as its output,")
    return outside


def _find_makers(block: Block, ready: set[str]) -> dict[str, int]:
    """Value → index of the node that makes it."""
    made: dict[str, int] = {}
    for index, step in enumerate(block.steps):
        for name in step.outputs:
            if not name:
                continue
            if name in made or name in ready:
                raise Wrong(f"{step.label} makes {name!r}, which another node makes too")
            made[name] = index
    return made


def _sort(block: Block, needs: list[list[str]], made: dict[str, int]) -> None:
    """Puts nodes after what they need, else in the order they have."""
    order, stuck = order_by_needs([{made[name] for name in wanted} for wanted in needs])
    if stuck is not None:
        raise Wrong(f"it has a cycle through {block.steps[stuck].label}")
    block.steps = [block.steps[index] for index in order]
    replace_nodes(block.proto, [block.proto.node[index] for index in order])
    attach(block, block.proto)


def replace_nodes(graph: Proto, nodes: Sequence[Proto]) -> None:
    """Make `nodes` those of `graph`; they may be its own, in part or in another order."""
    # Copies: what a message holds is gone when its list is emptied.
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def find_calls(model: Proto) -> list[tuple[str, str]]:
    """Return type and path of each node of the outermost graph once functions are written out; see `OnnxNode.path`.

    A model without functions of its own has none.

    Raises:
        Wrong: functions that call themselves, or that make absurdly many operators.
    """
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    calls: list[tuple[str, str]] = []
    left = MAX_OPERATORS

    def expand(nodes: Any, above: str, depth: int, found: list[tuple[str, str]]) -> None:
        nonlocal left
        if depth > MAX_CALLS:
            raise Wrong(f"its functions call one another more than {MAX_CALLS} deep")
        for node in nodes:
            left -= 1
            if left < 0:
                raise Wrong(f"inlining its functions gives more than {MAX_OPERATORS} operators")
            path = above + read_text(node.name or next(filter(None, node.output), "") or node.op_type)
            path = path if len(path) <= MAX_PATH else f"…{path[-MAX_PATH:]}"
            called = functions.get((node.domain, node.op_type, node.overload))
            if called is None:
                found.append((node.op_type, path if above else ""))
            else:
                expand(called.node, f"{path}/", depth + 1, found)
            for attribute in node.attribute:
                for _, graph in graphs_of(attribute):
                    expand(graph.node, "", depth + 1, [])  # only counted

    if functions:
        expand(model.graph.node, "", 0, calls)
    return calls
