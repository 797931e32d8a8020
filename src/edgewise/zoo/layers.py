"""Networks as lists of layers, independent of a file format, and the blocks that published networks are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import BadInput

Shape = tuple[int, ...]
Weights = NDArray[np.float32]
INPUT, OUTPUT = "input", "output"
"""Names of these tensors in files."""
BRANCH_GAIN = 0.5
"""Gain of the last convolution of a residual branch: sums of many branches stay in the range of float16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One operation.

    Attributes:
        kind: a method of `Layers`, such as ``conv``.
        inputs: positions of earlier layers.
        shape: of the output without the batch: channels first.
        act: applied to the output: ``relu``, ``relu6``, ``hard-swish``, ``hard-sigmoid``, ``gelu``; "" for none.
        weights: of ``conv``: (outputs, inputs per group, *kernel) and bias; of ``dense``: (outputs, inputs) and bias.
        options: what else the kind needs.
    """

    kind: str
    inputs: tuple[int, ...] = ()
    shape: Shape
    act: str = ""
    weights: tuple[Weights, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class Layers:
    """A network that grows layer by layer. Methods return the position of the layer that they add.

    Batch normalisation is folded into convolutions: a convolution has weights and a bias.

    Args:
        seed: of the weights; None makes zeros that take no memory.
    """

    def __init__(self, *, seed: int | None) -> None:
        self.rows: list[Layer] = []
        self._random = None if seed is None else np.random.default_rng(seed)

    def shape(self, at: int) -> Shape:
        """Return the output of a layer, without the batch."""
        return self.rows[at].shape

    def add(
        self, kind: str, shape: Shape, *inputs: int, act: str = "", weights: Sequence[Weights] = (), **options: Any
    ) -> int:
        """Any layer; the methods below compute shapes and weights.

        Raises `BadInput` where nothing is left of a dimension.
        """
        if min(shape) < 1:
            raise BadInput(f"the input is too small: a {kind} layer has no outputs", advice="use a larger ⟦resolution⟧")
        layer = Layer(kind=kind, inputs=inputs, shape=shape, act=act, weights=tuple(weights), options=options)
        self.rows.append(layer)
        return len(self.rows) - 1

    def weights(self, *shape: int, fan_in: int, gain: float = math.sqrt(2)) -> Weights:
        """Uniform random numbers with the standard deviation gain / √fan_in (He et al., 2015)."""
        if self._random is None:
            return np.broadcast_to(np.float32(0), shape)
        reach = np.float32(gain * math.sqrt(3 / fan_in))
        return (self._random.random(shape, dtype=np.float32) * 2 - 1) * reach

    def conv(
        self, x: int, out: int, kernel: int | Shape = 3, stride: int | Shape = 1, *,
        groups: int = 1, act: str = "relu", same: bool = True, gain: float | None = None,
    ) -> int:  # fmt: skip
        """Return a convolution of any number of spatial dimensions, padded as TensorFlow's SAME, or not at all."""
        channels, *sizes = self.shape(x)
        kernel, stride = _each(kernel, sizes), _each(stride, sizes)
        fan_in = channels // groups * math.prod(kernel)
        scale = gain if gain is not None else math.sqrt(2) if act else 1.0
        weights = [self.weights(out, channels // groups, *kernel, fan_in=fan_in, gain=scale), self.bias(out)]
        shape = (out, *_reduced(sizes, kernel, stride, same=same))
        return self.add(
            "conv", shape, x, act=act, weights=weights, kernel=kernel, stride=stride, groups=groups, same=same
        )  # fmt: skip

    def bias(self, size: int) -> Weights:
        """Small numbers other than 0."""
        return self.weights(size, fan_in=100)

    def pool(self, x: int, kernel: int = 3, stride: int | Shape = 2, *, same: bool = True) -> int:
        """Return the maximum of a window."""
        channels, *sizes = self.shape(x)
        window, steps = _each(kernel, sizes), _each(stride, sizes)
        shape = (channels, *_reduced(sizes, window, steps, same=same))
        return self.add("pool", shape, x, kernel=window, stride=steps, same=same)

    def mean(self, x: int, *, keep: bool = False) -> int:
        """Return the mean over all positions; `keep` keeps their dimensions with size 1."""
        channels, *sizes = self.shape(x)
        return self.add("mean", (channels, *([1] * len(sizes) if keep else [])), x, keep=keep)

    def token_mean(self, x: int) -> int:
        """(tokens, width) → (width): the mean of the tokens."""
        return self.add("token-mean", self.shape(x)[1:], x)

    def dense(self, x: int, out: int, *, act: str = "", gain: float | None = None) -> int:
        """Return a matrix product with the last dimension, and a bias."""
        *front, size = self.shape(x)
        scale = gain if gain is not None else math.sqrt(2) if act else 1.0
        weights = [self.weights(out, size, fan_in=size, gain=scale), self.bias(out)]
        return self.add("dense", (*front, out), x, act=act, weights=weights)

    def sum(self, one: int, other: int, *, act: str = "") -> int:
        """Return the sum of two layers of one shape."""
        return self.add("add", self.shape(one), one, other, act=act)

    def concat(self, parts: Sequence[int]) -> int:
        """Layers behind one another, by channels."""
        channels = sum(self.shape(part)[0] for part in parts)
        return self.add("concat", (channels, *self.shape(parts[0])[1:]), *parts)

    def channels(self, x: int, first: int, end: int) -> int:
        """Return the channels from `first` up to `end`."""
        return self.add("slice", (end - first, *self.shape(x)[1:]), x, first=first, end=end)

    def shuffle(self, x: int, groups: int) -> int:
        """Channels of `groups` groups taken in turns."""
        return self.add("shuffle", self.shape(x), x, groups=groups)

    def reshape(self, x: int, *shape: int) -> int:
        """Another shape of something that is no image."""
        return self.add("reshape", shape, x)

    def transpose(self, x: int, *order: int) -> int:
        """Other order of dimensions of something that is no image."""
        shape = self.shape(x)
        return self.add("transpose", tuple(shape[at] for at in order), x, order=order)

    def norm(self, x: int) -> int:
        """Layer normalisation of the last dimension."""
        size = self.shape(x)[-1]
        return self.add("norm", self.shape(x), x, weights=[np.ones(size, np.float32), self.bias(size)])


def _each(size: int | Shape, sizes: Sequence[int]) -> Shape:
    return (size,) * len(sizes) if isinstance(size, int) else size


def _reduced(sizes: Sequence[int], kernel: Shape, stride: Shape, *, same: bool) -> Shape:
    if same:
        return tuple(-(-size // step) for size, step in zip(sizes, stride, strict=True))
    return tuple((size - window) // step + 1 for size, window, step in zip(sizes, kernel, stride, strict=True))


def separable(net: Layers, x: int, out: int, stride: int, *, kernel: int = 3, act: str = "relu") -> int:
    """MobileNetV1, DS-CNN: a depthwise and a pointwise convolution."""
    channels = net.shape(x)[0]
    return net.conv(net.conv(x, channels, kernel, stride, groups=channels, act=act), out, 1, act=act)


def inverted(
    net: Layers, x: int, out: int, stride: int | Shape, *,
    expand: float = 6, kernel: int = 3, act: str = "relu6", squeeze: bool = False,
) -> int:  # fmt: skip
    """MobileNetV2 and V3, EfficientNet-Lite: expand, depthwise, optionally squeeze and excite, project."""
    channels = net.shape(x)[0]
    inner = divisible(channels * expand)
    y = x if expand == 1 else net.conv(x, inner, 1, act=act)
    y = net.conv(y, inner, kernel, stride, groups=inner, act=act)
    if squeeze:
        scale = net.conv(net.mean(y, keep=True), divisible(inner / 4), 1)
        y = net.add("multiply", net.shape(y), y, net.conv(scale, inner, 1, act="hard-sigmoid"))
    joins = out == channels and net.shape(y)[1:] == net.shape(x)[1:]
    y = net.conv(y, out, 1, act="", gain=BRANCH_GAIN if joins else None)
    return net.sum(x, y) if joins else y


def _shortcut(net: Layers, x: int, y: int, stride: int | Shape) -> int:
    """Sum x and y, where x is brought to y's shape by a convolution if it differs."""
    own = x if net.shape(x) == net.shape(y) else net.conv(x, net.shape(y)[0], 1, stride, act="")
    return net.sum(own, y, act="relu")


def basic(net: Layers, x: int, out: int, stride: int | Shape, *, kernel: int | Shape = 3) -> int:
    """ResNet-8 and 18, R3D, MC3: two convolutions and a shortcut."""
    return _shortcut(net, x, net.conv(net.conv(x, out, kernel, stride), out, kernel, act="", gain=BRANCH_GAIN), stride)


def bottleneck(net: Layers, x: int, out: int, stride: int) -> int:
    """ResNet-50: narrow, convolve, widen by 4, and a shortcut."""
    y = net.conv(net.conv(x, out, 1), out, 3, stride)
    return _shortcut(net, x, net.conv(y, 4 * out, 1, act="", gain=BRANCH_GAIN), stride)


def fire(net: Layers, x: int, out: Shape, stride: int) -> int:
    """SqueezeNet: squeeze by 1×1, expand by 1×1 and 3×3."""
    del stride
    squeeze, expand = out
    x = net.conv(x, squeeze, 1)
    return net.concat([net.conv(x, expand, 1), net.conv(x, expand, 3)])


def shuffled(net: Layers, x: int, out: int, stride: int) -> int:
    """ShuffleNetV2: half of the channels pass, or both halves are reduced; then the channels mix."""
    channels, half = net.shape(x)[0], out // 2

    def branch(y: int, width: int) -> int:
        y = net.conv(y, width, 3, stride, groups=width, act="")
        return net.conv(y, half, 1)

    if stride == 1:
        kept, worked = net.channels(x, 0, half), net.channels(x, half, out)
    else:
        kept, worked = branch(x, channels), x
    return net.shuffle(net.concat([kept, branch(net.conv(worked, half, 1), half)]), 2)


def inception(net: Layers, x: int, out: Shape, stride: int) -> int:
    """GoogLeNet: 1×1; 1×1, 3×3; 1×1, 5×5; pool, 1×1."""
    one, before_three, three, before_five, five, pooled = out
    parts = [
        net.conv(x, one, 1),
        net.conv(net.conv(x, before_three, 1), three, 3),
        net.conv(net.conv(x, before_five, 1), five, 5),
        net.conv(net.pool(x, 3, stride), pooled, 1),
    ]
    return net.concat(parts)


def patches(net: Layers, x: int, out: int, stride: int) -> int:
    """Vision transformer: squares of an image, and their positions."""
    x = net.conv(x, out, stride, stride, act="", same=False)
    tokens = math.prod(net.shape(x)[1:])
    x = net.add("tokens", (tokens, out), x)
    return net.add("offset", (tokens, out), x, weights=[net.weights(tokens, out, fan_in=1, gain=0.5)])


def embedding(net: Layers, x: int, out: int, stride: int, *, vocabulary: int) -> int:
    """Text: a row of a table for each token, and its position."""
    del stride
    (tokens,) = net.shape(x)
    x = net.add("embed", (tokens, out), x, weights=[net.weights(vocabulary, out, fan_in=1, gain=1.0)])
    return net.add("offset", (tokens, out), x, weights=[net.weights(tokens, out, fan_in=1, gain=0.5)])


def attention(net: Layers, x: int, out: int, stride: int, *, heads: int) -> int:
    """Return a transformer's block: attention and two dense layers, each after a layer normalisation and with a
    shortcut.
    """
    del stride
    tokens, size = net.shape(x)[0], out // heads

    def head(order: Shape, gain: float) -> int:
        return net.transpose(net.reshape(net.dense(y, out, gain=gain), tokens, heads, size), *order)

    y = net.norm(x)
    # Scores are divided by √size: that is in the weights of the queries.
    scores = net.add(
        "matmul", (heads, tokens, tokens), head((1, 0, 2), size**-0.5), head((1, 2, 0), 1.0)
    )  # fmt: skip
    weighed = net.add("softmax", net.shape(scores), scores)
    joined = net.add("matmul", (heads, tokens, size), weighed, head((1, 0, 2), 1.0))
    x = net.sum(x, net.dense(net.reshape(net.transpose(joined, 1, 0, 2), tokens, out), out))
    return net.sum(x, net.dense(net.dense(net.norm(x), 4 * out, act="gelu"), out))


Block = Callable[..., int]
BLOCKS: Mapping[str, Block] = {
    **{made.__name__: made for made in (separable, inverted, basic, bottleneck, fire, shuffled, inception)},
    **{made.__name__: made for made in (patches, embedding, attention)},
    "conv": lambda net, x, out, stride, **options: net.conv(x, out, stride=stride, **options),
    "pool": lambda net, x, out, stride, **options: net.pool(x, stride=stride, **options),
    "mean": lambda net, x, out, stride: net.mean(x),
    "token_mean": lambda net, x, out, stride: net.token_mean(net.norm(x)),
    "dense": lambda net, x, out, stride, **options: net.dense(x, out, **options),
}
"""Name → function of the network, its last layer, the channels and the stride; returns the new last layer."""


def divisible(channels: float, by: int = 8) -> int:
    """Return the multiple of `by` nearest to `channels`, at most a tenth below it (the rule of the MobileNets)."""
    nearest = max(by, int(channels + by / 2) // by * by)
    return nearest + by if nearest < 0.9 * channels else nearest
