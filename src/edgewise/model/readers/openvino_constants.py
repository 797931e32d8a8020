"""Constants of an OpenVINO IR: where they lie in the ``.bin`` file, the values of small ones, and how they are packed.

Converters write weights in 16 bits with a ``Convert`` behind them; quantised ones as ``Convert``, ``Subtract`` (zero
point), ``Multiply`` (scale), perhaps ``Reshape`` (blocks) and ``Convert``, as
https://docs.openvino.ai/2025/openvino-workflow/model-optimization-guide/weight-compression.html describes. Engines
evaluate these layers when they load the model or inside the kernel that takes the weights, so that a constant and the
layers behind it count as one constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.model.graph import BITS, Quantization, StoredData, Tensor
from edgewise.model.readers.base import Wrong, check_inside, missing_weights, read_first
from edgewise.model.readers.openvino_layers import IrLayer, Key, Wiring, name_dtype, read_number, read_shape
from edgewise.model.signature import Shape


class Weights:
    """The ``.bin`` file beside an IR."""

    def __init__(self, path: Path) -> None:
        self.model = path
        self.path = path.with_suffix(".bin")
        check_inside(path, self.path)
        self.size = self.path.stat().st_size if self.path.is_file() else None

    def describe(self, layer: IrLayer) -> Tensor:
        """Return the constant that `layer` is. Raises `Wrong` where it does not fit its file, type or shape."""
        options = layer.options
        if not {"shape", "element_type", "offset", "size"} <= set(options):
            raise Wrong(f"constant {layer.name!r} has no shape, element type, offset or size")
        shape = read_shape(options["shape"])
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise Wrong(f"constant {layer.name!r} has an open shape")
        dtype = name_dtype(options["element_type"])
        offset, size = (read_number(options[name]) for name in ("offset", "size"))
        if self.size is None:
            raise missing_weights(self.model, self.path.name, offset + size)
        if offset + size > self.size:
            raise Wrong(
                f"{self.path.name} is truncated: {self.size} bytes, but constant {layer.name!r} ends at {offset + size}"
            )
        data = StoredData(dtype=dtype, file=str(self.path), offset=offset, size=size)
        constant = Tensor(name=layer.name, shape=shape, dtype=dtype, constant=True, data=data)
        needed = constant.size_bytes
        if needed is not None and size < needed:
            raise Wrong(f"constant {layer.name!r} has {size} bytes, fewer than its shape needs")
        # An empty constant is written as one byte.
        plain = dtype in BITS and (size == needed or not constant.elements)
        return constant if plain else replace(constant, stored_bytes=size)


# -- layers that unpack constants --------------------------------------------------------------------------------------

_FLOATS = {"float64", "float32", "float16", "bfloat16"}
_SCALED_FLOATS = {"float8_e4m3fn", "float8_e5m2", "float8_e8m0", "nf4", "float4_e2m1"}
_PACKED_FLOATS = {"float16", "bfloat16", *_SCALED_FLOATS}
_INTEGERS = {"int8", "uint8", "uint6", "int4", "uint4", "uint3", "int2", "uint2", "int32"}


@dataclass(frozen=True, slots=True)
class Packed:
    """A constant and the layers that unpack it.

    Attributes:
        constant, place: the constant and where its layer is.
        members: places of all layers that it takes the place of, constants of scale and zero point included.
        shape: behind the last layer.
        dtype: of a float, as it is behind the last layer; of a quantised constant, as it is in the file.
        scale, zero: constants of a quantised one.
        quantized: it is a quantised one; complete once it has a scale.
        scales: name → bytes of the constants of scale and zero point.
    """

    constant: Tensor
    place: int
    members: frozenset[int]
    shape: Shape
    dtype: str
    scales: Mapping[str, int | None] = field(default_factory=dict)
    scale: Tensor | None = None
    zero: Tensor | None = None
    quantized: bool = False
    complete: bool = False

    @property
    def quantization(self) -> Quantization | None:
        """Scale and zero point, where the file has them in types that can be read."""
        first = read_first(self.scale) if self.scale is not None else None
        if self.scale is None or first is None or not math.isfinite(first):
            return None
        zero = read_first(self.zero) if self.zero is not None else 0
        if zero is None or not math.isfinite(zero):
            return None
        axis, block = self._axis()
        return Quantization(
            scale=float(first), zero_point=int(zero), channels=self.scale.elements or 1, axis=axis, block=block,
            zero_points=self.zero.data if self.zero is not None and self.zero.elements != 1 else None,
        )  # fmt: skip

    def _axis(self) -> tuple[int | None, int | None]:
        """Along which dimension scales differ, and the size of a block along it."""
        assert self.scale is not None
        stored, sizes = self.constant.shape or (), self.scale.shape or ()
        scales = (1,) * (len(stored) - len(sizes)) + sizes
        varying = [at for at, size in enumerate(scales) if size != 1]
        if not varying:
            return None, None
        blocks = [size for size, scale in zip(stored, scales, strict=False) if scale == 1 and isinstance(size, int)]
        blocks = [size for size in blocks if size > 1]
        if len(varying) > 1 and blocks:
            return len(self.shape) - 1, blocks[-1]
        return min(varying[0], len(self.shape) - 1), None


def find_packed(wiring: Wiring, constants: Mapping[int, Tensor]) -> dict[Key, Packed]:
    """Output of the last layer that unpacks a constant → that constant."""
    chains: dict[Key, Packed] = {}
    for place in wiring.order:
        layer = wiring.layers[place]
        if len(layer.outputs) != 1:
            continue
        key = place, layer.outputs[0].id
        if place in constants:
            chains[key] = _begin(place, constants[place])
        elif layer.type in _STEPS and layer.inputs:
            sources = wiring.input_keys(place)
            chain = chains.get(sources[0])
            # A constant that others take too stays as it is.
            if chain is None or wiring.uses[sources[0]] != 1:
                continue
            beside = [(chains.get(source), wiring.uses[source] == 1) for source in sources[1:]]
            longer = _extend(chain, layer, beside)
            if longer is not None:
                for source in sources:
                    if wiring.uses[source] == 1:
                        chains.pop(source, None)
                chains[key] = replace(longer, members=longer.members | {place})
    return {key: chain for key, chain in chains.items() if chain.complete}


_STEPS = {"Convert", "Subtract", "Multiply", "Reshape"}


def _begin(place: int, constant: Tensor) -> Packed:
    return Packed(constant, place, frozenset({place}), constant.shape or (), constant.dtype)


def _extend(chain: Packed, layer: IrLayer, beside: list[tuple[Packed | None, bool]]) -> Packed | None:
    """Return the chain with `layer` at its end, or None where the layer is a computation of its own."""
    if layer.type == "Convert":
        return _convert(chain, name_dtype(layer.options.get("destination_type", "")))
    other, alone = beside[0] if len(beside) == 1 else (None, False)
    if chain.constant.dtype in _SCALED_FLOATS and layer.type == "Multiply":
        chain = replace(chain, dtype=chain.constant.dtype, quantized=True)  # behind a scale, no longer itself
    if not chain.quantized or other is None:
        return None
    members = chain.members | other.members if alone else chain.members
    # Several constants may share a scale: its place in the file tells it.
    place = other.constant.data
    scales = {**chain.scales, f"@{place.offset}": place.size} if place else chain.scales
    if layer.type == "Subtract" and chain.scale is None and chain.zero is None:
        return replace(chain, zero=other.constant, members=members, scales=scales)
    if layer.type == "Multiply" and chain.scale is None:
        return replace(chain, scale=other.constant, members=members, scales=scales, complete=True)
    if layer.type == "Reshape" and chain.complete:
        reshaped = replace(chain.constant, shape=layer.outputs[0].dims)
        if reshaped.elements == replace(chain.constant, shape=chain.shape).elements:
            return replace(chain, shape=layer.outputs[0].dims, members=members)
    return None


def _convert(chain: Packed, destination: str) -> Packed | None:
    if destination not in _FLOATS:
        return None
    if chain.complete:
        return replace(chain, dtype=chain.dtype if chain.quantized else destination)
    if chain.dtype in _PACKED_FLOATS and BITS[destination] > BITS[chain.dtype] and len(chain.members) == 1:
        return replace(chain, dtype=destination, complete=True)
    if chain.dtype in _INTEGERS and not chain.quantized:
        return replace(chain, quantized=True)
    return None
