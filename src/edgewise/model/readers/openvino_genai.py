"""Folders of OpenVINO GenAI: a language model as OpenVINO IR, its tokenizer as two more, and settings in JSON.

optimum-intel exports them, and OpenVINO GenAI makes one from a GGUF file (``enable_save_ov_model``), which has no
``config.json``. A chat template is a program: it is noted and never executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from shlex import quote
from typing import Any

from edgewise.model.graph import LANGUAGE_MODEL, Graph
from edgewise.model.readers.base import (
    Wrong,
    check_inside,
    explain_damage,
    identify_version,
    read_json,
)
from edgewise.model.readers.openvino import (
    DECODER,
    TOKENIZER,
    OpenVinoReader,
    find_weights,
    has_tokenizer,
    makes_text,
    measure_weights,
)
from edgewise.model.readers.openvino_layers import IrNetwork, name_dtype, read_layers, read_number, read_shape
from edgewise.model.signature import Signature

DETOKENIZER = "openvino_detokenizer.xml"
_CONFIG, _CHAT_TEMPLATE = "config.json", "chat_template.jinja"
_SETTINGS = (_CONFIG, "generation_config.json", "tokenizer_config.json", "special_tokens_map.json")
_MOST_BYTES = 2**23
_LENGTHS = ("max_position_embeddings", "n_positions")
"""Keys of ``config.json`` for the tokens that a model was made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OvGenAiFolder:
    """What is known of a model before it is loaded.

    Attributes:
        config: content of ``config.json``; empty where there is none.
        states: shapes of what the network keeps from one token to the next; a dimension that is open is None.
        vocabulary: the last dimension of the logits; None where it is open.
        weight_bytes: of the network's weights.
        quantisation: type that most bytes of the weights have: ``uint4``; "" without weights.
    """

    config: Mapping[str, Any]
    states: tuple[tuple[int | None, ...], ...]
    vocabulary: int | None
    weight_bytes: int
    quantisation: str
    has_chat_template: bool
    tokenizer: str = TOKENIZER
    kv_cache_type: None = None  # the engine chooses it

    @property
    def context_length(self) -> int | None:
        """Tokens that the model was made for; None where ``config.json`` does not say."""
        found = (self.config.get(key) for key in _LENGTHS)
        return next((each for each in found if type(each) is int and each > 0), None)

    def cached_numbers(self) -> tuple[int | None, str]:
        """Numbers that the KV cache keeps of one token: Σ over the network's states of heads × size.

        Returns:
            None and the reason where the network keeps something else.
        """
        fixed = [[size for size in state if size is not None] for state in self.states]
        # Batch and tokens are open, heads and the size of each are not.
        if not fixed or any(len(state) != 4 or len(each) != 2 for state, each in zip(self.states, fixed, strict=True)):
            return None, "the network keeps other things than keys and values of all tokens"
        return sum(map(prod, fixed)), ""


def read_folder(path: Path) -> OvGenAiFolder:
    """Return what the network at `path` and the settings beside it tell. Raises `BadModel`."""
    config: Mapping[str, Any] = {}
    template = (path.parent / _CHAT_TEMPLATE).is_file()
    for name in _SETTINGS:
        if (file := path.parent / name).is_file():
            check_inside(path, file)
            with explain_damage(file):
                found = read_json(file, _MOST_BYTES)
            config = found if name == _CONFIG else config
            template |= "chat_template" in found
    network = _read_network(identify_version(path))
    if not template:
        template = _tells_template(identify_version(path.with_name(TOKENIZER)))
    return replace(network, config=config, has_chat_template=template)


@lru_cache(maxsize=8)
def _read_network(version: tuple[Path, int, int, int]) -> OvGenAiFolder:
    """Return what the network tells, with no settings."""
    with explain_damage(version[0]):
        network = read_layers(version[0]).network
        sizes: dict[str, int] = {}
        for layer in network.layers:
            if layer.type == "Const" and "size" in layer.options:
                kind = name_dtype(layer.options.get("element_type", ""))
                sizes[kind] = sizes.get(kind, 0) + read_number(layer.options["size"])
        return OvGenAiFolder(
            config={},
            states=tuple(_read_states(network)),
            vocabulary=_read_vocabulary(network),
            weight_bytes=measure_weights(network),
            quantisation=max(sizes, key=sizes.__getitem__, default=""),
            has_chat_template=False,
        )


def _read_states(network: IrNetwork) -> list[tuple[int | None, ...]]:
    shapes = {
        layer.options.get("variable_id", layer.id): read_shape(layer.options.get("variable_shape", "..."))
        for layer in network.layers
        if layer.type == "ReadValue"
    }
    return [tuple(size if isinstance(size, int) else None for size in shape or ()) for shape in shapes.values()]


def _read_vocabulary(network: IrNetwork) -> int | None:
    """Return the last dimension of the output ``logits``, or of the only one."""
    results = [layer for layer in network.layers if layer.type == "Result" and layer.inputs]
    named = [layer for layer in results if "logits" in layer.output_names.split(",")] or results
    dims = named[0].inputs[-1].dims if named else ()
    return dims[-1] if dims and isinstance(dims[-1], int) else None


@lru_cache(maxsize=8)
def _tells_template(version: tuple[Path, int, int, int]) -> bool:
    """Whether the tokenizer's file has a chat template."""
    with explain_damage(version[0]):
        return "chat_template" in read_layers(version[0]).information


class OpenVinoGenAiReader:
    """Reads the folders of OpenVINO GenAI, by their network."""

    format, title = "openvino-genai", f"OpenVINO GenAI ({DECODER})"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether it is the network of a decoder that keeps what it has seen, with a tokenizer beside it.

        The engine knows these files by their names.
        """
        return OpenVinoReader.is_ir(head) and has_tokenizer(path) and makes_text(path)

    def read_signature(self, path: Path) -> Signature:
        """No inputs and outputs: it is fed with text. Raises `BadModel` where a part is wrong or missing."""
        read_folder(path)
        return Signature(inputs=(), outputs=())

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """Return the weights, both parts of the tokenizer with theirs, and the settings. Raises `BadModel`."""
        folder = path.parent
        files = [*find_weights(path, read_folder(path).weight_bytes)]
        for name in (TOKENIZER, DETOKENIZER):
            file = folder / name
            check_inside(path, file)
            if not file.is_file():
                with explain_damage(path):
                    raise Wrong(f"it has no {name} beside it", advice=advise_tokenizer(folder))
            files += [file, *OpenVinoReader().weight_files(file)]
        return (*files, *(each for name in (*_SETTINGS, _CHAT_TEMPLATE) if (each := folder / name).is_file()))

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the network of the decoder. Raises as `OpenVinoReader.read_graph`."""
        graph = OpenVinoReader().read_graph(path, shapes=shapes)
        return replace(graph, metadata={**graph.metadata, LANGUAGE_MODEL: describe_folder(read_folder(path))})


def check_tokenizer(path: Path) -> None:
    """Raise `BadModel` for the network of a language model at `path` without a tokenizer beside it."""
    if not has_tokenizer(path):
        with explain_damage(path):
            raise Wrong(f"it has no {TOKENIZER} beside it", advice=advise_tokenizer(path.parent))


def advise_tokenizer(folder: Path) -> str:
    """Return how to make the tokenizer of the model in `folder`."""
    if not (folder / "tokenizer.json").is_file():
        return "export the model again with its tokenizer"
    place = quote(str(folder))
    install = "pip install 'openvino-tokenizers[transformers]'"
    return f"{install} && convert_tokenizer {place} --with-detokenizer -o {place}"


def describe_folder(folder: OvGenAiFolder) -> dict[str, Any]:
    """Return what the folder says of the language model, JSON-shaped; what it does not say is None."""
    numbers, why = folder.cached_numbers()
    kind = folder.config.get("model_type")
    return {
        "architecture": kind if isinstance(kind, str) else None,
        "context_length": folder.context_length,
        "quantisation": folder.quantisation or None,
        "tokenizer": folder.tokenizer,
        "vocabulary": folder.vocabulary,
        "chat_template": "present, never executed" if folder.has_chat_template else None,
        "kv_cache_numbers_per_token": numbers,
        "kv_cache_absent_because": why or None,
    }
