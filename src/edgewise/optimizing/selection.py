"""The last stages of a search: races, engine settings for the best file, and the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from edgewise.clock import now
from edgewise.comparing.comparison import Comparison, ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.ranking import find_pareto_front
from edgewise.errors import as_flag
from edgewise.evaluating.run_records import cautions_of
from edgewise.metrics import METRICS
from edgewise.model.eager import EAGER
from edgewise.optimizing.base import EngineSettings
from edgewise.optimizing.candidate_checks import CandidateChecks
from edgewise.optimizing.choice import (
    Choice,
    check_bounds,
    check_quality,
    choose,
    factor_of,
    judge_speed,
    judged_words,
)
from edgewise.optimizing.elsewhere import choose_estimated, judge_all
from edgewise.optimizing.factors import find_apart, find_engine_step
from edgewise.optimizing.planning import PlannedTask
from edgewise.optimizing.race import (
    EACH_S,
    LONG_TURNS,
    MOST,
    SCREEN_SHARE,
    SHORT_TURNS,
    TURNS_S,
    NamedJob,
    Screening,
    how_many,
    measure_alone,
    race,
    screen,
    time_of_each,
)
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.variant import (
    BUSY_MACHINE,
    ORIGINAL,
    SMALLER,
    UNTRIED_SETTINGS,
    AppliedPass,
    Candidate,
    LayerSensitivity,
    MetricValue,
    Prediction,
    emit_candidate,
)
from edgewise.progress import StageStarted, emit
from edgewise.record import Run
from edgewise.text import listing
from edgewise.units import long_time, significant

LEAST_RACE_S = 8.0
"""Least time for a race, s."""
LATE_FOR_SCREEN = (
    f"not raced: short measurements of others took their {SCREEN_SHARE:.0%} of what the time budget had left"
)
SHORT_METHOD = (
    f"the original's latency over the variant's in a short race, {SHORT_TURNS} turns each, or {LONG_TURNS} where it "
    "was repeated; no interval"
)
"""How the speed-up of a variant that was left out of the race is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """All variants after a stage.

    Attributes:
        original: the baseline of all comparisons, with its last measurements.
        candidates: all other variants, by id, in the order of the plan.
        races: results of the races, in order.
        ranked: the race whose ranking counts; None before a race.
        round_s: time that a round of the last race took for each variant, s; None before a race.
        stopped: why variants were left out; empty where none were.
        interrupted: whether the last race, or in the end the search, was cancelled.
        sensitivity: of layers, the most fragile first; empty where it was not measured.
        with_data: predictions for tasks that lack nothing but samples.
        notes: for the user.
    """

    original: Candidate
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    races: tuple[ComparisonResult, ...] = ()
    ranked: ComparisonResult | None = None
    round_s: float | None = None
    notes: tuple[str, ...] = ()
    stopped: str = ""
    interrupted: bool = False
    sensitivity: tuple[LayerSensitivity, ...] = ()
    with_data: Mapping[str, Prediction] = field(default_factory=dict)

    @property
    def everything(self) -> dict[str, Candidate]:
        """The candidates and the original, by id."""
        return {ORIGINAL: self.original, **self.candidates}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Races the variants that passed the checks, and chooses. Each stage takes standings and returns the next ones.

    Attributes:
        headline: id of the metric that accuracy means; "" without data.
        end_by: monotonic time at which the search ends, s.
    """

    settings: SearchSettings
    headline: str
    save: Callable[[Run], None]
    end_by: float

    @property
    def left(self) -> float:
        """Time left, s."""
        return self.end_by - now()

    def estimate(self, standings: Standings) -> Standings:
        """Judge the variants that passed the checks by estimates for the device of the settings."""
        settings = self.settings
        assert settings.judge is not None
        original, found = judge_all(
            settings.judge,
            standings.original,
            standings.candidates,
            bounds=settings.bounds,
            headline=self.headline,
            aim=settings.aim,
            end_by=self.end_by,
        )
        return replace(standings, original=original, candidates=found)

    def race(self, standings: Standings) -> Standings:
        """Race the variants that passed the checks against the original, interleaved."""
        runners = [one for one in standings.candidates.values() if one.may_race]
        if not runners:
            return standings
        left = self.left
        if len(runners) > how_many(left, EACH_S):
            emit(StageStarted(title=f"A short measurement of {len(runners)} variants"))
            begin = now()
            original, *others = _named_jobs([standings.original, *_by_promise(runners)])
            short = screen(original, others, end_by=self.end_by, seed=self.settings.seed)
            took = now() - begin
            round_s = took / max(1, len(runners) - len(short.unreached)) + TURNS_S
            first = short.order[: how_many(left - took, time_of_each(round_s))]
            kept = {*first, *_find_references(standings.original, runners, short)}
            kept |= _find_unchanged(kept, standings.everything, short)
            behind = {one.id: _leave_behind(one, short, first) for one in runners if one.id not in kept}
            open_ = [one for one in behind.values() if one.is_undecided]
            notes = (*standings.notes, *([_note_on_load(open_, short)] if open_ else []))
            standings = replace(standings, candidates={**standings.candidates, **behind}, notes=notes)
            runners = [one for one in runners if one.id in kept]
        if not runners:
            return standings
        emit(StageStarted(title="Race: latency, interleaved with the original"))
        return self._run(standings, runners)

    def tune(self, standings: Standings, tasks: Sequence[PlannedTask], checks: CandidateChecks) -> Standings:
        """Race engine settings for the best file against that file and the original.

        Args:
            tasks: settings to try on the best file, or on the original where no variant beats it.
        """
        best = self.choose(standings)
        base = standings.everything[best or ORIGINAL]
        if base.job is None:
            return standings
        # The best file and the given file in its engine take part again.
        step = find_engine_step(base, standings.everything)
        again = [standings.candidates[step]] if step not in (None, ORIGINAL, best) else []
        again = [one for one in again if not one.rejected and one.stage in ("judged", "raced")]
        again += [] if best is None else [base]
        each = time_of_each(standings.round_s)
        most, left = min(MOST, int(self.left // each) - 1) - len(again), self.left
        if most < 1:
            note = f"{UNTRIED_SETTINGS}{base.job.runtime.name} were not tried on {base.id}: "
            note += self._why_no_race(2 + len(again), each, left)
            return replace(standings, notes=(*standings.notes, *([note] if tasks else [])))
        changed = (
            one for task in tasks if (one := with_settings(base, task, threads=self.settings.threads)) is not None
        )
        changed = (one for one in changed if one.id not in standings.candidates)
        tuned: dict[str, Candidate] = {}
        racing = (one for one in map(checks.check, changed) if tuned.setdefault(one.id, one).may_race)
        runners = list(islice(racing, most))
        standings = replace(standings, candidates={**standings.candidates, **tuned})
        if not runners:
            return standings
        emit(StageStarted(title=f"Race: settings of {base.job.runtime.name}"))
        after = self._run(standings, [*again, *runners])
        # A proof of the first race stays valid if this race is cut short or too noisy to repeat it.
        proven = {one.id: one for one in again if one.accepted and not after.candidates[one.id].accepted}
        after = replace(after, candidates={**after.candidates, **proven})
        if not any(after.candidates[one.id].accepted for one in runners):
            after = replace(after, ranked=standings.ranked)
        return self._show_original(after)

    def _why_no_race(self, count: int, each: float, left: float) -> str:
        """Return what a race of `count` variants needs, each `each` s, and the budget that has room for it."""
        needed, budget_s = each * count, self.settings.budget_s
        more = as_flag("time_budget", f"{math.ceil((budget_s + needed - left) / 10) * 10}s")
        return (
            f"a race of {count} needs about {needed:.2g} s, and {max(0.0, left):.2g} s of the time budget of "
            f"{long_time(budget_s)} were left → {more}"
        )

    def _show_original(self, standings: Standings) -> Standings:
        """Show the original's numbers from the race of the chosen variant, else of the fastest one, in int8 if any."""

        def key(name: str) -> tuple[bool, float]:
            return raced[name].family == "int8", raced[name].value("speedup") or 0.0

        raced = {name: one for name, one in standings.candidates.items() if one.beside is not None}
        shown = self.choose(standings) or max(raced, key=key, default=None)
        if shown is None or (beside := standings.candidates[shown].beside) is None:
            return standings
        return replace(standings, original=beside)

    def measure_original(self, standings: Standings) -> Standings:
        """Measure the original alone, if a bound needs its latency or memory and no race measured them."""
        original, left = standings.original, self.left
        asked = any(bound.metric in ("latency", "memory_peak") for bound in self.settings.bounds)
        if not asked or original.measured is not None or original.job is None or left <= 0:
            return standings
        emit(StageStarted(title="The original alone"))
        run = measure_alone(original.job, budget_s=left, save=self.save)
        return replace(standings, original=_with_run(original, run))

    def choose(self, standings: Standings) -> str | None:
        """Return the id of the best accepted variant; None where none is accepted."""
        choice = self.decide(standings)
        return None if choice is None else choice.id

    def decide(self, standings: Standings) -> Choice | None:
        """Return the best accepted variant and why it; None where none is accepted."""
        if self.settings.judge is not None:
            return choose_estimated(standings.candidates, headline=self.headline, aim=self.settings.aim)
        ranking = None if standings.ranked is None else standings.ranked.ranking
        found = list(standings.candidates.values())
        apart = find_apart([one.id for one in found if one.accepted], standings.races)
        return choose(found, ranking, headline=self.headline, aim=self.settings.aim, apart=apart)

    def find_pareto_front(self, standings: Standings) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ids and metrics of the Pareto front over all raced variants and the original."""
        variants = [
            Variant(label=one.id, run=one.measured)
            for one in standings.everything.values()
            if one.measured is not None and (one.id == ORIGINAL or _has_ratio(one))
        ]
        wanted = ("latency", "model_size", "memory_peak", *((self.headline,) if self.headline else ()))
        if len(variants) < 2:
            return (), ()
        front = find_pareto_front(variants, Criteria(front=wanted, force=True))
        return ((), ()) if front is None else (front.members, front.metrics)

    def _run(self, standings: Standings, runners: Sequence[Candidate]) -> Standings:
        """Race `runners` against the original, and decide on each."""
        left = self.left
        if left < LEAST_RACE_S:
            why = f"not raced: the time budget left {max(0.0, left):.2g} s, and a race needs {LEAST_RACE_S:g} s"
            late = {one.id: one.leave(why) for one in runners if one.stage != "raced"}
            return replace(standings, candidates={**standings.candidates, **late}, stopped="the time budget")
        original, *others = _named_jobs([standings.original, *runners])
        begin = now()
        result = race(original, others, budget_s=left, seed=self.settings.seed, save=self.save)
        turns = sum(len(one.run.sessions) for one in result.variants)
        stopped = "the time budget, in a race" if "time budget" in result.stopped_because else standings.stopped
        standings = replace(
            standings, races=(*standings.races, result), ranked=result, stopped=stopped, interrupted=result.interrupted,
            round_s=(now() - begin) / turns if turns else standings.round_s,
        )  # fmt: skip
        return self._read(standings, result)

    def _read(self, standings: Standings, result: ComparisonResult) -> Standings:
        """Return the standings after a race; its first variant is the original."""
        rows = {(row.b, row.metric): row for row in result.comparisons}
        late = "not raced: interrupted" if result.interrupted else "not raced: the time budget ended before its turns"
        original, found = standings.original, dict(standings.candidates)
        for variant in result.variants:
            name, measured = variant.label, bool(variant.run.sessions) or variant.run.failure is not None
            if name == ORIGINAL:
                original = _with_run(original, variant.run) if measured else original
                continue
            one = found[name]
            if not measured:
                found[name] = one if one.accepted else one.leave(late)
                continue
            row = rows.get((name, "latency"))
            ratios = {
                "speedup": factor_of(row),
                "memory_reduction": factor_of(rows.get((name, "memory_peak")), "peak memory"),
            }
            one = _with_run(one, variant.run).advance("raced", ratios)
            found[name] = self._decide(replace(one, beside=original), row, result.failures.get(name, ""))
            emit_candidate(found[name])
        return replace(standings, original=original, candidates=found)

    def _decide(self, one: Candidate, row: Comparison | None, failure: str) -> Candidate:
        """Return the variant with whether it is accepted and why."""
        assert one.beside is not None
        metrics, original = one.metrics, one.beside.metrics
        size, whole = metrics["model_size"].value or 0.0, original["model_size"].value or 0.0
        if failure:
            accepted, why = False, f"failed in the race: {failure}"
        else:
            accepted, why = judge_speed(
                row,
                smaller=size <= SMALLER * whole,
                aim=self.settings.aim,
                reason="" if one.predicted is None or one.predicted.speedup is None else one.predicted.because,
            )
        if accepted and (unmet := check_bounds(metrics, self.settings.bounds, original)):
            accepted, why = False, f"{why}, but {'; '.join(unmet)}"
        elif accepted and self.headline and ("accuracy_drop" in metrics or self.headline in metrics):
            one = replace(one, quality=check_quality(one, original, self.settings.bounds, headline=self.headline))
            why = f"{why}; {judged_words(metrics, self.headline)}{', not proven' if one.unproven else ''}"
        return replace(one, accepted=accepted, why=why)


def with_settings(base: Candidate, task: PlannedTask, *, threads: int | None) -> Candidate | None:
    """Return `base` with other settings of its engine; None where these don't apply, or were chosen before.

    Args:
        threads: that the user fixed.
    """
    assert base.job is not None and isinstance(task.recipe.settings, EngineSettings)
    settings, runtime = task.recipe.settings, base.job.runtime
    if settings.runtime not in ("", runtime.name):
        return None
    if settings.threads is not None and threads is not None:
        return None
    if settings.precision and base.runtime.precision:
        return None
    changed = replace(
        runtime,
        provider=settings.provider or runtime.provider,
        threads=settings.threads or runtime.threads,
        precision=settings.precision or runtime.precision,
        options={**runtime.options, **settings.options},
    )
    if changed == runtime:
        return None
    applied = AppliedPass(name=task.one.name, label=task.recipe.label, settings=settings.to_document())
    words = task.recipe.label.removeprefix(f"{runtime.name}, ") or task.name
    return Candidate(
        id=f"{base.id}, {words}",
        parent=base.id,
        runtime=changed,
        model=base.model,
        passes=(*base.passes, applied),
        task=task,
    )


def _by_promise(runners: Sequence[Candidate]) -> list[Candidate]:
    """Return the variants, calibrated int8 first, as it gains the most; then by the predicted speed."""

    def key(one: Candidate) -> tuple[bool, float]:
        calibrated = one.task is not None and one.task.capabilities.calibrates
        return not (calibrated and one.family == "int8"), -((one.predicted and one.predicted.speedup) or 1.0)

    return sorted(runners, key=key)


def _find_references(original: Candidate, runners: Sequence[Candidate], short: Screening) -> list[str]:
    """Ids of files that race in any case: the fastest in int8, as int8 is asked for and smaller; and files as they are
    that show what others gain: the fastest export of a module, the fastest other precision.

    A precision that made the short measurement slower than the original shows nothing.
    """
    int8 = [one.id for one in runners if one.family == "int8" and one.id in short.times]
    int8 = [name for name in int8 if not short.is_slower(name)]
    exports = [one.id for one in runners if one.is_export and one.id in short.times]
    if original.model is None or original.model.format != EAGER:
        exports = []
    tuned = [one.id for one in runners if one.kind == "tuning" and short.times.get(one.id, 1.0) < 1.0]
    return [min(names, key=lambda name: short.times[name]) for names in (int8, exports, tuned) if names]


def _find_unchanged(kept: Collection[str], known: Mapping[str, Candidate], short: Screening) -> set[str]:
    """Return ids of the unchanged file in the engines of int8 files that race: what int8 alone gains there."""
    steps = {find_engine_step(known[name], known) for name in kept if known[name].family == "int8"}
    return {name for name in steps if name is not None and name in short.times and not short.is_slower(name)}


def _note_on_load(undecided: Sequence[Candidate], short: Screening) -> str:
    """How many variants the short measurement did not decide on, because other processes ran."""
    engines = listing(list(dict.fromkeys(one.runtime.name for one in undecided)))
    load = short.busy[undecided[0].id]
    count = f"{len(undecided)} variant{'s' if len(undecided) > 1 else ''} in {engines}"
    return f"{BUSY_MACHINE}{load} in the short measurement, which leaves {count} undecided; search again on a quiet one"


def _leave_behind(one: Candidate, short: Screening, first: Sequence[str]) -> Candidate:
    """Reject a variant that was too slow in the short measurement; leave it undecided where the machine was busy.

    Args:
        first: ids of the variants that race for their speed, the fastest first.
    """
    own = short.times.get(one.id)
    if one.id in short.unreached:
        return one.leave(LATE_FOR_SCREEN)
    if own is None or not first:
        reason = short.failures.get(one.id, "its latency could not be measured")
    elif short.is_slower(one.id):
        times, least = significant(own), significant(short.least[one.id])
        reason = f"it is slower, {times}× the original's time in a short measurement, its fastest inference {least}×"
    else:
        times = significant(own / short.times[first[-1]])
        reason = f"in a short measurement it took {times}× the time of the slowest that raced"
    ratio = {} if own is None else {"speedup": MetricValue(value=1.0 / own, basis="derived", method=SHORT_METHOD)}
    one = one.advance("screened", ratio)
    load = "" if short.is_slower(one.id) else short.busy.get(one.id, "")
    one = one.leave(f"undecided: {reason}, while {load}") if load else one.reject(f"not raced: {reason}")
    emit_candidate(one)
    return one


def _named_jobs(candidates: Sequence[Candidate]) -> list[NamedJob]:
    return [(one.id, one.job) for one in candidates if one.job is not None]


def _with_run(one: Candidate, run: Run) -> Candidate:
    """Return the candidate with its run in a race. The run gets the accuracy, so that a table shows both in one row."""
    if one.accuracy is not None:
        known = {row.metric for row in run.measurements}
        more = tuple(row for row in one.accuracy.measurements if row.metric not in known)
        judged = one.accuracy.evaluation
        about_data = () if judged is None else cautions_of(judged)
        run = replace(
            run, measurements=(*run.measurements, *more), evaluation=judged,
            cautions=(*run.cautions, *one.accuracy.doubts, *about_data),
        )  # fmt: skip
    metrics = {**one.metrics, **{name: _number(run, name) for name in ("latency", "memory_peak")}}
    return replace(one, metrics=metrics, measured=run, run=run.id)


def _has_ratio(candidate: Candidate) -> bool:
    """Whether the race gave a speed-up with an interval."""
    speed = candidate.metrics.get("speedup")
    return speed is not None and speed.low is not None


def _number(run: Run, metric: str) -> MetricValue:
    row = run.measurement(metric)
    if row is None or row.value is None:
        because = row.absent_because if row is not None else None
        return MetricValue(value=None, absent_because=because or f"the race gave no {METRICS[metric].label.lower()}")
    return MetricValue(value=row.value, low=row.low, high=row.high, basis=row.basis or "measured", method=row.method)
