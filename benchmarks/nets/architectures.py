"""The nets that are trained: five families that the edge runs, small enough to train on one core in minutes.

Each takes float32 images (n, 1, 28, 28) with values 0..1 and gives float32 logits (n, 10).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

CLASSES = 10


def _conv(before: int, after: int, *, stride: int = 1, size: int = 3, groups: int = 1) -> list[nn.Module]:
    """Return a convolution without bias, padded to keep its side, and its batch normalisation."""
    conv = nn.Conv2d(before, after, size, stride=stride, padding=size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(after)]


class Cnn(nn.Module):
    """Three 3×3 convolutions of 32, 64 and 128 channels with pooling between them, and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_conv(1, 32), nn.ReLU(), nn.MaxPool2d(2),
            *_conv(32, 64), nn.ReLU(), nn.MaxPool2d(2),
            *_conv(64, 128), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(128 * 3 * 3, 128), nn.ReLU(), nn.Linear(128, CLASSES))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.classifier(self.features(image))


class Depthwise(nn.Module):
    """A small MobileNet (Howard et al. 2017): 3×3 depthwise and 1×1 convolutions, ReLU6 after each."""

    #: channels and stride of each pair of convolutions
    PLAN = ((64, 2), (64, 1), (128, 2), (128, 1), (128, 1))

    def __init__(self) -> None:
        super().__init__()
        layers, before = [*_conv(1, 32), nn.ReLU6()], 32
        for after, stride in self.PLAN:
            layers += [*_conv(before, before, stride=stride, groups=before), nn.ReLU6()]
            layers += [*_conv(before, after, size=1), nn.ReLU6()]
            before = after
        self.features = nn.Sequential(*layers)
        self.pool = nn.AvgPool2d(7)
        self.classifier = nn.Linear(before, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.classifier(self.pool(self.features(image)).flatten(1))


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions around which a shortcut leads (He et al. 2016)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_conv(before, after, stride=stride), nn.ReLU(), *_conv(after, after))
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv(before, after, stride=stride, size=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its result, (n, `after`, height / stride, width / stride)."""
        return torch.relu(self.body(x) + self.shortcut(x))


class Residual(nn.Module):
    """ResNet-8: a 3×3 convolution of 32 channels and three residual blocks of 32, 64 and 128."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv(1, 32), nn.ReLU())
        self.blocks = nn.Sequential(ResidualBlock(32, 32, 2), ResidualBlock(32, 64, 2), ResidualBlock(64, 128, 2))
        self.pool = nn.AvgPool2d(4)
        self.classifier = nn.Linear(128, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.classifier(self.pool(self.blocks(self.stem(image))).flatten(1))


class Mlp(nn.Module):
    """Dense layers of 1024, 1024 and 10 units."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, CLASSES)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.layers(image)


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017), spelled out so that every exporter sees the same operators."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens (n, length, width) to the same."""
        count, length, width = x.shape
        shape = (count, length, self.heads, width // self.heads)
        query, key, value = (layer(x).reshape(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) * (width // self.heads) ** -0.5
        mixed = scores.softmax(dim=-1) @ value
        return self.output(mixed.transpose(1, 2).reshape(count, length, width))


class EncoderLayer(nn.Module):
    """Attention and two dense layers with GELU, each after a layer normalisation and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_dense = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens (n, length, width) to the same."""
        x = x + self.attention(self.before_attention(x))
        return x + self.dense(self.before_dense(x))


class Transformer(nn.Module):
    """A small vision transformer (Dosovitskiy et al. 2021): 16 patches of 7×7, three layers, a token for the class."""

    def __init__(self, *, width: int = 128, layers: int = 3, heads: int = 4, patch: int = 7) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.empty(1, 1 + (28 // patch) ** 2, width).normal_(std=0.02))
        self.encoder = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits."""
        patches = self.patches(image).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.token.expand(len(image), -1, -1), patches), dim=1) + self.places
        return self.classifier(self.norm(self.encoder(tokens)[:, 0]))


TRAINED: dict[str, Callable[[], nn.Module]] = {
    "cnn": Cnn,
    "depthwise": Depthwise,
    "residual": Residual,
    "mlp": Mlp,
    "transformer": Transformer,
}
