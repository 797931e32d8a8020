"""What the operators of OpenVINO's opsets 1 to 17 mean.

Their definitions are those of https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html; the
counts follow `edgewise.model.cost`, where an interpolation of t samples costs 2·t − 1 operations (7 if bilinear). An
operator that chooses by value, or whose work depends on data, has the kind of sorting: no multiply-accumulates, and
operations that are unknown with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    RANDOM,
    USUAL_FUNCTIONS,
    RawOperator,
    Rule,
    Semantics,
    apply,
    attention,
    data_dependent,
    each,
    elements,
    function,
    mean,
    moving,
    multiply,
    other_functions,
    per_element,
    pool_areas,
    product_of,
    rank,
    rare,
    reducing,
    shape_of,
    size_of,
    unknown,
)
from edgewise.model.dialects.einsum import read_einsum
from edgewise.model.graph import Tensor
from edgewise.model.signature import Dimension


def convolve(raw: RawOperator) -> Semantics:
    """Return filters [O, I, k…] or in groups [G, O/G, I/G, k…]; transposed [I, O, k…] or [G, I/G, O/G, k…]."""
    filters, grouped = shape_of(raw.input(1)), raw.op.startswith("Group")
    inner = filters[2 if grouped else 1 :]
    transposed = raw.op.endswith("BackpropData")
    groups = filters[0] if grouped and filters else 1
    return mean(
        "transposed-convolution" if transposed else "convolution",
        reduction=multiply(*inner) if inner else None,
        depthwise=isinstance(groups, int) and groups > 1 and inner[:1] == (1,) and not transposed,
        weights=(1,),
    )


def convolve_deformed(raw: RawOperator) -> Semantics:
    """Return data, offsets, filters [O, I/G, k…]; the interpolation of the samples is not counted."""
    filters = raw.input(2)
    products = product_of(filters, 1) if (rank(filters) or 0) > 2 else None
    return rare(2, macs=multiply(elements(raw.output()), products))


def multiply_matrices(raw: RawOperator) -> Semantics:
    """Return the inner dimension, from either side; one-dimensional inputs are not transposed."""
    inner: int | None = None
    for at, option, usual in ((0, "transpose_a", -1), (1, "transpose_b", -2)):
        turned = raw.attributes.get(option) is True
        axis = 0 if rank(raw.input(at)) == 1 else (-3 - usual) if turned else usual
        inner = size_of(raw.input(at), axis) if inner is None else inner
    return mean("matrix-multiplication", reduction=inner, weights=(0, 1))


def connect_fully(raw: RawOperator) -> Semantics:
    """FullyConnected: weights [O, I]. GroupedMatMul: [G, M, K] by [G, N, K], or [T, K] by [G, N, K], rows by group."""
    inner = size_of(raw.input(0 if raw.op == "GroupedMatMul" else 1), -1)
    return mean("matrix-multiplication", reduction=inner, weights=(1,))


def attend(raw: RawOperator) -> Semantics:
    """Query […, heads, L, E], key […, heads, S, E], value […, heads, S, V]; a mask changes nothing that is counted."""
    query = raw.input(0)
    return attention(raw, batch=product_of(query, 0, -3), heads=product_of(query, -3, -2))


_GATES = {"LSTM": 4, "GRU": 3, "AUGRU": 3, "RNN": 1}


def recur(raw: RawOperator) -> Semantics:
    """Return a cell or a sequence: X, H, (C), (lengths), W [D, G·H, I], R [D, G·H, H], B; a cell's have no direction D.

    Sequences are counted to their full length, whatever the lengths say.
    """
    family = raw.op.removesuffix("Sequence").removesuffix("Cell")
    sequence = raw.op.endswith("Sequence")
    first = (3 if family == "LSTM" else 2) + sequence
    peepholes = family == "LSTM" and raw.version in (0, 1) and raw.given(first + 3)
    weights = (first, first + 1, first + 2, *([first + 3] if peepholes else []))
    data, recurrent = raw.input(0), raw.input(first + 1)
    if rank(data) != 2 + sequence or rank(recurrent) != 2 + sequence:
        return mean("recurrent", weights=weights)
    gates, text = _GATES[family], raw.attributes.get("activations", "")
    # LSTM: i, o and f by the first, candidate by the second, cell by the third; GRU: z and r by the first.
    usual = [name for name, _ in USUAL_FUNCTIONS[gates]]
    named = [word.strip().lower() for word in str(text).split(",")] if text else usual
    if len(named) < len(usual) or not all(name in ACTIVATIONS for name in named):
        return Semantics(weights=weights, why=f"its activations {', '.join(named)} have no known cost")
    further = other_functions(gates, [ACTIVATIONS[name] for name in named])
    clip = raw.attributes.get("clip", 0)
    further += 2 * gates if isinstance(clip, int | float) and clip > 0 else 0
    # A bias of its own in the candidate's recurrent part; z ← (1 − a)·z.
    further += (raw.attributes.get("linear_before_reset") is True) + (2 if family == "AUGRU" else 0)
    directions = size_of(recurrent, 0) if sequence else 1
    return mean(
        "recurrent",
        gates=gates,
        hidden=size_of(recurrent, -1),
        input=size_of(data, -1),
        steps=size_of(data, 1) if sequence else 1,
        batch=size_of(data, 0) if directions is not None else None,
        directions=directions,
        biases=1 if raw.given(first + 2) else 0,
        peepholes=3 if peepholes else 0,
        further=multiply(directions, further),
        weights=weights,
    )


def sum_products(raw: RawOperator) -> Semantics:
    """Einsum of one or two inputs; with more the order of contraction decides the cost."""
    found = read_einsum(raw)
    return found if len(raw.inputs) > 1 else replace(found, weights=())


_BILINEAR = 7


def read_integers(value: Any) -> tuple[int, ...] | None:
    """Return an option that is a list of whole numbers; one number is a list of one."""
    words = value if isinstance(value, tuple) else (value,)
    return tuple(words) if all(type(word) is int for word in words) else None


def pool(raw: RawOperator) -> Semantics:
    """``kernel`` elements, whatever their dilation."""
    window = read_integers(raw.attributes.get("kernel"))
    return mean("pooling", window=multiply(*window) if window is not None else None, average=raw.op == "AvgPool")


def pool_adaptively(raw: RawOperator) -> Semantics:
    """Windows from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉."""
    return pool_areas(_sizes(raw.input(0)), _sizes(raw.output()), average=raw.op == "AdaptiveAvgPool")


def _sizes(tensor: Tensor | None) -> tuple[Dimension, ...] | None:
    return tensor.shape if tensor is not None else None


def interpolate(raw: RawOperator) -> Semantics:
    """Modes of Interpolate 1, 4 and 11; only the dimensions that change cost anything."""
    mode = str(raw.attributes.get("mode", ""))
    before, after = _sizes(raw.input(0)), _sizes(raw.output())
    if mode == "nearest":
        return per_element(0, kind="resize")
    if before is None or after is None or len(before) != len(after):
        return mean("resize")
    changed = _changed(raw, before, after)
    if changed is None:
        return mean("resize")
    if mode == "area":
        return pool_areas(before, after, average=True)
    shrinks = any(after[at] < before[at] for at in changed)  # type: ignore[operator]
    if shrinks and (mode.endswith("_pillow") or raw.attributes.get("antialias") is True):
        return unknown("when it shrinks, the number of samples depends on the scale and the engine")
    taps = {"linear": 2, "linear_onnx": 2, "bilinear_pillow": 2, "cubic": 4, "bicubic_pillow": 4}.get(mode)
    if taps is None:
        return unknown(f"the mode {mode[:40]!r} has no known cost")
    return per_element(2 * taps ** len(changed) - 1 if changed else 0, kind="resize")


def _changed(raw: RawOperator, before: Sequence[Dimension], after: Sequence[Dimension]) -> list[int] | None:
    """Dimensions that get another size; None where that can't be known."""
    named = read_integers(raw.attributes.get("axes", ()))
    if not named:
        at = 2 if raw.version >= 11 else 3
        found = raw.values(at)
        named = tuple(int(axis) for axis in found) if found is not None else tuple(range(len(before)))
    axes = {axis + len(before) if axis < 0 else axis for axis in named}
    if not all(0 <= axis < len(before) for axis in axes):
        return None
    open_sizes = [at for at in axes if not isinstance(before[at], int) or not isinstance(after[at], int)]
    if open_sizes:
        return None
    return sorted(at for at in axes if before[at] != after[at])


def sample_grid(raw: RawOperator) -> Semantics:
    """Nearest 0, bilinear 7, bicubic 31 operations per output."""
    operations = {"nearest": 0, "bilinear": _BILINEAR, "bicubic": 31}
    return per_element(operations.get(str(raw.attributes.get("mode", "bilinear"))), kind="resize")


def interpret(raw: RawOperator) -> Semantics:
    """Kind, geometry and weights of an operator; the kind is "" for a type that OpenVINO's opsets do not have."""
    # IR calls some types by other letters than their operation has: ReLU, SoftMax, PReLU.
    proper = _PROPER.get(raw.op.lower())
    if proper is None:
        return Semantics()
    semantics = apply(OPERATIONS[proper], replace(raw, op=proper))
    if semantics.kind not in ("elementwise", "movement", "quantize") or proper in ("Convert", "Einsum"):
        return semantics
    return replace(semantics, weights=tuple(at for at in semantics.weights if is_parameter(raw.input(at))))


def is_known(op: str) -> bool:
    """Whether the type is one of OpenVINO's own."""
    return op.lower() in _PROPER


def is_parameter(tensor: Tensor | None) -> bool:
    """Whether a constant that an arithmetic operator takes counts as a parameter: real numbers, and no lone scalar."""
    if tensor is None or not tensor.constant or tensor.shape is None:
        return False
    real = "float" in tensor.dtype or tensor.dtype == "nf4" or tensor.quantization is not None
    return real and not (tensor.elements == 1 and len(tensor.shape) <= 1)


def _convert(raw: RawOperator) -> Semantics:
    """One conversion per element; weights that are kept in another type are parameters here."""
    first = raw.input(0)
    stored = first is not None and first.constant and (first.elements or 0) > 1 and first.dtype not in _INDICES
    return per_element(1, weights=(0,) if stored else ())


_INDICES = {"int64", "int32", "uint64", "uint32", "bool", "string"}


def _operations(ops: int | None) -> Semantics:
    """Operations in total, and no MACs even where the number of operations is open."""
    return mean("counted", macs=0, ops=ops)


def _scatter(raw: RawOperator) -> Semantics:
    """With a reduction, one operation per update; else values are only moved."""
    moved = raw.attributes.get("reduction", "none") == "none"
    return moving() if moved else _operations(elements(raw.input(2)))


def _swish(raw: RawOperator) -> Semantics:
    """Multiply by sigmoid(β·x): one multiplication more where β is there and not 1."""
    if len(raw.inputs) < 2 or raw.values(1) in ((1,), (1.0,)):
        return function("silu")
    return mean("elementwise", per_element=1, activation="silu")


def _gelu(raw: RawOperator) -> Semantics:
    tanh = str(raw.attributes.get("approximation_mode", "ERF")).upper() == "TANH"
    return function("gelu-tanh" if tanh else "gelu")


def _normalize_batch(raw: RawOperator) -> Semantics:
    """Return data first since opset 5; γ and β before it in opset 1."""
    weights = (0, 1, 3, 4) if raw.version in range(1, 5) else (1, 2, 3, 4)
    return per_element(2, kind="normalization", weights=weights)


def _normalize_variance(raw: RawOperator) -> Semantics:
    """Mean (1) and its subtraction (1); variance (3) and division (1) where they are asked for."""
    full = raw.attributes.get("normalize_variance", True) is not False
    return per_element(6 if full else 2, kind="normalization")


def _normalize_locally(raw: RawOperator) -> Semantics:
    """Over (bias + α/n·Σx²)^β over ``size`` neighbours along each axis: squares and sums (1 each), four more."""
    size, axes = raw.attributes.get("size"), raw.values(1)
    window = size ** len(axes) if type(size) is int and axes is not None and len(axes) <= 8 else None
    return per_element(window + 4 if window is not None else None, kind="normalization")


_COLOURS = unknown("the engine decides how it averages colours")

_MOVING = (
    "Assign", "BatchToSpace", "Broadcast", "Constant", "DepthToSpace", "ExtractImagePatches", "Eye", "Gather",
    "GatherElements", "GatherND", "GatherTree", "Identity", "OneHot", "Pad", "Parameter", "Range", "ReadValue",
    "ReorgYolo", "Reshape", "Result", "Reverse", "ReverseSequence", "Roll", "ScatterUpdate", "Select",
    "ShapeOf", "ShuffleChannels", "Slice", "SliceScatter", "SpaceToBatch", "SpaceToDepth",
    "SparseFillEmptyRows", "Split", "Squeeze", "StridedSlice", "StringTensorPack", "StringTensorUnpack", "Tile",
    "Transpose", "Unsqueeze", "VariadicSplit", "GatherCompressed",
)  # fmt: skip
_ONCE = (
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd", "BitwiseLeftShift",
    "BitwiseNot", "BitwiseOr", "BitwiseRightShift", "BitwiseXor", "Ceiling", "ConvertLike", "Cos", "Cosh",
    "CumSum", "Divide", "Equal", "ErfInv", "Floor", "FloorMod", "Greater", "GreaterEqual", "IsFinite", "IsInf",
    "IsNaN", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor", "Maximum", "Minimum",
    "Mod", "Multiply", "Negative", "NotEqual", "Power", "Round", "Sinh", "Subtract", "Tan", "Xor",
    "ExperimentalDetectronPriorGridGenerator",
)  # fmt: skip
_FUNCTIONS = {
    "Clamp": "clamp", "Elu": "elu", "Erf": "erf", "Exp": "exp", "HSigmoid": "hard-sigmoid", "HSwish": "hard-swish",
    "HardSigmoid": "hard-sigmoid", "Log": "log", "Mish": "mish", "Relu": "relu", "Selu": "selu", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "SoftPlus": "softplus", "SoftSign": "softsign", "Sqrt": "sqrt", "Tanh": "tanh",
}  # fmt: skip
_SORTED = (
    "TopK", "Unique", "ExperimentalDetectronTopKROIs",
)  # fmt: skip
_BOXED = (
    "DetectionOutput", "ExperimentalDetectronDetectionOutput",
    "ExperimentalDetectronGenerateProposalsSingleImage", "GenerateProposals", "MatrixNms", "MulticlassNms",
    "NMSRotated", "NonMaxSuppression", "Proposal", "GenerateProposalsIEInternal", "MulticlassNmsIEInternal",
    "NmsStaticShapeIEInternal", "NonMaxSuppressionIEInternal",
)  # fmt: skip
_RARE = (
    "Bucketize", "ConvertPromoteTypes", "DFT", "DeformablePSROIPooling", "ExperimentalDetectronROIFeatureExtractor",
    "IDFT", "IRDFT", "ISTFT", "PSROIPooling", "RDFT", "ROIAlign", "ROIAlignRotated", "ROIPooling",
    "RegionYolo", "STFT", "SearchSorted",
)  # fmt: skip
_BAGS = (
    "EmbeddingBagOffsets", "EmbeddingBagOffsetsSum", "EmbeddingBagPacked", "EmbeddingBagPackedSum",
    "EmbeddingSegmentsSum",
)  # fmt: skip
_RECURRENT = (
    "AUGRUCell", "AUGRUSequence", "GRUCell", "GRUSequence", "LSTMCell", "LSTMSequence", "RNNCell",
    "RNNSequence",
)  # fmt: skip
OPERATIONS: Mapping[str, Rule] = {
    **each(_MOVING, moving(0)),  # tables, or weights that are laid out anew
    **each(_ONCE, per_element(1, weights=(0, 1))),
    **{op: function(name) for op, name in _FUNCTIONS.items()},
    **each(_SORTED, data_dependent()),
    **each(_BOXED, data_dependent("how many boxes are compared depends on the data")),
    **each(_RECURRENT, recur),
    **each(_RARE, rare()),
    **each(_BAGS, rare(0, macs=None)),
    **each("Convolution BinaryConvolution ConvolutionBackpropData", convolve),
    **each("GroupConvolution GroupConvolutionBackpropData", convolve),
    **each("AdaptiveAvgPool AdaptiveMaxPool", pool_adaptively),
    **each("AvgPool MaxPool", pool),
    "ReadValue": moving(),  # the first value of a state is no parameter
    **each("BGRtoNV12 RGBtoNV12", _COLOURS),
    "BatchNormInference": _normalize_batch,
    "CTCLoss": unknown("its cost depends on the lengths of the labels"),
    "Concat": lambda raw: moving(*raw.positions),
    "Convert": _convert,
    "DeformableConvolution": convolve_deformed,
    "Einsum": sum_products,
    # Scale, convert, convert back, scale back; a shift is taken off and added again.
    "FakeConvert": lambda raw: per_element(6 if len(raw.inputs) > 2 else 4, kind="quantize"),
    "FakeQuantize": per_element(6, kind="quantize", weights=(0,)),
    **each("FullyConnected FullyConnectedCompressed GroupedMatMul", connect_fully),
    **each("GRN NormalizeL2", per_element(3, kind="normalization")),  # square, add, divide
    "Gelu": _gelu,
    "GridSample": sample_grid,
    "GroupNormalization": per_element(8, kind="normalization", weights=(1, 2)),
    # A pixel: 4 shifts and scales, 4 products, 4 sums, 6 for the clamps, over 3 outputs.
    **each("I420toBGR I420toRGB NV12toBGR NV12toRGB", per_element(6)),
    "If": mean("branch"),
    "Interpolate": interpolate,
    "Inverse": rare(macs=None),
    "LRN": _normalize_locally,
    "LogSoftmax": mean("softmax", logarithm=True),
    **each("Loop TensorIterator", mean("loop")),
    "MVN": _normalize_variance,
    "MatMul": multiply_matrices,
    **each("Multinomial RandomUniform", RANDOM),
    # One comparison per element of the input, whatever number it finds.
    **each("NonZero SegmentMax", lambda raw: _operations(elements(raw.input(0)))),
    "PRelu": function("leaky-relu", weights=(1,)),
    # Half of the outputs are corners (centre ± half a side, over the image's side), half are copied variances.
    **each("PriorBox PriorBoxClustered", lambda raw: per_element(2 if raw.attributes.get("clip") is True else 1)),
    "RMS": per_element(4, kind="normalization", weights=(1,)),  # square, add, divide, scale
    **each("CTCGreedyDecoder CTCGreedyDecoderSeqLen Col2Im", reducing()),
    **each("ReduceLogicalAnd ReduceLogicalOr ReduceMax ReduceMin ReduceProd ReduceSum", reducing()),
    "ReduceL1": reducing(2),
    "ReduceL2": reducing(2, 1),
    "ReduceMean": reducing(1, 1),
    "RoPE": per_element(3, weights=(0, 1, 2)),
    "ScaledDotProductAttention": attend,
    **each("ScatterElementsUpdate ScatterNDUpdate", _scatter),
    "Softmax": mean("softmax"),
    "SquaredDifference": per_element(2, weights=(0, 1)),
    "Swish": _swish,
}
"""Every operation of opsets 1 to 17 and those that transformed models have beside them, by their classes' names."""

_PROPER = {**{op.lower(): op for op in OPERATIONS}, "const": "Constant"}
"""An operator's type in small letters → its operation."""
