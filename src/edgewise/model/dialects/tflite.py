"""TFLite's operators: every BuiltinOperator of the schema, and the custom ones that are common in the field.

Definitions are those of tensorflow/lite/schema/schema.fbs, the kernels in tensorflow/lite/kernels and, for counts,
`edgewise.model.cost`. Constant operands of arithmetic are parameters where they are no shapes or indices.
"""

from __future__ import annotations

from edgewise.model.dialects import tflite_network as network
from edgewise.model.dialects.base import (
    RANDOM,
    RawOperator,
    Rule,
    Semantics,
    apply,
    counted,
    data_dependent,
    drop_indices,
    each,
    function,
    mean,
    moving,
    per_element,
    rare,
    reducing,
    unknown,
)
from edgewise.model.dialects.tflite_network import fused


def interpret(raw: RawOperator) -> Semantics:
    """What an operator is; of an unknown one, kind "" and the reason. A custom operator has the domain ``custom``."""
    if raw.domain and raw.op.startswith("Flex") and raw.op not in CUSTOM:
        return unknown(f"{raw.op} is an operator of TensorFlow itself")
    return drop_indices(raw, apply((CUSTOM if raw.domain else BUILTIN).get(raw.op), raw))


def _arithmetic(raw: RawOperator) -> Semantics:
    """Element by element, with a fused activation where the operator has that option."""
    operations = {"SQUARED_DIFFERENCE": 2, "ADD_N": max(len(raw.inputs) - 1, 0)}.get(raw.op, 1)
    return mean("elementwise", per_element=operations, activation=fused(raw), weights=raw.positions)


def _move(raw: RawOperator) -> Semantics:
    """Movement; the constants among what is moved are parameters (tables, tokens)."""
    return moving(*raw.positions)


def _join(raw: RawOperator) -> Semantics:
    """CONCATENATION, which may have a fused activation."""
    return _move(raw) if fused(raw) == "none" else function(fused(raw), weights=raw.positions)


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
    **network.PRODUCTS,
    "BATCH_MATMUL": network.multiply_matrices,
    "AVERAGE_POOL_2D": network.pool,
    "MAX_POOL_2D": network.pool,
    "L2_POOL_2D": rare(macs=None),
    "REDUCE_WINDOW": network.pool_by_function,
    "L2_NORMALIZATION": network.normalize_length,
    "LOCAL_RESPONSE_NORMALIZATION": network.normalize_locally,
    "EMBEDDING_LOOKUP": network.look_up,
    "EMBEDDING_LOOKUP_SPARSE": rare(4, macs=None),
    "QUANTIZE": network.quantize,
    "DEQUANTIZE": network.dequantize,
    "DENSIFY": _ONCE,
    "RFFT2D": rare(),
    "SCATTER_ND": network.scatter,
    **each("LSTM UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM", network.run_lstm),
    **each("RNN UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN", network.run_rnn),
    "SVDF": network.filter_in_time,
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
    "Convolution2DTransposeBias": network.convolve_transposed_bias,
    "MaxPoolingWithArgmax2D": unknown(f"its window is {_OWN_OPTIONS}"),
    "MaxUnpooling2D": moving(),
    "AudioSpectrogram": unknown(f"its window is {_OWN_OPTIONS}"),
    "Mfcc": unknown(f"its filter bank is {_OWN_OPTIONS}"),
}
"""Custom operators that are common in the field: TensorFlow's own and MediaPipe's."""
