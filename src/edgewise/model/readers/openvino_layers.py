"""The layers, ports and edges of an OpenVINO IR as its XML has them, bodies of loops and branches included.

Elements are taken as the parser meets them and dropped at once, so memory follows the layers and never the XML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.errors import BadModel
from edgewise.model.readers import openvino_values
from edgewise.model.readers.base import MAX_NAME_CHARACTERS, MAX_RANK, damaged
from edgewise.model.signature import Dimension

MAX_BYTES = 512 * 2**20
MAX_ELEMENTS = 4_000_000
"""XML elements; fifty thousand layers have about a million."""
OLDEST_VERSION = 10
"""Of the IR; OpenVINO itself reads none older since 2022."""
MAX_TAG_BYTES = 16 * 2**20
_BLOCK_BYTES = 2**20
_MAX_ATTRIBUTE_CHARACTERS = 2**16
MAX_LAYERS = 200_000
MAX_PORTS = 1_000_000
MAX_NESTING = 16
"""Bodies within bodies."""
MAX_TEXT_CHARACTERS = 1024
"""Of an option that is only shown; longer ones are replaced by their length."""

_LONG_OPTIONS = {"shape", "variable_shape", "equation", "element_type", "variable_id"}
_BODIES = {"body": "port_map", "then_body": "then_port_map", "else_body": "else_port_map"}


@dataclass(slots=True)
class IrPort:
    """Of a layer; `dims` is empty for a scalar and for an unknown rank alike: the file does not tell them apart."""

    id: str
    precision: str
    names: str
    dims: tuple[Dimension, ...] = ()


@dataclass(slots=True)
class IrLayer:
    """As the file has it; `maps` and `bodies` are by the names of their elements."""

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
        """How ports outside and layers inside of `body` are connected; ``direction`` is input or output."""
        return self.maps.get(_BODIES[body], [])


@dataclass(slots=True)
class IrNetwork:
    """Layers in the file's order and edges as (layer, port, layer, port)."""

    name: str
    layers: list[IrLayer] = field(default_factory=list)
    edges: list[tuple[str, str, str, str]] = field(default_factory=list)


@dataclass(slots=True)
class IrFile:
    """What the whole file says."""

    network: IrNetwork
    version: int
    information: dict[str, str]


def read_layers(path: Path) -> IrFile:
    """Everything the XML at `path` tells of the network. Raises `BadModel`."""
    collector = _Collector(path)
    _parse_xml(path, collector)
    if collector.root is None:  # the parser refuses an empty document before
        raise damaged(path, "it is empty")
    return IrFile(collector.root, collector.version, collector.information)


class _Collector:
    """Walks the tree with the parser: each open element has a role and the object that it adds to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = 0
        self.elements = 0
        self.layers = 0
        self.ports = 0
        self.nesting = 0
        self.version = 0
        self.root: IrNetwork | None = None
        self.information: dict[str, str] = {}
        self.open: list[tuple[str, Any]] = []
        self.text: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self.events += 1
        self.elements += 1
        if self.elements > MAX_ELEMENTS:
            raise damaged(self.path, f"it has more than {MAX_ELEMENTS} XML elements")
        if not self.open:
            self.version = _check_root(self.path, tag, attributes)
            self.root = IrNetwork(attributes.get("name", "")[:MAX_NAME_CHARACTERS])
            self.open.append(("net", self.root))
            return
        role, parent = self.open[-1]
        open_element = getattr(self, f"_in_{role}", None)
        if open_element is not None:
            _check_attributes(self.path, tag, attributes)
        found = open_element(tag, attributes, parent) if open_element is not None else None
        self.open.append(found or ("ignored", None))

    def data(self, text: str) -> None:
        """Text of an element."""
        self.events += 1
        if self.open and self.open[-1][0] == "dim":
            self.text.append(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        self.events += 1
        role, target = self.open.pop()
        if role == "dim":
            if len(target.dims) >= MAX_RANK:
                raise damaged(self.path, f"a port has more than {MAX_RANK} dimensions")
            target.dims += (openvino_values.read_size(self.path, "".join(self.text)),)
        elif role == "net":
            self.nesting -= 1

    def close(self) -> None:
        """The document ends."""

    def _in_net(self, tag: str, attributes: Mapping[str, str], parent: IrNetwork) -> tuple[str, Any] | None:
        if tag in ("layers", "edges"):
            return tag, parent
        if tag in ("rt_info", "meta_data") and len(self.open) == 1:
            return "information", None
        return None

    def _in_layers(self, tag: str, attributes: Mapping[str, str], parent: IrNetwork) -> tuple[str, Any] | None:
        if tag != "layer":
            return None
        self.layers += 1
        if self.layers > MAX_LAYERS:
            raise damaged(self.path, f"it has more than {MAX_LAYERS} layers")
        identity, name, kind, version = (attributes.get(key, "") for key in ("id", "name", "type", "version"))
        if max(map(len, (identity, name, kind, version))) > MAX_NAME_CHARACTERS:
            raise damaged(self.path, f"a layer has a name of more than {MAX_NAME_CHARACTERS} characters")
        layer = IrLayer(identity, name, kind, version, attributes.get("output_names", ""))
        parent.layers.append(layer)
        return "layer", layer

    def _in_layer(self, tag: str, attributes: Mapping[str, str], layer: IrLayer) -> tuple[str, Any] | None:
        if tag == "data":
            layer.options.update((key, _shorten(key, value)) for key, value in attributes.items())
        elif tag == "input":
            return "ports", layer.inputs
        elif tag == "output":
            return "ports", layer.outputs
        elif tag == "rt_info":
            return "runtime_info", layer.runtime_info
        elif tag == "back_edges":
            return "back_edges", layer.back_edges
        elif tag in _BODIES.values():
            return "map", layer.maps.setdefault(tag, [])
        elif tag in _BODIES:
            self.nesting += 1
            if self.nesting > MAX_NESTING:
                raise damaged(self.path, f"its bodies are nested more than {MAX_NESTING} deep")
            if tag in layer.bodies:
                raise damaged(self.path, f"layer {layer.name!r} has two bodies of one name")
            layer.bodies[tag] = IrNetwork(attributes.get("name", "")[:MAX_NAME_CHARACTERS])
            return "net", layer.bodies[tag]
        return None

    def _in_ports(self, tag: str, attributes: Mapping[str, str], ports: list[IrPort]) -> tuple[str, Any] | None:
        if tag != "port":
            return None
        self.ports += 1
        if self.ports > MAX_PORTS:
            raise damaged(self.path, f"it has more than {MAX_PORTS} ports")
        port = IrPort(attributes.get("id", ""), attributes.get("precision", ""), attributes.get("names", ""))
        ports.append(port)
        return "port", port

    def _in_port(self, tag: str, attributes: Mapping[str, str], port: IrPort) -> tuple[str, Any] | None:
        self.text = []
        return ("dim", port) if tag == "dim" else None

    def _in_runtime_info(self, tag: str, attributes: Mapping[str, str], info: dict[str, str]) -> None:
        if tag == "attribute" and "name" in attributes:
            kept = {key: value for key, value in attributes.items() if key not in ("name", "version")}
            value = kept.pop("value", "") if set(kept) <= {"value"} else str(kept)
            info[attributes["name"][:MAX_TEXT_CHARACTERS]] = _shorten("", value)
        elif "value" in attributes:
            info[tag[:MAX_TEXT_CHARACTERS]] = _shorten("", attributes["value"])

    def _in_map(self, tag: str, attributes: Mapping[str, str], entries: list[dict[str, str]]) -> None:
        if tag in ("input", "output"):
            entries.append({"direction": tag, **{key: _shorten("", value) for key, value in attributes.items()}})

    def _in_back_edges(self, tag: str, attributes: Mapping[str, str], edges: list[tuple[str, str]]) -> None:
        if tag == "edge":
            edges.append((attributes.get("from-layer", ""), attributes.get("to-layer", "")))

    def _in_edges(self, tag: str, attributes: Mapping[str, str], network: IrNetwork) -> None:
        if tag == "edge":
            source = attributes.get("from-layer", ""), attributes.get("from-port", "")
            network.edges.append((*source, attributes.get("to-layer", ""), attributes.get("to-port", "")))

    def _in_information(self, tag: str, attributes: Mapping[str, str], parent: None) -> None:
        if "value" in attributes and len(self.information) < MAX_TEXT_CHARACTERS:
            self.information[attributes.get("name", tag)[:MAX_TEXT_CHARACTERS]] = _shorten("", attributes["value"])


def _parse_xml(path: Path, target: _Collector) -> None:
    """Feed the file to `target` in blocks, never holding more of it. Raises `BadModel`."""
    if path.stat().st_size > MAX_BYTES:
        raise damaged(path, f"its XML is larger than {MAX_BYTES} bytes")
    from defusedxml.ElementTree import DefusedXMLParser

    parser = DefusedXMLParser(target=target, forbid_dtd=True)
    try:
        with path.open("rb") as file:
            silent, events = 0, 0
            while block := file.read(_BLOCK_BYTES):
                parser.feed(block)
                # expat looks at an unfinished tag again with every block, so one that never ends would take for ever.
                silent = silent + len(block) if events == target.events else 0
                events = target.events
                if silent > MAX_TAG_BYTES:
                    raise damaged(path, f"it has an XML tag of more than {MAX_TAG_BYTES} bytes")
        parser.close()
    except (BadModel, OSError):
        raise
    except Exception as error:  # expat's ParseError, defusedxml's refusals, unknown encodings
        raise damaged(path, f"it is truncated or corrupt XML ({error})") from error


def _check_root(path: Path, tag: str, attributes: Mapping[str, str]) -> int:
    """The version of the IR, from the root element. Raises `BadModel`."""
    if tag != "net":
        raise damaged(path, f"its root element is <{tag[:40]}>, not <net>", advice="give an OpenVINO IR .xml")
    version = openvino_values.read_number(path, attributes.get("version", "0"))
    if version < OLDEST_VERSION:
        raise damaged(
            path,
            f"it is OpenVINO IR version {version}; {OLDEST_VERSION} and later are read",
            advice="convert the original model again with a current OpenVINO",
        )
    return version


def _check_attributes(path: Path, tag: str, attributes: Mapping[str, str]) -> None:
    """Refuse attributes of absurd length. Raises `BadModel`."""
    if any(len(value) > _MAX_ATTRIBUTE_CHARACTERS for value in attributes.values()):
        raise damaged(path, f"an attribute of <{tag}> is longer than {_MAX_ATTRIBUTE_CHARACTERS} characters")


def _shorten(option: str, value: str) -> str:
    if len(value) <= MAX_TEXT_CHARACTERS or option in _LONG_OPTIONS:
        return value
    return f"{len(value)} characters"
