"""ONNX: element-wise arithmetic, reductions, movement and control flow, each operator computed by hand."""

from __future__ import annotations

from case_tables import with_each
from edgewise.model.dialects.onnx import interpret
from edgewise.model.dialects.onnx_arithmetic import TABLE
from onnx_cases import Case, ask, check, ints, truths

X = (2, 3)  # six elements


def binary(op, each=1, **more):
    return Case(op, [X, X], [X], 0, 6 * each, parameters=6, **more)


def unary(op, each=1, **more):
    return Case(op, [X], [X], 0, 6 * each, **more)


def reduced(op, ops, **more):
    return Case(op, [(2, 3, 4)], [(2, 1, 4)], 0, ops, kind="reduction", **more)


def moved(op, inputs, outputs, **more):
    return Case(op, inputs, outputs, 0, 0, kind="movement", **more)


ARITHMETIC = [
    binary("Add"),
    Case("Add", [(2, 3), (3,)], [(2, 3)], 0, 6, parameters=3),
    Case("Add", [ints(4), ints(4)], [ints(4)], 0, 4, parameters=0),  # counters and shapes are no parameters
    binary("Sub"),
    binary("Mul"),
    binary("Div"),
    binary("Pow"),
    binary("Mod"),
    Case("And", [truths(2, 3), truths(2, 3)], [truths(2, 3)], 0, 6, parameters=0),
    Case("Or", [truths(2, 3), truths(2, 3)], [truths(2, 3)], 0, 6),
    Case("Xor", [truths(2, 3), truths(2, 3)], [truths(2, 3)], 0, 6),
    Case("BitwiseAnd", [ints(2, 3), ints(2, 3)], [ints(2, 3)], 0, 6),
    Case("BitwiseOr", [ints(2, 3), ints(2, 3)], [ints(2, 3)], 0, 6),
    Case("BitwiseXor", [ints(2, 3), ints(2, 3)], [ints(2, 3)], 0, 6),
    Case("BitShift", [ints(2, 3), ints(2, 3)], [ints(2, 3)], 0, 6),
    Case("Equal", [X, X], [truths(2, 3)], 0, 6),
    Case("Greater", [X, X], [truths(2, 3)], 0, 6),
    Case("GreaterOrEqual", [X, X], [truths(2, 3)], 0, 6),
    Case("Less", [X, X], [truths(2, 3)], 0, 6),
    Case("LessOrEqual", [X, X], [truths(2, 3)], 0, 6),
    Case("Where", [truths(2, 3), X, (3,)], [X], 0, 0, parameters=6 + 3, constant=(0, 1, 2)),
    *(
        unary(op)
        for op in [
            "Abs",
            "Neg",
            "Ceil",
            "Floor",
            "Round",
            "Reciprocal",
            "IsNaN",
            "IsInf",
            "Cast",
            "CumSum",
            "CumProd",
            "Cos",
            "Tan",
            "Asin",
            "Acos",
            "Atan",
            "Sinh",
            "Cosh",
            "Asinh",
            "Acosh",
            "Atanh",
        ]
    ),
    Case("CastLike", [X, (1,)], [X], 0, 6, parameters=0),
    Case("Not", [truths(2, 3)], [truths(2, 3)], 0, 6),
    Case("BitwiseNot", [ints(2, 3)], [ints(2, 3)], 0, 6),
    Case("Sum", [X, X, X], [X], 0, 6 * 2, parameters=12),  # two additions
    Case("Sum", [X], [X], 0, 0),
    Case("Mean", [X, X, X], [X], 0, 6 * 3),  # two additions, a division
    Case("Max", [X, X], [X], 0, 6),
    Case("Min", [X, X, X, X], [X], 0, 6 * 3),
    unary("Shrink", 3),  # two comparisons, an addition
    unary("Hardmax", 2),  # the maximum, and a comparison with it
]

FUNCTIONS = [
    unary("Relu", 1),
    unary("LeakyRelu", 2),
    unary("ThresholdedRelu", 1),
    unary("Sign", 1),
    unary("HardSigmoid", 4),
    unary("HardSwish", 5),
    unary("Exp"),
    unary("Log"),
    unary("Sqrt"),
    unary("Sin"),
    unary("Erf"),
    unary("Sigmoid", 4),
    unary("Tanh", 5),
    unary("Softplus", 3),
    unary("Softsign", 3),
    unary("Elu", 4),
    unary("Selu", 5),
    unary("Celu", 5),
    unary("Mish", 9),
    Case("PRelu", [X, (3,)], [X], 0, 6 * 2, parameters=3),
    unary("Gelu", 5),
    unary("Gelu", 13, options={"approximate": "tanh"}),
    unary("Swish", 5),
    unary("Swish", 1 + 5, options={"alpha": 0.5}),
    Case("SwiGLU", [X, X], [X], 0, 6 * (5 + 1)),
    Case("SwiGLU", [X, X], [X], 0, 6 * (1 + 5 + 1), options={"alpha": 2.0}),
    Case("Clip", [X, (), ()], [X], 0, 6 * 2, parameters=0),
    Case("Clip", [X, ()], [X], 0, 6),
    Case("Clip", [X, None, ()], [X], 0, 6),
    Case("Clip", [X], [X], 0, 0),
    Case("Clip", [X], [X], 0, 6 * 2, version=6, options={"min": 0.0, "max": 6.0}),
    Case("Clip", [X], [X], 0, 6, version=6, options={"max": 6.0}),
]

REDUCTIONS = [
    reduced("ReduceSum", 24),
    reduced("ReduceMax", 24),
    reduced("ReduceMin", 24),
    reduced("ReduceProd", 24),
    reduced("ReduceMean", 24 + 8),
    reduced("ReduceL1", 2 * 24),
    reduced("ReduceL2", 2 * 24 + 8),
    reduced("ReduceSumSquare", 2 * 24),
    reduced("ReduceLogSum", 24 + 8),
    reduced("ReduceLogSumExp", 2 * 24 + 8),
    reduced("ArgMax", 24),
    reduced("ArgMin", 24),
    Case("ReduceMean", [(2, 3, 4), ints(1)], [(2, 1, 4)], 0, 24 + 8, parameters=0, values={1: (1,)},
         options={"noop_with_empty_axes": 1}),
    Case("ReduceMean", [X], [X], 0, 0, options={"noop_with_empty_axes": 1}),
    Case("ReduceL2", [X], [X], 0, 6 * 2, options={"noop_with_empty_axes": 1}),  # square, root
    Case("ReduceLogSum", [X, ints(0)], [X], 0, 6, options={"noop_with_empty_axes": 1}),
    Case("ReduceSum", [X, ("int64", ("n",))], ["rank unknown"], None, None, why="depends on an input",
         options={"noop_with_empty_axes": 1}),
    # [1, 3 channels × 4, 9 blocks]: each element is added once.
    Case("Col2Im", [(1, 12, 9), ints(2), ints(2)], [(1, 3, 4, 4)], 0, 108),
]  # fmt: skip

MOVEMENT = [
    moved("CenterCropPad", [X, ints(2)], [(2, 2)]),
    moved("Compress", [X, truths(3)], [(2, None)]),
    moved("DepthToSpace", [(1, 8, 2, 2)], [(1, 2, 4, 4)]),
    moved("SpaceToDepth", [(1, 2, 4, 4)], [(1, 8, 2, 2)]),
    moved("EyeLike", [X], [X]),
    moved("Expand", [(3,), ints(2)], [X], parameters=3, constant=(0, 1)),
    moved("Flatten", [(2, 3, 4)], [(2, 12)]),
    moved("Gather", [(10, 4), ints(7)], [(7, 4)], parameters=40, constant=(0, 1)),
    moved("GatherElements", [X, ints(2, 1)], [(2, 1)], parameters=6, constant=(0, 1)),
    moved("GatherND", [X, ints(2, 1)], [(2, 3)]),
    moved("Identity", [X], [X]),
    moved("BitCast", [X], [ints(2, 3)]),
    moved("MaxUnpool", [(1, 1, 2, 2), ints(1, 1, 2, 2)], [(1, 1, 4, 4)]),
    moved("Pad", [X, ints(4), ()], [(4, 5)], parameters=0),
    moved("Reshape", [X, ints(1)], [(6,)]),
    moved("ReverseSequence", [X, ints(3)], [X]),
    moved("Scatter", [X, ints(1, 3), (1, 3)], [X]),
    moved("ScatterElements", [X, ints(1, 3), (1, 3)], [X]),
    # Three updates are added to what is there.
    Case("ScatterElements", [X, ints(1, 3), (1, 3)], [X], 0, 3, kind="reduction", options={"reduction": "add"}),
    moved("ScatterND", [X, ints(1, 1), (1, 3)], [X]),
    Case("ScatterND", [X, ints(2, 1), (2, 3)], [X], 0, 6, options={"reduction": "max"}),
    moved("Slice", [X, ints(1), ints(1)], [(1, 3)]),
    moved("Split", [X], [(1, 3), (1, 3)]),
    moved("SplitToSequence", [X], ["rank unknown"]),
    moved("Squeeze", [(1, 3)], [(3,)]),
    moved("Unsqueeze", [(3,), ints(1)], [(1, 3)]),
    moved("TensorScatter", [(1, 2, 8, 4), (1, 2, 1, 4)], [(1, 2, 8, 4)]),
    moved("Tile", [X, ints(2)], [(4, 6)]),
    moved("Transpose", [X], [(3, 2)]),
    moved("Trilu", [X], [X]),
    moved("Concat", [X, X, ints(2, 3)], [(6, 3)], parameters=12, constant=(0, 1, 2)),
    moved("Constant", [], [X]),
    moved("SequenceConstruct", [X, (3,)], [X], parameters=6 + 3, constant=(0, 1)),
    moved("ConstantOfShape", [ints(2)], [X], constant=(0,), parameters=0),
    moved("ConcatFromSequence", ["rank unknown"], [X]),
    moved("OneHot", [ints(2), (), (2,)], [(2, 3)], parameters=0),
    moved("Optional", [X], [X]),
    moved("OptionalGetElement", [X], [X]),
    moved("OptionalHasElement", [X], [truths()]),
    moved("Range", [(), (), ()], [(10,)], parameters=0),
    moved("SequenceAt", ["rank unknown", ints()], [X]),
    moved("SequenceConstruct", [X, X], ["rank unknown"]),
    moved("SequenceEmpty", [], ["rank unknown"]),
    moved("SequenceErase", ["rank unknown"], ["rank unknown"]),
    moved("SequenceInsert", ["rank unknown", X], ["rank unknown"]),
    moved("SequenceLength", ["rank unknown"], [ints()]),
    moved("Shape", [X], [ints(2)]),
    moved("Size", [X], [ints()]),
    moved("Dropout", [X], [X]),
    moved("Dropout", [X, (), truths()], [X], values={2: (False,)}),
    Case("Dropout", [X, (), truths()], [X], 0, 6 * 4, values={2: (True,)}),  # draw, compare, mask, scale
    Case("Dropout", [X, (), truths()], [X], None, None, why="depends on an input"),
    moved("Crop", [(1, 1, 4, 4)], [(1, 1, 2, 2)]),
    moved("DynamicSlice", [X, ints(1), ints(1)], [(1, 3)]),
    moved("GivenTensorFill", [], [X]),
]

OTHERS = [
    # [N=2, H=4, W=5, 2] coordinates, each a row of three times (x, y, 1).
    Case("AffineGrid", [(2, 2, 3), ints(4)], [(2, 4, 5, 2)], 80 * 3, 2 * 80 * 3),
    Case("AffineGrid", [(2, 3, 4), ints(5)], [(2, 2, 4, 5, 3)], 240 * 4, 2 * 240 * 4),
    Case("RandomNormal", [], [X], 0, 6 * 3),
    Case("RandomNormalLike", [X], [X], 0, 6 * 3),
    Case("RandomUniform", [], [X], 0, 6 * 3),
    Case("RandomUniformLike", [X], [X], 0, 6 * 3),
    Case("Bernoulli", [X], [X], 0, 6 * 2),
    Case("Multinomial", [X], [ints(2, 5)], 0, None, why="classes"),
    Case("TopK", [X, ints(1)], [(2, 2), ints(2, 2)], 0, None, why="comparisons"),
    Case("NonZero", [X], [ints(2, 6)], 0, None, why="comparisons"),
    Case("Unique", [X], [(6,)], 0, None, why="comparisons"),
    Case("NonMaxSuppression", [(1, 9, 4), (1, 2, 9)], [ints(5, 3)], 0, None, why="comparisons"),
    Case("MaxRoiPool", [(1, 2, 8, 8), (3, 5)], [(3, 2, 2, 2)], 0, None, why="region"),
    Case("TfIdfVectorizer", [ints(2, 8)], [(2, 5)], 0, None, why="n-grams"),
    Case("StringConcat", [X, X], [X], 0, None, why="strings"),
    Case("StringNormalizer", [X], [X], 0, None, why="strings"),
    Case("StringSplit", [X], [X, ints(2)], 0, None, why="strings"),
    Case("RegexFullMatch", [X], [truths(2, 3)], 0, None, why="strings"),
    Case("ImageDecoder", [("uint8", (100,))], [(4, 4, 3)], None, None, why="image"),
    Case("If", [truths()], [X], None, None, kind="branch", why="branches"),
    Case("Loop", [ints(), truths(), X], [X], None, None, kind="loop", why="the number of repetitions"),
    Case(
        "Scan",
        [X, ("t", 5)],
        [X],
        None,
        None,
        kind="loop",
        why="the number of repetitions",
        options={"num_scan_inputs": 1},
    ),
    Case("SequenceMap", ["rank unknown"], ["rank unknown"], None, None, kind="loop", why="the number of repetitions"),
    unary("Affine", 2),
    Case("MelWeightMatrix", [ints(), ints(), ints(), (), ()], [(9, 4)], 0, 36 * 6, parameters=0),
    Case("HannWindow", [ints()], [(10,)], 0, 40),
    Case("HammingWindow", [ints()], [(10,)], 0, 40),
    Case("BlackmanWindow", [ints()], [(10,)], 0, 80),
    Case("DFT", [(2, 8, 1)], [(2, 8, 2)], 0, None, why="rare"),
    Case("STFT", [(2, 32, 1), ints(), (16,)], [(2, 3, 9, 2)], 0, None, why="rare"),
    Case("RoiAlign", [(1, 3, 8, 8), (2, 4), ints(2)], [(2, 3, 2, 2)], 0, None, why="rare"),
    Case("Det", [(2, 3, 3)], [(2,)], None, None, why="rare"),
    Case("NegativeLogLikelihoodLoss", [(6, 4), ints(6), (4,)], [()], 0, None, why="rare", parameters=4),
    Case("SoftmaxCrossEntropyLoss", [(6, 4), ints(6)], [()], 0, None, why="rare"),
    unary("Scale"),
    unary("ImageScaler", 2),
    unary("ParametricSoftplus", 3 + 2),
    unary("ScaledTanh", 5 + 2),
]

CASES = [*ARITHMETIC, *FUNCTIONS, *REDUCTIONS, *MOVEMENT, *OTHERS]


@with_each(CASES)
def test_cost(case):
    check(case)


def test_every_operator_of_the_table_has_a_case():
    assert {case.op for case in CASES} == set(TABLE)


def trips(op, inputs, **more):
    return interpret(ask(Case(op, inputs, ["rank unknown"], None, None, **more))).geometry.get("trips")


def test_trips_of_a_loop_that_a_constant_counts():
    assert trips("Loop", [ints(), None, X], values={0: (7,)}) == 7
    assert trips("Loop", [ints(), truths(), X], values={0: (7,), 1: (True,)}) == 7
    assert trips("Loop", [ints(), truths(), X], values={0: (7,), 1: (False,)}) == 0


def test_no_trips_where_an_input_decides():
    assert trips("Loop", [ints(), None, X]) is None
    assert trips("Loop", [ints(), truths(), X], values={0: (7,)}) is None
    assert trips("Loop", [None, truths(), X], values={1: (True,)}) is None


def test_trips_of_a_scan():
    assert trips("Scan", [(5,), (9, 5), (9, 4)], options={"num_scan_inputs": 2}) == 9
    assert trips("Scan", [(5,), (3, 9, 5)], options={"num_scan_inputs": 1, "scan_input_axes": (1,)}) == 9
    assert trips("Scan", [(5,), ("t", 5)], options={"num_scan_inputs": 1}) is None
    # At first, Scan had lengths as input 0 and a batch: 3 sequences of 9.
    assert trips("Scan", [ints(3), (3, 5), (3, 9, 5)], options={"num_scan_inputs": 1}, version=8) == 27
