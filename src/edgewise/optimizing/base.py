"""The contract of passes. A pass turns a model into another one, or changes its engine settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from edgewise.model.graph import Graph
from edgewise.model.signature import Signature
from edgewise.optimizing.libraries import CannotApply as CannotApply  # noqa: PLC0414 - for plug-ins
from edgewise.packages import packages_availability
from edgewise.record import ModelRef
from edgewise.registry import Availability, Registry

PassKind = Literal[
    "simplification", "fusion", "conversion", "quantisation", "compression", "pruning", "distillation", "tuning"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Abilities and needs of a pass, readable without importing its libraries.

    Attributes:
        kind: its family. ``quantisation`` changes arithmetic, ``compression`` only how weights are stored.
        reads: supported model formats: ``onnx``, ``tflite``, ``openvino``; ``torch`` and ``keras`` are modules that a
            factory builds.
        writes: format of the result; "" for the format that was read, and for tuning.
        exact: outputs differ by rounding only. The pre-flight does not time the pass; its result is judged.
        arithmetic: of the heavy operators afterwards: ``f32``, ``f16``, ``int8``, ``int8-dynamic`` …; "" as before.
        calibrates: the pass needs samples.
        labels: the pass needs labels of the samples.
        trains: the pass trains the weights of a module, on samples and labels.
        keeps_float: the pass can leave named layers alone, or change only named ones.
        runtimes: engines for its results; empty for all that read them.
        distributions: packages that the pass needs.
        extra: edgewise's optional dependency with these packages.
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

    @property
    def family(self) -> str:
        """Family of the pass, such as ``int8``; empty for exact passes."""
        if self.kind == "quantisation":
            return self.arithmetic.partition("-")[0] or "quantisation"
        names = {"compression": "weight compression", "pruning": "pruning", "distillation": "distillation"}
        return names.get(self.kind, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of a model for the recipes of a pass.

    Attributes:
        graph: the network with concrete inputs.
        quantized: whether the network already computes in integers.
        runtimes: installed engines.
        cores: number of processor cores to use.
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
    """Base of the settings of a pass: a frozen dataclass of JSON values with a default for every field."""

    def to_document(self) -> dict[str, Any]:
        """Return the settings as JSON, without those that are not set."""
        return {name: value for name, value in asdict(self).items() if value is not None and value != {}}


S = TypeVar("S", bound=PassSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Settings of a pass worth trying.

    Attributes:
        label: unique among the pass's recipes, in a word or two; "" for the usual one.
        settings: of the pass's own type; of a tuning pass, `EngineSettings`.
        rank: 0 is tried first; 1 if there is time; 2 only if everything is to be tried.
    """

    label: str = ""
    settings: PassSettings = PassSettings()
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings(PassSettings):
    """Fields of `edgewise.record.RuntimeSpec` to change in `runtime`; None and missing options change nothing."""

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
        keep_float: names of operators (`Graph.operators`) to leave alone.
        only: if not empty, the only operators to change.
        calibration: file of samples (`edgewise.optimizing.calibration`), or None.
        shapes: of a module's inputs, where given.
        weights: of a module: file of the ``state_dict`` that the original was measured with; None leaves those that the
            factory makes.
        folder: an empty folder for the result, which is kept.
        seed: random seed.
        threads: most threads to use.
        max_seconds: time limit of training, s.
    """

    model: str
    format: str
    settings: S
    folder: Path
    keep_float: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    calibration: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    weights: Path | None = None
    seed: int = 0
    threads: int = 1
    max_seconds: float = 300.0

    def spares(self, name: str) -> bool:
        """Whether to leave the operator called `name` alone."""
        return name in self.keep_float or bool(self.only and name not in self.only)


Cause = Literal["unsuitable", "failed", "memory", "disk", "crashed", "late", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """The result of a pass. The pass sets the first four fields, and its runner the others.

    Attributes:
        model: the file, with its weight files beside it; None where there is none.
        notes: one line each, for the user, such as the number of changed operators.
        versions: distribution → version of all libraries that were used.
        unchanged: the pass found nothing to change.
        cause: why there is no file: ``unsuitable``: the pass can't change this model; ``late``: its time ended;
            ``crashed``: its process died.
        reason: the cause in one line.
        seconds: duration, s.
        ref: identity of the file, once it was read.
    """

    model: Path | None = None
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    unchanged: bool = False
    cause: Cause = ""
    reason: str = ""
    seconds: float | None = None
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
    """A way to change a model, in the entry-point group ``edgewise.passes``.

    Attributes:
        name: for ``--passes``, such as ``ort-static``.
        title: a few words for tables.
    """

    name: str
    title: str
    capabilities: Capabilities

    def availability(self) -> Availability:
        """Whether its packages are installed, from metadata, without importing them."""

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Return settings worth trying on this model, the most promising first; may be empty.

        Must import no library.
        """

    def apply(self, task: PassTask[Any]) -> PassResult:
        """Change the model. Raises `CannotApply`, MemoryError, or any error of a library. Not called for tuning."""


class Packaged:
    """Base of passes that are available where the packages in `capabilities` are installed, with one recipe."""

    capabilities: Capabilities

    def availability(self) -> Availability:
        """Whether its packages are installed, from metadata, without importing them."""
        return packages_availability(self.capabilities.distributions, extra=self.capabilities.extra)

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Return the usual one, for every model."""
        return (Recipe(),)


def passes() -> Registry[Pass]:
    """All passes, built-in and plugged in."""
    return Registry("edgewise.passes", "pass")
