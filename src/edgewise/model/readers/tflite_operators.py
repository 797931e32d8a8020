"""Operators of a TFLite file: their type, tensors, options and the subgraphs they run; and the order of the latter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from edgewise.model.readers.base import Wrong
from edgewise.model.readers.tflite_schema import OPERATORS
from edgewise.model.readers.tflite_tables import Table, Tables, Vector

MAX_SHOWN_ITEMS = 64
"""Lists of options with more items are shown by their type and length."""

MAX_NESTED_OPERATORS = 300_000
"""Operators with those of the subgraphs they run, each as often as it is mentioned."""

MAX_DEPTH = 32
"""Subgraphs that run subgraphs that run subgraphs …"""

ABSENT = -1
"""Index of a tensor that is left out."""

_CUSTOM = OPERATORS.index("CUSTOM")
_ITEM_TYPES = {"B": "uint8", "i": "int32", "I": "uint32", "q": "int64", "f": "float32", "?": "bool"}
_REFERENCES = (
    "subgraph", "then_subgraph_index", "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index",
    "init_subgraph_index", "decomposition_subgraph_index", "update_computation_subgraph_index",
    "comparator_subgraph_index",
)  # fmt: skip


class Code(NamedTuple):
    """An entry of the table of operator codes."""

    op: str
    version: int
    custom: bool


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """One operator as the file has it.

    Attributes:
        inputs, outputs: indices of tensors, `ABSENT` for those left out.
        subgraphs: indices of those it runs.
    """

    code: Code
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any]
    subgraphs: tuple[int, ...]


def read_codes(model: Table) -> list[Code]:
    """Return the model's operator codes, builtin ones by the schema's names."""
    return [_read_code(record) for record in model["operator_codes"]]


def _read_code(record: Table) -> Code:
    # Codes up to 126 were kept in a byte; newer files keep them in both fields, bigger ones in the second only.
    number = max(record["deprecated_builtin_code"], record["builtin_code"])
    if number == _CUSTOM:
        if not record["custom_code"]:
            raise Wrong("a custom operator has no name")
        return Code(record["custom_code"], record["version"], custom=True)
    if number < 0:
        raise Wrong(f"it has an operator of the type {number}")
    return Code(OPERATORS[number] if number < len(OPERATORS) else f"BUILTIN_{number}", record["version"], custom=False)


class TfliteOperatorReader:
    """Reads the operators of one model."""

    def __init__(self, tables: Tables, model: Table) -> None:
        self.tables = tables
        self.codes = read_codes(model)
        self.graphs = len(model["subgraphs"])

    def read_all(self, record: Table) -> list[TfliteOperator]:
        """Return the operators of a subgraph in its order. Raises `BadModel` where an index leads nowhere."""
        return [self._read(operator, len(record["tensors"])) for operator in record["operators"]]

    def _read(self, record: Table, tensors: int) -> TfliteOperator:
        code = self.codes[self.check(record["opcode_index"], len(self.codes), "operator code")]
        inputs, outputs, between = (
            tuple(self.check(index, tensors, "tensor", optional=True) for index in self.tables.numbers(record[field]))
            for field in ("inputs", "outputs", "intermediates")
        )
        del between  # tensors of an integer LSTM that hold nothing but quantisations
        attributes: dict[str, Any] = {}
        runs: list[int] = []
        for field in ("builtin_options", "builtin_options_2"):
            if record[field] is not None:
                options = record[field][1]
                attributes.update((name, self._show(value)) for name, value in options.items())
                runs.extend(options[name] for name in _REFERENCES if name in options)
                runs.extend(self.tables.numbers(options.get("branch_subgraph_indices")))
        if record["custom_options"] is not None:
            attributes["custom_options"] = f"uint8[{record['custom_options'].length}]"
        elif record["large_custom_options_offset"] > 1:
            attributes["custom_options"] = f"uint8[{record['large_custom_options_size']}]"
        subgraphs = tuple(self.check(index, self.graphs, "subgraph") for index in runs)
        return TfliteOperator(code, inputs, outputs, attributes, subgraphs)

    def check(self, index: int, count: int, noun: str, *, optional: bool = False) -> int:
        """`index`, which is below `count`, or `ABSENT` where something may be left out."""
        if not 0 <= index < count and not (optional and index == ABSENT):
            raise Wrong(f"it refers to {noun} {index} of {count}")
        return index

    def _show(self, value: Any) -> Any:
        """JSON-shaped: numbers and text as they are, lists as tuples or, where they are long, by type and length."""
        if not isinstance(value, Vector):
            return () if value is None else value
        if value.length > MAX_SHOWN_ITEMS or value.layout == "B":
            return f"{_ITEM_TYPES[value.layout]}[{value.length}]"
        return self.tables.numbers(value)


def order_subgraphs(steps: Sequence[Sequence[TfliteOperator]]) -> list[int]:
    """Subgraphs in an order in which each comes after those its operators run.

    Raises:
        BadModel: one runs itself, they are nested absurdly deep or have absurdly many operators in all.
    """
    mentions = [[index for step in each for index in step.subgraphs] for each in steps]
    try:
        order = list(TopologicalSorter(dict(enumerate(mentions))).static_order())
    except CycleError as error:
        raise Wrong(f"subgraph {error.args[1][0]} runs itself") from error
    depth: dict[int, int] = {}
    weight: dict[int, int] = {}
    for at in order:
        depth[at] = 1 + max((depth[index] for index in mentions[at]), default=0)
        # Capped, for the sum doubles from level to level where a file wants it to.
        weight[at] = min(1 + len(steps[at]) + sum(weight[index] for index in mentions[at]), MAX_NESTED_OPERATORS + 1)
    if max(depth.values(), default=0) > MAX_DEPTH:
        raise Wrong(f"its subgraphs are nested more than {MAX_DEPTH} deep")
    if sum(weight.values()) > MAX_NESTED_OPERATORS:
        raise Wrong(f"its subgraphs run more than {MAX_NESTED_OPERATORS} operators")
    return order
