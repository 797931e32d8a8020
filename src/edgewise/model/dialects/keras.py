"""What Keras' layers cost at inference, by class: https://keras.io/api/layers/.

An operator's inputs are the layer's inputs, then its weights; `attributes` is its configuration, with ``weights``: how
many of the inputs are weights. Layers that are made of others come as their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from edgewise.model.cost import ACTIVATIONS, cost_of
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.graph import Graph, Operator
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

Reading = Callable[[RawOperator], Semantics]


def interpret(raw: RawOperator) -> Semantics:
    """What the layer `raw` is; an unknown one has the kind ""."""
    reading = OPERATORS.get(raw.op)
    return Semantics() if reading is None else reading(raw)


def _mean(raw: RawOperator, kind: str, **geometry: Any) -> Semantics:
    count = raw.attributes.get("weights", 0)
    first = len(raw.inputs) - (count if isinstance(count, int) else 0)
    known = {name: value for name, value in geometry.items() if value is not None}
    return Semantics(kind=kind, geometry=known, weights=tuple(range(first, len(raw.inputs))))


def _shape(raw: RawOperator, at: int) -> tuple[Dimension, ...]:
    tensor = raw.inputs[at] if -len(raw.inputs) <= at < len(raw.inputs) else None
    return (tensor.shape or ()) if tensor is not None else ()


def _output(raw: RawOperator) -> tuple[Dimension, ...]:
    tensor = raw.outputs[0] if raw.outputs else None
    return (tensor.shape or ()) if tensor is not None else ()


def _product(sizes: tuple[Dimension, ...]) -> int | None:
    known = [size for size in sizes if isinstance(size, int)]
    return prod(known) if len(known) == len(sizes) else None


def _fused(raw: RawOperator) -> str | None:
    """The function that is applied to the outputs; None where there is none, or where it is a step of its own."""
    function = FUSED.get(str(raw.attributes.get("activation", "linear")), "none")
    return None if function == "none" else function


def _biased(raw: RawOperator) -> bool:
    return raw.attributes.get("use_bias", True) is not False


def _convolution(raw: RawOperator) -> Semantics:
    """The kernel is [kernel…, inputs / groups, outputs]."""
    kernel = _shape(raw, 1)
    depthwise = raw.attributes.get("groups", 1) not in (1, None) and kernel[-2:-1] == (1,)
    return _mean(
        raw, "convolution", reduction=_product(kernel[:-1]) if kernel else None, depthwise=depthwise or None,
        bias=_biased(raw), activation=_fused(raw),
    )  # fmt: skip


def _depthwise(raw: RawOperator) -> Semantics:
    """The kernel is [kernel…, inputs, multiplier]."""
    kernel = _shape(raw, 1)
    return _mean(
        raw, "convolution", reduction=_product(kernel[:-2]) if kernel else None, depthwise=True,
        bias=_biased(raw), activation=_fused(raw),
    )  # fmt: skip


def _transposed(raw: RawOperator) -> Semantics:
    """The kernel is [kernel…, outputs, inputs]."""
    kernel = _shape(raw, 1)
    return _mean(
        raw, "transposed-convolution", reduction=_product(kernel[:-1]) if kernel else None,
        bias=_biased(raw), activation=_fused(raw),
    )  # fmt: skip


def _dense(raw: RawOperator) -> Semantics:
    kernel = _shape(raw, 1)
    return _mean(
        raw, "matrix-multiplication", reduction=_product(kernel[:1]) if kernel else None,
        bias=_biased(raw), activation=_fused(raw),
    )  # fmt: skip


def _einsum_dense(raw: RawOperator) -> Semantics:
    """The inner dimension is the product of all of the kernel's indices that the result lacks."""
    left, _, result = str(raw.attributes.get("equation", "")).replace(" ", "").partition("->")
    indices, kernel = left.partition(",")[2], _shape(raw, 1)
    gone = tuple(size for letter, size in zip(indices, kernel, strict=False) if letter not in result)
    return _mean(
        raw, "matrix-multiplication", reduction=_product(gone) if len(indices) == len(kernel) else None,
        bias=bool(raw.attributes.get("bias_axes")), activation=_fused(raw),
    )  # fmt: skip


def _dot(raw: RawOperator) -> Semantics:
    """``Dot`` sums over its axes; ``normalize`` divides both factors by their lengths, which is not counted."""
    if raw.attributes.get("normalize") is True:
        return Semantics(why="normalised dot products have no formula")
    axes, shape = raw.attributes.get("axes"), _shape(raw, 0)
    first = axes[0] if isinstance(axes, list | tuple) and axes else axes
    size = shape[first] if isinstance(first, int) and -len(shape) <= first < len(shape) else None
    return _mean(raw, "matrix-multiplication", reduction=size if isinstance(size, int) else None)


def _matmul(raw: RawOperator) -> Semantics:
    return _mean(raw, "matrix-multiplication", reduction=_product(_shape(raw, 0)[-1:]))


def _merge(raw: RawOperator) -> Semantics:
    """One operation for every tensor after the first; a mean has one division more."""
    count = len(raw.inputs)
    steps = max(1, count - 1) + (1 if raw.op == "Average" else 0)
    return _mean(raw, "elementwise", per_element=steps)


def _elementwise(raw: RawOperator) -> Semantics:
    return _mean(raw, "elementwise", per_element=ELEMENTWISE[raw.op])


def _movement(raw: RawOperator) -> Semantics:
    return _mean(raw, "movement")


def _function(raw: RawOperator) -> Semantics:
    return _mean(raw, "activation", activation=FUNCTIONS[raw.op])


def _relu(raw: RawOperator) -> Semantics:
    """A bound above makes it a clamp, a slope below a leaky one."""
    bounded = raw.attributes.get("max_value") is not None
    leaky = bool(raw.attributes.get("negative_slope"))
    name = "leaky-relu" if leaky else "clamp" if bounded else "relu"
    return (
        _mean(raw, "activation", activation=name)
        if not (leaky and bounded)
        else _mean(raw, "elementwise", per_element=3)
    )


def _activation(raw: RawOperator) -> Semantics:
    name = str(raw.attributes.get("activation", ""))
    if name in ("softmax", "log_softmax"):
        return _mean(raw, "softmax", logarithm=name == "log_softmax")
    if FUSED.get(name) == "none":
        return _mean(raw, "movement")
    if name not in FUSED:
        return Semantics(why=f"the function {name[:60]!r} has no known cost")
    return _mean(raw, "activation", activation=FUSED[name])


def _gelu(raw: RawOperator) -> Semantics:
    return _mean(raw, "activation", activation="gelu-tanh" if raw.attributes.get("approximate", True) else "gelu")


def _softmax(raw: RawOperator) -> Semantics:
    return _mean(raw, "softmax", logarithm=raw.op == "LogSoftmax")


def _batch_normalization(raw: RawOperator) -> Semantics:
    return _mean(raw, "normalization", per_element=2)


def _computed_normalization(raw: RawOperator) -> Semantics:
    """Mean 1, variance 3, normalise 2; scale and shift are 1 each where they are there."""
    if raw.attributes.get("rms_scaling") is True:
        return _mean(raw, "normalization", per_element=4)
    scales = sum(raw.attributes.get(name, True) is not False for name in ("center", "scale"))
    return _mean(raw, "normalization", per_element=6 + scales)


def _rms_normalization(raw: RawOperator) -> Semantics:
    """Square, add, multiply by the root's reciprocal, scale."""
    return _mean(raw, "normalization", per_element=4)


def _unit_normalization(raw: RawOperator) -> Semantics:
    """Square, add, multiply by the root's reciprocal."""
    return _mean(raw, "normalization", per_element=3)


def _pool(raw: RawOperator) -> Semantics:
    rank = next((int(letter) for letter in raw.op if letter.isdigit()), 1)
    size = raw.attributes.get("pool_size", 2)
    listed = tuple(size) if isinstance(size, list | tuple) else (size,) * rank
    window = _product(listed) if all(isinstance(each, int) for each in listed) else None
    return _mean(raw, "pooling", window=window, average="Average" in raw.op or None)


def _global_pool(raw: RawOperator) -> Semantics:
    shape = _shape(raw, 0)
    spatial = shape[2:] if raw.attributes.get("data_format") == "channels_first" else shape[1:-1]
    average = "Average" in raw.op or None
    return _mean(raw, "pooling", window=_product(spatial) if len(shape) > 2 else None, average=average)


def _adaptive_pool(raw: RawOperator) -> Semantics:
    """Windows are of one size where the output's sizes divide the input's; else it is left open."""
    first = raw.attributes.get("data_format") == "channels_first"
    pairs = list(zip(_shape(raw, 0), _output(raw), strict=False))
    pairs = pairs[2:] if first else pairs[1:-1]
    sizes: list[int] = []
    for size, count in pairs:
        if not isinstance(size, int) or not isinstance(count, int) or count < 1 or size % count:
            return Semantics(kind="pooling", why="its windows differ in size")
        sizes.append(size // count)
    return _mean(raw, "pooling", window=prod(sizes), average="Average" in raw.op or None)


def _resize(raw: RawOperator) -> Semantics:
    """``UpSampling`` and ``Resizing``: nothing is computed for the nearest pixel."""
    name = str(raw.attributes.get("interpolation", "bilinear" if raw.op == "Resizing" else "nearest"))
    per_element = {"nearest": 0, "bilinear": 7, "bicubic": 31}.get(name)
    if per_element is None:
        return Semantics(why=f"{name[:40]} interpolation has no formula")
    return _mean(raw, "resize", per_element=per_element)


def _reduction(raw: RawOperator) -> Semantics:
    per_input, per_output = REDUCTIONS[raw.op]
    return _mean(raw, "reduction", per_input=per_input, per_output=per_output)


def _cast(raw: RawOperator) -> Semantics:
    source, target = raw.inputs[0] if raw.inputs else None, raw.outputs[0] if raw.outputs else None
    same = source is not None and target is not None and source.dtype == target.dtype
    return _mean(raw, "movement") if same else _mean(raw, "elementwise", per_element=1)


def _recurrent(raw: RawOperator) -> Semantics:
    """Kernel [input, gates · units], recurrent [units, gates · units], one bias; two for a GRU that resets after.

    The formula's functions are tanh and sigmoid; with others the count is corrected by their difference.
    """
    shape, kernel, state, bias = (_shape(raw, at) for at in range(4))
    if len(shape) != 3 or len(kernel) != 2 or len(state) != 2:
        return Semantics(why="a recurrent layer needs tensors of rank 3")
    gates, hidden = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}[raw.op], state[0]
    biases = (bias[0] if len(bias) == 2 else 1) if bias else 0
    geometry = {"gates": gates, "hidden": hidden, "input": kernel[0], "steps": shape[1], "batch": shape[0]}
    tanhs, sigmoids = {"LSTM": (2, 3), "GRU": (1, 2), "SimpleRNN": (1, 0)}[raw.op]
    inner = FUSED.get(word_of(raw.attributes.get("activation", "tanh")))
    gate = FUSED.get(word_of(raw.attributes.get("recurrent_activation", "sigmoid")))
    if inner is None or (gate is None and sigmoids):
        return Semantics(why="its activation has no known cost")
    more = tanhs * (ACTIVATIONS[inner] - ACTIVATIONS["tanh"])
    more += sigmoids * (ACTIVATIONS[gate or "none"] - ACTIVATIONS["sigmoid"])
    if not more:
        return _mean(raw, "recurrent", **_numbers(geometry), biases=biases)
    operator = Operator(index=0, name="", op="", kind="recurrent", geometry={**_numbers(geometry), "biases": biases})
    cost = cost_of(operator, Graph(name="", format="", tensors={}, operators=(), inputs=(), outputs=()))
    cells = _product((shape[0], shape[1], hidden))
    return _count(raw, cost.macs, None if cost.ops is None or cells is None else cost.ops + more * cells)


def _convolutional_recurrent(raw: RawOperator) -> Semantics:
    """Four gates, each a convolution of the input and one, of stride 1 and the same size, of the state."""
    shape, kernel, output = _shape(raw, 0), _shape(raw, 1), _output(raw)
    kept = raw.attributes.get("return_sequences") is True
    cells = _product((shape[1], *(output[:1] + output[2:] if kept else output))) if len(shape) > 2 else None
    inner = FUSED.get(word_of(raw.attributes.get("activation", "tanh")))
    gate = FUSED.get(word_of(raw.attributes.get("recurrent_activation", "sigmoid")))
    if inner is None or gate is None:
        return Semantics(why="its activation has no known cost")
    window, channels, filters = _product(kernel[:-2]), _product(kernel[-2:-1]), _product(output[-1:])
    if cells is None or window is None or channels is None or filters is None or len(kernel) < 3:
        return _mean(raw, "counted")
    macs = cells * 4 * window * (channels + filters)
    # Three gates and two functions of the state; four sums of both convolutions; f∘c + i∘g, o∘…
    each = 3 * ACTIVATIONS[gate] + 2 * ACTIVATIONS[inner] + 4 + 4 + (4 if _biased(raw) else 0)
    return _count(raw, macs, 2 * macs + cells * each)


def _separable(raw: RawOperator) -> Semantics:
    """A depthwise convolution without bias, [kernel…, inputs, multiplier], then one of kernel size 1 to the outputs."""
    kernel, outputs, activation = _shape(raw, 1), _product(_output(raw)), _fused(raw) or "none"
    pointwise = _shape(raw, 2)
    window, between, filters = _product(kernel[:-2]), _product(pointwise[:-1]), _product(pointwise[-1:])
    if outputs is None or window is None or between is None or not filters or len(pointwise) < 3:
        return _mean(raw, "counted")
    macs = outputs // filters * between * (window + filters)
    return _count(raw, macs, 2 * macs + outputs * (ACTIVATIONS[activation] + _biased(raw)))


def _attention(raw: RawOperator) -> Semantics:
    """``Attention`` without projections; ``AdditiveAttention`` has a sum and tanh in the place of each product."""
    if isinstance(geometry := raw.attributes.get("geometry"), dict):  # projections are layers of their own
        return _mean(raw, "attention", **_numbers(geometry))
    weights = raw.attributes.get("weights", 0)
    shapes = [_shape(raw, at) for at in range(len(raw.inputs) - (weights if isinstance(weights, int) else 0))]
    if not shapes or any(len(shape) != 3 for shape in shapes):
        return Semantics(why="attention over several axes has no formula here")
    query, value, key = (
        shapes[0],
        shapes[min(1, len(shapes) - 1)],
        shapes[2 if len(shapes) > 2 else min(1, len(shapes) - 1)],
    )
    batch, queries, depth = query
    additive = raw.op == "AdditiveAttention"
    if not additive and raw.attributes.get("score_mode", "dot") != "concat":
        geometry = {
            "batch": batch,
            "heads": 1,
            "queries": queries,
            "keys": key[1],
            "depth": depth,
            "value_depth": value[2],
        }
        return _mean(raw, "attention", **_numbers(geometry))
    scores = _product((batch, queries, key[1]))
    if scores is None or not isinstance(depth, int) or not isinstance(value[2], int):
        return _mean(raw, "counted")
    # A score sums scale · tanh(query + key) over the depth; then a softmax and the weighted values.
    scaled = int(raw.attributes.get("use_scale", additive) is True)
    macs = scores * (value[2] + depth * scaled)
    ops = 2 * macs + scores * (depth * (1 + ACTIVATIONS["tanh"] + (1 - scaled)) + 5)
    return _count(raw, macs, ops if additive else ops + scores)


def _numbers(geometry: Mapping[str, Any]) -> dict[str, int]:
    return {key: value for key, value in geometry.items() if isinstance(value, int)}


def _count(raw: RawOperator, macs: int | None, ops: int | None) -> Semantics:
    return _mean(raw, "counted", macs=macs, ops=ops)


def word_of(value: Any) -> str:
    """The name of an activation or the like: a word, or an object that names a class."""
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
    **{f"ConvLSTM{rank}D": _convolutional_recurrent for rank in _RANKS},
    **{f"SeparableConv{rank}D": _separable for rank in (1, 2)},
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"), _merge),
    **dict.fromkeys(("LayerNormalization", "GroupNormalization"), _computed_normalization),
    **dict.fromkeys(("BatchNormalization", "Normalization"), _batch_normalization),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), _recurrent),
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention", "Attention", "AdditiveAttention"), _attention),
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
