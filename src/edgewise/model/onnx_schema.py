"""ONNX's definitions of operators, from the package onnx: allowed types, names of inputs, values of options left out.

ONNX Runtime refuses every other type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from edgewise.model.graph import BITS, Graph, Operator

_NAMES = {"float32": "float", "float64": "double"}
_WRITTEN = {_written: name for name, _written in _NAMES.items()}


def find_wrong_type(operator: Operator, graph: Graph, opsets: Mapping[str, int]) -> str | None:
    """Why an input of `operator` has a type that its definition forbids; None where all are allowed, or it has none.

    Args:
        opsets: domain → version of the operator sets that the model imports.
    """
    domain = "" if operator.domain in ("", "ai.onnx") else operator.domain
    schema = _find_schema(operator.op, opsets.get(domain or "ai.onnx", 0), domain)
    if schema is None:
        return None
    bound: dict[str, str] = {}
    for at, name in enumerate(operator.inputs):
        if not name or not schema.inputs or (at >= len(schema.inputs) and not _is_variadic(schema)):
            continue
        formal = schema.inputs[min(at, len(schema.inputs) - 1)]
        tensor = graph.tensors[name]
        dtype = tensor.container or tensor.dtype
        if dtype not in BITS and dtype != "string":
            continue  # sequences, optional values, and what shape inference left open
        if _tensor_type(dtype) not in formal.types:
            allowed = ", ".join(sorted(_plain(each) for each in formal.types if each.startswith("tensor(")))
            where = f"ONNX opset {schema.since_version}"
            return f"{operator.op}'s input {formal.name} must be {allowed}, not {dtype} ({where})"
        if formal.type_str.startswith("tensor(") or not formal.is_homogeneous:
            continue
        other = bound.setdefault(formal.type_str, dtype)
        if other != dtype:
            return f"{operator.op}'s inputs of one type ({formal.type_str}) are {other} and {dtype}"
    return None


@dataclass(frozen=True, slots=True)
class Definition:
    """Of an operator.

    Attributes:
        inputs: their names, in order; one that may be repeated is left out.
        defaults: option → its value where it is left out; those that have none are not in it.
    """

    inputs: tuple[str, ...]
    defaults: Mapping[str, Any]


def find_definition(op: str, domain: str, opsets: Mapping[str, int]) -> Definition | None:
    """Return the definition of an operator; None where ONNX has none.

    Args:
        opsets: domain → version of the operator sets that the model imports.
    """
    domain = "" if domain in ("", "ai.onnx") else domain
    schema = _find_schema(op, opsets.get(domain or "ai.onnx", 0), domain)
    if schema is None:
        return None
    from onnx.helper import get_attribute_value

    options = {name: option.default_value for name, option in schema.attributes.items() if option.default_value.name}
    values = {name: get_attribute_value(value) for name, value in options.items()}
    inputs = schema.inputs[:-1] if schema.inputs and _is_variadic(schema) else schema.inputs
    return Definition(
        inputs=tuple(each.name for each in inputs),
        defaults={name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()},
    )


@lru_cache(maxsize=1024)
def _find_schema(op: str, opset: int, domain: str) -> Any:
    from onnx import defs

    try:
        return defs.get_schema(op, max(0, min(opset, 2**31 - 1)), domain)
    except defs.SchemaError:
        return None


def _is_variadic(schema: Any) -> bool:
    return bool(schema.inputs[-1].option == type(schema.inputs[-1].option).Variadic)


def _tensor_type(dtype: str) -> str:
    """ONNX writes ``tensor(float8e4m3fn)`` where graphs have ``float8_e4m3fn``."""
    return f"tensor({_NAMES.get(dtype, dtype.replace('_', ''))})"


def _plain(written: str) -> str:
    name = written.removeprefix("tensor(").removesuffix(")")
    return _WRITTEN.get(name, name)
