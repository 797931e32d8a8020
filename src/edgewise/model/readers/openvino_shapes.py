"""Shapes of an OpenVINO network from concrete inputs on.

A file states the shapes that its converter could know; behind an open dimension most are open. What they become is
computed here, operation by operation in the order they run, by the definitions of
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs.html. An operation that is
not in the table, or whose shape depends on data, leaves its outputs as the file has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.model.readers.base import MAX_RANK
from edgewise.model.readers.openvino_shapes_layouts import (
    choose_best,
    concat,
    count_range,
    draw,
    encode_one_hot,
    pad,
    reduce,
    reshape,
    say_shape,
    split,
    split_variably,
    squeeze,
    stretch,
    tile,
    transpose,
    unsqueeze,
)
from edgewise.model.readers.openvino_shapes_products import attend, multiply_matrices, recur, sum_products
from edgewise.model.readers.openvino_shapes_slices import (
    gather,
    gather_alike,
    gather_points,
    slice_plainly,
    slice_strided,
)
from edgewise.model.readers.openvino_shapes_steps import (
    Rule,
    Shape,
    ShapeConflict,
    Step,
    broadcast,
    check_size,
    merge_shapes,
)
from edgewise.model.readers.openvino_shapes_windows import (
    batch_to_space,
    convolve,
    convolve_back,
    depth_to_space,
    interpolate,
    pool,
    pool_adaptively,
    sample_grid,
    space_to_batch,
    space_to_depth,
)


def settle_outputs(step: Step, stated: Sequence[Shape | None]) -> list[Shape | None]:
    """Shapes of the outputs of an operation: those the file states and what its inputs say of them.

    Args:
        step: the operation.
        stated: as the file has them; None where not even the rank is known.

    Raises:
        ShapeConflict: the inputs do not go together, or what they give is not what the file states.
    """
    rule = RULES.get(step.op) if step.version > 0 else None
    found = rule(step) if rule is not None and step.shapes else None
    computed = found if isinstance(found, list) else [found] * len(stated)
    if len(computed) != len(stated):
        computed = [*computed, *[None] * len(stated)][: len(stated)]
    return [_settle(one, other) for one, other in zip(stated, computed, strict=True)]


def _settle(stated: Shape | None, computed: Shape | None) -> Shape | None:
    for size in computed or ():
        if isinstance(size, int):
            check_size(size)
    if computed is not None and len(computed) > MAX_RANK:
        raise ShapeConflict(f"{len(computed)} dimensions, more than {MAX_RANK}")
    return merge_shapes(stated, computed)


def _alike(step: Step) -> Shape | None:
    return step.shape(0)


def _stretched(step: Step) -> Shape | None:
    """Element by element: numpy's rule, the older one of PaddlePaddle where the first input decides, or none."""
    mode = step.word("auto_broadcast", "numpy")
    answer = step.shape(0)
    if mode == "pdpd":
        return answer
    for shape in step.shapes[1:]:
        answer = broadcast(answer, shape) if mode == "numpy" else merge_shapes(answer, shape)
    return answer


def _normalized(step: Step) -> Shape | None:
    """Opset 1 has the data behind its scale and offset."""
    return step.shape(2 if step.version < 5 else 0)


def _searched(step: Step) -> Shape | None:
    return step.shape(1)


_STRETCHED = (
    "Add BitwiseAnd BitwiseLeftShift BitwiseOr BitwiseRightShift BitwiseXor Divide Equal FakeQuantize FloorMod Greater "
    "GreaterEqual Less LessEqual LogicalAnd LogicalOr LogicalXor Maximum Minimum Mod Multiply NotEqual Power Select "
    "SquaredDifference Subtract Xor"
)
_ALIKE = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Bucketize Ceiling Clamp Convert ConvertLike Cos Cosh CumSum Elu "
    "Erf ErfInv Exp FakeConvert Floor GRN Gelu GroupNormalization HSigmoid HSwish HardSigmoid Identity Inverse "
    "IsFinite IsInf IsNaN LRN Log LogSoftmax LogicalNot MVN Mish Negative NormalizeL2 PReLU RMS ReLU Reverse "
    "ReverseSequence Roll Round ScatterElementsUpdate ScatterNDUpdate ScatterUpdate Selu ShuffleChannels Sigmoid Sign "
    "Sin Sinh SoftMax SoftPlus SoftSign Sqrt Swish Tan Tanh"
)
_REDUCING = "ReduceL1 ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
_RECURRENT = "AUGRUCell AUGRUSequence GRUCell GRUSequence LSTMCell LSTMSequence RNNCell RNNSequence"

_NAMED: dict[str, Rule] = {
    **dict.fromkeys(_STRETCHED.split(), _stretched),
    **dict.fromkeys(_ALIKE.split(), _alike),
    **dict.fromkeys(_REDUCING.split(), reduce),
    **dict.fromkeys(_RECURRENT.split(), recur),
    **dict.fromkeys(("AvgPool", "MaxPool"), pool),
    **dict.fromkeys(("AdaptiveAvgPool", "AdaptiveMaxPool"), pool_adaptively),
    **dict.fromkeys(("BinaryConvolution", "Convolution", "GroupConvolution"), convolve),
    **dict.fromkeys(("ConvolutionBackpropData", "GroupConvolutionBackpropData"), convolve_back),
    "BatchNormInference": _normalized,
    "BatchToSpace": batch_to_space,
    "Broadcast": stretch,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Einsum": sum_products,
    "Gather": gather,
    "GatherElements": gather_alike,
    "GatherND": gather_points,
    "GridSample": sample_grid,
    "Interpolate": interpolate,
    "MatMul": multiply_matrices,
    "OneHot": encode_one_hot,
    "Pad": pad,
    "RandomUniform": draw,
    "Range": count_range,
    "Reshape": reshape,
    "ScaledDotProductAttention": attend,
    "SearchSorted": _searched,
    "ShapeOf": say_shape,
    "Slice": slice_plainly,
    "SpaceToBatch": space_to_batch,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "StridedSlice": slice_strided,
    "Tile": tile,
    "TopK": choose_best,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
    "VariadicSplit": split_variably,
}
RULES = {op.lower(): rule for op, rule in _NAMED.items()}
"""Operation, in lower case as the format is not of one mind → what its definition says of its outputs."""
