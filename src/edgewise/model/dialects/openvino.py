"""What the operators of OpenVINO's opsets 1 to 17 mean.

Their definitions are those of https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html; the
counts follow `edgewise.model.cost`. An operator that chooses by value, or whose work depends on data, has the kind of
sorting: no multiply-accumulates, and operations that are unknown with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.openvino_products import (
    attend,
    connect_fully,
    convolve,
    convolve_deformed,
    convolve_transposed,
    count_all,
    known,
    multiply,
    multiply_groups,
    multiply_matrices,
    recur,
    sizes_at,
    sum_products,
    tensor_at,
)
from edgewise.model.dialects.openvino_windows import (
    align_regions,
    embed_bag,
    find_objects,
    interpolate,
    pool,
    pool_adaptively,
    pool_deformed,
    pool_positions,
    pool_regions,
    sample_grid,
    transform,
    transform_frames,
)
from edgewise.model.graph import Tensor

Translate = Callable[[RawOperator], Semantics]


def interpret(raw: RawOperator) -> Semantics:
    """Kind, geometry and weights of an operator; the kind is "" for a type that OpenVINO's opsets do not have."""
    translate = _BY_NAME.get(raw.op.lower())
    if translate is None:
        return Semantics()
    # IR calls some types by other letters than their operation has: ReLU, SoftMax, PReLU.
    proper = _PROPER[raw.op.lower()]
    return translate(
        RawOperator(
            op=proper,
            domain=raw.domain,
            version=raw.version,
            attributes=raw.attributes,
            inputs=raw.inputs,
            outputs=raw.outputs,
            values=raw.values,
        )
    )


def is_known(op: str) -> bool:
    """Whether the type is one of OpenVINO's own."""
    return op.lower() in _BY_NAME


def is_parameter(tensor: Tensor | None) -> bool:
    """Whether a constant that an arithmetic operator takes counts as a parameter: real numbers, and no lone scalar."""
    if tensor is None or not tensor.constant or tensor.shape is None:
        return False
    real = "float" in tensor.dtype or tensor.dtype == "nf4" or tensor.quantization is not None
    return real and not (tensor.elements == 1 and len(tensor.shape) <= 1)


def _parameters(raw: RawOperator) -> tuple[int, ...]:
    return tuple(at for at, tensor in enumerate(raw.inputs) if is_parameter(tensor))


def _first_parameter(raw: RawOperator) -> tuple[int, ...]:
    return (0,) if is_parameter(tensor_at(raw, 0)) else ()


def _per_element(ops: int) -> Translate:
    def translate(raw: RawOperator) -> Semantics:
        return Semantics(kind="elementwise", geometry={"per_element": ops}, weights=_parameters(raw))

    return translate


def _function(name: str) -> Translate:
    return lambda raw: Semantics(kind="activation", geometry={"activation": name})


def _reduce(*, per_input: int = 1, per_output: int = 0) -> Translate:
    geometry = {"per_input": per_input, "per_output": per_output, "data": 0}
    return lambda raw: Semantics(kind="reduction", geometry=geometry)


def _sort(why: str = "") -> Translate:
    return lambda raw: Semantics(kind="sorting", why=why)


def _unknown(why: str) -> Translate:
    return lambda raw: Semantics(why=why)


def _plain(kind: str, weights: tuple[int, ...] = (), **geometry: Any) -> Translate:
    return lambda raw: Semantics(kind=kind, geometry=geometry, weights=weights)


def _move(raw: RawOperator) -> Semantics:
    """A table, or weights that are laid out anew; what a state begins with is no parameter."""
    return Semantics(kind="movement", weights=() if raw.op == "ReadValue" else _first_parameter(raw))


def _join(raw: RawOperator) -> Semantics:
    return Semantics(kind="movement", weights=_parameters(raw))


def _convert(raw: RawOperator) -> Semantics:
    """One conversion per element; weights that are kept in another type are parameters here."""
    first = tensor_at(raw, 0)
    stored = first is not None and first.constant and (first.elements or 0) > 1 and first.dtype not in _INDICES
    return Semantics(kind="elementwise", geometry={"per_element": 1}, weights=(0,) if stored else ())


_INDICES = {"int64", "int32", "uint64", "uint32", "bool", "string"}


def _promote(raw: RawOperator) -> Semantics:
    """Both inputs to their common type: one conversion per element of those that have another."""
    pairs = [(one, other) for one, other in zip(raw.inputs, raw.outputs, strict=False) if one and other]
    changed = [other.elements for one, other in pairs if one.dtype != other.dtype]
    return count_all(0, None if None in changed else sum(size or 0 for size in changed))


def _scatter(raw: RawOperator) -> Semantics:
    """With a reduction, one operation per update; else values are only moved."""
    if raw.attributes.get("reduction", "none") == "none":
        return Semantics(kind="movement")
    return count_all(0, multiply(sizes_at(raw, 2)))


def _swish(raw: RawOperator) -> Semantics:
    """Times sigmoid(β·x): one multiplication more where β is there and not 1."""
    plain = len(raw.inputs) < 2 or raw.values(1) in ((1,), (1.0,))
    if plain:
        return Semantics(kind="activation", geometry={"activation": "silu"})
    return Semantics(kind="elementwise", geometry={"per_element": 1, "activation": "silu"})


def _gelu(raw: RawOperator) -> Semantics:
    tanh = str(raw.attributes.get("approximation_mode", "ERF")).upper() == "TANH"
    return Semantics(kind="activation", geometry={"activation": "gelu-tanh" if tanh else "gelu"})


def _normalize_batch(raw: RawOperator) -> Semantics:
    """Data first since opset 5; γ and β before it in opset 1."""
    weights = (0, 1, 3, 4) if raw.version in range(1, 5) else (1, 2, 3, 4)
    return Semantics(kind="normalization", geometry={"per_element": 2}, weights=weights)


def _normalize_variance(raw: RawOperator) -> Semantics:
    """Mean (1) and its subtraction (1); variance (3) and division (1) where they are asked for."""
    full = raw.attributes.get("normalize_variance", True) is not False
    return Semantics(kind="normalization", geometry={"per_element": 6 if full else 2})


def _normalize_locally(raw: RawOperator) -> Semantics:
    """Over (bias + α/n·Σx²)^β over ``size`` neighbours along each axis: squares and sums (1 each), four more."""
    size, axes = raw.attributes.get("size"), raw.values(1)
    window = size ** len(axes) if type(size) is int and axes is not None and len(axes) <= 8 else None
    return Semantics(kind="normalization", geometry=known(per_element=window + 4 if window is not None else None))


def _quantize_float(raw: RawOperator) -> Semantics:
    """FakeConvert: scale, convert, convert back, scale back; a shift is taken off and added again."""
    return Semantics(kind="quantize", geometry={"per_element": 6 if len(raw.inputs) > 2 else 4})


def _search(raw: RawOperator) -> Semantics:
    """A binary search for each value: ⌈log₂(n + 1)⌉ comparisons among n bounds."""
    bounds = sizes_at(raw, 0 if raw.op == "SearchSorted" else 1)
    size = bounds[-1] if bounds else None
    return Semantics(
        kind="elementwise", geometry=known(per_element=size.bit_length() if isinstance(size, int) else None)
    )


def _draw_priors(raw: RawOperator) -> Semantics:
    """Half of the outputs are corners (centre ± half a side, over the image's side), half are copied variances."""
    return Semantics(kind="elementwise", geometry={"per_element": 2 if raw.attributes.get("clip") is True else 1})


def _invert(raw: RawOperator) -> Semantics:
    """n³ multiply-accumulates per matrix: LU and its inverse (LAPACK's dgetrf and dgetri, 2·n³ operations together)."""
    sizes = sizes_at(raw, 0)
    elements = multiply(sizes)
    side = sizes[-1] if sizes else None
    macs = elements * side if elements is not None and isinstance(side, int) else None
    return count_all(macs, 2 * macs if macs is not None else None)


def _compare_all(raw: RawOperator) -> Semantics:
    """One comparison per element of the input, however many it finds."""
    return count_all(0, multiply(sizes_at(raw, 0)))


_NOISE = "the cost of a random number depends on the generator"
_BOXES = "how many boxes are compared depends on the data"

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
_RECURRENT = (
    "AUGRUCell", "AUGRUSequence", "GRUCell", "GRUSequence", "LSTMCell", "LSTMSequence", "RNNCell",
    "RNNSequence",
)  # fmt: skip
_TRANSFORMS = (
    "DFT", "IDFT", "IRDFT", "RDFT",
)  # fmt: skip
_BAGS = (
    "EmbeddingBagOffsets", "EmbeddingBagOffsetsSum", "EmbeddingBagPacked", "EmbeddingBagPackedSum",
    "EmbeddingSegmentsSum",
)  # fmt: skip

OPERATIONS: Mapping[str, Translate] = {
    **dict.fromkeys(_MOVING, _move),
    **dict.fromkeys(_ONCE, _per_element(1)),
    **{op: _function(name) for op, name in _FUNCTIONS.items()},
    **dict.fromkeys(_SORTED, _sort()),
    **dict.fromkeys(_BOXED, _sort(_BOXES)),
    **dict.fromkeys(_RECURRENT, recur),
    **dict.fromkeys(_TRANSFORMS, transform),
    **dict.fromkeys(_BAGS, embed_bag),
    "AdaptiveAvgPool": pool_adaptively,
    "AdaptiveMaxPool": pool_adaptively,
    "AvgPool": pool,
    "BGRtoNV12": _unknown("the engine decides how it averages colours"),
    "BatchNormInference": _normalize_batch,
    "BinaryConvolution": convolve,
    "Bucketize": _search,
    "CTCGreedyDecoder": _reduce(),
    "CTCGreedyDecoderSeqLen": _reduce(),
    "CTCLoss": _unknown("its cost depends on the lengths of the labels"),
    "Col2Im": _reduce(),
    "Concat": _join,
    "Convert": _convert,
    "ConvertPromoteTypes": _promote,
    "Convolution": convolve,
    "ConvolutionBackpropData": convolve_transposed,
    "DeformableConvolution": convolve_deformed,
    "DeformablePSROIPooling": pool_deformed,
    "Einsum": sum_products,
    "ExperimentalDetectronROIFeatureExtractor": align_regions,
    "FakeConvert": _quantize_float,
    "FakeQuantize": lambda raw: Semantics(kind="quantize", geometry={"per_element": 6}, weights=_first_parameter(raw)),
    "FullyConnected": connect_fully,
    "FullyConnectedCompressed": connect_fully,
    "GRN": _plain("normalization", per_element=3),  # square, add, divide
    "Gelu": _gelu,
    "GridSample": sample_grid,
    "GroupConvolution": convolve,
    "GroupConvolutionBackpropData": convolve_transposed,
    "GroupNormalization": _plain("normalization", (1, 2), per_element=8),
    "GroupedMatMul": multiply_groups,
    "I420toBGR": _per_element(6),  # a pixel: 4 shifts and scales, 4 products, 4 sums, 6 for the clamps, over 3 outputs
    "I420toRGB": _per_element(6),
    "ISTFT": transform_frames,
    "If": _plain("branch"),
    "Interpolate": interpolate,
    "Inverse": _invert,
    "LRN": _normalize_locally,
    "LogSoftmax": _plain("softmax", logarithm=True),
    "Loop": _plain("loop"),
    "MVN": _normalize_variance,
    "MatMul": multiply_matrices,
    "MaxPool": pool,
    "Multinomial": _unknown(_NOISE),
    "NV12toBGR": _per_element(6),
    "NV12toRGB": _per_element(6),
    "NonZero": _compare_all,
    "NormalizeL2": _plain("normalization", per_element=3),  # square, add, divide
    "PRelu": _plain("activation", (1,), activation="leaky-relu"),
    "PSROIPooling": pool_positions,
    "PriorBox": _draw_priors,
    "PriorBoxClustered": _draw_priors,
    "RGBtoNV12": _unknown("the engine decides how it averages colours"),
    "RMS": _plain("normalization", (1,), per_element=4),  # square, add, divide, scale
    "ROIAlign": align_regions,
    "ROIAlignRotated": align_regions,
    "ROIPooling": pool_regions,
    "RandomUniform": _unknown(_NOISE),
    "ReduceL1": _reduce(per_input=2),
    "ReduceL2": _reduce(per_input=2, per_output=1),
    "ReduceLogicalAnd": _reduce(),
    "ReduceLogicalOr": _reduce(),
    "ReduceMax": _reduce(),
    "ReduceMean": _reduce(per_output=1),
    "ReduceMin": _reduce(),
    "ReduceProd": _reduce(),
    "ReduceSum": _reduce(),
    "RegionYolo": find_objects,
    "RoPE": _per_element(3),
    "STFT": transform_frames,
    "ScaledDotProductAttention": attend,
    "ScatterElementsUpdate": _scatter,
    "ScatterNDUpdate": _scatter,
    "SearchSorted": _search,
    "SegmentMax": _compare_all,
    "Softmax": _plain("softmax"),
    "SquaredDifference": _per_element(2),
    "Swish": _swish,
    "TensorIterator": _plain("loop"),
}
"""Every operation of opsets 1 to 17 and those that transformed models have beside them, by their classes' names."""

_ALIASES = {"const": "Constant"}
_PROPER = {**{op.lower(): op for op in OPERATIONS}, **_ALIASES}
_BY_NAME = {name: OPERATIONS[op] for name, op in _PROPER.items()}
