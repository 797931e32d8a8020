"""A model's inputs and outputs, the same for every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Dimension = int | str | None
"""A size, the name of a dynamic dimension, or None for one without a name."""
Shape = tuple[Dimension, ...]


def shapes_fit(shape: Shape | None, other: Shape | None) -> bool:
    """Whether two shapes can be of one tensor: equal ranks, and equal sizes wherever both are known.

    Args:
        shape, other: None is a shape of unknown rank, which can be any.
    """
    if shape is None or other is None:
        return True
    return len(shape) == len(other) and all(
        not isinstance(one, int) or not isinstance(two, int) or one == two
        for one, two in zip(shape, other, strict=True)
    )


def channels_last(shape: Sequence[T]) -> tuple[T, ...]:
    """``N×C×H×W`` as ``N×H×W×C``, of any rank; below 3 as it is."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) > 2 else tuple(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input or output.

    Attributes:
        shape: its dimensions in order; None where even the rank is unknown.
        dtype: numpy's name (``float32``, ``int8``, ``bool``, ``float16`` …), or the format's own where numpy has none.
    """

    name: str
    shape: tuple[Dimension, ...] | None
    dtype: str

    @property
    def dynamic(self) -> bool:
        """Whether any dimension is open."""
        return self.shape is None or any(not isinstance(size, int) for size in self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Inputs and outputs in the model's own order. Initialised inputs (weights) are not inputs."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
