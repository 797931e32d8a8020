"""Whether an ONNX graph holds together: every value made once, made somewhere, and before it is used.

The rules are those of https://onnx.ai/onnx/repo-docs/IR.html (static single assignment, topological order, values of
outer graphs visible in inner ones). Nodes that stand in a wrong order are put into one in which they can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgewise.model.readers.base import order_by_needs
from edgewise.model.readers.onnx_blocks import MAX_OPERATORS, Block, attach, graphs_of
from edgewise.model.readers.onnx_types import GRAPH, GRAPHS, Proto, Wrong, read_text

MAX_CALLS = 100
"""Functions that call one another, from the outermost to the innermost: ONNX Runtime's limit and the inliner's."""
MAX_PATH = 240
"""Last characters of an operator's path that are kept: thousands of operators may be inside calls of long names."""
MAX_EXPANDED = 64 * 2**20
"""Bytes of all nodes once every function is written out where it is called."""
_REFERENCE = 1024
"""Bytes that an attribute handed to a function can grow by where it is used (more has been left out of the file)."""


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
    order, waiting = order_by_needs([{made[name] for name in wanted} for wanted in needs])
    if len(order) < len(needs):
        stuck = next(index for index, count in enumerate(waiting) if count)
        raise Wrong(f"it has a cycle through {block.steps[_walk_back(stuck, needs, made, waiting)].label}")
    block.steps = [block.steps[index] for index in order]
    replace_nodes(block.proto, [block.proto.node[index] for index in order])
    attach(block, block.proto)


def replace_nodes(graph: Proto, nodes: Sequence[Proto]) -> None:
    """Make `nodes` those of `graph`; they may be its own, in part or in another order."""
    # Copies: what a message holds is gone when its list is emptied.
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _walk_back(start: int, needs: list[list[str]], made: dict[str, int], waiting: list[int]) -> int:
    """A node on the circle: behind a circle stand nodes that only wait for it."""
    seen: set[int] = set()
    at = start
    while at not in seen:
        seen.add(at)
        at = next(made[name] for name in needs[at] if waiting[made[name]])
    return at


def check_functions(model: Proto) -> bool:
    """Whether the model calls functions of its own, and they can be written out where they are called.

    Raises:
        Wrong: a function that runs itself, or an expansion that is absurdly large.
    """
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    if not functions:
        return False
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}
    count, total = _expand(model.graph.node, functions, sizes, ())
    if count > MAX_OPERATORS or total > MAX_EXPANDED:
        raise Wrong(
            f"inlining its functions gives more than {MAX_OPERATORS} operators, or more than a file can contain"
        )
    # A graph that is handed to a function could be repeated there, with calls in it: it can't be bounded like this.
    return not any(
        attribute.ref_attr_name and attribute.type in (GRAPH, GRAPHS)
        for function in model.functions
        for node in _all_nodes(function.node)
        for attribute in node.attribute
    )


def _expand(
    nodes: Any,
    functions: dict[tuple[str, str, str], Proto],
    sizes: dict[tuple[str, str, str], tuple[int, int]],
    calls: tuple[tuple[str, str, str], ...],
) -> tuple[int, int]:
    """Nodes, and bytes of them, once every call is replaced by what it calls."""
    if len(calls) > MAX_CALLS:
        raise Wrong(f"its functions call one another more than {MAX_CALLS} deep")
    count = total = 0
    for node in _all_nodes(nodes):
        key = (node.domain, node.op_type, node.overload)
        if key in calls:
            raise Wrong(f"its function {node.op_type!r} runs itself")
        if key in functions and key not in sizes:
            sizes[key] = _expand(functions[key].node, functions, sizes, (*calls, key))
        more, size = sizes.get(key, (1, 0))
        references = sum(1 for attribute in node.attribute if attribute.ref_attr_name)
        count, total = count + more, total + size + node.ByteSize() + _REFERENCE * references
    return count, total


def find_calls(model: Proto) -> list[tuple[str, str]]:
    """Type and path of each node of the outermost graph once functions are written out, in order; see `OnnxNode.path`.

    `check_functions` has bounded the expansion.
    """
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}

    def expand(nodes: Any, calls: str) -> Iterator[tuple[str, str]]:
        for node in nodes:
            own = calls + read_text(node.name or next(filter(None, node.output), "") or node.op_type)
            own = own if len(own) <= MAX_PATH else f"…{own[-MAX_PATH:]}"
            called = functions.get((node.domain, node.op_type, node.overload))
            if called is None:
                yield node.op_type, own if calls else ""
            else:
                yield from expand(called.node, f"{own}/")

    return list(expand(model.graph.node, ""))


def _all_nodes(nodes: Any) -> Iterator[Proto]:
    todo = [nodes]
    while todo:
        for node in todo.pop():
            yield node
            todo += [graph.node for attribute in node.attribute for _, graph in graphs_of(attribute)]
