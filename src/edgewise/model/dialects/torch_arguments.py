"""Looking at one of PyTorch's operators: its name, its tensors by their arguments' names."""

from __future__ import annotations

from math import prod
from typing import Any

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.signature import Dimension


def words(text: str) -> tuple[str, ...]:
    """Names that are written as one text."""
    return tuple(text.split())


#: Arguments that select, mask or describe and are never parameters.
_NOT_WEIGHTS = frozenset(
    words("""
    index indices mask attn_mask attn_bias scale scales zero_point zero_points condition target boundaries offsets hx
    mapped pred
    """)
)


def base_name(op: str) -> str:
    """``conv2d`` of ``aten.conv2d.default``; in-place forms lose their underscore."""
    parts = op.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def roles_of(raw: RawOperator) -> tuple[str, ...]:
    """The argument's name of every input."""
    return tuple(raw.attributes.get("roles", ()))


def find(raw: RawOperator, role: str) -> tuple[int, ...]:
    """Positions of the inputs that were given as the argument `role`."""
    return tuple(at for at, name in enumerate(roles_of(raw)) if name == role and raw.inputs[at] is not None)


def weights_of(raw: RawOperator) -> tuple[int, ...]:
    """Positions of everything that is a parameter if it is constant."""
    roles = roles_of(raw)
    return tuple(at for at in range(len(raw.inputs)) if at >= len(roles) or roles[at] not in _NOT_WEIGHTS)


def count_of(raw: RawOperator) -> tuple[int, ...]:
    """Positions of the inputs that are there."""
    return tuple(at for at, tensor in enumerate(raw.inputs) if tensor is not None)


def shape_of(raw: RawOperator, at: int | None) -> tuple[Dimension, ...]:
    """The shape of an input, () where it is not there or unknown."""
    tensor = raw.inputs[at] if at is not None and at < len(raw.inputs) else None
    return tensor.shape or () if tensor is not None else ()


def output_shape(raw: RawOperator, at: int = 0) -> tuple[Dimension, ...]:
    """The shape of an output, () where it is not there or unknown."""
    tensor = raw.outputs[at] if at < len(raw.outputs) else None
    return tensor.shape or () if tensor is not None else ()


def product(sizes: tuple[Dimension, ...]) -> int | None:
    """The product of sizes; None where one is open."""
    known = [size for size in sizes if isinstance(size, int)]
    return prod(known) if len(known) == len(sizes) else None


def plain(raw: RawOperator, kind: str, **geometry: Any) -> Semantics:
    """Semantics whose parameters are all constants, without the numbers that are not known."""
    known = {name: value for name, value in geometry.items() if value is not None}
    return Semantics(kind=kind, geometry=known, weights=weights_of(raw))


def whole(value: Any) -> int | None:
    """`value` where it is an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def sizes_of(value: Any, rank: int) -> tuple[int, ...] | None:
    """An argument like ``kernel_size`` as `rank` integers; None where it is not that."""
    listed = tuple(value) if isinstance(value, list | tuple) else (value,)
    if len(listed) == 1:
        listed *= rank
    integers = tuple(size for size in listed if isinstance(size, int) and not isinstance(size, bool))
    return integers if len(integers) == rank == len(listed) else None
