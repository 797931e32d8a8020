"""Which nodes of a model became which node of it after a library has folded and fused them, found by their tensors.

Optimisers rename nodes and keep tensors: a fused node makes the last tensor of what it replaces and takes the first
ones. Between the two lies what it stands for.
"""

from __future__ import annotations

from typing import Any


def find_origins(before: Any, after: Any) -> dict[str, frozenset[str]]:
    """Name of a node of `after` → names of the nodes of `before` that it stands for; none where it is new.

    Args:
        before, after: ``onnx.ModelProto``; every node has a unique name.
    """
    makers = {output: node for node in before.graph.node for output in node.output if output}
    known = {output for node in after.graph.node for output in node.output if output}
    return {node.name: _covered(node, makers, known) for node in after.graph.node}


def _covered(node: Any, makers: dict[str, Any], known: set[str]) -> frozenset[str]:
    """What lies between the outputs of `node` and the tensors that other nodes make now, `known` with its own ones."""
    own = set(node.output)
    found: set[str] = set()
    wanted = [output for output in node.output if output in makers]
    while wanted:
        maker = makers[wanted.pop()]
        if maker.name not in found:
            found.add(maker.name)
            wanted += [name for name in maker.input if name in makers and (name not in known or name in own)]
    return frozenset(found)


def chosen(origins: dict[str, frozenset[str]], names: tuple[str, ...]) -> list[str]:
    """Nodes that stand for any of the nodes called `names`."""
    wanted = set(names)
    return [node for node, covered in origins.items() if not wanted.isdisjoint(covered)]
