"""The work of the networks in public tables of results, counted from their published architectures.

`NCNN` has the networks of ncnn's benchmark, by the names of its table (layers as in its ``benchmark/*.param``, and
convolutions that are fused with an activation as one operator). `cell_profile` counts a network of NAS-Bench-201.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from edgewise.predicting.features import TERMS, OperatorProfile


class Layer(NamedTuple):
    """An operator: its kind, the tensor that it reads, and what it makes of it.

    Attributes:
        kind: ``conv``, ``depthwise``, ``elements``, ``pool``, ``mean``, ``dense`` or ``matrix``.
        channels, side: of the tensor that it reads; of a ``matrix``, its columns and rows.
        out: channels of the tensor that it writes.
    """

    kind: str
    channels: int
    side: int
    out: int
    kernel: int = 1
    stride: int = 1
    groups: int = 1
    valid: bool = False


class Counter:
    """Adds up the work of layers, and lists them; `channels` and `side` are those of the current tensor."""

    def __init__(self, side: int, channels: int = 3) -> None:
        self.side, self.channels = side, channels
        self.amounts = dict.fromkeys(TERMS, 0.0)
        self.layers: list[Layer] = []

    @property
    def profile(self) -> OperatorProfile:
        """What was added up."""
        return OperatorProfile(amounts=tuple(self.amounts[term] for term in TERMS))

    def work(self, term: str, macs: float) -> None:
        """Add an operator."""
        self.amounts[term] += macs
        self.amounts["operators"] += 1

    def conv(self, out: int, kernel: int = 1, stride: int = 1, *, groups: int = 1, valid: bool = False) -> None:
        """A convolution; `valid`: without padding."""
        self.layers.append(Layer("conv", self.channels, self.side, out, kernel, stride, groups, valid))
        self.side = (self.side - kernel * valid) // stride + 1 if valid else -(-self.side // stride)
        macs = self.side**2 * out * self.channels // groups * kernel**2
        self.work("pointwise" if kernel == 1 else "spatial", macs)
        self.channels = out

    def depthwise(self, kernel: int = 3, stride: int = 1) -> None:
        """A depthwise convolution."""
        self.layers.append(Layer("depthwise", self.channels, self.side, self.channels, kernel, stride, self.channels))
        self.side = -(-self.side // stride)
        self.work("depthwise", self.side**2 * self.channels * kernel**2)

    def elements(self, times: int = 1) -> None:
        """Operators without MACs that write the current tensor."""
        self.layers += [Layer("elements", self.channels, self.side, self.channels)] * times
        self._count_elements(times)

    def _count_elements(self, times: int = 1) -> None:
        self.amounts["elements"] += times * self.side**2 * self.channels
        self.amounts["operators"] += times

    def pool(self, stride: int = 2, *, valid: bool = False) -> None:
        """A pooling layer with a window of 3×3."""
        self.layers.append(Layer("pool", self.channels, self.side, self.channels, 3, stride, valid=valid))
        self.side = (self.side - 3) // stride + 1 if valid else -(-self.side // stride)
        self._count_elements()

    def dense(self, *sizes: int) -> None:
        """Matrix products with vectors, one after the other."""
        self.side = 1
        for out in sizes:
            self.layers.append(Layer("dense", self.channels, self.side, out))
            self.work("dense", self.channels * out)
            self.channels = out

    def matrix(self, rows: int, inner: int, columns: int) -> None:
        """A product of two matrices."""
        self.layers.append(Layer("matrix", inner, rows, columns))
        self.work("dense", rows * inner * columns)

    def mean(self) -> None:
        """The mean over all positions."""
        self.layers.append(Layer("mean", self.channels, self.side, self.channels))
        self.side = 1
        self._count_elements()

    def head(self, *sizes: int) -> None:
        """The mean over all positions, and matrix products."""
        self.mean()
        self.dense(*sizes)

    def branch(self, *layers: Callable[[], object]) -> tuple[int, int]:
        """Layers from the current tensor, which stays; channels and side behind them."""
        before = self.channels, self.side
        for layer in layers:
            layer()
        after = self.channels, self.side
        self.channels, self.side = before
        return after

    def squeeze(self, inner: int) -> None:
        """Squeeze and excitation."""
        side, channels = self.side, self.channels
        self.mean()
        self.conv(inner)
        self.conv(channels)
        self.elements()
        self.side = side
        self.elements()

    def inverted(
        self, out: int, wide: int, kernel: int = 3, stride: int = 1, *, squeeze: int = 0, swish: bool = False
    ) -> None:
        """An inverted residual; `swish`: with an activation that is an operator of its own."""
        before = self.channels
        if wide != before:
            self.conv(wide)
            self.elements(int(swish))
        self.depthwise(kernel, stride)
        self.elements(int(swish))
        if squeeze:
            self.squeeze(squeeze)
        self.conv(out)
        self.elements(int(stride == 1 and out == before))

    def inverteds(self, rows: Sequence[Sequence[int]], **options: bool) -> None:
        """Rows of: channels, expansion, kernel, stride, repetitions."""
        for out, expand, kernel, stride, repeat in rows:
            for at in range(repeat):
                self.inverted(out, self.channels * expand, kernel, stride if at == 0 else 1, **options)


def mobilenet(side: int, *, batch_norm: bool = False) -> Counter:
    net = Counter(side)
    apart = 3 if batch_norm else 0  # operators that ncnn's file leaves apart
    net.conv(32, 3, 2)
    net.elements(apart)
    for out, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ):
        net.depthwise(3, stride)
        net.elements(apart)
        net.conv(out)
        net.elements(apart)
    return net


def mobilenet_v1() -> Counter:
    net = mobilenet(224)
    net.head(1000)
    return net


V2 = ((24, 6, 3, 2, 2), (32, 6, 3, 2, 3), (64, 6, 3, 2, 4), (96, 6, 3, 1, 3), (160, 6, 3, 2, 3), (320, 6, 3, 1, 1))


def mobilenet_v2(side: int = 224, *, classes: int = 1000) -> Counter:
    net = Counter(side)
    net.conv(32, 3, 2)
    net.inverted(16, 32)
    net.inverteds(V2)
    net.conv(1280)
    if classes:
        net.head(classes)
    return net


def mobilenet_v3() -> Counter:
    net = Counter(224)
    net.conv(16, 3, 2)
    net.elements(2)
    for out, wide, kernel, stride, squeeze, swish in (
        (16, 16, 3, 1, 0, 0), (24, 64, 3, 2, 0, 0), (24, 72, 3, 1, 0, 0), (40, 72, 5, 2, 18, 0),
        *[(40, 120, 5, 1, 30, 0)] * 2, (80, 240, 3, 2, 0, 1), (80, 200, 3, 1, 0, 1), *[(80, 184, 3, 1, 0, 1)] * 2,
        (112, 480, 3, 1, 120, 1), (112, 672, 3, 1, 168, 1), (160, 672, 5, 1, 168, 1), (160, 672, 5, 2, 168, 1),
        (160, 960, 5, 1, 240, 1),
    ):  # fmt: skip
        net.inverted(out, wide, kernel, stride, squeeze=squeeze, swish=bool(swish))
    net.conv(960)
    net.elements()
    net.head(1280, 1000)
    return net


def squeezenet_body(side: int) -> Counter:
    net = Counter(side)
    net.conv(64, 3, 2, valid=True)
    net.pool(valid=True)
    return net


def fires(net: Counter, *squeezes: int) -> None:
    for inner in squeezes:
        net.conv(inner)
        net.branch(lambda: net.conv(4 * inner))  # noqa: B023
        net.conv(4 * inner, 3)
        net.channels = 8 * inner
        net.elements()


def squeezenet() -> Counter:
    net = squeezenet_body(227)
    fires(net, 16, 16)
    net.pool(valid=True)
    fires(net, 32, 32)
    net.pool(valid=True)
    fires(net, 48, 48, 64, 64)
    net.conv(1000)
    net.head()
    return net


def ssd_heads(net: Counter, maps: Sequence[tuple[int, int, int]], kernel: int) -> None:
    """Boxes and 21 classes from maps of: channels, side, anchors."""
    for channels, side, anchors in maps:
        net.channels, net.side = channels, side
        for out in (4 * anchors, 21 * anchors):
            net.branch(lambda: net.conv(out, kernel), lambda: net.elements(2))  # noqa: B023


def squeezenet_ssd() -> Counter:
    net = squeezenet_body(300)
    fires(net, 16, 16)
    net.pool(valid=True)
    fires(net, 32, 32)
    maps = [(net.channels, net.side, 4)]
    net.pool(valid=True)
    fires(net, 48, 48, 64, 64)
    maps.append((net.channels, net.side, 6))
    net.pool(valid=True)
    fires(net, 96)
    maps.append((net.channels, net.side, 6))
    net.pool(valid=True)
    fires(net, 96)
    maps.append((net.channels, net.side, 6))
    for inner, out in ((128, 256), (64, 128)):
        net.conv(inner)
        net.conv(out, 3, 2)
        maps.append((out, net.side, 6))
    ssd_heads(net, maps, 3)
    return net


def mobilenet_ssd() -> Counter:
    net = mobilenet(300)
    maps = [(512, 19, 3), (1024, 10, 6)]
    for inner, out in ((256, 512), (128, 256), (128, 256), (64, 128)):
        net.conv(inner)
        net.conv(out, 3, 2)
        maps.append((out, net.side, 6))
    ssd_heads(net, maps, 1)
    return net


def mobilenet_yolo() -> Counter:
    net = mobilenet(416, batch_norm=True)
    net.conv(256)
    net.conv(1024, 3)
    net.elements(6)
    net.branch(lambda: net.conv(125))
    net.side *= 2
    net.channels = 256
    net.depthwise(2)
    for out, kernel in ((1024, 3), (256, 1), (1024, 3)):
        net.conv(out, kernel)
        net.elements(3)
    net.conv(125)
    return net


def mobilenetv2_yolov3() -> Counter:
    net = mobilenet_v2(352, classes=0)
    net.depthwise()
    net.conv(576)
    net.branch(lambda: net.conv(75))
    net.side *= 2
    net.elements(2)
    for _ in range(2):
        net.depthwise()
        net.conv(576)
        net.elements()
    net.conv(75)
    return net


def shufflenet() -> Counter:
    """Version 1 with three groups."""
    net = Counter(224)
    net.conv(24, 3, 2)
    net.pool()
    for out, repeat in ((240, 4), (480, 8), (960, 4)):
        for at in range(repeat):
            before, stride = net.channels, 2 if at == 0 else 1
            net.conv(out // 4, groups=1 if before == 24 else 3)
            net.elements()
            net.depthwise(3, stride)
            net.conv(out - before if stride == 2 else out, groups=3)
            net.channels = out
            net.elements(3 if stride == 2 else 2)
    net.head(1000)
    return net


def shuffled(net: Counter, stages: Sequence[tuple[int, int]], *, slices: int = 2) -> list[tuple[int, int]]:
    """Stages of ShuffleNet V2; channels and side behind each."""
    maps = []
    for out, repeat in stages:
        half = out // 2
        net.branch(lambda: net.depthwise(3, 2), lambda: net.conv(half))  # noqa: B023
        net.conv(half)
        net.depthwise(3, 2)
        net.conv(half)
        net.channels = out
        net.elements(2)
        for _ in range(repeat - 1):
            net.channels = half
            net.elements(slices)
            net.conv(half)
            net.depthwise()
            net.conv(half)
            net.channels = out
            net.elements(2)
        maps.append((out, net.side))
    return maps


def shufflenet_v2() -> Counter:
    net = Counter(224)
    net.conv(24, 3, 2)
    net.pool()
    shuffled(net, ((116, 4), (232, 8), (464, 4)))
    net.conv(1024)
    net.head(1000)
    return net


def nanodet_m() -> Counter:
    net = Counter(320)
    net.conv(24, 3, 2)
    net.pool()
    for channels, side in shuffled(net, ((116, 4), (232, 8), (464, 4))):
        net.channels, net.side = channels, side
        net.conv(96)
        net.elements(3)
        for _ in range(2):
            net.depthwise()
            net.conv(96)
        net.conv(112)
        net.elements(3)
    return net


def yolo_fastestv2() -> Counter:
    net = Counter(352)
    net.conv(24, 3, 2)
    net.pool()
    maps = shuffled(net, ((48, 4), (96, 8), (192, 4)), slices=1)[1:]
    for channels, side in ((288, maps[0][1]), maps[1]):
        net.channels, net.side = channels, side
        net.elements()
        net.conv(72)
        for _ in range(4):
            net.depthwise(5)
            net.conv(72)
        net.conv(95)
        net.elements(3)
    return net


def fastest_det() -> Counter:
    net = Counter(352)
    net.conv(24, 3, 2)
    net.pool()
    shuffled(net, ((48, 4), (96, 8), (192, 4)), slices=1)
    net.side, net.channels = 22, 336
    net.elements()
    net.conv(96)
    for _ in range(6):
        net.depthwise(5)
    net.channels = 288
    net.elements()
    net.conv(96)
    net.elements(2)
    net.conv(96)
    for out in (80, 4, 1):
        net.branch(lambda: net.depthwise(5), lambda: net.conv(out))  # noqa: B023
    return net


def yolo_fastest() -> Counter:
    net = Counter(320)
    net.conv(8, 3, 2)
    net.conv(8)
    net.depthwise()
    net.conv(4)
    for out, wide, stride, repeat in ((4, 8, 1, 1), (8, 24, 2, 1), (8, 32, 1, 2), (8, 32, 2, 1), (8, 48, 1, 2),
                                      (16, 48, 1, 1), (16, 96, 1, 4), (24, 96, 2, 1), (24, 136, 1, 4),
                                      (48, 136, 2, 1), (48, 224, 1, 5)):  # fmt: skip
        for _ in range(repeat):
            net.inverted(out, wide, 3, stride)
    net.elements(3)
    net.channels = 192
    net.elements()
    net.conv(96)
    for side, before in ((10, 96), (20, 232)):
        net.side, net.channels = side, before
        if side == 20:
            net.elements(2)
            net.conv(96)
        for _ in range(2):
            net.depthwise(5)
            net.conv(96 if side == 20 else 128)
        net.conv(75)
    return net


def blazeface() -> Counter:
    net = Counter(128)
    net.elements()
    net.conv(24, 5, 2)
    net.elements()
    for out, stride in ((24, 1), (28, 1), (32, 2), (36, 1), (42, 1), (48, 2), (56, 1), (64, 1), (72, 1), (80, 1),
                        (88, 1), (96, 2), (96, 1), (96, 1), (96, 1), (96, 1)):  # fmt: skip
        net.depthwise(3, stride)
        net.conv(out)
        net.elements(5 if stride == 2 else 3)
    return net


def mnasnet() -> Counter:
    net = Counter(224)
    net.conv(32, 3, 2)
    net.inverted(16, 32)
    net.inverted(24, 48, 3, 2)
    net.inverteds(
        ((24, 3, 3, 1, 2), (40, 3, 5, 2, 3), (80, 6, 5, 2, 3), (96, 6, 3, 1, 2), (192, 6, 5, 2, 4), (320, 6, 3, 1, 1))
    )
    net.conv(1280)
    net.head(1000)
    return net


def proxylessnasnet() -> Counter:
    """The one for GPUs is wider and less deep; this is the one for phones."""
    net = Counter(224)
    net.conv(32, 3, 2)
    net.inverted(16, 32)
    for out, expands, kernels, stride in (
        (32, (3, 3), (5, 3), 2), (40, (3, 3, 3, 3), (7, 3, 5, 5), 2), (80, (6, 3, 3, 3), (7, 5, 5, 5), 2),
        (96, (6, 3, 3, 3), (5, 5, 5, 5), 1), (192, (6, 6, 3, 3), (7, 7, 7, 7), 2), (320, (6,), (7,), 1),
    ):  # fmt: skip
        for at, (expand, kernel) in enumerate(zip(expands, kernels, strict=True)):
            net.inverted(out, net.channels * expand, kernel, stride if at == 0 else 1)
    net.conv(1280)
    net.head(1000)
    return net


def efficientnet_b0() -> Counter:
    net = Counter(224)
    net.conv(32, 3, 2)
    net.elements()
    net.inverted(16, 32, squeeze=8, swish=True)
    for out, kernel, stride, repeat in (
        (24, 3, 2, 2),
        (40, 5, 2, 2),
        (80, 3, 2, 3),
        (112, 5, 1, 3),
        (192, 5, 2, 4),
        (320, 3, 1, 1),
    ):
        for at in range(repeat):
            before = net.channels
            net.inverted(out, 6 * before, kernel, stride if at == 0 else 1, squeeze=before // 4, swish=True)
    net.conv(1280)
    net.elements()
    net.head(1000)
    return net


def efficientnetv2_b0() -> Counter:
    net = Counter(224)
    for out, stride in ((32, 2), (16, 1)):
        net.conv(out, 3, stride)
        net.elements()
    for out in (32, 48):
        for stride in (2, 1):
            net.conv(4 * net.channels, 3, stride)
            net.elements()
            net.conv(out)
            net.elements(2 * (stride == 1))
    for out, expand, stride, repeat in ((96, 4, 2, 3), (112, 6, 1, 5), (192, 6, 2, 8)):
        for at in range(repeat):
            before = net.channels
            net.inverted(out, expand * before, 3, stride if at == 0 else 1, squeeze=before // 4, swish=True)
            net.elements(int(at > 0))
    net.conv(1280)
    net.elements()
    net.head(1000)
    return net


def regnety_400m() -> Counter:
    net = Counter(224)
    net.conv(32, 3, 2)
    for out, repeat in ((48, 1), (104, 3), (208, 6), (440, 6)):
        for at in range(repeat):
            before, stride = net.channels, 2 if at == 0 else 1
            if at == 0:
                net.branch(lambda: net.conv(out, 1, 2))  # noqa: B023
            net.conv(out)
            net.conv(out, 3, stride, groups=out // 8)
            net.squeeze(before // 4)
            net.conv(out)
            net.elements(2)
    net.head(1000)
    return net


def googlenet() -> Counter:
    net = Counter(224)
    net.conv(64, 7, 2)
    net.pool()
    net.elements()
    net.conv(64)
    net.conv(192, 3)
    net.elements()
    net.pool()
    for row in (
        (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (), (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128), (), (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
    ):  # fmt: skip
        if not row:
            net.pool()
            continue
        one, three_in, three, five_in, five, pooled = row
        net.branch(lambda: net.conv(one))  # noqa: B023
        net.branch(lambda: net.conv(three_in), lambda: net.conv(three, 3))  # noqa: B023
        net.branch(lambda: net.conv(five_in), lambda: net.conv(five, 5))  # noqa: B023
        net.branch(net.elements, lambda: net.conv(pooled))  # noqa: B023
        net.channels = one + three + five + pooled
        net.elements()
    net.head(1000)
    return net


def resnet(repeats: Sequence[int], *, bottleneck: bool) -> Counter:
    net = Counter(224)
    net.conv(64, 7, 2)
    net.pool()
    for stage, repeat in enumerate(repeats):
        inner = 64 * 2**stage
        out = 4 * inner if bottleneck else inner
        for at in range(repeat):
            stride = 2 if at == 0 and stage else 1
            if net.channels != out:
                net.branch(lambda: net.conv(out, 1, stride))  # noqa: B023
            if bottleneck:
                net.conv(inner, 1, stride)
                net.conv(inner, 3)
                net.conv(out)
            else:
                net.conv(inner, 3, stride)
                net.conv(inner, 3)
            net.elements(2)
    net.head(1000)
    return net


def alexnet() -> Counter:
    net = Counter(227)
    net.conv(96, 11, 4, valid=True)
    net.elements()
    net.pool(valid=True)
    net.conv(256, 5, groups=2)
    net.elements()
    net.pool(valid=True)
    net.conv(384, 3)
    net.conv(384, 3, groups=2)
    net.conv(256, 3, groups=2)
    net.pool(valid=True)
    net.channels *= net.side**2
    net.dense(4096, 4096, 1000)
    return net


def vgg16() -> Counter:
    net = Counter(224)
    for out, repeat in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeat):
            net.conv(out, 3)
        net.pool()
    net.channels *= net.side**2
    net.dense(4096, 4096, 1000)
    return net


def yolov4_tiny() -> Counter:
    net = Counter(416)
    net.conv(32, 3, 2)
    net.conv(64, 3, 2)
    for out in (64, 128, 256):
        net.conv(out, 3)
        net.channels = out // 2
        net.conv(out // 2, 3)
        net.conv(out // 2, 3)
        net.channels = out
        net.elements(2)
        net.conv(out)
        net.channels = 2 * out
        net.pool()
    net.conv(512, 3)
    net.conv(256)
    net.branch(lambda: net.conv(512, 3), lambda: net.conv(255))
    net.conv(128)
    net.side, net.channels = 26, 384
    net.elements(2)
    net.conv(256, 3)
    net.conv(255)
    return net


def vision_transformer() -> Counter:
    """Base, patches of 32, input 384."""
    net, tokens, width = Counter(384), 145, 768
    net.conv(width, 32, 32)
    net.side, net.channels = 1, tokens * width
    for _ in range(12):
        net.elements(4)
        for _ in range(4):
            net.matrix(tokens, width, width)
        net.matrix(tokens, width, tokens)
        net.matrix(tokens, tokens, width)
        net.matrix(tokens, width, 4 * width)
        net.matrix(tokens, 4 * width, width)
        net.amounts["elements"] += 4 * tokens * width + 12 * tokens**2
        net.amounts["operators"] += 2
    net.channels = width
    net.head(1000)
    return net


NETWORKS: dict[str, Callable[[], Counter]] = {
    "alexnet": alexnet, "blazeface": blazeface, "efficientnet_b0": efficientnet_b0,
    "efficientnetv2_b0": efficientnetv2_b0, "FastestDet": fastest_det, "googlenet": googlenet, "mnasnet": mnasnet,
    "mobilenet": mobilenet_v1, "mobilenet_ssd": mobilenet_ssd, "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3, "mobilenet_yolo": mobilenet_yolo, "mobilenetv2_yolov3": mobilenetv2_yolov3,
    "nanodet_m": nanodet_m, "proxylessnasnet": proxylessnasnet, "regnety_400m": regnety_400m,
    "resnet18": lambda: resnet((2, 2, 2, 2), bottleneck=False),
    "resnet50": lambda: resnet((3, 4, 6, 3), bottleneck=True), "shufflenet": shufflenet,
    "shufflenet_v2": shufflenet_v2, "squeezenet": squeezenet, "squeezenet_ssd": squeezenet_ssd, "vgg16": vgg16,
    "vision_transformer": vision_transformer, "yolo-fastest-1.1": yolo_fastest, "yolo-fastestv2": yolo_fastestv2,
    "yolov4-tiny": yolov4_tiny,
}  # fmt: skip
NCNN: dict[str, OperatorProfile] = {name: count().profile for name, count in NETWORKS.items()}
"""Name in ncnn's table → work, also of the int8 models ``NAME_int8``."""
NCNN |= {f"{name}_int8": profile for name, profile in NCNN.items()}


def cell_profile(text: str) -> OperatorProfile:
    """The work of a network of NAS-Bench-201: five equal cells at each of three resolutions, on CIFAR-10.

    Before the second and the third resolution stands a residual block with a stride of 2, whose shortcut is a mean and
    a 1×1 convolution (Dong and Yang, 2020, figure 1). The network of empty cells has 7.78 million MACs, and that of 3×3
    convolutions alone 220.12 million.
    """
    net = Counter(32)
    net.conv(16, 3)
    for channels in (32, 64):
        net.elements()
        net.branch(net.pool, lambda channels=channels: net.conv(channels))
        net.conv(channels, 3, 2)
        net.elements()
        net.conv(channels, 3)
        net.elements()
    net.elements(2)
    net.head(10)
    amounts = net.amounts
    for channels, side in ((16, 32), (32, 16), (64, 8)):
        pixels = side * side
        for operation in re.findall(r"(\w+)~", text):
            if operation == "none":
                continue
            amounts["pointwise"] += 5 * pixels * channels**2 * (operation == "nor_conv_1x1")
            amounts["spatial"] += 5 * 9 * pixels * channels**2 * (operation == "nor_conv_3x3")
            amounts["elements"] += 5 * pixels * channels * (2 if operation == "avg_pool_3x3" else 1)
            amounts["operators"] += 5
    return net.profile
