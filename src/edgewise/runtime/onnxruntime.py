"""ONNX Runtime: what is installed, how it reads a model, and its errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability
from edgewise.runtime.arrays import tell
from edgewise.runtime.base import (
    InvalidModel,
    LoadOptions,
    Provider,
    UnsupportedModel,
    check_settings,
    package_availability,
)
from edgewise.runtime.onnxruntime_providers import installed_providers, lacking_provider, short_name
from edgewise.runtime.onnxruntime_session import OnnxSession, spec_of
from edgewise.text import means_out_of_memory

_CPU = Provider(name="cpu", title="CPUExecutionProvider")
_DISTRIBUTIONS = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino", "onnxruntime-qnn",
    "onnxruntime-migraphx", "onnxruntime-rocm",
)  # fmt: skip
#: this one sends inputs to a cloud
_REMOTE = frozenset({"AzureExecutionProvider"})
#: the engine's own settings that keep float32 what it says
_EXACT: dict[str, dict[str, Any]] = {"CUDAExecutionProvider": {"use_tf32": "0"}}

#: setting → the engine's enumeration, and our words for its members
SETTING_WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "graph_optimization_level": (
        "GraphOptimizationLevel",
        {"none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED",
         "all": "ORT_ENABLE_ALL"},
    ),
    "execution_mode": ("ExecutionMode", {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}),
}  # fmt: skip
_ATTRIBUTES = frozenset({
    "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "use_deterministic_compute",
})  # fmt: skip
#: entries of the session's configuration; others name files (``ep.context_file_path``) or libraries
_ENTRIES = frozenset({
    "mlas.enable_gemm_fastmath_arm64_bfloat16", "session.disable_double_qdq_remover", "session.disable_prepacking",
    "session.disable_quant_qdq", "session.dynamic_block_base", "session.enable_quant_qdq_cleanup",
    "session.force_spinning_stop", "session.inter_op.allow_spinning", "session.intra_op.allow_spinning",
    "session.qdqisint8allowed", "session.set_denormal_as_zero",
})  # fmt: skip


class OnnxRuntime:
    """Microsoft's ONNX Runtime."""

    name = "onnxruntime"
    title = "ONNX Runtime"
    formats: Sequence[str] = ("onnx", "ort")
    in_default = True
    settings = frozenset(SETTING_WORDS) | _ATTRIBUTES | _ENTRIES

    @cached_property
    def providers(self) -> Sequence[Provider]:
        """The CPU and the execution providers that came with the installed package, found without importing it."""
        found = installed_providers()
        return (_CPU, *(Provider(name=short_name(title), title=title, accelerator=True) for title in found))

    def lacking(self, provider: str) -> Availability | None:
        """As `edgewise.runtime.base.ExplainsProviders`."""
        return lacking_provider(provider)

    def availability(self) -> Availability:
        """Whether one of the packages that bring the engine is installed."""
        answers = [package_availability(name, extra="onnxruntime", module="onnxruntime") for name in _DISTRIBUTIONS]
        return next((answer for answer in answers if answer), answers[0])

    def import_engine(self) -> str:
        """Import the engine and silence its warnings and what its builds for Windows tell the system."""
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        onnxruntime.disable_telemetry_events()
        return str(onnxruntime.__version__)

    def describe(self, path: Path) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Return inputs and outputs of the model at `path`; see `edgewise.runtime.base.DescribesModels`."""
        session = _open(_utf8(path), title=_CPU.title, intra=1, extra={})
        return tuple(map(spec_of, session.get_inputs())), tuple(map(spec_of, session.get_outputs()))

    def load(self, path: Path, options: LoadOptions) -> OnnxSession:
        """Return a session for an ONNX or ORT model; shapes are fed, nothing is reshaped. Raises as `Runtime.load`."""
        import onnxruntime

        if options.precision not in (None, "f32"):
            raise UnsupportedModel(f"ONNX Runtime runs a model in its own precision, not in {options.precision}")
        title = _find_provider(options.provider, onnxruntime.get_available_providers())
        requests, intra = _split_threads(options)
        reopen = partial(_open, title=title, intra=intra, extra=options.extra)
        session = reopen(_utf8(path))
        placement = _placement(session, title)
        if options.profile:
            from edgewise.runtime.onnxruntime_profile import ProfiledOnnxSession

            return ProfiledOnnxSession(
                session, path=path, reopen=reopen, options=options, requests=requests, placement=placement
            )
        return OnnxSession(session, options=options, requests=requests, placement=placement)


def _open(
    location: str, change: Callable[[Any], None] | None = None, *, title: str, intra: int, extra: Mapping[str, Any]
) -> Any:
    """Return the engine's session for the model at `location`; `change` may alter its settings before."""
    import onnxruntime

    settings = _session_options(onnxruntime.SessionOptions(), title, intra, extra)
    # A file that can't be opened is the engine's to complain of.
    with suppress(OSError), Path(location).open("rb") as file:
        if file.read(8)[4:] == b"ORTM":  # which the engine knows by the extension alone
            settings.add_session_config_entry("session.load_model_format", "ORT")
    if change is not None:
        change(settings)
    try:
        return onnxruntime.InferenceSession(location, settings, providers=[(title, _EXACT.get(title, {}))])
    except Exception as error:
        raise _explain(error) from error


def _utf8(path: Path) -> str:
    """Return the path as ONNX Runtime's binding takes it. Raises `UnsupportedModel` for a name that is not UTF-8."""
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedModel("ONNX Runtime supports only paths in UTF-8; rename the file or its folder") from error
    return text


def _find_provider(name: str, offered: Sequence[str]) -> str:
    """Return the engine's name for the provider `name`. Raises `UnsupportedModel` where this build has none."""
    for title in offered:
        if short_name(title) == name and title not in _REMOTE:
            return title
    known = ", ".join(short_name(title) for title in offered if title not in _REMOTE)
    raise UnsupportedModel(f"this build of ONNX Runtime has no provider {name!r} (it has: {known})")


def _split_threads(options: LoadOptions) -> tuple[int, int]:
    """Return requests in flight and threads inside the engine (0: its own choice).

    Each request's caller computes too, so that requests + engine threads − 1 threads compute in all: as many as were
    asked for, unless more requests were.
    """
    if not options.offline:
        return 1, options.threads or 0
    requests = options.requests or options.streams or options.threads or 1
    return requests, max(1, options.threads - requests + 1) if options.threads else 0


def _session_options(settings: Any, title: str, intra: int, extra: Mapping[str, Any]) -> Any:
    settings.log_severity_level = 3
    settings.intra_op_num_threads = intra
    settings.inter_op_num_threads = 1  # the default execution mode is sequential
    if title != _CPU.title:
        settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    check_settings(OnnxRuntime.title, OnnxRuntime.settings, extra)
    for name, value in extra.items():
        if name in SETTING_WORDS:
            _choose_word(settings, name, value)
        elif name in _ENTRIES:
            settings.add_session_config_entry(name, str(int(value) if isinstance(value, bool) else value))
        elif isinstance(value, str):
            raise UnsupportedModel(f"ONNX Runtime's {name} is true or false, not {value!r}")
        else:
            setattr(settings, name, value)
    return settings


def _choose_word(settings: Any, name: str, value: Any) -> None:
    """Set one of the engine's words. Raises `UnsupportedModel` for any other."""
    import onnxruntime

    kind, words = SETTING_WORDS[name]
    found = getattr(getattr(onnxruntime, kind), words.get(str(value), ""), None)
    if found is None:
        raise UnsupportedModel(f"ONNX Runtime's {name} can't be {value!r} (it has: {', '.join(words)})")
    setattr(settings, name, found)
    if value == "parallel":
        settings.inter_op_num_threads = settings.intra_op_num_threads


def _placement(session: Any, title: str) -> Mapping[str, int] | None:
    """Operators per execution provider, for others than the CPU's; None where the engine does not tell.

    Raises `UnsupportedModel` where the engine has silently fallen back to the CPU.
    """
    if title == _CPU.title:
        return None
    if title not in session.get_providers():
        raise UnsupportedModel(f"{title} could not be started; ONNX Runtime would have used the CPU instead")
    tell = getattr(session, "get_provider_graph_assignment_info", None)
    if tell is None:
        return None
    placement: Counter[str] = Counter()
    for part in tell():
        placement[part.ep_name] += len(part.get_nodes())
    if placement and not placement[title]:
        raise UnsupportedModel(
            f"{title} supports no operator of this model; ONNX Runtime would have used the CPU instead"
        )
    return dict(placement)


_UNSUPPORTED = re.compile(
    r"not a registered function|No Op registered|Could not find an implementation|Unsupported model IR|"
    r"is under development|NOT_IMPLEMENTED|not (?:yet )?supported|unsupported|EP_FAIL|MODEL_REQUIRES_COMPILATION",
    re.IGNORECASE,
)
_INVALID = re.compile(
    r"INVALID_PROTOBUF|INVALID_GRAPH|NO_SUCHFILE|NO_MODEL|No graph was found|Load model from|External data|"
    r"Type Error|ShapeInferenceError",
    re.IGNORECASE,
)


def _explain(error: Exception) -> Exception:
    """Return the engine's error as one of ours where its meaning is known, else as it is."""
    text = str(error)
    if means_out_of_memory(text):
        return MemoryError(_told(text))
    if _UNSUPPORTED.search(text):
        return UnsupportedModel(_told(text))
    if _INVALID.search(text):
        return InvalidModel(_told(text))
    return error


def _told(text: str) -> str:
    """Return the engine's message without the file of the model."""
    return tell(re.sub(r"Load model from .*? failed: ?", "", text))
