"""TFLite's operators: MACs, ops and parameters of every one of them, calculated by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from case_tables import with_each
from edgewise.model.cost import KINDS, cost_of, count
from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.tflite import BUILTIN, CUSTOM, interpret
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.readers.tflite_schema import OPERATORS
from messages import says, wording


@dataclass(frozen=True)
class Case:
    """`inputs`: words of shape (``-`` is a scalar), type (float32) and ``const``; None is left out."""

    op: str
    inputs: tuple[str | None, ...]
    output: str
    macs: int | None
    ops: int | None
    options: dict[str, Any] = field(default_factory=dict)
    values: dict[int, tuple[float, ...]] = field(default_factory=dict)
    parameters: int = 0
    domain: str = ""


def tensor(name: str, words: str) -> Tensor:
    shape, *rest = words.split()
    dtype = next((word for word in rest if word != "const"), "float32")
    sizes = () if shape == "-" else tuple(None if size == "?" else int(size) for size in shape.split("x"))
    return Tensor(name=name, shape=sizes, dtype=dtype, constant="const" in rest)


def build(case: Case) -> tuple[Operator, Graph]:
    inputs = [None if words is None else tensor(f"in{at}", words) for at, words in enumerate(case.inputs)]
    output = tensor("out", case.output)
    semantics = interpret(
        RawOperator(
            op=case.op,
            domain=case.domain,
            attributes=case.options,
            inputs=inputs,
            outputs=[output],
            values=case.values.get,
        )
    )
    present = [each for each in inputs if each is not None]
    weights = tuple(f"in{at}" for at in semantics.weights if at < len(inputs) and inputs[at] and inputs[at].constant)
    operator = Operator(
        index=0,
        name="out",
        op=case.op,
        kind=semantics.kind,
        inputs=tuple(each.name if each else "" for each in inputs),
        outputs=("out",),
        weights=weights,
        geometry=semantics.geometry,
        custom=bool(case.domain),
        unknown_because=semantics.why,
    )
    tensors = {each.name: each for each in (*present, output)}
    return operator, Graph(
        name="", format="tflite", tensors=tensors, operators=(operator,), inputs=("in0",), outputs=("out",)
    )


#: Operator → ops for operands and a result of [2, 3].
PER_ELEMENT = {
    "ADD": 6, "SUB": 6, "MUL": 6, "DIV": 6, "MAXIMUM": 6, "MINIMUM": 6, "POW": 6, "SQUARED_DIFFERENCE": 12,
    "LESS": 6, "LESS_EQUAL": 6, "GREATER": 6, "GREATER_EQUAL": 6, "EQUAL": 6, "NOT_EQUAL": 6, "LOGICAL_AND": 6,
    "LOGICAL_OR": 6, "BITWISE_XOR": 6, "RIGHT_SHIFT": 6, "FLOOR_DIV": 12, "FLOOR_MOD": 6, "ATAN2": 6, "ADD_N": 6,
    "FLOOR": 6, "CEIL": 6, "ROUND": 6, "ABS": 6, "NEG": 6, "SIGN": 6, "SQUARE": 6, "COS": 6, "LOGICAL_NOT": 6,
    "CAST": 6, "CUMSUM": 6, "RSQRT": 12, "COMPLEX_ABS": 24, "FAKE_QUANT": 36, "EXP": 6, "LOG": 6, "SQRT": 6, "SIN": 6,
    "LOGISTIC": 24, "TANH": 30, "ELU": 24, "HARD_SWISH": 30, "LEAKY_RELU": 12, "PRELU": 12, "GELU": 30, "RELU": 12,
    "RELU6": 12, "RELU_N1_TO_1": 12, "RELU_0_TO_1": 12, "SOFTMAX": 30, "LOG_SOFTMAX": 36, "RESIZE_BILINEAR": 42,
    "RESIZE_NEAREST_NEIGHBOR": 0, "L2_NORMALIZATION": 18, "ARG_MAX": 6, "ARG_MIN": 6, "SUM": 6, "REDUCE_MAX": 6,
    "REDUCE_MIN": 6, "REDUCE_PROD": 6, "REDUCE_ANY": 6, "REDUCE_ALL": 6, "SEGMENT_SUM": 6, "UNSORTED_SEGMENT_SUM": 6,
    "UNSORTED_SEGMENT_MAX": 6, "UNSORTED_SEGMENT_MIN": 6, "UNSORTED_SEGMENT_PROD": 6, "MEAN": 12, "CALL_ONCE": 0,
    "DENSIFY": 0,
    "STABLEHLO_ADD": 6, "STABLEHLO_SUBTRACT": 6, "STABLEHLO_MULTIPLY": 6, "STABLEHLO_DIVIDE": 6,
    "STABLEHLO_MAXIMUM": 6, "STABLEHLO_MINIMUM": 6, "STABLEHLO_POWER": 6, "STABLEHLO_REMAINDER": 6, "STABLEHLO_ABS": 6,
    "STABLEHLO_NEGATE": 6, "STABLEHLO_FLOOR": 6, "STABLEHLO_COSINE": 6, "STABLEHLO_CBRT": 6, "STABLEHLO_AND": 6,
    "STABLEHLO_OR": 6, "STABLEHLO_COMPARE": 6, "STABLEHLO_CONVERT": 6, "STABLEHLO_SHIFT_LEFT": 6,
    "STABLEHLO_LOGISTIC": 24, "STABLEHLO_TANH": 30, "STABLEHLO_EXPONENTIAL": 6, "STABLEHLO_LOG": 6,
    "STABLEHLO_CLAMP": 12, "STABLEHLO_RSQRT": 12,
}  # fmt: skip

_MOVING = (
    "RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE PAD PADV2 MIRROR_PAD SLICE STRIDED_SLICE SPLIT SPLIT_V PACK UNPACK GATHER "
    "GATHER_ND TILE BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND SPACE_TO_DEPTH DEPTH_TO_SPACE SHAPE RANK ZEROS_LIKE FILL RANGE "
    "BROADCAST_TO BROADCAST_ARGS REVERSE_V2 REVERSE_SEQUENCE MATRIX_DIAG MATRIX_SET_DIAG ONE_HOT SELECT SELECT_V2 "
    "BITCAST REAL IMAG SPARSE_TO_DENSE DILATE DYNAMIC_UPDATE_SLICE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE HASHTABLE "
    "HASHTABLE_IMPORT HASHTABLE_SIZE CONCAT_EMBEDDINGS CONCATENATION EMBEDDING_LOOKUP STABLEHLO_RESHAPE "
    "STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_SLICE STABLEHLO_SELECT STABLEHLO_DYNAMIC_SLICE "
    "STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_GATHER STABLEHLO_TRANSPOSE"
)
MOVING = set(_MOVING.split())

_SEARCHING = (
    "TOPK_V2 UNIQUE WHERE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 BUCKETIZE HASHTABLE_FIND HASHTABLE_LOOKUP "
    "SKIP_GRAM STABLEHLO_SORT"
)
SEARCHING = set(_SEARCHING.split())

#: Operator → a word of the reason why its cost is unknown.
UNKNOWN = {
    "RANDOM_UNIFORM": "generator", "RANDOM_STANDARD_NORMAL": "generator", "MULTINOMIAL": "generator",
    "STABLEHLO_RNG_BIT_GENERATOR": "generator", "LSH_PROJECTION": "hash", "DELEGATE": "delegate",
    "CUSTOM": wording("custom-operator-without-name"), "PLACEHOLDER_FOR_GREATER_OP_CODES": wording("operator-newer-schema"), "STABLEHLO_REDUCE": wording("computation-per-element-separate-graph"),
    "STABLEHLO_REDUCE_WINDOW": wording("computation-per-element-separate-graph"), "STABLEHLO_SCATTER": wording("computation-per-element-separate-graph"), "STABLEHLO_CUSTOM_CALL": "outside",
    "IF": wording("branches-not-model"), "CALL": wording("branches-not-model"), "STABLEHLO_CASE": wording("branches-not-model"),
    "STABLEHLO_COMPOSITE": wording("branches-not-model"), "WHILE": wording("number-repetitions-depends-data"), "STABLEHLO_WHILE": wording("number-repetitions-depends-data"),
}  # fmt: skip

RELU, TANH = {"fused_activation_function": "RELU"}, {"fused_activation_function": "TANH"}
WINDOW = {"filter_height": 2, "filter_width": 3}

# The weights of an LSTM of 3 features, 4 units, from position 1 on: four gates, four recurrent, no peepholes, biases.
GATES, STATES, NO_PEEPHOLES, BIASES = ("4x3 const",) * 4, ("4x4 const",) * 4, (None,) * 3, ("4 const",) * 4
LSTM = (*GATES, *STATES, *NO_PEEPHOLES, *BIASES)
STATE = ("2x4", "2x4")

SPECIAL = [
    # 2 × 2 × 5 outputs × (3 × 3 × 2) = 360; bias 20; clamp 40.
    Case("CONV_2D", ("1x4x4x2", "5x3x3x2 const", "5 const"), "1x2x2x5", 360, 780, RELU, parameters=95),
    # Two groups of 2 channels: the filter's last dimension is 2.
    Case("CONV_2D", ("1x4x4x4", "6x3x3x2 const", None), "1x2x2x6", 432, 864, parameters=108),
    Case("DEPTHWISE_CONV_2D", ("1x4x4x2", "1x3x3x4 const", "4 const"), "1x2x2x4", 144, 304, parameters=40),
    Case("DEPTHWISE_CONV_2D", ("1x4x4x2", "1x3x3x4 const", "4 const"), "1x2x2x4", 144, 384, TANH, parameters=40),
    Case("CONV_3D", ("1x2x4x4x2", "2x3x3x2x5 const", "5 const"), "1x1x2x2x5", 720, 1460, parameters=185),
    # Inputs 1 × 2 × 2 × 3 = 12, each into 3 × 3 × 5 products.
    Case("TRANSPOSE_CONV", ("4 int32 const", "5x3x3x3 const", "1x2x2x3"), "1x4x4x5", 540, 1080, parameters=135),
    Case(
        "TRANSPOSE_CONV", ("4 int32 const", "5x3x3x3 const", "1x2x2x3", "5 const"), "1x4x4x5", 540, 1160,
        parameters=140,
    ),
    Case(
        "CONV_3D_TRANSPOSE", ("5 int32 const", "2x3x3x5x3 const", "1x1x2x2x3"), "1x2x4x4x5", 1080, 2160,
        parameters=270,
    ),
    Case("FULLY_CONNECTED", ("2x8", "3x8 const", "3 const"), "2x3", 48, 102, parameters=27),
    Case("FULLY_CONNECTED", ("2x8 int8", "3x8 int8 const", "3 int32 const"), "2x3 int8", 48, 114, RELU, parameters=27),
    Case("FULLY_CONNECTED", ("2x8", "3x8 int8 const", None), "2x3", 48, 96, parameters=24),
    Case("BATCH_MATMUL", ("2x3x4", "2x4x5"), "2x3x5", 120, 240),
    Case("BATCH_MATMUL", ("2x4x3", "4x5 const"), "2x3x5", 120, 240, {"adj_x": True}, parameters=20),
    Case("AVERAGE_POOL_2D", ("1x4x6x2",), "1x2x2x2", 0, 56, WINDOW),
    Case("MAX_POOL_2D", ("1x4x6x2",), "1x2x2x2", 0, 48, WINDOW),
    Case("MAX_POOL_2D", ("1x4x6x2",), "1x2x2x2", 0, 64, {**WINDOW, **RELU}),
    Case("L2_POOL_2D", ("1x4x6x2",), "1x2x2x2", None, None, WINDOW),
    Case(
        "REDUCE_WINDOW", ("4x6", "- const", "2 int64 const"), "2x2", 0, 24, {"reduce_function": "MAXIMUM"},
        {2: (2, 3)},
    ),
    # n = 5: 5 products, 4 sums, 4 more.
    Case("LOCAL_RESPONSE_NORMALIZATION", ("1x2x2x8",), "1x2x2x8", 0, 416, {"radius": 2}),
    Case("EMBEDDING_LOOKUP", ("5 int32", "9x4 const"), "5x4", 0, 0, parameters=36),
    Case("EMBEDDING_LOOKUP", ("5 int32", "9x4 int8 const"), "5x4", 0, 40, parameters=36),
    # 5 ids in 2 bags of rows of 4: 20 MACs; MEAN 5 sums of weights and 8 divisions; SQRTN 10 and 2 roots and 8.
    Case(
        "EMBEDDING_LOOKUP_SPARSE", ("5 int32", "5x2 int32", "2 int32", "5", "9x4 const"), "2x4", None, None, {},
        parameters=36,
    ),
    Case("QUANTIZE", ("2x3",), "2x3 int8", 0, 24),
    Case("QUANTIZE", ("2x3 uint8",), "2x3 int8", 0, 36),
    Case("DEQUANTIZE", ("2x3 int8",), "2x3", 0, 12),
    Case("DEQUANTIZE", ("2x3 float16",), "2x3", 0, 6),
    Case("DEQUANTIZE", ("2x3 float16 const",), "2x3", 0, 0),
    Case("CONCATENATION", ("2x3", "2x1 const"), "2x4", 0, 16, RELU, parameters=2),
    Case("ADD", ("2x3", "3 const"), "2x3", 0, 18, RELU, parameters=3),
    Case("ADD", ("2 int32", "2 int32 const"), "2 int32", 0, 2),
    Case("ADD_N", ("2x3", "2x3", "2x3"), "2x3", 0, 12),
    Case("PRELU", ("1x2x2x3", "3 const"), "1x2x2x3", 0, 24, parameters=3),
    Case("GELU", ("2x3",), "2x3", 0, 78, {"approximate": True}),
    Case("MEAN", ("1x4x4x2", "2 int32 const"), "1x2", 0, 34),
    Case("SUM", ("1x4x4x2", "2 int32 const"), "1x2", 0, 32),
    Case("RFFT2D", ("3x8x8", "2 int32 const"), "3x8x5 complex64", 0, None, values={1: (8, 8)}),
    Case("SCATTER_ND", ("4x1 int32", "4x3", "2 int32 const"), "9x3", 0, 12),
    # Full LSTM, one step of 2 sequences: 2 × (4 × 12 + 4 × 16) = 224 MACs; per unit 4 biases, 12 + 10 for the
    # functions, 4 sums, 4 at the end = 34: 448 + 2 × 4 × 34 = 720.
    Case("LSTM", ("2x3", *LSTM, None, None, *STATE), "2x4", 224, 720, TANH, parameters=128),
    Case(
        "LSTM", ("2x3", "2x4", "16x7 const", "16 const", "2x4"), "2x4", 224, 720, {"kernel_type": "BASIC"},
        parameters=128,
    ),
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", ("2x5x3", *LSTM, None, None, *STATE), "2x5x4", 1120, 3600, TANH,
        parameters=128,
    ),
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", ("5x2x3", *LSTM, None, None, *STATE), "5x2x4", 1120, 3600,
        {**TANH, "time_major": True}, parameters=128,
    ),
    # Peepholes: 3 × 2 per unit more: 10 × 4 × 6 = 240.
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        ("2x5x3", *GATES, *STATES, *("4 const",) * 3, *BIASES, None, None, *STATE), "2x5x4", 1120, 3840, TANH,
        parameters=140,
    ),
    # Projected to 2: 10 × (48 + 4 × 4 × 2 + 2 × 4) = 880 MACs.
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        ("2x5x3", *GATES, *("4x2 const",) * 4, *NO_PEEPHOLES, *BIASES, "2x4 const", None, "2x2", "2x4"), "2x5x2",
        880, 3120, TANH, parameters=104,
    ),
    # What only few LSTMs have keeps its MACs, and loses its operations: a projection bias, coupled gates (3 × 12 + 3 × 16
    # MACs a step), layer normalisation and a clip.
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        ("2x5x3", *GATES, *("4x2 const",) * 4, *NO_PEEPHOLES, *BIASES, "2x4 const", "2 const", "2x2", "2x4"), "2x5x2",
        880, None, TANH, parameters=106,
    ),
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        ("2x5x3", None, *GATES[1:], None, *STATES[1:], *NO_PEEPHOLES, None, *BIASES[1:], None, None, *STATE), "2x5x4",
        840, None, TANH, parameters=96,
    ),
    Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        ("2x5x3", *LSTM, None, None, *STATE, *("4 const",) * 4), "2x5x4", 1120, None, {**TANH, "cell_clip": 10.0},
        parameters=144,
    ),
    # Both directions, time-major: twice 10 × 112 MACs and 10 × 4 × 34.
    Case(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        ("5x2x3", *LSTM, None, None, *LSTM, None, None, *STATE, *STATE), "5x2x4", 2240, 7200,
        {**TANH, "time_major": True}, parameters=256,
    ),
    # One step of 2: 2 × (12 + 16) MACs; per unit bias 1, tanh 5, sum 1.
    Case("RNN", ("2x3", "4x3 const", "4x4 const", "4 const", "2x4"), "2x4", 56, 168, TANH, parameters=32),
    # With a clamp instead: bias 1, sum 1, clamp 2.
    Case("RNN", ("2x3", "4x3 const", "4x4 const", "4 const", "2x4"), "2x4", 56, 144, RELU, parameters=32),
    Case(
        "UNIDIRECTIONAL_SEQUENCE_RNN", ("2x5x3", "4x3 const", "4x4 const", "4 const", "2x4"), "2x5x4", 280, 840, TANH,
        parameters=32,
    ),
    Case(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        ("2x5x3", *("4x3 const", "4x4 const", "4 const", "2x4") * 2), "2x5x4", 560, 1680, TANH, parameters=64,
    ),
    # 2 × 8 filters × (3 features + 6 steps) = 144 MACs; 4 units of rank 2: per sequence 4 sums, 4 biases, 8 clamps.
    Case(
        "SVDF", ("2x3", "8x3 const", "8x6 const", "4 const", "2x48"), "2x4", 144, 320, {"rank": 2, **RELU},
        parameters=76,
    ),
    Case("STABLEHLO_CONVOLUTION", ("1x4x4x2", "3x3x2x5 const"), "1x2x2x5", None, None, parameters=90),
    Case("STABLEHLO_DOT_GENERAL", ("2x3x4", "2x4x5"), "2x3x5", None, None),
    Case(
        "Convolution2DTransposeBias", ("1x2x2x3", "5x3x3x3 const", "5 const"), "1x4x4x5", 540, 1160, parameters=140,
        domain="custom",
    ),
    Case("TFLite_Detection_PostProcess", ("1x9x4", "1x9x3", "9x4 const"), "1x3x4", 0, None, domain="custom"),
    Case("MaxUnpooling2D", ("1x2x2x3", "1x2x2x3 int32"), "1x4x4x3", 0, 0, domain="custom"),
    Case("MaxPoolingWithArgmax2D", ("1x4x4x3",), "1x2x2x3", None, None, domain="custom"),
    Case("AudioSpectrogram", ("16x1",), "1x2x3", None, None, domain="custom"),
    Case("Mfcc", ("1x2x3",), "1x2x3", None, None, domain="custom"),
]  # fmt: skip


def test_every_operator_of_the_schema_has_a_meaning_and_a_case():
    assert set(BUILTIN) == set(OPERATORS)
    tested = {*PER_ELEMENT, *MOVING, *SEARCHING, *UNKNOWN, *(case.op for case in SPECIAL)}
    assert tested == {*OPERATORS, *CUSTOM}


def test_the_operators_are_those_of_the_schema():
    import tflite

    known = {name: number for name, number in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
    assert [known[name] for name in OPERATORS if name in known] == list(range(len(known)))
    assert set(OPERATORS) - set(known) == {"STABLEHLO_CASE"}  # younger than that package


@with_each(SPECIAL)
def test_costs_by_hand(case):
    operator, graph = build(case)
    cost = cost_of(operator, graph)
    assert (cost.macs, cost.ops) == (case.macs, case.ops)
    assert count(operator, graph).parameters == case.parameters
    assert bool(cost.why) == (cost.macs is None or cost.ops is None)


@with_each(PER_ELEMENT.items())
def test_operations_per_element(case):
    op, ops = case
    operator, graph = build(Case(op, ("2x3", "2x3"), "2x3", 0, ops))
    cost = cost_of(operator, graph)
    assert (cost.macs, cost.ops) == (0, ops)


@with_each(sorted(MOVING))
def test_moving_costs_no_operations(op):
    operator, graph = build(Case(op, ("2x3", "2x3"), "4x3", 0, 0))
    assert operator.kind == "movement"
    assert cost_of(operator, graph).ops == 0


@with_each(sorted(SEARCHING))
def test_searching_depends_on_data(op):
    operator, graph = build(Case(op, ("2x3", "-"), "2x3", 0, None))
    cost = cost_of(operator, graph)
    assert (cost.macs, cost.ops) == (0, None)
    assert wording("number-comparisons-depends-data") in cost.why


@pytest.mark.parametrize(("op", "word"), UNKNOWN.items())
def test_unknown_costs_have_a_reason(op, word):
    operator, graph = build(Case(op, ("2x3", "-"), "2x3", None, None))
    cost = cost_of(operator, graph)
    assert (cost.macs, cost.ops) == (0 if word == "generator" else None, None)
    assert word in cost.why


def test_the_number_of_channels_of_a_group_tells_a_depthwise_convolution():
    operator, _ = build(Case("CONV_2D", ("1x4x4x8", "8x3x3x1 const"), "1x4x4x8", 0, 0))
    assert operator.geometry["depthwise"] is True
    operator, _ = build(Case("CONV_2D", ("1x4x4x8", "8x3x3x2 const"), "1x4x4x8", 0, 0))
    assert operator.geometry["depthwise"] is False


def test_an_unknown_operator_is_unknown():
    operator, graph = build(Case("BUILTIN_400", ("2x3",), "2x3", None, None))
    assert cost_of(operator, graph).why == wording("no-formula", noun="operator", op="BUILTIN_400")
    operator, graph = build(Case("MyOwn", ("2x3",), "2x3", None, None, domain="custom"))
    assert cost_of(operator, graph).why == wording("no-formula", noun="custom", op="operator MyOwn")
    operator, graph = build(Case("FlexErf", ("2x3",), "2x3", None, None, domain="custom"))
    assert re.search(says("operator-tensorflow-itself"), cost_of(operator, graph).why)


def test_a_custom_operator_is_never_taken_for_the_builtin_one_of_its_name():
    operator, graph = build(Case("ADD", ("2x3", "2x3"), "2x3", None, None, domain="custom"))
    assert cost_of(operator, graph).macs is None


def test_a_newer_fused_activation_has_an_unknown_cost():
    options = {"fused_activation_function": "6"}
    operator, graph = build(Case("ADD", ("2x3", "2x3"), "2x3", 0, None, options))
    assert wording("function-no-known-cost", lacking="6") in cost_of(operator, graph).why


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ((), {}),
        ((None, None, None), {}),
        (("-",) * 30, {"rank": 0, "radius": -1, "filter_width": -3, "filter_height": 2, "axis": 9}),
        (("?x?x?x?",) * 30, {"fused_activation_function": "7", "rank": -1}),
        (("0x0x0x0",) * 30, {"feature_group_count": -2, "kernel_spatial_dimensions": (9, -9)}),
        (("3x4",) * 9, {"lhs_contracting_dimensions": (7,), "kernel_spatial_dimensions": "int64[99]"}),
    ],
)
def test_whatever_the_operands_are_there_is_an_answer(inputs, options):
    for op in OPERATORS:
        for output in ("-", "?x3", "0x0"):
            operator, graph = build(Case(op, inputs, output, None, None, options, {1: (-1, 0), 2: (-3, 0)}))
            assert not operator.kind or operator.kind in KINDS
            cost = cost_of(operator, graph)
            assert cost.macs is None or cost.macs >= 0
            assert cost.ops is None or cost.ops >= 0
            assert (cost.macs is not None and cost.ops is not None) or cost.why
