"""What a pass is: it makes another model of a model, or other settings for the same one. Its capabilities are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from edgewise.model.graph import Graph
from edgewise.model.signature import Signature
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
        exact: outputs differ by rounding only; the pre-flight does not rehearse it. It is judged like any other.
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
class Recipe:
    """Settings of a pass that are worth trying.

    Attributes:
        label: tells it from the pass's other recipes, in a word or two; "" for the only or the usual one.
        settings: JSON-shaped. Of a tuning pass: fields of `edgewise.record.RuntimeSpec`.
        rank: 0 is tried first; 1 where there is time; 2 only where the user asks for everything.
    """

    label: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One job for a pass, done in a process of its own.

    Attributes:
        model: the file to change; of a module, the factory (``package.module:function`` or ``file.py:function``).
        settings: of the recipe.
        keep_float: names of operators (`Graph.operators`) to leave as they are.
        only: if not empty, the only operators to change.
        calibration: samples to look at (`edgewise.optimizing.calibration`), or None.
        folder: an empty folder for what is made; it stays.
        seed: of anything random.
        threads: to use at most.
    """

    model: str
    format: str
    settings: Mapping[str, Any]
    folder: Path
    keep_float: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    calibration: Path | None = None
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What a pass made.

    Attributes:
        model: the file; its weight files, if any, are beside it.
        notes: one-line statements a user should know, such as how many operators were changed.
        versions: distribution → version of everything that had a part in it.
        unchanged: it found nothing to do.
    """

    model: Path
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    unchanged: bool = False


class CannotApply(Exception):
    """This pass can't change this model; the message says why, in one line."""


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

    def apply(self, work: Work) -> Product:
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
