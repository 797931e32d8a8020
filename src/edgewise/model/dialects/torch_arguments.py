"""Looking at one of PyTorch's operators: its name, its tensors by their arguments' names."""

from __future__ import annotations

from typing import Any

from edgewise.model.dialects.base import RawOperator


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


def find(raw: RawOperator, role: str) -> tuple[int, ...]:
    """Positions of the inputs that were given as the argument `role`."""
    roles = raw.attributes.get("roles", ())
    return tuple(at for at, name in enumerate(roles) if name == role and raw.given(at))


def find_first(raw: RawOperator, role: str, at: int) -> int | None:
    """Position of the argument `role`, which is input `at` where inputs have no names."""
    if raw.attributes.get("roles"):
        return next(iter(find(raw, role)), None)
    return at if raw.given(at) else None


def weights_of(raw: RawOperator) -> tuple[int, ...]:
    """Positions of everything that is a parameter if it is constant."""
    roles = raw.attributes.get("roles", ())
    return tuple(at for at in raw.positions if at >= len(roles) or roles[at] not in _NOT_WEIGHTS)


def whole(value: Any) -> int | None:
    """`value` where it is an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def sizes_of(value: Any, rank: int) -> tuple[int, ...] | None:
    """An argument like ``kernel_size`` as `rank` integers; None where it is not that."""
    listed = tuple(value) if isinstance(value, list | tuple) else (value,)
    if len(listed) == 1:
        listed *= rank
    integers = tuple(size for size in listed if whole(size) is not None)
    return integers if len(integers) == rank == len(listed) else None
