"""The JSON program inside a PyTorch export, as ``torch.export.save`` writes it, and the symbolic sizes in it.

The schema is PyTorch's own, ``torch/_export/serde/schema.py``; versions 5 (PyTorch 2.3) to 8 are alike in what is read
here. Values in it are unions: an object of one key that names the kind (``as_tensor``, ``as_int``) of its value.

Sizes such as ``s77``, ``2*s0 + 1`` and ``FloorDiv(Symbol('s0'), Integer(2))`` are sympy expressions, written by ``str``
(PyTorch ≤ 2.6) or ``repr`` of their tree (later). Only whole-number arithmetic is understood, and nothing is evaluated
as code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from operator import floordiv, mod, sub
from typing import Any

from edgewise.model.graph import Tensor
from edgewise.model.readers.archive import Archive
from edgewise.model.readers.base import MAX_DIMENSION, MAX_NAME_CHARACTERS, MAX_RANK, Wrong
from edgewise.model.signature import Dimension

MAX_CHARACTERS = 4096
_MAX_DEPTH = 60
_LARGEST = 2**63 - 1
_PLAIN = re.compile(r"[A-Za-z0-9_ ()+*/%,'=.-]*")


class UnknownSize(Exception):
    """An expression that is not whole-number arithmetic, or whose value is absurd."""


def read_expression(text: str, bindings: Mapping[str, int]) -> int | str:
    """The value of a symbolic size, or its text in common notation where a symbol has no binding.

    Raises:
        UnknownSize: it is not understood, divides by zero or leaves the range of a size.
    """
    if len(text) > MAX_CHARACTERS or not _PLAIN.fullmatch(text):
        raise UnknownSize
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnknownSize from error
    folded = _fold(tree.body, bindings, _MAX_DEPTH)
    if isinstance(folded, int):
        return _check(folded)
    written = re.sub(r" (\*\*?|//) ", r"\1", ast.unparse(folded))
    if len(written) > MAX_CHARACTERS:
        raise UnknownSize
    return written


def size_of(text: str, bindings: Mapping[str, int]) -> Dimension:
    """A dimension from its expression: a number, a name, or None where it is not understood."""
    try:
        value = read_expression(text, bindings)
    except UnknownSize:
        return None
    return value if isinstance(value, str) or value >= 0 else None


def _check(number: int) -> int:
    if abs(number) > _LARGEST:
        raise UnknownSize
    return number


def _fold(node: ast.expr, bindings: Mapping[str, int], depth: int) -> int | ast.expr:
    """The value of an expression, or the expression in common notation where a symbol has no binding."""
    if depth == 0:
        raise UnknownSize
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name)), *_]):
            return bindings.get(name, ast.Name(name))
        case ast.Call(func=ast.Name(id="Integer"), args=[argument]):
            return _fold(argument, bindings, depth - 1)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            name, arguments = "Mul", [ast.Constant(-1), operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            name, arguments = _BINARY[type(op)], [left, right]
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments) if name in _FUNCTIONS:
            pass
        case _:
            raise UnknownSize
    return _apply(name, [_fold(argument, bindings, depth - 1) for argument in arguments])


def _apply(name: str, parts: list[int | ast.expr]) -> int | ast.expr:
    numbers = [_check(part) for part in parts if isinstance(part, int)]
    if len(numbers) == len(parts):
        try:
            if name in _OF_TWO:
                left, right = numbers
                return _OF_TWO[name](left, right)
            return _OF_MANY[name](numbers)
        except (ArithmeticError, ValueError) as error:  # ValueError: not two numbers
            raise UnknownSize from error
    nodes = [ast.Constant(part) if isinstance(part, int) else part for part in parts]
    if name in _SIGNS:
        return reduce(lambda left, right: ast.BinOp(left, _SIGNS[name](), right), nodes)
    return ast.Call(ast.Name(name), nodes, [])


def _power(base: int, exponent: int) -> int:
    if not 0 <= exponent <= 64 or abs(base) > 2**32:
        raise UnknownSize
    return prod([base] * exponent)


def _divide_exactly(dividend: int, divisor: int) -> int:
    quotient, rest = divmod(dividend, divisor)
    if rest:
        raise UnknownSize
    return quotient


_OF_MANY: dict[str, Callable[[list[int]], int]] = {
    "Add": sum,
    "Mul": prod,
    "Max": max,
    "Min": min,
    **dict.fromkeys(("TruncToInt", "ToFloat", "CeilToInt", "FloorToInt"), lambda numbers: numbers[0]),
}
_OF_TWO: dict[str, Callable[[int, int], int]] = {
    "Sub": sub,
    "Pow": _power,
    "PowByNatural": _power,
    "Mod": mod,
    "PythonMod": mod,
    "FloorDiv": floordiv,
    "CleanDiv": _divide_exactly,
    "CeilDiv": lambda dividend, divisor: -(-dividend // divisor),
    "IntTrueDiv": _divide_exactly,
}
_FUNCTIONS = {*_OF_MANY, *_OF_TWO}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "FloorDiv", ast.Mod: "Mod", ast.Pow: "Pow",
    ast.Div: "IntTrueDiv",
}  # fmt: skip
_SIGNS: dict[str, type[ast.operator]] = {
    **{name: sign for sign, name in _BINARY.items() if sign is not ast.Div},
    "CleanDiv": ast.FloorDiv, "PythonMod": ast.Mod,
}  # fmt: skip


OLD_PROGRAM = "serialized_exported_program.json"
PROGRAM = re.compile(r"[^/]+/models/([^/]+)\.json|models/([^/]+)\.json")

#: ``ScalarType`` → numpy's name, or PyTorch's where numpy has none.
DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
    29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0",
    34: "uint32", 35: "uint64",
}  # fmt: skip


def check_mapping(value: Any, what: str) -> dict[str, Any]:
    """Return `value`, which must be an object. Raises `Wrong`."""
    if not isinstance(value, dict):
        raise Wrong(f"{what} in its program is not an object")
    return value


def check_items(value: Any, what: str) -> list[Any]:
    """Return `value`, which must be a list. Raises `Wrong`."""
    if not isinstance(value, list):
        raise Wrong(f"{what} in its program is not a list")
    return value


def check_name(value: Any, what: str) -> str:
    """Return `value`, which must be a name of bearable length. Raises `Wrong`."""
    if not isinstance(value, str) or not value or len(value) > MAX_NAME_CHARACTERS:
        raise Wrong(f"{what} in its program has no valid name")
    return value


def check_union(value: Any, what: str) -> tuple[str, Any]:
    """Return kind and value of a union, one of `value`'s keys; the others of some versions are null. Raises `Wrong`."""
    found = [(key, each) for key, each in check_mapping(value, what).items() if each is not None]
    return found[0] if found else ("as_none", True)


def find_programs(archive: Archive) -> dict[str, str]:
    """Model's name → entry that holds its program, the main one first."""
    if OLD_PROGRAM in archive.names:
        return {"model": OLD_PROGRAM}
    matches = (PROGRAM.fullmatch(name) for name in archive.names)
    found = {match[1] or match[2]: match[0] for match in matches if match}
    return dict(sorted(found.items(), key=lambda item: (item[0] != "model", item[0])))


def read_dimension(value: Any, bindings: Mapping[str, int]) -> Dimension:
    """A size that is a ``SymInt``."""
    kind, content = check_union(value, "a size")
    if kind == "as_int":
        if isinstance(content, bool) or not isinstance(content, int) or not 0 <= content <= MAX_DIMENSION:
            raise Wrong(f"a size in its program is {str(content)[:40]}")
        return content
    if kind == "as_expr":
        text = check_mapping(content, "a size").get("expr_str")
        return size_of(text, bindings) if isinstance(text, str) else None
    raise Wrong("a size in its program is not a number")


def expression_of(value: Any) -> str | None:
    """The text of a ``SymInt`` that is an expression."""
    match value:
        case {"as_expr": {"expr_str": str(text)}}:
            return text
    return None


def read_tensor(name: str, meta: Any, bindings: Mapping[str, int]) -> Tensor:
    """A tensor from its metadata, a ``TensorMeta``."""
    fields = check_mapping(meta, f"the type of {name[:40]!r}")
    number = fields.get("dtype")
    dtype = DTYPES.get(number, f"torch-type-{number}"[:40]) if isinstance(number, int) else "unknown"
    sizes = check_items(fields.get("sizes"), f"the shape of {name[:40]!r}")
    if len(sizes) > MAX_RANK:
        raise Wrong(f"{name[:40]!r} has {len(sizes)} dimensions, more than {MAX_RANK}")
    tensor = Tensor(name=name, shape=tuple(read_dimension(size, bindings) for size in sizes), dtype=dtype)
    if (tensor.elements or 0) > MAX_DIMENSION:
        raise Wrong(f"{name[:40]!r} has more elements than any tensor can have")
    return tensor
