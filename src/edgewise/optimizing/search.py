"""The search: makes variants, checks them, judges them on data, races them, and chooses by measurements.

Quick checks come first: size and loading, outputs on a few samples, a part of the data, all of it, and then latency,
interleaved with the original's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgewise.clock import now
from edgewise.converting.signature_file import name_with
from edgewise.evaluating.agreement import WORST
from edgewise.optimizing.accuracy import AccuracyChecker
from edgewise.optimizing.base import EngineSettings, Facts, PassKind, PassResult, passes
from edgewise.optimizing.candidate_checks import CandidateChecks, job_of
from edgewise.optimizing.choice import limit_of
from edgewise.optimizing.factors import find_engine_step
from edgewise.optimizing.placement import find_placement, profile_both
from edgewise.optimizing.plain_int8 import PASSES
from edgewise.optimizing.planning import (
    PassCatalog,
    PlannedTask,
    Source,
    facts_of,
    find_readers,
    read_words,
)
from edgewise.optimizing.preflight import predict_tasks, predict_with_data
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.selection import Selection, Standings, with_settings
from edgewise.optimizing.sensitivity import SensitivityTest, layers_of
from edgewise.optimizing.variant import (
    EXPORT,
    ORIGINAL,
    Candidate,
    LayerSensitivity,
    Prediction,
    emit_candidate,
    file_words_of,
    root_of,
)
from edgewise.optimizing.variant_cache import VariantCache, applied_pass
from edgewise.progress import StageStarted, emit
from edgewise.record import Job, ModelRef, Run, RuntimeSpec
from edgewise.units import long_time

RACE_SHARE = 0.4
"""Share of the time budget for races."""
SENSITIVITY_SHARE = 0.5
"""Share of the time left before the races for testing layers one by one."""
PLACEMENT_SHARE = 0.4
"""Share of the time left before the races for timing the layers of a float and an int8 file."""
ONE_SHARE, LEAST_S = 0.6, 20.0
"""Share of the time left before the races for one pass while others wait, and its least time, s."""
IN_FLOAT = " slow layers in float"
"""In the name of an int8 file: its layers that are faster in float are float."""
_BASIC: tuple[PassKind, ...] = ("simplification", "conversion")
"""Kinds of passes whose results are inputs of other passes."""
LOSSY: tuple[PassKind, ...] = ("quantisation", "compression", "pruning", "distillation")
TRAINED: tuple[PassKind, ...] = ("pruning", "distillation")
"""Kinds of passes whose results can be quantised afterwards."""
_UNNAMED = frozenset({"onnx-simplify"})
"""Passes that the names of further results omit: such results start from these passes anyway."""


class Search:
    """Carries out a search.

    Args:
        original: the job of the original; of a module, of the module as it is, or else of the file converted from it.
        engines: usable engines, the original's first.
        begin: monotonic time at which the time budget starts, s.
        given: further files of the network; the first is `export` where there is one.
        export: the file converted from a module, where the original is the module as it is.
    """

    def __init__(
        self,
        settings: SearchSettings,
        *,
        original: Job,
        engines: Sequence[str],
        checker: AccuracyChecker,
        cache: VariantCache,
        save: Callable[[Run], None],
        begin: float,
        given: Sequence[ModelRef] = (),
        export: ModelRef | None = None,
    ) -> None:
        self._settings = settings
        self._engines = tuple(engines)
        self._races_at = begin + (1.0 - RACE_SHARE) * settings.budget_s
        self._end_by = begin + settings.budget_s
        self._job = original
        self._given = tuple(given)
        self._export = export
        self._roots = [ORIGINAL]
        self._checker = checker
        self._cache = cache
        self._save = save
        registry = passes()
        self._catalog = PassCatalog(
            words=read_words(settings.passes, registry),
            rank=settings.rank,
            calibrates=bool(cache.calibration),
            labels=bool(cache.calibration) and settings.task is not None,
            registry=registry,
        )
        self._found: dict[str, Candidate] = {}
        self._facts: dict[str, Facts] = {}
        self._predictions: dict[str, Prediction] = {}
        self._with_data: dict[str, Prediction] = {}
        self._sensitivity: tuple[LayerSensitivity, ...] = ()
        self._notes: list[str] = []
        self._begun: set[tuple[str, str]] = set()
        self._stopped = ""

    def run(self) -> Standings:
        """Search. After Ctrl-C, the standings have what was found until then.

        Raises:
            RunFailed: the original does not run.
            BadInput: data and model don't fit.
        """
        own, *others = (self._facts_of(one) for one in (self._job.model, *self._given))
        self._catalog.refuse_unknown([own, replace(own, format=self._settings.format), *others])
        emit(StageStarted(title="The original"))
        self._checks = CandidateChecks(self._settings, self._checker, self._job)
        selection = Selection(
            settings=self._settings, headline=self._checker.headline, save=self._save, end_by=self._end_by
        )
        standings, interrupted = Standings(original=self._checks.original), False
        self._checker.end_by = self._races_at
        try:
            try:
                self._plan_and_make()
                self._spare_layers()
                self._spare_slow_layers()
            finally:
                standings = replace(standings, candidates=self._found)
            self._checker.end_by = self._end_by
            stages = (selection.race, partial(self._tune, selection), selection.measure_original)
            for stage in stages if self._settings.judge is None else (selection.estimate,):
                if self._settings.races and not interrupted:
                    standings = stage(standings)
                    interrupted = standings.interrupted
        except KeyboardInterrupt:
            interrupted = True
        return self._finish(standings, interrupted=interrupted)

    def _finish(self, standings: Standings, *, interrupted: bool) -> Standings:
        """Return the last standings; undecided variants are rejected with a reason."""
        late = "not raced: others came first"
        decided = {
            name: one if one.why else self._interrupted(one) if interrupted else one.reject(late)
            for name, one in standings.candidates.items()
        }
        return replace(
            standings,
            candidates=decided,
            sensitivity=self._sensitivity,
            with_data=self._with_data,
            notes=(*self._checks.notes, *self._notes, *standings.notes, *self._catalog.skipped),
            stopped="interrupted" if interrupted else standings.stopped or self._stopped,
            interrupted=interrupted,
        )

    def _interrupted(self, one: Candidate) -> Candidate:
        """Return an undecided variant of a search that was cancelled."""
        last = "raced" if self._settings.judge is None else "estimated"
        return one.leave(f"not {last if one.stage == 'judged' else 'judged'}: interrupted")

    @property
    def _late(self) -> str:
        """Why a variant is not made that the time before the races has no room for."""
        budget_s, next_ = self._settings.budget_s, "races" if self._settings.judge is None else "estimates"
        return (
            f"not tried: the {1.0 - RACE_SHARE:.0%} of the time budget of {long_time(budget_s)} that are for making "
            f"variants were used up; the rest is for {next_}"
        )

    def _left(self) -> float:
        """Time before the races, s."""
        return self._races_at - now()

    @property
    def _everything(self) -> dict[str, Candidate]:
        """The candidates so far and the original, by id."""
        return {ORIGINAL: self._checks.original, **self._found}

    def _facts_of(self, model: ModelRef) -> Facts:
        """Facts of a file, read once."""
        if model.path not in self._facts:
            settings = self._settings
            self._facts[model.path] = facts_of(Path(model.path), shapes=dict(settings.shapes), target=settings.target)
        return self._facts[model.path]

    def _source(self, name: str, *, module: bool = False) -> Source:
        """Return a variant's file, or with `module` the module of the original, as the input of passes."""
        known = self._everything
        one, root = known[name], root_of(name, known)
        assert one.model is not None
        named = one
        while named.parent is not None and named.passes and named.passes[-1].name in _UNNAMED:
            named = known[named.parent]
        kept = self._settings.keep_float
        if self._given:  # a named layer may be in another given file
            layers = {operator.name for operator in self._facts_of(root).graph.operators}
            kept = tuple(layer for layer in kept if layer in layers)
        return Source(
            variant=name,
            facts=self._facts_of(one.model),
            model=self._settings.model if module else one.model.path,
            format=self._settings.format if module else one.model.format,
            digest=one.model.sha256,
            prefix=""
            if named.id == ORIGINAL or (self._export is not None and named.model == self._export)
            else f"{named.id.partition(' @ ')[0]} + ",
            root=root.sha256,
            keep_float=kept,
        )

    def _plan_and_make(self) -> None:
        """Make and judge all variants except those with spared layers."""
        self._try_int8()
        self._try_engines()
        self._try_unchanged()
        self._try_given()
        self._try_precisions()
        for root in self._roots:
            self._make_all(self._choose(root, _BASIC))
        # The module in further formats; the original is already a file in one format.
        own = (self._export or self._job.model).format
        others = [one for one in self._module_tasks(("conversion",)) if one.capabilities.writes != own]
        self._make_all([task for task in others if task.recipe.rank == 0])
        # Exact passes have no prediction, so they come after passes with a predicted gain.
        tasks = [task for root in self._roots for task in self._choose(root, ("fusion",))]
        for source in self._find_bases():
            tasks += self._choose(source, LOSSY)
        self._make_by_rank([*tasks, *self._module_tasks(LOSSY)])
        for name in [name for name, one in self._found.items() if one.may_race and one.kind in TRAINED]:
            self._make_all([task for task in self._choose(name, ("quantisation",)) if task.recipe.rank == 0])
        self._try_unchanged()

    def _try_int8(self) -> None:
        """Make and judge one int8 file before anything else: whether it pays is what most searches are to find out, and
        a tight budget may leave no room for more.

        It is the same file as without this haste: of the simplified original, where there is a simplified one.
        """
        if not self._catalog.calibrates:
            return
        root = ORIGINAL
        if self._export is not None:
            root = self._try_file(self._export, EXPORT, find_readers(self._export.format, self._engines)[0])
        first = self._everything[root].runtime.name
        simplifying = self._choose(root, ("simplification",))
        self._make_all([replace(task, engines=(first,)) for task in simplifying if first in task.engines], rest=True)
        base = self._find_bases([root])[:1]
        if not base:
            return
        tasks = [task for task in self._choose(base[0], ("quantisation",)) if _is_plain_int8(task)]
        usual = PASSES.get(self._source(base[0]).format, ("",))[0]
        for task in sorted(tasks, key=lambda one: (one.recipe.rank, one.one.name != usual)):
            self._make_all([task], rest=True)
            if self._left() <= 0 or any(
                one.task is not None and one.task.one.name == task.one.name and one.stage not in ("planned", "made")
                for one in self._found.values()
            ):
                break

    def _choose(self, name: str, kinds: Sequence[PassKind]) -> list[PlannedTask]:
        """Return the tasks on the file of a variant."""
        return self._catalog.choose(self._source(name), kinds=kinds, engines=self._engines)

    def _module_tasks(self, kinds: Sequence[PassKind]) -> list[PlannedTask]:
        """Tasks on the module itself; none where the model is a file."""
        if not self._settings.is_module:
            return []
        return self._catalog.choose(self._source(ORIGINAL, module=True), kinds=kinds, engines=self._engines)

    def _make_by_rank(self, tasks: Sequence[PlannedTask]) -> None:
        """Make the usual recipes first, then further ones of passes that lost too much accuracy, or all on request."""
        self._make_predicted([task for task in tasks if task.recipe.rank == 0])
        self._with_data = dict(
            predict_with_data(self._catalog.lacking, self._settings, own=self._job.runtime.name, left=self._left())
        )
        made = [(one.task.one.name, one) for one in self._found.values() if one.task is not None]
        saved = {name for name, one in made if one.may_race}
        usual = {task.one.name for task in tasks if task.recipe.rank == 0}
        lossy = {name for name, one in made if _lost(one)}
        self._make_predicted([
            task
            for task in tasks
            if task.recipe.rank > 0
            and (self._settings.rank > 1 or (task.one.name in lossy and task.one.name not in saved)
                 or self._catalog.is_named(task, whole=task.one.name not in usual))
        ])  # fmt: skip

    def _make_predicted(self, tasks: Sequence[PlannedTask]) -> None:
        ordered, predictions = predict_tasks(tasks, self._settings, left=self._left())
        self._predictions |= predictions
        self._make_all(ordered)

    def _try_engines(self) -> None:
        """Check the original in every other engine, unless the user named passes."""
        if self._settings.passes:
            return
        own = self._job.model
        for name in self._engines:
            if name != self._job.runtime.name and name in self._facts_of(own).runtimes:
                self._try_file(own, ORIGINAL, name)

    def _try_unchanged(self) -> None:
        """Check the unchanged file in the engines of int8 files, so that the race tells what int8 adds to the engine.

        Named passes leave it out otherwise.
        """
        if self._settings.judge is not None or not self._settings.races:
            return
        for one in [one for one in self._found.values() if one.may_race and one.family == "int8"]:
            known, engine = self._everything, one.runtime.name
            root = root_of(one.id, known)
            if find_engine_step(one, known) is not None or engine not in self._facts_of(root).runtimes:
                continue
            given = next(name for name, other in known.items() if other.model == root and not other.passes)
            self._try_file(root, given.partition(" @ ")[0], engine)

    def _try_given(self) -> None:
        """Check the further given files in every engine that reads them; with named passes, in the first only."""
        for model in self._given:
            engines = find_readers(model.format, self._engines)
            # Two files in different folders may have the same name.
            name = model.name if f"{model.name} @ {engines[0]}" not in self._found else model.path
            name = EXPORT if model is self._export else name
            for engine in engines[:1] if self._settings.passes else engines:
                self._try_file(model, name, engine)
            self._roots.append(f"{name} @ {engines[0]}")

    def _try_file(self, model: ModelRef, name: str, engine: str) -> str:
        """Check a given file, once. Return the id."""
        known = f"{name} @ {engine}"
        if known not in self._found:
            self._check(Candidate(id=known, parent=ORIGINAL, model=model, runtime=RuntimeSpec(name=engine)))
        return known

    def _try_precisions(self) -> None:
        """Check the given files in the other precisions of their engines, which needs no pass; one may be the default.

        Further settings are tried on the best file at the end.
        """
        if self._settings.judge is not None or not self._settings.races:
            return
        for base in [one for one in self._everything.values() if one.may_race and not one.passes]:
            tasks = self._catalog.choose(self._source(base.id), kinds=("tuning",), engines=[base.runtime.name])
            for task in tasks:
                settings = task.recipe.settings
                if isinstance(settings, EngineSettings) and settings.precision:
                    one = with_settings(base, task, threads=self._settings.threads)
                    if one is not None:
                        self._check(one)

    def _check(self, candidate: Candidate) -> Candidate:
        """Check the candidate and keep it, also if the check is cancelled."""
        self._found[candidate.id] = candidate
        self._found[candidate.id] = candidate = self._checks.check(candidate)
        return candidate

    def _find_bases(self, roots: Sequence[str] | None = None) -> list[str]:
        """Variants that are inputs of lossy passes: the given files, and one conversion per further format.

        The simplified file replaces a given one.

        Args:
            roots: ids of given files; None is all of them.
        """
        known = self._everything
        found = {root: root for root in (self._roots if roots is None else roots) if known[root].may_race}
        formats = {model.format for root in found if (model := known[root].model) is not None}
        for name, one in self._found.items():
            if one.task is None or one.model is None or not one.may_race or one.parent not in found:
                continue
            if one.kind == "conversion" and one.model.format not in formats:
                found[name] = name
                formats.add(one.model.format)
            if one.kind == "simplification" and found[one.parent] == one.parent:
                found[one.parent] = name
        return list(found.values())

    def _make_all(self, tasks: Sequence[PlannedTask], *, rest: bool = False) -> None:
        """Make and check the variants of `tasks` while there is time; those that were begun before are not made again.

        Args:
            rest: whether other tasks wait besides these, to which the last one must leave time.
        """
        tasks = [left_over for task in tasks if (left_over := self._without_begun(task)).engines]
        if tasks:
            emit(StageStarted(title=f"Variants: {', '.join(dict.fromkeys(task.one.name for task in tasks))}"))
        for place, task in enumerate(tasks):
            left = self._left()
            if left <= 0:
                for engine in task.engines:
                    one = self._candidate(task, engine).leave(self._late)
                    self._found[one.id] = one
                self._stopped = "the time budget"
                continue
            self._begun |= {(task.source.variant, task.result_name(engine)) for engine in task.engines}
            most = left if place == len(tasks) - 1 and not rest else min(left, max(LEAST_S, ONE_SHARE * left))
            for result in self._cache.make([task], seconds=max(5.0, most)):
                self._take(task, result)

    def _without_begun(self, task: PlannedTask) -> PlannedTask:
        """Return the task with the engines for which it was not begun; the others' variants get what was predicted."""
        left = []
        for engine in task.engines:
            name = task.result_name(engine)
            if (task.source.variant, name) not in self._begun:
                left.append(engine)
            elif name in self._found:
                told = self._predictions.get(name, self._found[name].predicted)
                self._found[name] = replace(self._found[name], predicted=told)
        return replace(task, engines=tuple(left))

    def _candidate(
        self, task: PlannedTask, engine: str, *, suffix: str = "", result: PassResult | None = None
    ) -> Candidate:
        """Return the result of a task in an engine, not checked yet."""
        parent, name = self._everything[task.source.variant], task.result_name(engine, suffix=suffix)
        return Candidate(
            id=name,
            parent=parent.id,
            runtime=RuntimeSpec(name=engine),
            model=None if result is None or result.ref is None else self._renamed(result.ref, name),
            passes=(*parent.passes, *(() if result is None else (applied_pass(task, result),))),
            predicted=self._predictions.get(name, self._predictions.get(task.result_name(engine))),
            task=task,
        )

    def _renamed(self, model: ModelRef, variant: str) -> ModelRef:
        """`model` with the name of the original and of its passes, by which lists of runs tell variants apart."""
        stem = name_with(Path(self._job.model.file_name).stem, self._settings.signature)
        return replace(model, name=f"{stem}.{file_words_of(variant)}{Path(model.file_name).suffix}")

    def _take(self, task: PlannedTask, result: PassResult, *, suffix: str = "") -> list[Candidate]:
        """Check a result in each of its engines; empty where the pass changed nothing."""
        if result.unchanged:
            self._notes.append(f"{task.name}: {result.why}")
            return []
        taken = []
        for engine in task.engines:
            one = self._candidate(task, engine, suffix=suffix, result=result)
            same = _find_same(one, self._everything)
            if one.model is None or same:
                why = result.why if one.model is None else f"the same file as {same}"
                one = one.leave(why) if result.cause == "late" else one.reject(why)
                self._found[one.id] = one
                emit_candidate(one)
            else:
                one = self._check(one)
            taken.append(one)
        return taken

    def _spare_layers(self) -> None:
        """Mixed precision: keep the fragile layers of a quantised variant in float where it lost too much."""
        losing = self._find_losing()
        room = self._left()
        if losing is None or room <= 0:
            return
        assert losing.task is not None and losing.job is not None
        runtime, whole = losing.job.runtime, losing.task
        emit(StageStarted(title=f"Layers, one at a time: {whole.name}"))
        # Only in the engine of this variant, for lack of time.
        task = replace(whole, engines=(runtime.name,))
        test = SensitivityTest(
            task=task,
            cache=self._cache,
            checker=self._checker,
            job_of=lambda model: job_of(model, runtime, self._settings),
            end_by=now() + SENSITIVITY_SHARE * room,
        )
        layers = test.run([one for one in layers_of(whole.source.facts.graph) if one.name not in whole.kept])
        self._sensitivity = layers
        for count in _counts(sum(one.fragile for one in layers), len(layers)):
            if self._left() <= 0:
                break
            mixed = replace(task, keep_float=(*task.keep_float, *(one.layer for one in layers[:count])))
            taken: list[Candidate] = []
            for result in self._cache.make([mixed], seconds=max(5.0, self._left())):
                taken += self._take(mixed, result, suffix=f" sparing {count}")
            if any(one.may_race for one in taken):
                break

    def _spare_slow_layers(self) -> None:
        """Keep those layers of the most promising int8 file in float that are faster so, by the times of layers."""
        whole = self._find_to_place()
        if whole is None:
            return
        assert whole.task is not None and whole.job is not None
        runtime, task = whole.job.runtime, replace(whole.task, engines=(whole.job.runtime.name,))
        given = self._everything[task.source.variant].model
        assert given is not None
        emit(StageStarted(title=f"Layers that are faster in float: {task.name}"))
        profiles = profile_both(job_of(given, runtime, self._settings), whole.job, left=PLACEMENT_SHARE * self._left())
        if profiles is None:
            self._notes.append(f"{task.name}: its layers were not timed")
            return
        found = find_placement(*profiles)
        if not found.pays or self._left() <= 0:
            return
        name = task.result_name(runtime.name, suffix=IN_FLOAT)
        self._predictions[name] = found.prediction
        mixed = replace(task, keep_float=(*task.keep_float, *found.layers))
        for result in self._cache.make([mixed], seconds=max(5.0, self._left())):
            self._take(mixed, result, suffix=IN_FLOAT)

    def _find_to_place(self) -> Candidate | None:
        """Return the int8 file in ONNX Runtime that is likely to be the fastest; None where there is none to time.

        One that lost too much accuracy only where no other is left: with layers in float it may lose less.
        """
        if self._settings.judge is not None or not self._settings.races or self._left() <= 0:
            return None
        found = [
            one for one in self._found.values()
            if (one.may_race or _lost(one)) and one.family == "int8" and _can_spare(one)
            and one.runtime.name == "onnxruntime"
            and one.task is not None and one.task.source.format == "onnx"
            and one.task.capabilities.calibrates  # else every layer quantises its own inputs
        ]  # fmt: skip
        return max(
            found, key=lambda one: (one.may_race, (one.predicted and one.predicted.speedup) or 0.0), default=None
        )

    def _find_losing(self) -> Candidate | None:
        """Of quantised variants that lost too much, the one that lost the least; None if a promising one did not."""
        if self._settings.sensitivity == "off":
            return None
        quantized = [one for one in self._found.values() if _can_spare(one)]
        if self._settings.sensitivity == "auto":
            bound = next((one for one in self._settings.bounds if one.metric in ("accuracy_drop", WORST)), None)
            limit = None if bound is None else limit_of(bound, self._checks.original.metrics)
            if limit is None or any(one.may_race and _is_promising(one) for one in quantized):
                return None
            quantized = [one for one in quantized if not one.may_race]
        return min(quantized, key=lambda one: (not _is_promising(one), _loss(one)), default=None)

    def _tune(self, selection: Selection, standings: Standings) -> Standings:
        """Race engine settings for the best file."""
        self._found = dict(standings.candidates)
        best = standings.everything[selection.choose(standings) or ORIGINAL]
        if best.job is None or best.model is None:
            return standings
        source = self._source(best.id)
        tasks = self._catalog.choose(source, kinds=("tuning",), engines=[best.job.runtime.name])
        return selection.tune(standings, tasks, self._checks)


def _find_same(own: Candidate, known: Mapping[str, Candidate]) -> str:
    """Id of a variant with an identical file in the same engine; "" where there is none."""
    for name, other in known.items():
        if name == own.id or other.model is None or own.model is None:
            continue
        if other.model.sha256 == own.model.sha256 and other.runtime.name == own.runtime.name:
            return name
    return ""


def _is_plain_int8(task: PlannedTask) -> bool:
    """Whether it makes weights and activations int8, with ranges from samples and without training."""
    needs = task.capabilities
    return needs.arithmetic == "int8" and needs.calibrates and not needs.trains


def _can_spare(one: Candidate) -> bool:
    """Whether a runnable variant is from a pass that can leave layers alone."""
    if one.task is None or one.job is None or one.model is None:
        return False
    capabilities = one.task.capabilities
    return capabilities.kind in ("quantisation", "pruning") and capabilities.keeps_float and not capabilities.trains


def _is_promising(one: Candidate) -> bool:
    """Whether a quantised variant is likely to be fast: by its prediction, else because its pass calibrates.

    Without calibration, quantising the activations in every inference often costs what the arithmetic gains.
    """
    if one.predicted is not None and one.predicted.speedup is not None:
        return one.predicted.speedup > 1.0
    return one.task is not None and one.task.capabilities.calibrates


def _lost(one: Candidate) -> bool:
    """Whether the variant was rejected for its outputs."""
    return one.rejected and one.stage in ("loaded", "sliced", "judged")


def _loss(one: Candidate) -> float:
    """Loss of accuracy; without data, of agreement. An unknown loss counts as the highest."""
    if (drop := one.value("accuracy_drop")) is not None:
        return drop
    snr = one.metrics.get(WORST, one.metrics.get("output_snr"))
    return 1e3 - snr.value if snr is not None and snr.value is not None else 1e6


def _counts(fragile: int, layers: int) -> Iterator[int]:
    """Numbers of layers to spare, in order: the fragile ones, then twice as many, up to half."""
    most = max(1, layers // 2)
    count = min(max(1, fragile), most)
    while count <= most:
        yield count
        count *= 2
