"""Reading an ONNX operator's options and shapes: numbers that are there, None where they are open, never a guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.graph import Tensor

MAX_SIZES = 64
"""Most entries of a list of sizes; a longer one is hostile, and its product could take for ever."""

MAX_SIZE = 2**63 - 1

Rule = Semantics | Callable[[RawOperator], Semantics]
"""What an operator's type means: the same for all of them, or found from the operator's options and shapes."""


class Unclear(Exception):
    """An operator's options or shapes contradict its definition; the message says how."""


def input_at(raw: RawOperator, at: int) -> Tensor | None:
    """The input at a position, None where it is left out."""
    return raw.inputs[at] if at < len(raw.inputs) else None


def output_at(raw: RawOperator, at: int) -> Tensor | None:
    """The output at a position, None where it is left out."""
    return raw.outputs[at] if at < len(raw.outputs) else None


def given(raw: RawOperator, at: int) -> bool:
    """Whether the optional input at a position is there."""
    return input_at(raw, at) is not None


def rank(tensor: Tensor | None) -> int | None:
    """How many dimensions a tensor has, None where that is open."""
    return None if tensor is None or tensor.shape is None else len(tensor.shape)


def size(tensor: Tensor | None, axis: int) -> int | None:
    """One dimension of a tensor, None where it is open.

    Raises:
        Unclear: the tensor has no such dimension.
    """
    if tensor is None or tensor.shape is None:
        return None
    if not -len(tensor.shape) <= axis < len(tensor.shape):
        raise Unclear(f"{tensor.name!r} has {len(tensor.shape)} dimensions, too few for this operator")
    dimension = tensor.shape[axis]
    return dimension if isinstance(dimension, int) else None


def product_of(tensor: Tensor | None, first: int, last: int | None = None) -> int | None:
    """Product of the dimensions from `first` up to `last`, None where one is open."""
    if tensor is None or tensor.shape is None:
        return None
    return multiply(*(each if isinstance(each, int) else None for each in tensor.shape[first:last]))


def elements(tensor: Tensor | None) -> int | None:
    """Elements of a tensor, None where a dimension is open."""
    return None if tensor is None else tensor.elements


def multiply(*factors: int | None) -> int | None:
    """Their product, None where one is unknown."""
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


def add(*terms: int | None) -> int | None:
    """Their sum, None where one is unknown."""
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None


def divide(dividend: int | None, divisor: int | None) -> int | None:
    """A whole quotient, None where one of them is unknown.

    Raises:
        Unclear: it has a remainder, or there is nothing to divide by.
    """
    if dividend is None or divisor is None:
        return None
    if divisor < 1 or dividend % divisor:
        raise Unclear(f"{dividend} is not divisible by {divisor}")
    return dividend // divisor


def integer(raw: RawOperator, name: str, default: int) -> int:
    """An option that is a whole number. Raises `Unclear` where it is something else."""
    value = raw.attributes.get(name, default)
    if not isinstance(value, int):
        raise Unclear(f"its option {name!r} is not a whole number")
    return value


def natural(raw: RawOperator, name: str, default: int) -> int:
    """An option that counts something. Raises `Unclear` where it is no size."""
    value = integer(raw, name, default)
    if not 0 <= value <= MAX_SIZE:
        raise Unclear(f"its option {name!r} is not a size")
    return value


def number(raw: RawOperator, name: str, default: float) -> float:
    """An option that is a number. Raises `Unclear` where it is something else."""
    value = raw.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise Unclear(f"its option {name!r} is not a number")
    return value


def text(raw: RawOperator, name: str, default: str) -> str:
    """An option that is a word. Raises `Unclear` where it is something else."""
    value = raw.attributes.get(name, default)
    if not isinstance(value, str):
        raise Unclear(f"its option {name!r} is not text")
    return value


def listed(raw: RawOperator, name: str) -> tuple[Any, ...] | None:
    """An option that is a list, None where it is not there. Raises `Unclear` where it is something else."""
    value = raw.attributes.get(name)
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) > MAX_SIZES:
        raise Unclear(f"its option {name!r} is not a list of at most {MAX_SIZES}")
    return tuple(value)


def sizes(raw: RawOperator, name: str) -> tuple[int, ...] | None:
    """An option that lists sizes, None where it is not there. Raises `Unclear` where it is something else."""
    found = listed(raw, name)
    if found is None:
        return None
    if not all(isinstance(each, int) and 0 <= each <= MAX_SIZE for each in found):
        raise Unclear(f"its option {name!r} has an entry that is not a size")
    return found


def constant_size(raw: RawOperator, at: int) -> int | None:
    """The size that a constant input holds, None where it is no constant.

    Raises:
        Unclear: it holds no size.
    """
    values = raw.values(at) if given(raw, at) else None
    if not values:
        return None
    if not isinstance(values[0], int) or not 0 <= values[0] <= MAX_SIZE:
        raise Unclear(f"its input {at} is not a size")
    return values[0]


def every_input(raw: RawOperator) -> tuple[int, ...]:
    """Positions of all inputs."""
    return tuple(range(len(raw.inputs)))


def mean(kind: str, *, weights: tuple[int, ...] = (), why: str = "", **geometry: Any) -> Semantics:
    """Semantics without the numbers that are unknown."""
    known = {name: value for name, value in geometry.items() if value is not None}
    return Semantics(kind=kind, geometry=known, weights=weights, why=why)


def per_element(operations: int, *, kind: str = "elementwise", weights: tuple[int, ...] = (0, 1)) -> Semantics:
    """So many operations for each element of the output."""
    return mean(kind, per_element=operations, weights=weights)


def function(name: str, *, weights: tuple[int, ...] = (0,)) -> Semantics:
    """A function of `edgewise.model.cost.ACTIVATIONS`, element by element."""
    return mean("activation", activation=name, weights=weights)


def counted(macs: int | None, ops: int | None, *, weights: tuple[int, ...] = ()) -> Semantics:
    """MACs and ops in all; no kind where one of them depends on an open dimension."""
    if macs is None or ops is None:
        return Semantics(weights=weights, why="its cost depends on an open dimension")
    return mean("counted", macs=macs, ops=ops, weights=weights)


def moving(*weights: int) -> Semantics:
    """Values are moved and nothing is computed."""
    return Semantics(kind="movement", weights=weights)


def unknown(why: str) -> Semantics:
    """No cost can be given."""
    return Semantics(why=why)


def data_dependent(why: str) -> Semantics:
    """No MACs, and operations that only the data tells."""
    return Semantics(kind="sorting", why=why)


def repeat(names: str, rule: Rule) -> Iterable[tuple[str, Rule]]:
    """The same rule for several operators, named in one string."""
    return ((name, rule) for name in names.split())
