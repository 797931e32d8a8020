"""What is known of a language model before it is loaded: whether the scenario fits it, its KV cache, and its memory."""

from __future__ import annotations

import os
from pathlib import Path

from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, BadModel
from edgewise.model.identity import format_of
from edgewise.model.readers.gguf import GgufHeader, GgufReader, read_header
from edgewise.model.readers.onnx_genai import GenAiConfig, OnnxGenAiReader, read_config
from edgewise.model.readers.openvino_genai import OpenVinoGenAiReader, OvGenAiFolder, read_folder
from edgewise.record import Job, Measurement, ModelRef, Scenario, TargetSpec
from edgewise.run.sandbox import available_memory
from edgewise.runtime.base import RunsLanguageModels, Runtime
from edgewise.units import format_bytes, format_limit

BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "u8": 1.0, "i8": 1.0, "u4": 0.5}
"""Type of the numbers of a KV cache → bytes of one, without the scales of integers."""


def generates(runtime: Runtime, form: str) -> bool:
    """Whether `runtime` makes text with models of the format `form`."""
    return isinstance(runtime, RunsLanguageModels) and form in runtime.language_formats


Header = GgufHeader | GenAiConfig | OvGenAiFolder


def header_of(model: ModelRef) -> Header | None:
    """Return the header of a language model, or what the files in its folder tell; None for other formats.

    Raises `BadModel`.
    """
    return read_language_header(Path(model.path), model.format)


def read_language_header(file: Path, form: str) -> Header | None:
    """Return what `header_of` does, for the file of a model of the format `form`."""
    if form == OpenVinoGenAiReader.format:
        return read_folder(file)
    if form == OnnxGenAiReader.format:
        return read_config(file)
    return read_header(file) if form == GgufReader.format else None


def longest_context(model: ModelRef) -> int | None:
    """Return the tokens that a language model takes at most; None where its file does not say. Raises `BadModel`."""
    header = header_of(model)
    return None if header is None else header.context_length


def check_room(path: str | os.PathLike[str], target: TargetSpec) -> None:
    """Refuse a language model whose weights do not fit into the memory, from its header.

    Nothing else is read: the hash of such a file takes minutes.

    Raises `BadInput`, and `BadModel` for what is no model.
    """
    form, file = format_of(path)
    header = read_language_header(file, form)
    room = target.memory_limit_bytes or (available_memory() if target.device == LOCAL else None)
    if header is not None and room is not None and header.weight_bytes > room:
        raise BadInput(
            f"the weights of {file.name} are {format_bytes(header.weight_bytes)}, and {format_limit(room)} of memory "
            "are available",
            advice="stop other programs, raise ⟦memory_limit⟧ if it is set, or take a smaller quantisation",
        )


def check_language_model(model: ModelRef, scenario: Scenario) -> None:
    """Refuse what can't work, from the header alone: nothing is loaded.

    Raises:
        BadInput: another scenario than generate, more tokens than the model's context.
        BadModel: it has no tokenizer.
    """
    header = header_of(model)
    if header is None:
        return
    if scenario.kind != "generate":
        raise BadInput(
            f"{model.name} is a language model, which the scenario {scenario.kind} can't measure",
            advice="add ⟦scenario=generate⟧",
        )
    if not header.tokenizer:
        raise BadModel(
            f"{model.name} has no tokenizer (tokenizer.ggml.model and tokenizer.ggml.tokens)",
            advice="convert the model again with its tokenizer",
        )
    asked, longest = tokens_of(scenario), header.context_length
    if longest is not None and asked > longest:
        raise BadInput(
            f"depth {scenario.depth or 0} + prompt {scenario.prompt_tokens or 0} + {scenario.new_tokens} new tokens "
            f"are {asked} tokens; {model.name} has a context of {longest}",
            advice="lower ⟦depth⟧, ⟦prompt_tokens⟧ or ⟦new_tokens⟧",
        )


def tokens_of(scenario: Scenario) -> int:
    """Tokens in the KV cache at the end of a request; prompts of their own length are not among them."""
    return (scenario.depth or 0) + (scenario.prompt_tokens or 0) + (scenario.new_tokens or 0)


def kv_cache_row(job: Job, kind: str | None) -> Measurement:
    """Bytes of the KV cache at the end of a request, or why they are not known.

    Args:
        kind: type of its numbers, as the engine tells it; that of the model's file wins.
    """
    header, scenario = header_of(job.model), job.workload.scenario
    if header is None:
        return Measurement.absent("kv_cache_bytes", f"files of the format {job.model.format} don't tell its size")
    if scenario.prompt_tokens is None:
        return Measurement.absent("kv_cache_bytes", "the prompts have lengths of their own")
    numbers, why = header.cached_numbers()
    if numbers is None:
        return Measurement.absent("kv_cache_bytes", why)
    if "KV_CACHE_PRECISION" not in job.runtime.options:
        kind = header.kv_cache_type or kind
    if kind not in BYTES:
        return Measurement.absent("kv_cache_bytes", f"the engine does not tell the type of its numbers ({kind})")
    count = tokens_of(scenario)
    method = f"{numbers} numbers of a token by the file's header × {count} tokens × {BYTES[kind]:g} B ({kind})"
    method += "; scales of the integers are not included" if kind in ("u8", "i8", "u4") else ""
    return Measurement.of("kv_cache_bytes", numbers * count * BYTES[kind], method, basis="derived")
