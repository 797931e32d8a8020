"""Zeros in the weights of a network, and the patterns that they form: N of M, blocks, whole filters and channels.

Weights are read in pieces of about `PIECE_ELEMENTS`, so memory does not grow with the model. A zero is the number that
stands for 0: the zero point of quantised weights. Biases and other tensors with fewer than two dimensions are left out.

Every pattern refers to the matrix as which kernels see a weight: one row per filter (output), and along a row the
input channels, once per position of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.model.graph import Graph, Operator, StoredData, Tensor
from edgewise.model.readers.base import check_inside, damaged

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

PIECE_ELEMENTS = 2**23
GROUPS = (4, 8, 16)
"""Values of M of the patterns N:M."""
BLOCKS = ((1, 4), (1, 8), (4, 1), (8, 1), (4, 4))
"""Filters × input channels of the blocks that sparse kernels of CPUs and accelerators skip as a whole."""
_PRODUCTS = ("convolution", "transposed-convolution", "matrix-multiplication")
_SAME_VALUES = frozenset({"Cast", "Convert", "FakeQuantize", "FAKE_QUANT", "DENSIFY", "Identity"})
_TYPES = {"bool": "u1", "float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<u2"} | {
    f"{kind}{bits}": f"<{kind[0]}{bits // 8}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
"""Types of stored elements whose zeros edgewise finds → numpy's type of their bytes."""
_ROWS = 16
"""Pieces have a multiple of this many filters, so that no block lies in two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSparsity:
    """Zeros of one weight tensor.

    Attributes:
        index: of the operator in `Graph.operators` that computes with the weight.
        subgraph: name in `Graph.subgraphs` of the graph that has the operator; "" is the network itself.
        weight: name of the constant tensor.
        elements: of the weight; None if its shape is unknown.
        zeros: None if they can't be counted; `absent_because` has the reason.
        nan: number of elements that are not a number; they are no zeros.
        at_most: M → the most non-zeros in any M neighbouring input channels: 2 for M = 4 is the pattern 2:4. Without
            the M that do not divide the number of input channels.
        in_blocks: ``"1x4"`` (filters × input channels) → number of zeros that lie in blocks of zeros alone.
        filters, zero_filters: number of filters, and of those that are zero throughout; the same for input channels.
        patterns_absent_because: why there are no patterns; None if they were looked for.
    """

    index: int
    subgraph: str = ""
    weight: str
    elements: int | None
    zeros: int | None = None
    nan: int = 0
    absent_because: str | None = None
    at_most: Mapping[int, int] = field(default_factory=dict)
    in_blocks: Mapping[str, int] = field(default_factory=dict)
    filters: int | None = None
    zero_filters: int | None = None
    channels: int | None = None
    zero_channels: int | None = None
    patterns_absent_because: str | None = None

    @property
    def share(self) -> float | None:
        """Zeros per element, 0…1; None if either is unknown."""
        return None if self.zeros is None or not self.elements else self.zeros / self.elements

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns that hold everywhere and do not follow from others: ``2:4``, ``4x4 blocks``, ``3 of 64 filters``.

        Of N:M, those that leave at most half: a looser one holds by chance, and no engine uses it.
        """
        if not self.zeros or not self.elements:
            return ()
        if self.zeros == self.elements:
            return ("all zero",)
        found: list[str] = []
        tightest = 0.51
        for of, most in self.at_most.items():
            if most / of < tightest:
                found, tightest = [*found, f"{most}:{of}"], most / of
        whole = [
            (self.zero_filters or 0, self.filters, "filters"),
            (self.zero_channels or 0, self.channels, "channels"),
        ]
        if not any(count and count * self.elements == self.zeros * (total or 0) for count, total, _ in whole):
            blocks = [block for block in BLOCKS if self.in_blocks.get("{}x{}".format(*block)) == self.zeros]
            outer = [(r, c) for r, c in blocks if not any((r, c) != b and b[0] % r == b[1] % c == 0 for b in blocks)]
            found += [f"{rows}x{columns} blocks" for rows, columns in outer]
        return (*found, *(f"{count} of {total} {noun}" for count, total, noun in whole if count))

    def to_dict(self) -> dict[str, Any]:
        """JSON-shaped."""
        at_most = {str(of): most for of, most in self.at_most.items()}
        return {**asdict(self), "at_most": at_most, "share": self.share, "patterns": list(self.patterns)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparsity:
    """Zeros of a network's weights.

    Attributes:
        layers: one per weight with two or more dimensions (biases are left out), in the order of the operators.
    """

    layers: tuple[LayerSparsity, ...]

    @property
    def counted(self) -> tuple[LayerSparsity, ...]:
        """The weights whose zeros could be counted, every shared weight once.

        Tensors of different subgraphs may have the same name, so sizes and counts must agree too.
        """
        found = {(each.weight, each.elements, each.zeros): each for each in self.layers if each.zeros is not None}
        return tuple(found.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON-shaped."""
        zeros = sum(each.zeros or 0 for each in self.counted)
        elements = sum(each.elements or 0 for each in self.counted)
        return {
            "totals": {
                "zeros": zeros,
                "elements": elements,
                "share": zeros / elements if elements else None,
                "weights": len(self.counted),
                "weights_not_counted": len({each.weight for each in self.layers if each.zeros is None}),
            },
            "layers": [each.to_dict() for each in self.layers],
        }


def count_zeros(graph: Graph, *, model: Path) -> Sparsity:
    """Count the zeros of the weights of `graph`, and find their patterns. Reads all weights.

    Args:
        model: the file that `graph` is from.

    Raises:
        BadModel: a weight file lies outside the model's folder or is shorter than the model says.
    """
    producers = graph.producers()
    weights: list[tuple[Operator, int | None, str]] = [
        (operator, position, name)
        for operator in graph.operators
        if operator.kind in _PRODUCTS
        for position, name in _find_weights(operator, graph, producers)
    ]
    claimed = {name for _, _, name in weights}
    for operator in graph.operators:
        for name in dict.fromkeys(operator.weights):
            wide = [size for size in graph.tensors[name].shape or () if size != 1]
            if name not in claimed and len(wide) >= 2:
                weights.append((operator, None, name))
    layers = [_count(graph, model, *weight) for weight in sorted(weights, key=lambda each: each[0].index)]
    for name, inner in graph.subgraphs.items():
        own = count_zeros(inner, model=model).layers
        layers += [replace(each, subgraph="/".join(filter(None, (name, each.subgraph)))) for each in own]
    return Sparsity(layers=tuple(layers))


def _find_weights(operator: Operator, graph: Graph, producers: Mapping[str, int]) -> list[tuple[int, str]]:
    """Positions of a product's inputs that are constants of two or more dimensions, and the names of these constants.

    Steps that keep every element in its place (dequantising, conversions) are looked through.
    """
    found = []
    scales = {name for each in graph.input_tensors(operator) for name in each.scales}
    for position, given in enumerate(operator.inputs):
        name = given
        while name in producers and not graph.tensors[name].constant:
            maker = graph.operators[producers[name]]
            same = maker.kind in ("dequantize", "quantize") or maker.op in _SAME_VALUES
            if not same or not maker.inputs or graph.tensors[maker.inputs[0]].shape != graph.tensors[name].shape:
                break
            name = maker.inputs[0]
        if name and name not in scales and graph.tensors[name].constant and len(graph.tensors[name].shape or ()) >= 2:
            found.append((position, name))
    return found


def count_denormals(graph: Graph, *, model: Path) -> dict[str, int]:
    """Return weight → how many of its elements are denormal: not 0, and nearer to it than a float of full precision.

    Reads the weights of the outermost graph that are float32 or float64. Raises as `count_zeros`.
    """
    import numpy as np

    found: dict[str, int] = {}
    for name in dict.fromkeys(name for operator in graph.operators for name in operator.weights):
        place = graph.tensors[name].data
        if place is None or place.dtype not in ("float32", "float64"):
            continue
        data = open_elements(place, model)
        least = np.finfo(data.dtype).tiny
        pieces = (data[start : start + PIECE_ELEMENTS] for start in range(0, data.size, PIECE_ELEMENTS))
        count = sum(int(np.count_nonzero((np.abs(piece) < least) & (piece != 0))) for piece in pieces)
        found |= {name: count} if count else {}
    return found


def _axes(operator: Operator, position: int | None, graph: Graph, rank: int) -> tuple[int, int] | None:
    """Dimensions of filters and of input channels of a product's weight; None if it has none."""
    tflite, options = graph.format == "tflite", operator.attributes
    if position is None:
        return None
    if operator.kind == "matrix-multiplication":
        if operator.op in ("Gemm", "QGemm", "MatMul"):
            sides = ("transA", "transpose_a"), ("transB", "transpose_b")
            turned = any(str(options.get(name, 0)).lower() in ("1", "true") for name in sides[min(position, 1)])
        else:
            turned = (
                operator.op in ("FULLY_CONNECTED", "MatMulNBits", "MatMulBnb4")
                or "linear" in operator.op
                or bool(options.get("adj_y"))
            )
        right = position > 0
        return (rank - 2, rank - 1) if turned == right else (rank - 1, rank - 2)
    if operator.op.startswith("GroupConvolution") or rank < 3 or (tflite and operator.geometry.get("depthwise")):
        return None
    if operator.kind == "transposed-convolution" and (options.get("group", 1), options.get("groups", 1)) != (1, 1):
        return None  # the filters of all groups lie in the same places of the second dimension
    if tflite:
        return 0, rank - 1
    return (1, 0) if operator.kind == "transposed-convolution" else (0, 1)


def _count(graph: Graph, model: Path, operator: Operator, position: int | None, name: str) -> LayerSparsity:
    tensor = graph.tensors[name]
    place, elements = tensor.data, tensor.elements
    found = LayerSparsity(index=operator.index, weight=name, elements=elements)
    if place is None or elements is None:
        return replace(found, absent_because=f"edgewise can't read this weight from {graph.format} files")
    if place.dtype not in _TYPES:
        return replace(found, absent_because=f"edgewise can't read weights of type {place.dtype}")
    shape = tuple(int(str(size)) for size in tensor.shape or ())
    axes, left_out = _axes(operator, position, graph, len(shape)), 0
    why = None if axes else f"a weight of {operator.op} has no matrix of filters and input channels"
    if tensor.sparsity is not None:
        why = "the weight is in a sparse encoding, of which edgewise counts only the zeros"
        shape = (round(elements * (1 - tensor.sparsity)), 1)
        left_out = elements - prod(shape)
    try:
        zero, unclear = _find_zero(tensor, shape, model)
        if unclear:
            return replace(found, absent_because=unclear)
        used = (0, len(shape) - 1) if why or axes is None else axes
        counts = _find_patterns(_read(place, shape, used, zero, model), shape, used)
    except OSError as error:
        raise damaged(model, f"its weights can't be read: {error.strerror or error}") from error
    if why:
        zeros = counts["zeros"] + left_out
        return replace(found, zeros=zeros, nan=counts["nan"], patterns_absent_because=why)
    return replace(found, **counts)


def _find_zero(tensor: Tensor, shape: tuple[int, ...], model: Path) -> tuple[Any, str]:
    """Return the integer that stands for 0, or an array of one per channel that fits `shape`; and why there is none."""
    scheme = tensor.quantization
    if scheme is None or scheme.zero_points is None:
        return (scheme.zero_point if scheme else 0), ""
    if scheme.zero_points.dtype not in _TYPES:
        return 0, f"edgewise can't read zero points of type {scheme.zero_points.dtype}"
    points = open_elements(scheme.zero_points, model)
    if points.size and (points == points[0]).all():
        return points[0].item(), ""
    axis = scheme.axis
    if axis is None or scheme.block or not 0 <= axis < len(shape) or points.size != shape[axis]:
        return 0, "it has several zero points, which are not one per channel"
    return points.reshape([-1 if at == axis else 1 for at in range(len(shape))]), ""


def open_elements(place: StoredData, model: Path) -> Array:
    """Return all elements, flattened and not yet read, of bfloat16 their bits.

    Raises:
        BadModel: the file lies outside the folder of `model`, or is too short.
    """
    import numpy as np

    kind = _TYPES[place.dtype]
    if not place.file:
        return np.frombuffer(place.inline, kind)
    file = Path(place.file)
    if file != model:
        check_inside(model, file)
    if file.stat().st_size < place.offset + place.size:
        raise damaged(model, f"{file.name} is truncated: a weight ends at {place.offset + place.size}")
    count = place.size // np.dtype(kind).itemsize
    return np.memmap(file, kind, "r", place.offset, count) if count else np.empty(0, kind)


def _read(
    place: StoredData, shape: Sequence[int], axes: tuple[int, int], zero: Any, model: Path
) -> Iterator[tuple[Array, int]]:
    """Pieces of a weight: which elements are zero, shape (filters, positions, input channels); number of NaN."""
    import numpy as np

    count = prod(shape)
    if not count:
        return
    data = open_elements(place, model)
    if data.size < count:
        raise damaged(model, f"a weight of shape {list(shape)} has only {place.size or len(place.inline)} bytes")
    data = np.moveaxis(data[:count].reshape(shape), axes, (0, -1))
    zeros = np.moveaxis(np.broadcast_to(zero, shape), axes, (0, -1)) if isinstance(zero, np.ndarray) else None
    rows = max(1, PIECE_ELEMENTS // (count // len(data)) // _ROWS) * _ROWS
    for start in range(0, len(data), rows):
        piece = np.ascontiguousarray(data[start : start + rows])
        nan = np.isnan(piece) if piece.dtype.kind == "f" else np.False_
        if place.dtype == "bfloat16":
            piece = piece & 0x7FFF  # without the sign
            nan = piece > 0x7F80  # infinity
        mask = piece == (zero if zeros is None else zeros[start : start + rows])
        yield mask.reshape(len(mask), -1, mask.shape[-1]), int(nan.sum())


def _find_patterns(
    pieces: Iterator[tuple[Array, int]], shape: tuple[int, ...], axes: tuple[int, int]
) -> dict[str, Any]:
    """Fields of a `LayerSparsity`."""
    import numpy as np

    filters, channels = (shape[axis] for axis in axes)
    at_most = {of: 0 for of in GROUPS if channels and channels % of == 0}
    in_blocks = {f"{r}x{c}": 0 for r, c in BLOCKS if filters and channels and filters % r == 0 == channels % c}
    zeros = nan = zero_filters = 0
    all_zero = np.full(channels, filters > 0)
    for mask, invalid in pieces:
        zeros, nan = zeros + int(mask.sum()), nan + invalid
        zero_filters += int(mask.all(axis=(1, 2)).sum())
        all_zero &= mask.all(axis=(0, 1))
        # Zeros per 1, 2, 4 … neighbouring channels. Sums of halves are ten times as fast as numpy's sums of short rows.
        sums = {1: mask.view(np.uint8)}
        for width in (2, *GROUPS):
            if channels % width == 0:
                sums[width] = sums[width // 2][..., ::2] + sums[width // 2][..., 1::2]
        for of, most in at_most.items():
            at_most[of] = max(most, of - int(sums[of].min()))
        for block in in_blocks:
            rows, columns = map(int, block.split("x"))
            found = sums[columns]
            for _ in range(rows.bit_length() - 1):
                found = found[::2] + found[1::2]
            in_blocks[block] += int((found == rows * columns).sum()) * rows * columns
    return {
        "zeros": zeros, "nan": nan, "at_most": at_most, "in_blocks": in_blocks, "filters": filters,
        "zero_filters": zero_filters, "channels": channels, "zero_channels": int(all_zero.sum()),
    }  # fmt: skip
