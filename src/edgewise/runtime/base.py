"""The seam to inference engines: small Protocols. A runtime is any class that satisfies `Runtime`.

Everything here and in the modules beside it is sent to devices: standard library, numpy and the engine only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

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
    """

    name: str
    title: str
    precisions: tuple[str, ...] = ("f32",)


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
        extra: engine settings by their own names.
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


class Session(Protocol):
    """A model loaded in an engine.

    Attributes:
        inputs, outputs: as the engine sees them, in the model's order.
        effective: what came into force, JSON-shaped: ``precision``, ``threads``, ``provider``, ``streams`` and any
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
        """Copies of the outputs of the last `invoke` as numpy arrays, in order."""

    def close(self) -> None:
        """Release the engine's resources."""


class Runtime(Protocol):
    """An inference engine.

    Attributes:
        name: what ``-r`` takes and records keep.
        title: its proper name.
        formats: model formats it reads (``onnx``, ``tflite``, ``openvino`` …).
        providers: the first is the default.
        in_default: whether a sweep without ``-r`` includes it.
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
        """A session for the model at `path`.

        Raises `UnsupportedModel`, `InvalidModel`, MemoryError or the engine's own exceptions.
        """


@runtime_checkable
class ReportsEngineLatency(Protocol):
    """A session whose engine times its inferences itself, free of the Python call around them."""

    def engine_latency_ns(self) -> int:
        """Nanoseconds of the last `invoke` by the engine's own clock."""


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


def availability_of(runtime: Runtime) -> Availability:
    """`Runtime.availability`, where a plug-in that fails to answer counts as not available."""
    try:
        return runtime.availability()
    except Exception as error:
        return Availability(False, f"its own check failed: {type(error).__name__}: {error}", "report it to its authors")


def runtimes() -> Registry[Runtime]:
    """All runtimes, built-in and plugged in."""
    return Registry("edgewise.runtimes", "runtime")
