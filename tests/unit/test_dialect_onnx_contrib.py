"""ONNX: onnxruntime's own operators and those of classical machine learning, each computed by hand."""

from __future__ import annotations

import pytest

from case_tables import with_each
from edgewise.model.dialects import onnx, onnx_contrib
from onnx_cases import Case, ask, check, cost_of_question, ints, truths

X = (2, 3, 4)  # 24 elements
IMAGE, ROWS, LAST = (1, 3, 8, 8), (1, 5, 6, 6), (1, 8, 8, 3)


def ours(op, inputs, outputs, macs, ops, **more):
    return Case(op, inputs, outputs, macs, ops, domain="com.microsoft", **more)


def quantised(*shape):
    """A tensor with its scale and zero point."""
    return [("uint8", shape), (), ("uint8", ())]


RELU = {"activation": "Relu"}

CONVOLUTIONS = [
    # 180 outputs of 27 products each.
    ours("FusedConv", [IMAGE, (5, 3, 3, 3), (5,)], [ROWS], 4860, 9720 + 180 + 180, options=RELU, kind="convolution",
         parameters=140),
    ours("FusedConv", [IMAGE, (5, 3, 3, 3), (5,), ROWS], [ROWS], 4860, 9720 + 180 + 180 + 180, options=RELU),
    ours("FusedConv", [IMAGE, (5, 3, 3, 3)], [ROWS], 4860, 9720 + 180 * 2, options={"activation": "Clip"}),
    ours("FusedConv", [IMAGE, (5, 3, 3, 3)], [ROWS], None, None, options={"activation": "Odd"}, why="'Odd'"),
    ours("FusedConv", [IMAGE, (5, 3, 3, 3), (5,), ROWS], [ROWS], None, None, options={"activation": "Odd"}, why="'Odd'"),
    ours("NhwcConv", [LAST, (5, 3, 3, 3), (5,)], [(1, 6, 6, 5)], 4860, 9720 + 180),
    ours("NhwcFusedConv", [LAST, (5, 3, 3, 3), (5,)], [(1, 6, 6, 5)], 4860, 9720 + 360, options=RELU),
    ours("QLinearConv", [*quantised(*LAST), *quantised(5, 3, 3, 3), (), ("uint8", ()), ("int32", (5,))],
         [("uint8", (1, 6, 6, 5))], 4860, 9720 + 180, options={"channels_last": 1}, parameters=140),
    ours("ConvTransposeWithDynamicPads", [(1, 3, 4, 4), (3, 2, 3, 3), ints(4), (2,)], [(1, 2, 6, 6)], 864, 1728 + 72,
         parameters=56),
    ours("CausalConvWithState", [(2, 6, 5), (6, 1, 4)], [(2, 6, 5)], 240, 480),
]  # fmt: skip

PRODUCTS = [
    ours("FusedMatMul", [(2, 3), (3, 5)], [(2, 5)], 30, 60, kind="matrix-multiplication", parameters=15),
    ours("FusedMatMul", [(2, 3), (5, 3)], [(2, 5)], 30, 60 + 10, options={"alpha": 0.125, "transB": 1}),
    ours("FusedMatMul", [(4, 3, 2), (4, 3, 5)], [(4, 2, 5)], 120, 240, options={"transA": 1}),
    # [M, batch, K] and [K, batch, M], whose batch lies inside.
    ours("FusedMatMul", [(2, 4, 3), (4, 3, 5)], [(4, 2, 5)], None, None, why="rare", options={"transBatchA": 1}),
    ours("BiasDropout", [X, (4,)], [X], 0, None, why="rare", parameters=4),
    ours("FusedMatMulActivation", [(2, 3), (3, 5)], [(2, 5)], 30, 60 + 10, options=RELU),
    ours("TransposeMatMul", [(3, 2), (3, 5)], [(2, 5)], 30, 60, options={"transA": 1}),
    ours("FusedGemm", [(2, 3), (3, 5), (5,)], [(2, 5)], 30, 60 + 10 + 10 * 4, options={"activation": "Sigmoid"}, parameters=20),
    ours("GemmFloat8", [(2, 3), (5, 3), (5,)], [(2, 5)], 30, 60 + 10, options={"transB": 1}),
    ours("GemmFastGelu", [(2, 3), (3, 5), (5,)], [(2, 5)], 30, 60 + 10 + 10 * 13, parameters=20),
    ours("QGemm", [*quantised(2, 3), *quantised(3, 5), ("int32", (5,)), (), ("uint8", ())], [("uint8", (2, 5))], 30, 60 + 10,
         parameters=20),
    ours("MatMulInteger16", [("int16", (2, 3)), ("int16", (3, 5))], [("int32", (2, 5))], 30, 60),
    ours("MatMulIntegerToFloat", [("uint8", (2, 3)), ("int8", (3, 5)), (), (), None, None, (5,)], [(2, 5)], 30, 60 + 10,
         parameters=20),
    ours("DynamicQuantizeMatMul", [(2, 3), ("int8", (3, 5)), (), ("int8", ()), (5,)], [(2, 5)], 30, 60 + 10, parameters=20),
    # 64 × 32 weights of four bits, two a byte.
    ours("MatMulNBits", [(2, 64), ("uint8", (32, 2, 16)), (64,)], [(2, 32)], 4096, 8192, options={"K": 64, "N": 32}),
    ours("MatMulNBits", [(2, 64), ("uint8", (32, 2, 16)), (64,), None, None, (32,)], [(2, 32)], 4096, 8192 + 64,
         options={"K": 64, "N": 32}),
    ours("MatMulNBits", [(2, 64), ("uint8", (32, 2, 16)), (64,)], [(2, 32)], None, None, kind="", why="has no equation"),
    ours("MatMulBnb4", [(2, 64), ("uint8", (1024,)), (32,)], [(2, 32)], 4096, 8192, options={"K": 64, "N": 32}),
    ours("MatMulFpQ4", [(2, 64), ("uint8", (1280,)), ints(2)], [(2, 32)], 4096, 8192),
]  # fmt: skip

QUANTISED = [
    ours("QLinearAdd", [*quantised(*X), *quantised(*X), (), ("uint8", ())], [("uint8", X)], 0, 24, parameters=24),
    ours("QLinearMul", [*quantised(*X), *quantised(4), (), ("uint8", ())], [("uint8", X)], 0, 24, parameters=4),
    ours("QLinearWhere", [truths(*X), *quantised(*X), *quantised(*X), (), ("uint8", ())], [("uint8", X)], 0, 24, parameters=48),
    ours("MulInteger", [("uint8", X), ("uint8", ()), ("uint8", X), ("uint8", ())], [("int32", X)], 0, 24, parameters=24),
    ours("QLinearSigmoid", [*quantised(*X), (), ("uint8", ())], [("uint8", X)], 0, 24 * 4),
    ours("QLinearLeakyRelu", [*quantised(*X), (), ("uint8", ())], [("uint8", X)], 0, 24 * 2),
    ours("QLinearSoftmax", [*quantised(*X), (), ("uint8", ())], [("uint8", X)], 0, 24 * 5),
    ours("QLinearReduceMean", [*quantised(*X), (), ("uint8", ())], [("uint8", (2, 1, 4))], 0, 24 + 8),
    ours("ReduceSumInteger", [("uint8", X)], [("int32", (2, 1, 4))], 0, 24),
    ours("QLinearAveragePool", [*quantised(1, 3, 4, 4), (), ("uint8", ())], [("uint8", (1, 3, 2, 2))], 0, 12 * (4 + 1),
         options={"kernel_shape": (2, 2)}),
    ours("QLinearGlobalAveragePool", [*quantised(1, 3, 4, 5), (), ("uint8", ())], [("uint8", (1, 3, 1, 1))], 0, 3 * 21),
    ours("QLinearGlobalAveragePool", [*quantised(1, 4, 5, 3), (), ("uint8", ())], [("uint8", (1, 1, 1, 3))], 0, 3 * 21,
         options={"channels_last": 1}),
    ours("QLinearConcat", [(), ("uint8", ()), *quantised(*X), *quantised(*X)], [("uint8", (4, 3, 4))], 0, 0, parameters=48),
    ours("QuantizeLinear", [X, (), ("uint8", ())], [("uint8", X)], 0, 24 * 4),
    ours("DequantizeLinear", [("uint8", X), (), ("uint8", ())], [X], 0, 24 * 2),
    ours("GatherBlockQuantized", [("uint4", (10, 32)), ints(2), (10, 2)], [(2, 32)], 0, 64 * 2, parameters=320,
         constant=(0, 1, 2)),
]  # fmt: skip

ELEMENTWISE = [
    ours("Gelu", [X], [X], 0, 24 * 5),
    ours("FastGelu", [X], [X], 0, 24 * 13),
    ours("FastGelu", [X, (4,)], [X], 0, 24 * 14, parameters=4),
    ours("BiasGelu", [X, (4,)], [X], 0, 24 * 6, parameters=4),
    ours("QuickGelu", [X], [X], 0, 24 * 6),
    ours("QuickGelu", [X], [X], 0, 24 * 5, options={"alpha": 1.0}),
    # Two sums, GELU, a product: 3 + 5 for each of twelve.
    ours("BiasSplitGelu", [X, (4,)], [(2, 3, 2)], 0, 12 * 8, parameters=4),
    ours("BiasAdd", [X, (4,), X], [X], 0, 24 * 2, constant=(1,), parameters=4),
    ours("BiasSoftmax", [X, (4,)], [X], 0, 24 * 6),
    ours("BiasSoftmax", [X, (4,)], [("n", 3, 4)], None, None, why="open"),
    ours("SkipLayerNormalization", [X, X, (4,), (4,)], [X], 0, 24 * 9, constant=(2, 3), parameters=8),
    ours("SkipLayerNormalization", [X, X, (4,), None, (4,)], [X], 0, 24 * 9, constant=(2, 4), parameters=8),
    # A table of positions that onnxruntime's optimiser fuses: the second sum, or the first.
    ours("SkipLayerNormalization", [X, (3, 4), (4,), (4,)], [X], 0, 24 * 9, constant=(1, 2, 3), parameters=12 + 8),
    ours("SkipSimplifiedLayerNormalization", [(3, 4), X, (4,)], [X], 0, 24 * 5, constant=(0, 2), parameters=12 + 4),
    ours("SkipSimplifiedLayerNormalization", [X, X, (4,)], [X], 0, 24 * 5, constant=(2,), parameters=4),
    ours("SkipSimplifiedLayerNormalization", [X, X, (4,), (4,)], [X], 0, 24 * 6, constant=(2, 3), parameters=8),
    ours("SimplifiedLayerNormalization", [X, (4,)], [X], 0, 24 * 4, parameters=4),
    ours("EmbedLayerNormalization", [ints(2, 3), ints(2, 3), (9, 4), (8, 4), (2, 4), (4,), (4,)], [X], 0, 24 * 10,
         parameters=36 + 32 + 8 + 4 + 4),
    ours("EmbedLayerNormalization", [ints(2, 3), None, (9, 4), (8, 4), None, (4,), (4,)], [X], 0, 24 * 9),
    ours("GroupNorm", [X, (4,), (4,)], [X], 0, 24 * 8, parameters=8),
    ours("GroupNorm", [X, (4,), (4,)], [X], 0, 24 * 13, options={"activation": 1}),
    ours("GroupNorm", [X, (4,), (4,)], [X], None, None, kind="", why="SiLU", options={"activation": 2}),
    ours("SkipGroupNorm", [X, (4,), (4,), X, (4,)], [X], 0, 24 * 10, constant=(1, 2, 4), parameters=12),
    ours("ComplexMul", [(6, 2), (6, 2)], [(6, 2)], 0, 36),  # six products of 4 + 2 operations
    ours("ComplexMulConj", [(6, 2), (6, 2)], [(6, 2)], 0, 36),
    # Subtract, square, add for each of 4 features; and the root.
    ours("CDist", [(3, 4), (5, 4)], [(3, 5)], 0, None, why="rare"),
]  # fmt: skip

# Two samples of 6 tokens with 12 features, 4 heads of 3: 288 scores, 288 × 6 = 1728 MACs, 6 × 288 = 1728 more ops.
TOKENS, WEIGHT, FOUR = (2, 6, 12), (12, 36), {"num_heads": 4}
# 12 tokens × 12 × 36 = 5184 MACs make queries, keys and values, 12 × 36 = 432 sums add their bias.

ATTENTION = [
    ours("Attention", [TOKENS, WEIGHT, (36,)], [TOKENS], 1728 + 5184, 2 * 6912 + 1728 + 432, options=FOUR, parameters=468),
    ours("Attention", [TOKENS, WEIGHT, None, ints(2, 6), None, (2, 4, 6, 6)], [TOKENS], 6912, 13824 + 1728 + 288, options=FOUR,
         parameters=432),
    # Values of 5: 288 × 8 = 2304 MACs; 12 × 12 × 44 = 6336.
    ours("Attention", [TOKENS, (12, 44)], [(2, 6, 20)], 2304 + 6336, 2 * 8640 + 1728,
         options={"num_heads": 4, "qkv_hidden_sizes": (12, 12, 20)}),
    # Two tokens of the past: 2 × 4 × 6 × 8 = 384 scores.
    ours("Attention", [TOKENS, WEIGHT, None, None, (2, 2, 4, 2, 3)], [TOKENS], 384 * 6 + 5184, 2 * 7488 + 6 * 384, options=FOUR),
    # Queries and keys are rotated: 12 tokens × 24 × 3.
    ours("Attention", [TOKENS, WEIGHT], [TOKENS], 6912, 13824 + 1728 + 864, options={"num_heads": 4, "do_rotary": 1}),
    ours("Attention", [TOKENS, WEIGHT, None, None, (2, 2, 4, 9, 3)], [TOKENS], None, None, why="keys",
         options={"num_heads": 4, "past_present_share_buffer": 1}),
    ours("Attention", [TOKENS, (12, 35)], [TOKENS], None, None, kind="", why="not divisible", options=FOUR),
    ours("QAttention", [("uint8", TOKENS), ("int8", WEIGHT), (36,), (), ()], [TOKENS], 6912, 13824 + 1728 + 432, options=FOUR,
         parameters=468),
    ours("MultiHeadAttention", [TOKENS, TOKENS, TOKENS], [TOKENS], 1728, 3456 + 1728, kind="attention", options=FOUR),
    # Bias on 12 tokens of queries, keys and values of 12 each; a sum per score.
    ours("MultiHeadAttention", [TOKENS, TOKENS, TOKENS, (36,)], [TOKENS], 1728, 5184 + 432, options=FOUR, parameters=None),
    ours("MultiHeadAttention", [TOKENS, TOKENS, TOKENS, None, None, (1, 4, 6, 6)], [TOKENS], 1728, 5184 + 288, options=FOUR),
    ours("MultiHeadAttention", [(2, 6, 4, 3, 3)], [TOKENS], 1728, 5184, kind="attention", options=FOUR),
    # 7 keys: 336 scores.
    ours("MultiHeadAttention", [TOKENS, (2, 7, 4, 2, 3)], [TOKENS], 2016, 4032 + 2016, options=FOUR),
    ours("MultiHeadAttention", [TOKENS, (2, 4, 7, 3), (2, 4, 7, 3), (36,)], [TOKENS], 2016, 6048 + 144, options=FOUR),
    # And 2 from the past: 2 × 4 × 6 × 9 = 432 scores.
    ours("MultiHeadAttention", [TOKENS, (2, 7, 12), (2, 7, 12), None, None, None, (2, 4, 2, 3), (2, 4, 2, 3)], [TOKENS],
         432 * 6, 2 * 2592 + 6 * 432, options=FOUR),
    ours("MultiHeadAttention",
         [TOKENS, (2, 7, 12), (2, 7, 12), None, None, None, (2, 4, 20, 3), (2, 4, 20, 3), ints(1)], [TOKENS],
         432 * 6, 2 * 2592 + 6 * 432, options=FOUR, values={8: (2,)}),
    ours("GroupQueryAttention", [TOKENS, (2, 6, 6), (2, 6, 6)], [TOKENS], 1728, 5184, kind="attention",
         options={"num_heads": 4, "kv_num_heads": 2}),
    # Packed, rotated: 12 tokens × (4 + 2) heads × 3 features × 3.
    ours("GroupQueryAttention", [(2, 6, 24), None, None], [TOKENS], 1728, 5184 + 648,
         options={"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}),
    # One more term for each of 2 × 6 × 4 softmaxes: exponential and sum.
    ours("GroupQueryAttention", [TOKENS, (2, 6, 6), (2, 6, 6)], [TOKENS], 1728, 5184 + 96,
         options={"num_heads": 4, "kv_num_heads": 2, "smooth_softmax": 1}),
    # In all 8 keys: 384 scores.
    ours("GroupQueryAttention", [TOKENS, (2, 6, 6), (2, 6, 6), (2, 2, 2, 3), (2, 2, 2, 3)], [TOKENS], 384 * 6, 4608 + 2304,
         options={"num_heads": 4, "kv_num_heads": 2}),
    ours("GroupQueryAttention", [TOKENS, (2, 6, 6), (2, 6, 6), None, None, ints(2), ints()], [TOKENS], 384 * 6, 4608 + 2304,
         options={"num_heads": 4, "kv_num_heads": 2}, values={6: (8,)}),
    ours("RotaryEmbedding", [(2, 6, 32), ints(2, 6), (6, 4), (6, 4)], [(2, 6, 32)], 0, 3 * 384),
]  # fmt: skip

OTHERS = [
    ours("NhwcMaxPool", [("int8", (1, 4, 4, 3))], [("int8", (1, 2, 2, 3))], 0, 12 * 4, options={"kernel_shape": (2, 2)}),
    ours("GridSample", [(1, 2, 4, 4), (1, 3, 5, 2)], [(1, 2, 3, 5)], 0, 30 * 7, options={"mode": "bilinear"}),
    ours("CropAndResize", [(1, 3, 8, 8), (2, 4), ints(2), ints(2)], [(2, 3, 4, 4)], 0, 96 * 7),
    ours("CropAndResize", [(1, 3, 8, 8), (2, 4), ints(2), ints(2)], [(2, 3, 4, 4)], 0, 0, options={"mode": "nearest"}),
    # Of order 3: 27 products and divisions, 27 − 18 + 3 sums.
    ours("Inverse", [(2, 3, 3)], [(2, 3, 3)], None, None, why="rare"),
    # 2.5 × 8 × 3; over both dimensions 2.5 × 32 × 5.
    ours("Rfft", [(4, 8)], [(4, 5, 2)], 0, None, why="rare"),
    ours("Irfft", [(4, 5, 2)], [(4, 8)], 0, None, why="rare"),
    ours("DynamicQuantizeLSTM", [(5, 2, 3), ("int8", (1, 3, 16)), ("int8", (1, 4, 16))], [(5, 1, 2, 4)],
         1120, 10 * (2 * 112 + 4 * 30), kind="recurrent", parameters=48 + 64),
    ours("LinearAttention", [(1, 6, 12), (1, 6, 6), (1, 6, 10)], [(1, 6, 20)], None, None, why="rare"),
    ours("ExpandDims", [X, ints()], [(1, *X)], 0, 0),
    ours("GatherND", [X, ints(2, 1)], [(2, 3, 4)], 0, 0),
    ours("TorchEmbedding", [(10, 4), ints(3)], [(3, 4)], 0, 0, parameters=40, constant=(0,)),
    ours("Trilu", [X], [X], 0, 0),
    ours("Pad", [X, ints(6)], [(4, 5, 6)], 0, 0),
    ours("UnfoldTensor", [(8,)], [(3, 4)], 0, 0),
    ours("RemovePadding", [X, ints(2)], [(5, 4)], 0, 0),
    ours("RestorePadding", [(5, 4), ints(2, 3)], [X], 0, 0),
    ours("Range", [(), (), ()], [(8,)], 0, 0),
    ours("Unique", [(8,)], [("n",), ints(8), ("n",)], 0, None, why="comparisons"),
    ours("BeamSearch", [ints(1, 8)], [ints(1, 4, 20)], None, None, why="until the text ends"),
    ours("GreedySearch", [ints(1, 8)], [ints(1, 20)], None, None, why="until the text ends"),
    ours("Sampling", [ints(1, 8)], [ints(1, 20)], None, None, why="until the text ends"),
    ours("WhisperBeamSearch", [X], [ints(1, 4, 20)], None, None, why="until the text ends"),
    ours("EPContext", [X], [X], None, None, why="compiled"),
    ours("Snpe", [X], [X], None, None, why="compiled"),
    ours("Tokenizer", [X], [X], 0, None, why="strings"),
]  # fmt: skip


def blocked(op, inputs, outputs, macs, ops, **more):
    return Case(op, inputs, outputs, macs, ops, domain="com.microsoft.nchwc", **more)


BLOCKED = [
    # Eight channels a block: 8 × 36 outputs, of 27 each, with a bias; then a sum and a ReLU.
    blocked(
        "Conv",
        [IMAGE, (8, 3, 3, 3), (8,)],
        [(1, 8, 6, 6)],
        288 * 27,
        2 * 7776 + 288,
        kind="convolution",
        parameters=224,
    ),
    blocked("Conv", [IMAGE, (8, 3, 3, 3), (8,), (1, 8, 6, 6)], [(1, 8, 6, 6)], 7776, 15552 + 3 * 288, options=RELU),
    blocked("MaxPool", [(1, 8, 4, 4)], [(1, 8, 2, 2)], 0, 32 * 4, options={"kernel_shape": (2, 2)}),
    blocked("AveragePool", [(1, 8, 4, 4)], [(1, 8, 2, 2)], 0, 32 * 5, options={"kernel_shape": (2, 2)}),
    blocked("GlobalMaxPool", [(1, 8, 4, 4)], [(1, 8, 1, 1)], 0, 8 * 16),
    blocked("GlobalAveragePool", [(1, 8, 4, 4)], [(1, 8, 1, 1)], 0, 8 * 17),
    blocked("Upsample", [(1, 8, 4, 4)], [(1, 8, 8, 8)], 0, 512 * 7, options={"mode": "linear", "scales": (1, 1, 2, 2)}),
    blocked("ReorderInput", [(1, 8, 4, 4)], [(1, 8, 4, 4)], 0, 0),
    blocked("ReorderOutput", [(1, 8, 4, 4)], [(1, 8, 4, 4)], 0, 0),
]


def classical(op, inputs, outputs, macs, ops, **more):
    return Case(op, inputs, outputs, macs, ops, domain="ai.onnx.ml", **more)


def linear(macs, ops, why="", **options):
    """A classifier of two rows of 6 features and 3 classes."""
    options = {"coefficients": (1.0,) * 18, **options}
    return classical("LinearClassifier", [(2, 6)], [ints(2), (2, 3)], macs, ops, why=why, options=options)


VECTORS = {"support_vectors": (1.0,) * 30, "coefficients": (1.0,) * 10}

CLASSICAL = [
    classical("ArrayFeatureExtractor", [(2, 6), ints(3)], [(2, 3)], 0, 0),
    classical("FeatureVectorizer", [(2, 3), (2, 4)], [(2, 7)], 0, 0),
    classical("Binarizer", [(2, 6)], [(2, 6)], 0, 12),
    classical("Imputer", [(2, 6)], [(2, 6)], 0, 12),
    classical("Scaler", [(2, 6)], [(2, 6)], 0, 24),
    classical("Normalizer", [(2, 6)], [(2, 6)], 0, 24),
    classical("Normalizer", [(2, 6)], [(2, 6)], 0, 36, options={"norm": "L2"}),
    classical("Normalizer", [(2, 6)], [(2, 6)], None, None, why="'L9'", options={"norm": "L9"}),
    classical("LinearRegressor", [(2, 6)], [(2, 3)], 36, 72),
    classical(
        "LinearRegressor",
        [(2, 6)],
        [(2, 3)],
        36,
        72 + 6 + 24,
        options={"intercepts": (1.0,) * 3, "post_transform": "LOGISTIC"},
    ),
    classical("LinearRegressor", [(2, 6)], [(2, 3)], None, None, why="'PROBIT'", options={"post_transform": "PROBIT"}),
    # 36 products, 6 intercepts, and per score one comparison and 5 operations of the softmax.
    linear(36, 72 + 6 + 6 * 6, intercepts=(0.0,) * 3, post_transform="SOFTMAX"),
    linear(36, 72 + 6 * 5, post_transform="LOGISTIC"),
    linear(36, None, why="'PROBIT'", post_transform="PROBIT"),
    linear(12, None, why="one score", coefficients=(1.0,) * 6),
    linear(None, None, why="not divisible", coefficients=(1.0,) * 7),
    linear(None, None, why="no coefficients", coefficients=()),
    classical(
        "LinearClassifier",
        [("n", 6)],
        [ints("n"), ("n", 3)],
        None,
        None,
        why="open",
        options={"coefficients": (1.0,) * 18},
    ),
    classical("TreeEnsemble", [(2, 6)], [(2, 1)], 0, None, why="tree"),
    classical("TreeEnsembleClassifier", [(2, 6)], [ints(2), (2, 3)], 0, None, why="tree"),
    classical("TreeEnsembleRegressor", [(2, 6)], [(2, 1)], 0, None, why="tree"),
    # Each of 2 rows: 6 features with each of 5 vectors, whose products 2 sums (of 3 classes) weight.
    classical("SVMClassifier", [(2, 6)], [ints(2), (2, 3)], 2 * (30 + 10), None, why="votes", options=VECTORS),
    classical("SVMRegressor", [(2, 6)], [(2, 1)], 2 * 6, None, why="votes", options={"coefficients": (1.0,) * 6}),
    classical("SVMRegressor", [("n", 6)], [("n", 1)], None, None, why="open", options={"coefficients": (1.0,) * 6}),
    classical("SVMRegressor", [(2, 6)], [(2, 1)], None, None, why="no coefficients"),
    classical("CategoryMapper", [(2,)], [ints(2)], 0, None, why="table"),
    classical("LabelEncoder", [(2,)], [ints(2)], 0, None, why="table"),
    classical("OneHotEncoder", [(2,)], [(2, 3)], 0, None, why="table"),
    classical("DictVectorizer", ["rank unknown"], [(2, 3)], 0, None, why="table"),
    classical("CastMap", ["rank unknown"], [(2, 3)], 0, None, why="maps"),
    classical("ZipMap", [(2, 3)], ["rank unknown"], 0, None, why="maps"),
]

OF_TRAINING = [
    Case(op, [X, X], [X], None, None, domain="ai.onnx.preview.training", why="training")
    for op in ("Adagrad", "Adam", "Gradient", "Momentum")
]
PREVIEW = [Case("FlexAttention", [X, X, X], [X], None, None, domain="ai.onnx.preview", why="its own subgraphs")]

MICROSOFT = [*CONVOLUTIONS, *PRODUCTS, *QUANTISED, *ELEMENTWISE, *ATTENTION, *OTHERS]


@with_each([*MICROSOFT, *BLOCKED, *CLASSICAL, *OF_TRAINING, *PREVIEW])
def test_cost(case):
    check(case)


@pytest.mark.parametrize(
    ("cases", "table"),
    [
        (MICROSOFT, onnx_contrib.MICROSOFT),
        (BLOCKED, onnx_contrib.BLOCKED),
        (CLASSICAL, onnx.CLASSICAL),
        (OF_TRAINING, onnx.TRAINING),
        (PREVIEW, onnx.PREVIEW),
    ],
)
def test_every_operator_of_the_tables_has_a_case(cases, table):
    assert {case.op for case in cases} == set(table)


def test_a_factor_is_no_bias():
    scaled = ours("FusedMatMul", [(2, 3), (3, 5)], [(2, 5)], 30, 70, options={"alpha": 0.5})
    semantics, _ = cost_of_question(ask(scaled))
    assert not semantics.geometry.get("bias")
