"""OpenVINO GenAI: language models in its own folders, and in GGUF, whose graph it builds itself.

The pipeline with a KV cache of its own (``SDPA``) is used: it has no prefix cache, so that no prompt is computed from
an earlier one. Its chat is the way to go on from a prompt; no template is applied, as it is given tokens. Probabilities
of given tokens come from the pipeline with continuous batching, the only one that tells them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.errors import as_flag
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import closed, tell
from edgewise.runtime.base import (
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.text import means_out_of_memory

_BACKEND = "SDPA"
_PIECE = 4096
"""Tokens whose probabilities are computed at once, at most."""


class OpenVinoGenAi:
    """Intel's OpenVINO GenAI."""

    name = "openvino-genai"
    title = "OpenVINO GenAI"
    formats: Sequence[str] = ("gguf", "openvino-genai")
    language_formats = frozenset(formats)
    providers: Sequence[Provider] = (
        Provider(name="cpu", title="CPU", precisions=("f32", "bf16", "f16")),
        Provider(name="gpu", title="GPU", precisions=("f32", "f16"), accelerator=True),
    )
    in_default = False
    settings = frozenset({"DYNAMIC_QUANTIZATION_GROUP_SIZE", "KV_CACHE_PRECISION", "PERFORMANCE_HINT"})

    def availability(self) -> Availability:
        """Whether the package openvino-genai is installed."""
        return package_availability("openvino-genai", extra="openvino-genai", module="openvino_genai")

    def import_engine(self) -> str:
        """Import the engine and return its version as its package has it."""
        from importlib.metadata import version

        import openvino_genai

        del openvino_genai
        return version("openvino-genai")

    def load(self, path: Path, options: LoadOptions) -> GenAiSession:
        """Return a session for the model at `path`. Raises `UnsupportedModel`, `InvalidModel` or MemoryError."""
        check_settings(self.title, self.settings, options.extra)
        config: dict[str, Any] = {"INFERENCE_PRECISION_HINT": options.precision or "f32", "NUM_STREAMS": 1}
        if options.threads is not None and options.provider == "cpu":
            config["INFERENCE_NUM_THREADS"] = options.threads
        config |= options.extra
        return GenAiSession(path, options, config)


class GenAiSession:
    """A loaded language model; see `edgewise.runtime.base.Generates`. It has no inputs and outputs of its own."""

    inputs: Sequence[TensorSpec] = ()
    outputs: Sequence[TensorSpec] = ()

    def __init__(self, path: Path, options: LoadOptions, config: Mapping[str, Any]) -> None:
        folder = path.suffix == ".xml"
        self._given = str(path.parent if folder else path), options.provider.upper(), dict(config)
        self._pipeline: Any = self._open_pipeline()
        self._scorer: Any = None
        self._tokenizer = self._pipeline.get_tokenizer()
        self._chats = False
        self.invoke: Callable[[], object] = closed
        self.vocabulary = len(self._tokenizer.get_vocab())
        whole = self._tokenizer.encode("a", add_special_tokens=True).input_ids.data[0].tolist()
        self.beginning: Sequence[int] = whole[: -len(self.encode("a"))]
        end = self._tokenizer.get_eos_token_id()
        self.ends: Collection[int] = (end,) if end >= 0 else ()
        told = _probe(options.provider.upper(), config, network=path if folder else None)
        self.kv_cache_type = told.pop("kv_cache_type")
        self.effective: Mapping[str, Any] = {"provider": options.provider, "backend": _BACKEND, **told}

    def bind(self, arrays: Sequence[Any]) -> None:
        """Nothing: a language model is given text."""

    def read_outputs(self) -> Sequence[Any]:
        """None: a language model gives text."""
        return ()

    def close(self) -> None:
        """Release the pipeline."""
        self._pipeline = self._scorer = None

    def _open_pipeline(self) -> Any:
        """Return the pipeline that makes text. Raises as `OpenVinoGenAi.load`."""
        import openvino_genai

        path, device, config = self._given
        try:
            return openvino_genai.LLMPipeline(path, device, ATTENTION_BACKEND=_BACKEND, **config)
        except Exception as error:
            raise _explain(error) from error

    def _open_scorer(self) -> Any:
        """Return the pipeline that tells probabilities, in place of the other: both would hold the weights twice."""
        import openvino_genai

        path, device, config = self._given
        scheduling = openvino_genai.SchedulerConfig()
        # Tokens in one piece are not computed from keys and values that the cache has rounded.
        scheduling.max_num_batched_tokens = _PIECE
        self._pipeline = None
        try:
            return openvino_genai.ContinuousBatchingPipeline(path, scheduling, device, config)
        except Exception as error:
            raise _explain(error) from error

    def encode(self, text: str) -> list[int]:
        """As `Generates.encode`."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).input_ids.data[0].tolist()
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """As `Generates.decode`."""
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=False)
        return text

    def fill(self, tokens: Sequence[int], *, room: int = 0) -> None:
        """As `Generates.fill`. The chat keeps the token that ends filling, which is the next prompt's first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            if self._chats:
                self._pipeline.finish_chat()
            self._chats = bool(tokens)
            if not tokens:
                return
            if not hasattr(self._pipeline, "start_chat"):
                advice = f"leave {as_flag('depth')} out"
                raise UnsupportedModel(f"this version of OpenVINO GenAI can't go on from a prompt: {advice}")
            self._pipeline.start_chat()
        self.generate(tokens, 1, lambda token: None)

    def generate(self, tokens: Sequence[int], count: int, take: Callable[[int], None]) -> None:
        """As `Generates.generate`."""
        import numpy as np
        import openvino
        import openvino_genai

        running = openvino_genai.StreamingStatus.RUNNING

        class Stream(openvino_genai.StreamerBase):  # type: ignore[misc]
            def write(self, made: int | Sequence[int]) -> Any:
                for token in (made,) if isinstance(made, int) else made:
                    take(token)
                return running

            def end(self) -> None:
                pass

        if self._pipeline is None:
            self._scorer = None
            self._pipeline = self._open_pipeline()
        config = _greedy(count)
        ids = np.asarray([tokens], dtype=np.int64)
        given = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        try:
            self._pipeline.generate(given, config, Stream())
        except Exception as error:
            raise _explain(error) from error

    def log_probabilities(self, tokens: Sequence[int]) -> Sequence[float]:
        """As `ScoresTokens.log_probabilities`."""
        import numpy as np
        import openvino

        if self._scorer is None:
            self._scorer = self._open_scorer()
        config = _greedy(1)
        config.echo, config.logprobs = True, 1
        try:
            request = self._scorer.add_request(0, openvino.Tensor(np.asarray([tokens], dtype=np.int64)), config)
            while self._scorer.has_non_finished_requests():
                self._scorer.step()
            found = list(request.read_all()[0].generated_log_probs)
        except Exception as error:
            raise _explain(error) from error
        if len(found) != len(tokens) + 1:
            raise UnsupportedModel(f"the engine gave {len(found)} probabilities for {len(tokens)} tokens and a new one")
        return found[1:-1]  # that of the first token is a placeholder


def _greedy(count: int) -> Any:
    """Return the settings of a request that makes `count` tokens, each the likeliest."""
    import openvino_genai

    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = count
    config.ignore_eos = True
    config.do_sample = False
    config.apply_chat_template = False
    return config


def _probe(device: str, config: Mapping[str, Any], *, network: Path | None) -> dict[str, Any]:
    """Threads, precision and type of the KV cache that the device has in force with `config`; None it does not tell.

    The pipeline tells nothing of its compiled model, so that a network of one operator is compiled in the same way.

    Args:
        network: file of the model's own network, which may have options for the engine in it.
    """
    import openvino
    from openvino import opset13

    given = opset13.parameter([1], openvino.Type.f32)
    core, place = openvino.Core(), ["runtime_options"]
    small = openvino.Model([opset13.relu(given)], [given], "probe")
    if network is not None and (stated := core.read_model(network)).has_rt_info(place):
        for name, value in stated.get_rt_info(place).value.items():
            small.set_rt_info(value, [*place, name])
    compiled = core.compile_model(small, device, dict(config))

    def ask(name: str) -> Any:
        try:
            return compiled.get_property(name)
        except RuntimeError:
            return None

    kinds = (ask(name) for name in ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION"))
    precision, kept = (None if kind is None else str(kind.get_type_name()) for kind in kinds)
    return {"threads": ask("INFERENCE_NUM_THREADS"), "precision": precision, "kv_cache_type": kept}


def _explain(error: Exception) -> Exception:
    """Return the engine's error as one of ours."""
    if isinstance(error, MemoryError | UnsupportedModel):
        return error
    text = str(error)
    if means_out_of_memory(text):
        return MemoryError(tell(text, noise=_NOISE))
    kind = UnsupportedModel if "support" in text.lower() else InvalidModel
    return kind(tell(text, noise=_NOISE))


_NOISE = r"Exception from |Check '.*' failed at "
