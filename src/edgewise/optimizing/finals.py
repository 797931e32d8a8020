"""The end of the search: races, the engine's settings for the best file, and the choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from edgewise.comparing.comparison import Comparison, Findings, Variant
from edgewise.comparing.front import find_front
from edgewise.comparing.terms import Terms
from edgewise.evaluating.agreement import WORST
from edgewise.metrics import METRICS
from edgewise.optimizing.choice import (
    SMALLER,
    check_bounds,
    choose,
    is_identical,
    judge_speed,
    judged_words,
    limit_of,
    memory_reduction_of,
    speedup_of,
)
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.factors import find_engine_step
from edgewise.optimizing.gauntlet import Gauntlet
from edgewise.optimizing.planning import Attempt, Menu
from edgewise.optimizing.race import (
    EACH_S,
    MOST,
    ROUNDS,
    TURNS_S,
    Entrant,
    Screening,
    how_many,
    measure_alone,
    race,
    screen,
)
from edgewise.optimizing.state import Entry, State, Witness
from edgewise.optimizing.variant import ORIGINAL, AppliedPass, Candidate, Number
from edgewise.record import Run
from edgewise.units import significant

LEAST_RACE_S = 8.0
"""With less time left no race is begun."""


class Finals:
    """Races what came through the gauntlet, and chooses.

    Attributes:
        races: what was found in each, in order.
    """

    def __init__(
        self,
        commission: Commission,
        state: State,
        *,
        headline: str,
        save: Callable[[Run], None],
        witness: Witness,
        end_by: float,
    ) -> None:
        self._commission = commission
        self._state = state
        self._headline = headline
        self._save = save
        self._witness = witness
        self._end_by = end_by
        self.races: list[Findings] = []
        self._originals: dict[str, tuple[Candidate, Run | None]] = {}

    def race(self) -> None:
        """All survivors against the original, interleaved."""
        alive = [entry for entry in self._state.others if entry.alive]
        if not alive:
            return
        entrants = _entrants(alive)
        left = self._end_by - time.monotonic()
        if len(entrants) > how_many(left, EACH_S):
            self._witness.stage(f"A short measurement of {len(entrants)} variants")
            assert self._state.original.job is not None
            begin = time.monotonic()
            short = screen(
                (ORIGINAL, self._state.original.job), entrants, end_by=self._end_by, seed=self._commission.seed
            )
            took = time.monotonic() - begin
            each = ROUNDS * (took / len(entrants) + TURNS_S)
            kept = short.order[: how_many(left - took, min(EACH_S, each))]
            for name, _ in entrants:
                if name not in kept:
                    self._leave_behind(self._state.entries[name], short, kept)
            entrants = [(name, job) for name, job in entrants if name in kept]
        if entrants:
            self._witness.stage("Race: latency, interleaved with the original")
            self._run(entrants)

    def tune(self, menu: Menu, gauntlet: Gauntlet) -> None:
        """Settings of the engine for the best file, raced with it and the original."""
        best = self.choose()
        entry = self._state.entries[best or ORIGINAL]
        if entry.job is None or entry.candidate.model is None:
            return
        attempts = menu.choose(
            self._state.facts_of(entry.candidate.id),
            kinds=("tuning",),
            parent=entry.candidate.id,
            engines=[entry.job.runtime.name],
        )
        # The original, the best, and the file as it is in its engine take part, too.
        step = find_engine_step(entry, self._state)
        base = [self._state.entries[step]] if step not in (None, ORIGINAL, best) else []
        base = [one for one in base if not one.fallen and one.candidate.stage in ("judged", "raced")]
        most = min(MOST, int((self._end_by - time.monotonic()) // EACH_S) - 1) - (best is not None) - len(base)
        if most < 1:
            note = f"settings of {entry.job.runtime.name} were not tried: the time budget left no room"
            self._state.notes += [note] if attempts else []
            return
        tuned = (one for attempt in attempts if (one := self._tuned(entry, attempt, gauntlet)) is not None)
        alive = list(islice((one for one in tuned if one.alive), most))
        if not alive:
            return
        self._witness.stage(f"Race: settings of {entry.job.runtime.name}")
        again = [*base, *([] if best is None else [entry])]
        proven = {one.candidate.id: (one.candidate, one.run) for one in again if one.candidate.stage == "raced"}
        kept, findings = dict(self._originals), self._state.findings
        try:
            self._run(_entrants([*again, *alive]))
        finally:
            # What the first race proved stays proven, also where this one was cut short, or had too much noise.
            for name, (candidate, run) in proven.items():
                one = self._state.entries[name]
                if candidate.accepted and not one.candidate.accepted:
                    one.candidate, one.run, self._originals[name] = candidate, run, kept[name]
            if not any(one.candidate.accepted for one in alive):
                self._state.findings = findings
            self._show_original()

    def _show_original(self) -> None:
        """The original's numbers are those of the race that the chosen variant's are from, else the fastest one's."""
        shown = self.choose() or max(self._originals, key=self._speed_of, default=None)
        if shown in self._originals:
            self._state.original.candidate, self._state.original.run = self._originals[shown]

    def _speed_of(self, name: str) -> float:
        return self._state.entries[name].candidate.metrics["speedup"].value or 0.0

    def measure_original(self) -> None:
        """The original alone, where no race told its latency or memory and a bound is about these."""
        entry = self._state.original
        asked = any(bound.metric in ("latency", "memory_peak") for bound in self._commission.bounds)
        left = self._end_by - time.monotonic()
        if not asked or entry.run is not None or entry.job is None or left <= 0:
            return
        self._witness.stage("The original alone")
        entry.run = _with_marks(measure_alone(entry.job, budget_s=left, save=self._save), entry)
        self._tell_original(entry)

    def choose(self) -> str | None:
        """The id of the best of what is accepted and meets the bounds."""
        findings = self._state.findings
        found = [entry.candidate for entry in self._state.others]
        ranking = None if findings is None else findings.ranking
        return choose(found, ranking, headline=self._headline, aim=self._commission.aim)

    def find_front(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ids and metrics of the Pareto front over everything that was raced, the original included."""
        entries = self._state.entries.values()
        variants = [
            Variant(label=one.candidate.id, run=one.run)
            for one in entries
            if one.run is not None and (one is self._state.original or _has_ratio(one.candidate))
        ]
        wanted = ("latency", "model_size", "memory_peak", *((self._headline,) if self._headline else ()))
        if len(variants) < 2:
            return (), ()
        front = find_front(variants, Terms(front=wanted, force=True))
        return ((), ()) if front is None else (front.members, front.metrics)

    def _tuned(self, entry: Entry, attempt: Attempt, gauntlet: Gauntlet) -> Entry | None:
        """The entry's file with other settings; None where these are not for it, or were fixed by the user."""
        assert entry.job is not None and entry.candidate.model is not None
        settings: dict[str, Any] = dict(attempt.recipe.settings)
        runtime = entry.job.runtime
        if settings.get("runtime") not in (None, runtime.name):
            return None
        if "threads" in settings and self._commission.threads is not None:
            return None
        changed = replace(
            runtime,
            provider=settings.get("provider", runtime.provider),
            threads=settings.get("threads", runtime.threads),
            precision=settings.get("precision", runtime.precision),
            options={**runtime.options, **settings.get("options", {})},
        )
        if changed == runtime:
            return None
        applied = AppliedPass(name=attempt.one.name, label=attempt.recipe.label, settings=settings)
        words = attempt.recipe.label.removeprefix(f"{runtime.name}, ") or attempt.name
        candidate = Candidate(
            id=f"{entry.candidate.id}, {words}",
            parent=entry.candidate.id,
            runtime=changed,
            model=entry.candidate.model,
            passes=(*entry.candidate.passes, applied),
        )
        one = self._state.entries[candidate.id] = Entry(candidate=candidate, attempt=attempt)
        gauntlet.examine(one, entry.candidate.model)
        return one

    def _run(self, entrants: Sequence[Entrant]) -> None:
        left = self._end_by - time.monotonic()
        if left < LEAST_RACE_S:
            for name, _ in entrants:
                if self._state.entries[name].candidate.stage != "raced":
                    self._state.entries[name].drop("the time budget left no room for a race")
            self._state.stopped = "the time budget"
            return
        original = self._state.original
        assert original.job is not None
        findings = race(
            (ORIGINAL, original.job),
            entrants,
            budget_s=left,
            seed=self._commission.seed,
            save=self._save,
            observer=self._witness.racing(),
        )
        self._state.findings = findings
        self.races.append(findings)
        self._read(findings)
        if "time budget" in findings.stopped_because:
            self._state.stopped = "the time budget, in a race"
        if findings.interrupted:
            raise KeyboardInterrupt

    def _read(self, findings: Findings) -> None:
        """What the race says of everyone in it."""
        rows = {(row.b, row.metric): row for row in findings.comparisons}
        for variant in findings.variants:
            entry = self._state.entries[variant.label]
            if not variant.run.sessions and variant.run.failure is None:
                if variant.label != ORIGINAL and not entry.candidate.accepted:
                    entry.drop("the time budget left no room for a race")
                continue
            entry.run = _with_marks(variant.run, entry)
            if variant.label == ORIGINAL:
                self._tell_original(entry)
                continue
            metrics = _raced(entry.run)
            row = rows.get((variant.label, "latency"))
            metrics["speedup"] = speedup_of(row)
            metrics["memory_reduction"] = memory_reduction_of(rows.get((variant.label, "memory_peak")))
            entry.advance("raced", metrics)
            self._originals[variant.label] = (self._state.original.candidate, self._state.original.run)
            self._decide(entry, row, findings.failures.get(variant.label, ""))
            self._witness.examined(entry.candidate)

    def _tell_original(self, entry: Entry) -> None:
        assert entry.run is not None
        metrics = {**entry.candidate.metrics, **_raced(entry.run)}
        entry.candidate = replace(entry.candidate, metrics=metrics, run=entry.run.id)

    def _decide(self, entry: Entry, row: Comparison | None, failure: str) -> None:
        """Whether it is accepted, and why."""
        metrics, original = entry.candidate.metrics, self._state.original.candidate.metrics
        size, whole = metrics["model_size"].value or 0.0, original["model_size"].value or 0.0
        predicted = entry.candidate.predicted
        if failure:
            accepted, why = False, f"failed in the race: {failure}"
        else:
            accepted, why = judge_speed(
                row,
                smaller=size <= SMALLER * whole,
                aim=self._commission.aim,
                reason="" if predicted is None else predicted.because,
            )
        if accepted and (unmet := check_bounds(metrics, self._commission.bounds, original)):
            accepted, why = False, f"{why}, but {'; '.join(unmet)}"
        elif accepted and self._headline and ("accuracy_drop" in metrics or self._headline in metrics):
            why = f"{why}; {judged_words(metrics, self._headline)}{self._doubt(metrics)}"
        entry.candidate = replace(
            entry.candidate, accepted=accepted, why=why, run=None if entry.run is None else entry.run.id
        )

    def _doubt(self, metrics: Mapping[str, Number]) -> str:
        """That the drop is within its bound and its interval is not; empty where it is."""
        metric = WORST if self._headline == WORST else "accuracy_drop"
        bound = next((one for one in self._commission.bounds if one.metric == metric), None)
        limit = None if bound is None else limit_of(bound, self._state.original.candidate.metrics)
        if bound is None or limit is None or (metric == WORST and is_identical(metrics)):
            return ""
        worst = metrics[metric].high if bound.upper else metrics[metric].low
        if worst is not None and (worst <= limit if bound.upper else worst >= limit):
            return ""
        return f", too few samples to prove {bound.words}"

    def _leave_behind(self, entry: Entry, short: Screening, kept: Sequence[str]) -> None:
        """A variant that a short measurement showed to be behind those that race."""
        own = short.times.get(entry.candidate.id)
        if own is None or not kept:
            reason = short.failures.get(entry.candidate.id, "its latency could not be measured")
        else:
            times = significant(own / short.times[kept[-1]])
            reason = f"in a short measurement it took {times}× the time of the last that raced"
        entry.advance("screened", {})
        entry.drop(f"not raced: {reason}")
        self._witness.examined(entry.candidate)


def _entrants(entries: Sequence[Entry]) -> list[Entrant]:
    return [(entry.candidate.id, entry.job) for entry in entries if entry.job is not None]


def _with_marks(run: Run, entry: Entry) -> Run:
    """The run of a race with the accuracy of its model, so that a table has both in one row."""
    if entry.marks is None:
        return run
    known = {row.metric for row in run.measurements}
    more = tuple(row for row in entry.marks.measurements if row.metric not in known)
    return replace(run, measurements=(*run.measurements, *more), evaluation=entry.marks.evaluation)


def _has_ratio(candidate: Candidate) -> bool:
    """Whether the race told how it compares, with an interval; of others nothing is proven, nor disproven."""
    speed = candidate.metrics.get("speedup")
    return speed is not None and speed.low is not None


def _raced(run: Run) -> dict[str, Number]:
    return {name: _number(run, name) for name in ("latency", "memory_peak")}


def _number(run: Run, metric: str) -> Number:
    row = run.measurement(metric)
    if row is None or row.value is None:
        because = row.absent_because if row is not None else None
        return Number(value=None, absent_because=because or f"the race gave no {METRICS[metric].label.lower()}")
    return Number(value=row.value, low=row.low, high=row.high, basis=row.basis or "measured", method=row.method)
