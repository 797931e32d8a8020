"""The seam to inference engines: small Protocols. A runtime is any class that satisfies `Runtime`.

Everything here and in the modules beside it is sent to devices: standard library, numpy and the engine only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from edgewise.errors import as_flag
from edgewise.model.signature import TensorSpec
from edgewise.registry import Availability, Registry

Arrays = Mapping[str, Any]
"""Name → numpy array."""


class UnsupportedModel(Exception):
    """The engine can't run this model or setting (operator, opset, data type, provider); the message says which."""


class InvalidModel(Exception):
    """The engine says that the file is not a valid model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An execution provider, delegate, plug-in or accelerator inside a runtime.

    Attributes:
        name: what ``--provider`` takes and records keep.
        title: the engine's own word for it.
        precisions: execution precisions that can be asked for, the like-for-like default (f32) first.
        accelerator: it runs elsewhere than on the processor, or takes only some operators and leaves the others to it.
        settings: names of the runtime's settings (`TakesSettings`) that it takes; None takes all of them.
    """

    name: str
    title: str
    precisions: tuple[str, ...] = ("f32",)
    accelerator: bool = False
    settings: Collection[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a model is to be loaded.

    Attributes:
        shapes: every input's concrete shape in the model's order, by the model file's own input names.
        dtypes: the same inputs' numpy dtype names, in the same order.
        threads: None leaves the engine's default.
        precision: None means the model's own precision, never a silent reduction.
        streams: parallel execution streams wanted (offline scenario); None means one inference at a time is enough.
        requests: requests in flight wanted (offline scenario).
        extra: engine settings by their own names, out of those that the runtime lists (`TakesSettings`).
        profile: the session shall be able to time its layers (`ProfilesLayers`), whatever that costs.
        signature: name of the entry point, for runtimes that are `RunsSignatures`; "" is the file's default.
    """

    provider: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    precision: str | None = None
    streams: int | None = None
    requests: int | None = None
    offline: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    profile: bool = False
    signature: str = ""


class Session(Protocol):
    """A model loaded in an engine.

    Attributes:
        inputs, outputs: as the engine sees them, in the model's order.
        effective: settings in effect, JSON-shaped: ``precision``, ``threads``, ``provider``, ``streams`` and any
            engine detail; a value the engine does not tell is None, never the value that was asked for.
        invoke: runs one inference on the bound inputs; takes nothing, returns nothing that must be kept. It must do the
            least the engine's API allows: no copies, no conversions, no checks of our own.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    effective: Mapping[str, Any]
    invoke: Callable[[], object]

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy or bind one numpy array per input, in order; afterwards `invoke` may be called any number of times."""

    def read_outputs(self) -> Sequence[Any]:
        """Return numpy copies of the outputs of the last `invoke`, in order; None for one that is no array."""

    def close(self) -> None:
        """Release the engine's resources."""


class Runtime(Protocol):
    """An inference engine.

    Where it has an attribute ``executor``, that is the name of what measures it (`edgewise.run.executor`); others are
    imported by a worker.

    Attributes:
        name: what ``-r`` takes and records keep.
        title: its proper name.
        formats: model formats it reads (``onnx``, ``tflite``, ``openvino`` …).
        providers: the first is the default.
        in_default: whether a sweep without ``-r`` includes it.

    Where it has an attribute ``not_imported``, that names what of its own a program imports and edgewise does not.
    """

    name: str
    title: str
    formats: Sequence[str]
    providers: Sequence[Provider]
    in_default: bool

    def availability(self) -> Availability:
        """Whether the engine is installed, found from metadata without importing it."""

    def import_engine(self) -> str:
        """Import the engine (timed as a phase of its own) and return its version."""

    def load(self, path: Path, options: LoadOptions) -> Session:
        """Return a session for a model. Raises `UnsupportedModel`, `InvalidModel`, MemoryError or the engine's own."""


class OnDevices:
    """The part of `Runtime` that an engine which only devices have does not have on this machine.

    Attributes:
        where, hint: where it runs, as a sentence, and what to do about it.
    """

    in_default = False
    where = "it runs on Android devices"
    hint = f"name one with {as_flag('device', 'adb://SERIAL')}"

    def availability(self) -> Availability:
        """Only devices have it."""
        return Availability(False, self.where, self.hint)

    def import_engine(self) -> str:
        """Nothing can be imported."""
        raise UnsupportedModel(f"{self.where}: {self.hint}")

    def load(self, path: Path, options: LoadOptions) -> Any:
        """Nothing can be loaded here."""
        raise UnsupportedModel(f"{self.where}: {self.hint}")


@runtime_checkable
class SweepsProviders(Protocol):
    """A runtime of which a sweep without ``-r`` and ``--provider`` measures other providers than the first alone.

    Attributes:
        default_providers: their names, in order.
    """

    default_providers: Sequence[str]


@runtime_checkable
class ExplainsProviders(Protocol):
    """A runtime that knows what this machine lacks for providers that it does not have."""

    def lacking(self, provider: str) -> Availability | None:
        """Return what the engine's `provider` lacks here; None for a name that the engine does not know."""


@runtime_checkable
class DescribesModels(Protocol):
    """A runtime that describes a model's inputs and outputs, for formats that only its engine reads."""

    def describe(self, path: Path) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        """Return inputs and outputs in the model's order; open sizes are None or a name. Raises as `Runtime.load`."""


@runtime_checkable
class DescribesSignatures(Protocol):
    """A runtime that describes the entry points of a file that has several, for formats that only its engine reads."""

    def describe_signatures(self, path: Path) -> Mapping[str, tuple[Sequence[TensorSpec], Sequence[TensorSpec]]]:
        """Name → inputs and outputs of each entry point, the default first. Raises as `Runtime.load`."""


@runtime_checkable
class RunsSignatures(Protocol):
    """A runtime that can run another entry point of a file than the default.

    Attributes:
        signature_formats: model formats of which it can.
    """

    signature_formats: Collection[str]


@runtime_checkable
class TakesSettings(Protocol):
    """A runtime that takes settings of its engine in `LoadOptions.extra`.

    Attributes:
        settings: their names. They may come from a record that somebody else made: list none that names a file or a
            folder, or that sends anything anywhere.
    """

    settings: Collection[str]


def settings_of(runtime: Runtime, provider: Provider) -> Collection[str]:
    """Names of the engine settings that `runtime` takes with `provider`."""
    if not isinstance(runtime, TakesSettings):
        return ()
    return runtime.settings if provider.settings is None else provider.settings


def check_settings(engine: str, settings: Collection[str], extra: Mapping[str, Any]) -> None:
    """Raise `UnsupportedModel` for a setting in `extra` that is not among `settings`, or whose value is no scalar."""
    for name, value in extra.items():
        if name not in settings:
            known = ", ".join(sorted(settings)) or "none"
            raise UnsupportedModel(f"setting {name!r} of {engine} is not supported (supported: {known})")
        if not isinstance(value, bool | int | float | str):
            raise UnsupportedModel(f"{engine}'s setting {name!r} is a {type(value).__name__}, not text or a number")


@runtime_checkable
class ReportsEngineLatency(Protocol):
    """A session whose engine times its inferences itself, free of the Python call around them."""

    def engine_latency_ns(self) -> int:
        """Nanoseconds of the last `invoke` by the engine's own clock; asked after our clock was read."""


@runtime_checkable
class Compiles(Protocol):
    """A session whose engine compiles the model for the bound inputs, which takes long and is a phase of its own."""

    def compile(self) -> Mapping[str, Any]:
        """Compile; `Session.effective` is complete afterwards.

        Returns:
            ``cached``: whether the code came from a cache of this job; ``ahead``: whether an application is shipped
            with the compiled code, so that compiling is no part of its start.

        Raises `UnsupportedModel` or the engine's own exceptions.
        """


@runtime_checkable
class TellsCautions(Protocol):
    """A session that has found what a reader of its numbers should know.

    Attributes:
        cautions: code of the catalogue of cautions → what was found; complete once the session is loaded and compiled.
    """

    cautions: Mapping[str, str]


KEEPS_STATE = "keeps-state"
"""Code of the caution about a model that keeps a state."""


@runtime_checkable
class KeepsState(Protocol):
    """A session whose model may keep a state: what an inference leaves for the next one.

    Attributes:
        states: names of the model's states, empty where it keeps none; complete once the session is bound.
    """

    states: Sequence[str]

    def reset_state(self) -> bool:
        """Give every state its initial value; False where the engine can't, so that the model must be loaded again."""


def states_of(session: Session) -> tuple[str, ...]:
    """Names of the states that `session` keeps from one inference to the next."""
    return tuple(session.states) if isinstance(session, KeepsState) else ()


def reset_state(session: Session) -> bool:
    """Whether the next inference of `session` starts from the model's initial state, which this restores if it can."""
    return not states_of(session) or (isinstance(session, KeepsState) and session.reset_state())


@runtime_checkable
class FallsBack(Protocol):
    """A session with a slower call for models that its fastest one can't run again and again."""

    def fall_back(self) -> bool:
        """Infer by the other call from now on, which `Session.effective` then names; False where there is no other."""


@runtime_checkable
class RunsConcurrently(Protocol):
    """A session that keeps several requests in flight (offline scenario)."""

    def run_many(
        self, *, clock: Callable[[], int], until_ns: int | None, count: int | None, completions: list[int]
    ) -> None:
        """Keep all requests busy until `clock()` reaches `until_ns` or `count` inferences were started.

        Appends the `clock()` time of every completed inference to `completions` and returns once all have completed.
        """


@runtime_checkable
class SuppliesClock(Protocol):
    """A session with a clock of its own (nanoseconds): simulators and fakes whose time is not the wall's."""

    def clock(self) -> int:
        """Now, ns."""

    def sleep(self, seconds: float) -> None:
        """Let that much time pass on this clock."""


@runtime_checkable
class TimesReference(Protocol):
    """A session with a clock of its own that also has reference kernels of its own."""

    def time_reference(self) -> dict[str, Any]:
        """As `edgewise.run.reference.time_reference`."""


INPUTS_FIRST = {"inputs_handed_over": "before the timing"}
"""For `Session.effective`, where the timed call reads inputs that `Session.bind` copied into the engine's memory."""
INPUTS_WITH_CALL = {"inputs_handed_over": "with each call"}
"""The same where the timed call hands them over."""

Role = Literal["operator", "layout", "precision", "copy", "control"]
"""What an engine's step is for: what the model asks for; changing a tensor's layout; converting its type (quantise,
dequantise, casts the model does not ask for); copying it (between memories or providers); keeping the others going."""


@dataclass(frozen=True, slots=True)
class ModuleOperator:
    """An operator of the model by its type and the module that runs it.

    Attributes:
        module: path of the module in the model; "" is the model itself, or not known.
        type: ``conv2d``, ``add``.
        place, count: it is number `place`, from 0, of `count` operators of this type in this module.
    """

    module: str
    type: str
    place: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineNode:
    """One step that an engine timed.

    Attributes:
        name: what the engine calls it; unique in the profile.
        op: the kernel or type of layer that ran, in the engine's words.
        times_ns: its duration in every profiled inference, by the engine's clock, in order.
        role: what it is for.
        kinds: kinds of operators (`edgewise.model.cost.KINDS`) that a step of this type may execute; empty where the
            engine's type tells nothing.
        originals: names of the model's operators, or of the tensors they make, that the engine says it executes.
        executes: the model's operators that it executes, for engines that keep types and modules but no names.
        inputs, outputs: names of the model's tensors that it reads and makes, as far as the engine keeps them.
        start_ns: when it began after the beginning of its inference, the median; None where the engine does not tell.
        provider: that executed it, where the engine tells.
        dtype: of its arithmetic, where the engine tells.
        truncates: whether its durations are cut to whole steps of the clock; None: as those of the profile are.
        type: of the step as the engine names it, for what it fuses (``SkipLayerNormalization``); "" where the types of
            the model's operators say more.
        taken_out_ns: what the profiler was found to add to each of its times, and which they no longer contain.
        detail: what else the engine says, JSON-shaped.
    """

    name: str
    op: str
    times_ns: tuple[float, ...]
    role: Role = "operator"
    kinds: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    executes: tuple[ModuleOperator, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    start_ns: float | None = None
    provider: str | None = None
    dtype: str | None = None
    truncates: bool | None = None
    type: str = ""
    taken_out_ns: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOverhead:
    """Time of an inference that an engine's clock shows outside its steps (between them, around them).

    Attributes:
        name: ``between operators``, ``session`` …
        times_ns: in every profiled inference, in order. It may contain what profiling itself costs.
    """

    name: str
    times_ns: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """What an engine's profiler told of some inferences.

    Attributes:
        method: how it times its layers, in words.
        resolution_ns: of its clock's readings.
        truncates: durations are cut to whole steps of the resolution, so that each is half a step too short on average.
        nodes: in the order of execution.
        overheads: what its clock shows outside them.
        inference_ns: of every profiled inference, by the monotonic clock around the engine's call.
        unprofiled_ns: of ordinary inferences between them, by the same clock: what the parts should add up to. Means of
            several inferences where single ones can't be told; empty where the engine can't do both in one process.
        pairs_ns: of each pair of adjacent windows of both, the median of the profiled and of the ordinary inferences,
            by the same clock or in processor time; empty takes all for one pair.
        processor_ns: processor time of every profiled inference, which no other program lengthens; empty unless one
            thread did all of the work.
        inferences: profiled in all, where a time is the mean of several; None: as many as there are times.
        ordered: whether `nodes` follow the model's own order, which attribution by order needs.
        idle: names of the model's operators, or of tensors they make, whose steps the engine lists but never runs.
        notes: what a reader should know.
    """

    method: str
    resolution_ns: float
    truncates: bool
    nodes: tuple[EngineNode, ...]
    overheads: tuple[EngineOverhead, ...] = ()
    inference_ns: tuple[int, ...]
    unprofiled_ns: tuple[int, ...] = ()
    pairs_ns: tuple[tuple[float, float], ...] = ()
    processor_ns: tuple[float, ...] = ()
    inferences: int | None = None
    ordered: bool = True
    idle: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class CannotProfile(Exception):
    """This engine, as it is installed, can't time its layers; the message says why and what would help."""


@runtime_checkable
class ProfilesLayers(Protocol):
    """A session that can time its layers. It was loaded with `LoadOptions.profile` and is bound and warmed up."""

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run this number of inferences under the engine's profiler. Raises `CannotProfile`."""


@runtime_checkable
class Generates(Protocol):
    """A session of a language model, which makes text one token after the other.

    Attributes:
        vocabulary: number of its tokens.
        kv_cache_type: type of the numbers that its KV cache keeps, ``u8``; None where the engine does not tell.
    """

    vocabulary: int
    kv_cache_type: str | None

    def encode(self, text: str) -> Sequence[int]:
        """Return the tokens of `text`, with none added."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of `tokens`."""

    def fill(self, tokens: Sequence[int], *, room: int = 0) -> None:
        """Forget everything, then compute `tokens` (none: nothing), which `generate` goes on from.

        Computing them makes one new token, which is computed as the first of the prompt that follows. Raises
        `UnsupportedModel` where the engine can't go on from a prompt. `room`: the tokens that will follow at most, the
        prompt and the new ones, for engines whose KV cache has a size that is fixed before it is filled.
        """

    def generate(self, tokens: Sequence[int], count: int, take: Callable[[int], None]) -> None:
        """Compute the prompt `tokens` behind those of `fill`, then `count` new tokens, each the likeliest.

        No prompt computed before shortens this one, the end of the text ends nothing, and no template is applied.
        `take`: called with each new token as soon as it is known.
        """


@runtime_checkable
class ScoresTokens(Protocol):
    """A session of a language model that tells how probable given tokens are. It is `Generates`, too.

    Attributes:
        beginning: tokens that its tokenizer puts before each text.
        ends: the tokens that end a text; empty where there is none.
    """

    beginning: Sequence[int]
    ends: Collection[int]

    def log_probabilities(self, tokens: Sequence[int]) -> Sequence[float]:
        """Return the natural logarithm of the probability of each of `tokens` but the first, behind those before it."""


@runtime_checkable
class TellsProbabilities(Protocol):
    """A session of a language model that tells the probabilities of all tokens. It is `ScoresTokens`, too."""

    def all_log_probabilities(self, tokens: Sequence[int]) -> Any:
        """Return the natural logarithm of the probability of every token behind each of `tokens` but the last.

        An array of (tokens − 1, vocabulary).
        """


@runtime_checkable
class RunsLanguageModels(Protocol):
    """A runtime whose sessions are `Generates`.

    Attributes:
        language_formats: model formats of which they are.
    """

    language_formats: Collection[str]


def package_availability(distribution: str, *, extra: str, module: str) -> Availability:
    """Whether `distribution` is installed, from metadata only.

    Args:
        extra: edgewise's optional dependency that brings it.
        module: the module that must be findable.
    """
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    hint = f"pip install 'edgewise[{extra}]'"
    try:
        found = version(distribution)
    except PackageNotFoundError:
        return Availability(False, f"the package {distribution} is not installed", hint)
    if find_spec(module) is None:
        return Availability(False, f"{distribution} {found} is installed but has no module {module}", hint)
    return Availability(True, version=found)


def runtimes() -> Registry[Runtime]:
    """All runtimes, built-in and plugged in."""
    return Registry("edgewise.runtimes", "runtime", meant=_MEANT)


_MEANT = {
    "ort": "onnxruntime", "onnx": "onnxruntime", "tflite": "litert", "xnnpack": "litert", "ov": "openvino",
    "cuda": "onnxruntime/cuda", "tensorrt": "onnxruntime/tensorrt", "trt": "onnxruntime/tensorrt",
}  # fmt: skip
