"""ONNX: convolutions, matrix products, pooling, norms, resizing and quantisation, each operator computed by hand."""

from __future__ import annotations

import pytest

from case_tables import with_each
from edgewise.model.dialects.onnx import interpret
from edgewise.model.dialects.onnx_network import TABLE
from onnx_cases import Case, ask, check, ints

IMAGE = (1, 3, 8, 8)
X = (2, 3, 4)  # 24 elements

CONVOLUTIONS = [
    # 5 × 6 × 6 = 180 outputs, of 3 channels × 9 each.
    Case("Conv", [IMAGE, (5, 3, 3, 3)], [(1, 5, 6, 6)], 180 * 27, 2 * 180 * 27, parameters=135),
    Case("Conv", [IMAGE, (5, 3, 3, 3), (5,)], [(1, 5, 6, 6)], 180 * 27, 2 * 180 * 27 + 180, parameters=135 + 5),
    # Two groups of two channels: 4 × 4 × 4 outputs, of 2 × 1 each.
    Case("Conv", [(1, 4, 4, 4), (4, 2, 1, 1)], [(1, 4, 4, 4)], 64 * 2, 2 * 64 * 2, options={"group": 2}),
    # Depthwise over a line: 6 × 8 outputs, of 3 each.
    Case("Conv", [(1, 6, 10), (6, 1, 3)], [(1, 6, 8)], 48 * 3, 2 * 48 * 3, options={"group": 6}),
    # The weight's shape is open: 4 channels / 2 groups × 3 × 3.
    Case("Conv", [(1, 4, 8, 8), "rank unknown"], [(1, 2, 6, 6)], 72 * 18, 2 * 72 * 18,
         options={"group": 2, "kernel_shape": (3, 3)}),
    Case("Conv", [("n", 3, 8, 8), (5, 3, 3, 3)], [("n", 5, 6, 6)], None, None, parameters=135, why="open"),
    Case("Conv", [IMAGE, (5, 3)], [(1, 5, 6, 6)], None, None, kind="", why="no kernel"),
    Case("ConvInteger", [("uint8", IMAGE), ("uint8", (5, 3, 3, 3)), ("uint8", ()), ("uint8", ())], [("int32", (1, 5, 6, 6))],
         4860, 9720, parameters=135),
    Case("QLinearConv",
         [("uint8", IMAGE), (), ("uint8", ()), ("int8", (5, 3, 3, 3)), (5,), ("int8", (5,)), (), ("uint8", ()), ("int32", (5,))],
         [("uint8", (1, 5, 6, 6))], 4860, 9720 + 180, parameters=135 + 5),
    # 3 × 4 × 4 = 48 inputs, each to 2 channels × 3 × 3 outputs.
    Case("ConvTranspose", [(1, 3, 4, 4), (3, 2, 3, 3)], [(1, 2, 6, 6)], 48 * 18, 2 * 48 * 18, parameters=54),
    Case("ConvTranspose", [(1, 3, 4, 4), (3, 2, 3, 3), (2,)], [(1, 2, 6, 6)], 864, 1728 + 72, parameters=54 + 2),
    Case("ConvTranspose", [(1, 4, 4, 4), "rank unknown"], [(1, 6, 6, 6)], 64 * 3 * 9, 2 * 64 * 3 * 9,
         options={"group": 2, "kernel_shape": (3, 3)}),
    # 2 × 3 × 3 = 18 outputs, of 12 each; 3 channels × 9 places × 4 taps = 108 samples of 7 operations, and a mask.
    Case("DeformConv", [(1, 3, 4, 4), (2, 3, 2, 2), (1, 8, 3, 3)], [(1, 2, 3, 3)], 216, None, why="rare", parameters=24),
    Case("DeformConv", [(1, 3, 4, 4), (2, 3, 2, 2), (1, 8, 3, 3), (2,), (1, 4, 3, 3)], [(1, 2, 3, 3)],
         216, None, why="rare", parameters=26),
    # 2 × 6 × 5 = 60 outputs of 4 each, then SiLU: 5.
    Case("CausalConvWithState", [(2, 6, 5), (6, 1, 4), (6,)], [(2, 6, 5), (2, 6, 3)], 240, 480 + 60 + 300,
         parameters=30, options={"activation": "silu"}),
    Case("CausalConvWithState", [(2, 6, 5), (6, 1, 4)], [(2, 6, 5), (2, 6, 3)], 240, 480),
]  # fmt: skip

PRODUCTS = [
    Case("MatMul", [(2, 3), (3, 5)], [(2, 5)], 10 * 3, 20 * 3, parameters=15),
    Case("MatMul", [(4, 2, 3), (4, 3, 5)], [(4, 2, 5)], 40 * 3, 80 * 3),
    Case("MatMul", [(3,), (3, 5)], [(5,)], 5 * 3, 10 * 3),
    Case("MatMul", [(2, 3), (3,)], [(2,)], 2 * 3, 4 * 3),
    Case("MatMul", [(3,), (3,)], [()], 3, 6),
    Case("MatMul", [(2, "k"), (3, 5)], [(2, 5)], 30, 60),
    Case("MatMul", [(2, "k"), ("k", 5)], [(2, 5)], None, None, why="reduction"),
    Case("MatMulInteger", [("uint8", (2, 3)), ("int8", (3, 5)), ("uint8", ()), ("int8", ())], [("int32", (2, 5))], 30, 60,
         parameters=15),
    Case("QLinearMatMul",
         [("uint8", (2, 3)), (), ("uint8", ()), ("int8", (3, 5)), (), ("int8", ()), (), ("uint8", ())],
         [("uint8", (2, 5))], 30, 60, parameters=15),
    Case("Gemm", [(2, 3), (3, 5)], [(2, 5)], 30, 60, parameters=15),
    Case("Gemm", [(2, 3), (3, 5), (5,)], [(2, 5)], 30, 60 + 10, parameters=20),
    Case("Gemm", [(3, 2), (5, 3), (5,)], [(2, 5)], 30, 70, options={"transA": 1, "transB": 1}),
    Case("Gemm", [(2, 3), (3, 5), (2, 1)], [(2, 5)], 30, 70, constant=(0, 2), parameters=6 + 2),
    Case("Gemm", [("k", 2), (5, 3)], [(2, 5)], 30, 60, options={"transA": 1, "transB": 1}),
    # α on each output, β on each output, and the bias.
    Case("Gemm", [(2, 3), (3, 5), (5,)], [(2, 5)], 30, 60 + 30, options={"alpha": 0.5, "beta": 2.0}),
    Case("Gemm", [(2, 3), (3, 5), (5,)], [(2, 5)], 30, 60, options={"beta": 0.0}),
    Case("Gemm", [(2,), (3, 5)], [(2, 5)], None, None, kind="", why="too few", options={"transA": 1}),
    Case("Einsum", [(2, 3), (3, 5)], [(2, 5)], 30, 60, parameters=15, options={"equation": "ij,jk->ik"}),
    Case("Einsum", [(2, 3), (3, 5)], [(2, 5)], 30, 60, options={"equation": "ij , jk"}),
    # Batches behind an ellipsis, one of them repeated: 4 × 2 × 5 outputs.
    Case("Einsum", [(4, 2, 3), (1, 3, 5)], [(4, 2, 5)], 120, 240, options={"equation": "...ij,...jk->...ik"}),
    # The ellipsis is summed over too: 3 outputs of 4 × 2 products.
    Case("Einsum", [(4, 2, 3), (4, 2, 3)], [(3,)], 24, 48, options={"equation": "...j,...j->j"}),
    Case("Einsum", [(2, 3), (2, 3)], [(2, 3)], 0, 6, options={"equation": "ij,ij->ij"}),
    Case("Einsum", [(2, 3), (3, 5), (5, 4)], [(2, 4)], None, None, kind="", why="order", options={"equation": "ij,jk,kl->il"}),
    Case("Einsum", [(2, 3)], [(3, 2)], 0, 0, options={"equation": "ij->ji"}),
    Case("Einsum", [(2, 3)], [(2,)], 0, 6, options={"equation": "ij->i"}),
    Case("Einsum", [(3, 3)], [()], 0, 3, options={"equation": "ii->"}),
    Case("Einsum", [(2, 3), (4, 5)], [(2, 5)], None, None, kind="", why="both 3 and 4", options={"equation": "ij,jk->ik"}),
    Case("Einsum", [(2, 3)], [(2, 5)], None, None, kind="", why="operands", options={"equation": "ij,jk->ik"}),
    Case("Einsum", [(2, 3)], [(2, 5)], None, None, kind="", why="contradicts the equation", options={"equation": "ijk->k"}),
    Case("Einsum", [(2, 3)], [(2, 5)], None, None, kind="", why="no operand", options={"equation": "ij->k"}),
    Case("Einsum", [(2, 3)], [(2, 5)], None, None, kind="", why="not letters", options={"equation": "1.->k"}),
    Case("Einsum", [(2, 3), (3, "n")], [(2, "n")], None, None, why="open", options={"equation": "ij,jk->ik"}),
    Case("Einsum", [(2, "n"), ("n", 5)], [(2, 5)], None, None, why="reduction", options={"equation": "ij,jk->ik"}),
]  # fmt: skip

POOLING = [
    Case("MaxPool", [(1, 3, 4, 4)], [(1, 3, 2, 2)], 0, 12 * 4, kind="pooling", options={"kernel_shape": (2, 2)}),
    Case("MaxPool", [(1, 3, 4, 4)], [(1, 3, 2, 2)], 0, None, kind="pooling", why="window"),
    Case("AveragePool", [(1, 3, 4, 4)], [(1, 3, 2, 2)], 0, 12 * (9 + 1), options={"kernel_shape": (3, 3)}),
    # Squares and sums of 4 elements each, and a root; absolute values and no root; powers.
    Case("GlobalMaxPool", [(1, 3, 4, 5)], [(1, 3, 1, 1)], 0, 3 * 20, kind="pooling"),
    Case("GlobalAveragePool", [(1, 3, 4, 5)], [(1, 3, 1, 1)], 0, 3 * (20 + 1), kind="pooling"),
    Case("GlobalAveragePool", [(1, 3, "h", 5)], [(1, 3, 1, 1)], 0, None, why="window"),
    Case("LpPool", [(1, 3, 4, 4)], [(1, 3, 2, 2)], 0, None, why="rare", options={"kernel_shape": (2, 2)}),
    Case("GlobalLpPool", [(1, 3, 4, 5)], [(1, 3, 1, 1)], 0, None, why="rare"),
]

NORMS = [
    Case("BatchNormalization", [X, (3,), (3,), (3,), (3,)], [X], 0, 24 * 2, parameters=12, kind="normalization"),
    Case("BatchNormalization", [X, (3,), (3,), (3,), (3,)], [X, (3,), (3,)], 0, 24 * 8, options={"training_mode": 1}),
    Case("BatchNormalization", [X, (3,), (3,), (3,), (3,)], [X, (3,), (3,)], 0, 24 * 8, version=9),
    Case("BatchNormalization", [X, (3,), (3,), (3,), (3,)], [X], 0, 24 * 2, version=9),
    Case("LayerNormalization", [X, (4,), (4,)], [X], 0, 24 * 8, parameters=8),
    Case("LayerNormalization", [X, (4,)], [X], 0, 24 * 7, parameters=4),
    Case("InstanceNormalization", [X, (3,), (3,)], [X], 0, 24 * 8, parameters=6),
    Case("GroupNormalization", [X, (3,), (3,)], [X], 0, 24 * 8, parameters=6),
    Case("RMSNormalization", [X, (4,)], [X], 0, 24 * 4, parameters=4),
    Case("SimplifiedLayerNormalization", [X, (4,)], [X], 0, 24 * 4, parameters=4),
    Case("MeanVarianceNormalization", [X], [X], 0, 24 * 6),
    Case("LpNormalization", [X], [X], 0, 24 * 3),  # square, add, divide
    Case("LpNormalization", [X], [X], 0, 24 * 3, options={"p": 1}),  # absolute value, add, divide
    # 5 squares, 4 sums, scale, bias, power, division.
    Case("LRN", [X], [X], 0, 24 * 13, options={"size": 5}),
    Case("LRN", [X], [X], None, None, kind="", why="0 channels"),
    Case("Softmax", [X], [X], 0, 24 * 5, kind="softmax"),
    Case("LogSoftmax", [X], [X], 0, 24 * 6, kind="softmax"),
]

LINEAR, CUBIC = {"mode": "linear"}, {"mode": "cubic"}
SMALL, WIDE, BIG = (1, 2, 4, 4), (1, 2, 4, 8), (1, 2, 8, 8)

RESIZING = [
    Case("Resize", [SMALL], [BIG], 0, 0, kind="resize"),
    Case("Resize", [SMALL], [WIDE], 0, 64 * 3, options=LINEAR),
    Case("Resize", [SMALL], [BIG], 0, 128 * 7, options=LINEAR),
    Case("Resize", [SMALL], [BIG], 0, 128 * 31, options=CUBIC),
    Case("Resize", [(1, 2, 4, 4, 4)], [(1, 2, 8, 8, 8)], 0, 1024 * 15, options=LINEAR),
    Case("Resize", [SMALL], [SMALL], 0, 0, options=LINEAR),
    # Open dimensions: the scales tell how many change, the outputs are still open.
    Case("Resize", [("n", 2, 4, 4), None, (4,)], [("n", 2, 8, 8)], 0, None, why="open", options=LINEAR),
    Case("Resize", [SMALL], [BIG], None, None, kind="", why="antialiased", options={"antialias": 1, **LINEAR}),
    Case("Resize", [SMALL], [BIG], None, None, kind="", why="regions",
         options={"coordinate_transformation_mode": "tf_crop_and_resize", **LINEAR}),
    Case("Resize", [SMALL], [BIG], None, None, kind="", why="'odd'", options={"mode": "odd"}),
    Case("Resize", [SMALL], [(8, 8)], None, None, kind="", why="rank", options=LINEAR),
    Case("Upsample", [SMALL, (4,)], [BIG], 0, 0),
    Case("Upsample", [SMALL, (4,)], [BIG], 0, 128 * 7, version=9, options=LINEAR),
    Case("GridSample", [(1, 2, 4, 4), (1, 3, 5, 2)], [(1, 2, 3, 5)], 0, 30 * 7, kind="resize"),
    Case("GridSample", [(1, 2, 4, 4), (1, 3, 5, 2)], [(1, 2, 3, 5)], 0, 30 * 31, options={"mode": "bicubic"}, version=16),
    Case("GridSample", [(1, 2, 4, 4), (1, 3, 5, 2)], [(1, 2, 3, 5)], 0, 0, options={"mode": "nearest"}),
    Case("GridSample", [(1, 2, 4, 4, 4), (1, 2, 3, 5, 3)], [(1, 2, 2, 3, 5)], 0, 60 * 15),
]  # fmt: skip

QUANTISATION = [
    Case("QuantizeLinear", [X, (), ("int8", ())], [("int8", X)], 0, 24 * 4, parameters=0, kind="quantize"),
    Case("DequantizeLinear", [("int8", X), (3,), ("int8", (3,))], [X], 0, 24 * 2, parameters=24, kind="dequantize",
         constant=(0, 1, 2)),
    Case("DequantizeLinear", [("int32", (5,)), (), ("int32", ())], [(5,)], 0, 10, parameters=5, constant=(0, 1, 2)),
    # Minimum, maximum, and four to quantise.
    Case("DynamicQuantizeLinear", [X], [("uint8", X), (), ("uint8", ())], 0, 24 * 6, kind="quantize"),
]  # fmt: skip

CASES = [*CONVOLUTIONS, *PRODUCTS, *POOLING, *NORMS, *RESIZING, *QUANTISATION]


@with_each(CASES)
def test_cost(case):
    check(case)


def test_every_operator_of_the_table_has_a_case():
    assert {case.op for case in CASES} == set(TABLE)


def geometry(op, inputs, outputs, **more):
    return interpret(ask(Case(op, inputs, outputs, None, None, **more))).geometry


@pytest.mark.parametrize(
    ("weight", "group", "depthwise"),
    [((6, 1, 3, 3), 6, True), ((12, 1, 3, 3), 6, True), ((6, 2, 3, 3), 3, False), ((4, 1, 3, 3), 1, False)],
)
def test_depthwise_is_one_filter_for_each_channel(weight, group, depthwise):
    found = geometry("Conv", [(1, weight[1] * group, 8, 8), weight], [(1, weight[0], 6, 6)], options={"group": group})
    assert found["depthwise"] is depthwise


def test_scales_tell_what_open_dimensions_do_not():
    inputs, outputs = [("n", 2, "h", "w"), None, (4,)], [("n", 2, "a", "b")]
    assert geometry("Resize", inputs, outputs, values={2: (1.0, 1.0, 2.0, 2.0)}, options=LINEAR)["per_element"] == 7
    assert geometry("Resize", inputs, outputs, values={2: (1.0, 1.0, 1.0, 2.0)}, options=LINEAR)["per_element"] == 3
    assert geometry("Upsample", [("n", 2)], [("m", 2)], options={"scales": (2.0, 1.0), **LINEAR})["per_element"] == 3
    assert "per_element" not in geometry("Resize", inputs, outputs, options=LINEAR)


def test_open_dimensions_of_one_name_do_not_change():
    found = geometry("Resize", [("n", 2, 4, 4)], [("n", 2, 4, 8)], options=LINEAR)
    assert found["per_element"] == 3


@pytest.mark.parametrize("group", [0, 3, -1])
def test_channels_that_groups_cannot_share(group):
    raw = ask(Case("Conv", [(1, 4, 8, 8), "rank unknown"], [(1, 2, 6, 6)], None, None,
                        options={"group": group, "kernel_shape": (3, 3)}))  # fmt: skip
    assert interpret(raw).kind == ""


def test_no_scale_or_zero_point_is_a_parameter():
    inputs = [
        ("uint8", (1, 3, 8, 8)),
        (),
        ("uint8", ()),
        ("int8", (5, 3, 3, 3)),
        (5,),
        ("int8", (5,)),
        (),
        ("uint8", ()),
        ints(5),
    ]
    assert interpret(ask(Case("QLinearConv", inputs, [(1, 5, 6, 6)], None, None))).weights == (3, 8)
