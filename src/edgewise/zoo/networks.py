"""The reference networks: stages of blocks, and their published sizes, read from ``networks.toml``."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
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
        macs, parameters: as published for this input and width 1.
        source: of these numbers.
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
        """Return the name of a file for these settings."""
        marks = [f"w{width:g}"] * (width != 1) + [f"r{resolution}"] * (resolution is not None)
        return "-".join([self.name, *marks, *[f"s{seed}"] * (seed != 0)])


def make(reference: Reference, *, width: float = 1.0, resolution: int | None = None, seed: int | None = 0) -> Layers:
    """Return the layers of a network.

    Args:
        width: what the numbers of channels are multiplied by.
        resolution: height and width of the input; None takes that of the publication.
        seed: of the weights; None makes zeros that take no memory.

    Raises:
        BadInput: a value out of range, a network without a resolution, or one for which it is too small.
    """
    if not WIDTHS[0] <= width <= WIDTHS[1]:
        raise BadInput(f"⟦width⟧ {width:g} is out of range", advice=f"from {WIDTHS[0]:g} to {WIDTHS[1]:g}")
    shape = reference.input
    if resolution is not None:
        if not reference.resizable:
            raise BadInput(
                f"⟦resolution⟧ does not apply to {reference.name}: its input is always {'×'.join(map(str, shape))}",
                advice="build it without ⟦resolution⟧",
            )
        if not RESOLUTIONS[0] <= resolution <= RESOLUTIONS[1]:
            raise BadInput(
                f"⟦resolution⟧ {resolution} is out of range", advice=f"from {RESOLUTIONS[0]} to {RESOLUTIONS[1]}"
            )
        shape = (*shape[:-2], resolution, resolution)
    if seed is not None and seed < 0:
        raise BadInput(f"⟦seed⟧ must be at least 0, not {seed}")

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


def _read_stage(line: str) -> Stage:
    """Return a line of ``networks.toml``: block, channels, options."""
    block, *words = line.split()
    out = _value(words.pop(0)) if words and "=" not in words[0] else 0
    options = {name: _value(text) for name, _, text in (word.partition("=") for word in words)}
    repeat, stride = options.pop("repeat", 1), options.pop("stride", 1)
    return Stage(block=block, out=out, repeat=repeat, stride=stride, fixed=options.pop("fixed", False), options=options)


def _value(text: str) -> Any:
    """Parse a text into a number, a tuple of numbers (with commas between), or the text itself."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def _read() -> Iterator[Reference]:
    text = (resources.files("edgewise.zoo") / "networks.toml").read_text(encoding="utf-8")
    for name, row in tomllib.loads(text).items():
        stages = tuple(map(_read_stage, row.pop("stages").splitlines()))
        yield Reference(name=name, input=tuple(row.pop("input")), stages=stages, **row)


REFERENCES: Mapping[str, Reference] = {row.name: row for row in _read()}


def find(name: str) -> Reference:
    """Return the network called `name`. Raises `BadInput` where there is none."""
    if name not in REFERENCES:
        raise BadInput(f"no reference network {name!r}", advice=f"one of: {', '.join(REFERENCES)}")
    return REFERENCES[name]
