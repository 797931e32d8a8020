"""What the operators of OpenVINO's opsets 1 to 17 mean.

Their definitions are those of https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html; the
counts follow `edgewise.model.cost`. An operator that chooses by value, or whose work depends on data, has the kind of
sorting: no multiply-accumulates, and operations that are unknown with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise.model.dialects.base import Meaning, Question
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

Translate = Callable[[Question], Meaning]


def read_meaning(question: Question) -> Meaning:
    """Kind, geometry and weights of an operator; the kind is "" for a type that OpenVINO's opsets do not have."""
    translate = _BY_NAME.get(question.op.lower())
    if translate is None:
        return Meaning()
    # IR calls some types by other letters than their operation has: ReLU, SoftMax, PReLU.
    proper = _PROPER[question.op.lower()]
    return translate(
        Question(
            op=proper,
            domain=question.domain,
            version=question.version,
            attributes=question.attributes,
            inputs=question.inputs,
            outputs=question.outputs,
            values=question.values,
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


def _parameters(question: Question) -> tuple[int, ...]:
    return tuple(at for at, tensor in enumerate(question.inputs) if is_parameter(tensor))


def _first_parameter(question: Question) -> tuple[int, ...]:
    return (0,) if is_parameter(tensor_at(question, 0)) else ()


def _per_element(ops: int) -> Translate:
    def translate(question: Question) -> Meaning:
        return Meaning(kind="elementwise", geometry={"per_element": ops}, weights=_parameters(question))

    return translate


def _function(name: str) -> Translate:
    return lambda question: Meaning(kind="activation", geometry={"activation": name})


def _reduce(*, per_input: int = 1, per_output: int = 0) -> Translate:
    geometry = {"per_input": per_input, "per_output": per_output, "data": 0}
    return lambda question: Meaning(kind="reduction", geometry=geometry)


def _sort(why: str = "") -> Translate:
    return lambda question: Meaning(kind="sorting", why=why)


def _unknown(why: str) -> Translate:
    return lambda question: Meaning(why=why)


def _plain(kind: str, weights: tuple[int, ...] = (), **geometry: Any) -> Translate:
    return lambda question: Meaning(kind=kind, geometry=geometry, weights=weights)


def _move(question: Question) -> Meaning:
    """A table, or weights that are laid out anew; what a state begins with is no parameter."""
    return Meaning(kind="movement", weights=() if question.op == "ReadValue" else _first_parameter(question))


def _join(question: Question) -> Meaning:
    return Meaning(kind="movement", weights=_parameters(question))


def _convert(question: Question) -> Meaning:
    """One conversion per element; weights that are kept in another type are parameters here."""
    first = tensor_at(question, 0)
    stored = first is not None and first.constant and (first.elements or 0) > 1 and first.dtype not in _INDICES
    return Meaning(kind="elementwise", geometry={"per_element": 1}, weights=(0,) if stored else ())


_INDICES = {"int64", "int32", "uint64", "uint32", "bool", "string"}


def _promote(question: Question) -> Meaning:
    """Both inputs to their common type: one conversion per element of those that have another."""
    pairs = [(one, other) for one, other in zip(question.inputs, question.outputs, strict=False) if one and other]
    changed = [other.elements for one, other in pairs if one.dtype != other.dtype]
    return count_all(0, None if None in changed else sum(size or 0 for size in changed))


def _scatter(question: Question) -> Meaning:
    """With a reduction, one operation per update; else values are only moved."""
    if question.attributes.get("reduction", "none") == "none":
        return Meaning(kind="movement")
    return count_all(0, multiply(sizes_at(question, 2)))


def _swish(question: Question) -> Meaning:
    """Times sigmoid(β·x): one multiplication more where β is there and not 1."""
    plain = len(question.inputs) < 2 or question.values(1) in ((1,), (1.0,))
    if plain:
        return Meaning(kind="activation", geometry={"activation": "silu"})
    return Meaning(kind="elementwise", geometry={"per_element": 1, "activation": "silu"})


def _gelu(question: Question) -> Meaning:
    tanh = str(question.attributes.get("approximation_mode", "ERF")).upper() == "TANH"
    return Meaning(kind="activation", geometry={"activation": "gelu-tanh" if tanh else "gelu"})


def _normalize_batch(question: Question) -> Meaning:
    """Data first since opset 5; γ and β before it in opset 1."""
    weights = (0, 1, 3, 4) if question.version in range(1, 5) else (1, 2, 3, 4)
    return Meaning(kind="normalization", geometry={"per_element": 2}, weights=weights)


def _normalize_variance(question: Question) -> Meaning:
    """Mean (1) and its subtraction (1); variance (3) and division (1) where they are asked for."""
    full = question.attributes.get("normalize_variance", True) is not False
    return Meaning(kind="normalization", geometry={"per_element": 6 if full else 2})


def _normalize_locally(question: Question) -> Meaning:
    """Over (bias + α/n·Σx²)^β over ``size`` neighbours along each axis: squares and sums (1 each), four more."""
    size, axes = question.attributes.get("size"), question.values(1)
    window = size ** len(axes) if type(size) is int and axes is not None and len(axes) <= 8 else None
    return Meaning(kind="normalization", geometry=known(per_element=window + 4 if window is not None else None))


def _quantize_float(question: Question) -> Meaning:
    """FakeConvert: scale, convert, convert back, scale back; a shift is taken off and added again."""
    return Meaning(kind="quantize", geometry={"per_element": 6 if len(question.inputs) > 2 else 4})


def _search(question: Question) -> Meaning:
    """A binary search for each value: ⌈log₂(n + 1)⌉ comparisons among n bounds."""
    bounds = sizes_at(question, 0 if question.op == "SearchSorted" else 1)
    size = bounds[-1] if bounds else None
    return Meaning(kind="elementwise", geometry=known(per_element=size.bit_length() if isinstance(size, int) else None))


def _draw_priors(question: Question) -> Meaning:
    """Half of the outputs are corners (centre ± half a side, over the image's side), half are copied variances."""
    return Meaning(kind="elementwise", geometry={"per_element": 2 if question.attributes.get("clip") is True else 1})


def _invert(question: Question) -> Meaning:
    """n³ multiply-accumulates per matrix: LU and its inverse (LAPACK's dgetrf and dgetri, 2·n³ operations together)."""
    sizes = sizes_at(question, 0)
    elements = multiply(sizes)
    side = sizes[-1] if sizes else None
    macs = elements * side if elements is not None and isinstance(side, int) else None
    return count_all(macs, 2 * macs if macs is not None else None)


def _compare_all(question: Question) -> Meaning:
    """One comparison per element of the input, however many it finds."""
    return count_all(0, multiply(sizes_at(question, 0)))


_NOISE = "what a random number costs is the generator's affair"
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
    "BGRtoNV12": _unknown("how it averages colours is the engine's affair"),
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
    "FakeQuantize": lambda question: Meaning(
        kind="quantize", geometry={"per_element": 6}, weights=_first_parameter(question)
    ),
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
    "RGBtoNV12": _unknown("how it averages colours is the engine's affair"),
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
