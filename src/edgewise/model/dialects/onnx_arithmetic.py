"""ONNX operators that work element by element, reduce, move, select or run other graphs."""

from __future__ import annotations

from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    add,
    data_dependent,
    each,
    function,
    mean,
    moving,
    multiply,
    per_element,
    rare,
    reducing,
    size,
    unknown,
)  # fmt: skip

_STRINGS = "it works on strings, whose lengths depend on the data"


def _read_variadic(raw: RawOperator, *, further: int = 0) -> Semantics:
    """Of n inputs, element by element: n − 1 operations and `further` ones."""
    operations = max(len(raw.inputs) - 1, 0) + further
    return per_element(operations, weights=raw.positions)


def read_clip(raw: RawOperator) -> Semantics:
    """Return a clamp, or half of one where a bound is left out."""
    if raw.version and raw.version < 11:
        bounds = sum(name in raw.attributes for name in ("min", "max"))
    else:
        bounds = raw.given(1) + raw.given(2)
    return function(("none", "relu", "clamp")[bounds], weights=(0,))


def read_gelu(raw: RawOperator) -> Semantics:
    """GELU, exact or with a hyperbolic tangent."""
    name = "gelu-tanh" if raw.text("approximate", "none") == "tanh" else "gelu"
    return function(name, weights=(0,))


def _scaling(raw: RawOperator) -> int:
    """One multiplication where the factor inside a sigmoid is not 1."""
    return 0 if raw.number("alpha", 1.0) == 1.0 else 1


def read_dropout(raw: RawOperator) -> Semantics:
    """Nothing when inferring; in training a draw, a comparison and two multiplications per element."""
    if not raw.given(2):
        return moving(0)
    values = raw.values(2)
    if not values:
        return unknown("whether it drops anything depends on an input")
    return per_element(4) if values[0] else moving(0)


_REDUCTIONS: dict[str, tuple[int, int]] = {
    "ReduceSum": (1, 0),
    "ReduceMax": (1, 0),
    "ReduceMin": (1, 0),
    "ReduceProd": (1, 0),
    "ReduceMean": (1, 1),
    "ReduceL1": (2, 0),  # absolute value, add
    "ReduceL2": (2, 1),  # multiply, add; root
    "ReduceSumSquare": (2, 0),  # multiply, add
    "ReduceLogSum": (1, 1),  # add; logarithm
    "ReduceLogSumExp": (2, 1),  # exponential, add; logarithm
}
"""Operations per input element and per output element."""

_WITHOUT_AXES = {"ReduceL1": 1, "ReduceL2": 2, "ReduceSumSquare": 1, "ReduceLogSum": 1, "ReduceLogSumExp": 2}
"""Operations per element where no dimension is reduced: what is left are the functions before and after the sum."""


def read_reduction(raw: RawOperator) -> Semantics:
    """Return a reduction, or what is left of it where `noop_with_empty_axes` leaves no axis to reduce."""
    if raw.integer("noop_with_empty_axes", 0) and not raw.listed("axes"):
        values = raw.values(1)
        axes = len(values) if values is not None else size(raw.input(1), 0)
        if axes is None and raw.given(1):
            return unknown("whether it reduces anything depends on an input")
        if not axes:
            left = _WITHOUT_AXES.get(raw.op, 0)
            return per_element(left) if left else moving()
    return reducing(*_REDUCTIONS[raw.op])


def read_scatter(raw: RawOperator) -> Semantics:
    """Movement, or one operation per update where updates are combined with what is there.

    What a value is repeated in all over holds no parameters: the file stores the updates alone.
    """
    base = raw.input(0)
    repeated = base is not None and base.repeated
    weights = (2,) if repeated else (0, 2)
    if raw.text("reduction", "none") == "none":
        return moving(*weights)
    return reducing(data=2, weights=weights)


def read_loop(raw: RawOperator) -> Semantics:
    """Return a loop, with `trips` where a constant says how many.

    Without a condition as input, the count alone decides. With one that is true at first, the body may still end the
    loop early: whoever sees the body must take `trips` away where it computes the condition anew.
    """
    condition = raw.values(1) if raw.given(1) else (True,)
    if condition and not condition[0]:
        return mean("loop", trips=0)
    return mean("loop", trips=raw.constant_size(0) if condition else None)


def read_scan(raw: RawOperator) -> Semantics:
    """Return a loop along an axis of its scanned inputs; the first version of the operator has a batch around it."""
    scanned = raw.integer("num_scan_inputs", 1)
    if not 1 <= scanned <= len(raw.inputs):
        raise Unclear(f"it scans {scanned} of {len(raw.inputs)} inputs")
    first = raw.input(len(raw.inputs) - scanned)
    if raw.version and raw.version < 9:
        return mean("loop", trips=multiply(size(first, 0), size(first, 1)))
    axes = raw.listed("scan_input_axes") or (0,)
    if not isinstance(axes[0], int):
        raise Unclear("its scan axis is not a whole number")
    return mean("loop", trips=size(first, axes[0]))


_TWO_OPERANDS = (
    "Add Sub Mul Div Pow Mod And Or Xor BitwiseAnd BitwiseOr BitwiseXor BitShift "
    "Equal Greater GreaterOrEqual Less LessOrEqual"
)
_ONE_OPERAND = (
    "Abs Neg Ceil Floor Round Reciprocal Not BitwiseNot IsNaN IsInf Cast CastLike CumSum CumProd "
    "Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh"
)
"""The last ten are functions of the processor's library: one operation, as `edgewise.model.cost` counts those."""

_FUNCTIONS = {
    "Relu": "relu", "LeakyRelu": "leaky-relu", "ThresholdedRelu": "threshold", "Sign": "sign",
    "HardSigmoid": "hard-sigmoid", "HardSwish": "hard-swish", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Sin": "sin",
    "Erf": "erf", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Softsign": "softsign", "Elu": "elu",
    "Selu": "selu", "Celu": "celu", "Mish": "mish",
}  # fmt: skip

_MOVING = (
    "CenterCropPad Compress DepthToSpace EyeLike Expand Flatten Gather GatherElements GatherND Identity MaxUnpool "
    "Pad Reshape ReverseSequence Scatter Slice SpaceToDepth Split SplitToSequence Squeeze TensorScatter Tile "
    "Transpose Trilu Unsqueeze BitCast"
)
_MOVING_NO_PARAMETERS = (
    "Constant ConstantOfShape ConcatFromSequence OneHot Optional OptionalGetElement OptionalHasElement Range "
    "SequenceAt SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Size"
)

TABLE: dict[str, Rule] = {
    **each(_TWO_OPERANDS, per_element(1, weights=(0, 1))),
    **each(_ONE_OPERAND, per_element(1, weights=(0,))),
    **{op: function(name, weights=(0,)) for op, name in _FUNCTIONS.items()},
    **each(_MOVING, moving(0)),
    **each(_MOVING_NO_PARAMETERS, moving()),
    **dict.fromkeys(_REDUCTIONS, read_reduction),
    **each("Sum Max Min", _read_variadic),
    **each("ScatterElements ScatterND", read_scatter),
    "Mean": lambda raw: _read_variadic(raw, further=1),  # mean of n inputs: n − 1 additions and a division
    "Where": moving(1, 2),
    "PRelu": function("leaky-relu", weights=(1,)),
    "Shrink": per_element(3, weights=(0,)),  # two comparisons and an addition
    "Hardmax": per_element(2, weights=(0,)),  # one comparison for the maximum, one with it
    "Clip": read_clip,
    "Gelu": read_gelu,
    # Swish is x · sigmoid(α · x).
    "Swish": lambda raw: mean("elementwise", per_element=_scaling(raw), activation="silu", weights=(0,)),
    # Swish of one input, times the other.
    "SwiGLU": lambda raw: mean("elementwise", per_element=1 + _scaling(raw), activation="silu", weights=(0, 1)),
    **each("Concat SequenceConstruct", lambda raw: moving(*raw.positions)),
    "Dropout": read_dropout,
    "Col2Im": reducing(),  # each element is added to the place in the image that it comes from
    # Each coordinate is a row of `theta` times a homogeneous point: 3 MACs in the plane, 4 in space.
    "AffineGrid": lambda raw: mean("matrix-multiplication", reduction=add(size(raw.output(), -1), 1)),
    **each("ArgMax ArgMin", reducing()),
    # A drawn random number is one call of a library, then it is scaled and shifted, or compared.
    **each("RandomNormal RandomNormalLike RandomUniform RandomUniformLike", per_element(3)),
    "Bernoulli": per_element(2),
    "Multinomial": data_dependent("how many classes a draw looks at depends on the data"),
    **each("TopK NonZero Unique NonMaxSuppression", data_dependent()),
    "MaxRoiPool": data_dependent("how many elements a region has depends on the data"),
    "TfIdfVectorizer": data_dependent("how many n-grams it finds depends on the data"),
    "If": Semantics(kind="branch"),
    "Loop": read_loop,
    "Scan": read_scan,
    "SequenceMap": Semantics(kind="loop"),
    **each("StringConcat StringNormalizer StringSplit RegexFullMatch", data_dependent(_STRINGS)),
    "ImageDecoder": unknown("the cost of decoding depends on the image"),
    **each("DFT STFT RoiAlign", rare()),
    **each("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", rare(2)),
    "Det": rare(macs=None),
    # Both slopes of a triangle (subtract, divide), the smaller of them, and not below 0; its edges are not counted.
    "MelWeightMatrix": per_element(6),
    **each("HannWindow HammingWindow", per_element(4)),  # a₀ − a₁·cos(c·n)
    "BlackmanWindow": per_element(8),  # a₀ − a₁·cos(c·n) + a₂·cos(2·c·n)
    # Operators that ONNX had before its first stable set, and that some engines still run.
    "Affine": per_element(2, weights=(0,)),
    "Scale": per_element(1, weights=(0,)),
    "ImageScaler": per_element(2, weights=(0,)),
    "ParametricSoftplus": mean("elementwise", per_element=2, activation="softplus", weights=(0,)),
    "ScaledTanh": mean("elementwise", per_element=2, activation="tanh", weights=(0,)),
    **each("Crop DynamicSlice", moving(0)),
    "GivenTensorFill": moving(),
}
"""Operator of the standard set → what it means."""
