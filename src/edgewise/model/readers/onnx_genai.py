"""Folders of ONNX Runtime GenAI: a language model in ONNX, its tokenizer, and ``genai_config.json``, which names both.

The configuration is described at https://onnxruntime.ai/docs/genai/reference/config. It may name libraries and files
anywhere, and so is refused where it does. A chat template is a program: it is noted and never executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgewise.model.graph import LANGUAGE_MODEL, Graph
from edgewise.model.readers.base import (
    Wrong,
    check_inside,
    explain_damage,
    identify_version,
    missing_weights,
    read_json,
)
from edgewise.model.readers.onnx import OnnxReader
from edgewise.model.signature import Signature

MOST_BYTES = 2**20
CONFIG = "genai_config.json"
_MARKS = (b'"model"', b'"decoder"', b'"head_size"')
_TOKENIZER = "tokenizer.json"
_CHAT_TEMPLATE = "chat_template.jinja"
_BESIDE = (
    _TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "tokenizer.model", _CHAT_TEMPLATE,
)  # fmt: skip
"""Files of the tokenizer that the engine reads where they are there."""
_OTHER_ATTENTION = ("sliding_window", "layer_types", "state_groups", "conv_cache_size")
_SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "uint8": "u8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenAiConfig:
    """What is known of a model before it is loaded.

    Attributes:
        model: section ``model`` of the configuration.
        decoder: its section ``decoder``.
        kv_cache_type: type of the numbers of the KV cache, which is an input of the network: ``f16``; None where no
            input has the name that the configuration gives it.
        weight_bytes: of the network's file and of those with its weights.
        has_chat_template: whether there is a program that makes a prompt of messages.
    """

    model: Mapping[str, Any]
    decoder: Mapping[str, Any]
    kv_cache_type: str | None
    weight_bytes: int
    has_chat_template: bool
    tokenizer: str = _TOKENIZER

    @property
    def context_length(self) -> int | None:
        """Tokens that the model was made for; None where the configuration does not say."""
        return _whole(self.model, "context_length")

    def cached_numbers(self) -> tuple[int | None, str]:
        """Numbers that the KV cache keeps of one token: layers × heads of keys × (size of a key + of a value).

        Returns:
            None and the reason where the configuration does not tell them, or attention does not keep all tokens so.
        """
        for key in _OTHER_ATTENTION:
            if self.decoder.get(key):
                return None, f"its attention is of another kind (model.decoder.{key})"
        keys = ("num_hidden_layers", "num_key_value_heads", "head_size")
        layers, heads, size = (_whole(self.decoder, key) for key in keys)
        if not layers or not heads or not size:
            return None, "the configuration does not tell its layers, its heads of keys or their size"
        return layers * heads * 2 * size, ""


def read_config(path: Path) -> GenAiConfig:
    """Return what the configuration at `path` and the files that it names tell. Raises `BadModel`."""
    with explain_damage(path):
        _, _, network = _read(path)
    return _read_config(identify_version(path), identify_version(network))


@lru_cache(maxsize=8)
def _read_config(version: tuple[Path, int, int, int], network: tuple[Path, int, int, int]) -> GenAiConfig:
    with explain_damage(version[0]):
        model, decoder, _ = _read(version[0])
    reader = OnnxReader()
    return GenAiConfig(
        model=model,
        decoder=decoder,
        kv_cache_type=_cached_type(decoder, reader.read_signature(network[0])),
        weight_bytes=sum(each.stat().st_size for each in (network[0], *reader.weight_files(network[0]))),
        has_chat_template=_has_template(version[0].parent),
    )


def _read(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Any], Path]:
    """Return the sections ``model`` and ``decoder``, and the file of the network. Raises `Wrong` or `BadModel`."""
    config = read_json(path, MOST_BYTES)
    model = config.get("model")
    decoder = model.get("decoder") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(decoder, dict):
        raise Wrong("it has no section 'decoder' of a section 'model'")
    _check_parts(config, model)
    _check_options(model)
    name = decoder.get("filename")
    if not isinstance(name, str) or not name:
        raise Wrong("it names no file of the network (model.decoder.filename)")
    network = path.parent / name
    check_inside(path, network)
    if not network.is_file():
        raise missing_weights(path, name, 0)
    if not (path.parent / _TOKENIZER).is_file():
        raise Wrong(f"it has no {_TOKENIZER} beside it", advice="convert the model again with its tokenizer")
    return model, decoder, network


def _check_parts(config: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Raise `Wrong` for a model that is more than one decoder of text."""
    parts = [key for key, part in model.items() if key != "decoder" and isinstance(part, dict)]
    parts += ["pipeline"] if model["decoder"].get("pipeline") else []
    parts += ["speculative"] if config.get("speculative") else []
    if parts:
        raise Wrong(
            f"it has other parts than a decoder of text: {', '.join(parts)}",
            advice="give a model of text whose decoder is one ONNX file",
        )


def _check_options(model: Mapping[str, Any]) -> None:
    """Raise `Wrong` for an option that names a library, or a file or folder anywhere."""
    options = model["decoder"].get("session_options")
    # Those of execution providers are left out: none but the CPU is used.
    words = ("library", "path", "file", "profiling")
    if named := [key for key in (options if isinstance(options, dict) else ()) if any(each in key for each in words)]:
        raise Wrong(f"its session options name libraries or files: {', '.join(named)}", advice="leave them out")
    if model.get("tokenizer_dir"):
        raise Wrong("its tokenizer is in another folder (model.tokenizer_dir)", advice="put it beside the model")


def _whole(section: Mapping[str, Any], key: str) -> int | None:
    found = section.get(key)
    return found if type(found) is int and found > 0 else None


def _cached_type(decoder: Mapping[str, Any], signature: Signature) -> str | None:
    """Return the type of the first layer's keys, an input of the network."""
    names = decoder.get("inputs")
    pattern = names.get("past_key_names") if isinstance(names, dict) else None
    name = str(pattern or "past_key_values.%d.key").replace("%d", "0")
    kinds = {each.name: each.dtype for each in signature.inputs}
    return _SHORT.get(kinds[name], kinds[name]) if name in kinds else None


def _has_template(folder: Path) -> bool:
    """Whether the folder has a chat template, in a file of its own or in the tokenizer's settings."""
    settings = folder / "tokenizer_config.json"
    if (folder / _CHAT_TEMPLATE).is_file() or not settings.is_file():
        return (folder / _CHAT_TEMPLATE).is_file()
    with settings.open("rb") as file:
        return b'"chat_template"' in file.read(MOST_BYTES)


class OnnxGenAiReader:
    """Reads the folders of ONNX Runtime GenAI, by their configuration."""

    format, title = "onnx-genai", "ONNX Runtime GenAI (genai_config.json)"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether it is JSON with the sections of a configuration, or a damaged file of the name that the engine
        wants.
        """
        if path.name == CONFIG:
            return True
        if not head.lstrip().startswith(b"{"):
            return False
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
        return all(mark in text for mark in _MARKS)

    def read_signature(self, path: Path) -> Signature:
        """No inputs and outputs: it is fed with text. Raises `BadModel` where a part is wrong or missing."""
        read_config(path)
        return Signature(inputs=(), outputs=())

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """Return the network, its weights and the files of the tokenizer. Raises `BadModel`."""
        with explain_damage(path):
            _, _, network = _read(path)
        beside = [each for name in _BESIDE if (each := path.parent / name).is_file()]
        for each in beside:
            check_inside(path, each)
        return (network, *OnnxReader().weight_files(network), *beside)

    def read_graph(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """Return the network of the decoder. Raises as `OnnxReader.read_graph`, and `BadModel`."""
        with explain_damage(path):
            _, _, network = _read(path)
        graph = OnnxReader().read_graph(network, shapes=shapes)
        return replace(graph, metadata={**graph.metadata, LANGUAGE_MODEL: describe_config(read_config(path))})


def describe_config(config: GenAiConfig) -> dict[str, Any]:
    """Return what the configuration says of the language model, JSON-shaped; what it does not say is None."""
    numbers, why = config.cached_numbers()
    kind = config.model.get("type")
    return {
        "architecture": kind if isinstance(kind, str) else None,
        "context_length": config.context_length,
        "quantisation": None,
        "tokenizer": config.tokenizer,
        "vocabulary": _whole(config.model, "vocab_size"),
        "chat_template": "present, never executed" if config.has_chat_template else None,
        "kv_cache_numbers_per_token": numbers,
        "kv_cache_absent_because": why or None,
    }
