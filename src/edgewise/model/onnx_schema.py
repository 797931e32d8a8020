"""Types that ONNX's definitions of operators allow, from the package onnx; ONNX Runtime refuses every other one."""

from __future__ import annotations

from collections.abc import Mapping
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
