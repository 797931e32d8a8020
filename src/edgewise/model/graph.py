"""The format-neutral view of a network: tensors, operators and their order, the same for every format.

A reader translates each of its format's operators into a *kind* with the few numbers (`Operator.geometry`) that the
formulas of `edgewise.model.cost` need; everything else (totals, memory plan, attribution, findings) speaks only of
kinds. What a reader can't translate has the kind ``""`` and an unknown cost, never a cost of 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from edgewise.model.signature import Dimension

#: dtype → bits of one element; what is not here has an unknown size (strings, resources, formats' own types).
BITS: dict[str, int] = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "complex64": 64, "complex128": 128,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8, "int4": 4, "int2": 2,
    "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "uint4": 4, "uint2": 2, "uint1": 1, "bool": 8,
    "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float8_e8m0": 8,
    "float4_e2m1": 4, "nf4": 4, "fp4": 4, "uint3": 3, "uint6": 6,
}  # fmt: skip

LANGUAGE_MODEL = "language_model"
"""Key in `Graph.metadata` of what the header of a language model's weights says, where the file has no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredData:
    """Where the elements of a constant lie: little-endian, in row-major order, narrow types packed from the low bits.

    Attributes:
        dtype: of the elements in the file; a tensor that is converted on loading has another one.
        file: the path of the file; "" if `inline` has the bytes.
        offset, size: of the elements in the file, in bytes.
        inline: the bytes themselves, of a constant too small for a place of its own.
    """

    dtype: str
    file: str = ""
    offset: int = 0
    size: int = 0
    inline: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How a tensor's integers stand for real numbers: real = scale × (integer − zero point).

    Attributes:
        scale, zero_point: of the first channel (or of the whole tensor).
        channels: how many scales there are; 1 is per tensor.
        axis: along which dimension they differ; None per tensor.
        block: elements of one block along `axis` for block-wise quantisation, else None.
        zero_points: where the zero points lie if there are several; None if `zero_point` is the only one.
    """

    scale: float
    zero_point: int = 0
    channels: int = 1
    axis: int | None = None
    block: int | None = None
    zero_points: StoredData | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A value that flows between operators, or a constant.

    Attributes:
        name: unique in its graph.
        shape: None where not even the rank is known; a dimension that is no int is open.
        dtype: numpy's name, or the format's own where numpy has none.
        container: the type that the file gives a weight whose elements of `dtype` an operator unpacks from larger ones
            (4-bit weights in bytes); "" where that is `dtype`.
        constant: its value is in the model (weights, shapes, axes).
        variable: it keeps its value from one inference to the next (states of recurrent networks).
        stored_bytes: what a constant takes in the file where that differs from its elements' bytes (sparse, packed,
            compressed); None where it does not.
        scales: of a quantised constant: its scales and zero points that the file stores, name → bytes.
        sparsity: share of a constant's elements that its sparse encoding leaves out; None where it is dense.
        data: where a constant's elements lie (of a sparse encoding: those that it keeps); None where the file has them
            in another form, or the reader gives no place.
        repeated: whether all elements of a constant are the one value that the file stores.
    """

    name: str
    shape: tuple[Dimension, ...] | None
    dtype: str
    container: str = ""
    constant: bool = False
    variable: bool = False
    quantization: Quantization | None = None
    stored_bytes: int | None = None
    scales: Mapping[str, int | None] = field(default_factory=dict, compare=False)
    sparsity: float | None = None
    data: StoredData | None = field(default=None, compare=False, repr=False)
    repeated: bool = False

    @property
    def elements(self) -> int | None:
        """How many elements it has; None where a dimension is open."""
        if self.shape is None:
            return None
        sizes = [size for size in self.shape if isinstance(size, int)]
        return prod(sizes) if len(sizes) == len(self.shape) else None

    @property
    def size_bytes(self) -> int | None:
        """Bytes of its elements, packed, without padding; None where that can't be known."""
        bits, elements = BITS.get(self.dtype), self.elements
        return None if bits is None or elements is None else (elements * bits + 7) // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One step of a network.

    Attributes:
        index: its place in `Graph.operators`, from 0.
        name: unique in its graph; the format's own name for it, else the name of its first output.
        op: its type as the format calls it (``Conv``, ``DEPTHWISE_CONV_2D``, ``aten.conv2d.default``).
        kind: its kind in `edgewise.model.cost.KINDS`, or "" where it has none.
        inputs: names of tensors in the format's order; "" stands for an optional one that is left out.
        outputs: names of tensors, the same.
        weights: those of the constant inputs that are parameters: not shapes, axes, indices, scales or zero points.
        option_weights: names of constants that are parameters and stand in its options (tree ensembles, linear models).
        geometry: the numbers and words that its kind's formula needs, as `edgewise.model.cost` documents them.
        attributes: its options as the file has them, JSON-shaped, big values shortened to their shape and type.
        domain: of the operator set it is from; "" is the format's own.
        version: of its definition, where the format gives operators versions of their own (TFLite; OpenVINO: the
            number of its operator set); 0 elsewhere.
        custom: an operator of nobody's standard, by its author's name.
        subgraphs: names in `Graph.subgraphs` of the graphs it runs (branches, bodies).
        unknown_because: with the kind "": why its cost is unknown, where there is more to say than that its type is.
        label: a better name for people than the file's, "" where there is none: with the module of a PyTorch network
            that it comes from in front; of the many names that TFLite's converter has joined, its own.
    """

    index: int
    name: str
    op: str
    kind: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    option_weights: tuple[str, ...] = ()
    geometry: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    version: int = 0
    custom: bool = False
    subgraphs: tuple[str, ...] = ()
    unknown_because: str = ""
    label: str = ""

    @property
    def title(self) -> str:
        """What a person calls it: `label`, else `name`."""
        return self.label or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A network, its operators in an order in which they can run.

    Attributes:
        name: the file's own name for it, "" where it has none.
        format: of the reader that made it.
        producer: the tool that wrote the file, where it says so.
        version: of the format: ``opset 17``, ``schema 3``, ``IR 11``.
        tensors: by name; every name that an operator mentions is in it.
        inputs, outputs: names of tensors in the model's order; constants are no inputs.
        subgraphs: graphs that operators run (branches, loop bodies), by name. Their operators refer to their own
            tensors only; a value that is captured from outside is a tensor of both.
        signatures: of a file with named entry points: their names → the inputs of each, in the file's order.
        signature: the one of `signatures` that this graph is; "" where it has no name.
        metadata: what else the file says of itself, JSON-shaped.
    """

    name: str
    format: str
    producer: str = ""
    version: str = ""
    tensors: Mapping[str, Tensor]
    operators: tuple[Operator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    subgraphs: Mapping[str, Graph] = field(default_factory=dict)
    signatures: Mapping[str, tuple[Tensor, ...]] = field(default_factory=dict)
    signature: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of what lives on from one inference to the next.

        These are variable tensors, and the resources that TFLite's operators assign.
        """
        found = {name: None for name, tensor in self.tensors.items() if tensor.variable}
        handles = {
            name: str(operator.attributes.get("shared_name") or name)
            for operator in self.operators
            if operator.op == "VAR_HANDLE"
            for name in operator.outputs
        }
        for operator in self.operators:
            if operator.op == "ASSIGN_VARIABLE":
                found |= {handles.get(name, name): None for name in operator.inputs[:1]}
            if operator.op != "CALL_ONCE":  # that runs before the first inference alone
                inner = (self.subgraphs[name] for name in operator.subgraphs if name in self.subgraphs)
                found |= {name: None for graph in inner for name in graph.states}
        return tuple(found)

    def input_tensors(self, operator: Operator) -> Iterator[Tensor]:
        """Return the tensors of the inputs that are there."""
        return (self.tensors[name] for name in operator.inputs if name)

    def output_tensors(self, operator: Operator) -> Iterator[Tensor]:
        """Return the tensors of the outputs that are there."""
        return (self.tensors[name] for name in operator.outputs if name)

    def producers(self) -> dict[str, int]:
        """Name of a tensor → index of the operator that makes it; inputs and the file's own constants have none."""
        return {name: operator.index for operator in self.operators for name in operator.outputs if name}

    def consumers(self) -> dict[str, list[int]]:
        """Name of a tensor → indices of the operators that take it, each once, in order."""
        found: dict[str, list[int]] = {}
        for operator in self.operators:
            for name in dict.fromkeys(operator.inputs):
                if name:
                    found.setdefault(name, []).append(operator.index)
        return found
