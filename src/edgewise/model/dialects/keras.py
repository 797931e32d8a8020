"""What Keras' layers cost at inference, by class: https://keras.io/api/layers/.

An operator's inputs are the layer's inputs, then its weights; `attributes` is its configuration, with ``weights``: how
many of the inputs are weights. Layers that are made of others come as their parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    apply,
    counted,
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
    rare,
    reducing,
    shape_of,
    size_of,
    unknown,
)
from edgewise.model.signature import Dimension

FUSED = {
    "linear": "none", "relu": "relu", "relu6": "clamp", "sigmoid": "sigmoid", "hard_sigmoid": "hard-sigmoid",
    "tanh": "tanh", "silu": "silu", "swish": "silu", "gelu": "gelu", "elu": "elu", "selu": "selu", "celu": "celu",
    "exponential": "exp", "softplus": "softplus", "softsign": "softsign", "mish": "mish", "leaky_relu": "leaky-relu",
    "hard_silu": "hard-swish", "hard_swish": "hard-swish", "threshold": "threshold",
}  # fmt: skip
"""Keras' activation → function of `edgewise.model.cost.ACTIVATIONS`; the others are operators of their own."""

MOVEMENT = (
    "Flatten", "Reshape", "Permute", "RepeatVector", "Identity", "Dropout", "SpatialDropout1D", "SpatialDropout2D",
    "SpatialDropout3D", "GaussianDropout", "GaussianNoise", "AlphaDropout", "ActivityRegularization", "Concatenate",
    "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "Cropping1D", "Cropping2D", "Cropping3D", "Embedding",
    "CenterCrop", "RandomCrop", "CategoryEncoding", "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation",
    "RandomContrast", "RandomBrightness", "RandomHue", "RandomSaturation", "RandomSharpness", "RandomShear",
    "RandomErasing", "RandomPerspective", "RandomGaussianBlur",
    "Transpose", "ExpandDims", "Squeeze", "GetItem", "Stack", "Split", "BroadcastTo", "StopGradient", "Pad", "Where",
    "Repeat", "Tile", "Ravel", "Moveaxis", "Swapaxes", "Flip", "Roll",
)  # fmt: skip
"""Random augmentation and noise are for training; at inference they pass on what they get."""

ELEMENTWISE: dict[str, int] = {
    **dict.fromkeys(
        ("Absolute", "Negative", "Square", "Reciprocal", "Floor", "Ceil", "Round", "Sign", "Power", "Equal",
         "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot", "Divide",
         "TrueDivide", "Mod", "Cos", "Tan", "Arctan", "Log1p", "Log2", "Expm1", "Cumsum"), 1),
    "FloorDivide": 2,
    "Rsqrt": 2,
    "Clip": 2,
    "Rescaling": 2,  # multiply, add
    "Masking": 3,  # compare, reduce, multiply
}  # fmt: skip

FUNCTIONS = {
    "Relu": "relu", "Relu6": "clamp", "Sigmoid": "sigmoid", "HardSigmoid": "hard-sigmoid", "Tanh": "tanh",
    "Silu": "silu", "HardSilu": "hard-swish", "Elu": "elu", "Selu": "selu", "Celu": "celu", "Softplus": "softplus",
    "Softsign": "softsign", "Mish": "mish", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Sin": "sin", "Erf": "erf",
    "PReLU": "leaky-relu", "LeakyReLU": "leaky-relu", "LeakyRelu": "leaky-relu", "ELU": "elu",
}  # fmt: skip

REDUCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("Sum", "Prod", "Max", "Min", "Argmax", "Argmin", "Any", "All"), (1, 0)),
    "Mean": (1, 1),
    "Var": (4, 2),
    "Std": (4, 3),
}


def interpret(raw: RawOperator) -> Semantics:
    """Return what the layer `raw` is; an unknown one has the kind "". Its weights are its last inputs."""
    semantics = apply(OPERATORS.get(raw.op), raw)
    return replace(semantics, weights=raw.positions[_sources(raw) :]) if semantics.kind else semantics


def _sources(raw: RawOperator) -> int:
    """Return number of inputs that are no weights."""
    count = raw.attributes.get("weights", 0)
    return max(0, len(raw.inputs) - (count if isinstance(count, int) else 0))


def _function_of(raw: RawOperator, option: str, default: str) -> str:
    """Return the function that an option names. Raises `Unclear` where its cost is not known."""
    name = FUSED.get(word_of(raw.attributes.get(option, default)))
    if name is None:
        raise Unclear("its activation has no known cost")
    return name


def _fused(raw: RawOperator) -> str | None:
    """Return the function that is applied to the outputs; None where there is none, or where it is a step of its
    own.
    """
    function = FUSED.get(str(raw.attributes.get("activation", "linear")), "none")
    return None if function == "none" else function


def _biased(raw: RawOperator) -> bool:
    return raw.attributes.get("use_bias", True) is not False


def _product(kind: str, last: int) -> Rule:
    """Return the rule of a layer whose sums have one product for each place in the kernel's dimensions before `last`.

    Kernels are [kernel…, inputs / groups, outputs] in convolutions, [kernel…, inputs, multiplier] in depthwise ones,
    [kernel…, outputs, inputs] in transposed ones and [inputs, outputs] in dense layers.
    """

    def read(raw: RawOperator) -> Semantics:
        kernel = shape_of(raw.input(1))
        grouped = raw.attributes.get("groups", 1) not in (1, None) and kernel[-2:-1] == (1,)
        depthwise = raw.op.startswith("Depthwise") or (kind == "convolution" and grouped)
        return mean(
            kind,
            reduction=multiply(*kernel[:last]) if kernel else None,
            depthwise=depthwise or None,
            bias=_biased(raw),
            activation=_fused(raw),
        )

    return read


def _einsum_dense(raw: RawOperator) -> Semantics:
    """Return the inner dimension is the product of all of the kernel's indices that the result lacks."""
    left, _, result = str(raw.attributes.get("equation", "")).replace(" ", "").partition("->")
    indices, kernel = left.partition(",")[2], shape_of(raw.input(1))
    gone = [size for letter, size in zip(indices, kernel, strict=False) if letter not in result]
    return mean(
        "matrix-multiplication",
        reduction=multiply(*gone) if len(indices) == len(kernel) else None,
        bias=bool(raw.attributes.get("bias_axes")),
        activation=_fused(raw),
    )


def _dot(raw: RawOperator) -> Semantics:
    """``Dot`` sums over its axes; ``normalize`` divides both factors by their lengths, which is not counted."""
    if raw.attributes.get("normalize") is True:
        return unknown("normalised dot products have no formula")
    axes = raw.attributes.get("axes")
    first = axes[0] if isinstance(axes, list | tuple) and axes else axes
    return mean("matrix-multiplication", reduction=size_of(raw.input(0), first) if isinstance(first, int) else None)


def _merge(raw: RawOperator) -> Semantics:
    """One operation for every tensor after the first; a mean has one division more."""
    return per_element(max(1, len(raw.inputs) - 1) + (1 if raw.op == "Average" else 0))


def _relu(raw: RawOperator) -> Semantics:
    """Return a bound above makes it a clamp, a slope below a leaky one."""
    bounded = raw.attributes.get("max_value") is not None
    leaky = bool(raw.attributes.get("negative_slope"))
    if leaky and bounded:
        return per_element(3)
    return function("leaky-relu" if leaky else "clamp" if bounded else "relu")


def _activation(raw: RawOperator) -> Semantics:
    name = str(raw.attributes.get("activation", ""))
    if name in ("softmax", "log_softmax"):
        return mean("softmax", logarithm=name == "log_softmax")
    if name not in FUSED:
        return unknown(f"the function {name[:60]!r} has no known cost")
    return moving() if FUSED[name] == "none" else function(FUSED[name])


def _computed_normalization(raw: RawOperator) -> Semantics:
    """Mean 1, variance 3, normalise 2; scale and shift are 1 each where they are there."""
    scales = sum(raw.attributes.get(name, True) is not False for name in ("center", "scale"))
    return per_element(4 if raw.attributes.get("rms_scaling") is True else 6 + scales, kind="normalization")


def _pooling(raw: RawOperator, window: int | None) -> Semantics:
    return mean("pooling", window=window, average="Average" in raw.op or None)


def _pool(raw: RawOperator) -> Semantics:
    rank = next((int(letter) for letter in raw.op if letter.isdigit()), 1)
    size = raw.attributes.get("pool_size", 2)
    listed = size if isinstance(size, list | tuple) else (size,) * rank
    return _pooling(raw, multiply(*listed))


def _spatial(raw: RawOperator, shape: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """Return the dimensions of a shape that are neither batch nor channels."""
    return shape[2:] if _channels_first(raw) else shape[1:-1]


def _channels_first(raw: RawOperator) -> bool:
    return raw.attributes.get("data_format") == "channels_first"


def _global_pool(raw: RawOperator) -> Semantics:
    shape = shape_of(raw.input(0))
    return _pooling(raw, multiply(*_spatial(raw, shape)) if len(shape) > 2 else None)


def _adaptive_pool(raw: RawOperator) -> Semantics:
    before, after = (_spatial(raw, shape_of(each)) for each in (raw.input(0), raw.output()))
    batch, channels = size_of(raw.output(), 0), size_of(raw.output(), 1 if _channels_first(raw) else -1)
    return pool_areas(before, after, average="Average" in raw.op, channels=multiply(batch, channels))


def _resize(raw: RawOperator) -> Semantics:
    """``UpSampling`` and ``Resizing``: nothing is computed for the nearest pixel."""
    name = str(raw.attributes.get("interpolation", "bilinear" if raw.op == "Resizing" else "nearest"))
    operations = {"nearest": 0, "bilinear": 7, "bicubic": 31}.get(name)
    if operations is None:
        return unknown(f"{name[:40]} interpolation has no formula")
    return per_element(operations, kind="resize")


def _cast(raw: RawOperator) -> Semantics:
    source, target = raw.input(0), raw.output()
    same = source is not None and target is not None and source.dtype == target.dtype
    return moving() if same else per_element(1)


def _recurrent(raw: RawOperator) -> Semantics:
    """Kernel [input, gates · units], recurrent [units, gates · units], one bias; two for a GRU that resets after."""
    shape, kernel, state, bias = (shape_of(raw.input(at)) for at in range(4))
    if len(shape) != 3 or len(kernel) != 2 or len(state) != 2:
        return unknown("a recurrent layer needs tensors of rank 3")
    gates = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}[raw.op]
    inner = _function_of(raw, "activation", "tanh")
    gate = [_function_of(raw, "recurrent_activation", "sigmoid")] if gates > 1 else []
    named = [*gate, inner, *([inner] if gates == 4 else [])]
    return mean(
        "recurrent",
        **_numbers(hidden=state[0], input=kernel[0], steps=shape[1], batch=shape[0]),
        gates=gates,
        biases=(bias[0] if len(bias) == 2 else 1) if bias else 0,
        further=other_functions(gates, [ACTIVATIONS[name] for name in named]),
    )


def _separable(raw: RawOperator) -> Semantics:
    """Return a depthwise convolution without bias, [kernel…, inputs, multiplier], then one of kernel size 1 to the
    outputs.
    """
    outputs, activation = elements(raw.output()), _fused(raw) or "none"
    pointwise = shape_of(raw.input(2))
    window, between, filters = product_of(raw.input(1), 0, -2), multiply(*pointwise[:-1]), multiply(*pointwise[-1:])
    if outputs is None or window is None or between is None or not filters or len(pointwise) < 3:
        return counted(None, None)
    macs = outputs // filters * between * (window + filters)
    return counted(macs, 2 * macs + outputs * (ACTIVATIONS[activation] + _biased(raw)))


def _attention(raw: RawOperator) -> Semantics:
    """``Attention`` without projections, by scores that are products."""
    if isinstance(geometry := raw.attributes.get("geometry"), dict):  # projections are layers of their own
        return mean("attention", **_numbers(**geometry))
    shapes = [shape_of(each) for each in raw.inputs[: _sources(raw)]]
    if not shapes or any(len(shape) != 3 for shape in shapes):
        return unknown("attention over several axes has no formula here")
    query, value = shapes[0], shapes[min(1, len(shapes) - 1)]
    key = shapes[2] if len(shapes) > 2 else value
    (batch, queries, depth), width = query, value[2]
    if raw.attributes.get("score_mode", "dot") == "concat":
        return rare(macs=None)
    numbers = {"batch": batch, "queries": queries, "keys": key[1], "depth": depth, "value_depth": width}
    return mean("attention", heads=1, **_numbers(**numbers))


def _numbers(**geometry: Any) -> dict[str, Any]:
    return {key: value for key, value in geometry.items() if isinstance(value, int)}


def word_of(value: Any) -> str:
    """Return the name of an activation or the like: a word, or an object that names a class."""
    match value:
        case None:
            return "linear"
        case str():
            return value[:100]
        case {"class_name": "function", "config": str(name)}:
            return name[:100]
        case {"config": {"name": str(name)}}:
            return name[:100]
        case {"registered_name": str(name)} | {"class_name": str(name)} if name:
            return name[:100]
    return "?"


_RANKS = (1, 2, 3)

OPERATORS: dict[str, Rule] = {
    **each(MOVEMENT, moving()),
    **{op: per_element(operations) for op, operations in ELEMENTWISE.items()},
    **{op: function(name) for op, name in FUNCTIONS.items()},
    **{op: reducing(*operations) for op, operations in REDUCTIONS.items()},
    **{f"Conv{rank}D": _product("convolution", -1) for rank in _RANKS},
    **{f"Conv{rank}DTranspose": _product("transposed-convolution", -1) for rank in _RANKS},
    **{f"DepthwiseConv{rank}D": _product("convolution", -2) for rank in (1, 2)},
    **{f"{word}Pooling{rank}D": _pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"Global{word}Pooling{rank}D": _global_pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"Adaptive{word}Pooling{rank}D": _adaptive_pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"UpSampling{rank}D": _resize for rank in _RANKS},
    **{f"ConvLSTM{rank}D": rare(macs=None) for rank in _RANKS},
    **{f"SeparableConv{rank}D": _separable for rank in (1, 2)},
    **each("Add Subtract Multiply Average Maximum Minimum", _merge),
    **each("LayerNormalization GroupNormalization", _computed_normalization),
    **each("BatchNormalization Normalization", per_element(2, kind="normalization")),
    "RMSNormalization": per_element(4, kind="normalization"),  # square, add, multiply by the root's reciprocal, scale
    "UnitNormalization": per_element(3, kind="normalization"),  # square, add, multiply by the root's reciprocal
    "Softmax": mean("softmax"),
    "LogSoftmax": mean("softmax", logarithm=True),
    **each("LSTM GRU SimpleRNN", _recurrent),
    **each("MultiHeadAttention GroupQueryAttention Attention", _attention),
    "AdditiveAttention": rare(macs=None),
    "Resizing": _resize,
    "Dense": _product("matrix-multiplication", 1),
    "EinsumDense": _einsum_dense,
    "Dot": _dot,
    "Matmul": lambda raw: mean("matrix-multiplication", reduction=size_of(raw.input(0), -1)),
    "ReLU": _relu,
    "Activation": _activation,
    "Gelu": lambda raw: function("gelu-tanh" if raw.attributes.get("approximate", True) else "gelu"),
    "Cast": _cast,
}
"""Class of a layer or of an operation of ``keras.ops`` → what it means."""
