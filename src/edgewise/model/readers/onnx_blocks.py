"""An ONNX graph's nodes, read once from their messages: protobuf's accessors are what reading a model costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgewise.model.readers.base import Wrong
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
    """The nodes of a graph and of the graphs inside it.

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
    """Makes a tensor of the list of a Constant node."""
    tensor = as_tensor(step.attributes[0], gone)
    del step.proto.attribute[:]
    step.proto.attribute.add(name="value", type=TENSOR).t.CopyFrom(tensor)
    step.attributes = list(step.proto.attribute)


def graphs_of(attribute: Proto) -> Iterator[tuple[str, Proto]]:
    """The graphs of an attribute, named."""
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
    """The value of a Constant node as a TensorProto.

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
