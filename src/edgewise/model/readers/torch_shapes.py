"""Symbolic sizes of exported PyTorch programs: ``s77``, ``2*s0 + 1``, ``FloorDiv(Symbol('s0'), Integer(2))``.

They are sympy expressions, written by ``str`` (PyTorch ≤ 2.6) or ``repr`` of their tree (later). Only whole-number
arithmetic is understood, and nothing is evaluated as code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from math import prod
from operator import floordiv, mod

from edgewise.model.signature import Dimension

MAX_CHARACTERS = 4096
_MAX_DEPTH = 60
_LARGEST = 2**63 - 1
_PLAIN = re.compile(r"[A-Za-z0-9_ ()+*/%,'=.-]*")


class UnknownSize(Exception):
    """An expression that is not whole-number arithmetic, or whose value is absurd."""


Value = int | str
"""A number, or the text of an expression with open symbols."""


def read_expression(text: str, bindings: Mapping[str, int]) -> Value:
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
    value = _evaluate(tree.body, bindings, _MAX_DEPTH)
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise UnknownSize
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        raise UnknownSize
    return value


def size_of(text: str, bindings: Mapping[str, int]) -> Dimension:
    """A dimension from its expression: a number, a name, or None where it is not understood."""
    try:
        value = read_expression(text, bindings)
    except UnknownSize:
        return None
    return value if isinstance(value, str) or value >= 0 else None


def _evaluate(node: ast.expr, bindings: Mapping[str, int], depth: int) -> Value:
    if depth == 0:
        raise UnknownSize
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return bindings.get(name, name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _apply("Mul", [-1, _evaluate(operand, bindings, depth - 1)])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            parts = [_evaluate(part, bindings, depth - 1) for part in (left, right)]
            return _combine(_BINARY[type(op)], parts)
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name)), *_]):
            return bindings.get(name, name)
        case ast.Call(func=ast.Name(id="Integer"), args=[argument]):
            return _evaluate(argument, bindings, depth - 1)
        case ast.Call(func=ast.Name(id=name), args=[*arguments]) if name in _FUNCTIONS and arguments:
            return _apply(name, [_evaluate(argument, bindings, depth - 1) for argument in arguments])
    raise UnknownSize


def _combine(name: str, parts: list[Value]) -> Value:
    if name == "Sub":
        left, right = parts
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        return f"{_text(left)} - {_text(right, tight=True)}"
    return _apply(name, parts)


def _apply(name: str, parts: list[Value]) -> Value:
    numbers = [part for part in parts if isinstance(part, int)]
    if any(abs(number) > _LARGEST for number in numbers):
        raise UnknownSize
    if len(numbers) < len(parts):
        return _write(name, parts)
    try:
        if name in _OF_TWO:
            left, right = numbers
            return _OF_TWO[name](left, right)
        return _OF_MANY[name](numbers)
    except (ArithmeticError, ValueError) as error:  # ValueError: not two numbers
        raise UnknownSize from error


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
_SIGNS = {"Add": " + ", "Mul": "*", "FloorDiv": "//", "CleanDiv": "//", "Mod": " % ", "PythonMod": " % ", "Pow": "**"}


def _write(name: str, parts: list[Value]) -> str:
    sign = _SIGNS.get(name)
    if sign is None:
        written = f"{name}({', '.join(str(part) for part in parts)})"
    else:
        written = sign.join(_text(part, tight=name != "Add") for part in parts)
    if len(written) > MAX_CHARACTERS:
        raise UnknownSize
    return written


def _text(part: Value, *, tight: bool = False) -> str:
    text = str(part)
    return f"({text})" if tight and not text.isidentifier() and not text.isdigit() else text
