"""The outline of a TFLite file read from its bytes: operators and the tensors between them, and nothing else.

Needs no library, so that it can be sent to devices. Every offset is checked; weights are not read. Places of fields are
those of https://github.com/tensorflow/tensorflow/blob/master/tensorflow/compiler/mlir/lite/schema/schema.fbs.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from edgewise.runtime.operator_mapping import Outline, OutlineNode
from edgewise.runtime.protowire import MAX_NODES
from edgewise.wire import Damaged, Flat

_CODES, _SUBGRAPHS, _BUFFERS = 1, 2, 4  # of Model
_OLD_CODE, _CODE = 0, 3  # of OperatorCode
_TENSORS, _OPERATORS = 0, 3  # of SubGraph
_OPCODE, _INPUTS, _OUTPUTS = 0, 1, 2  # of Operator
_BUFFER, _NAME = 2, 3  # of Tensor
_DATA, _OFFSET = 0, 1  # of Buffer
_MAX_TENSORS = 1_000_000


def read_outline(path: Path) -> Outline:
    """Operators of the first subgraph of the TFLite file at `path`; their types are the schema's numbers as text.

    Tensors without a name, or with another's, are called after their index.

    Raises:
        Damaged: it is no such file.
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise Damaged("it is empty") from error
        with data:
            return parse_outline(data)


def parse_outline(data: bytes | mmap.mmap) -> Outline:
    """The outline of a TFLite model in memory. Raises `Damaged`."""
    flat = Flat(data)
    model = flat.at_offset(0)
    codes = [_type(flat, table) for table in flat.tables(model, _CODES, MAX_NODES)]
    filled = [_has_data(flat, table) for table in flat.tables(model, _BUFFERS, _MAX_TENSORS)]
    graph = next(flat.tables(model, _SUBGRAPHS, 1000), None)
    if graph is None:
        raise Damaged("it has no graph")
    names: list[str] = []
    constants: set[str] = set()
    taken: set[str] = set()
    for index, table in enumerate(flat.tables(graph, _TENSORS, _MAX_TENSORS)):
        name = flat.text(table, _NAME)
        name = f"#{index}" if not name or name in taken else name
        taken.add(name)
        names.append(name)
        buffer = flat.number(table, _BUFFER, "<I")
        if buffer < len(filled) and filled[buffer]:
            constants.add(name)
    nodes = []
    for table in flat.tables(graph, _OPERATORS, MAX_NODES):
        code = flat.number(table, _OPCODE, "<I")
        if code >= len(codes):
            raise Damaged("an operator has an undefined type")
        ends = [tuple(_named(names, at) for at in flat.integers(table, slot)) for slot in (_INPUTS, _OUTPUTS)]
        nodes.append(OutlineNode(name="", op=str(codes[code]), inputs=ends[0], outputs=ends[1]))
    return Outline(tuple(nodes), frozenset(constants))


def _named(names: list[str], index: int) -> str:
    if index == -1:
        return ""
    if not 0 <= index < len(names):
        raise Damaged("an operator refers to a missing tensor")
    return names[index]


def _type(flat: Flat, table: int) -> int:
    """A type's number: files that knew only a byte keep it in an older field."""
    return max(flat.number(table, _OLD_CODE, "<b"), flat.number(table, _CODE, "<i"))


def _has_data(flat: Flat, table: int) -> bool:
    # A file of more than 2 GB keeps its weights behind the flatbuffer, at an offset.
    return flat.length(table, _DATA) > 0 or flat.number(table, _OFFSET, "<Q") > 1
