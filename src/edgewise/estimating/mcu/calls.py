"""The calls of kernels in the C statement that the lowering makes of an operator."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Family = Literal["scalar", "dsp", "helium"]
FAMILIES: Mapping[str, Family] = {
    "cortex-m0plus": "scalar",
    "cortex-m3": "scalar",
    "cortex-m4": "dsp",
    "cortex-m7": "dsp",
    "cortex-m23": "scalar",
    "cortex-m33": "dsp",
    "cortex-m55": "helium",
}
Counts = dict[str, int]
# Python's parser reads the C once casts are gone, braces are brackets, and floats, whose values cost nothing, are 0.
_AS_PYTHON = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"-?0x[\da-f.]+p[+-]?\d+f", "0"), (r"&?\((?:const )?\w+(?: \*)?\)(?=[{(\w])", ""),
        (r"\{", "["), (r"\}", "]"),
    )
)  # fmt: skip
_ONCE = re.compile(r"static int32_t done; if \(!done\) \{.*\}$")
"""What only the first inference executes."""


class UnknownKernel(LookupError):
    """A call of a kernel whose loops are not known."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: addresses of constants are offsets in `constants`, structures are lists."""

    name: str
    arguments: Sequence[Any]
    constants: bytes | bytearray
    family: Family

    def loops(self, place: int, width: int) -> list[list[int]]:
        """Return the nested loops whose number is the argument before `place`, each `width` numbers, the
        outermost first.
        """
        words = np.frombuffer(self.constants, "<i4", self.arguments[place - 1] * width, self.arguments[place])
        return [[int(word) for word in row] for row in words.reshape(-1, width)]

    def inner(self, name: str, times: int, length: int, *blocks: int, lanes: int = 16) -> Counts:
        """Return a loop over `length` elements that runs `times` times: in blocks, then one by one; in vectors
        with Helium.
        """
        if self.family == "helium":
            return {name: times, f"{name}, vectors": times * -(-length // lanes)}
        return blockwise(name, times, length, *blocks)

    def plain(self, name: str, times: int, length: int) -> Counts:
        """Return a loop in C over `length` bytes that runs `times` times; the compiler may use Helium's vectors
        of 16.
        """
        return blockwise(name, times, length, *([16, 4] if self.family == "helium" else []))


def blockwise(name: str, times: int, length: int, *blocks: int) -> Counts:
    """Return counts of a loop over `length` elements that runs `times` times in blocks of these sizes, then one by
    one.
    """
    counts = {name: times}
    for size in (*blocks, 1):
        counts[f"{name}, by {size}"] = times * (length // size)
        counts[f"{name}, any by {size}"] = times * (length >= size)
        length %= size
    return counts


def read_calls(statement: str, constants: bytes | bytearray, family: Family) -> Iterator[Call]:
    """Return the calls in a statement that every inference executes.

    Args:
        statement: as `edgewise.estimating.mcu.lowering.Lowered.calls` has it.
        constants: `Lowered.constants`.

    Raises:
        UnknownKernel: the statement can't be read.
    """
    if _ONCE.match(statement):
        return
    for pattern, by in _AS_PYTHON:
        statement = pattern.sub(by, statement)
    try:
        nodes = [line.value for line in ast.parse(statement).body if isinstance(line, ast.Expr)]
        for node in nodes:
            name, arguments = _value(node)
            if name == "ew_check":
                ((name, arguments),) = arguments
            yield Call(name, arguments, constants, family)
    except (SyntaxError, ValueError, TypeError) as error:
        raise UnknownKernel(statement.partition("(")[0]) from error


def _value(node: ast.AST) -> Any:
    """Return a number, a name, a list, or a call as its name and arguments; an address is its offset."""
    match node:
        case ast.Constant():
            return node.value
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand)
        case ast.Name():
            return 0 if node.id in ("ew_arena", "ew_constants") else node.id
        case ast.BinOp(op=ast.Add()):
            return _value(node.left) + _value(node.right)
        case ast.List():
            return [_value(each) for each in node.elts]
        case ast.Call(func=ast.Name(id=name)):
            return name, [_value(each) for each in node.args]
    raise ValueError(f"unexpected {ast.dump(node)}")
