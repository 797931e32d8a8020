"""Graphs for speed alone: four networks of the usual sizes for 224 × 224 pictures, with weights that nobody trained.

The weights are random (He et al. 2015). So that values stay in the range that a trained net has, which is what a
quantiser looks at, `settle` measures the statistics of every batch normalisation on pictures, layer after layer, as
training would have left them. Each net takes float32 (n, 3, 224, 224), -1..1, and gives float32 logits (n, 1000).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

CLASSES = 1000
BRANCH = 0.3
"""How large what a block adds is beside what it adds it to, roughly."""


def _conv(
    before: int, after: int, size: int = 1, *, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU
) -> nn.Sequential:
    """Return a convolution, its batch normalisation and, unless `act` is None, what comes after it."""
    conv = nn.Conv2d(before, after, size, stride=stride, padding=size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after), *([act()] if act else []))


class InvertedResidual(nn.Module):
    """MobileNetV2's block: wide inside, and a shortcut where the shape stays."""

    def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        widen = [_conv(before, wide, act=nn.ReLU6)] if expansion > 1 else []
        depthwise = _conv(wide, wide, 3, stride=stride, groups=wide, act=nn.ReLU6)
        self.body = nn.Sequential(*widen, depthwise, _conv(wide, after, act=None))
        self.adds = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its result."""
        return x + self.body(x) if self.adds else self.body(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 1.0 (Sandler et al. 2018, table 2)."""

    #: expansion, channels, repetitions and first stride of each stage
    PLAN = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, 32, 3, stride=2, act=nn.ReLU6)]
        before = 32
        for expansion, after, times, first in self.PLAN:
            for place in range(times):
                layers.append(InvertedResidual(before, after, first if place == 0 else 1, expansion))
                before = after
        self.features = nn.Sequential(*layers, _conv(before, 1280, act=nn.ReLU6), nn.AvgPool2d(7))
        self.classifier = nn.Linear(1280, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.classifier(self.features(image).flatten(1))


class Bottleneck(nn.Module):
    """ResNet-50's block: 1×1, 3×3 and 1×1 around which a shortcut leads; the stride is in the 3×3."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            _conv(before, width), _conv(width, width, 3, stride=stride), _conv(width, after, act=None)
        )
        self.adds = before == after and stride == 1
        self.shortcut = nn.Identity() if self.adds else _conv(before, after, stride=stride, act=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its result."""
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """ResNet-50 (He et al. 2016, table 1)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, 64, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
        before = 64
        for width, times, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for place in range(times):
                layers.append(Bottleneck(before, width, first if place == 0 else 1))
                before = 4 * width
        self.features = nn.Sequential(*layers, nn.AvgPool2d(7))
        self.classifier = nn.Linear(before, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.classifier(self.features(image).flatten(1))


class Fire(nn.Module):
    """SqueezeNet's block: few channels, then 1×1 and 3×3 convolutions beside each other. It has no normalisation."""

    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(before, squeezed, 1), nn.ReLU())
        self.one = nn.Sequential(nn.Conv2d(squeezed, expanded, 1), nn.ReLU())
        self.three = nn.Sequential(nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its result, 2 · `expanded` channels."""
        x = self.squeeze(x)
        return torch.cat((self.one(x), self.three(x)), dim=1)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1 (Iandola et al. 2016, as its authors revised it)."""

    def __init__(self) -> None:
        super().__init__()
        pool = nn.MaxPool2d(3, stride=2)
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), pool,
            Fire(64, 16, 64), Fire(128, 16, 64), pool,
            Fire(128, 32, 128), Fire(256, 32, 128), pool,
            Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
            nn.Conv2d(512, CLASSES, 1), nn.AvgPool2d(13),
        )  # fmt: skip

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.features(image).flatten(1)


class Shuffled(nn.Module):
    """ShuffleNet's block: grouped 1×1 convolutions whose channels are shuffled between them, a depthwise one inside."""

    def __init__(self, before: int, after: int, stride: int, groups: int, first: int) -> None:
        super().__init__()
        self.groups, inside = groups, after // 4
        self.narrow = _conv(before, inside, groups=first)
        self.depthwise = _conv(inside, inside, 3, stride=stride, groups=inside, act=None)
        # Where the side halves, the pooled input comes beside the result and not onto it.
        self.widen = _conv(inside, after - before if stride == 2 else after, groups=groups, act=None)
        self.adds = stride == 1
        self.pool = nn.Identity() if self.adds else nn.AvgPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its result."""
        y = self.narrow(x)
        count, channels, height, width = y.shape
        y = y.reshape(count, self.groups, channels // self.groups, height, width).transpose(1, 2)
        y = self.widen(self.depthwise(y.reshape(count, channels, height, width)))
        return torch.relu(x + y if self.adds else torch.cat((self.pool(x), y), dim=1))


class ShuffleNet(nn.Module):
    """ShuffleNet 1× with four groups (Zhang et al. 2018, table 1)."""

    def __init__(self, *, groups: int = 4) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, 24, 3, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
        before = 24
        for after, times in ((272, 4), (544, 8), (1088, 4)):
            for place in range(times):
                # The first grouped convolution has too few channels to be grouped.
                first = 1 if before == 24 else groups
                layers.append(Shuffled(before, after, 2 if place == 0 else 1, groups, first))
                before = after
        self.features = nn.Sequential(*layers, nn.AvgPool2d(7))
        self.classifier = nn.Linear(before, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.classifier(self.features(image).flatten(1))


UNTRAINED: dict[str, Callable[[], nn.Module]] = {
    "mobilenet_v2": MobileNetV2,
    "resnet50": ResNet50,
    "squeezenet": SqueezeNet,
    "shufflenet": ShuffleNet,
}


def settle(model: nn.Module, pictures: torch.Tensor) -> None:
    """Draw the weights, and give every batch normalisation the statistics of `pictures` (n, 3, 224, 224), -1..1.

    Scales and shifts are drawn too: with one and zero everywhere all channels would be alike, which those of a trained
    net are not. What a block adds to its shortcut is made small, as in trained nets (Goyal et al. 2017 begin with
    zero): where it is as large as the shortcut, rounding errors grow from block to block, which says nothing of a
    quantiser.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.05)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
            module.momentum = None
    for module in model.modules():
        if isinstance(module, InvertedResidual | Bottleneck | Shuffled) and module.adds:
            last = module.widen if isinstance(module, Shuffled) else module.body[-1]
            nn.init.uniform_(last[1].weight, 0.5 * BRANCH, 1.5 * BRANCH)
            nn.init.normal_(last[1].bias, std=0.2 * BRANCH)
    model.train()
    with torch.no_grad():
        model(pictures)
    model.eval()
