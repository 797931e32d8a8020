"""The layers, ports and edges of an OpenVINO IR as its XML has them, bodies of loops and branches included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.model.readers.base import MAX_NAME_CHARACTERS, MAX_RANK, Wrong, order_by_needs
from edgewise.model.signature import Dimension

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_BYTES = 256 * 2**20
MAX_MARKS = 8_000_000
"""Tags and attributes of the XML, which bound the memory of its tree; fifty thousand layers have about four million."""
OLDEST_VERSION = 10
"""Of the IR; OpenVINO itself reads none older since 2022."""
MAX_NESTING = 16
"""Bodies within bodies."""
MAX_TEXT_CHARACTERS = 1024
"""Of an option that is only shown; longer ones are replaced by their length."""

_LONG_OPTIONS = {"shape", "variable_shape", "equation", "element_type", "variable_id"}
_BODIES = {"body": "port_map", "then_body": "then_port_map", "else_body": "else_port_map"}

#: Element types as ``element_type`` spells them, and as ports' ``precision`` does, both in lower case → their names.
_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "fp16": "float16", "fp32": "float32", "fp64": "float64",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e8m0": "float8_e8m0", "f4e2m1": "float4_e2m1",
    "boolean": "bool", "bool": "bool", "u1": "uint1", "bin": "uint1",
    "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u2": "uint2", "u3": "uint3", "u4": "uint4", "u6": "uint6",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip

Key = tuple[int, str]
"""A port: the place of its layer in `IrNetwork.layers` and the port's own id."""


@dataclass(slots=True)
class IrPort:
    """A port of a layer; `dims` is empty for a scalar and for an unknown rank alike: the file has no other mark."""

    id: str
    precision: str
    names: str
    dims: tuple[Dimension, ...] = ()


@dataclass(slots=True)
class IrLayer:
    """A layer as the file has it; `maps` and `bodies` are by the names of their elements."""

    id: str
    name: str
    type: str
    version: str
    output_names: str
    options: dict[str, str] = field(default_factory=dict)
    runtime_info: dict[str, str] = field(default_factory=dict)
    inputs: list[IrPort] = field(default_factory=list)
    outputs: list[IrPort] = field(default_factory=list)
    maps: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    back_edges: list[tuple[str, str]] = field(default_factory=list)
    bodies: dict[str, IrNetwork] = field(default_factory=dict)

    def mapping(self, body: str) -> list[dict[str, str]]:
        """Return how ports outside and layers inside of `body` are connected; ``direction`` is input or output."""
        return self.maps.get(_BODIES[body], [])


@dataclass(slots=True)
class IrNetwork:
    """Layers in the file's order and edges as (layer, port, layer, port)."""

    name: str
    layers: list[IrLayer]
    edges: list[tuple[str, str, str, str]]


@dataclass(slots=True)
class IrFile:
    """The network, the version of the IR, and what the tools that wrote the file say of themselves."""

    network: IrNetwork
    version: int
    information: dict[str, str]


def read_layers(path: Path) -> IrFile:
    """Read the XML at `path`. Raises `Wrong`."""
    root = _parse_xml(path)
    if root.tag != "net":
        raise Wrong(f"its root element is <{root.tag[:40]}>, not <net>", advice="give an OpenVINO IR .xml")
    version = read_number(root.get("version", "0"))
    if version < OLDEST_VERSION:
        raise Wrong(
            f"it is OpenVINO IR version {version}; {OLDEST_VERSION} and later are read",
            advice="convert the original model again with a current OpenVINO",
        )
    information: dict[str, str] = {}
    for element in (*root.iterfind("rt_info/*"), *root.iterfind("meta_data/*")):
        if "value" in element.attrib and len(information) < MAX_TEXT_CHARACTERS:
            name = element.get("name", element.tag)[:MAX_TEXT_CHARACTERS]
            information[name] = _shorten("", element.attrib["value"])
    return IrFile(_read_network(root, nesting=0), version, information)


def _parse_xml(path: Path) -> Element:
    if path.stat().st_size > MAX_BYTES:
        raise Wrong(f"its XML is larger than {MAX_BYTES} bytes")
    from defusedxml.ElementTree import fromstring

    data = path.read_bytes()
    if data.count(b"<") + data.count(b"=") > MAX_MARKS:
        raise Wrong(f"it has more than {MAX_MARKS} XML tags and attributes")
    try:
        root: Element = fromstring(data, forbid_dtd=True)
    except Exception as error:  # expat's ParseError, defusedxml's refusals, unknown encodings
        raise Wrong(f"it is truncated or corrupt XML ({error})") from error
    return root


def _read_network(element: Element, *, nesting: int) -> IrNetwork:
    if nesting > MAX_NESTING:
        raise Wrong(f"its bodies are nested more than {MAX_NESTING} deep")
    ends = ("from-layer", "from-port", "to-layer", "to-port")
    return IrNetwork(
        name=element.get("name", "")[:MAX_NAME_CHARACTERS],
        layers=[_read_layer(each, nesting=nesting) for each in element.iterfind("layers/layer")],
        edges=[tuple(edge.get(end, "") for end in ends) for edge in element.iterfind("edges/edge")],  # type: ignore[misc]  # of four
    )


def _read_layer(element: Element, *, nesting: int) -> IrLayer:
    identity, name, kind, version = (element.get(key, "") for key in ("id", "name", "type", "version"))
    layer = IrLayer(identity, name, kind, version, element.get("output_names", ""))
    if max(map(len, (identity, name, kind, version))) > MAX_NAME_CHARACTERS:
        raise Wrong(f"a layer has a name of more than {MAX_NAME_CHARACTERS} characters")
    for data in element.iterfind("data"):
        layer.options.update((key, _shorten(key, value)) for key, value in data.items())
    layer.runtime_info = dict(_read_notes(element))
    layer.inputs = [_read_port(each) for each in element.iterfind("input/port")]
    layer.outputs = [_read_port(each) for each in element.iterfind("output/port")]
    layer.back_edges = [
        (edge.get("from-layer", ""), edge.get("to-layer", "")) for edge in element.iterfind("back_edges/edge")
    ]
    for body, mapping in _BODIES.items():
        for connections in element.iterfind(mapping):
            layer.maps.setdefault(mapping, []).extend(
                {"direction": each.tag, **{key: _shorten("", value) for key, value in each.items()}}
                for each in connections
                if each.tag in ("input", "output")
            )
        networks = element.findall(body)
        if len(networks) > 1:
            raise Wrong(f"layer {layer.name!r} has two bodies of one name")
        if networks:
            layer.bodies[body] = _read_network(networks[0], nesting=nesting + 1)
    return layer


def _read_notes(layer: Element) -> Iterator[tuple[str, str]]:
    """Yield what converters noted of a layer: ``<attribute name="…" value="…"/>``, or an element of its own name."""
    for note in layer.iterfind("rt_info/*"):
        if note.tag == "attribute" and "name" in note.attrib:
            kept = {key: value for key, value in note.items() if key not in ("name", "version")}
            value = kept.pop("value", "") if set(kept) <= {"value"} else str(kept)
            yield note.attrib["name"][:MAX_TEXT_CHARACTERS], _shorten("", value)
        elif "value" in note.attrib:
            yield note.tag[:MAX_TEXT_CHARACTERS], _shorten("", note.attrib["value"])


def _read_port(element: Element) -> IrPort:
    dims = element.findall("dim")
    if len(dims) > MAX_RANK:
        raise Wrong(f"a port has more than {MAX_RANK} dimensions")
    sizes = tuple(read_size(dim.text or "") for dim in dims)
    return IrPort(element.get("id", ""), element.get("precision", ""), element.get("names", ""), sizes)


def _shorten(option: str, value: str) -> str:
    if len(value) <= MAX_TEXT_CHARACTERS or option in _LONG_OPTIONS:
        return value
    return f"{len(value)} characters"


# -- text in attributes -----------------------------------------------------------------------------------------------


def read_shape(text: str) -> tuple[Dimension, ...] | None:
    """Return the shape in ``1,3,?,1..8``; ``...`` is unknown rank and the empty text a scalar. Raises `Wrong`."""
    if text.strip() == "...":
        return None
    words = text.split(",", MAX_RANK)
    if len(words) > MAX_RANK:
        raise Wrong(f"a port has more than {MAX_RANK} dimensions")
    return tuple(map(read_size, words)) if text.strip() else ()


def read_size(text: str) -> Dimension:
    """Return a dimension; None where it is open. Raises `Wrong`."""
    word = text.strip()
    if word in ("?", "-1"):
        return None
    low, dots, high = word.partition("..")
    if dots and (low or high):
        # A range is open until a shape is asked for, however narrow; both of its ends must be numbers.
        sizes = {read_number(end) for end in (low, high) if end}
        return sizes.pop() if low and high and len(sizes) == 1 else None
    return read_number(word)


def read_number(text: str) -> int:
    """Return a number that is not negative. Raises `Wrong`."""
    word = text.strip()
    if not re.fullmatch(r"[0-9]{1,19}", word, re.ASCII):
        raise Wrong(f"{word[:40]!r} is not a size")
    return int(word)


def choose_name(names: str) -> str:
    """Return the name OpenVINO calls an input or output by: of several, separated by commas, the smallest."""
    words: list[Any] = re.findall(r"(?:[^,\\]|\\.)+", names)
    return min((re.sub(r"\\(.)", r"\1", word) for word in words), default="")


def name_dtype(text: str) -> str:
    """Return the dtype of an element type or a precision: one of `edgewise.model.graph.BITS`, else the file's word."""
    return _DTYPES.get(text.lower(), text.lower() or "undefined")


# -- connections ------------------------------------------------------------------------------------------------------


class Wiring:
    """How the layers of one network are connected.

    Attributes:
        inputs, outputs: ports by their keys.
        sources: input → the output that feeds it.
        uses: output → how many inputs it feeds.
        order: places of the layers, each after those that feed it and else in the file's order.

    Raises:
        Wrong: doubled ids, edges from or to nowhere, an input that nothing feeds or that two outputs feed, a cycle.
    """

    def __init__(self, network: IrNetwork) -> None:
        self.layers = network.layers
        self.inputs: dict[Key, IrPort] = {}
        self.outputs: dict[Key, IrPort] = {}
        places: dict[str, int] = {}
        for place, layer in enumerate(self.layers):
            if places.setdefault(layer.id, place) != place:
                raise Wrong(f"two layers have the id {layer.id[:40]!r}")
            for ports, by_key in ((layer.inputs, self.inputs), (layer.outputs, self.outputs)):
                for port in ports:
                    if by_key.setdefault((place, port.id), port) is not port:
                        raise Wrong(f"two ports of layer {layer.name!r} have the id {port.id[:40]!r}")
        self.sources: dict[Key, Key] = {}
        self.uses: Counter[Key] = Counter()
        for from_layer, from_port, to_layer, to_port in network.edges:
            source, target = (places.get(from_layer, -1), from_port), (places.get(to_layer, -1), to_port)
            if source not in self.outputs:
                raise _lead_nowhere("from", from_layer, from_port)
            if target not in self.inputs:
                raise _lead_nowhere("to", to_layer, to_port)
            if target in self.sources:
                raise Wrong(f"two edges feed port {to_port[:40]!r} of layer {to_layer[:40]!r}")
            self.sources[target] = source
            self.uses[source] += 1
        for place, name in self.inputs:
            if (place, name) not in self.sources:
                raise Wrong(f"port {name[:40]!r} of layer {self.layers[place].name!r} is not connected")
        self.order = self._sort()

    def input_keys(self, place: int) -> list[Key]:
        """Return the outputs that feed the layer at `place`, in the order of its inputs."""
        return [self.sources[place, port.id] for port in self.layers[place].inputs]

    def _sort(self) -> list[int]:
        needs: list[set[int]] = [set() for _ in self.layers]
        for (target, _), (source, _) in self.sources.items():
            needs[target].add(source)
        readers: dict[str, int] = {}
        for place, layer in enumerate(self.layers):
            if layer.type == "ReadValue":
                readers.setdefault(layer.options.get("variable_id", ""), place)
        for place, layer in enumerate(self.layers):
            reader = readers.get(layer.options.get("variable_id", ""))
            # A state is read before it is written, which no edge says. A writer that feeds others may be wired before
            # the reader; then its edges say enough.
            feeds = any(self.uses[place, port.id] for port in layer.outputs)
            if layer.type == "Assign" and reader is not None and not feeds:
                needs[place].add(reader)
        order, stuck = order_by_needs(needs)
        if stuck is not None:
            raise Wrong(f"its layers depend on each other in a cycle through {self.layers[stuck].name!r}")
        return order


def _lead_nowhere(side: str, layer: str, port: str) -> Wrong:
    return Wrong(f"an edge goes {side} layer {layer[:40]!r}, port {port[:40]!r}, which does not exist")
