"""Every Keras layer and operation that is understood, with costs that were worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from case_tables import with_each
from edgewise.model.cost import ACTIVATIONS, KINDS, cost_of
from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.keras import FUSED, OPERATORS, interpret
from edgewise.model.graph import Graph, Operator, Tensor


@dataclass(frozen=True)
class Case:
    """A layer, its inputs with its weights, its output, and what it costs."""

    op: str
    inputs: list[tuple[Any, ...]]
    output: tuple[Any, ...]
    macs: int | None
    ops: int | None
    attributes: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, str] = ("float32", "float32")


def ask(case: Case):
    inputs = [Tensor(name=f"i{at}", shape=shape, dtype=case.dtypes[0]) for at, shape in enumerate(case.inputs)]
    output = Tensor(name="o", shape=case.output, dtype=case.dtypes[1])
    semantics = interpret(RawOperator(op=case.op, attributes=case.attributes, inputs=inputs, outputs=[output]))
    operator = Operator(
        index=0, name="n", op=case.op, kind=semantics.kind, inputs=tuple(each.name for each in inputs), outputs=("o",),
        geometry=semantics.geometry, unknown_because=semantics.why,
    )  # fmt: skip
    body = Operator(index=0, name="b", op="Add", kind="elementwise", outputs=("o",), geometry={"per_element": 1})
    tensors = {each.name: each for each in (*inputs, output)}
    inner = Graph(name="body", format="keras", tensors=tensors, operators=(body,), inputs=(), outputs=())
    graph = replace(inner, operators=(operator,), subgraphs={"body": inner})
    return semantics, cost_of(operator, graph)


def group(names: str, per_output: int) -> list[Case]:
    """Layers of one tensor [2, 3] that give another, at `per_output` operations for each of its 6 elements."""
    return [Case(name, [(2, 3)], (2, 3), 0, 6 * per_output) for name in names.split()]


MOVED = """
    Flatten Reshape Permute RepeatVector Identity Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D
    GaussianDropout GaussianNoise AlphaDropout ActivityRegularization Concatenate ZeroPadding1D ZeroPadding2D
    ZeroPadding3D Cropping1D Cropping2D Cropping3D Embedding CenterCrop RandomCrop CategoryEncoding RandomFlip
    RandomRotation RandomZoom RandomTranslation RandomContrast RandomBrightness RandomHue RandomSaturation
    RandomSharpness RandomShear RandomErasing RandomPerspective RandomGaussianBlur Transpose ExpandDims Squeeze GetItem
    Stack Split BroadcastTo StopGradient Pad Where Repeat Tile Ravel Moveaxis Swapaxes Flip Roll
"""
ONE_EACH = """
    Absolute Negative Square Reciprocal Floor Ceil Round Sign Power Equal NotEqual Less LessEqual Greater GreaterEqual
    LogicalAnd LogicalOr LogicalNot Divide TrueDivide Mod Cos Tan Arctan Log1p Log2 Expm1 Cumsum Relu Exp Log Sqrt Sin
    Erf Add Subtract Multiply Maximum Minimum ReLU
"""
RANKS = {1: (4,), 2: (4, 4), 3: (4, 4, 4)}
HALVES = {1: (2,), 2: (2, 2), 3: (2, 2, 2)}


def pools() -> list[Case]:
    found = []
    for rank in (1, 2, 3):
        # 3 channels of 4 in every dimension, windows of 2: 3 · 2^rank outputs of 2^rank elements.
        given, made = (1, *RANKS[rank], 3), (1, *HALVES[rank], 3)
        outputs, window, whole = 3 * 2**rank, 2**rank, 4**rank
        found += [
            Case(f"MaxPooling{rank}D", [given], made, 0, outputs * window, {"pool_size": [2] * rank}),
            Case(f"AveragePooling{rank}D", [given], made, 0, outputs * (window + 1), {"pool_size": 2}),
            Case(f"GlobalMaxPooling{rank}D", [given], (1, 3), 0, 3 * whole),
            Case(f"GlobalAveragePooling{rank}D", [given], (1, 3), 0, 3 * (whole + 1)),
            Case(f"AdaptiveMaxPooling{rank}D", [given], made, 0, outputs * window),
            Case(f"AdaptiveAveragePooling{rank}D", [given], made, 0, outputs * (window + 1)),
            Case(f"UpSampling{rank}D", [made], given, 0, 0),
        ]
    return found


#: x [2, 5, 5, 4] with a kernel [3, 3, 4, 6]: 2 · 3 · 3 · 6 = 108 outputs of 36 MACs.
CONV = [(2, 5, 5, 4), (3, 3, 4, 6)]

CASES = [
    *group(MOVED, 0),
    *group(ONE_EACH, 1),
    *group("FloorDivide Rsqrt Clip Rescaling Relu6 PReLU LeakyReLU LeakyRelu BatchNormalization Normalization", 2),
    *group("Masking Softplus Softsign UnitNormalization", 3),
    *group("Sigmoid HardSigmoid Elu ELU RMSNormalization", 4),
    *group("Tanh Silu HardSilu Selu Celu Softmax", 5),
    *group("LogSoftmax", 6),
    *group("LayerNormalization GroupNormalization", 8),
    *group("Mish", 9),
    *group("Gelu", 13),
    # Of two tensors one operation, of three two; a mean has one division more.
    Case("Add", [(2, 3), (2, 3), (2, 3)], (2, 3), 0, 2 * 6),
    Case("Average", [(2, 3), (2, 3), (2, 3)], (2, 3), 0, 3 * 6),
    Case("ReLU", [(6,)], (6,), 0, 2 * 6, {"max_value": 6.0}),
    Case("ReLU", [(6,)], (6,), 0, 2 * 6, {"negative_slope": 0.1}),
    Case("ReLU", [(6,)], (6,), 0, 3 * 6, {"negative_slope": 0.1, "max_value": 6.0}),
    Case("Activation", [(6,)], (6,), 0, 5 * 6, {"activation": "softmax"}),
    Case("Activation", [(6,)], (6,), 0, 6 * 6, {"activation": "log_softmax"}),
    Case("Activation", [(6,)], (6,), 0, 0, {"activation": "linear"}),
    Case("Activation", [(6,)], (6,), 0, 5 * 6, {"activation": "swish"}),
    Case("Activation", [(6,)], (6,), None, None, {"activation": "mine"}),
    Case("Gelu", [(6,)], (6,), 0, 5 * 6, {"approximate": False}),
    Case("LayerNormalization", [(6,)], (6,), 0, 7 * 6, {"center": False}),
    Case("LayerNormalization", [(6,)], (6,), 0, 4 * 6, {"rms_scaling": True}),
    Case("Cast", [(6,)], (6,), 0, 6, dtypes=("float32", "int32")),
    Case("Cast", [(6,)], (6,), 0, 0),
    *[Case(name, [(2, 3)], (2,), 0, 6) for name in ("Sum", "Prod", "Max", "Min", "Argmax", "Argmin", "Any", "All")],
    Case("Mean", [(2, 3)], (2,), 0, 6 + 2),
    Case("Var", [(2, 3)], (2,), 0, 24 + 4),
    Case("Std", [(2, 3)], (2,), 0, 24 + 6),
    *pools(),
    # Of 7 elements in 3 windows that overlap, 9 are taken, and there are 3 divisions.
    Case("AdaptiveAveragePooling1D", [(1, 7, 2)], (1, 3, 2), 0, 2 * (9 + 3)),
    Case("GlobalMaxPooling2D", [(1, 3, 4, 4)], (1, 3), 0, 48, {"data_format": "channels_first"}),
    Case("UpSampling2D", [(1, 2, 2, 1)], (1, 4, 4, 1), 0, 7 * 16, {"interpolation": "bilinear"}),
    Case("UpSampling2D", [(1, 2, 2, 1)], (1, 4, 4, 1), None, None, {"interpolation": "lanczos5"}),
    Case("Resizing", [(1, 2, 2, 1)], (1, 4, 4, 1), 0, 7 * 16),
    Case("Resizing", [(1, 2, 2, 1)], (1, 4, 4, 1), 0, 31 * 16, {"interpolation": "bicubic"}),
    # Convolutions; a bias is one addition per output and a fused ReLU one comparison.
    Case("Conv2D", [*CONV, (6,)], (2, 3, 3, 6), 3888, 7776 + 108, {"weights": 2}),
    Case("Conv2D", CONV, (2, 3, 3, 6), 3888, 7776 + 108, {"weights": 1, "use_bias": False, "activation": "relu"}),
    Case("Conv2D", [*CONV, (6,)], (2, 3, 3, 6), 3888, 7776 + 108, {"weights": 2, "activation": "softmax"}),
    Case("Conv1D", [(1, 8, 4), (3, 4, 6), (6,)], (1, 6, 6), 36 * 12, 864 + 36, {"weights": 2}),
    Case("Conv3D", [(1, 3, 3, 3, 2), (2, 2, 2, 2, 5)], (1, 2, 2, 2, 5), 40 * 16, 1280, {"weights": 1, "use_bias": False}),
    # One filter [3, 3] for each of 4 channels, twice: 2 · 9 · 8 outputs of 9 MACs.
    Case("DepthwiseConv2D", [(2, 5, 5, 4), (3, 3, 4, 2), (8,)], (2, 3, 3, 8), 1296, 2592 + 144, {"weights": 2}),
    Case("DepthwiseConv1D", [(1, 5, 4), (3, 4, 1), (4,)], (1, 3, 4), 36, 72 + 12, {"weights": 2}),
    # 54 inputs, each into 4 channels of a kernel [2, 2]; 144 outputs.
    Case("Conv2DTranspose", [(1, 3, 3, 6), (2, 2, 4, 6), (4,)], (1, 6, 6, 4), 54 * 16, 1728 + 144, {"weights": 2}),
    Case("Conv1DTranspose", [(1, 4, 3), (2, 2, 3)], (1, 8, 2), 48, 96, {"weights": 1, "use_bias": False}),
    Case("Conv3DTranspose", [(1, 2, 2, 2, 1), (2, 2, 2, 2, 1)], (1, 4, 4, 4, 2), 128, 256, {"weights": 1, "use_bias": False}),
    # Products: 8 outputs of 3 MACs.
    Case("Dense", [(2, 3), (3, 4), (4,)], (2, 4), 24, 48 + 8, {"weights": 2}),
    Case("Dense", [(2, 3), (3, 4), (4,)], (2, 4), 24, 48 + 8 + 8 * 5, {"weights": 2, "activation": "tanh"}),
    Case("EinsumDense", [(2, 5, 6), (6, 3, 4), (3, 4)], (2, 5, 3, 4), 720, 1440 + 120, {"weights": 2, "equation": "abc,cde->abde", "bias_axes": "de"}),
    Case("EinsumDense", [(2, 5, 3, 4), (3, 4, 6)], (2, 5, 6), 720, 1440, {"weights": 1, "equation": "abde,dec->abc"}),
    Case("Dot", [(2, 7), (2, 7)], (2, 1), 14, 28, {"axes": 1}),
    Case("Dot", [(2, 7, 3), (2, 5, 7)], (2, 3, 5), 210, 420, {"axes": [1, 2]}),
    Case("Dot", [(2, 7), (2, 7)], (2, 1), None, None, {"axes": 1, "normalize": True}),
    Case("Matmul", [(2, 3), (3, 4)], (2, 4), 24, 48),
    # A depthwise convolution of 48 outputs of 3 MACs, then 36 of 8; 12 of 4 and 12 of 2 without a bias.
    Case("SeparableConv1D", [(1, 8, 4), (3, 4, 2), (1, 8, 6), (6,)], (1, 6, 6), 144 + 288, 864 + 36, {"weights": 3}),
    Case("SeparableConv2D", [(1, 3, 3, 2), (2, 2, 2, 1), (1, 1, 2, 3)], (1, 2, 2, 3), 32 + 24, 112 + 12,
         {"weights": 2, "use_bias": False, "activation": "relu"}),
    # 10 cells of 4 · 4 · (3 + 4) MACs; per unit 3 · 4 + 2 · 5 + 8; one bias of 16. Then a hard sigmoid and a ReLU.
    Case("LSTM", [(2, 5, 3), (3, 16), (4, 16), (16,)], (2, 4), 1120, 10 * (224 + 16 + 4 * 30), {"weights": 3}),
    Case("LSTM", [(2, 5, 3), (3, 16), (4, 16), (16,)], (2, 4), 1120, 10 * (224 + 16 + 4 * 22),
         {"weights": 3, "activation": "relu", "recurrent_activation": "hard_sigmoid"}),
    Case("LSTM", [(2, 5, 3), (3, 16), (4, 16)], (2, 4), None, None, {"weights": 2, "activation": "mine"}),
    # 3 · 4 · 7 MACs; biases of 12 each, two where it resets after; 4 · (2 · 4 + 5 + 8) for the functions.
    Case("GRU", [(1, 1, 3), (3, 12), (4, 12), (2, 12)], (1, 4), 84, 168 + 24 + 84, {"weights": 3}),
    Case("GRU", [(1, 1, 3), (3, 12), (4, 12), (12,)], (1, 4), 84, 168 + 12 + 84, {"weights": 3}),
    Case("SimpleRNN", [(1, 2, 3), (3, 4), (4, 4), (4,)], (1, 4), 56, 2 * (56 + 4 + 24), {"weights": 3}),
    *[Case(f"ConvLSTM{rank}D", [(1, 3, 6, 2), (3, 2, 16), (3, 4, 16), (16,)], (1, 4, 4), None, None, {"weights": 3})
      for rank in (1, 2, 3)],
    # 2 · 3 · 5 = 30 scores of 4 + 6 MACs, each 6 operations more.
    *[Case(name, [(1, 3, 2, 4)], (1, 3, 2, 6), 300, 780, {"geometry": {
        "batch": 1, "heads": 2, "queries": 3, "keys": 5, "depth": 4, "value_depth": 6}})
      for name in ("MultiHeadAttention", "GroupQueryAttention")],
    Case("Attention", [(2, 3, 8), (2, 5, 8)], (2, 3, 8), 480, 960 + 180),
    Case("AdditiveAttention", [(2, 3, 8), (2, 5, 8), (8,)], (2, 3, 8), None, None, {"weights": 1}),
]  # fmt: skip


@with_each(CASES)
def test_costs_are_those_worked_out_by_hand(case: Case):
    semantics, cost = ask(case)
    assert (cost.macs, cost.ops) == (case.macs, case.ops), cost.why
    assert bool(cost.why) == (None in (case.macs, case.ops))
    assert semantics.kind == "" or set(semantics.geometry) <= set(KINDS[semantics.kind].geometry)
    count = case.attributes.get("weights", 0)
    assert semantics.weights == tuple(range(len(case.inputs) - count, len(case.inputs))) or not semantics.kind


def test_every_operator_has_a_case():
    assert {case.op for case in CASES} == set(OPERATORS)


def test_fused_functions_are_those_of_the_cost_table():
    assert set(FUSED.values()) <= set(ACTIVATIONS)


def test_an_unknown_layer_is_unknown():
    assert interpret(RawOperator(op="MyLayer")).kind == ""


@pytest.mark.parametrize(
    "op", ["Conv2D", "Dense", "EinsumDense", "Matmul", "MaxPooling2D", "GlobalAveragePooling2D", "Relu"]
)
def test_open_dimensions_leave_costs_unknown(op: str):
    _, cost = ask(Case(op, [(None, None, None, None)] * 2, (None, 3), None, None, {"equation": "a,b->c"}))
    assert cost.ops is None
    assert cost.why


@pytest.mark.parametrize("hostile", [None, "text", -1, 2**70, [], [[]], {}, 0.5, True])
def test_no_option_of_a_hostile_file_is_a_crash(hostile: Any):
    names = [
        "pool_size",
        "activation",
        "groups",
        "use_bias",
        "equation",
        "bias_axes",
        "axes",
        "normalize",
        "max_value",
        "negative_slope",
        "data_format",
        "interpolation",
        "approximate",
        "center",
        "scale",
        "rms_scaling",
        "geometry",
        "kind",
        "weights",
    ]
    for op in sorted(OPERATORS):
        for shape in ((), (2, 3), (None, 0, 3, 4)):
            tensors = [Tensor(name=str(at), shape=shape, dtype="?") for at in range(3)]
            attributes = {**dict.fromkeys(names, hostile), "weights": 1}
            interpret(RawOperator(op=op, attributes=attributes, inputs=tensors, outputs=tensors[:1]))
            interpret(RawOperator(op=op, attributes={"weights": 0}, inputs=[], outputs=[]))
