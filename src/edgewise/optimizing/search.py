"""The search: make variants, look at them, judge them on data, race them, and choose. It measures; it never assumes.

Cheap checks come first: size and loading, outputs on a few samples, a slice of the data, all of it, and then latency,
interleaved with the original's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.evaluating.agreement import WORST
from edgewise.optimizing.accuracy import Examiner
from edgewise.optimizing.base import passes
from edgewise.optimizing.choice import limit_of
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.finals import Finals
from edgewise.optimizing.forecast import Forecast
from edgewise.optimizing.gauntlet import Gauntlet, job_of
from edgewise.optimizing.making import Makery, Order, Piece
from edgewise.optimizing.planning import Attempt, Menu, facts_of, find_readers, read_words
from edgewise.optimizing.sensitivity import layers_of, measure_sensitivity
from edgewise.optimizing.state import Entry, State, Witness
from edgewise.optimizing.variant import ORIGINAL, Candidate
from edgewise.record import Job, ModelRef, Run, RuntimeSpec

RACE_SHARE = 0.4
"""Of the time budget that is kept for races."""
SENSITIVITY_SHARE = 0.5
"""Of the time left before the races that trying layers one by one may take."""
ONE_SHARE, LEAST_S = 0.6, 20.0
"""Of the time left before the races, the share that one pass may take while others wait, and its least time, s."""
_BASIC = ("simplification", "conversion")
"""What other passes start from."""
LOSSY = ("quantisation", "compression", "pruning", "distillation")
TRAINED = ("pruning", "distillation")
"""What these leave in float can be quantised afterwards."""


class Search:
    """One commission, carried out.

    Attributes:
        state: what was found; complete after `run`.
        finals: the races and the choice.
        menu: which passes there were, and why others were not tried.

    Args:
        original: the job of the original; a module was made a file first.
        engines: that may be used, the original's first.
        given: further files of the network.
    """

    def __init__(
        self,
        commission: Commission,
        *,
        original: Job,
        engines: Sequence[str],
        examiner: Examiner,
        makery: Makery,
        save: Callable[[Run], None],
        witness: Witness,
        begin: float,
        given: Sequence[ModelRef] = (),
    ) -> None:
        self._commission = commission
        self._witness = witness
        self._engines = tuple(engines)
        self._begin = begin
        self._original = original
        self._given = tuple(given)
        self._roots = [ORIGINAL]
        self._examiner = examiner
        self._makery = makery
        self.state = State(shapes=commission.shapes)
        registry = passes()
        self.menu = Menu(
            words=read_words(commission.passes, registry),
            rank=commission.rank,
            calibrates=bool(makery.calibration),
            labels=bool(makery.calibration) and commission.task is not None,
            registry=registry,
        )
        self._gauntlet = Gauntlet(commission, examiner, self.state, witness)
        self._forecast = Forecast(commission, self.state, witness)
        self._save = save
        self.finals: Finals | None = None

    def run(self) -> bool:
        """Everything; whether Ctrl-C ended it, which keeps what was found until then.

        Raises:
            RunFailed: the original itself does not run.
            BadInput: data and model don't fit.
        """
        shapes = dict(self._commission.shapes)
        own, *others = (facts_of(Path(one.path), shapes=shapes) for one in (self._original.model, *self._given))
        self.menu.refuse_unknown([own, replace(own, format=self._commission.format), *others])
        self._witness.stage("The original")
        self._gauntlet.admit_original(self._original)
        self.finals = Finals(
            self._commission,
            self.state,
            headline=self._examiner.headline,
            save=self._save,
            witness=self._witness,
            end_by=self._begin + self._commission.budget_s,
        )
        self._examiner.end_by = self._begin + (1.0 - RACE_SHARE) * self._commission.budget_s
        try:
            self._plan_and_make()
            self._spare_layers()
            self._examiner.end_by = self._begin + self._commission.budget_s
            self.finals.race()
            self.finals.tune(self.menu, self._gauntlet)
            self.finals.measure_original()
        except KeyboardInterrupt:
            self.state.stopped = "interrupted"
            self._say_left("interrupted before its race")
            return True
        self._say_left("not raced: others came first")
        return False

    def _say_left(self, why: str) -> None:
        """Everybody that nothing was decided of says why."""
        for entry in self.state.others:
            if not entry.candidate.why:
                entry.drop(why)

    def _left(self) -> float:
        """Seconds before the races."""
        return self._begin + (1.0 - RACE_SHARE) * self._commission.budget_s - time.monotonic()

    def _plan_and_make(self) -> None:
        """All variants but those that layers' sensitivity leads to, each as far as its accuracy on all of the data."""
        self._try_engines()
        self._try_given()
        for root in self._roots:
            self._make_all(self._choose(root, _BASIC))
        self._convert_module()
        # What changes outputs by rounding only is promised nothing: it comes after what is promised more.
        attempts = [attempt for root in self._roots for attempt in self._choose(root, ("fusion",))]
        for parent in self._find_bases():
            attempts += self._choose(parent, LOSSY)
        self._make_by_rank([*attempts, *self._module_attempts(LOSSY)])
        for entry in [one for one in self.state.others if one.alive and _is_trained(one)]:
            name = entry.candidate.id
            further = self._choose(name, ("quantisation",))
            self._make_all([attempt for attempt in further if attempt.recipe.rank == 0])

    def _choose(self, parent: str, kinds: Sequence[str]) -> list[Attempt]:
        """What is to be tried on the file of a variant."""
        return self.menu.choose(self.state.facts_of(parent), kinds=kinds, parent=parent, engines=self._engines)

    def _convert_module(self) -> None:
        """A module in the other formats that engines read; it is a file in one of them already."""
        own = self._original.model.format
        others = [one for one in self._module_attempts(("conversion",)) if one.one.capabilities.writes != own]
        self._make_all([attempt for attempt in others if attempt.recipe.rank == 0])

    def _module_attempts(self, kinds: Sequence[str]) -> list[Attempt]:
        """Passes on the module itself; none where the model is a file."""
        if not self._commission.is_module:
            return []
        facts = replace(self.state.facts_of(ORIGINAL), format=self._commission.format)
        return self.menu.choose(facts, kinds=kinds, parent=ORIGINAL, engines=self._engines)

    def _make_by_rank(self, attempts: Sequence[Attempt]) -> None:
        """The usual recipes first; others where a pass lost too much with these, or where everything is wanted."""
        self._make_all(
            self._forecast.predict([attempt for attempt in attempts if attempt.recipe.rank == 0], left=self._left())
        )
        self._forecast.predict_lacking(self.menu.lacking, own=self._original.runtime.name, left=self._left())
        saved = {one.attempt.one.name for one in self.state.others if one.alive and one.attempt is not None}
        usual = {attempt.one.name for attempt in attempts if attempt.recipe.rank == 0}
        lossy = {one.attempt.one.name for one in self.state.others if one.attempt is not None and _lost(one)}
        more = [
            attempt
            for attempt in attempts
            if attempt.recipe.rank > 0
            and (self._commission.rank > 1 or (attempt.one.name in lossy and attempt.one.name not in saved)
                 or self.menu.is_named(attempt, whole=attempt.one.name not in usual))
        ]  # fmt: skip
        self._make_all(self._forecast.predict(more, left=self._left()))

    def _try_engines(self) -> None:
        """The original in every other engine that may be used; not where the user asked for certain passes."""
        if self._commission.passes:
            return
        facts = self.state.facts_of(ORIGINAL)
        for name in self._engines:
            if name == self._original.runtime.name or name not in facts.runtimes:
                continue
            candidate = Candidate(
                id=f"{ORIGINAL} @ {name}",
                parent=ORIGINAL,
                model=self._original.model,
                runtime=RuntimeSpec(name=name),
            )
            entry = self.state.entries[candidate.id] = Entry(candidate=candidate)
            self._gauntlet.examine(entry, self._original.model)

    def _try_given(self) -> None:
        """The user's further files, in every engine that reads them; in the first only, where passes are named."""
        for model in self._given:
            engines = find_readers(model.format, self._engines)
            # Two files may have one name, in folders of their own.
            name = model.name if f"{model.name} @ {engines[0]}" not in self.state.entries else model.path
            for engine in engines[:1] if self._commission.passes else engines:
                candidate = Candidate(
                    id=f"{name} @ {engine}", parent=ORIGINAL, model=model, runtime=RuntimeSpec(name=engine)
                )
                entry = self.state.entries[candidate.id] = Entry(candidate=candidate)
                self._gauntlet.examine(entry, model)
            self._roots.append(f"{name} @ {engines[0]}")

    def _find_bases(self) -> list[str]:
        """Variants that lossy passes start from: what was given, and one per format that can be made of it.

        Simplified where that changed anything.
        """
        found = {root: root for root in self._roots if root == ORIGINAL or self.state.entries[root].alive}
        formats = {self.state.facts_of(root).format for root in found}
        for entry in self.state.others:
            attempt, name = entry.attempt, entry.candidate.id
            if attempt is None or entry.candidate.model is None or not entry.alive or attempt.parent not in found:
                continue
            kind, form = attempt.one.capabilities.kind, entry.candidate.model.format
            if kind == "conversion" and form not in formats:
                found[name] = name
                formats.add(form)
            if kind == "simplification" and found[attempt.parent] == attempt.parent:
                found[attempt.parent] = name
        return list(found.values())

    def _make_all(self, attempts: Sequence[Attempt]) -> None:
        """Variants of `attempts`, as far as the time allows."""
        if attempts:
            self._witness.stage("Variants: " + ", ".join(dict.fromkeys(attempt.one.name for attempt in attempts)))
        for place, attempt in enumerate(attempts):
            if self._left() <= 0:
                for engine in attempt.engines:
                    self.state.add(attempt, engine, why="not tried: the time budget left no room")
                self.state.stopped = "the time budget"
                continue
            order = self._order(attempt)
            left = self._left()
            most = left if place == len(attempts) - 1 else min(left, max(LEAST_S, ONE_SHARE * left))
            for piece in self._makery.make([order], seconds=max(5.0, most)):
                self._take(attempt, order, piece)

    def _order(self, attempt: Attempt, keep_float: tuple[str, ...] = ()) -> Order:
        parent = self.state.entries[attempt.parent].candidate
        assert parent.model is not None
        module = self._commission.is_module and attempt.parent == ORIGINAL and self._reads_module(attempt)
        return Order(
            attempt=attempt,
            source=self._commission.model if module else parent.model.path,
            format=self._commission.format if module else parent.model.format,
            digest=parent.model.sha256,
            root=self.state.root_of(attempt.parent).sha256,
            keep_float=(*self._layers_to_keep(attempt.parent), *keep_float),
        )

    def _layers_to_keep(self, parent: str) -> tuple[str, ...]:
        """The layers that the user named; where several files were given, those that are in this one."""
        if not self._given:
            return self._commission.keep_float
        root = self.state.root_of(parent)
        name = next(name for name, entry in self.state.entries.items() if entry.candidate.model == root)
        known = {operator.name for operator in self.state.facts_of(name).graph.operators}
        return tuple(layer for layer in self._commission.keep_float if layer in known)

    def _reads_module(self, attempt: Attempt) -> bool:
        return self._commission.format in attempt.one.capabilities.reads

    def _take(self, attempt: Attempt, order: Order, piece: Piece, *, suffix: str = "") -> list[Entry]:
        """Entries of a piece, one per engine, examined; none where the pass left everything as it is."""
        taken: list[Entry] = []
        if piece.unchanged:
            self.state.notes.append(f"{attempt.name}: {piece.why}")
            return taken
        for engine in attempt.engines:
            entry = self.state.add(attempt, engine, suffix=suffix, piece=piece)
            entry.order = order
            taken.append(entry)
            twin = self._find_twin(entry)
            if piece.model is None or twin:
                entry.drop(piece.why if piece.model is None else f"the same file as {twin}")
                self._witness.examined(entry.candidate)
            else:
                self._gauntlet.examine(entry, piece.model)
        return taken

    def _find_twin(self, entry: Entry) -> str:
        """A variant with the very same file in the same engine; "" where there is none."""
        own = entry.candidate
        for other in self.state.entries.values():
            model = other.candidate.model
            if other is entry or model is None or own.model is None:
                continue
            if model.sha256 == own.model.sha256 and other.candidate.runtime.name == own.runtime.name:
                return other.candidate.id
        return ""

    def _spare_layers(self) -> None:
        """Mixed precision: the fragile layers of a quantised variant that lost too much stay in float."""
        entry = self._find_losing()
        room = self._left()
        if entry is None or room <= 0:
            return
        assert entry.order is not None and entry.attempt is not None and entry.job is not None
        self._witness.stage(f"Layers, one at a time: {entry.attempt.name}")
        facts, job, order = self.state.facts_of(entry.attempt.parent), entry.job, entry.order
        begin = time.monotonic()

        def run_piece(piece: Piece) -> Job:
            return job_of(piece.model or job.model, job.runtime, self._commission)

        found = measure_sensitivity(
            order,
            [one for one in layers_of(facts.graph) if one.name not in order.keep_float],
            makery=self._makery,
            examiner=self._examiner,
            job_of=run_piece,
            end_by=begin + SENSITIVITY_SHARE * room,
            told=self._witness.layer,
        )
        self.state.sensitivities = found
        # Only in the engine in question; the others follow with the next search, if they are wanted.
        attempt = replace(entry.attempt, engines=(job.runtime.name,))
        for count in _counts(len(found.fragile), len(found.layers)):
            if self._left() <= 0:
                break
            spared = tuple(one.layer for one in found.layers[:count])
            mixed = replace(order, keep_float=(*order.keep_float, *spared))
            taken: list[Entry] = []
            for piece in self._makery.make([mixed], seconds=max(5.0, self._left())):
                taken += self._take(attempt, mixed, piece, suffix=f" sparing {count}")
            if any(one.alive for one in taken):
                break

    def _find_losing(self) -> Entry | None:
        """The quantised variant that lost the least, of those that lost too much, unless one that may win did not."""
        if self._commission.sensitivity == "off":
            return None
        quantized = [one for one in self.state.others if _can_spare(one)]
        if self._commission.sensitivity == "auto":
            bound = next((one for one in self._commission.bounds if one.metric in ("accuracy_drop", WORST)), None)
            limit = None if bound is None else limit_of(bound, self.state.original.candidate.metrics)
            if limit is None or any(one.alive and _is_promising(one) for one in quantized):
                return None
            quantized = [one for one in quantized if not one.alive]
        return min(quantized, key=lambda one: (not _is_promising(one), _loss(one)), default=None)


def _is_trained(entry: Entry) -> bool:
    return entry.attempt is not None and entry.attempt.one.capabilities.kind in TRAINED


def _can_spare(entry: Entry) -> bool:
    """Whether it is quantised or pruned by a pass that can leave layers alone, and runs."""
    if entry.attempt is None or entry.order is None or entry.job is None:
        return False
    capabilities = entry.attempt.one.capabilities
    return capabilities.kind in ("quantisation", "pruning") and capabilities.keeps_float and not capabilities.trains


def _is_promising(entry: Entry) -> bool:
    """Whether a quantised variant may be the fast one: ranges are known, or the pre-flight says that it wins.

    Where activations are quantised as they come, most of it is often lost again.
    """
    told = entry.candidate.predicted
    if told is not None and told.speedup is not None:
        return told.speedup > 1.0
    return entry.attempt is not None and entry.attempt.one.capabilities.calibrates


def _lost(entry: Entry) -> bool:
    """Whether its answers were what spoke against it."""
    return entry.fallen and entry.candidate.stage in ("loaded", "sliced", "judged")


def _loss(entry: Entry) -> float:
    """What it lost in accuracy; without data, in agreement. What is not known counts as the most."""
    drop = entry.candidate.metrics.get("accuracy_drop")
    if drop is not None and drop.value is not None:
        return drop.value
    snr = entry.candidate.metrics.get(WORST, entry.candidate.metrics.get("output_snr"))
    return 1e3 - snr.value if snr is not None and snr.value is not None else 1e6


def _counts(fragile: int, layers: int) -> Iterator[int]:
    """How many layers to spare, in the order of trying: those that stand out, then twice as many, up to half."""
    most = max(1, layers // 2)
    count = min(max(1, fragile), most)
    while count <= most:
        yield count
        count *= 2
