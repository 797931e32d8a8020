"""Symbolic sizes of exported PyTorch programs: ``s77``, ``2*s0 + 1``, ``FloorDiv(Symbol('s0'), Integer(2))``.

They are sympy expressions, written by ``str`` (PyTorch ≤ 2.6) or ``repr`` of their tree (later). Only whole-number
arithmetic is understood, and nothing is evaluated as code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from operator import floordiv, mod, sub

from edgewise.model.signature import Dimension

MAX_CHARACTERS = 4096
_MAX_DEPTH = 60
_LARGEST = 2**63 - 1
_PLAIN = re.compile(r"[A-Za-z0-9_ ()+*/%,'=.-]*")


class UnknownSize(Exception):
    """An expression that is not whole-number arithmetic, or whose value is absurd."""


def read_expression(text: str, bindings: Mapping[str, int]) -> int | str:
    """Return the value of a symbolic size, or its text in common notation where a symbol has no binding.

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
    """Return a dimension from its expression: a number, a name, or None where it is not understood."""
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
    """Return the value of an expression, or the expression in common notation where a symbol has no binding."""
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
