"""Plans the tasks of a search: each pass with each recipe on each file, and why others are not tried."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.comparing.subjects import NATIVE
from edgewise.errors import BadInput, Unavailable, as_flag
from edgewise.model.graph import Graph
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import Capabilities, Facts, Pass, Recipe
from edgewise.record import TargetSpec
from edgewise.registry import Registry, availability_of
from edgewise.run.facts import availability_at
from edgewise.run.plan import count_cores
from edgewise.runtime.base import runtimes
from edgewise.workload.resolved_graph import resolve_shapes

NO_SAMPLES = f"needs samples: give {as_flag('data')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A variant whose file is the input of passes.

    Attributes:
        variant: its id.
        model: the file, or the factory of a module.
        format: of `model`.
        digest: SHA-256 of the file.
        prefix: the names of the passes that made it, with which the names of its results begin.
        root: SHA-256 of the given file that the variant was made of; samples are prepared for that file.
        keep_float: operators that passes must leave alone.
    """

    variant: str
    facts: Facts
    model: str
    format: str
    digest: str
    prefix: str = ""
    root: str = ""
    keep_float: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """One pass with one recipe on one file, without samples and a folder.

    Attributes:
        engines: runtimes in which the result is tried.
        keep_float: operators to leave alone, in addition to those of the source.
        only: if not empty, the only operators to change.
    """

    one: Pass
    recipe: Recipe
    source: Source
    engines: tuple[str, ...] = ()
    keep_float: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``ort-static per-channel``."""
        return f"{self.one.name} {self.recipe.label}".strip()

    @property
    def capabilities(self) -> Capabilities:
        """Of the pass."""
        return self.one.capabilities

    @property
    def kept(self) -> tuple[str, ...]:
        """All operators to leave alone."""
        return (*self.source.keep_float, *self.keep_float)

    def result_name(self, engine: str, *, suffix: str = "") -> str:
        """Return the id of the result in `engine`: the passes, and the engine."""
        return f"{self.source.prefix}{self.name}{suffix} @ {engine}"


@dataclass(slots=True, kw_only=True)
class PassCatalog:
    """The passes that one search may use.

    Attributes:
        words: ``NAME`` → the requested labels, empty for all labels; None for all passes.
        skipped: notes on passes that read the format and are not tried.
        lacking: the usual tasks of passes that lack nothing but samples.
    """

    words: dict[str, list[str]] | None
    rank: int
    calibrates: bool
    labels: bool
    registry: Registry[Pass]
    skipped: list[str] = field(default_factory=list)
    lacking: list[PlannedTask] = field(default_factory=list)

    def choose(self, source: Source, *, kinds: Sequence[str], engines: Sequence[str]) -> list[PlannedTask]:
        """Return the tasks on one file, of passes of these kinds, the most promising first."""
        found = []
        facts = source.facts if source.facts.format == source.format else replace(source.facts, format=source.format)
        for name in self.registry.names():
            if self.words is not None and name not in self.words:
                continue
            one = self._load(name)
            if one is None or facts.format not in one.capabilities.reads or one.capabilities.kind not in kinds:
                continue
            usable = self._usable_engines(one, facts, engines)
            why = self._obstacle(one, facts, usable)
            if why:
                self._leave_out(name, why)
                if why == NO_SAMPLES and not one.capabilities.trains and not one.capabilities.labels:
                    usual = [each for each in self._recipes(name, one, facts) if each.rank == 0]
                    self.lacking += [PlannedTask(one=one, recipe=each, source=source, engines=usable) for each in usual]
                continue
            recipes = self._recipes(name, one, facts)
            found += [PlannedTask(one=one, recipe=recipe, source=source, engines=usable) for recipe in recipes]
        return sorted(found, key=lambda task: task.recipe.rank)

    def refuse_unknown(self, facts: Sequence[Facts]) -> None:
        """Raise `BadInput` for a named recipe that no given file has.

        Engine settings are not checked: they depend on the chosen file, which is not known yet.
        """
        loaded = [one for name in self.words or {} if (one := self._load(name)) is not None]
        reached = {each.format for each in facts} | {one.capabilities.writes for one in loaded}
        for one in loaded:
            if not reached & set(one.capabilities.reads):
                raise BadInput(
                    f"{one.name} reads {', '.join(one.capabilities.reads)}; {facts[0].path.name} is {facts[0].format}",
                    advice="convert the model first, or name a pass that supports its format",
                )
        for name, labels in (self.words or {}).items():
            one = self._load(name)
            readable = [each for each in facts if one is not None and each.format in one.capabilities.reads]
            if one is None or not labels or not readable or one.capabilities.kind == "tuning":
                continue
            known = list(dict.fromkeys(recipe.label for each in readable for recipe in one.recipes(each)))
            if unknown := [label for label in labels if label not in known]:
                raise BadInput(
                    f"{name} has no recipe {unknown[0]!r} for this model",
                    advice=f"it has: {', '.join(filter(None, known)) or 'one without a name'}",
                )

    def _load(self, name: str) -> Pass | None:
        """Return the pass; None where its plug-in does not load."""
        try:
            return self.registry.get(name)
        except Unavailable as error:
            self._leave_out(name, error.message)
            return None

    def is_named(self, task: PlannedTask, *, whole: bool = False) -> bool:
        """Whether the user named this recipe, or, with `whole`, the pass."""
        if self.words is None or task.one.name not in self.words:
            return False
        return whole or task.recipe.label in self.words[task.one.name]

    def _usable_engines(self, one: Pass, facts: Facts, engines: Sequence[str]) -> tuple[str, ...]:
        made, registry = one.capabilities.writes or facts.format, runtimes()
        meant = one.capabilities.runtimes
        return tuple(name for name in engines if made in registry.get(name).formats and (not meant or name in meant))

    def _obstacle(self, one: Pass, facts: Facts, usable: Sequence[str]) -> str:
        capabilities = one.capabilities
        availability = availability_of(one)
        if not availability:
            return f"{availability.reason} ({availability.install_hint})"
        if not usable:
            return "no selected engine runs its output"
        if capabilities.kind in ("quantisation", "compression") and facts.quantized:
            return "the model is already quantised"
        if capabilities.calibrates and not self.calibrates:
            return NO_SAMPLES
        if capabilities.labels and not self.labels:
            return "needs labels"
        return ""

    def _recipes(self, name: str, one: Pass, facts: Facts) -> list[Recipe]:
        """Return the recipes to try on this file. A named recipe that the file does not have is noted."""
        try:
            recipes = list(one.recipes(facts))
        except Exception as error:  # somebody else's plug-in may raise anything
            self._leave_out(name, f"its recipes could not be listed: {type(error).__name__}: {error}")
            return []
        labels = [] if self.words is None else self.words[name]
        if not labels:
            found = [recipe for recipe in recipes if recipe.rank <= self.rank]
            if not found:
                self._leave_out(name, "no recipe of this pass applies to this model")
            return found
        known = {recipe.label: recipe for recipe in recipes}
        for label in labels:
            if label not in known:
                self._leave_out(f"{name}:{label}", f"there is no such recipe for {facts.path.name}")
        return [known[label] for label in labels if label in known]

    def _leave_out(self, name: str, why: str) -> None:
        note = f"{name} was not tried: {why}"
        if note not in self.skipped:
            self.skipped.append(note)


def read_words(words: Sequence[str], registry: Registry[Pass]) -> dict[str, list[str]] | None:
    """Pass → labels from ``["ort-static:percentile,onnx-fp16"]``; None where no pass is named. Raises `Unavailable`.

    A comma separates two passes only before the name of a pass, since labels contain commas.
    """
    if not words:
        return None
    names = "|".join(map(re.escape, registry.names()))
    found: dict[str, list[str]] = {}
    for word in [part for each in words for part in re.split(rf",\s*(?=(?:{names})(?:[:,]|\s*$))", each)]:
        before, _, label = word.partition(":")
        for name in map(str.strip, before.split(",")):  # several where one of them is unknown, which raises
            registry.location(name)
        found.setdefault(name, []).extend([label.strip()] if label.strip() else [])
    return found


def facts_of(
    path: Path, *, shapes: dict[str, tuple[int, ...]] | None = None, target: TargetSpec | None = None
) -> Facts:
    """Return the facts of the model at `path` and of `target`, by default this machine.

    Raises `BadModel`, `BadInput`.
    """
    place = target or TargetSpec()
    model = open_model(path)
    graph = read_graph(path)
    concrete, _ = resolve_shapes(graph, shapes or {})
    if concrete:
        graph = read_graph(path, shapes=concrete)
    return Facts(
        path=path,
        format=model.ref.format,
        graph=graph,
        signature=model.signature,
        quantized=is_quantized(graph),
        runtimes=installed_runtimes(model.ref.format, place),
        cores=count_cores(place),
    )


def is_quantized(graph: Graph) -> bool:
    """Whether operators compute in integers: quantised weights, or a quantised tensor that flows."""
    quantized = {
        tensor.name
        for tensor in graph.tensors.values()
        if tensor.quantization is not None and tensor.dtype in ("int8", "uint8", "int16", "int4", "uint4")
    }
    return any(
        op.op in ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "FakeQuantize", "ConvInteger")
        for op in graph.operators
    ) or bool(quantized)


def installed_runtimes(form: str, target: TargetSpec | None = None) -> tuple[str, ...]:
    """Engines that are installed on `target`, read the format and are used by default."""
    place = target or TargetSpec()
    usable = ((name, one) for name, one in runtimes() if one.in_default and form in one.formats)
    return tuple(name for name, one in usable if availability_at(place, name, one))


def find_readers(form: str, names: Sequence[str]) -> list[str]:
    """Engines of `names` that read the format, its own first."""
    registry = runtimes()
    readers = [name for name in names if form in registry.get(name).formats]
    return sorted(readers, key=lambda name: name != NATIVE.get(form))
