"""Shapes and parameters of Keras' layers, each from its configuration and the shapes that it is given.

Every rule follows the documentation of its layer at https://keras.io/api/layers/. What Keras stores is what is listed:
moving statistics are weights that training does not touch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgewise.model.readers import keras_reshaping
from edgewise.model.readers.keras_config import (
    Layer,
    NotKnown,
    Outcome,
    Shape,
    Wrong,
    join_shape,
    spatial_rank,
    split_shape,
    write_shape,
)
from edgewise.model.signature import Dimension

Rule = Callable[[Layer, Sequence[Shape]], Outcome]


def _whole(size: Dimension, what: str) -> int:
    if not isinstance(size, int):
        raise NotKnown(f"{what} is open")
    return size


def _slide(size: Dimension, *, window: int, stride: int, padding: str) -> Dimension:
    """How often a window fits: with ``same`` padding once for every stride begun, else where it lies inside."""
    if not isinstance(size, int):
        return None
    count = -(-size // stride) if padding in ("same", "causal") else (size - window) // stride + 1
    if count < 1:
        raise Wrong(f"a window of {window} does not fit into {size}")
    return count


def _convolution(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    rank = spatial_rank(layer)
    batch, spatial, channels = split_shape(layer, shapes[0], rank)
    kernel = layer.sizes("kernel_size", rank, least=1)
    filters, groups = layer.whole("filters", least=1), layer.whole("groups", 1, least=1)
    sizes = _windows(layer, spatial, kernel)
    inputs = _whole(channels, "the number of its input channels")
    if inputs % groups:
        raise Wrong(f"{inputs} channels can't be {groups} groups")
    weights = {"kernel": (*kernel, inputs // groups, filters), **_bias(layer, filters)}
    return Outcome((join_shape(layer, batch, sizes, filters),), weights)


def _windows(layer: Layer, spatial: Shape, kernel: Sequence[int], *, option: str = "strides") -> list[Dimension]:
    rank = len(spatial)
    strides, dilation = layer.sizes(option, rank, 1, least=1), layer.sizes("dilation_rate", rank, 1, least=1)
    padding = layer.text("padding", "valid")
    return [
        _slide(size, window=(width - 1) * spread + 1, stride=stride, padding=padding)
        for size, width, stride, spread in zip(spatial, kernel, strides, dilation, strict=True)
    ]


def _bias(layer: Layer, size: Dimension) -> dict[str, Shape]:
    return {"bias": (size,)} if layer.flag("use_bias", True) else {}


def _depthwise(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    rank = spatial_rank(layer)
    batch, spatial, channels = split_shape(layer, shapes[0], rank)
    kernel = layer.sizes("kernel_size", rank, least=1)
    inputs, times = _whole(channels, "the number of its input channels"), layer.whole("depth_multiplier", 1, least=1)
    sizes = _windows(layer, spatial, kernel)
    weights: dict[str, Shape] = {"kernel": (*kernel, inputs, times), **_bias(layer, inputs * times)}
    return Outcome((join_shape(layer, batch, sizes, inputs * times),), weights)


def _transposed(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    rank = spatial_rank(layer)
    batch, spatial, channels = split_shape(layer, shapes[0], rank)
    kernel = layer.sizes("kernel_size", rank, least=1)
    strides, dilation = layer.sizes("strides", rank, 1, least=1), layer.sizes("dilation_rate", rank, 1, least=1)
    filters = layer.whole("filters", least=1)
    extra = layer.sizes("output_padding", rank) if layer.options.get("output_padding") is not None else None
    same = layer.text("padding", "valid") == "same"
    sizes: list[Dimension] = []
    for at, size in enumerate(spatial):
        width = (kernel[at] - 1) * dilation[at] + 1
        if not isinstance(size, int):
            sizes.append(None)
        elif extra is None:
            sizes.append(size * strides[at] + (0 if same else max(width - strides[at], 0)))
        else:
            sizes.append((size - 1) * strides[at] + width - (width // 2 * 2 if same else 0) + extra[at])
    weights = {"kernel": (*kernel, filters, channels), **_bias(layer, filters)}
    return Outcome((join_shape(layer, batch, sizes, filters),), weights)


def _pool(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    rank = spatial_rank(layer)
    batch, spatial, channels = split_shape(layer, shapes[0], rank)
    pool = layer.sizes("pool_size", rank, 2, least=1)
    strides = pool if layer.options.get("strides") is None else layer.sizes("strides", rank, least=1)
    padding = layer.text("padding", "valid")
    sizes = [
        _slide(size, window=window, stride=stride, padding=padding)
        for size, window, stride in zip(spatial, pool, strides, strict=True)
    ]
    return Outcome((join_shape(layer, batch, sizes, channels),))


def _global_pool(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    batch, spatial, channels = split_shape(layer, shapes[0], spatial_rank(layer))
    if layer.flag("keepdims", False):
        return Outcome((join_shape(layer, batch, (1,) * len(spatial), channels),))
    return Outcome(((batch, channels),))


def _adaptive_pool(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    rank = spatial_rank(layer)
    batch, _, channels = split_shape(layer, shapes[0], rank)
    return Outcome((join_shape(layer, batch, layer.sizes("output_size", rank, least=1), channels),))


def _dense(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    units = layer.whole("units", least=1)
    if not shapes[0]:
        raise Wrong("it is given a single number")
    weights: dict[str, Shape] = {"kernel": (shapes[0][-1], units), **_bias(layer, units)}
    return Outcome(((*shapes[0][:-1], units),), weights)


def _einsum_dense(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """The kernel's sizes follow from where its indices come from: the input, or the shape of the result."""
    inputs, kernel, result, left = split_equation(layer.text("equation"))
    shape = shapes[0]
    elided = len(shape) - len(inputs)
    if elided < 0 or (elided and "..." not in layer.text("equation")):
        raise Wrong(f"its equation does not fit the shape {write_shape(shape)}")
    own, extra = (shape[elided:], shape[:elided]) if left else (shape[: len(inputs)], shape[len(inputs) :])
    known: dict[str, Dimension] = dict(zip(inputs, own, strict=True))
    told = layer.options.get("output_shape")
    listed = list(told) if isinstance(told, list | tuple) else [told]
    free = [letter for letter in result if letter not in inputs or letter in kernel]
    # The result's shape is told without its batch, from the right (an ellipsis on the right comes after it).
    for letter, size in zip(reversed(result), reversed(listed), strict=False):
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise Wrong("its output shape has a size that is no number")
        if letter in free and letter not in known:
            known[letter] = size
    if not set(result + kernel) <= set(known):
        raise NotKnown("its equation has an index of unknown size")
    inner = tuple(known[letter] for letter in result)
    weights: dict[str, Shape] = {"kernel": tuple(known[letter] for letter in kernel)}
    axes = layer.options.get("bias_axes")
    if isinstance(axes, str) and axes:
        weights["bias"] = tuple(known[letter] for letter in result if letter in axes)
    return Outcome(((*extra, *inner) if left else (*inner, *extra),), weights)


def split_equation(equation: str) -> tuple[str, str, str, bool]:
    """Indices of input, kernel and result of an EinsumDense, and whether an ellipsis is on the left. Raises `Wrong`."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    given, comma, kernel = left.partition(",")
    parts = [given.replace("...", ""), kernel, result.replace("...", "")]
    if not arrow or not comma or len(equation) > 200 or not all(part.isalpha() for part in parts):
        raise Wrong(f"its equation is {equation[:40]!r}")
    if any(len(set(part)) != len(part) for part in parts):
        raise Wrong(f"its equation names an index twice: {equation[:40]!r}")
    return parts[0], parts[1], parts[2], given.startswith("...")


def _embedding(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    size = layer.whole("output_dim", least=1)
    return Outcome(((*shapes[0], size),), {"embeddings": (layer.whole("input_dim", least=1), size)})


def _batch_normalization(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    size = (shapes[0][layer.axes("axis", len(shapes[0]))[0]],)
    names = [*(["gamma"] if layer.flag("scale", True) else []), *(["beta"] if layer.flag("center", True) else [])]
    return Outcome((shapes[0],), dict.fromkeys([*names, "moving_mean", "moving_variance"], size))


def _layer_normalization(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    size = tuple(shapes[0][axis] for axis in layer.axes("axis", len(shapes[0])))
    rms = layer.flag("rms_scaling", False)
    names = ["gamma"] if layer.flag("scale", True) or rms else []
    names += ["beta"] if layer.flag("center", True) and not rms else []
    return Outcome((shapes[0],), dict.fromkeys(names, size))


def _group_normalization(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    size = (shapes[0][layer.axes("axis", len(shapes[0]))[0]],)
    names = [*(["gamma"] if layer.flag("scale", True) else []), *(["beta"] if layer.flag("center", True) else [])]
    return Outcome((shapes[0],), dict.fromkeys(names, size))


def _rms_normalization(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    size = tuple(shapes[0][axis] for axis in layer.axes("axis", len(shapes[0])))
    return Outcome((shapes[0],), {"scale": size})


def _data_normalization(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    """Mean and variance are options, or weights that were found from data."""
    if layer.options.get("mean") is not None:
        return Outcome((shapes[0],))
    axis = layer.options.get("axis", -1)
    kept = () if axis is None else tuple(shapes[0][each] for each in sorted(layer.axes("axis", len(shapes[0]))))
    return Outcome((shapes[0],), {"mean": kept, "variance": kept, "count": ()})


def _prelu(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    alpha = list(shapes[0][1:])
    shared = layer.options.get("shared_axes")
    for axis in shared if isinstance(shared, list | tuple) else ():
        if not isinstance(axis, int) or not 1 <= axis <= len(alpha):
            raise Wrong(f"its shared axes are {str(shared)[:40]!r}")
        alpha[axis - 1] = 1
    return Outcome((shapes[0],), {"alpha": tuple(alpha)})


def _same(layer: Layer, shapes: Sequence[Shape]) -> Outcome:
    del layer
    return Outcome((shapes[0],))


_RANKS = (1, 2, 3)

RULES: dict[str, Rule] = {
    **{f"Conv{rank}D": _convolution for rank in _RANKS},
    **{f"Conv{rank}DTranspose": _transposed for rank in _RANKS},
    **{f"DepthwiseConv{rank}D": _depthwise for rank in (1, 2)},
    **{f"{word}Pooling{rank}D": _pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"Global{word}Pooling{rank}D": _global_pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"Adaptive{word}Pooling{rank}D": _adaptive_pool for word in ("Max", "Average") for rank in _RANKS},
    **{f"{word}{rank}D": keras_reshaping.pad for word in ("ZeroPadding", "Cropping") for rank in _RANKS},
    **{f"UpSampling{rank}D": keras_reshaping.upsample for rank in _RANKS},
    "Dense": _dense,
    "EinsumDense": _einsum_dense,
    "Embedding": _embedding,
    "BatchNormalization": _batch_normalization,
    "LayerNormalization": _layer_normalization,
    "GroupNormalization": _group_normalization,
    "RMSNormalization": _rms_normalization,
    "Normalization": _data_normalization,
    "PReLU": _prelu,
    "Concatenate": keras_reshaping.concatenate,
    "Dot": keras_reshaping.dot,
    "Flatten": keras_reshaping.flatten,
    "Reshape": keras_reshaping.reshape,
    "Permute": keras_reshaping.permute,
    "RepeatVector": keras_reshaping.repeat,
    "Resizing": keras_reshaping.resize,
    "CenterCrop": keras_reshaping.resize,
    "RandomCrop": keras_reshaping.resize,
    "CategoryEncoding": keras_reshaping.encode,
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"), keras_reshaping.merge),
    **dict.fromkeys(
        (
            "Activation", "ReLU", "LeakyReLU", "ELU", "Softmax", "UnitNormalization", "Identity", "Dropout",
            "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout", "GaussianNoise",
            "AlphaDropout", "ActivityRegularization", "Masking", "Rescaling", "RandomFlip", "RandomRotation",
            "RandomZoom", "RandomTranslation", "RandomContrast", "RandomBrightness", "RandomHue", "RandomSaturation",
            "RandomSharpness", "RandomShear", "RandomErasing", "RandomPerspective", "RandomGaussianBlur",
        ),
        _same,
    ),
}  # fmt: skip
"""Class → its rule. Layers that are made of others are in `keras_composites`."""
