"""An ONNX graph's nodes, read once from their messages, and whether they hold together.

Protobuf's accessors are what reading a model costs. The rules are those of https://onnx.ai/onnx/repo-docs/IR.html:
every value is made once, made somewhere, and before it is used; inner graphs see the values of outer ones. Nodes that
stand in a wrong order are put into one in which they can run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.model.readers.base import Wrong, order_by_needs
from edgewise.model.readers.onnx_types import GRAPH, GRAPHS, TENSOR, Proto, read_text
from edgewise.model.readers.onnx_wire import Description, LeftOut

MAX_OPERATORS = 200_000
"""Of all graphs of a model together, functions expanded."""
NATIVE = ("", "ai.onnx")
"""Names of ONNX's own operator set."""


@dataclass(slots=True)
class OnnxNode:
    """A node.

    Attributes:
        domain: of its operator set, "" for ONNX's own.
        inner: the graphs of its attributes, with names that are unique within the node.
        path: names of the calls of functions that it was written out for, and its own, with ``/`` between; "" for a
            node that the file itself has.
    """

    proto: Proto
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: list[Proto]
    inner: list[tuple[str, Block]]
    path: str = ""

    @property
    def label(self) -> str:
        """What a message calls it."""
        return f"{self.op} {self.proto.name or next(filter(None, self.outputs), 'without a name')!r}"

    @property
    def is_constant(self) -> bool:
        """Whether it is a well-formed Constant node, which is no operator but a constant tensor."""
        return self.op == "Constant" and not self.domain and len(self.attributes) == 1 == len(self.outputs)


@dataclass(slots=True)
class Block:
    """A graph and its nodes.

    Attributes:
        proto: the graph's message; the nodes' own may be of an earlier copy of it, which is equal to it.
    """

    proto: Proto
    steps: list[OnnxNode]


def read_block(graph: Proto, description: Description) -> Block:
    """Return the nodes of a graph and of the graphs inside it.

    Raises:
        Wrong: more than `MAX_OPERATORS`, a node without a type, a Constant node without a value.
        UnicodeDecodeError: a type, domain or attribute's name that is no text.
    """
    reading = _Reading(description)
    block = reading.read(graph)
    for word in reading.words:
        read_text(word)
    return block


class _Reading:
    def __init__(self, description: Description) -> None:
        self.description = description
        self.left = MAX_OPERATORS
        self.words: set[str | bytes] = set()

    def read(self, graph: Proto) -> Block:
        self.left -= len(graph.node)
        if self.left < 0:
            raise Wrong(f"it has more than {MAX_OPERATORS} operators")
        return Block(graph, [self.read_node(node) for node in graph.node])

    def read_node(self, node: Proto) -> OnnxNode:
        op, domain = node.op_type, node.domain
        attributes = list(node.attribute)
        inner: list[tuple[str, Block]] = []
        self.words.add(op)
        self.words.add(domain)
        for attribute in attributes:
            self.words.add(attribute.name)
            kind = attribute.type
            if kind in (GRAPH, GRAPHS) or not kind:
                inner += [(name, self.read(graph)) for name, graph in graphs_of(attribute)]
        step = OnnxNode(
            node, op, "" if domain in NATIVE else domain, tuple(node.input), tuple(node.output), attributes, inner
        )
        if not op:
            raise Wrong(f"the node that makes {next(iter(step.outputs), '')!r} has no operator type")
        if op == "Constant" and step.is_constant:
            gone = self.description.look_up(attributes[0])
            # The length of a list that was left out would be lost on whoever reads the node.
            if gone is not None and attributes[0].name != "value":
                _settle(step, gone)
        return step


def _settle(step: OnnxNode, gone: LeftOut) -> None:
    """Make a tensor of the list of a Constant node."""
    tensor = as_tensor(step.attributes[0], gone)
    del step.proto.attribute[:]
    step.proto.attribute.add(name="value", type=TENSOR).t.CopyFrom(tensor)
    step.attributes = list(step.proto.attribute)


def graphs_of(attribute: Proto) -> Iterator[tuple[str, Proto]]:
    """Yield the graphs of an attribute, named."""
    kind = attribute.type
    if kind == GRAPH or (not kind and attribute.HasField("g")):
        yield attribute.name, attribute.g
    elif kind == GRAPHS or (not kind and attribute.graphs):
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{index}]", graph


def inner_blocks(block: Block) -> Iterator[Block]:
    """`block` and all blocks inside it."""
    todo = [block]
    while todo:
        block = todo.pop()
        yield block
        todo += [inner for step in block.steps if step.inner for _, inner in step.inner]


def attach(block: Block, graph: Proto) -> None:
    """Lets a block, and those inside it, stand for a copy of its graph with the same nodes."""
    block.proto = graph
    for index, step in enumerate(block.steps):
        if step.inner:
            graphs = [inner for attribute in graph.node[index].attribute for _, inner in graphs_of(attribute)]
            for (_, inner), copy in zip(step.inner, graphs, strict=True):
                attach(inner, copy)


def as_tensor(attribute: Proto, gone: LeftOut | None) -> Proto:
    """Return the value of a Constant node as a TensorProto.

    Raises:
        Wrong: it has none.
    """
    if attribute.name == "value":
        return attribute.t
    tensor = type(attribute.t)()
    many = attribute.name in ("value_ints", "value_floats", "value_strings")
    values: Any
    match attribute.name:
        case "value_int" | "value_ints":
            tensor.data_type = tensor.INT64
            tensor.int64_data.extend(values := attribute.ints if many else [attribute.i])
        case "value_float" | "value_floats":
            tensor.data_type = tensor.FLOAT
            tensor.float_data.extend(values := attribute.floats if many else [attribute.f])
        case "value_string" | "value_strings":
            tensor.data_type = tensor.STRING
            tensor.string_data.extend(values := attribute.strings if many else [attribute.s])
        case _:
            raise Wrong("a Constant node has no value")
    if many:
        tensor.dims.append(len(values) if gone is None else gone.count)
    if gone is not None:
        tensor.doc_string = attribute.doc_string
    return tensor


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
    """Put nodes after what they need, else in the order they have."""
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
