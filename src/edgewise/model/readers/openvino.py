"""OpenVINO IR: an XML file of layers and edges, its weights in a ``.bin`` file of the same name beside it.

The format is described at
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from edgewise.model.graph import Graph
from edgewise.model.readers.base import (
    Wrong,
    check_inside,
    damaged,
    explain_damage,
    identify_version,
    make_signature,
    missing_weights,
)
from edgewise.model.readers.openvino_layers import (
    MAX_BYTES,
    IrFile,
    IrNetwork,
    choose_name,
    name_dtype,
    read_layers,
    read_number,
    read_shape,
)
from edgewise.model.signature import Signature, TensorSpec

_OLD = 10
"""Files of this version are presented with the types of OpenVINO's interface before 2022.1, whatever they declare."""


DECODER, TOKENIZER = "openvino_model.xml", "openvino_tokenizer.xml"
"""Names that OpenVINO GenAI gives the files of a language model."""


class OpenVinoReader:
    """Reads OpenVINO IR."""

    format = "openvino"
    title = "OpenVINO IR (.xml)"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether this is XML whose root element is ``net``, and no language model with its tokenizer beside it."""
        return self.is_ir(head) and not (has_tokenizer(path) and makes_text(path))

    @staticmethod
    def is_ir(head: bytes) -> bool:
        """Whether a file that begins so is XML whose root element is ``net``."""
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return text.startswith((b"<?xml", b"<!--", b"<net")) and re.search(rb"<net[\s>]", text) is not None

    def read_signature(self, path: Path) -> Signature:
        """Parameter and Result layers; tensor names where there are any, else the layers' own, as OpenVINO does."""
        _parse.cache_clear()  # a file may change within one tick of the file system's clock
        return _parse(identify_version(path))[0]

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """Return the ``.bin`` file, where the model has constants."""
        return find_weights(path, _parse(identify_version(path))[1])

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the network; see `edgewise.model.readers.openvino_graph`.

        The file states the shape of every port as its converter knew it. A shape in `shapes` is checked and given to
        its input; shapes behind it follow where the operations' definitions tell them, and stay open elsewhere.

        Raises:
            BadModel: layers, ports, edges, shapes or constants that do not fit together; a cycle; missing weights.
            BadInput: a name in `shapes` is no input, a shape does not fit, or the network can't take it.
        """
        from edgewise.model.readers.openvino_graph import read_network

        with explain_damage(path):
            return read_network(path, shapes=shapes or {})


def find_weights(path: Path, needed: int) -> tuple[Path, ...]:
    """Return the file with the weights of the IR at `path`, of which it needs `needed` bytes. Raises `BadModel`."""
    weights = path.with_suffix(".bin")
    check_inside(path, weights)  # the engine opens it in any case
    if needed == 0:
        return ()
    if not weights.is_file():
        raise missing_weights(path, weights.name, needed)
    if (size := weights.stat().st_size) < needed:
        raise damaged(path, f"{weights.name} is truncated: {size} bytes, at least {needed} are needed")
    return (weights,)


def has_tokenizer(path: Path) -> bool:
    """Whether the tokenizer of a language model lies beside the IR at `path`."""
    return path.name == DECODER and path.with_name(TOKENIZER).is_file()


def makes_text(path: Path) -> bool:
    """Whether the IR at `path` is the decoder of a language model: one that keeps keys and values, and takes the order
    of its sequences.
    """
    size = path.stat().st_size
    if not 0 < size <= MAX_BYTES:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(b'"beam_idx"') >= 0 and text.find(b'"ReadValue"') >= 0


@lru_cache(maxsize=1)
def _parse(version: tuple[Path, int, int, int]) -> tuple[Signature, int]:
    """Read inputs, outputs and the end of the weights; kept for the next call on the same file. Raises `BadModel`."""
    with explain_damage(version[0]):
        file = read_layers(version[0])
        return _read_signature(version[0], file), measure_weights(file.network)


def _read_signature(path: Path, file: IrFile) -> Signature:
    network = file.network
    input_type, output_type = (_old_input, _old_output) if file.version == _OLD else (name_dtype, name_dtype)
    producers = {edge[2]: edge[:2] for edge in network.edges}  # an input has one; only those of Results are asked for
    names = {(layer.id, port.id): port.names for layer in network.layers for port in layer.outputs}
    inputs, outputs = [], []
    for layer in network.layers:
        if layer.type == "Parameter":
            if "shape" not in layer.options or "element_type" not in layer.options:
                raise Wrong(f"input {layer.name!r} has no shape or element type")
            given = layer.outputs[-1].names if layer.outputs else ""
            shape, dtype = read_shape(layer.options["shape"]), input_type(layer.options["element_type"])
            inputs.append(TensorSpec(name=choose_name(given) or layer.name, shape=shape, dtype=dtype))
        elif layer.type == "Result":
            given = layer.output_names or names.get(producers.get(layer.id, ("", "")), "")
            port = layer.inputs[-1] if layer.inputs else None
            outputs.append(
                TensorSpec(
                    name=choose_name(given) or layer.name,
                    # A port without dimensions is a scalar or of unknown rank: the file does not tell which.
                    shape=port.dims or None if port is not None else None,
                    dtype=output_type(port.precision if port is not None else ""),
                )
            )
    return make_signature(path, inputs=inputs, outputs=outputs)


def measure_weights(network: IrNetwork) -> int:
    """Return where the constants end, in bytes; the bodies of loops and branches keep theirs in the same file."""
    ends = [0]
    for layer in network.layers:
        if "offset" in layer.options and "size" in layer.options:
            ends.append(read_number(layer.options["offset"]) + read_number(layer.options["size"]))
        ends += [measure_weights(body) for body in layer.bodies.values()]
    return max(ends)


def _old_input(text: str) -> str:
    """Return the type in which OpenVINO takes an input of IR 10 with the element type `text`."""
    declared = name_dtype(text)
    return "float32" if declared == "float16" else declared


def _old_output(text: str) -> str:
    """Return the type in which OpenVINO gives an output of IR 10 with the element type `text`."""
    declared = name_dtype(text)
    if declared == "undefined":
        return declared
    return "int32" if declared in ("int32", "int64", "uint32", "uint64") else "float32"
