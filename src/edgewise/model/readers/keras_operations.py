"""Shapes of the operations of ``keras.ops`` that a functional model holds between its layers (``x * 2.0``).

They have no parameters. Their arguments, unlike a layer's, are in the call: tensors among plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.model.readers.keras_config import NotKnown, Shape, Wrong
from edgewise.model.readers.keras_reshaping import broadcast, fill_shape
from edgewise.model.signature import Dimension


@dataclass(frozen=True, slots=True)
class Call:
    """An operation as it is called.

    Attributes:
        shapes: of its tensors.
        options: its configuration and keyword arguments.
        plain: its positional arguments that are no tensors.
    """

    shapes: Sequence[Shape]
    options: Mapping[str, Any]
    plain: Sequence[Any]

    def axes(self, rank: int, option: str = "axis") -> tuple[int, ...] | None:
        """Axes as positions; None for all of them."""
        value = self.options.get(option)
        if value is None:
            return None
        listed = list(value) if isinstance(value, list | tuple) else [value]
        if not all(isinstance(axis, int) and not isinstance(axis, bool) and -rank <= axis < rank for axis in listed):
            raise Wrong(f"its axis is {str(value)[:40]!r}")
        return tuple(axis % rank for axis in listed)


Rule = Callable[[Call], Shape]


def _broadcast(call: Call) -> Shape:
    return broadcast(call.shapes)


def _reduce(call: Call) -> Shape:
    shape = call.shapes[0]
    axes = call.axes(len(shape))
    gone = set(range(len(shape))) if axes is None else set(axes)
    if call.options.get("keepdims") is True:
        return tuple(1 if at in gone else size for at, size in enumerate(shape))
    return tuple(size for at, size in enumerate(shape) if at not in gone)


def _matmul(call: Call) -> Shape:
    first, second = call.shapes[:2] if len(call.shapes) > 1 else ((), ())
    if min(len(first), len(second)) < 2:
        raise NotKnown("products of vectors have no rule here")
    return (*broadcast([first[:-2], second[:-2]]), first[-2], second[-1]) if len(first) > 2 or len(second) > 2 else (
        first[0], second[1],
    )  # fmt: skip


def _transpose(call: Call) -> Shape:
    shape = call.shapes[0]
    axes = call.axes(len(shape), "axes")
    order = tuple(reversed(range(len(shape)))) if axes is None else axes
    if sorted(order) != list(range(len(shape))):
        raise Wrong(f"its axes are {order!r:.40}")
    return tuple(shape[at] for at in order)


def _reshape(call: Call) -> Shape:
    target = call.options.get("newshape", call.plain[0] if call.plain else None)
    if not isinstance(target, list | tuple) or not all(size is None or isinstance(size, int) for size in target):
        raise NotKnown("its new shape is not known")
    whole = tuple(-1 if size is None else size for size in target)
    # With an open batch the missing size may be the batch itself: both hold as many elements per item.
    return fill_shape(whole, call.shapes[0])


def _expand(call: Call) -> Shape:
    shape = list(call.shapes[0])
    axes = call.axes(len(shape) + 1)
    for axis in sorted(axes or ()):
        shape.insert(axis, 1)
    return tuple(shape)


def _squeeze(call: Call) -> Shape:
    shape = call.shapes[0]
    axes = call.axes(len(shape))
    return tuple(size for at, size in enumerate(shape) if (size != 1 if axes is None else at not in axes))


def _concatenate(call: Call) -> Shape:
    rank = len(call.shapes[0])
    axes = call.axes(rank) or (rank - 1,)
    if any(len(shape) != rank for shape in call.shapes):
        raise Wrong("the shapes that it joins have different ranks")
    result: list[Dimension] = list(call.shapes[0])
    whole = [shape[axes[0]] for shape in call.shapes]
    known = [size for size in whole if isinstance(size, int)]
    result[axes[0]] = sum(known) if len(known) == len(whole) else None
    return tuple(result)


def _get_item(call: Call) -> Shape:
    """``x[…]`` with numbers, slices, an ellipsis and new axes; indices that are tensors have no rule."""
    shape = call.shapes[0]
    wanted = call.plain[0] if len(call.plain) == 1 and len(call.shapes) == 1 else NotImplemented
    items = wanted if isinstance(wanted, list) else [wanted]
    taken = sum(1 for item in items if item is not None and not _is_ellipsis(item))
    if taken > len(shape) or sum(map(_is_ellipsis, items)) > 1:
        raise Wrong("it takes more dimensions than there are")
    result: list[Dimension] = []
    at = 0
    for item in items:
        if item is None:
            result.append(1)
        elif _is_ellipsis(item):
            result += shape[at : at + len(shape) - taken]
            at += len(shape) - taken
        else:
            result += _cut(item, shape[at])
            at += 1
    return (*result, *shape[at:])


def _is_ellipsis(item: Any) -> bool:
    return isinstance(item, dict) and item.get("class_name") == "__ellipsis__"


def _cut(item: Any, size: Dimension) -> list[Dimension]:
    """What is left of one dimension: nothing for a number."""
    match item:
        case bool():
            pass
        case int():
            return []
        case {"class_name": "__slice__", "config": {"start": start, "stop": stop, "step": step}}:
            parts = (start, stop, step)
            if step == 0 or any(isinstance(part, bool) or not isinstance(part, int | None) for part in parts):
                raise Wrong("a slice of it is no slice")
            if (start, stop) == (None, None) and step in (None, 1):
                return [size]
            return [len(range(*slice(*parts).indices(size))) if isinstance(size, int) else None]
    raise NotKnown("what it selects depends on data")


def _same(call: Call) -> Shape:
    return call.shapes[0]


_SAME = (
    "Relu", "Relu6", "Sigmoid", "HardSigmoid", "Tanh", "Silu", "HardSilu", "Elu", "Selu", "Celu", "Softplus",
    "Softsign", "Mish", "LeakyRelu", "Gelu", "Softmax", "LogSoftmax", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan",
    "Arctan", "Erf", "Absolute", "Negative", "Square", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "Rsqrt", "Clip",
    "Log1p", "Log2", "Expm1", "LogicalNot", "Cast", "StopGradient", "Flip", "Roll", "Cumsum",
)  # fmt: skip
_BROADCAST = (
    "Add", "Subtract", "Multiply", "Divide", "TrueDivide", "FloorDivide", "Mod", "Power", "Maximum", "Minimum", "Equal",
    "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "Where",
)  # fmt: skip
_REDUCE = ("Sum", "Mean", "Max", "Min", "Prod", "Var", "Std", "Any", "All", "Argmax", "Argmin")

OPERATIONS: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_BROADCAST, _broadcast),
    **dict.fromkeys(_REDUCE, _reduce),
    "Matmul": _matmul,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "ExpandDims": _expand,
    "Squeeze": _squeeze,
    "Concatenate": _concatenate,
    "GetItem": _get_item,
}
"""Class of an operation → the shape that it gives; what is not here has the shape that the file states."""
