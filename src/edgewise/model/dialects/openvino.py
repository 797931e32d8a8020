"""What the operators of OpenVINO's opsets 1 to 17 mean.

Their definitions are those of https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html; the
counts follow `edgewise.model.cost`. An operator that chooses by value, or whose work depends on data, has the kind of
sorting: no multiply-accumulates, and operations that are unknown with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgewise.model.dialects import openvino_network as network
from edgewise.model.dialects.base import (
    RANDOM,
    RawOperator,
    Rule,
    Semantics,
    apply,
    data_dependent,
    each,
    elements,
    function,
    mean,
    moving,
    per_element,
    rare,
    reducing,
    unknown,
)
from edgewise.model.graph import Tensor


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
    """Times sigmoid(β·x): one multiplication more where β is there and not 1."""
    if len(raw.inputs) < 2 or raw.values(1) in ((1,), (1.0,)):
        return function("silu")
    return mean("elementwise", per_element=1, activation="silu")


def _gelu(raw: RawOperator) -> Semantics:
    tanh = str(raw.attributes.get("approximation_mode", "ERF")).upper() == "TANH"
    return function("gelu-tanh" if tanh else "gelu")


def _normalize_batch(raw: RawOperator) -> Semantics:
    """Data first since opset 5; γ and β before it in opset 1."""
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
    **each(_RECURRENT, network.recur),
    **each(_RARE, rare()),
    **each(_BAGS, rare(0, macs=None)),
    **each("Convolution BinaryConvolution ConvolutionBackpropData", network.convolve),
    **each("GroupConvolution GroupConvolutionBackpropData", network.convolve),
    **each("AdaptiveAvgPool AdaptiveMaxPool", network.pool_adaptively),
    **each("AvgPool MaxPool", network.pool),
    "ReadValue": moving(),  # the first value of a state is no parameter
    **each("BGRtoNV12 RGBtoNV12", _COLOURS),
    "BatchNormInference": _normalize_batch,
    "CTCLoss": unknown("its cost depends on the lengths of the labels"),
    "Concat": lambda raw: moving(*raw.positions),
    "Convert": _convert,
    "DeformableConvolution": network.convolve_deformed,
    "Einsum": network.sum_products,
    # Scale, convert, convert back, scale back; a shift is taken off and added again.
    "FakeConvert": lambda raw: per_element(6 if len(raw.inputs) > 2 else 4, kind="quantize"),
    "FakeQuantize": per_element(6, kind="quantize", weights=(0,)),
    **each("FullyConnected FullyConnectedCompressed GroupedMatMul", network.connect_fully),
    **each("GRN NormalizeL2", per_element(3, kind="normalization")),  # square, add, divide
    "Gelu": _gelu,
    "GridSample": network.sample_grid,
    "GroupNormalization": per_element(8, kind="normalization", weights=(1, 2)),
    # A pixel: 4 shifts and scales, 4 products, 4 sums, 6 for the clamps, over 3 outputs.
    **each("I420toBGR I420toRGB NV12toBGR NV12toRGB", per_element(6)),
    "If": mean("branch"),
    "Interpolate": network.interpolate,
    "Inverse": rare(macs=None),
    "LRN": _normalize_locally,
    "LogSoftmax": mean("softmax", logarithm=True),
    **each("Loop TensorIterator", mean("loop")),
    "MVN": _normalize_variance,
    "MatMul": network.multiply_matrices,
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
    "ScaledDotProductAttention": network.attend,
    **each("ScatterElementsUpdate ScatterNDUpdate", _scatter),
    "Softmax": mean("softmax"),
    "SquaredDifference": per_element(2, weights=(0, 1)),
    "Swish": _swish,
}
"""Every operation of opsets 1 to 17 and those that transformed models have beside them, by their classes' names."""

_PROPER = {**{op.lower(): op for op in OPERATIONS}, "const": "Constant"}
"""An operator's type in small letters → its operation."""
