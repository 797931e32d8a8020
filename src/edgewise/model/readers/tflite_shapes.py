"""Open dimensions of a TFLite file, settled from the inputs on.

A file holds two shapes of a tensor: `shape_signature`, where −1 is open, and `shape`, which the converter made by
writing 1 for every −1, each tensor by itself. The second is no prediction of what an interpreter will allocate: after
a reshape to ``[−1, 64]`` it says 1 whatever the batch is. So it is never used; an open dimension is settled only where
the operator's definition says what it becomes, from inputs that are known. All others stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from edgewise.errors import BadInput
from edgewise.model.dialects.base import Question
from edgewise.model.graph import Tensor
from edgewise.model.readers.base import MAX_DIMENSION
from edgewise.model.readers.tflite_values import integers, slices_of
from edgewise.model.signature import Dimension

Shape = tuple[Dimension, ...]
_Rule = Callable[[Question, Shape], Shape | None]


def apply_shapes(inputs: Sequence[Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Shape]:
    """Name → shape of the inputs that `shapes` gives.

    Raises:
        BadInput: a name is no input, or a shape has another rank or another size where the model's is fixed.
    """
    known = {tensor.name: tensor for tensor in inputs}
    for name, wanted in shapes.items():
        if name not in known:
            names = ", ".join(repr(each) for each in known) or "none"
            raise BadInput(f"the model has no input {name!r}", advice=f"its inputs are {names}")
        have = known[name].shape or ()
        fits = len(have) == len(wanted) and all(size in {None, given} for size, given in zip(have, wanted, strict=True))
        if not fits or not all(0 <= given <= MAX_DIMENSION for given in wanted):
            written = ", ".join("?" if size is None else str(size) for size in have)
            raise BadInput(f"the shape {list(wanted)} does not fit the input {name!r}", advice=f"it is [{written}]")
    return {name: tuple(wanted) for name, wanted in shapes.items()}


def settle_outputs(question: Question, *, given: bool) -> list[Shape | None]:
    """Shapes of the outputs of an operator, with what can be known of their open dimensions.

    Args:
        given: whether shapes were given from outside. Then a dimension that the file fixes and that the operator's
            definition contradicts is open: the file wrote it for other inputs.
    """
    answer: list[Shape | None] = []
    settle = _RULES.get(question.op)
    for output in question.outputs:
        have = output.shape if output is not None else None
        wanted = settle is not None and bool(have) and bool(question.inputs) and (given or None in (have or ()))
        settled = settle(question, have) if wanted and settle and have else None
        if have is None or settled is None or len(settled) != len(have):
            answer.append(have)
        else:
            answer.append(tuple(_merge(old, new) for old, new in zip(have, settled, strict=True)))
    return answer


def _merge(old: Dimension, new: Dimension) -> Dimension:
    if old is None or new is None:
        return new if old is None else old
    return old if old == new else None


def _shape_of(question: Question, at: int) -> Shape | None:
    tensor = question.inputs[at] if at < len(question.inputs) else None
    return tensor.shape if tensor is not None else None


def _broadcast(question: Question, have: Shape) -> Shape | None:
    """Element by element; sizes are aligned at the end, and 1 stretches."""
    shapes = [tensor.shape for tensor in question.inputs if tensor is not None]
    settled: list[Dimension] = []
    for axis in range(1, len(have) + 1):
        sizes = {shape[-axis] for shape in shapes if shape is not None and len(shape) >= axis} - {1}
        # An open size may be 1 or the other's, and an input of unknown rank anything.
        known = None not in sizes and None not in shapes and len(sizes) <= 1
        settled.insert(0, next(iter(sizes), 1) if known else None)
    return tuple(settled)


def _like_first(question: Question, have: Shape) -> Shape | None:
    del have
    return _shape_of(question, 0)


def _leading(question: Question, have: Shape) -> Shape | None:
    """The first dimension goes through; the others are as the file has them."""
    shape = _shape_of(question, 0)
    return (shape[0], *have[1:]) if shape else None


def _window(question: Question, have: Shape) -> Shape | None:
    """Batch, height and width of a convolution or pooling over [batch, height, width, channels]."""
    shape = _shape_of(question, 0)
    options = question.attributes
    filter_shape = _shape_of(question, 1)
    if shape is None or len(shape) != 4 or len(have) != 4:
        return None
    kernel: tuple[Dimension, ...] = (options.get("filter_height"), options.get("filter_width"))
    if kernel == (None, None) and filter_shape is not None and len(filter_shape) == 4:
        kernel = filter_shape[1:3]
    spatial = [
        _slide(
            size,
            window,
            stride=options.get(f"stride_{axis}"),
            dilation=options.get(f"dilation_{axis}_factor", 1),
            padding=options.get("padding"),
        )
        for size, window, axis in zip(shape[1:3], kernel, "hw", strict=True)
    ]
    return (shape[0], *spatial, have[3])


def _slide(size: Dimension, window: Dimension, *, stride: object, dilation: object, padding: object) -> int | None:
    """Positions of a window, as TFLite's ``ComputeOutSize`` has them."""
    if not (isinstance(size, int) and isinstance(stride, int) and stride > 0):
        return None
    if padding == "SAME":
        return -(-size // stride)
    if padding != "VALID" or not isinstance(window, int) or not isinstance(dilation, int):
        return None
    return max(-(-(size - (window - 1) * dilation) // stride), 0)


def _same_elements(question: Question, have: Shape) -> Shape | None:
    """One open dimension follows from the number of elements, which a reshape keeps."""
    tensor = question.inputs[0]
    elements = tensor.elements if tensor is not None else None
    others = prod(size for size in have if isinstance(size, int))
    if elements is not None and None not in have and elements != others:
        return (None,) * len(have)
    if elements is None or have.count(None) != 1 or not others or elements % others:
        return None
    return tuple(elements // others if size is None else size for size in have)


def _reshaped(question: Question, have: Shape) -> Shape | None:
    """The shape that is asked for, whose −1 follows from the number of elements."""
    wanted = _integers_or_option(question, 1, "new_shape")
    tensor = question.inputs[0]
    elements = tensor.elements if tensor is not None else None
    if wanted is None or elements is None:
        return _same_elements(question, have)
    others = prod(size for size in wanted if size != -1)
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1 or (-1 in wanted and (not others or elements % others)):
        return None
    settled = tuple(elements // others if size == -1 else size for size in wanted)
    return settled if prod(settled) == elements else None


def _integers_or_option(question: Question, at: int, option: str) -> tuple[int, ...] | None:
    found = integers(question, at)
    if found is not None or at < len(question.inputs):
        return found
    given = question.attributes.get(option)
    return given if isinstance(given, tuple) else None


def _asked(at: int) -> _Rule:
    """The shape is the value of an input."""

    def settle(question: Question, have: Shape) -> Shape | None:
        del have
        wanted = integers(question, at)
        return wanted if wanted is not None and min(wanted, default=0) >= 0 else None

    return settle


def _resized(question: Question, have: Shape) -> Shape | None:
    shape, wanted = _shape_of(question, 0), integers(question, 1)
    if shape is None or len(shape) != 4 or len(have) != 4:
        return None
    if wanted is None or len(wanted) != 2 or min(wanted) < 0:
        return (shape[0], *have[1:3], shape[3])
    return (shape[0], *wanted, shape[3])


def _gathered(question: Question, have: Shape) -> Shape | None:
    del have
    table, places = _shape_of(question, 0), _shape_of(question, 1)
    axis = question.attributes.get("axis", 0)
    if table is None or places is None or not isinstance(axis, int) or question.attributes.get("batch_dims"):
        return None
    at = axis % len(table) if table else 0
    return (*table[:at], *places, *table[at + 1 :])


def _packed(question: Question, have: Shape) -> Shape | None:
    shape, axis = _shape_of(question, 0), question.attributes.get("axis")
    if shape is None or not isinstance(axis, int):
        return None
    at = axis % len(have)
    return (*shape[:at], len(question.inputs), *shape[at:])


def _tiled(question: Question, have: Shape) -> Shape | None:
    del have
    shape, times = _shape_of(question, 0), integers(question, 1)
    if shape is None or times is None or len(times) != len(shape) or min(times, default=0) < 0:
        return None
    return tuple(size * count if isinstance(size, int) else None for size, count in zip(shape, times, strict=True))


def _cut(question: Question, have: Shape) -> Shape | None:
    del have
    shape = _shape_of(question, 0)
    slices = slices_of(question, shape) if shape is not None else None
    if slices is None:
        return None
    return tuple(len(where) if where is not None else None for where, gone in slices if not gone)


def _sliced(question: Question, have: Shape) -> Shape | None:
    del have
    shape, begin, sizes = _shape_of(question, 0), integers(question, 1), integers(question, 2)
    if shape is None or begin is None or sizes is None or not len(shape) == len(begin) == len(sizes):
        return None
    settled: list[Dimension] = []
    for size, low, count in zip(shape, begin, sizes, strict=True):
        rest = size - low if isinstance(size, int) and 0 <= low <= size else None
        settled.append(count if count >= 0 else rest)
    return tuple(settled)


def _fully_connected(question: Question, have: Shape) -> Shape | None:
    shape, weights = _shape_of(question, 0), _shape_of(question, 1)
    if shape is None or not weights:
        return None
    if question.attributes.get("keep_num_dims"):
        return (*shape[:-1], weights[0])
    features, known = weights[-1], [size for size in shape if isinstance(size, int)]
    if len(known) != len(shape) or not isinstance(features, int) or not features or prod(known) % features:
        return None
    return (prod(known) // features, *have[1:])


def _reduced(question: Question, have: Shape) -> Shape | None:
    del have
    shape, axes = _shape_of(question, 0), question.values(1)
    if shape is None or axes is None or not shape:
        return None
    gone = {int(axis) % len(shape) for axis in axes}
    if question.attributes.get("keep_dims"):
        return tuple(1 if axis in gone else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in gone)


def _transposed(question: Question, have: Shape) -> Shape | None:
    del have
    shape, order = _shape_of(question, 0), question.values(1)
    if shape is None or order is None or sorted(order) != list(range(len(shape))):
        return None
    return tuple(shape[int(axis)] for axis in order)


def _padded(question: Question, have: Shape) -> Shape | None:
    del have
    shape, around = _shape_of(question, 0), question.values(1)
    if shape is None or around is None or len(around) != 2 * len(shape):
        return None
    return tuple(
        size + int(around[2 * axis]) + int(around[2 * axis + 1]) if isinstance(size, int) else None
        for axis, size in enumerate(shape)
    )


def _joined(question: Question, have: Shape) -> Shape | None:
    shapes = [tensor.shape if tensor is not None else None for tensor in question.inputs]
    axis = question.attributes.get("axis")
    if not isinstance(axis, int) or any(shape is None or len(shape) != len(have) for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    settled: list[Dimension] = []
    for at in range(len(have)):
        sizes = [shape[at] for shape in known]
        parts = [size for size in sizes if isinstance(size, int)]
        whole = sum(parts) if at == axis % len(have) else parts[0] if len(set(parts)) == 1 else None
        settled.append(whole if len(parts) == len(sizes) else None)
    return tuple(settled)


def _multiplied(question: Question, have: Shape) -> Shape | None:
    """[…, rows, inner] × […, inner, columns]; the leading dimensions are alike where they are settled."""
    left, right = _shape_of(question, 0), _shape_of(question, 1)
    if left is None or right is None or len(left) != len(have) or len(right) < 2 or len(left) < 2:
        return None
    rows = left[-1 if question.attributes.get("adj_x") else -2]
    columns = right[-2 if question.attributes.get("adj_y") else -1]
    lead = left[:-2] if left[:-2] == right[:-2] or set(right[:-2]) <= {1} else have[:-2]
    return (*lead, rows, columns)


_BROADCAST = (
    "ADD SUB MUL DIV MAXIMUM MINIMUM POW SQUARED_DIFFERENCE FLOOR_DIV FLOOR_MOD ATAN2 LESS LESS_EQUAL GREATER "
    "GREATER_EQUAL EQUAL NOT_EQUAL LOGICAL_AND LOGICAL_OR BITWISE_XOR RIGHT_SHIFT PRELU SELECT_V2 ADD_N"
)
_ALIKE = (
    "RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 LEAKY_RELU ELU GELU LOGISTIC TANH HARD_SWISH EXP LOG SQRT RSQRT SIN COS ABS "
    "NEG FLOOR CEIL ROUND SQUARE SIGN LOGICAL_NOT CAST QUANTIZE DEQUANTIZE FAKE_QUANT SOFTMAX LOG_SOFTMAX "
    "L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION CUMSUM ZEROS_LIKE REVERSE_V2 REVERSE_SEQUENCE"
)
_BATCHED = "SPACE_TO_DEPTH DEPTH_TO_SPACE CONV_3D RNN SVDF LSTM"
_WINDOWED = "CONV_2D DEPTHWISE_CONV_2D AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D"
_REDUCING = "MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL"

_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_BROADCAST.split(), _broadcast),
    **dict.fromkeys(_ALIKE.split(), _like_first),
    **dict.fromkeys(_BATCHED.split(), _leading),
    **dict.fromkeys(_WINDOWED.split(), _window),
    **dict.fromkeys(_REDUCING.split(), _reduced),
    **dict.fromkeys(("SQUEEZE", "EXPAND_DIMS"), _same_elements),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resized),
    **dict.fromkeys(("FILL", "TRANSPOSE_CONV", "CONV_3D_TRANSPOSE"), _asked(0)),
    "BROADCAST_TO": _asked(1),
    "RESHAPE": _reshaped,
    "GATHER": _gathered,
    "PACK": _packed,
    "TILE": _tiled,
    "STRIDED_SLICE": _cut,
    "SLICE": _sliced,
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), _padded),
    "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE": _transposed,
    "CONCATENATION": _joined,
    "BATCH_MATMUL": _multiplied,
}
"""Operator → what its definition says of its first output's shape, given the one in the file."""
