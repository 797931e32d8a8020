"""Shapes of Keras' layers that join, cut and rearrange tensors; they have no parameters."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgewise.model.readers.keras_config import (
    Layer,
    Outcome,
    Shape,
    Wrong,
    join_shape,
    spatial_rank,
    split_shape,
    write_shape,
)
from edgewise.model.signature import Dimension


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that element-wise arithmetic gives. Raises `Wrong`."""
    rank = max(len(shape) for shape in shapes)
    result: list[Dimension] = []
    for at in range(-rank, 0):
        sizes = {shape[at] for shape in shapes if len(shape) >= -at} - {1}
        known = {size for size in sizes if isinstance(size, int)}
        if len(known) > 1:
            raise Wrong(f"the shapes {', '.join(write_shape(shape) for shape in shapes)[:120]} don't fit together")
        result.append(next(iter(known)) if known and len(sizes) == 1 else None if sizes else 1)
    return tuple(result)


def merge(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Element-wise arithmetic of two or more tensors."""
    del layer
    if len(shapes) < 2:
        raise Wrong("it is given fewer than two tensors")
    return Outcome((broadcast(shapes),))


def concatenate(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Tensors joined along an axis."""
    if len({len(shape) for shape in shapes}) != 1:
        raise Wrong("the shapes that it joins have different ranks")
    axis = layer.axes("axis", len(shapes[0]))[0]
    result: list[Dimension] = []
    for at, sizes in enumerate(zip(*shapes, strict=True)):
        whole = [size for size in sizes if isinstance(size, int)]
        if at == axis:
            result.append(sum(whole) if len(whole) == len(sizes) else None)
        elif len(set(whole)) > 1:
            raise Wrong("the shapes that it joins don't fit together")
        else:
            result.append(whole[0] if whole else sizes[0])
    return Outcome((tuple(result),))


def dot(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Products summed over one axis of each of two tensors."""
    if len(shapes) != 2:
        raise Wrong("it takes two tensors")
    first, second = dot_axes(layer, shapes)
    left = [size for at, size in enumerate(shapes[0]) if at != first]
    right = [size for at, size in enumerate(shapes[1]) if at != second][1:]
    shape = (*left, *right)
    return Outcome((shape if len(shape) > 1 else (*shape, 1),))


def dot_axes(layer: Layer, shapes: Sequence[Shape]) -> tuple[int, int]:
    """The axis of each factor that is summed over. Raises `Wrong`."""
    value = layer.options.get("axes")
    pair = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(pair) != 2:
        raise Wrong(f"its axes are {str(value)[:40]!r}")
    first, second = (
        Layer(kind="Dot", module="", name="", options={"axes": axis}).axes("axes", len(shape))[0]
        for axis, shape in zip(pair, shapes, strict=True)
    )
    if 0 in (first, second):
        raise Wrong("it sums over the batch")
    return first, second


def flatten(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Everything but the batch in one dimension."""
    del layer
    rest = [size for size in shapes[0][1:] if isinstance(size, int)]
    if not shapes[0]:
        raise Wrong("it is given a single number")
    return Outcome(((shapes[0][0], prod(rest) if len(rest) == len(shapes[0]) - 1 else None),))


def reshape(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """The same values in another shape; the batch stays."""
    target = layer.options.get("target_shape")
    if not isinstance(target, list | tuple) or not all(isinstance(size, int) for size in target):
        raise Wrong(f"its target shape is {str(target)[:40]!r}")
    return Outcome(((shapes[0][:1] + fill_shape(tuple(target), shapes[0][1:])),))


def fill_shape(target: tuple[int, ...], source: Shape) -> Shape:
    """`target` with its -1 filled in, so that it has as many elements as `source`. Raises `Wrong`."""
    known = prod(size for size in target if size != -1)
    whole = [size for size in source if isinstance(size, int)]
    if target.count(-1) > 1 or any(size < -1 for size in target) or len(target) > 64:
        raise Wrong(f"its target shape is {str(target)[:60]}")
    if len(whole) < len(source):
        return tuple(None if size == -1 else size for size in target)
    elements = prod(whole)
    if (-1 in target and (known == 0 or elements % known)) or (-1 not in target and known != elements):
        raise Wrong(f"{elements} values can't take the shape {str(target)[:60]}")
    return tuple(elements // known if size == -1 else size for size in target)


def permute(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Dimensions in another order; the batch stays first."""
    dims = layer.options.get("dims")
    if not isinstance(dims, list | tuple) or sorted(map(str, dims)) != sorted(map(str, range(1, len(shapes[0])))):
        raise Wrong(f"its order of dimensions is {str(dims)[:40]!r}")
    return Outcome(((shapes[0][0], *(shapes[0][int(at)] for at in dims)),))


def repeat(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """A vector several times over."""
    if len(shapes[0]) != 2:
        raise Wrong("it repeats vectors only")
    return Outcome(((shapes[0][0], layer.whole("n", least=1), shapes[0][1]),))


def _margins(layer: Layer, option: str, rank: int) -> list[tuple[int, int]]:
    """``padding`` or ``cropping``: a number, one per dimension, or a pair per dimension."""
    value = layer.options.get(option)
    listed = list(value) if isinstance(value, list | tuple) else [value] * rank
    if rank == 1 and len(listed) == 2:
        listed = [listed]
    pairs = [tuple(each) if isinstance(each, list | tuple) else (each, each) for each in listed]
    if len(pairs) != rank or not all(
        len(pair) == 2 and all(isinstance(each, int) and 0 <= each < 2**31 for each in pair) for pair in pairs
    ):
        raise Wrong(f"its {option} is {str(value)[:40]!r}")
    return [(pair[0], pair[1]) for pair in pairs]


def pad(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Margins that are added or cut off."""
    rank = spatial_rank(layer)
    batch, spatial, channels = split_shape(layer, shapes[0], rank)
    sign, option = (-1, "cropping") if layer.kind.startswith("Cropping") else (1, "padding")
    sizes: list[Dimension] = []
    for size, margins in zip(spatial, _margins(layer, option, rank), strict=True):
        sizes.append(size + sign * sum(margins) if isinstance(size, int) else None)
        if isinstance(sizes[-1], int) and sizes[-1] < 1:
            raise Wrong("it crops everything away")
    return Outcome((join_shape(layer, batch, sizes, channels),))


def upsample(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Spatial sizes times a factor."""
    rank = spatial_rank(layer)
    batch, spatial, channels = split_shape(layer, shapes[0], rank)
    factors = layer.sizes("size", rank, 2, least=1)
    sizes = [size * factor if isinstance(size, int) else None for size, factor in zip(spatial, factors, strict=True)]
    return Outcome((join_shape(layer, batch, sizes, channels),))


def resize(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Images without a batch are resized too."""
    size = (layer.whole("height", least=1), layer.whole("width", least=1))
    shape = shapes[0]
    if len(shape) not in (3, 4):
        raise Wrong(f"it is given the shape {write_shape(shape)}")
    if layer.channels_first:
        return Outcome(((*shape[:-2], *size),))
    return Outcome(((*shape[:-3], *size, shape[-1]),))


def encode(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Categories as vectors of ``num_tokens``."""
    tokens, shape = layer.whole("num_tokens", least=1), shapes[0]
    if layer.text("output_mode", "multi_hot") == "one_hot" and (len(shape) < 2 or shape[-1] != 1):
        return Outcome(((*shape, tokens),))
    return Outcome(((*shape[:-1], tokens),))
