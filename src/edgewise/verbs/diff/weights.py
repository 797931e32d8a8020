"""The weights of two graphs of one format: which belong to an operator, and what differs in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.errors import BadModel
from edgewise.model.graph import BITS, Graph, Operator, Tensor
from edgewise.model.sparsity import open_elements
from edgewise.text import one_line

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

OTHER, UNREAD, OTHER_SCALES = "with other values", "whose values can not be read here", "with other scales"

_ROUNDED = 2**-7
"""Differences of real numbers in two types that rounding explains: bfloat16 has eight bits."""


def weights_in(graph: Graph) -> dict[str, list[Tensor]]:
    """Operator → its weights, also those that it takes through a dequantise or an identity."""
    stored: dict[str, str] = {}
    for each in graph.operators:
        if each.inputs and (each.kind == "dequantize" or each.op == "Identity"):
            stored |= dict.fromkeys(each.outputs, stored.get(each.inputs[0], each.inputs[0]))
    found = {}
    for each in graph.operators:
        names = (stored.get(name, name) for name in each.inputs if name in each.weights or name in stored)
        found[each.name] = [graph.tensors[name] for name in names if graph.tensors[name].constant]
    return found


def read_elements(tensor: Tensor, path: Path) -> Array | None:
    """Return all elements of a constant, flattened; None where they can't be read."""
    if tensor.data is None:
        return None
    try:
        return open_elements(tensor.data, path)
    except (BadModel, OSError, KeyError, ValueError):
        return None


def marks_in(graph: Graph, path: Path) -> dict[str, bytes]:
    """Operator → digest of its type and its weights; those without weights that can be read are left out."""
    found = {}
    for name, weights in weights_in(graph).items():
        arrays = [read_elements(tensor, path) for tensor in weights]
        digest = blake2b(digest_size=16)
        for tensor, array in zip(weights, arrays, strict=True):
            if array is not None:
                digest.update(f"{tensor.dtype}{tensor.shape}".encode())
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        if arrays and all(array is not None for array in arrays):
            found[name] = digest.digest()
    return found


def find_changes(
    pair: tuple[Operator, Operator],
    weights: Sequence[Mapping[str, Sequence[Tensor]]],
    graphs: Sequence[Graph],
    paths: Sequence[Path],
) -> Iterator[str]:
    """Yield what differs in the weights of a pair: their number, shapes, types, elements, or scales."""
    sides = [of_graph[one.name] for one, of_graph in zip(pair, weights, strict=True)]
    op = one_line(pair[0].op)
    if len(sides[0]) != len(sides[1]):
        longer = int(len(sides[1]) > len(sides[0]))
        sides[longer] = [each for each in sides[longer] if not _is_no_bias(each, paths[longer])]
    if len(sides[0]) != len(sides[1]):
        yield f"{op}, {len(sides[0])} weights → {len(sides[1])}"
        return
    for first, second in zip(*sides, strict=True):
        if first.shape != second.shape:
            yield f"{op}, weights {_shape(first)} → {_shape(second)}"
        elif first.dtype != second.dtype and _are_rounded(first, second, paths) is False:
            yield f"{op}, weights {OTHER}"
        elif first.dtype != second.dtype:
            yield f"{op}, weights {first.dtype} → {second.dtype}"
        elif (equal := _are_equal(first, second, paths)) is not True:
            yield f"{op}, weights {OTHER if equal is False else UNREAD}"
        elif _have_other_scales((first, second), graphs, paths):
            yield f"{op}, weights {OTHER_SCALES}"


def types_of(changes: Sequence[str]) -> str:
    """``"float32 → int8"``: the types of an operator's first weights, where nothing but types changed; else ""."""
    found = [change.partition(", weights ")[2] for change in changes]
    return found[0] if found and all(types.partition(" → ")[0] in BITS for types in found) else ""


def are_others(changes: Sequence[str]) -> bool:
    """Whether weights have other values or shapes, so that they are not those of the same network."""
    return not types_of(changes) and any(not change.endswith(UNREAD) for change in changes)


def _is_no_bias(tensor: Tensor, path: Path) -> bool:
    """Whether it is a vector of zeros, which an exporter may as well leave out."""
    array = read_elements(tensor, path) if len(tensor.shape or ()) == 1 else None
    return array is not None and not array.any()


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape or ())) or "scalar"


def _are_equal(first: Tensor, second: Tensor, paths: Sequence[Path]) -> bool | None:
    """Whether the elements agree; None where they can't be read."""
    one, two = (read_elements(each, path) for each, path in zip((first, second), paths, strict=True))
    if one is None or two is None:
        return None
    one, two = (np.ascontiguousarray(each).view(np.uint8) for each in (one, two))
    return bool(np.array_equal(one, two))


def _are_rounded(first: Tensor, second: Tensor, paths: Sequence[Path]) -> bool | None:
    """Whether real numbers of two types agree but for rounding; None where they can't be read, or one has integers."""
    values = []
    for tensor, path in zip((first, second), paths, strict=True):
        array = read_elements(tensor, path) if "float" in tensor.dtype else None
        if array is None:
            return None
        # Of bfloat16 the bits are read: the upper half of a float32.
        values.append((array.astype(np.uint32) << 16).view(np.float32) if tensor.dtype == "bfloat16" else array)
    one, two = (each.astype(np.float64) for each in values)
    finite = np.isfinite(one) & np.isfinite(two)
    largest = float(np.abs(one[finite]).max(initial=0.0))
    return bool(np.allclose(one[finite], two[finite], rtol=_ROUNDED, atol=_ROUNDED * largest))


def _have_other_scales(pair: Sequence[Tensor], graphs: Sequence[Graph], paths: Sequence[Path]) -> bool:
    """Whether the same integers stand for other numbers; `pair` has the same elements.

    The scales of TFLite's channels are no tensors: of them the first one is compared, in `Tensor.quantization`.
    """
    if pair[0].quantization != pair[1].quantization:
        return True
    scales = [
        [graph.tensors[name] for name in each.scales if name in graph.tensors]
        for each, graph in zip(pair, graphs, strict=True)
    ]
    both = list(zip(*scales, strict=False))
    return any(_are_equal(one, two, paths) is False for one, two in both)
