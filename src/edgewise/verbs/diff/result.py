"""What a difference by layer gives."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from edgewise.formatting import ABSENT, percent
from edgewise.model.graph import Graph
from edgewise.profiling.layers import layers_without_times
from edgewise.record.run import Basis
from edgewise.report.document import Cell, Column, Document, Provenance, Section, Table, Tone, absent
from edgewise.report.document.names import keep_end
from edgewise.report.graph import Graph as Drawing
from edgewise.report.graph import Metric, Overlay, make_model_graph
from edgewise.shown import Shown
from edgewise.stats.differences import HALF_DB
from edgewise.text import listing, one_line
from edgewise.units import format_bytes, format_si, significant
from edgewise.verbs.diff.matching import INPUT
from edgewise.verbs.diff.structure import (
    LoneOperator,
    branches_of,
    describe_branch,
    is_of_scales,
    is_of_values,
    is_of_weights,
    say_weights,
)
from edgewise.verbs.diff.tensor_worker import NOT_FINITE

SCHEMA = 1
CLEAN_DB = 60.0
"""Values that agree better than this count as the same: their difference is a thousandth of their size."""
EXACT_DB = 120.0
"""The same between engines of one arithmetic: one value of a million that is off by one makes the ratio worse."""
ROUNDED_DB = 40.0
"""The same where one side has 8 bits: what rounding alone leaves of a layer's values."""
STEP_DB = HALF_DB
"""A layer that loses less adds no more error than comes in."""
LEAST_LOSS_DB = 0.05
"""A layer that loses less reads as 0.0."""
MOST_STEPS = 5
MOST_LONE = 3
_SIDES = ((True, "added"), (False, "removed"))
DRAWN = {
    "loss": (Metric(title="Loss", unit="dB", sums="max"), "loss_db"),
    "own": (Metric(title="Own loss", unit="dB", sums="max"), "own_loss_db"),
    "snr": (Metric(title="SNR", unit="dB", sums="min"), "snr_db"),
    "largest": (Metric(title="Largest difference", unit="", sums="max"), "largest"),
}
"""What the graph's layers are coloured by, and where `LayerGap` has it."""
MEANINGS = {
    "SNR (dB)": "squares of the right values over those of the differences, over all samples",
    "Loss (dB)": "how much lower that is than the least of the layers that the values come from",
    "Own loss (dB)": "the same of this layer alone, cut out of the other model and given the right inputs",
    "Cosine": "of the angle between the values of both",
    "Largest difference": "of any two values",
    "Saturated (%)": "share of the other model's integers that are at an end of their type and stand for no 0",
    "Zeros (%)": "share of the other model's values that are 0",
}
NOT_ALONE = "only the few layers that lose most are run alone"
NO_TWIN = "no tensor of it was compared"
NO_TIMES = "'edgewise profile MODEL' times the layers"
MOST_NAME = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGap:
    """One layer of both models.

    Attributes:
        operator: of the reference's graph; "" of an input.
        other: name of the other model's layer.
        tensors: the names of the tensors that were compared.
        snr_db: signal-to-noise ratio of the other model's values; None where they can't be compared, infinite where
            they are the same.
        before_db: the least of the layers that it takes its values from; None where it takes none that were compared.
        loss_db: how much it is worse than what comes in, each counted as `CLEAN_DB` (`ROUNDED_DB`) at most.
        own_loss_db: the same of the layer alone, given the right inputs; None where that was not tried or can't be.
        cosine: of the angle between both.
        largest: of the differences.
        zeros, saturated: shares of the other model's values; None for real numbers.
        is_added: only the other model has it; its values are held against those that it takes in the reference.
        why: it can't be compared.
    """

    name: str
    op: str
    other: str
    operator: str = ""
    tensors: tuple[str, str] = ("", "")
    snr_db: float | None = None
    before_db: float | None = None
    loss_db: float | None = None
    own_loss_db: float | None = None
    cosine: float | None = None
    largest: float | None = None
    zeros: float | None = None
    saturated: float | None = None
    is_added: bool = False
    why: str = ""

    @property
    def title(self) -> str:
        """Its name and type."""
        return f"{_short(self.name)} ({one_line(self.op)})"

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped; an infinite ratio is null with ``exact``."""
        told = asdict(self)
        exact = self.snr_db == math.inf
        for name in ("snr_db", "before_db"):
            told[name] = None if told[name] == math.inf else told[name]
        return {**told, "exact": exact}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiffResult(Shown):
    """The layers in the order of execution.

    Attributes:
        models: ``name``, ``format``, ``sha256``, ``engine``, ``size_bytes``, ``precision``, ``macs`` and ``parameters``
            of the reference and of the other model; None where one is not known, MACs with ``macs_absent_because``.
        samples: how many both were given, and which, in words.
        outputs: of the graph: name → signal-to-noise ratio, dB.
        unmatched: products with weights of the reference that have no twin.
        structure: what only one of them has, in words.
        lone: operators that were added or removed.
        weighted: operators with weights that both have.
        reweighted: those of them with weights of other values or shapes.
        retyped: those with weights of another type alone, in words: ``float32 → int8``, and their number.
        graph: of the reference, which pages draw; None where it has too many operators.
        typed: how a command names both files; empty where that is their names.
        basis: ``simulated`` where an emulator executed one of them.
    """

    models: tuple[Mapping[str, Any], Mapping[str, Any]]
    samples: int
    fed: str
    layers: Sequence[LayerGap]
    outputs: Mapping[str, float]
    unmatched: Sequence[str] = ()
    structure: Sequence[str] = ()
    lone: Sequence[LoneOperator] = ()
    weighted: int = 0
    reweighted: int = 0
    retyped: Mapping[str, int] = field(default_factory=dict)
    top: int = 15
    graph: Graph | None = None
    typed: Sequence[str] = ()
    basis: Basis = "measured"

    @property
    def begins(self) -> LayerGap | None:
        """The first layer with NaN or infinity, else the one that adds the most error; None where none stands out."""
        broken = next((layer for layer in self.layers if layer.why == NOT_FINITE), None)
        return broken or next(iter(self.steps), None)

    @property
    def steps(self) -> list[LayerGap]:
        """The layers that add a noticeable error, the worst first; not those that only make an error larger.

        Of another network there is none: its layers compute other values by intention.
        """
        if self._is_another:
            return []
        found = [
            layer for layer in self.layers
            if (layer.loss_db or 0.0) >= STEP_DB and (layer.own_loss_db is None or layer.own_loss_db >= STEP_DB)
        ]  # fmt: skip
        return sorted(found, key=lambda layer: -(layer.loss_db or 0.0))

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        return {
            "schema": SCHEMA,
            "models": [dict(model) for model in self.models],
            "basis": self.basis,
            "samples": self.samples,
            "inputs": self.fed,
            "begins": None if self.begins is None else self.begins.name,
            "layers": [layer.to_document() for layer in self.layers],
            "outputs": {name: None if value == math.inf else value for name, value in self.outputs.items()},
            "unmatched": list(self.unmatched),
            "structure": list(self.structure),
            "lone": [asdict(each) for each in self.lone],
        }

    def describe(self) -> Document:
        """Whether it is the same network, what changed in size, where the error begins, and the layers."""
        one, two = map(one_line, self._names)
        engines = [f"{name}: {model['engine']}" for name, model in zip((one, two), self.models, strict=True)]
        sections = [Section(title="Compared", lines=(self.fed, *engines))]
        if self.unmatched:
            names = listing([one_line(name) for name in self.unmatched[:MOST_STEPS]])
            more = f" and {len(self.unmatched) - MOST_STEPS} more" if len(self.unmatched) > MOST_STEPS else ""
            sections.append(Section(title="Layers without a twin", lines=(f"{names}{more}",)))
        if self.structure:
            sections.append(Section(title="Structure", lines=tuple(self.structure)))
        return Document(
            title=f"{two} against {one}",
            answer=tuple(self._answer(two)),
            tables=() if self._is_another else (self._table(),),
            sections=tuple(sections),
            graph=None if self.graph is None or self._is_another else partial(draw_gaps, self.graph, self.layers),
        )

    @property
    def _names(self) -> list[str]:
        return [str(model["name"]) for model in self.models]

    def _answer(self, name: str) -> list[str]:
        first, *rest = self._error_lines(name)
        head = (self._network_line(name), change_line(*self.models), first)
        return [*filter(None, head), *self._lone_lines(), *rest]

    @property
    def _is_another(self) -> bool:
        return self.reweighted > max(1, self.weighted / 2)

    def _network_line(self, name: str) -> str:
        """Whether both are the same network: one file, the same weights, weights of another type, or others."""
        if self.models[0]["sha256"] == self.models[1]["sha256"] or not self.weighted:
            return ""
        parts = say_weights(self.weighted, self.reweighted, self.retyped)
        if self._is_another:
            is_alike = all(is_of_values(line) or is_of_scales(line) for line in self.structure)
            return f"{name} {'has the same structure and' if is_alike else 'is another network:'} {listing(parts)}"
        scaled = [line for line in self.structure if is_of_scales(line)]
        parts += ["other scales of values"] if scaled else []
        if not all(is_of_weights(line) or line in scaled for line in self.structure):
            return f"{name} is a changed network: {listing([*parts, 'other operators or options'])} (see Structure)"
        if parts:
            return f"{name} is the same network with {listing(parts)}"
        known = "as far as its weights can be read (see Structure)" if self.structure else "with the same weights"
        return f"{name} is the same network {known}"

    def _lone_lines(self) -> list[str]:
        """Which operators were added or removed, where, and what an added one does to the values; many as a number."""
        branches = branches_of(self.lone)
        if len(branches) > MOST_LONE:
            counts = [(sum(each.is_added is side for each in self.lone), word) for side, word in _SIDES]
            said = [f"{number} {'was' if number == 1 else 'were'} {word}" for number, word in counts if number]
            return [f"Of the operators, {listing(said)}: see Structure"]
        added = {layer.name: layer for layer in self.layers if layer.is_added}
        lines = []
        for branch in branches:
            if len(branch) > 1:
                lines.append(describe_branch(branch))
                continue
            (each,) = branch
            layer, effect = added.get(each.title) if each.is_added else None, ""
            if layer is not None and layer.snr_db == layer.before_db == math.inf:
                effect = "; with these inputs it changes no value"
            elif layer is not None and layer.snr_db is not None and layer.before_db is not None:
                effect = f"; {_decibels(layer.before_db)} before it, {_decibels(layer.snr_db)} behind it"
            lines.append(f"{each.describe()}{effect}")
        return lines

    def _error_lines(self, name: str) -> list[str]:
        ends = ", ".join(f"{one_line(output)} {_decibels(value)}" for output, value in self.outputs.items())
        told = [f"Outputs: {ends} (signal to noise)"] if ends else []
        first = self.begins
        if self._is_another and first is None:
            command = shlex.join(["edgewise", "evaluate", *(self.typed or self._names), "--data", "DATA"])
            return [f"The outputs of its layers can't be compared; how good both are: {one_line(command)}", *told]
        if first is None:
            return [f"{self._none_stands_out(name)}: {self._none_lines()}", *told]
        if first.why:
            return [f"Values are NaN or infinite from {first.title} on", *told]
        coming = "nothing known before it" if first.before_db is None else f"{_decibels(first.before_db)} before it"
        is_fed = any(first.other == each.after and each.is_added for each in self.lone)
        where = f"with what was added before {first.title}" if is_fed else f"in {first.title}"
        words = f"{where}: {coming}, {_decibels(first.snr_db)} behind it"
        lines = [f"The error of {name} begins {words}", *told]
        if others := self.steps[1:MOST_STEPS]:
            said = listing([f"{_short(layer.name)} (−{significant(layer.loss_db or 0.0, 2)} dB)" for layer in others])
            lines.append(f"Next: {said}")
        return lines

    def _none_stands_out(self, name: str) -> str:
        """Return that no layer stands out; of one file in two engines also whether these agree."""
        one, two = self.models
        if one["sha256"] != two["sha256"] or one["engine"] == two["engine"]:
            return f"No layer of {name} stands out"
        if all(layer.snr_db is None or layer.snr_db >= CLEAN_DB for layer in self.layers):
            return f"{two['engine']} agrees with {one['engine']} on {name}"
        return f"No layer of {name} in {two['engine']} stands out against {one['engine']}"

    def _none_lines(self) -> str:
        """Why no layer stands out: what one loses at most, behind the others and by itself, and the lowest SNR."""
        passing = any((layer.loss_db or 0.0) >= STEP_DB for layer in self.layers)
        words = [f"none loses {STEP_DB:g} dB" + (" by itself, given the right inputs" if passing else "")]
        alone = max(self.layers, key=lambda layer: layer.own_loss_db or 0.0, default=None)
        if alone is not None and (alone.own_loss_db or 0.0) >= STEP_DB:
            lost = significant(alone.own_loss_db or 0.0, 2)
            words = [
                f"none makes the error {STEP_DB:g} dB larger",
                f"by itself {_short(alone.name)} loses {lost} dB, but the layers before it have lost as much",
            ]
        known = [layer for layer in self.layers if layer.snr_db is not None]
        worst = min(known, key=lambda layer: layer.snr_db or 0.0, default=None)
        if worst is not None:
            where = "" if worst.snr_db == math.inf else f" in {_short(worst.name)}"
            words.append(f"the lowest signal to noise is {_decibels(worst.snr_db)}{where}")
        return "; ".join(words)

    def _numbers(self, title: str, **settings: Any) -> Column:
        return Column(title=title, numeric=True, how=partial(_how, title, self), **settings)

    def _table(self) -> Table:
        which, shown = self._shown()
        columns = (
            Column(title="Layer", name=True, ends=True),
            Column(title="Op", rank=4),
            self._numbers("SNR (dB)"),
            self._numbers("Loss (dB)"),
            self._numbers("Own loss (dB)", rank=1, hidden=all(each.own_loss_db is None for each in shown)),
            self._numbers("Cosine", rank=3),
            self._numbers("Largest difference", rank=1),
            self._numbers("Saturated (%)", rank=2, hidden=all(each.saturated is None for each in shown)),
            self._numbers("Zeros (%)", rank=5),
            Column(title="Twin", name=True, ends=True, rank=6),
        )
        lacking = [layer.why for layer in self.layers if not _is_told(layer)]
        notes = [f"{len(lacking)} not compared: {'; '.join(dict.fromkeys(lacking))}"] if lacking else []
        adding: dict[int, Tone] = dict.fromkeys(map(id, self.steps), "poor")
        adding[id(self.begins)] = "bad"
        rows = tuple(_row(layer, adding.get(id(layer), "plain")) for layer in shown)
        return Table(title=f"{which}, in order of execution", columns=columns, rows=rows, notes=tuple(notes))

    def _shown(self) -> tuple[str, list[LayerGap]]:
        """Return what the table shows, in words, and its layers: of many those that lose, at most `top`, the added
        ones, and the one in which the error begins.
        """
        count = sum(layer.op != INPUT for layer in self.layers)
        if not self.top or count <= self.top:
            return "Layers", [layer for layer in self.layers if _is_told(layer)]
        losing = sorted(
            (layer for layer in self.layers if (layer.loss_db or 0.0) >= LEAST_LOSS_DB),
            key=lambda layer: -(layer.loss_db or 0.0),
        )
        kept = {id(layer) for layer in losing[: self.top]} | {id(self.begins)}
        shown = [layer for layer in self.layers if _is_told(layer) and (id(layer) in kept or layer.is_added)]
        if not shown:
            known = [layer for layer in self.layers if layer.snr_db is not None] or self.layers
            return f"None of {count} layers loses; the least alike", [min(known, key=lambda layer: layer.snr_db or 0.0)]
        most = " most" if len(losing) > self.top else ""
        which = f"The {min(len(losing), self.top)} of {count} layers that lose{most}"
        if len(losing) < 2:
            which = f"The only one of {count} layers that loses" if losing else f"None of {count} layers loses"
        return f"{which}{', and what was added' if any(layer.is_added for layer in shown) else ''}", shown


def names_of(names: Sequence[str]) -> list[str]:
    """Return what two models are called in a sentence: by their names, where these differ."""
    return list(names) if names[0] != names[1] else ["the reference", "the other"]


def change_line(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """``"File 329 KiB → 96.2 KiB (−71 %), MACs 12.5 M (unchanged), precision float32 → int8"``: what is known of both;
    "" of one file.
    """
    if before["sha256"] == after["sha256"]:
        return ""
    shown: dict[str, tuple[str, Callable[[Any], str]]] = {
        "File": ("size_bytes", format_bytes),
        "MACs": ("macs", _count),
        "parameters": ("parameters", _count),
        "precision": ("precision", one_line),
    }
    parts = []
    for name, (key, write) in shown.items():
        one, two = before.get(key), after.get(key)
        if one is None and two is None:
            continue
        words = [ABSENT if each is None else write(each) for each in (one, two)]
        if one == two:
            parts.append(f"{name} {words[0]} (unchanged)")
            continue
        change = "" if not one or two is None or key == "precision" else f" ({_signed_percent(two / one - 1.0)})"
        parts.append(f"{name} {words[0]} → {words[1]}{change}")
    return ", ".join(parts)


def _count(number: float) -> str:
    return format_si(number, "").strip()


def _signed_percent(change: float) -> str:
    return f"{'+' if change > 0 else '−'}{percent(abs(change))}"


def _is_told(layer: LayerGap) -> bool:
    """Whether a row of the table has something to say of a layer: values that were compared, or NaN and infinity."""
    return layer.snr_db is not None or layer.why == NOT_FINITE


def _how(title: str, result: DiffResult) -> Provenance:
    """How the numbers of a column are known."""
    one, two = (f"{model['name']}, {model['engine']}" for model in result.models)
    facts = {
        "Value": MEANINGS[title], "Interval": "none: it is exact for these inputs, and says nothing about others",
        "Basis": result.basis, "Reference": one, "Other model": two, "Inputs": result.fed,
    }  # fmt: skip
    return Provenance(title=title, facts=list(facts.items()))


def draw_gaps(graph: Graph, layers: Sequence[LayerGap]) -> Drawing:
    """Return the reference's graph, its operators coloured by what they lose."""
    found = {layer.operator: layer for layer in layers if layer.operator}
    why = {name: "the values are the same" for name, layer in found.items() if layer.snr_db == math.inf}
    why |= {name: layer.why for name, layer in found.items() if layer.why}
    overlays = {}
    for key, (metric, of_layer) in DRAWN.items():
        values = {name: getattr(layer, of_layer) for name, layer in found.items()}
        known = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        absent_because = NOT_ALONE if key == "own" else NO_TWIN
        overlays[key] = Overlay(metric=metric, values=known, why=why, absent_because=absent_because)
    return make_model_graph(layers_without_times(graph, because=NO_TIMES), overlays=overlays)


def _short(name: str) -> str:
    return keep_end(one_line(name), MOST_NAME)


def _row(layer: LayerGap, tone: Tone) -> tuple[Cell, ...]:
    title = f"{layer.name} (added)" if layer.is_added else layer.name
    name, op, twin = (Cell(text=one_line(text)) for text in (title, layer.op, layer.other))
    name = replace(name, tone=tone)
    if layer.snr_db is None:
        nothing = absent(layer.why)
        return name, op, nothing, nothing, nothing, nothing, nothing, nothing, nothing, twin
    snr = None if layer.snr_db == math.inf else layer.snr_db
    return (
        name,
        op,
        Cell(text="exact" if snr is None else f"{snr:.1f}", value=snr),
        replace(_number(layer.loss_db, ".1f"), tone=tone),
        _number(layer.own_loss_db, ".1f"),
        _number(layer.cosine, ".4f"),
        Cell(text=significant(layer.largest or 0.0), value=layer.largest),
        _share(layer.saturated),
        _share(layer.zeros),
        twin,
    )


def _number(value: float | None, form: str) -> Cell:
    return Cell(text="–") if value is None else Cell(text=format(value, form), value=value)


def _share(value: float | None) -> Cell:
    return Cell(text="–") if value is None else Cell(text=f"{100 * value:.2f}", value=100 * value)


def _decibels(value: float | None) -> str:
    return "n/a" if value is None else "exact" if value == math.inf else f"{value:.1f} dB"
