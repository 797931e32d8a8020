"""What two operators are set to: their options, those that they leave out, and constant inputs that are no weights.

An option that is left out has the value that its definition gives it, and one that became an input with a later version
of the operator (``axes``, ``min``) is still the same option.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.model.graph import Graph, Operator
from edgewise.model.onnx_schema import Definition, find_definition
from edgewise.text import one_line
from edgewise.verbs.diff.weights import read_elements

MOST_VALUES = 8
"""Values of a constant input that are shown."""
_NEUTRAL, _NO_PADDING = (0, 1, "NOTSET", ""), (0, "NOTSET")
"""Values of options that mean the same as an option that is left out, in formats without definitions."""
_UNSET = {"pads": 0, "output_padding": 0, "strides": 1, "dilations": 1, "group": 1}
"""What every entry of an ONNX option is that has no default in its definition, where it is left out."""
_FOLLOWS = ("kernel_shape",)
"""Options that follow from the weights where they are left out."""
_CALLED = {"K": "k", "constant_value": "value"}
"""Input of an ONNX operator → the option that it was before."""
_OF_SCALES = ("_scale", "zero_point")
_AXES = ("axis", "axes")


@dataclass(frozen=True, slots=True)
class _Many:
    """Values of a constant that are too many to show."""

    content: bytes

    def __str__(self) -> str:
        return "its values"


def changed_options(pair: tuple[Operator, Operator], graphs: Sequence[Graph], paths: Sequence[Path]) -> Iterator[str]:
    """Yield the type, where it differs, else each option with both values."""
    first, second = pair
    if first.op != second.op:
        yield f"{one_line(first.op)} is {one_line(second.op)}"
        return
    known = [_define(each, graph) for each, graph in zip(pair, graphs, strict=True)]
    given = [_read(*each) for each in zip(pair, graphs, paths, known, strict=True)]
    ranks = [len(graph.tensors[each.inputs[0]].shape or ()) if each.inputs and each.inputs[0] else 0
             for each, graph in zip(pair, graphs, strict=True)]  # fmt: skip
    for name in sorted({*given[0], *given[1]}):
        values = [side.get(name) for side in given]
        if _comparable(name, values[0], ranks[0]) == _comparable(name, values[1], ranks[1]):
            continue
        if None in values:
            at = int(values[0] is None)
            if _is_default(name, values[at], known[at]):
                continue
        if any(isinstance(each, _Many) for each in values):
            yield f"{one_line(first.op)}, other values of {one_line(name)}"
        else:
            before, after = (one_line(str(each)) for each in values)
            yield f"{one_line(first.op)}, {one_line(name)} {before} → {after}"


def _define(operator: Operator, graph: Graph) -> Definition | None:
    if graph.format != "onnx":
        return None
    return find_definition(operator.op, operator.domain, graph.metadata.get("opsets", {}))


def _read(operator: Operator, graph: Graph, path: Path, known: Definition | None) -> dict[str, Any]:
    """Return options and constant inputs, by their names."""
    found: dict[str, Any] = dict(known.defaults) if known is not None else {}
    found |= {name: list(value) if isinstance(value, tuple) else value for name, value in operator.attributes.items()}
    for at, name in enumerate(operator.inputs):
        tensor = graph.tensors.get(name)
        if tensor is None or not tensor.constant or name in operator.weights or tensor.quantization is not None:
            continue
        title = known.inputs[at] if known is not None and at < len(known.inputs) else f"input {at}"
        array = None if title.endswith(_OF_SCALES) or operator.op.startswith("QLinear") else read_elements(tensor, path)
        if array is not None:
            values: Any = array.tolist() if array.size <= MOST_VALUES else _Many(array.tobytes())
            found[_CALLED.get(title, title)] = values[0] if tensor.shape == () and array.size == 1 else values
    return found


def _comparable(name: str, value: Any, rank: int) -> Any:
    """`value` as it is compared: a list of one entry is that entry, and axes count from the first."""
    if isinstance(value, list):
        found = [_comparable(name, each, rank) for each in value]
        return found[0] if len(found) == 1 else found
    return value + rank if name in _AXES and isinstance(value, int) and value < 0 else value


def _is_default(name: str, value: Any, known: Definition | None) -> bool:
    """Whether an option with this value means what it means where it is left out."""
    if name in _FOLLOWS:
        return True
    entries = value if isinstance(value, list) else [value]
    if known is not None:
        default = known.defaults.get(name, _UNSET.get(name))
        return default is not None and (value == default or all(each == default for each in entries))
    neutral = _NO_PADDING if "pad" in name else _NEUTRAL
    return all(isinstance(each, int | float | str) and each in neutral for each in entries)
