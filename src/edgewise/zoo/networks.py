"""The reference networks as data: stages of blocks, and what their authors publish of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.errors import BadInput
from edgewise.zoo.layers import BLOCKS, Layers, Shape, divisible

WIDTHS = (0.1, 2.0)
RESOLUTIONS = (16, 1024)
WITHOUT_ACCURACY = "the weights are random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Blocks in a row.

    Attributes:
        block: a name of `edgewise.zoo.layers.BLOCKS`.
        out: channels, or several numbers of channels.
        stride: of the first block; the others have 1.
        fixed: whether `out` is the same at every width.
    """

    block: str
    out: int | Shape = 0
    repeat: int = 1
    stride: int | Shape = 1
    fixed: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A network.

    Attributes:
        family: kind of data: ``image``, ``video``, ``audio``, ``text``.
        input: shape without the batch, channels first.
        macs, parameters: as published at this input and width 1.
        source: who published them.
        multiple: what the numbers of channels are multiples of at other widths.
    """

    name: str
    family: str
    input: Shape
    stages: tuple[Stage, ...]
    macs: float
    parameters: float
    source: str
    multiple: int = 8

    @property
    def resizable(self) -> bool:
        """Whether the input's last two dimensions can be set."""
        return self.family in ("image", "video") and self.input[-1] > RESOLUTIONS[0]

    def variant(self, *, width: float = 1.0, resolution: int | None = None, seed: int = 0) -> str:
        """The name of a file for these settings."""
        marks = [f"w{width:g}"] * (width != 1) + [f"r{resolution}"] * (resolution is not None)
        return "-".join([self.name, *marks, *[f"s{seed}"] * (seed != 0)])


def make(reference: Reference, *, width: float = 1.0, resolution: int | None = None, seed: int | None = 0) -> Layers:
    """The layers of a network.

    Args:
        width: what the numbers of channels are multiplied by.
        resolution: height and width of the input; None takes that of the publication.
        seed: of the weights; None makes zeros that take no memory.

    Raises:
        BadInput: a value out of range, a network without a resolution, or one for which it is too small.
    """
    if not WIDTHS[0] <= width <= WIDTHS[1]:
        raise BadInput(f"--width {width:g} is out of range", advice=f"from {WIDTHS[0]:g} to {WIDTHS[1]:g}")
    shape = reference.input
    if resolution is not None:
        if not reference.resizable:
            raise BadInput(
                f"--resolution does not apply to {reference.name}: its input is always {'×'.join(map(str, shape))}",
                advice="build it without --resolution",
            )
        if not RESOLUTIONS[0] <= resolution <= RESOLUTIONS[1]:
            raise BadInput(
                f"--resolution {resolution} is out of range", advice=f"from {RESOLUTIONS[0]} to {RESOLUTIONS[1]}"
            )
        shape = (*shape[:-2], resolution, resolution)
    if seed is not None and seed < 0:
        raise BadInput(f"--seed must be at least 0, not {seed}")

    def scaled(out: int) -> int:
        return out if width == 1 or stage.fixed else divisible(out * width, reference.multiple)

    net = Layers(seed=seed)
    x = net.add("tokens-input" if reference.family == "text" else "input", shape)
    for stage in reference.stages:
        out = tuple(map(scaled, stage.out)) if isinstance(stage.out, tuple) else scaled(stage.out)
        for at in range(stage.repeat):
            stride = stage.stride if at == 0 else 1
            x = BLOCKS[stage.block](net, x, out, stride, **stage.options)
    return net


def _stage(block: str, out: int | Shape = 0, repeat: int = 1, stride: int | Shape = 1, **options: Any) -> Stage:
    fixed = options.pop("fixed", False)
    return Stage(block=block, out=out, repeat=repeat, stride=stride, fixed=fixed, options=options)


def _classes(number: int = 1000) -> tuple[Stage, ...]:
    return _stage("mean"), _stage("dense", number, fixed=True)


def _conv(out: int, kernel: int | Shape = 3, stride: int | Shape = 1, **options: Any) -> Stage:
    return _stage("conv", out, stride=stride, kernel=kernel, **options)


def _resnet(block: str, repeats: tuple[int, int, int, int]) -> tuple[Stage, ...]:
    stages = (_stage(block, 64 << at, repeat, 2 if at else 1) for at, repeat in enumerate(repeats))
    return _conv(64, 7, 2), _stage("pool", stride=2), *stages, *_classes()


def _inverted(rows: str, **options: Any) -> tuple[Stage, ...]:
    """Rows of expansion, channels, repeats, stride and kernel."""
    numbers = (tuple(map(int, row.split())) for row in rows.split(","))
    return tuple(_stage("inverted", c, n, s, expand=e, kernel=k, **options) for e, c, n, s, k in numbers)


def _v3(expand: float, out: int, repeat: int, stride: int, kernel: int, *, act: str, squeeze: bool) -> Stage:
    return _stage("inverted", out, repeat, stride, expand=expand, kernel=kernel, act=act, squeeze=squeeze)


_POOL = _stage("pool", stride=2)
_MOBILENET_V2 = (
    *_inverted("1 16 1 1 3, 6 24 2 2 3, 6 32 3 2 3, 6 64 4 2 3, 6 96 3 1 3, 6 160 3 2 3, 6 320 1 1 3"),
    _conv(1280, 1, act="relu6", fixed=True),
)
_VIDEO = (3, 16, 112, 112)
_IMAGE = (3, 224, 224)
_ROWS = (
    Reference(
        name="mobilenet-v1", family="image", input=_IMAGE, macs=569e6, parameters=4.2e6,
        source="Howard et al., arXiv:1704.04861, table 8",
        stages=(
            _conv(32, 3, 2), _stage("separable", 64), _stage("separable", 128, 2, 2), _stage("separable", 256, 2, 2),
            _stage("separable", 512, 6, 2), _stage("separable", 1024, 2, 2), *_classes(),
        ),
    ),
    Reference(
        name="mobilenet-v2", family="image", input=_IMAGE, macs=300e6, parameters=3.5e6,
        source="Sandler et al., arXiv:1801.04381, table 4 (MACs); torchvision, mobilenet_v2 (parameters)",
        stages=(_conv(32, 3, 2, act="relu6"), *_MOBILENET_V2, *_classes()),
    ),
    Reference(
        name="mobilenet-v3-small", family="image", input=_IMAGE, macs=56e6, parameters=2.5e6,
        source="Howard et al., arXiv:1905.02244, table 3",
        stages=(
            _conv(16, 3, 2, act="hard-swish"),
            _v3(1, 16, 1, 2, 3, act="relu", squeeze=True),
            _v3(4.5, 24, 1, 2, 3, act="relu", squeeze=False),
            _v3(88 / 24, 24, 1, 1, 3, act="relu", squeeze=False),
            _v3(4, 40, 1, 2, 5, act="hard-swish", squeeze=True),
            _v3(6, 40, 2, 1, 5, act="hard-swish", squeeze=True),
            _v3(3, 48, 2, 1, 5, act="hard-swish", squeeze=True),
            _v3(6, 96, 3, 2, 5, act="hard-swish", squeeze=True),
            _conv(576, 1, act="hard-swish"), _stage("mean"), _stage("dense", 1024, act="hard-swish"),
            _stage("dense", 1000, fixed=True),
        ),
    ),
    Reference(
        name="efficientnet-lite0", family="image", input=_IMAGE, macs=407e6, parameters=4.7e6,
        source="github.com/tensorflow/tpu, models/official/efficientnet/lite",
        stages=(
            _conv(32, 3, 2, act="relu6"),
            *_inverted("1 16 1 1 3, 6 24 2 2 3, 6 40 2 2 5, 6 80 3 2 3, 6 112 3 1 5, 6 192 4 2 5, 6 320 1 1 3"),
            _conv(1280, 1, act="relu6"), *_classes(),
        ),
    ),
    Reference(
        name="squeezenet-1.1", family="image", input=_IMAGE, macs=352e6, parameters=1.24e6,
        source="torchvision, squeezenet1_1",
        stages=(
            _conv(64, 3, 2, same=False), _stage("pool", stride=2, same=False), _stage("fire", (16, 64), 2),
            _stage("pool", stride=2, same=False), _stage("fire", (32, 128), 2),
            _stage("pool", stride=2, same=False), _stage("fire", (48, 192), 2), _stage("fire", (64, 256), 2),
            _conv(1000, 1, fixed=True), _stage("mean"),
        ),
    ),
    Reference(
        name="shufflenet-v2", family="image", input=_IMAGE, macs=146e6, parameters=2.3e6,
        source="Ma et al., arXiv:1807.11164, table 8",
        stages=(
            _conv(24, 3, 2), _POOL, _stage("shuffled", 116, 4, 2), _stage("shuffled", 232, 8, 2),
            _stage("shuffled", 464, 4, 2), _conv(1024, 1), *_classes(),
        ),
    ),
    Reference(
        name="googlenet", family="image", input=_IMAGE, macs=1.58e9, parameters=7.0e6,
        source="Szegedy et al., arXiv:1409.4842, table 1",
        stages=(
            _conv(64, 7, 2), _POOL, _conv(64, 1), _conv(192), _POOL,
            _stage("inception", (64, 96, 128, 16, 32, 32)), _stage("inception", (128, 128, 192, 32, 96, 64)), _POOL,
            _stage("inception", (192, 96, 208, 16, 48, 64)), _stage("inception", (160, 112, 224, 24, 64, 64)),
            _stage("inception", (128, 128, 256, 24, 64, 64)), _stage("inception", (112, 144, 288, 32, 64, 64)),
            _stage("inception", (256, 160, 320, 32, 128, 128)), _POOL,
            _stage("inception", (256, 160, 320, 32, 128, 128)), _stage("inception", (384, 192, 384, 48, 128, 128)),
            *_classes(),
        ),
    ),
    Reference(
        name="resnet-8", family="image", input=(3, 32, 32), macs=12.5e6, parameters=78e3,
        source="MLPerf Tiny, image classification",
        stages=(
            _conv(16), _stage("basic", 16), _stage("basic", 32, 1, 2), _stage("basic", 64, 1, 2), *_classes(10),
        ),
    ),
    Reference(
        name="resnet-18", family="image", input=_IMAGE, macs=1.81e9, parameters=11.69e6,
        source="torchvision, resnet18", stages=_resnet("basic", (2, 2, 2, 2)),
    ),
    Reference(
        name="resnet-50", family="image", input=_IMAGE, macs=4.09e9, parameters=25.56e6,
        source="torchvision, resnet50", stages=_resnet("bottleneck", (3, 4, 6, 3)),
    ),
    Reference(
        name="vit-tiny", family="image", input=_IMAGE, macs=1.26e9, parameters=5.7e6, multiple=24,
        source="Touvron et al., arXiv:2012.12877, and timm, vit_tiny_patch16_224",
        stages=(
            _stage("patches", 192, stride=16), _stage("attention", 192, 12, heads=3), _stage("token_mean"),
            _stage("dense", 1000, fixed=True),
        ),
    ),
    Reference(
        name="r3d-18", family="video", input=_VIDEO, macs=40.7e9, parameters=33.37e6,
        source="torchvision, r3d_18",
        stages=(
            _conv(64, (3, 7, 7), (1, 2, 2)), _stage("basic", 64, 2), _stage("basic", 128, 2, 2),
            _stage("basic", 256, 2, 2), _stage("basic", 512, 2, 2), *_classes(400),
        ),
    ),
    Reference(
        name="mc3-18", family="video", input=_VIDEO, macs=43.3e9, parameters=11.7e6,
        source="torchvision, mc3_18",
        stages=(
            _conv(64, (3, 7, 7), (1, 2, 2)), _stage("basic", 64, 2),
            *(_stage("basic", 64 << at, 2, (1, 2, 2), kernel=(1, 3, 3)) for at in (1, 2, 3)), *_classes(400),
        ),
    ),
    Reference(
        name="ds-cnn", family="audio", input=(1, 49, 10), macs=2.66e6, parameters=22.6e3,
        source="MLPerf Tiny, keyword spotting",
        stages=(_conv(64, (10, 4), 2), _stage("separable", 64, 4), *_classes(12)),
    ),
    Reference(
        name="autoencoder", family="audio", input=(640,), macs=264e3, parameters=268e3,
        source="MLPerf Tiny, anomaly detection (ToyADMOS)",
        stages=(
            _stage("dense", 128, 4, act="relu"), _stage("dense", 8, act="relu"), _stage("dense", 128, 4, act="relu"),
            _stage("dense", 640, fixed=True),
        ),
    ),
    Reference(
        name="bert-tiny", family="text", input=(128,), macs=58.7e6, parameters=4.4e6, multiple=16,
        source="Turc et al., arXiv:1908.08962 (parameters); MACs are our own count",
        stages=(
            _stage("embedding", 128, vocabulary=30522), _stage("attention", 128, 2, heads=2), _stage("token_mean"),
            _stage("dense", 2, fixed=True),
        ),
    ),
)  # fmt: skip
REFERENCES: Mapping[str, Reference] = {row.name: row for row in _ROWS}


def find(name: str) -> Reference:
    """The network called `name`. Raises `BadInput` where there is none."""
    if name not in REFERENCES:
        raise BadInput(f"no reference network {name!r}", advice=f"one of: {', '.join(REFERENCES)}")
    return REFERENCES[name]
