"""The outline of an ONNX file read from its bytes: operators and the tensors between them, and nothing else.

Needs no library, so that it can be sent to devices. Weights are skipped and not read: a file of gigabytes costs what
its graph costs. Numbers of fields are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto; the format is
that of https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from edgewise.runtime.operator_mapping import Outline, OutlineNode
from edgewise.wire import BYTES, MAX_TEXT_BYTES, Damaged, read_fields

MAX_NODES = 1_000_000
MAX_COMPARED_BYTES = 4096
"""Constants up to this size are compared by value; larger ones are weights, which are not read."""

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_SPARSE = 1, 5, 15
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 3, 4, 5, 7
_TENSOR_NAME = 8
_SPARSE_VALUES = 1

Span = tuple[int, int]


def read_outline(path: Path) -> Outline:
    """Operators and constants of the ONNX file at `path`, in the file's order; bodies of operators are not looked into.

    Raises:
        Damaged: it is no protobuf message of that kind, or has more than a million operators.
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise Damaged("it is empty") from error
        with data, memoryview(data) as view:
            return parse_outline(view)


def parse_outline(view: memoryview) -> Outline:
    """Return the outline of an ONNX model in memory. Raises `Damaged`."""
    nodes: list[OutlineNode] = []
    constants: set[str] = set()
    values: dict[str, str] = {}
    for number, span in messages(view, (0, len(view))):
        if number != _MODEL_GRAPH:
            continue
        for part, inner in messages(view, span):
            if part == _GRAPH_NODE:
                nodes.append(_read_node(view, inner))
            elif part == _GRAPH_INITIALIZER:
                constants.add(name := _name_in(view, inner))
                if inner[1] - inner[0] <= MAX_COMPARED_BYTES:
                    values[name] = _digest(view, inner)
            elif part == _GRAPH_SPARSE:
                parts = (at for field, at in messages(view, inner) if field == _SPARSE_VALUES)
                constants.update(_name_in(view, at) for at in parts)
            if len(nodes) > MAX_NODES:
                raise Damaged(f"it has more than {MAX_NODES} operators")
    return Outline(tuple(nodes), frozenset(constants), values)


def messages(view: memoryview, span: Span) -> Iterator[tuple[int, Span]]:
    """Return number and place of every field of the message at `span` that has a length. Raises `Damaged`."""
    return ((number, (value, after)) for _, number, wire, value, after in read_fields(view, *span) if wire == BYTES)


def _text(view: memoryview, span: Span) -> str:
    if span[1] - span[0] > MAX_TEXT_BYTES:
        raise Damaged(f"a name has more than {MAX_TEXT_BYTES} bytes")
    return bytes(view[span[0] : span[1]]).decode("utf-8", "replace")


def _name_in(view: memoryview, span: Span) -> str:
    """Return the name of the tensor at `span`, "" where it has none."""
    return next((_text(view, at) for number, at in messages(view, span) if number == _TENSOR_NAME), "")


def _digest(view: memoryview, span: Span) -> str:
    """Equal for two tensors of equal content, whatever they are called."""
    digest = blake2b(digest_size=16)
    for number, (begin, end) in messages(view, span):
        if number != _TENSOR_NAME:
            digest.update(number.to_bytes(4, "little") + (end - begin).to_bytes(8, "little"))
            digest.update(view[begin:end])
    return digest.hexdigest()


def _read_node(view: memoryview, span: Span) -> OutlineNode:
    texts: dict[int, list[str]] = {
        number: [] for number in (_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_DOMAIN)
    }
    attributes = blake2b(digest_size=16)
    for number, at in messages(view, span):
        if number in texts:
            texts[number].append(_text(view, at))
        elif number == _NODE_ATTRIBUTE:
            attributes.update(view[at[0] : at[1]])
    domain = "".join(texts[_NODE_DOMAIN][-1:])
    return OutlineNode(
        name="".join(texts[_NODE_NAME][-1:]), op="".join(texts[_NODE_OP][-1:]), inputs=tuple(texts[_NODE_INPUT]),
        outputs=tuple(texts[_NODE_OUTPUT]), signature=f"{domain}:{attributes.hexdigest()}",
    )  # fmt: skip
