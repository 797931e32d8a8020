"""TFLite's layers: convolutions, products, pooling, normalisations, embeddings, quantisation, recurrent layers.

Layouts are those of the kernels' documentation in tensorflow/lite/schema/schema.fbs and tensorflow/lite/kernels:
activations [batch, height, width, channels]; filters [output, height, width, input] (convolutions), [1, height, width,
channels] (depthwise), [depth, height, width, input, output] (three dimensions) and [output, input] (fully connected).

Recurrent layers follow the kernels *lstm*.cc, *rnn*.cc and svdf.cc. Layer normalisation, coupled gates, clipping and
auxiliary inputs, which the kind ``recurrent`` does not have, are counted here by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    add,
    counted,
    elements,
    mean,
    moving,
    multiply,
    other_functions,
    per_element,
    shape_of,
    size_of,
    unknown,
)

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
_FUSED = {
    "NONE": "none", "RELU": "clamp", "RELU_N1_TO_1": "clamp", "RELU6": "clamp", "TANH": "tanh", "SIGN_BIT": "sign",
}  # fmt: skip
"""ActivationFunctionType → function of `edgewise.model.cost.ACTIVATIONS`."""


def fused(raw: RawOperator) -> str:
    """The function that is applied to the outputs; the schema's own name where it is a newer one."""
    name = str(raw.attributes.get("fused_activation_function", "NONE"))
    return _FUSED.get(name, name)


def positive(raw: RawOperator, option: str) -> int | None:
    """An option that is a size."""
    value = raw.attributes.get(option)
    return value if isinstance(value, int) and value > 0 else None


def _product(*axes: int, kind: str = "convolution", bias: int = 2, data: int | None = None) -> Rule:
    """The rule of an operator whose sums have one product for each place in these dimensions of its filter."""

    def read(raw: RawOperator) -> Semantics:
        depthwise = None
        if raw.op == "CONV_2D":
            # The filter's input channels are those of one group.
            depthwise = size_of(raw.input(1), 3) == 1 and (size_of(raw.input(0), -1) or 0) > 1
        elif raw.op == "DEPTHWISE_CONV_2D":
            depthwise = True
        return mean(
            kind,
            reduction=multiply(*(size_of(raw.input(1), axis) for axis in axes)),
            depthwise=depthwise,
            data=data,
            bias=raw.given(bias),
            activation=fused(raw),
            weights=(1, bias),
        )

    return read


PRODUCTS: dict[str, Rule] = {
    "CONV_2D": _product(1, 2, 3),
    "DEPTHWISE_CONV_2D": _product(1, 2),
    "CONV_3D": _product(0, 1, 2, 3),
    "TRANSPOSE_CONV": _product(0, 1, 2, kind="transposed-convolution", bias=3, data=2),
    "CONV_3D_TRANSPOSE": _product(0, 1, 2, 3, kind="transposed-convolution", bias=3, data=2),
    "FULLY_CONNECTED": _product(-1, kind="matrix-multiplication"),
}
"""Operator → its meaning: data and a filter. Transposed ones have the output's shape as their first input."""

convolve_transposed_bias = _product(0, 1, 2, kind="transposed-convolution")
"""MediaPipe's Convolution2DTransposeBias: data, filter [output, height, width, input], bias."""


def multiply_matrices(raw: RawOperator) -> Semantics:
    """BATCH_MATMUL."""
    inner = size_of(raw.input(0), -2 if raw.attributes.get("adj_x") else -1)
    return mean("matrix-multiplication", reduction=inner, weights=(0, 1))


def _window(raw: RawOperator) -> int | None:
    return multiply(positive(raw, "filter_height"), positive(raw, "filter_width"))


def pool(raw: RawOperator) -> Semantics:
    """AVERAGE_POOL_2D, MAX_POOL_2D."""
    return mean("pooling", window=_window(raw), average=raw.op == "AVERAGE_POOL_2D", activation=fused(raw))


def pool_squares(raw: RawOperator) -> Semantics:
    """L2_POOL_2D: the root of the mean of the squares, which are a product added to a sum."""
    outputs = elements(raw.output())
    macs = multiply(outputs, _window(raw))
    return counted(macs, add(multiply(2, macs), multiply(2, outputs)))


def pool_by_function(raw: RawOperator) -> Semantics:
    """REDUCE_WINDOW: data, initial value, window shape, strides, dilations."""
    if raw.attributes.get("reduce_function", "UNSUPPORTED") == "UNSUPPORTED":
        return unknown("its function is unknown")
    window = raw.values(2)
    fits = window is not None and all(size > 0 for size in window)
    return mean("pooling", window=multiply(*map(int, window or ())) if fits else None)


def normalize_length(raw: RawOperator) -> Semantics:
    """L2_NORMALIZATION: square, add, multiply by the reciprocal root, which is found once per row."""
    return mean("normalization", per_element=3, activation=fused(raw))


def normalize_locally(raw: RawOperator) -> Semantics:
    """LOCAL_RESPONSE_NORMALIZATION: n = 2 r + 1 products and n − 1 sums, then scale, bias, power and division."""
    radius = raw.attributes.get("radius")
    operations = 2 * (2 * radius + 1) + 3 if isinstance(radius, int) and radius >= 0 else None
    return per_element(operations, kind="normalization")


def look_up(raw: RawOperator) -> Semantics:
    """EMBEDDING_LOOKUP: rows of a table, de-quantised where the table is quantised and the output is not."""
    table, output = raw.input(1), raw.output()
    if table is not None and output is not None and table.dtype != output.dtype:
        return per_element(2, kind="dequantize", weights=(1,))
    return moving(1)


def look_up_weighted(raw: RawOperator) -> Semantics:
    """EMBEDDING_LOOKUP_SPARSE: ids, indices, shape, weights, table.

    Rows × weights are summed; MEAN divides by the sum of the weights, SQRTN by the root of the sum of their squares,
    once per bag of ids.
    """
    ids, outputs = elements(raw.input(0)), elements(raw.output())
    row = multiply(*shape_of(raw.input(4))[1:]) if ids else None
    macs = multiply(ids, row)
    bags = outputs // row if outputs is not None and row else None
    extra: dict[str, int | None] = {
        "SUM": 0,
        "MEAN": add(ids, outputs),
        "SQRTN": add(multiply(2, ids), bags, outputs),
    }
    ops = add(multiply(2, macs), extra.get(str(raw.attributes.get("combiner", "SUM"))))
    return counted(macs, ops, weights=(4,))


def quantize(raw: RawOperator) -> Semantics:
    """QUANTIZE, from a float or from another quantisation."""
    source = raw.input(0)
    return per_element(None if source is None else 4 if source.dtype in _FLOATS else 6, kind="quantize")


def dequantize(raw: RawOperator) -> Semantics:
    """DEQUANTIZE. Of a constant it is done once, when the model is loaded; of float16 it is a conversion."""
    source = raw.input(0)
    if source is not None and source.dtype in _FLOATS and not source.constant:
        return per_element(1)
    return per_element(0 if source is not None and source.constant else 2, kind="dequantize")


def transform_rows(raw: RawOperator) -> Semantics:
    """RFFT2D: 2.5 n log₂ n operations for a real transform of n points, as http://www.fftw.org/speed/method.html."""
    lengths, data = raw.values(1), raw.input(0)
    whole, plane = elements(data), multiply(size_of(data, -2), size_of(data, -1))
    points = multiply(*map(int, lengths)) if lengths else None
    if not points or points < 0 or whole is None or not plane:
        return mean("counted")
    return counted(0, round(whole // plane * 2.5 * points * log2(points)))


def scatter(raw: RawOperator) -> Semantics:
    """SCATTER_ND: indices, updates, shape; updates to one place are added."""
    return counted(0, elements(raw.input(1)))


_NORMALIZATION = 8  # per element: mean 1, variance 3, normalise 2, scale and shift 2


@dataclass(frozen=True, slots=True)
class _Cell:
    """Positions of the inputs of one direction of an LSTM, in the order input, forget, cell, output gate."""

    gates: Sequence[int]
    recurrent: Sequence[int]
    peepholes: Sequence[int]
    biases: Sequence[int]
    projection: int
    projection_bias: int
    norms: Sequence[int] = ()
    auxiliary: Sequence[int] = ()

    @property
    def weights(self) -> tuple[int, ...]:
        named = (*self.gates, *self.recurrent, *self.peepholes, *self.biases, self.projection, self.projection_bias)
        return (*named, *self.norms, *self.auxiliary)


_FORWARD = _Cell(range(1, 5), range(5, 9), range(9, 12), range(12, 16), 16, 17, range(20, 24))
_TWO_FORWARD = _Cell(range(1, 5), range(5, 9), range(9, 12), range(12, 16), 16, 17, (), range(40, 44))
_TWO_BACKWARD = _Cell(range(18, 22), range(22, 26), range(26, 29), range(29, 33), 33, 34, (), range(44, 48))


def _sequence(raw: RawOperator) -> tuple[int | None, int | None]:
    """Steps and batch of data [time, batch, features] (time-major), [batch, time, features] or [batch, features]."""
    first, second = size_of(raw.input(0), 0), size_of(raw.input(0), 1)
    if raw.op in ("LSTM", "RNN"):
        return 1, first
    major = raw.attributes.get("time_major", raw.op == "BIDIRECTIONAL_SEQUENCE_LSTM")
    return (first, second) if major else (second, first)


def run_lstm(raw: RawOperator) -> Semantics:
    """LSTM (one step), UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM."""
    steps, batch = _sequence(raw)
    if raw.op == "LSTM" and raw.attributes.get("kernel_type") == "BASIC":
        # All weights are in one matrix [4 × hidden, input + hidden].
        rows, features = size_of(raw.input(2), 0), size_of(raw.input(0), -1)
        hidden = rows // 4 if rows is not None else None
        return mean("recurrent", gates=4, hidden=hidden, input=features, steps=1, batch=batch, biases=1, weights=(2, 3))
    cells = [_TWO_FORWARD, _TWO_BACKWARD] if raw.op == "BIDIRECTIONAL_SEQUENCE_LSTM" else [_FORWARD]
    weights = tuple(at for cell in cells for at in cell.weights)
    if len(cells) == 1 and _is_plain(raw, cell := cells[0]):
        return mean(
            "recurrent",
            gates=4,
            hidden=size_of(raw.input(cell.gates[1]), 0),
            input=size_of(raw.input(cell.gates[1]), 1),
            steps=steps,
            batch=batch,
            state=size_of(raw.input(cell.recurrent[1]), 1),
            biases=1 if _there(raw, cell.biases) else 0,
            peepholes=len(_there(raw, cell.peepholes)),
            projection=size_of(raw.input(cell.projection), 0),
            weights=weights,
        )
    macs, ops = zip(*(_count_lstm(raw, cell) for cell in cells), strict=True)
    return counted(multiply(steps, batch, add(*macs)), multiply(steps, batch, add(*ops)), weights=weights)


def filter_in_time(raw: RawOperator) -> Semantics:
    """SVDF: data, weights over features [filters, features], over time [filters, memory], bias [units], state.

    Each step projects the features and filters the last `memory` projections; `rank` filters are summed to one unit.
    """
    batch, filters = size_of(raw.input(0), 0), size_of(raw.input(1), 0)
    rank = positive(raw, "rank")
    units = filters // rank if filters is not None and rank else None
    features, memory = size_of(raw.input(1), 1), size_of(raw.input(2), 1)
    macs = multiply(batch, filters, add(features, memory))
    sums = multiply(units, rank - 1) if rank else None
    bias = units if raw.given(3) else 0
    function = ACTIVATIONS.get(fused(raw))
    ops = add(multiply(2, macs), multiply(batch, add(sums, bias, multiply(units, function))))
    return counted(macs, ops, weights=(1, 2, 3))


def _there(raw: RawOperator, positions: Sequence[int]) -> list[int]:
    return [at for at in positions if raw.given(at)]


def _is_plain(raw: RawOperator, cell: _Cell) -> bool:
    """Four gates with tanh, and nothing else that the kind ``recurrent`` does not count."""
    options = raw.attributes
    extras = _there(raw, [*cell.norms, *cell.auxiliary, cell.projection_bias])
    clips = options.get("cell_clip", 0) or options.get("proj_clip", 0) or options.get("diagonal_recurrent_tensors")
    return (
        len(_there(raw, cell.gates)) == 4
        and len(_there(raw, cell.biases)) in {0, 4}
        and not extras
        and not clips
        and fused(raw) == "tanh"
    )


def _count_lstm(raw: RawOperator, cell: _Cell) -> tuple[int | None, int | None]:
    """MACs and ops of one step of one sequence.

    Without an input gate, that is 1 − the forget gate. A clip is two comparisons; a diagonal recurrent weight is one
    product per unit.
    """
    gates = _there(raw, cell.gates)
    hidden = size_of(raw.input(cell.gates[1]), 0)
    function = ACTIVATIONS.get(fused(raw))
    macs = add(*(elements(raw.input(at)) for at in (*gates, *_there(raw, (*cell.auxiliary, *cell.recurrent)))))
    projection = _there(raw, [cell.projection])
    macs = add(macs, *(elements(raw.input(at)) for at in projection))
    # Sigmoids of the gates but the cell's, the function twice, the sums of input and state, f∘c + i∘g and o∘….
    per_unit = add(4 * (len(gates) - 1), multiply(2, function), len(gates), 4)
    per_unit = add(
        per_unit,
        len(_there(raw, cell.biases)),
        2 * len(_there(raw, cell.peepholes)),
        _NORMALIZATION * len(_there(raw, cell.norms)),
        len(_there(raw, cell.auxiliary)),
        1 if len(gates) == 3 else 0,
        2 if raw.attributes.get("cell_clip") else 0,
    )
    outputs = size_of(raw.input(cell.projection), 0) if projection else 0
    after = len(_there(raw, [cell.projection_bias])) + (2 if raw.attributes.get("proj_clip") else 0)
    return macs, add(multiply(2, macs), multiply(hidden, per_unit), multiply(outputs, after))


def run_rnn(raw: RawOperator) -> Semantics:
    """RNN (one step), UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN.

    Per direction: weights, recurrent weights, bias and, both ways, auxiliary weights.
    """
    steps, batch = _sequence(raw)
    cells = [(1, 2, 3, 10), (5, 6, 7, 11)] if raw.op == "BIDIRECTIONAL_SEQUENCE_RNN" else [(1, 2, 3)]
    positions = tuple(at for cell in cells for at in cell)
    function = ACTIVATIONS.get(fused(raw))
    sizes = {(size_of(raw.input(cell[0]), 0), size_of(raw.input(cell[0]), 1)) for cell in cells}
    auxiliary = _there(raw, [at for cell in cells for at in cell[3:]])
    if function is not None and len(sizes) == 1 and not auxiliary:
        hidden, features = sizes.pop()
        further = len(cells) * other_functions(1, [function])
        return mean(
            "recurrent",
            gates=1,
            hidden=hidden,
            input=features,
            steps=steps,
            batch=batch,
            directions=len(cells),
            biases=1,
            further=further,
            weights=positions,
        )
    products = add(*(elements(raw.input(at)) for cell in cells for at in cell[:2]))
    macs = multiply(steps, batch, add(products, *(elements(raw.input(at)) for at in auxiliary)))
    units = add(*(size_of(raw.input(cell[0]), 0) for cell in cells))
    more = add(multiply(units, add(function, 2)), *(size_of(raw.input(at), 0) for at in auxiliary))
    return counted(macs, add(multiply(2, macs), multiply(steps, batch, more)), weights=positions)
