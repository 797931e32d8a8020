"""What a pass is: it makes another model of a model, or other settings for the same one. Its capabilities are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from edgewise.model.graph import Graph
from edgewise.model.signature import Signature
from edgewise.optimizing.libraries import CannotApply as CannotApply  # noqa: PLC0414 - for plug-ins
from edgewise.record import ModelRef
from edgewise.registry import Availability, Registry

PassKind = Literal[
    "simplification", "fusion", "conversion", "quantisation", "compression", "pruning", "distillation", "tuning"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a pass does and needs, readable without importing what it works with.

    Attributes:
        kind: its family. ``quantisation`` changes arithmetic, ``compression`` only how weights are stored.
        reads: model formats that it takes: ``onnx``, ``tflite``, ``openvino``; ``torch`` and ``keras`` are modules that
            a factory builds.
        writes: the format of what it makes; "" is the one it reads, and that of tuning, which leaves the file alone.
        exact: outputs differ by rounding only; the pre-flight does not time it. It is judged like any other.
        arithmetic: of the heavy operators afterwards: ``f32``, ``f16``, ``int8``, ``int8-dynamic`` …; "" as before.
        calibrates: it looks at samples.
        labels: it looks at their labels too.
        trains: it changes weights by training; it takes a module, samples and labels.
        keeps_float: it can leave named layers as they are, or change only named ones.
        runtimes: engines its results are meant for; empty: every one that reads them.
        distributions: packages it needs.
        extra: edgewise's optional dependency that brings them.
    """

    kind: PassKind
    reads: tuple[str, ...]
    writes: str
    exact: bool = False
    arithmetic: str = ""
    calibrates: bool = False
    labels: bool = False
    trains: bool = False
    keeps_float: bool = False
    runtimes: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    extra: str = "optimize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a pass may know before it is asked to work.

    Attributes:
        graph: the network with concrete inputs.
        quantized: whether it computes in integers already.
        runtimes: engines that are installed here.
        cores: processor cores that may be used.
    """

    path: Path
    format: str
    graph: Graph
    signature: Signature
    quantized: bool
    runtimes: tuple[str, ...]
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSettings:
    """Base of the settings of a pass: a frozen dataclass with a default for every field, of values that JSON has."""

    def to_document(self) -> dict[str, Any]:
        """As JSON has it, without what is not set."""
        return {name: value for name, value in asdict(self).items() if value is not None and value != {}}


S = TypeVar("S", bound=PassSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings of a pass that are worth trying.

    Attributes:
        label: tells it from the pass's other recipes, in a word or two; "" for the only or the usual one.
        settings: of the pass's own type; of a tuning pass, `EngineSettings`.
        rank: 0 is tried first; 1 where there is time; 2 only where the user asks for everything.
    """

    label: str = ""
    settings: PassSettings = PassSettings()
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings(PassSettings):
    """Fields of `edgewise.record.RuntimeSpec` to change in `runtime`; None and what `options` lacks stay."""

    runtime: str = ""
    threads: int | None = None
    provider: str | None = None
    precision: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTask(Generic[S]):
    """A file for a pass to change, in a process of its own.

    Attributes:
        model: the file; of a module, the factory (``package.module:function`` or ``file.py:function``).
        settings: of the recipe.
        keep_float: names of operators (`Graph.operators`) to leave as they are.
        only: if not empty, the only operators to change.
        calibration: samples to look at (`edgewise.optimizing.calibration`), or None.
        shapes: of a module's inputs, where the user gave any.
        folder: an empty folder for what is made; it stays.
        seed: of anything random.
        threads: to use at most.
        max_seconds: after which training should end.
    """

    model: str
    format: str
    settings: S
    folder: Path
    keep_float: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    calibration: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int = 0
    threads: int = 1
    max_seconds: float = 300.0

    def spares(self, name: str) -> bool:
        """Whether to leave the operator called `name` as it is."""
        return name in self.keep_float or bool(self.only and name not in self.only)


Cause = Literal["unsuitable", "failed", "memory", "disk", "crashed", "late", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """What a pass made of a task. A pass gives the first four; the others are set by what runs it.

    Attributes:
        model: the file, with its weight files, if any, beside it; None where there is none.
        notes: one-line statements a user should know, such as how many operators were changed.
        versions: distribution → version of everything that had a part in it.
        unchanged: the pass found nothing to do.
        cause: why there is no file: ``unsuitable``: the pass can't change this model; ``late``: it was ended at its
            deadline; ``crashed``: its process died.
        reason: the same in a line.
        seconds: how long it took.
        tail: the last that its libraries printed, where it failed.
        ref: what the file is, once it was read.
    """

    model: Path | None = None
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    unchanged: bool = False
    cause: Cause = ""
    reason: str = ""
    seconds: float | None = None
    tail: str = field(default="", repr=False)
    ref: ModelRef | None = None

    @property
    def why(self) -> str:
        """Why there is no new file, in one line; empty where there is one."""
        if self.unchanged:
            return "it found nothing to change"
        return f"{_CAUSES[self.cause]}: {self.reason}" if self.cause else ""


_CAUSES = {
    "unsuitable": "not possible", "disk": "the disk is full", "memory": "out of memory", "late": "gave up",
    "failed": "the pass failed", "crashed": "the pass failed",
}  # fmt: skip


class Pass(Protocol):
    """A way to change a model, in the entry-point group ``edgewise.passes``. One file makes one.

    Attributes:
        name: what ``--passes`` takes, such as ``ort-static``.
        title: in a few words, as tables print it.
    """

    name: str
    title: str
    capabilities: Capabilities

    def availability(self) -> Availability:
        """Whether its packages are installed, from metadata, without importing them."""

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Settings worth trying on this model, the most promising first; none where it can't help. Imports nothing."""

    def apply(self, task: PassTask[Any]) -> PassResult:
        """Do it. Raises `CannotApply`, MemoryError, or whatever its libraries raise. Not called for tuning."""


class Packaged:
    """What most passes are: usable where the packages that `capabilities` names are installed."""

    capabilities: Capabilities

    def availability(self) -> Availability:
        """Whether its packages are installed, from metadata, without importing them."""
        return packages_availability(self.capabilities.distributions, extra=self.capabilities.extra)


def passes() -> Registry[Pass]:
    """All passes, built-in and plugged in."""
    return Registry("edgewise.passes", "pass")


def packages_availability(distributions: Sequence[str], *, extra: str) -> Availability:
    """Whether all `distributions` are installed, from metadata only."""
    from importlib.metadata import PackageNotFoundError, version

    versions = []
    for name in distributions:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            return Availability(False, f"the package {name} is not installed", f"pip install 'edgewise[{extra}]'")
    return Availability(True, version=", ".join(versions))
