"""ONNX Runtime GenAI: language models in ONNX, in folders with ``genai_config.json``.

Each request has a generator of its own, which has no cache of prefixes: no prompt is computed from an earlier one. A
generator takes tokens more than once, which is the way to go on from a prompt. The configuration's settings of sampling
are replaced by greedy ones, and its execution providers by the CPU.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import closed, tell
from edgewise.runtime.base import InvalidModel, LoadOptions, Provider, UnsupportedModel, package_availability
from edgewise.text import means_out_of_memory

_GREEDY: Mapping[str, Any] = {
    "do_sample": False, "num_beams": 1, "num_return_sequences": 1, "batch_size": 1, "min_length": 0,
    "repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
}  # fmt: skip


class OnnxGenAi:
    """Microsoft's ONNX Runtime GenAI."""

    name = "onnxruntime-genai"
    title = "ONNX Runtime GenAI"
    formats: Sequence[str] = ("onnx-genai",)
    language_formats = frozenset(formats)
    providers: Sequence[Provider] = (Provider(name="cpu", title="CPU"),)
    in_default = False

    def availability(self) -> Availability:
        """Whether the package onnxruntime-genai is installed."""
        return package_availability("onnxruntime-genai", extra="onnxruntime-genai", module="onnxruntime_genai")

    def import_engine(self) -> str:
        """Import the engine, without the events that it would send, and return its package's version."""
        from importlib.metadata import version

        # ORT_DISABLE_TELEMETRY, which `edgewise` sets, leaves one sign of life per process, and this one none.
        os.environ["ORT_RUNNING_UNIT_TESTS"] = "1"
        import onnxruntime_genai

        del onnxruntime_genai
        return version("onnxruntime-genai")

    def load(self, path: Path, options: LoadOptions) -> OnnxGenAiSession:
        """Return a session for the folder of the configuration at `path`. Raises as `Runtime.load`."""
        if options.precision not in (None, "f32"):
            raise UnsupportedModel(f"{self.title} runs a model in its own precision, not in {options.precision}")
        return OnnxGenAiSession(path, options)


class OnnxGenAiSession:
    """A loaded language model; see `edgewise.runtime.base.Generates`. It has no inputs and outputs of its own."""

    inputs: Sequence[TensorSpec] = ()
    outputs: Sequence[TensorSpec] = ()
    kv_cache_type: str | None = None  # the network's file tells it

    def __init__(self, path: Path, options: LoadOptions) -> None:
        import onnxruntime_genai as engine

        stated = json.loads(path.read_bytes())["model"]
        try:
            self._model: Any = engine.Model(_configure(path.parent, options))
            self._tokenizer: Any = engine.Tokenizer(self._model)
            whole = self._tokenizer.encode("a").tolist()
            self._tokenizer.update_options(add_special_tokens="false", skip_special_tokens="false")
        except Exception as error:
            raise _explain(error) from error
        self._generator: Any = None
        self._first: list[int] = []
        self.invoke: Callable[[], object] = closed
        self.vocabulary: int = stated["vocab_size"]
        self.beginning: Sequence[int] = whole[: -len(self.encode("a"))]
        ends = stated.get("eos_token_id", [])
        self.ends: Collection[int] = ends if isinstance(ends, list) else [ends]
        self.effective: Mapping[str, Any] = {
            "provider": options.provider, "device": self._model.device_type, "threads": None, "precision": None,
        }  # fmt: skip

    def bind(self, arrays: Sequence[Any]) -> None:
        """Nothing: a language model is given text."""

    def read_outputs(self) -> Sequence[Any]:
        """None: a language model gives text."""
        return ()

    def close(self) -> None:
        """Release the model."""
        self._generator = self._tokenizer = self._model = None

    def encode(self, text: str) -> list[int]:
        """As `Generates.encode`. Raises `UnsupportedModel` for a text with a NUL, where the engine's texts end."""
        if "\0" in text:
            raise UnsupportedModel("the text has a NUL character, and the engine takes what stands before it alone")
        ids: list[int] = self._tokenizer.encode(text).tolist()
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """As `Generates.decode`."""
        text: str = self._tokenizer.decode(_ids(tokens))
        return text

    def fill(self, tokens: Sequence[int], *, room: int = 0) -> None:
        """As `Generates.fill`. The engine makes no new token here; ours is the likeliest by its logits."""
        import numpy as np

        self._generator, self._first = None, []
        if not tokens:
            return
        try:
            self._generator = self._start(tokens, len(tokens) + room)
            self._first = [int(np.asarray(self._generator.get_logits())[0, -1].argmax())]
        except Exception as error:
            raise _explain(error) from error

    def generate(self, tokens: Sequence[int], count: int, take: Callable[[int], None]) -> None:
        """As `Generates.generate`."""
        try:
            generator = self._generator
            if generator is None:
                generator = self._start(tokens, len(tokens) + count)
            else:
                generator.append_tokens(_ids([*self._first, *tokens]))
            self._generator = None
            for left in range(count - 1, -1, -1):
                generator.generate_next_token()
                token = int(generator.get_next_tokens()[0])
                take(token)
                if left and generator.is_done():  # at the end of the text; what is appended goes on from there
                    generator.append_tokens(_ids([token]))
        except Exception as error:
            raise _explain(error) from error

    def _start(self, tokens: Sequence[int], most: int) -> Any:
        """Return a generator that has computed `tokens`, with room for `most`."""
        import onnxruntime_genai as engine

        params = engine.GeneratorParams(self._model)
        params.set_search_options(**_GREEDY, max_length=most)
        generator = engine.Generator(self._model, params)
        generator.append_tokens(_ids(tokens))
        return generator

    def log_probabilities(self, tokens: Sequence[int]) -> Sequence[float]:
        """As `ScoresTokens.log_probabilities`. Raises `UnsupportedModel` for a network with logits of one token."""
        import numpy as np

        rows = zip(self._compute_logits(tokens), tokens[1:], strict=True)
        return [float(row[token] - np.logaddexp.reduce(row, dtype=np.float64)) for row, token in rows]

    def all_log_probabilities(self, tokens: Sequence[int]) -> Any:
        """As `TellsProbabilities.all_log_probabilities`, float64. Raises as `log_probabilities`."""
        import numpy as np

        logits = np.asarray(self._compute_logits(tokens), np.float64)
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    def _compute_logits(self, tokens: Sequence[int]) -> Any:
        """Return those behind each of `tokens` but the last."""
        try:
            logits = self._start(tokens, len(tokens) + 1).get_output("logits")[0]
        except Exception as error:
            raise _explain(error) from error
        if len(logits) != len(tokens):
            raise UnsupportedModel(f"the network gives logits of {len(logits)} of {len(tokens)} tokens")
        return logits[:-1]


def _ids(tokens: Sequence[int]) -> Any:
    """Return tokens as the engine takes them."""
    import numpy as np

    return np.asarray(tokens, np.int32)


def _configure(folder: Path, options: LoadOptions) -> Any:
    """Return the engine's configuration of a model, on the CPU."""
    import onnxruntime_genai as engine

    config = engine.Config(str(folder))
    config.clear_providers()
    if options.threads is not None:
        session = {"intra_op_num_threads": options.threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
    return config


def _explain(error: Exception) -> Exception:
    """Return the engine's error as one of ours."""
    if isinstance(error, MemoryError | UnsupportedModel):
        return error
    text = tell(str(error))
    if means_out_of_memory(text):
        return MemoryError(text)
    return UnsupportedModel(text) if "support" in text.lower() else InvalidModel(text)
