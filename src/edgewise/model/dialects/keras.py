"""What Keras' layers cost at inference, by class: https://keras.io/api/layers/.

A question's inputs are the layer's inputs, then its weights; `attributes` is its configuration, with ``weights``: how
many of the inputs are weights. Layers that are made of others come as their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from edgewise.model.dialects.base import Meaning, Question
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

Reading = Callable[[Question], Meaning]


def read_meaning(question: Question) -> Meaning:
    """What the layer `question` is; an unknown one has the kind ""."""
    reading = OPERATORS.get(question.op)
    return Meaning() if reading is None else reading(question)


def _mean(question: Question, kind: str, **geometry: Any) -> Meaning:
    count = question.attributes.get("weights", 0)
    first = len(question.inputs) - (count if isinstance(count, int) else 0)
    known = {name: value for name, value in geometry.items() if value is not None}
    return Meaning(kind=kind, geometry=known, weights=tuple(range(first, len(question.inputs))))


def _shape(question: Question, at: int) -> tuple[Dimension, ...]:
    tensor = question.inputs[at] if -len(question.inputs) <= at < len(question.inputs) else None
    return (tensor.shape or ()) if tensor is not None else ()


def _output(question: Question) -> tuple[Dimension, ...]:
    tensor = question.outputs[0] if question.outputs else None
    return (tensor.shape or ()) if tensor is not None else ()


def _product(sizes: tuple[Dimension, ...]) -> int | None:
    known = [size for size in sizes if isinstance(size, int)]
    return prod(known) if len(known) == len(sizes) else None


def _fused(question: Question) -> str | None:
    """The function that is applied to the outputs; None where there is none, or where it is a step of its own."""
    function = FUSED.get(str(question.attributes.get("activation", "linear")), "none")
    return None if function == "none" else function


def _biased(question: Question) -> bool:
    return question.attributes.get("use_bias", True) is not False


def _convolution(question: Question) -> Meaning:
    """The kernel is [kernel…, inputs / groups, outputs]."""
    kernel = _shape(question, 1)
    depthwise = question.attributes.get("groups", 1) not in (1, None) and kernel[-2:-1] == (1,)
    return _mean(
        question, "convolution", reduction=_product(kernel[:-1]) if kernel else None, depthwise=depthwise or None,
        bias=_biased(question), activation=_fused(question),
    )  # fmt: skip


def _depthwise(question: Question) -> Meaning:
    """The kernel is [kernel…, inputs, multiplier]."""
    kernel = _shape(question, 1)
    return _mean(
        question, "convolution", reduction=_product(kernel[:-2]) if kernel else None, depthwise=True,
        bias=_biased(question), activation=_fused(question),
    )  # fmt: skip


def _transposed(question: Question) -> Meaning:
    """The kernel is [kernel…, outputs, inputs]."""
    kernel = _shape(question, 1)
    return _mean(
        question, "transposed-convolution", reduction=_product(kernel[:-1]) if kernel else None,
        bias=_biased(question), activation=_fused(question),
    )  # fmt: skip


def _dense(question: Question) -> Meaning:
    kernel = _shape(question, 1)
    return _mean(
        question, "matrix-multiplication", reduction=_product(kernel[:1]) if kernel else None,
        bias=_biased(question), activation=_fused(question),
    )  # fmt: skip


def _einsum_dense(question: Question) -> Meaning:
    """The inner dimension is the product of all of the kernel's indices that the result lacks."""
    left, _, result = str(question.attributes.get("equation", "")).replace(" ", "").partition("->")
    indices, kernel = left.partition(",")[2], _shape(question, 1)
    gone = tuple(size for letter, size in zip(indices, kernel, strict=False) if letter not in result)
    return _mean(
        question, "matrix-multiplication", reduction=_product(gone) if len(indices) == len(kernel) else None,
        bias=bool(question.attributes.get("bias_axes")), activation=_fused(question),
    )  # fmt: skip


def _dot(question: Question) -> Meaning:
    """``Dot`` sums over its axes; ``normalize`` divides both factors by their lengths, which is not counted."""
    if question.attributes.get("normalize") is True:
        return Meaning(why="normalised dot products have no formula")
    axes, shape = question.attributes.get("axes"), _shape(question, 0)
    first = axes[0] if isinstance(axes, list | tuple) and axes else axes
    size = shape[first] if isinstance(first, int) and -len(shape) <= first < len(shape) else None
    return _mean(question, "matrix-multiplication", reduction=size if isinstance(size, int) else None)


def _matmul(question: Question) -> Meaning:
    return _mean(question, "matrix-multiplication", reduction=_product(_shape(question, 0)[-1:]))


def _merge(question: Question) -> Meaning:
    """One operation for every tensor after the first; a mean has one division more."""
    count = len(question.inputs)
    steps = max(1, count - 1) + (1 if question.op == "Average" else 0)
    return _mean(question, "elementwise", per_element=steps)


def _elementwise(question: Question) -> Meaning:
    return _mean(question, "elementwise", per_element=ELEMENTWISE[question.op])


def _movement(question: Question) -> Meaning:
    return _mean(question, "movement")


def _function(question: Question) -> Meaning:
    return _mean(question, "activation", activation=FUNCTIONS[question.op])


def _relu(question: Question) -> Meaning:
    """A bound above makes it a clamp, a slope below a leaky one."""
    bounded = question.attributes.get("max_value") is not None
    leaky = bool(question.attributes.get("negative_slope"))
    name = "leaky-relu" if leaky else "clamp" if bounded else "relu"
    return (
        _mean(question, "activation", activation=name)
        if not (leaky and bounded)
        else _mean(question, "elementwise", per_element=3)
    )


def _activation(question: Question) -> Meaning:
    name = str(question.attributes.get("activation", ""))
    if name in ("softmax", "log_softmax"):
        return _mean(question, "softmax", logarithm=name == "log_softmax")
    if FUSED.get(name) == "none":
        return _mean(question, "movement")
    if name not in FUSED:
        return Meaning(why=f"the function {name[:60]!r} has no known cost")
    return _mean(question, "activation", activation=FUSED[name])


def _gelu(question: Question) -> Meaning:
    return _mean(
        question, "activation", activation="gelu-tanh" if question.attributes.get("approximate", True) else "gelu"
    )


def _softmax(question: Question) -> Meaning:
    return _mean(question, "softmax", logarithm=question.op == "LogSoftmax")


def _batch_normalization(question: Question) -> Meaning:
    return _mean(question, "normalization", per_element=2)


def _computed_normalization(question: Question) -> Meaning:
    """Mean 1, variance 3, normalise 2; scale and shift are 1 each where they are there."""
    if question.attributes.get("rms_scaling") is True:
        return _mean(question, "normalization", per_element=4)
    scales = sum(question.attributes.get(name, True) is not False for name in ("center", "scale"))
    return _mean(question, "normalization", per_element=6 + scales)


def _rms_normalization(question: Question) -> Meaning:
    """Square, add, multiply by the root's reciprocal, scale."""
    return _mean(question, "normalization", per_element=4)


def _unit_normalization(question: Question) -> Meaning:
    """Square, add, multiply by the root's reciprocal."""
    return _mean(question, "normalization", per_element=3)


def _pool(question: Question) -> Meaning:
    rank = next((int(letter) for letter in question.op if letter.isdigit()), 1)
    size = question.attributes.get("pool_size", 2)
    listed = tuple(size) if isinstance(size, list | tuple) else (size,) * rank
    window = _product(listed) if all(isinstance(each, int) for each in listed) else None
    return _mean(question, "pooling", window=window, average="Average" in question.op or None)


def _global_pool(question: Question) -> Meaning:
    shape = _shape(question, 0)
    spatial = shape[2:] if question.attributes.get("data_format") == "channels_first" else shape[1:-1]
    average = "Average" in question.op or None
    return _mean(question, "pooling", window=_product(spatial) if len(shape) > 2 else None, average=average)


def _adaptive_pool(question: Question) -> Meaning:
    """Windows are of one size where the output's sizes divide the input's; else it is left open."""
    first = question.attributes.get("data_format") == "channels_first"
    pairs = list(zip(_shape(question, 0), _output(question), strict=False))
    pairs = pairs[2:] if first else pairs[1:-1]
    sizes: list[int] = []
    for size, count in pairs:
        if not isinstance(size, int) or not isinstance(count, int) or count < 1 or size % count:
            return Meaning(kind="pooling", why="its windows differ in size")
        sizes.append(size // count)
    return _mean(question, "pooling", window=prod(sizes), average="Average" in question.op or None)


def _resize(question: Question) -> Meaning:
    """``UpSampling`` and ``Resizing``: nothing is computed for the nearest pixel."""
    name = str(question.attributes.get("interpolation", "bilinear" if question.op == "Resizing" else "nearest"))
    per_element = {"nearest": 0, "bilinear": 7, "bicubic": 31}.get(name)
    if per_element is None:
        return Meaning(why=f"{name[:40]} interpolation has no formula")
    return _mean(question, "resize", per_element=per_element)


def _reduction(question: Question) -> Meaning:
    per_input, per_output = REDUCTIONS[question.op]
    return _mean(question, "reduction", per_input=per_input, per_output=per_output)


def _cast(question: Question) -> Meaning:
    source, target = question.inputs[0] if question.inputs else None, question.outputs[0] if question.outputs else None
    same = source is not None and target is not None and source.dtype == target.dtype
    return _mean(question, "movement") if same else _mean(question, "elementwise", per_element=1)


def _stated(question: Question) -> Meaning:
    """What the reader works out from the layer's configuration: recurrent layers, attention, repeated layers."""
    geometry = question.attributes.get("geometry")
    kind = str(question.attributes.get("kind", ""))
    return _mean(question, kind, **(geometry if isinstance(geometry, dict) else {}))


_RANKS = (1, 2, 3)

OPERATORS: dict[str, Reading] = {
    **dict.fromkeys(MOVEMENT, _movement),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(FUNCTIONS, _function),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **{f"Conv{rank}D": _convolution for rank in _RANKS},
    **{f"Conv{rank}DTranspose": _transposed for rank in _RANKS},
    **{f"DepthwiseConv{rank}D": _depthwise for rank in (1, 2)},
    **{f"{word}Pooling{rank}D": _pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"Global{word}Pooling{rank}D": _global_pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"Adaptive{word}Pooling{rank}D": _adaptive_pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"UpSampling{rank}D": _resize for rank in _RANKS},
    **{f"ConvLSTM{rank}D": _stated for rank in _RANKS},
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"), _merge),
    **dict.fromkeys(("LayerNormalization", "GroupNormalization"), _computed_normalization),
    **dict.fromkeys(("BatchNormalization", "Normalization"), _batch_normalization),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(
        ("LSTM", "GRU", "SimpleRNN", "TimeDistributed", "MultiHeadAttention", "GroupQueryAttention", "Attention",
         "AdditiveAttention"),
        _stated,
    ),
    "Resizing": _resize,
    "Dense": _dense,
    "EinsumDense": _einsum_dense,
    "Dot": _dot,
    "Matmul": _matmul,
    "ReLU": _relu,
    "Activation": _activation,
    "Gelu": _gelu,
    "RMSNormalization": _rms_normalization,
    "UnitNormalization": _unit_normalization,
    "Cast": _cast,
}  # fmt: skip
"""Class of a layer or of an operation of ``keras.ops`` → how it is read."""
