"""What TFLite's formulas read from an operator: sizes of its tensors and its options, None where they are not known."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from edgewise.model.dialects.base import RawOperator
from edgewise.model.graph import Tensor
from edgewise.model.signature import Dimension

FUSED = {
    "NONE": "none", "RELU": "clamp", "RELU_N1_TO_1": "clamp", "RELU6": "clamp", "TANH": "tanh", "SIGN_BIT": "sign",
}  # fmt: skip
"""ActivationFunctionType → function of `edgewise.model.cost.ACTIVATIONS`."""

INDEX_TYPES = frozenset({"int32", "int64", "bool", "string", "uint32", "uint64", "resource", "variant"})
"""Types of shapes, axes, indices and conditions, whose constants are no parameters."""


def tensor_at(tensors: Sequence[Tensor | None], at: int) -> Tensor | None:
    """The tensor at a position; None where it is left out."""
    return tensors[at] if at < len(tensors) else None


def shape_at(raw: RawOperator, at: int) -> tuple[Dimension, ...]:
    """Shape of an input; () where it is left out or its rank is not known."""
    tensor = tensor_at(raw.inputs, at)
    return tensor.shape or () if tensor is not None else ()


def size_at(raw: RawOperator, at: int, axis: int) -> int | None:
    """One dimension of an input."""
    shape = shape_at(raw, at)
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    return size if isinstance(size, int) else None


def elements_at(tensors: Sequence[Tensor | None], at: int) -> int | None:
    """Elements of a tensor."""
    tensor = tensor_at(tensors, at)
    return tensor.elements if tensor is not None else None


def outputs_of(raw: RawOperator) -> int | None:
    """Elements of the first output."""
    return elements_at(raw.outputs, 0)


def product(*sizes: int | None) -> int | None:
    """Their product where all are known."""
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None


def total(*parts: int | None) -> int | None:
    """Their sum where all are known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def known(**geometry: Any) -> dict[str, Any]:
    """The geometry without what is not known, which the formula then names as lacking."""
    return {name: value for name, value in geometry.items() if value is not None}


def positive(raw: RawOperator, option: str) -> int | None:
    """An option that is a size."""
    value = raw.attributes.get(option)
    return value if isinstance(value, int) and value > 0 else None


def fused(raw: RawOperator) -> str:
    """The function that is applied to the outputs; the schema's own name where it is a newer one."""
    name = str(raw.attributes.get("fused_activation_function", "NONE"))
    return FUSED.get(name, name)


def parameters(raw: RawOperator, *positions: int) -> tuple[int, ...]:
    """Those of the inputs at `positions` that may be parameters, by their type."""
    found = [(at, tensor_at(raw.inputs, at)) for at in positions]
    return tuple(at for at, tensor in found if tensor is not None and tensor.dtype not in INDEX_TYPES)
