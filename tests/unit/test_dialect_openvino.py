"""Every operation of OpenVINO's opsets: what it is and what it costs, against numbers worked out by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from case_tables import with_each
from edgewise.model.cost import cost_of
from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.openvino import OPERATIONS, interpret, is_known
from edgewise.model.graph import Graph, Operator, Quantization, Tensor
from messages import says

X = (2, 3)


class C(tuple):
    """The shape of a constant of real numbers."""


class V(tuple):
    """The elements of a small constant of integers."""


def tensor(name, given):
    if given is None:
        return None
    if isinstance(given, Tensor):
        return given
    if isinstance(given, V):
        return Tensor(name=name, shape=(len(given),), dtype="int64", constant=True)
    return Tensor(name=name, shape=tuple(given), dtype="float32", constant=isinstance(given, C))


def ask(op, inputs, outputs, version=1, **attributes):
    known = {at: tuple(given) for at, given in enumerate(inputs) if isinstance(given, V)}
    return RawOperator(
        op=op,
        version=version,
        attributes=attributes,
        inputs=[tensor(f"i{at}", each) for at, each in enumerate(inputs)],
        outputs=[tensor(f"o{at}", each) for at, each in enumerate(outputs)],
        values=known.get,
    )


def cost(op, inputs, outputs, version=1, **attributes):
    """(MACs, ops) of an operator and its semantics."""
    raw = ask(op, inputs, outputs, version, **attributes)
    semantics = interpret(raw)
    there = [each for each in (*raw.inputs, *raw.outputs) if each is not None]
    operator = Operator(
        index=0,
        name="op",
        op=op,
        kind=semantics.kind,
        inputs=tuple(each.name if each else "" for each in raw.inputs),
        outputs=tuple(each.name if each else "" for each in raw.outputs),
        geometry=semantics.geometry,
        unknown_because=semantics.why,
    )
    graph = Graph(
        name="",
        format="openvino",
        tensors={each.name: each for each in there},
        operators=(operator,),
        inputs=(),
        outputs=(),
    )
    found = cost_of(operator, graph)
    return (found.macs, found.ops), semantics


MOVING = [
    "Assign", "BatchToSpace", "Broadcast", "Concat", "Constant", "DepthToSpace", "ExtractImagePatches", "Eye",
    "Gather", "GatherCompressed", "GatherElements", "GatherND", "GatherTree", "Identity", "OneHot", "Pad",
    "Parameter", "Range", "ReadValue", "ReorgYolo", "Reshape", "Result", "Reverse", "ReverseSequence", "Roll",
    "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "Select", "ShapeOf", "ShuffleChannels", "Slice",
    "SliceScatter", "SpaceToBatch", "SpaceToDepth", "SparseFillEmptyRows", "Split", "Squeeze", "StridedSlice",
    "StringTensorPack", "StringTensorUnpack", "Tile", "Transpose", "Unsqueeze", "VariadicSplit",
]  # fmt: skip
ONCE = [
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd", "BitwiseLeftShift", "BitwiseNot",
    "BitwiseOr", "BitwiseRightShift", "BitwiseXor", "Ceiling", "Convert", "ConvertLike", "Cos", "Cosh", "CumSum",
    "Divide", "Equal", "ErfInv", "ExperimentalDetectronPriorGridGenerator", "Floor", "FloorMod", "Greater",
    "GreaterEqual", "IsFinite", "IsInf", "IsNaN", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr",
    "LogicalXor", "Maximum", "Minimum", "Mod", "Multiply", "Negative", "NotEqual", "Power", "Round", "Sinh",
    "Subtract", "Tan", "Xor",
]  # fmt: skip
SORTING = [
    "DetectionOutput", "ExperimentalDetectronDetectionOutput", "ExperimentalDetectronGenerateProposalsSingleImage",
    "ExperimentalDetectronTopKROIs", "GenerateProposals", "GenerateProposalsIEInternal", "MatrixNms",
    "MulticlassNms", "MulticlassNmsIEInternal", "NMSRotated", "NmsStaticShapeIEInternal", "NonMaxSuppression",
    "NonMaxSuppressionIEInternal", "Proposal", "TopK", "Unique",
]  # fmt: skip
UNKNOWN = [
    "BGRtoNV12", "CTCLoss", "RGBtoNV12",
]  # fmt: skip
RANDOM = ["Multinomial", "RandomUniform"]
RARE = [
    "Bucketize", "ConvertPromoteTypes", "DFT", "DeformablePSROIPooling", "ExperimentalDetectronROIFeatureExtractor",
    "IDFT", "IRDFT", "ISTFT", "PSROIPooling", "RDFT", "ROIAlign", "ROIAlignRotated", "ROIPooling", "RegionYolo", "STFT",
    "SearchSorted",
]  # fmt: skip
RARE_PRODUCTS = [
    "EmbeddingBagOffsets", "EmbeddingBagOffsetsSum", "EmbeddingBagPacked", "EmbeddingBagPackedSum",
    "EmbeddingSegmentsSum", "Inverse",
]  # fmt: skip
BODIES = {"If": "branch", "Loop": "loop", "TensorIterator": "loop"}

IMAGE, NORM = (1, 3, 8, 8), (2, 3, 4, 4)
RNN = [(2, 3), (2, 4), C((4, 3)), C((4, 4)), C((4,))]
GRU = [(2, 3), (2, 4), C((12, 3)), C((12, 4)), C((12,))]
LSTM = [(2, 3), (2, 4), (2, 4), C((16, 3)), C((16, 4)), C((16,))]
RNNS = [(2, 5, 3), (2, 2, 4), (2,), C((2, 4, 3)), C((2, 4, 4)), C((2, 4))]
GRUS = [(2, 5, 3), (2, 2, 4), (2,), C((2, 12, 3)), C((2, 12, 4)), C((2, 12))]
LSTMS = [(2, 5, 3), (2, 2, 4), (2, 2, 4), (2,), C((2, 16, 3)), C((2, 16, 4)), C((2, 16))]
AUGRUS = [(2, 5, 3), (2, 1, 4), (2,), C((1, 12, 3)), C((1, 12, 4)), C((1, 12)), (2, 5, 1)]

# operation, inputs, outputs, options, MACs, ops, weights
CASES = [
    ("Clamp", [X], [X], {}, 0, 12, ()),
    ("Elu", [X], [X], {}, 0, 24, ()),
    ("Erf", [X], [X], {}, 0, 6, ()),
    ("Exp", [X], [X], {}, 0, 6, ()),
    ("HSigmoid", [X], [X], {}, 0, 24, ()),
    ("HSwish", [X], [X], {}, 0, 30, ()),
    ("HardSigmoid", [X, C(()), C(())], [X], {}, 0, 24, ()),
    ("Log", [X], [X], {}, 0, 6, ()),
    ("Mish", [X], [X], {}, 0, 54, ()),
    ("Relu", [X], [X], {}, 0, 6, ()),
    ("Selu", [X, C((1,)), C((1,))], [X], {}, 0, 30, ()),
    ("Sigmoid", [X], [X], {}, 0, 24, ()),
    ("Sign", [X], [X], {}, 0, 6, ()),
    ("Sin", [X], [X], {}, 0, 6, ()),
    ("SoftPlus", [X], [X], {}, 0, 18, ()),
    ("SoftSign", [X], [X], {}, 0, 18, ()),
    ("Sqrt", [X], [X], {}, 0, 6, ()),
    ("Tanh", [X], [X], {}, 0, 30, ()),
    ("Gelu", [X], [X], {"approximation_mode": "ERF"}, 0, 30, ()),
    ("Gelu", [X], [X], {"approximation_mode": "TANH"}, 0, 78, ()),
    ("PRelu", [X, C((3,))], [X], {}, 0, 12, (1,)),
    ("Swish", [X], [X], {}, 0, 30, ()),
    ("Swish", [X, V((1,))], [X], {}, 0, 30, ()),
    ("Swish", [X, V((2,))], [X], {}, 0, 36, ()),
    ("Swish", [X, ()], [X], {}, 0, 36, ()),
    ("SquaredDifference", [X, X], [X], {}, 0, 12, ()),
    # 4 × 6 × 6 outputs of 3 × 3 × 3 products
    ("Convolution", [IMAGE, C((4, 3, 3, 3))], [(1, 4, 6, 6)], {}, 3888, 7776, (1,)),
    ("BinaryConvolution", [IMAGE, C((4, 3, 3, 3))], [(1, 4, 6, 6)], {}, 3888, 7776, (1,)),
    # 8 × 6 × 6 outputs of 3 × 3 products
    ("GroupConvolution", [(1, 4, 8, 8), C((4, 2, 1, 3, 3))], [(1, 8, 6, 6)], {}, 2592, 5184, (1,)),
    # 3 × 4 × 4 inputs, each into 2 × 2 × 2 outputs
    ("ConvolutionBackpropData", [(1, 3, 4, 4), C((3, 2, 2, 2))], [(1, 2, 8, 8)], {}, 384, 768, (1,)),
    ("GroupConvolutionBackpropData", [(1, 4, 4, 4), C((2, 2, 3, 2, 2))], [(1, 6, 8, 8)], {}, 768, 1536, (1,)),
    # 36 outputs of 18 products; 2 channels × 9 taps × 9 places, each interpolated from four
    ("MatMul", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)], {}, 120, 240, (0, 1)),
    ("MatMul", [(4, 3), C((5, 4))], [(3, 5)], {"transpose_a": True, "transpose_b": True}, 60, 120, (0, 1)),
    ("MatMul", [(None, None), C((5, 4))], [(3, 5)], {"transpose_b": True}, 60, 120, (0, 1)),
    ("MatMul", [(None, None), C((4, 5))], [(3, 5)], {}, 60, 120, (0, 1)),
    ("MatMul", [(4,), (4, 5)], [(5,)], {"transpose_a": True}, 20, 40, (0, 1)),
    ("GroupedMatMul", [(2, 3, 4), (2, 5, 4)], [(2, 3, 5)], {}, 120, 240, (1,)),
    ("FullyConnected", [(2, 4), C((5, 4))], [(2, 5)], {}, 40, 80, (1,)),
    ("FullyConnectedCompressed", [(2, 4), C((5, 4))], [(2, 5)], {}, 40, 80, (1,)),
    # 2 heads × 3 queries × 5 keys, (4 + 6) products and 6 ops each
    ("ScaledDotProductAttention", [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)], [(1, 2, 3, 6)], {}, 300, 780, ()),
    ("ScaledDotProductAttention", [(3, 4), (5, 4), (5, 6)], [(3, 6)], {}, 150, 390, ()),
    ("Einsum", [X, (3, 4)], [(2, 4)], {"equation": "ij,jk->ik"}, 24, 48, (0, 1)),
    ("Einsum", [X, (3, 4)], [(2, 4)], {"equation": "ij,jk"}, 24, 48, (0, 1)),
    ("Einsum", [(7, 2, 3), (7, 3, 4)], [(7, 2, 4)], {"equation": "...ij,...jk->...ik"}, 168, 336, (0, 1)),
    ("Einsum", [(2,), (3,)], [X], {"equation": "i,j->ij"}, 0, 6, (0, 1)),
    ("Einsum", [X], [(2,)], {"equation": "ij->i"}, 0, 6, ()),
    ("Einsum", [X], [(3, 2)], {"equation": "ij->ji"}, 0, 0, ()),
    ("Einsum", [X, (3, 4), (4, 5)], [(2, 5)], {"equation": "ij,jk,kl->il"}, None, None, ()),
    # 2 rows × gates × 4 units × (3 + 4) products; per unit one bias a gate and 6, 21 or 30 ops
    ("RNNCell", RNN, [(2, 4)], {}, 56, 168, (2, 3, 4)),
    ("RNNCell", RNN, [(2, 4)], {"activations": "relu"}, 56, 136, (2, 3, 4)),
    ("GRUCell", GRU, [(2, 4)], {"activations": "sigmoid, tanh", "clip": 0}, 168, 528, (2, 3, 4)),
    ("GRUCell", GRU, [(2, 4)], {"linear_before_reset": True}, 168, 536, (2, 3, 4)),
    ("GRUCell", GRU, [(2, 4)], {"clip": 1.5}, 168, 576, (2, 3, 4)),
    ("GRUCell", GRU, [(2, 4)], {"activations": "sigmoid, wavy"}, None, None, (2, 3, 4)),
    ("LSTMCell", LSTM, [(2, 4), (2, 4)], {"version": 4}, 224, 720, (3, 4, 5)),
    ("LSTMCell", [*LSTM, C((12,))], [(2, 4), (2, 4)], {}, 224, 768, (3, 4, 5, 6)),
    ("AUGRUCell", [*GRU, (2, 1)], [(2, 4)], {}, 168, 544, (2, 3, 4)),
    # as many times as there are steps (5) and directions (2 or 1)
    ("RNNSequence", RNNS, [(2, 2, 5, 4), (2, 2, 4)], {"version": 5}, 560, 1680, (3, 4, 5)),
    ("GRUSequence", GRUS, [(2, 2, 5, 4), (2, 2, 4)], {"version": 5}, 1680, 5280, (3, 4, 5)),
    ("LSTMSequence", LSTMS, [(2, 2, 5, 4), (2, 2, 4)], {"version": 5}, 2240, 7200, (4, 5, 6)),
    ("AUGRUSequence", AUGRUS, [(2, 1, 5, 4), (2, 1, 4)], {}, 840, 2720, (3, 4, 5)),
    ("AvgPool", [(1, 3, 4, 4)], [(1, 3, 2, 2)], {"kernel": (2, 2)}, 0, 60, ()),
    ("AvgPool", [(1, 3, 4)], [(1, 3, 2)], {"kernel": 2}, 0, 18, ()),
    ("MaxPool", [(1, 3, 4, 4)], [(1, 3, 2, 2)], {"kernel": (2, 2)}, 0, 48, ()),
    ("AdaptiveAvgPool", [(1, 2, 4, 4), V((2, 2))], [(1, 2, 2, 2)], {}, 0, 40, ()),
    # windows of 2, 3 and 2 elements, three divisions
    ("AdaptiveAvgPool", [(1, 1, 5), V((3,))], [(1, 1, 3)], {}, 0, 10, ()),
    ("AdaptiveMaxPool", [(1, 2, 4, 4), V((2, 2))], [(1, 2, 2, 2), (1, 2, 2, 2)], {}, 0, 32, ()),
    ("Interpolate", [(1, 1, 2, 2), V((4, 4))], [(1, 1, 4, 4)], {"mode": "nearest"}, 0, 0, ()),
    ("Interpolate", [(1, 1, 2, 2), V((4, 4)), V((2, 3))], [(1, 1, 4, 4)], {"mode": "linear_onnx", "version": 11}, 0, 112, ()),
    ("Interpolate", [(1, 1, 2, 2), V((4, 4)), C((2,)), V((2, 3))], [(1, 1, 2, 4)], {"mode": "linear", "version": 4}, 0, 24,
     ()),
    ("Interpolate", [(1, 1, 2, 2), V((4, 4))], [(1, 1, 4, 4)], {"mode": "cubic", "axes": (2, 3)}, 0, 496, ()),
    ("Interpolate", [(1, 1, 2, 2)], [(1, 1, 4, 4)], {"mode": "bicubic_pillow", "version": 11}, 0, 496, ()),
    ("Interpolate", [(1, 1, 4, 4)], [(1, 1, 2, 2)], {"mode": "bilinear_pillow", "version": 11}, None, None, ()),
    ("Interpolate", [(1, 1, 4, 4)], [(1, 1, 2, 2)], {"mode": "area"}, 0, 20, ()),
    ("GridSample", [(1, 2, 4, 4), (1, 3, 3, 2)], [(1, 2, 3, 3)], {"mode": "bilinear"}, 0, 126, ()),
    ("GridSample", [(1, 2, 4, 4), (1, 3, 3, 2)], [(1, 2, 3, 3)], {"mode": "bicubic"}, 0, 558, ()),
    ("GridSample", [(1, 2, 4, 4), (1, 3, 3, 2)], [(1, 2, 3, 3)], {"mode": "nearest"}, 0, 0, ()),
    ("BatchNormInference", [NORM, *[C((3,))] * 4], [NORM], {"version": 5}, 0, 192, (1, 2, 3, 4)),
    ("BatchNormInference", [C((3,)), C((3,)), NORM, C((3,)), C((3,))], [NORM], {}, 0, 192, (0, 1, 3, 4)),
    ("MVN", [NORM, V((2, 3))], [NORM], {"normalize_variance": True}, 0, 576, ()),
    ("MVN", [NORM, V((2, 3))], [NORM], {"normalize_variance": False}, 0, 192, ()),
    ("GroupNormalization", [NORM, C((3,)), C((3,))], [NORM], {}, 0, 768, (1, 2)),
    ("GRN", [NORM], [NORM], {}, 0, 288, ()),
    ("NormalizeL2", [NORM, V((1,))], [NORM], {}, 0, 288, ()),
    ("LRN", [NORM, V((1,))], [NORM], {"size": 5}, 0, 864, ()),
    ("RMS", [NORM, C((4,))], [NORM], {}, 0, 384, (1,)),
    ("RoPE", [X], [X], {}, 0, 18, ()),
    ("Softmax", [X], [X], {"axis": 1}, 0, 30, ()),
    ("LogSoftmax", [X], [X], {"axis": 1}, 0, 36, ()),
    ("ReduceSum", [X, V((1,))], [(2,)], {}, 0, 6, ()),
    ("ReduceMean", [X, V((1,))], [(2,)], {}, 0, 8, ()),
    ("ReduceMax", [X, V((1,))], [(2,)], {}, 0, 6, ()),
    ("ReduceMin", [X, V((1,))], [(2,)], {}, 0, 6, ()),
    ("ReduceProd", [X, V((1,))], [(2,)], {}, 0, 6, ()),
    ("ReduceL1", [X, V((1,))], [(2,)], {}, 0, 12, ()),
    ("ReduceL2", [X, V((1,))], [(2,)], {}, 0, 14, ()),
    ("ReduceLogicalAnd", [X, V((1,))], [(2,)], {}, 0, 6, ()),
    ("ReduceLogicalOr", [X, V((1,))], [(2,)], {}, 0, 6, ()),
    ("CTCGreedyDecoder", [(2, 3, 4), (2, 3)], [(3, 2, 1, 1)], {}, 0, 24, ()),
    ("CTCGreedyDecoderSeqLen", [(3, 2, 4), (3,)], [(3, 2), (3,)], {}, 0, 24, ()),
    ("Col2Im", [(1, 4, 9), V((4, 4)), V((2, 2))], [(1, 1, 4, 4)], {}, 0, 36, ()),
    ("SegmentMax", [X, (2,)], [(None, 3)], {}, 0, 6, ()),
    ("NonZero", [X], [(2, None)], {}, 0, 6, ()),
    ("FakeQuantize", [X, *[C(())] * 4], [X], {"levels": 256}, 0, 36, ()),
    ("FakeQuantize", [C(X), *[C((2, 1))] * 4], [X], {"levels": 256}, 0, 36, (0,)),
    ("FakeConvert", [X, C(())], [X], {}, 0, 24, ()),
    ("FakeConvert", [X, C(()), C(())], [X], {}, 0, 36, ()),
    # seven bounds are three comparisons
    ("PriorBox", [V((1, 1)), V((9, 9))], [(2, 8)], {"clip": False}, 0, 16, ()),
    ("PriorBox", [V((1, 1)), V((9, 9))], [(2, 8)], {"clip": True}, 0, 32, ()),
    ("PriorBoxClustered", [V((1, 1)), V((9, 9))], [(2, 8)], {}, 0, 16, ()),
    ("ScatterElementsUpdate", [(9,), (6,), X], [(9,)], {"reduction": "sum"}, 0, 6, ()),
    ("ScatterNDUpdate", [(9,), (6, 1), X], [(9,)], {"reduction": "max"}, 0, 6, ()),
    ("I420toBGR", [(1, 3, 2, 1)], [(1, 2, 2, 3)], {}, 0, 72, ()),
    ("I420toRGB", [(1, 3, 2, 1)], [(1, 2, 2, 3)], {}, 0, 72, ()),
    ("NV12toBGR", [(1, 3, 2, 1)], [(1, 2, 2, 3)], {}, 0, 72, ()),
    ("NV12toRGB", [(1, 3, 2, 1)], [(1, 2, 2, 3)], {}, 0, 72, ()),
]  # fmt: skip


@with_each(CASES)
def test_costs(case):
    op, inputs, outputs, options, macs, ops, weights = case
    found, semantics = cost(op, inputs, outputs, **options)
    assert found == (macs, ops)
    assert semantics.weights == weights


@with_each(MOVING)
def test_moving_values_is_no_operation(op):
    found, semantics = cost(op, [X, X, X], [X])
    assert (found, semantics.kind, semantics.weights) == ((0, 0), "movement", ())


@with_each(ONCE)
def test_one_operation_per_element(op):
    assert cost(op, [(3,), X], [X])[0] == (0, 6)


@with_each(SORTING)
def test_choosing_by_value_depends_on_data(op):
    found, semantics = cost(op, [X], [X])
    assert (found, semantics.kind) == ((0, None), "sorting")


@with_each(UNKNOWN)
def test_what_has_no_formula_says_why(op):
    found, semantics = cost(op, [X], [X])
    assert (found, semantics.kind) == ((None, None), "")
    assert semantics.why


@pytest.mark.parametrize("op", RANDOM)
def test_random_numbers_take_no_macs(op):
    found, semantics = cost(op, [X], [X])
    assert found == (0, None) and "generator" in semantics.why


@pytest.mark.parametrize(("op", "macs"), [*((op, 0) for op in RARE), *((op, None) for op in RARE_PRODUCTS)])
def test_operations_of_rare_operators_are_not_counted(op, macs):
    found, semantics = cost(op, [X], [X])
    assert found == (macs, None)
    assert re.search(says("edgewise-does-not-count-operations"), semantics.why)


def test_a_deformable_convolution_has_products_and_no_count_of_its_samples():
    found, semantics = cost("DeformableConvolution", [(1, 2, 5, 5), (1, 18, 3, 3), C((4, 2, 3, 3))], [(1, 4, 3, 3)])
    assert (found, semantics.weights) == ((648, None), (2,))


@pytest.mark.parametrize(("op", "kind"), BODIES.items())
def test_bodies(op, kind):
    assert interpret(ask(op, [X], [X])).kind == kind


def test_every_operation_has_a_case():
    assert {case[0] for case in CASES} | {
        *MOVING,
        *ONCE,
        *SORTING,
        *UNKNOWN,
        *RANDOM,
        *RARE,
        *RARE_PRODUCTS,
        *BODIES,
        "DeformableConvolution",
    } == set(OPERATIONS)


@pytest.mark.engine
def test_every_operation_of_every_opset_is_known():
    openvino = pytest.importorskip("openvino")
    tables = sorted((Path(openvino.__file__).parent / "include/openvino/opsets").glob("opset*_tbl.hpp"))
    if not tables:
        pytest.skip("this openvino comes without its C++ headers, which list its operations")
    operations = {
        name
        for table in tables
        for name in re.findall(r"^_OPENVINO_OP_REG\((\w+), ov", table.read_text(), re.MULTILINE)
    }
    assert len(operations) > 190
    assert operations - set(OPERATIONS) == set()


@pytest.mark.parametrize(("spelled", "kind"), [("ReLU", "activation"), ("SoftMax", "softmax"), ("PReLU", "activation"), ("Const", "movement")])  # fmt: skip
def test_names_as_files_spell_them(spelled, kind):
    assert is_known(spelled)
    assert interpret(ask(spelled, [X, X], [X])).kind == kind


def test_an_operation_of_nobodys_is_unknown():
    assert not is_known("Frobnicate")
    found, semantics = cost("Frobnicate", [X], [X])
    assert (found, semantics.kind) == ((None, None), "")


def test_depthwise():
    def is_depthwise(filters):
        return interpret(ask("GroupConvolution", [(1, 4, 8, 8), C(filters)], [(1, 4, 6, 6)])).geometry["depthwise"]

    assert is_depthwise((4, 1, 1, 3, 3))
    assert is_depthwise((4, 2, 1, 3, 3))
    assert not is_depthwise((2, 2, 2, 3, 3))
    assert not is_depthwise((1, 4, 1, 3, 3))  # one group of one channel is an ordinary convolution


@pytest.mark.parametrize(
    ("given", "weights"),
    [
        (C((3,)), (1,)),
        (C((1, 1, 1, 1)), (1,)),  # the bias of a single channel
        (C(()), ()),
        (C((1,)), ()),
        (V((1, 2, 3)), ()),
        (Tensor(name="i1", shape=(3,), dtype="int8", constant=True), ()),
        (Tensor(name="i1", shape=(3,), dtype="int8", constant=True, quantization=Quantization(scale=0.5)), (1,)),
        ((3,), ()),
    ],
)
def test_which_constants_of_arithmetic_are_parameters(given, weights):
    assert interpret(ask("Add", [X, given], [X])).weights == weights


def test_tables_and_stored_weights_are_parameters():
    assert interpret(ask("Gather", [C((10, 4)), X, V((0,))], [(2, 3, 4)])).weights == (0,)
    assert interpret(ask("Gather", [V((1, 2, 3)), X, V((0,))], [X])).weights == ()
    assert interpret(ask("ReadValue", [C(X)], [X])).weights == ()
    int8 = Tensor(name="i0", shape=X, dtype="int8", constant=True)
    assert interpret(ask("Convert", [int8], [X])).weights == (0,)
    assert interpret(ask("Convert", [V((1, 2))], [(2,)])).weights == ()


@with_each(sorted(OPERATIONS))
def test_nothing_known_is_no_crash_and_no_number(op):
    """Shapes of unknown rank, no inputs, absurd options: an answer, and never a cost out of the air."""
    free = {*MOVING}  # nothing to do whatever the shapes
    unknown, out = (Tensor(name=name, shape=None, dtype="float32") for name in ("i0", "o0"))
    absurd = dict.fromkeys(("kernel", "axes", "mode", "size", "equation", "mask", "clip", "num"), "9,x")
    for inputs in ([], [unknown], [unknown] * 8, [(0,)] * 8, [(None,) * 5] * 8):
        for options in ({}, absurd):
            found, semantics = cost(op, inputs, [out], **options)
            if op not in free and inputs[:1] != [(0,)] and semantics.kind != "movement":
                assert found[1] is None
