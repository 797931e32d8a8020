"""A model's inputs and outputs, the same for every format."""

from __future__ import annotations

from dataclasses import dataclass

Dimension = int | str | None
"""A size, the name of a dynamic dimension, or None for one without a name."""


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
