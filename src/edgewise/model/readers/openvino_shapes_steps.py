"""What a rule for shapes is told of an OpenVINO operation, and how sizes are put together.

A size is a whole number or None where it is open. A rule answers None for what it can't know, and raises
`ShapeConflict` only where no size of the open dimensions would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from edgewise.model.readers.base import MAX_DIMENSION
from edgewise.model.signature import Dimension

Shape = tuple[Dimension, ...]
Number = int | float
Elements = tuple[Number | None, ...]
"""Of a small tensor, flattened; None where one is not known."""


class ShapeConflict(Exception):
    """Sizes that contradict each other; the text says which."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of a network.

    Attributes:
        op: its type in lower case.
        version: of its operator set.
        options: as `edgewise.model.readers.openvino_options.read_option` reads them.
        shapes: of the inputs; None where not even the rank is known.
        elements: position of an input → its elements, None where there are none to know.
        outputs: how many it has.
    """

    op: str
    version: int
    options: Mapping[str, Any]
    shapes: tuple[Shape | None, ...]
    elements: Callable[[int], Elements | None]
    outputs: int

    def shape(self, at: int) -> Shape | None:
        """Of the input at `at`; None where it is left out or of unknown rank."""
        return self.shapes[at] if 0 <= at < len(self.shapes) else None

    def has(self, at: int) -> bool:
        """Whether there is an input at `at`."""
        return 0 <= at < len(self.shapes)

    def whole(self, at: int) -> tuple[int, ...] | None:
        """Elements of the input at `at`, where all are known and whole numbers."""
        found = self.elements(at) if self.has(at) else None
        if found is None or not all(isinstance(each, int) for each in found):
            return None
        return tuple(int(each) for each in found if each is not None)

    def one(self, at: int) -> int | None:
        """The only element of the input at `at`."""
        found = self.whole(at)
        return found[0] if found is not None and len(found) == 1 else None

    def numbers(self, option: str, usual: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
        """An option that is a list of whole numbers; `usual` where it is left out, None where it is no such list."""
        value = self.options.get(option, usual)
        words = () if value == "" else value if isinstance(value, tuple) else (value,)
        return tuple(words) if all(type(word) is int for word in words) else None

    def number(self, option: str, usual: int | None = None) -> int | None:
        """An option that is one whole number."""
        value = self.options.get(option, usual)
        return value if type(value) is int else None

    def flag(self, option: str, *, usual: bool) -> bool:
        """An option that is true or false; version 10 of the IR writes some as 1 and 0."""
        return self.options.get(option, usual) in (True, 1)

    def word(self, option: str, usual: str) -> str:
        """An option that is one of a few words."""
        return str(self.options.get(option, usual)).lower()


Answer = list[Shape | None] | Shape | None
"""Of a rule: shapes of all outputs, or the one that all of them have."""
Rule = Callable[[Step], Answer]


def place(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises `ShapeConflict`."""
    if not -rank <= axis < rank:
        raise ShapeConflict(f"axis {axis} of {rank} dimensions")
    return axis + rank if axis < 0 else axis


def check_size(size: int) -> int:
    """The size, if a dimension can have it. Raises `ShapeConflict`."""
    if not 0 <= size <= MAX_DIMENSION:
        raise ShapeConflict(f"a dimension of size {size}" if abs(size) <= MAX_DIMENSION else "a dimension beyond 2^63")
    return size


def multiply(sizes: Sequence[Dimension]) -> int | None:
    """The product; None where a size is open, even beside a 0."""
    known = [size for size in sizes if isinstance(size, int)]
    return prod(known) if len(known) == len(sizes) else None


def merge(one: Dimension, other: Dimension) -> Dimension:
    """Two things known of one dimension. Raises `ShapeConflict`."""
    if not isinstance(one, int):
        return other
    if isinstance(other, int) and one != other:
        raise ShapeConflict(f"a dimension of size {one} and of size {other}")
    return one


def merge_shapes(one: Shape | None, other: Shape | None) -> Shape | None:
    """Two things known of one shape. Raises `ShapeConflict`."""
    if one is None or other is None:
        return other if one is None else one
    if len(one) != len(other):
        raise ShapeConflict(f"{show(one)} and {show(other)}")
    try:
        return tuple(merge(a, b) for a, b in zip(one, other, strict=True))
    except ShapeConflict:
        raise ShapeConflict(f"{show(one)} and {show(other)}") from None


def broadcast(one: Shape | None, other: Shape | None) -> Shape | None:
    """By numpy's rule: sizes are aligned at the end, and 1 stretches. Raises `ShapeConflict`."""
    if one is None or other is None:
        return None
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    return tuple(_stretch(a, b, (one, other)) for a, b in pairs)


def _stretch(one: Dimension, other: Dimension, shapes: tuple[Shape, Shape]) -> Dimension:
    if one == 1:
        return other
    if other in (1, one):
        return one
    if isinstance(one, int) and isinstance(other, int):
        raise ShapeConflict(f"{show(shapes[0])} beside {show(shapes[1])}")
    # An open size is 1 or the other's, so the known one stays.
    return one if isinstance(one, int) else other


def show(shape: Shape | None) -> str:
    """For people: ``[?, 3]``."""
    return "[...]" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
