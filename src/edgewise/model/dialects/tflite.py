"""TFLite's operators: every BuiltinOperator of the schema, and the custom ones that are common in the field.

Definitions are those of tensorflow/lite/schema/schema.fbs, the kernels in tensorflow/lite/kernels and, for counts,
`edgewise.model.cost`. Constant operands of arithmetic are parameters where they are no shapes or indices.

Layouts: activations [batch, height, width, channels]; filters [output, height, width, input] (convolutions),
[1, height, width, channels] (depthwise), [depth, height, width, input, output] (three dimensions) and [output, input]
(fully connected).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    RANDOM,
    RawOperator,
    Rule,
    Semantics,
    add,
    apply,
    counted,
    data_dependent,
    drop_indices,
    each,
    elements,
    function,
    mean,
    moving,
    multiply,
    other_functions,
    per_element,
    rare,
    reducing,
    size_of,
    unknown,
)

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
_FUSED = {
    "NONE": "none", "RELU": "clamp", "RELU_N1_TO_1": "clamp", "RELU6": "clamp", "TANH": "tanh", "SIGN_BIT": "sign",
}  # fmt: skip
"""ActivationFunctionType → function of `edgewise.model.cost.ACTIVATIONS`."""


def read_fused(raw: RawOperator) -> str:
    """Return the function that is applied to the outputs; the schema's own name where it is a newer one."""
    name = str(raw.attributes.get("fused_activation_function", "NONE"))
    return _FUSED.get(name, name)


def read_positive(raw: RawOperator, option: str) -> int | None:
    """Return an option that is a size."""
    value = raw.attributes.get(option)
    return value if isinstance(value, int) and value > 0 else None


def _product(*axes: int, kind: str = "convolution", bias: int = 2, data: int | None = None) -> Rule:
    """Return the rule of an operator whose sums have one product for each place in these dimensions of its filter."""

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
            activation=read_fused(raw),
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


def _read_window(raw: RawOperator) -> int | None:
    return multiply(read_positive(raw, "filter_height"), read_positive(raw, "filter_width"))


def pool(raw: RawOperator) -> Semantics:
    """AVERAGE_POOL_2D, MAX_POOL_2D."""
    return mean("pooling", window=_read_window(raw), average=raw.op == "AVERAGE_POOL_2D", activation=read_fused(raw))


def pool_by_function(raw: RawOperator) -> Semantics:
    """REDUCE_WINDOW: data, initial value, window shape, strides, dilations."""
    if raw.attributes.get("reduce_function", "UNSUPPORTED") == "UNSUPPORTED":
        return unknown("its function is unknown")
    window = raw.values(2)
    fits = window is not None and all(size > 0 for size in window)
    return mean("pooling", window=multiply(*map(int, window or ())) if fits else None)


def normalize_length(raw: RawOperator) -> Semantics:
    """L2_NORMALIZATION: square, add, multiply by the reciprocal root, which is found once per row."""
    return mean("normalization", per_element=3, activation=read_fused(raw))


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


def scatter(raw: RawOperator) -> Semantics:
    """SCATTER_ND: indices, updates, shape; updates to one place are added."""
    return counted(0, elements(raw.input(1)))


def _read_sequence(raw: RawOperator) -> tuple[int | None, int | None]:
    """Return steps and batch of data [time, batch, features] (time-major), [batch, time, features] or [batch,
    features].
    """
    first, second = size_of(raw.input(0), 0), size_of(raw.input(0), 1)
    if raw.op in ("LSTM", "RNN"):
        return 1, first
    major = raw.attributes.get("time_major", raw.op == "BIDIRECTIONAL_SEQUENCE_LSTM")
    return (first, second) if major else (second, first)


def filter_in_time(raw: RawOperator) -> Semantics:
    """SVDF: data, weights over features [filters, features], over time [filters, memory], bias [units], state.

    Each step projects the features and filters the last `memory` projections; `rank` filters are summed to one unit.
    """
    batch, filters = size_of(raw.input(0), 0), size_of(raw.input(1), 0)
    rank = read_positive(raw, "rank")
    units = filters // rank if filters is not None and rank else None
    features, memory = size_of(raw.input(1), 1), size_of(raw.input(2), 1)
    macs = multiply(batch, filters, add(features, memory))
    sums = multiply(units, rank - 1) if rank else None
    bias = units if raw.given(3) else 0
    function = ACTIVATIONS.get(read_fused(raw))
    ops = add(multiply(2, macs), multiply(batch, add(sums, bias, multiply(units, function))))
    return counted(macs, ops, weights=(1, 2, 3))


def run_lstm(raw: RawOperator) -> Semantics:
    """LSTM (one step), UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM.

    From its first input on, a direction has four matrices of the data (input, forget, cell and output gate), four of
    the state, three peepholes, four biases, the projection and its bias. Layer normalisation, auxiliary inputs, coupled
    gates, clipping and other functions than tanh have MACs, and operations that are not counted.
    """
    steps, batch = _read_sequence(raw)
    if raw.op == "LSTM" and raw.attributes.get("kernel_type") == "BASIC":
        # All weights are in one matrix [4 × hidden, input + hidden].
        rows, features = size_of(raw.input(2), 0), size_of(raw.input(0), -1)
        hidden = rows // 4 if rows is not None else None
        return mean("recurrent", gates=4, hidden=hidden, input=features, steps=1, batch=batch, biases=1, weights=(2, 3))
    both = raw.op == "BIDIRECTIONAL_SEQUENCE_LSTM"
    starts, auxiliary, norms = ((1, 18), range(40, 48), range(0)) if both else ((1,), range(0), range(20, 24))
    weights = (*(at for start in starts for at in range(start, start + 17)), *auxiliary, *norms)
    directions = [_read_direction(raw, start) for start in starts]
    plain = read_fused(raw) == "tanh" and not any(map(raw.given, (*auxiliary, *norms)))
    plain = plain and not any(raw.attributes.get(option) for option in _UNUSUAL)
    if plain and directions[0] is not None and all(each == directions[0] for each in directions):
        return mean(
            "recurrent", gates=4, steps=steps, batch=batch, directions=len(starts), weights=weights, **directions[0]
        )
    matrices = [*auxiliary, *(at for start in starts for at in (*range(start, start + 8), start + 15))]
    return _only_products(raw, matrices, multiply(steps, batch), weights)


_UNUSUAL = ("cell_clip", "proj_clip", "diagonal_recurrent_tensors")


def _read_direction(raw: RawOperator, start: int) -> dict[str, Any] | None:
    """Geometry of the direction whose inputs begin at `start`; None where the kind ``recurrent`` does not have it."""
    biases = sum(map(raw.given, range(start + 11, start + 15)))
    if not all(map(raw.given, range(start, start + 4))) or biases not in (0, 4) or raw.given(start + 16):
        return None
    return {
        "hidden": size_of(raw.input(start + 1), 0),
        "input": size_of(raw.input(start + 1), 1),
        "state": size_of(raw.input(start + 5), 1),
        "biases": 1 if biases else 0,
        "peepholes": sum(map(raw.given, range(start + 8, start + 11))),
        "projection": size_of(raw.input(start + 15), 0),
    }


def _only_products(raw: RawOperator, matrices: Sequence[int], times: int | None, weights: tuple[int, ...]) -> Semantics:
    """Return a layer that multiplies each of these matrices `times` times, and whose operations are not counted."""
    sizes = [elements(raw.input(at)) for at in matrices if raw.given(at)]
    return rare(*weights, macs=multiply(times, add(*sizes)))


def run_rnn(raw: RawOperator) -> Semantics:
    """RNN (one step), UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN.

    Per direction: weights, recurrent weights, bias and, both ways, auxiliary weights.
    """
    steps, batch = _read_sequence(raw)
    cells = [(1, 2, 3, 10), (5, 6, 7, 11)] if raw.op == "BIDIRECTIONAL_SEQUENCE_RNN" else [(1, 2, 3)]
    weights = tuple(at for cell in cells for at in cell)
    function = ACTIVATIONS.get(read_fused(raw))
    sizes = {(size_of(raw.input(cell[0]), 0), size_of(raw.input(cell[0]), 1)) for cell in cells}
    auxiliary = [at for cell in cells for at in cell[3:]]
    if function is None or len(sizes) > 1 or any(map(raw.given, auxiliary)):
        matrices = [*auxiliary, *(at for cell in cells for at in cell[:2])]
        return _only_products(raw, matrices, multiply(steps, batch), weights)
    hidden, features = sizes.pop()
    return mean(
        "recurrent",
        gates=1,
        hidden=hidden,
        input=features,
        steps=steps,
        batch=batch,
        directions=len(cells),
        biases=1,
        further=len(cells) * other_functions(1, [function]),
        weights=weights,
    )


def interpret(raw: RawOperator) -> Semantics:
    """Return what an operator is; of an unknown one, kind "" and the reason.

    A custom operator has the domain ``custom``.
    """
    if raw.domain and raw.op.startswith("Flex") and raw.op not in CUSTOM:
        return unknown(f"{raw.op} is an operator of TensorFlow itself")
    return drop_indices(raw, apply((CUSTOM if raw.domain else BUILTIN).get(raw.op), raw))


def _arithmetic(raw: RawOperator) -> Semantics:
    """Element by element, with a fused activation where the operator has that option."""
    operations = {"SQUARED_DIFFERENCE": 2, "ADD_N": max(len(raw.inputs) - 1, 0)}.get(raw.op, 1)
    return mean("elementwise", per_element=operations, activation=read_fused(raw), weights=raw.positions)


def _move(raw: RawOperator) -> Semantics:
    """Movement; the constants among what is moved are parameters (tables, tokens)."""
    return moving(*raw.positions)


def _join(raw: RawOperator) -> Semantics:
    """CONCATENATION, which may have a fused activation."""
    return _move(raw) if read_fused(raw) == "none" else function(read_fused(raw), weights=raw.positions)


_ONCE = counted(0, 0)  # it runs when the model is loaded or first called, and costs an inference nothing
_OWN_OPTIONS = "in options that only its own runtime reads"

_ONE = "FLOOR CEIL ROUND ABS NEG SIGN SQUARE COS LOGICAL_NOT CAST CUMSUM FLOOR_MOD ATAN2"
_COMPARING = "LESS LESS_EQUAL GREATER GREATER_EQUAL EQUAL NOT_EQUAL LOGICAL_AND LOGICAL_OR BITWISE_XOR RIGHT_SHIFT"
_MOVEMENT = (
    "RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE PAD PADV2 MIRROR_PAD SLICE STRIDED_SLICE SPLIT SPLIT_V UNPACK TILE "
    "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND SPACE_TO_DEPTH DEPTH_TO_SPACE SHAPE RANK ZEROS_LIKE FILL RANGE BROADCAST_TO "
    "BROADCAST_ARGS REVERSE_V2 REVERSE_SEQUENCE MATRIX_DIAG MATRIX_SET_DIAG ONE_HOT SELECT SELECT_V2 BITCAST REAL IMAG "
    "SPARSE_TO_DENSE DILATE DYNAMIC_UPDATE_SLICE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE HASHTABLE HASHTABLE_IMPORT "
    "HASHTABLE_SIZE CONCAT_EMBEDDINGS"
)
_SEARCHING = (
    "TOPK_V2 UNIQUE WHERE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 BUCKETIZE HASHTABLE_FIND HASHTABLE_LOOKUP "
    "SKIP_GRAM"
)
_REDUCING = (
    "SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL ARG_MAX ARG_MIN SEGMENT_SUM UNSORTED_SEGMENT_SUM "
    "UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD"
)


def _stablehlo_arithmetic(raw: RawOperator) -> Semantics:
    return per_element(2 if raw.op == "STABLEHLO_RSQRT" else 1, weights=raw.positions)  # root, divide


_STABLEHLO_ARITHMETIC = (
    "ADD SUBTRACT MULTIPLY DIVIDE MAXIMUM MINIMUM POWER REMAINDER ABS NEGATE FLOOR COSINE CBRT AND OR COMPARE CONVERT "
    "SHIFT_LEFT RSQRT"
)
_STABLEHLO_MOVEMENT = (
    "RESHAPE CONCATENATE BROADCAST_IN_DIM SLICE SELECT DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE PAD IOTA GATHER TRANSPOSE"
)

_STABLEHLO: dict[str, Rule] = {
    **each(_STABLEHLO_ARITHMETIC, _stablehlo_arithmetic),
    **each(_STABLEHLO_MOVEMENT, moving()),
    "LOGISTIC": function("sigmoid"),
    "TANH": function("tanh"),
    "EXPONENTIAL": function("exp"),
    "LOG": function("log"),
    "CLAMP": function("clamp"),
    **each("CONVOLUTION DOT_GENERAL", rare(0, 1, macs=None)),
    "SORT": data_dependent(),
    "WHILE": mean("loop"),
    **each("CASE COMPOSITE", mean("branch")),
    **each("REDUCE REDUCE_WINDOW SCATTER", unknown("its computation per element is a separate graph")),
    "CUSTOM_CALL": unknown("it calls a function outside the model"),
    "RNG_BIT_GENERATOR": RANDOM,
}

STABLEHLO = {f"STABLEHLO_{name}": rule for name, rule in _STABLEHLO.items()}
"""Operator of StableHLO in a TFLite file, after https://openxla.org/stablehlo/spec → its semantics."""


BUILTIN: dict[str, Rule] = {
    **each(_ONE, per_element(1)),
    **each(_COMPARING, per_element(1)),
    **each("ADD SUB MUL DIV MAXIMUM MINIMUM POW SQUARED_DIFFERENCE ADD_N", _arithmetic),
    **each(_MOVEMENT, moving()),
    **each("GATHER GATHER_ND PACK", _move),
    "CONCATENATION": _join,
    **each(_SEARCHING, data_dependent()),
    **each(_REDUCING, reducing()),
    **each("RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1", function("clamp")),
    **each("RANDOM_UNIFORM RANDOM_STANDARD_NORMAL MULTINOMIAL", RANDOM),
    **STABLEHLO,
    "FLOOR_DIV": per_element(2),  # divide, floor
    "RSQRT": per_element(2),  # root, divide
    "COMPLEX_ABS": per_element(4),  # two squares, sum, root
    "FAKE_QUANT": per_element(6),  # quantise and de-quantise
    "EXP": function("exp"),
    "LOG": function("log"),
    "SQRT": function("sqrt"),
    "SIN": function("sin"),
    "LOGISTIC": function("sigmoid"),
    "TANH": function("tanh"),
    "ELU": function("elu"),
    "HARD_SWISH": function("hard-swish"),
    "LEAKY_RELU": function("leaky-relu"),
    "PRELU": function("leaky-relu", weights=(1,)),
    "GELU": lambda raw: function("gelu-tanh" if raw.attributes.get("approximate") else "gelu"),
    "SOFTMAX": mean("softmax"),
    "LOG_SOFTMAX": mean("softmax", logarithm=True),
    "MEAN": reducing(1, 1),
    "RESIZE_BILINEAR": per_element(7, kind="resize"),
    "RESIZE_NEAREST_NEIGHBOR": per_element(0, kind="resize"),
    **PRODUCTS,
    "BATCH_MATMUL": multiply_matrices,
    "AVERAGE_POOL_2D": pool,
    "MAX_POOL_2D": pool,
    "L2_POOL_2D": rare(macs=None),
    "REDUCE_WINDOW": pool_by_function,
    "L2_NORMALIZATION": normalize_length,
    "LOCAL_RESPONSE_NORMALIZATION": normalize_locally,
    "EMBEDDING_LOOKUP": look_up,
    "EMBEDDING_LOOKUP_SPARSE": rare(4, macs=None),
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
    "DENSIFY": _ONCE,
    "RFFT2D": rare(),
    "SCATTER_ND": scatter,
    **each("LSTM UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM", run_lstm),
    **each("RNN UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN", run_rnn),
    "SVDF": filter_in_time,
    "IF": mean("branch"),
    "CALL": mean("branch"),
    "WHILE": mean("loop"),
    "CALL_ONCE": _ONCE,
    "LSH_PROJECTION": unknown("the cost of its hash function depends on the runtime"),
    "DELEGATE": unknown("a delegate replaced operators of the model, which are no longer in the file"),
    "CUSTOM": unknown("a custom operator without a name"),
    "PLACEHOLDER_FOR_GREATER_OP_CODES": unknown("it is an operator of a newer schema"),
}
"""BuiltinOperator → its semantics."""

CUSTOM: dict[str, Rule] = {
    "TFLite_Detection_PostProcess": data_dependent(),
    "Convolution2DTransposeBias": convolve_transposed_bias,
    "MaxPoolingWithArgmax2D": unknown(f"its window is {_OWN_OPTIONS}"),
    "MaxUnpooling2D": moving(),
    "AudioSpectrogram": unknown(f"its window is {_OWN_OPTIONS}"),
    "Mfcc": unknown(f"its filter bank is {_OWN_OPTIONS}"),
}
"""Custom operators that are common in the field: TensorFlow's own and MediaPipe's."""
