"""Which operators of an ONNX file the operators of ONNX Runtime's own graph execute.

The engine keeps some names and tensors and changes others: operators in its blocked layout (``NCHWc``) are called after
the tensor they made before, fusions after the operator they began with, copies get a suffix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from edgewise.runtime.base import Role
from edgewise.runtime.operator_mapping import (
    BEGINS,
    PASSES,
    Outline,
    OutlineNode,
    complete_claims,
    find_constant,
    name_operators,
)

_REORDERS = frozenset({"ReorderInput", "ReorderOutput"})
#: what the engine inserts where the model has none → what for
_INSERTED: dict[str, Role] = {
    **dict.fromkeys(_REORDERS, "layout"), "Transpose": "layout", "Cast": "precision", "QuantizeLinear": "precision",
    "DequantizeLinear": "precision", "MemcpyFromHost": "copy", "MemcpyToHost": "copy",
}  # fmt: skip
_FUSED = {"Gelu": "Erf", "BiasGelu": "Erf", "FastGelu": "Tanh", "QuickGelu": "Sigmoid"}
"""Activations into which the engine fuses a chain of one input → the operator that the chain has."""
_BLOCKED = re.compile(r"(?:_bn|_mul)?_nchwc$")
_SUFFIXES = (_BLOCKED, re.compile(r"_token_\d+$"), re.compile(r"/[^/]*$"))
"""What the engine appends to names, the surer first: names of the model's own have slashes too."""


@dataclass(frozen=True, slots=True)
class MappedNode:
    """What one operator of the engine's graph executes.

    Attributes:
        originals: names of the model's operators.
        inputs, outputs: names of the model's tensors it takes and makes, as far as they are still there.
        place: in the model's order, of the first of them.
    """

    role: Role = "operator"
    originals: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    place: int | None = None


def map_operators(original: Outline, optimised: Outline) -> list[MappedNode]:
    """For every operator of the engine's graph what it executes of the model's."""
    finder = _Finder(original)
    roles = [finder.role_of(node) for node in optimised.nodes]
    meaning = _meanings(optimised, roles)
    claims: list[set[int]] = []
    visible: set[int] = set()
    for node, role in zip(optimised.nodes, roles, strict=True):
        if role != "operator":
            claims.append(set())
            continue
        kept = finder.makers(meaning.get(name, name) for name in node.outputs)
        # A step that is called after a tensor makes that tensor, whatever it calls it in its own layout; but sums and
        # activations become part of a convolution after it got its name.
        kept = kept or (set() if node.op == "Conv" else finder.maker_it_is_called_after(node))
        visible |= kept
        claims.append(kept or finder.namesake(node))
    visible |= _trace_back(optimised, claims, roles=roles, model=_Tracer(original, claims))
    _inherit(optimised, claims, roles=roles, known=finder.tensors)
    names = name_operators(original)
    executed = complete_claims(original, claims, visible=visible)
    return [
        MappedNode(
            role=role,
            originals=tuple(names[index] for index in indices),
            inputs=_known(node.inputs, meaning, finder.tensors),
            outputs=_known(node.outputs, meaning, finder.tensors),
            place=min(indices, default=None),
        )
        for node, role, indices in zip(optimised.nodes, roles, executed, strict=True)
    ]


class _Finder:
    """Operators of the model by what the engine may have kept of them."""

    def __init__(self, original: Outline) -> None:
        self._nodes = original.nodes
        self._producers = original.producers()
        self._by_name: dict[str, set[int]] = {}
        for index, node in enumerate(original.nodes):
            if node.name:
                self._by_name.setdefault(node.name, set()).add(index)
        self.tensors = frozenset(name for node in original.nodes for name in (*node.inputs, *node.outputs) if name)

    def makers(self, tensors: Iterator[str]) -> set[int]:
        """Operators that make any of `tensors`."""
        return {self._producers[name] for name in tensors if name in self._producers}

    def namesake(self, node: OutlineNode) -> set[int]:
        """Return the operator that `node` is called after, exactly or but for what the engine has appended."""
        for name in _stems(node.name):
            if len(self._by_name.get(name, ())) == 1:
                return self._by_name[name]
            if name in self._producers and name != node.name:
                return {self._producers[name]}
        return set()

    def maker_it_is_called_after(self, node: OutlineNode) -> set[int]:
        """Return the operator whose output `node` is called after, as the engine calls those in its blocked layout."""
        stem = _BLOCKED.sub("", node.name)
        return {self._producers[stem]} if stem != node.name and stem in self._producers else set()

    def role_of(self, node: OutlineNode) -> Role:
        """Return what `node` is for: an operator that the model has, or one that the engine has inserted."""
        role = _INSERTED.get(node.op, "operator")
        if role == "operator" or node.op in _REORDERS:
            return role
        same = self.namesake(node) | self.makers(iter(node.outputs))
        return "operator" if any(self._nodes[index].op == node.op for index in same) else role


def _stems(name: str) -> Iterator[str]:
    """`name`, then what is left of it without one suffix after the other."""
    while name:
        yield name
        suffix = next((each for each in _SUFFIXES if each.search(name)), None)
        if suffix is None:
            return
        name = suffix.sub("", name)


def _meanings(optimised: Outline, roles: Sequence[Role]) -> dict[str, str]:
    """Tensor of the engine's graph → the tensor of the same values on the other side of what the engine inserted."""
    meaning: dict[str, str] = {}
    for node, role in zip(reversed(optimised.nodes), reversed(roles), strict=True):
        if role != "operator" and node.inputs and node.outputs:
            meaning.setdefault(node.inputs[0], meaning.get(node.outputs[0], node.outputs[0]))
    return meaning


class _Tracer:
    """The model's operators backwards from those that steps of the engine are known to execute."""

    def __init__(self, original: Outline, claims: Sequence[set[int]]) -> None:
        self.nodes = original.nodes
        self.taken = {index for claimed in claims for index in claimed}
        self._producers = original.producers()
        self._given = original.constants | {
            name for index in find_constant(original) for name in original.nodes[index].outputs
        }

    def find_begin(self, op: str, claimed: Set[int]) -> int | None:
        """Return the one operator of type `op` from which nothing but free operators lead to `claimed`."""
        found, seen, pending = set[int](), set[int](), list(claimed)
        while pending:
            index = pending.pop()
            if index in seen or (index in self.taken and index not in claimed):
                continue
            seen.add(index)
            if self.nodes[index].op == op:
                found.add(index)
            elif self.nodes[index].op not in BEGINS:
                pending += [self._producers[name] for name in self._data(index) if name in self._producers]
        return found.pop() if len(found) == 1 else None

    def make_chain(self, last: int, op: str) -> tuple[set[int], str]:
        """Return the shortest chain of free operators that ends with `last`, has an `op` and takes one tensor, and
        that tensor; without such a chain `last` alone and "".
        """
        chain = {last}
        while True:
            fed = {name for index in chain for name in self._data(index) if self._producers.get(name) not in chain}
            if len(fed) == 1 and any(self.nodes[index].op == op for index in chain):
                return chain, fed.pop()
            free = [self._producers[name] for name in fed if name in self._producers]
            free = [index for index in free if index not in self.taken and self.nodes[index].op not in BEGINS]
            if not free:
                return {last}, ""
            chain.add(max(free))

    def find_maker(self, name: str) -> int | None:
        """Return the operator that computes the tensor `name`, before those that only hand it on."""
        while (index := self._producers.get(name)) is not None:
            if index in self.taken or self.nodes[index].op not in PASSES | {"Cast"}:
                return index
            name = self.nodes[index].inputs[0]
        return None

    def _data(self, index: int) -> Iterator[str]:
        return (name for name in self.nodes[index].inputs if name and name not in self._given)


def _trace_back(optimised: Outline, claims: list[set[int]], *, roles: Sequence[Role], model: _Tracer) -> set[int]:
    """Find what steps execute whose tensors all have names of the engine's own, from the steps that take these.

    What a step takes is what the operator takes that it executes. Returns the operators whose outputs are such tensors.
    """
    made: dict[str, int] = {}
    found: set[int] = set()
    for index in reversed(range(len(optimised.nodes))):
        node = optimised.nodes[index]
        own = made.get(node.outputs[0]) if node.outputs else None
        if own is not None and roles[index] != "operator":
            made[node.inputs[0]] = own
        free = not claims[index] and own is not None and own not in model.taken
        if own is not None and free and (node.op in _FUSED or node.op == model.nodes[own].op):
            claims[index] = {own}
            found.add(own)
        for name, source in _find_sources(node, claims[index], model):
            maker = model.find_maker(source)
            if maker is not None:
                made.setdefault(name, maker)
        model.taken |= claims[index]
    return found


def _find_sources(node: OutlineNode, claimed: set[int], model: _Tracer) -> Iterator[tuple[str, str]]:
    """Yield what `node` takes and the model's tensor that this is; add to `claimed` what it surely executes."""
    if node.op in _FUSED and len(claimed) == 1:
        chain, source = model.make_chain(min(claimed), _FUSED[node.op])
        claimed |= chain
        yield from [(node.inputs[0], source)] if source else []
        return
    begin = model.find_begin(node.op, claimed) if claimed else None
    if begin is not None:
        claimed.add(begin)
        data = 1 if node.op in BEGINS else None
        yield from zip(node.inputs[:data], model.nodes[begin].inputs[:data], strict=False)


def _inherit(optimised: Outline, claims: list[set[int]], *, roles: Sequence[Role], known: frozenset[str]) -> None:
    """Give steps of an unfolded operator that nothing is known of to what they feed."""
    needed: dict[str, set[int]] = {}
    for index in reversed(range(len(optimised.nodes))):
        node = optimised.nodes[index]
        if not claims[index]:
            found = {claim for name in node.outputs for claim in needed.get(name, ())}
            if roles[index] == "operator" and node.op not in _FUSED:
                claims[index] = found
            passed = found
        else:
            passed = claims[index]
        for name in node.inputs:
            if name and name not in known:
                needed.setdefault(name, set()).update(passed)


def _known(names: Sequence[str], meaning: Mapping[str, str], known: frozenset[str]) -> tuple[str, ...]:
    return tuple(found for name in names if (found := meaning.get(name, name)) in known)
