"""What to try: which pass with which recipe on which file, and why others are not tried."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgewise.comparing.contenders import NATIVE
from edgewise.errors import BadInput, Unavailable
from edgewise.model.graph import Graph
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import Facts, Pass, Recipe
from edgewise.registry import Registry, availability_of
from edgewise.run.plan import count_cores
from edgewise.runtime.base import Runtime, runtimes
from edgewise.workload.networks import resolve_shapes

NO_SAMPLES = "it needs samples: give --data"
ARITHMETIC = frozenset({"conv", "depthwise_conv", "matmul", "fully_connected"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One pass with one recipe on one file.

    Attributes:
        parent: id of the variant whose file it starts from.
        engines: runtimes in which the result is tried.
    """

    one: Pass
    recipe: Recipe
    parent: str
    engines: tuple[str, ...]

    @property
    def name(self) -> str:
        """``ort-static per-channel``."""
        return f"{self.one.name} {self.recipe.label}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Untried:
    """A pass that is not tried, and why."""

    name: str
    why: str


@dataclass(slots=True, kw_only=True)
class Menu:
    """Which passes there are for one commission.

    Attributes:
        words: ``NAME`` → the labels asked for; empty labels mean all of them. None: everything.
        untried: why passes that read the format were left out.
        lacking: the usual attempts of passes that only lack samples.
    """

    words: dict[str, list[str]] | None
    rank: int
    calibrates: bool
    labels: bool
    registry: Registry[Pass]
    untried: list[Untried] = field(default_factory=list)
    lacking: list[Attempt] = field(default_factory=list)

    def choose(self, facts: Facts, *, kinds: Sequence[str], parent: str, engines: Sequence[str]) -> list[Attempt]:
        """The attempts on one file, of passes of these kinds, the most promising first."""
        found = []
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
                    self.lacking += [Attempt(one=one, recipe=each, parent=parent, engines=usable) for each in usual]
                continue
            recipes = self._recipes(name, one, facts)
            found += [Attempt(one=one, recipe=recipe, parent=parent, engines=usable) for recipe in recipes]
        return sorted(found, key=lambda attempt: attempt.recipe.rank)

    def refuse_unknown(self, facts: Sequence[Facts]) -> None:
        """Refuse names of recipes that no file has from which the search starts. Raises `BadInput`.

        Settings of engines depend on the file that is chosen in the end: these are not known yet.
        """
        loaded = [one for name in self.words or {} if (one := self._load(name)) is not None]
        reached = {each.format for each in facts} | {one.capabilities.writes for one in loaded}
        for one in loaded:
            if not reached & set(one.capabilities.reads):
                raise BadInput(
                    f"{one.name} takes {', '.join(one.capabilities.reads)}, and {facts[0].path.name} is "
                    f"{facts[0].format}",
                    advice="convert it first, or name a pass that takes it",
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
        """The pass, where its plug-in loads."""
        try:
            return self.registry.get(name)
        except Unavailable as error:
            self._leave_out(name, error.message)
            return None

    def is_named(self, attempt: Attempt, *, whole: bool = False) -> bool:
        """Whether the user asked for this very recipe, or, with `whole`, for the pass."""
        if self.words is None or attempt.one.name not in self.words:
            return False
        return whole or attempt.recipe.label in self.words[attempt.one.name]

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
            return "no installed engine that may be used runs what it makes"
        if capabilities.kind in ("quantisation", "compression") and facts.quantized:
            return "the model is quantised already"
        if capabilities.calibrates and not self.calibrates:
            return NO_SAMPLES
        if capabilities.labels and not self.labels:
            return "it needs labels"
        return ""

    def _recipes(self, name: str, one: Pass, facts: Facts) -> list[Recipe]:
        """What is to be tried on this file; what a user asked for and it has not is left out with a note."""
        try:
            recipes = list(one.recipes(facts))
        except Exception as error:  # somebody else's plug-in may raise anything
            self._leave_out(name, f"it can't tell its recipes: {type(error).__name__}: {error}")
            return []
        labels = [] if self.words is None else self.words[name]
        if not labels:
            found = [recipe for recipe in recipes if recipe.rank <= self.rank]
            if not found:
                self._leave_out(name, "it has nothing to offer for this model")
            return found
        known = {recipe.label: recipe for recipe in recipes}
        for label in labels:
            if label not in known:
                self._leave_out(f"{name}:{label}", f"there is no such recipe for {facts.path.name}")
        return [known[label] for label in labels if label in known]

    def _leave_out(self, name: str, why: str) -> None:
        note = Untried(name=name, why=why)
        if note not in self.untried:
            self.untried.append(note)


def read_words(words: Sequence[str], registry: Registry[Pass]) -> dict[str, list[str]] | None:
    """``["ort-static:percentile,onnx-fp16"]`` → pass → labels; None where none was named. Raises `Unavailable`.

    A comma parts two passes where the name of one follows: labels have commas of their own.
    """
    if not words:
        return None
    names = "|".join(map(re.escape, registry.names()))
    found: dict[str, list[str]] = {}
    for word in [part for each in words for part in re.split(rf",\s*(?=(?:{names})(?:[:,]|\s*$))", each)]:
        name, _, label = word.strip().partition(":")
        registry.location(name)  # complains of a name that there is not
        found.setdefault(name, []).extend([label.strip()] if label.strip() else [])
    return found


def facts_of(path: Path, *, shapes: dict[str, tuple[int, ...]] | None = None) -> Facts:
    """What passes may know of the model at `path`. Raises `BadModel`, `BadInput`."""
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
        runtimes=installed_runtimes(model.ref.format),
        cores=count_cores(),
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


def installed_runtimes(form: str) -> tuple[str, ...]:
    """Engines that are installed and read the format, those of a sweep only."""
    return tuple(name for name, one in runtimes() if _reads(one, form) and availability_of(one))


def find_readers(form: str, names: Sequence[str]) -> list[str]:
    """Engines of `names` that read the format, its own first."""
    registry = runtimes()
    readers = [name for name in names if form in registry.get(name).formats]
    return sorted(readers, key=lambda name: name != NATIVE.get(form))


def _reads(one: Runtime, form: str) -> bool:
    return one.in_default and form in one.formats
