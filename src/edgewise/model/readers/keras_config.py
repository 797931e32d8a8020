"""What a Keras configuration says, read with care: layers, sizes, types. Nothing in it is imported or executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.model.readers.base import MAX_DIMENSION, MAX_NAME_CHARACTERS, MAX_RANK
from edgewise.model.signature import Dimension

Shape = tuple[Dimension, ...]


class Wrong(Exception):
    """A configuration that no layer can have; the message says why."""


class NotKnown(Exception):
    """What a layer does can't be told from its configuration; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer as the file has it.

    Attributes:
        kind: its class's name.
        module: where the class is from; built-in ones are from ``keras``.
        name: the user's name for it.
        options: its configuration.
    """

    kind: str
    module: str
    name: str
    options: Mapping[str, Any]

    @property
    def built_in(self) -> bool:
        """Whether the class is Keras' own (as the file says: nothing of it is trusted to run)."""
        return self.module.split(".")[0] in ("keras", "tf_keras", "tensorflow", "")

    def flag(self, option: str, default: bool) -> bool:
        """A switch."""
        value = self.options.get(option, default)
        return value if isinstance(value, bool) else default

    def whole(self, option: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number ≥ `least`. Raises `Wrong`."""
        value = self.options.get(option)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_DIMENSION:
            raise Wrong(f"its {option} is {str(value)[:40]!r}")
        return value

    def sizes(self, option: str, rank: int, default: int | None = None, *, least: int = 0) -> tuple[int, ...]:
        """One whole number for each of `rank` dimensions. Raises `Wrong`."""
        value = self.options.get(option)
        value = default if value is None else value
        listed = list(value) if isinstance(value, list | tuple) else [value] * rank
        found = tuple(each for each in listed if isinstance(each, int) and not isinstance(each, bool))
        if len(found) < len(listed) or any(not least <= each <= MAX_DIMENSION for each in found):
            raise Wrong(f"its {option} is {str(value)[:40]!r}")
        if len(found) != rank:
            raise Wrong(f"its {option} has {len(found)} numbers for {rank} dimensions")
        return found

    def text(self, option: str, default: str = "") -> str:
        """A word, such as ``same``."""
        value = self.options.get(option)
        return value if isinstance(value, str) else default

    def axes(self, option: str, rank: int, default: Any = -1) -> tuple[int, ...]:
        """One axis or several as positions in a shape of `rank`. Raises `Wrong`."""
        value = self.options.get(option, default)
        found = []
        for axis in value if isinstance(value, list | tuple) else (value,):
            if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
                raise Wrong(f"its {option} is {str(value)[:40]!r} for a shape of rank {rank}")
            found.append(axis % rank)
        return tuple(found)

    @property
    def channels_first(self) -> bool:
        """Whether channels come before the spatial dimensions."""
        return self.text("data_format", "channels_last") == "channels_first"


def read_layer(document: Any) -> Layer:
    """A layer from its JSON. Raises `Wrong`."""
    if not isinstance(document, dict):
        raise Wrong("a layer is no object")
    kind, options = document.get("class_name"), document.get("config")
    if not isinstance(kind, str) or not kind or len(kind) > MAX_NAME_CHARACTERS:
        raise Wrong("a layer has no class")
    options = options if isinstance(options, dict) else {}
    name = document.get("name") or options.get("name") or kind
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS:
        raise Wrong(f"a {kind[:40]} has no name")
    module = document.get("module")
    registered = document.get("registered_name")
    # A registered name with a package ("mine>Swish") is somebody's own class.
    owned = isinstance(registered, str) and ">" in registered
    return Layer(kind=kind, module="custom" if owned else str(module or "")[:200], name=name, options=options)


def read_shape(value: Any) -> Shape | None:
    """A shape in JSON; None where it is none. Raises `Wrong` where it is absurd."""
    if not isinstance(value, list | tuple) or len(value) > MAX_RANK:
        return None
    for size in value:
        if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
            return None
        if size is not None and not 0 <= size <= MAX_DIMENSION:
            raise Wrong(f"a dimension of size {size}")
    return tuple(value)


def read_policy(value: Any) -> tuple[str, str]:
    """Types of variables and of computation, from ``float32``, ``mixed_float16`` or an object that names one."""
    name: Any = value
    match value:
        case {"config": {"name": str(inner)}} | {"config": {"dtype": str(inner)}}:
            name = inner
        case {"config": {"source_name": str(inner), "mode": str(mode)}}:
            name = f"{mode}_from_{inner}"
    if not isinstance(name, str):
        return "float32", "float32"
    if name.startswith("mixed_"):
        return "float32", name.removeprefix("mixed_")[:40]
    if "_from_" in name:
        raise NotKnown("quantised layers of Keras keep their weights in ways of their own")
    return name[:40], name[:40]


def word_of(value: Any) -> str:
    """The name of an activation or the like: a word, or an object that names a class."""
    match value:
        case None:
            return "linear"
        case str():
            return value[:100]
        case {"class_name": "function", "config": str(name)}:
            return name[:100]
        case {"registered_name": str(name)} if name:
            return name[:100]
        case {"class_name": str(name)}:
            return name[:100]
    return "?"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a layer gives.

    Attributes:
        outputs: shapes.
        weights: name → shape, in Keras' order.
    """

    outputs: tuple[Shape, ...]
    weights: dict[str, Shape] = field(default_factory=dict)


def split_shape(layer: Layer, shape: Shape, spatial: int | None = None) -> tuple[Dimension, Shape, Dimension]:
    """Batch, spatial sizes and channels of `shape`."""
    if len(shape) < 2 or (spatial is not None and len(shape) != spatial + 2):
        raise Wrong(f"it takes {spatial or 'some'} spatial dimensions and is given the shape {write_shape(shape)}")
    if layer.channels_first:
        return shape[0], shape[2:], shape[1]
    return shape[0], shape[1:-1], shape[-1]


def join_shape(layer: Layer, batch: Dimension, spatial: Sequence[Dimension], channels: Dimension) -> Shape:
    """Batch, spatial sizes and channels in the layer's order."""
    return (batch, channels, *spatial) if layer.channels_first else (batch, *spatial, channels)


def write_shape(shape: Shape) -> str:
    """A shape for a message."""
    return "x".join(str(size) for size in shape)[:80]


def spatial_rank(layer: Layer) -> int:
    """Spatial dimensions, from the class's name: ``Conv2DTranspose`` has 2."""
    return next(int(letter) for letter in reversed(layer.kind) if letter.isdigit())


@dataclass(frozen=True, slots=True)
class Stated:
    """What an operator is, where its layer's configuration says so and not its tensors.

    Attributes:
        kind: of `edgewise.model.cost.KINDS`.
        geometry: for its formula; a dimension that is open is left out.
        subgraphs: graphs that it runs.
    """

    kind: str
    geometry: Mapping[str, Dimension]
    subgraphs: tuple[str, ...] = ()

    def known(self) -> dict[str, int]:
        """The numbers of `geometry` that are known."""
        return {key: value for key, value in self.geometry.items() if isinstance(value, int)}
