"""TFLite's operators: every BuiltinOperator of the schema, and the custom ones that are common in the field.

Definitions are those of tensorflow/lite/schema/schema.fbs, the kernels in tensorflow/lite/kernels and, for counts,
`edgewise.model.cost`. Constant operands of arithmetic are parameters where they are no shapes or indices.
"""

from __future__ import annotations

from collections.abc import Callable

from edgewise.model.dialects import tflite_layers as layers
from edgewise.model.dialects import tflite_recurrent as recurrent
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.tflite_sizes import fused, parameters
from edgewise.model.dialects.tflite_stablehlo import STABLEHLO

Read = Callable[[RawOperator], Semantics]

_RANDOM = "the cost of a random number depends on the generator"
_HASH = "the cost of its hash function depends on the runtime"


def interpret(raw: RawOperator) -> Semantics:
    """What an operator is; of an unknown one, kind "" and the reason. A custom operator has the domain ``custom``."""
    if raw.domain:
        known = CUSTOM.get(raw.op)
        if known is None and raw.op.startswith("Flex"):
            return Semantics(why=f"{raw.op} is an operator of TensorFlow itself")
        return known(raw) if known else Semantics()
    read = BUILTIN.get(raw.op)
    return read(raw) if read else Semantics()


def _arithmetic(per_element: int) -> Read:
    """Element by element, with a fused activation where the operator has that option."""

    def read(raw: RawOperator) -> Semantics:
        geometry = {"per_element": per_element, "activation": fused(raw)}
        return Semantics(kind="elementwise", geometry=geometry, weights=parameters(raw, *range(len(raw.inputs))))

    return read


def _function(per_element: int) -> Read:
    """Element by element, without parameters."""
    return lambda raw: Semantics(kind="elementwise", geometry={"per_element": per_element})


def _activation(name: str, *weights: int) -> Read:
    return lambda raw: Semantics(kind="activation", geometry={"activation": name}, weights=weights)


def _reduction(per_output: int = 0, data: int = 0) -> Read:
    geometry = {"per_input": 1, "per_output": per_output, "data": data}
    return lambda raw: Semantics(kind="reduction", geometry=geometry)


def _softmax(*, logarithm: bool) -> Read:
    return lambda raw: Semantics(kind="softmax", geometry={"logarithm": logarithm})


def _resize(per_element: int) -> Read:
    return lambda raw: Semantics(kind="resize", geometry={"per_element": per_element})


def _plain(kind: str, why: str = "") -> Read:
    return lambda raw: Semantics(kind=kind, why=why)


def _move(raw: RawOperator) -> Semantics:
    """Movement; the constants among what is moved are parameters (tables, tokens)."""
    return Semantics(kind="movement", weights=parameters(raw, *range(len(raw.inputs))))


def _join(raw: RawOperator) -> Semantics:
    """CONCATENATION, which may have a fused activation."""
    if fused(raw) == "none":
        return _move(raw)
    geometry = {"activation": fused(raw)}
    return Semantics(kind="activation", geometry=geometry, weights=parameters(raw, *range(len(raw.inputs))))


def _gelu(raw: RawOperator) -> Semantics:
    return _activation("gelu-tanh" if raw.attributes.get("approximate") else "gelu")(raw)


def _add_many(raw: RawOperator) -> Semantics:
    return _arithmetic(max(len(raw.inputs) - 1, 0))(raw)


def _once(raw: RawOperator) -> Semantics:
    """What runs when the model is loaded or first called costs an inference nothing."""
    del raw
    return Semantics(kind="counted", geometry={"macs": 0, "ops": 0})


def _pool_with_places(raw: RawOperator) -> Semantics:
    """MediaPipe's MaxPoolingWithArgmax2D keeps its window in options of its own that are not in the schema."""
    del raw
    return Semantics(why="its window is in options that only its own runtime reads")


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

BUILTIN: dict[str, Read] = {
    **dict.fromkeys(_ONE.split(), _function(1)),
    **dict.fromkeys(_COMPARING.split(), _function(1)),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "POW"), _arithmetic(1)),
    **dict.fromkeys(_MOVEMENT.split(), _plain("movement")),
    **dict.fromkeys(("GATHER", "GATHER_ND", "PACK"), _move),
    **dict.fromkeys(_SEARCHING.split(), _plain("sorting")),
    **dict.fromkeys(_REDUCING.split(), _reduction()),
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), _activation("clamp")),
    **dict.fromkeys(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"), _plain("", _RANDOM)),
    **STABLEHLO,
    "SQUARED_DIFFERENCE": _arithmetic(2),
    "FLOOR_DIV": _function(2),  # divide, floor
    "RSQRT": _function(2),  # root, divide
    "COMPLEX_ABS": _function(4),  # two squares, sum, root
    "FAKE_QUANT": _function(6),  # quantise and de-quantise
    "ADD_N": _add_many,
    "CONCATENATION": _join,
    "EXP": _activation("exp"),
    "LOG": _activation("log"),
    "SQRT": _activation("sqrt"),
    "SIN": _activation("sin"),
    "LOGISTIC": _activation("sigmoid"),
    "TANH": _activation("tanh"),
    "ELU": _activation("elu"),
    "HARD_SWISH": _activation("hard-swish"),
    "LEAKY_RELU": _activation("leaky-relu"),
    "PRELU": _activation("leaky-relu", 1),
    "GELU": _gelu,
    "SOFTMAX": _softmax(logarithm=False),
    "LOG_SOFTMAX": _softmax(logarithm=True),
    "MEAN": _reduction(per_output=1),
    "RESIZE_BILINEAR": _resize(7),
    "RESIZE_NEAREST_NEIGHBOR": _resize(0),
    "CONV_2D": layers.convolve,
    "DEPTHWISE_CONV_2D": layers.convolve_depthwise,
    "CONV_3D": layers.convolve_volume,
    "TRANSPOSE_CONV": layers.convolve_transposed,
    "CONV_3D_TRANSPOSE": layers.convolve_transposed_volume,
    "FULLY_CONNECTED": layers.connect,
    "BATCH_MATMUL": layers.multiply_matrices,
    "AVERAGE_POOL_2D": layers.pool,
    "MAX_POOL_2D": layers.pool,
    "L2_POOL_2D": layers.pool_squares,
    "REDUCE_WINDOW": layers.pool_by_function,
    "L2_NORMALIZATION": layers.normalize_length,
    "LOCAL_RESPONSE_NORMALIZATION": layers.normalize_locally,
    "EMBEDDING_LOOKUP": layers.look_up,
    "EMBEDDING_LOOKUP_SPARSE": layers.look_up_weighted,
    "QUANTIZE": layers.quantize,
    "DEQUANTIZE": layers.dequantize,
    "DENSIFY": _once,
    "RFFT2D": layers.transform_rows,
    "SCATTER_ND": layers.scatter,
    "LSTM": recurrent.run_lstm_step,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": recurrent.run_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": recurrent.run_lstm_both_ways,
    "RNN": recurrent.run_rnn_step,
    "UNIDIRECTIONAL_SEQUENCE_RNN": recurrent.run_rnn,
    "BIDIRECTIONAL_SEQUENCE_RNN": recurrent.run_rnn_both_ways,
    "SVDF": recurrent.filter_in_time,
    "IF": _plain("branch"),
    "CALL": _plain("branch"),
    "WHILE": _plain("loop"),
    "CALL_ONCE": _once,
    "LSH_PROJECTION": _plain("", _HASH),
    "DELEGATE": _plain("", "a delegate replaced operators of the model, which are no longer in the file"),
    "CUSTOM": _plain("", "a custom operator without a name"),
    "PLACEHOLDER_FOR_GREATER_OP_CODES": _plain("", "it is an operator of a newer schema"),
}
"""BuiltinOperator → its semantics."""

CUSTOM: dict[str, Read] = {
    "TFLite_Detection_PostProcess": _plain("sorting"),
    "Convolution2DTransposeBias": layers.convolve_transposed_bias,
    "MaxPoolingWithArgmax2D": _pool_with_places,
    "MaxUnpooling2D": _plain("movement"),
    "AudioSpectrogram": _plain("", "its window is in options that only its own runtime reads"),
    "Mfcc": _plain("", "its filter bank is in options that only its own runtime reads"),
}
"""Custom operators that are common in the field: TensorFlow's own and MediaPipe's."""
