"""The conclusion of a benchmark: the best runtime of a model, the fastest and the smallest of several models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.formatting import plus_minus, quantity, time_unit_of
from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.report.cells import failure_of
from edgewise.report.conditions import labels_of, processor_of, provider_of, scenario_of, short_providers
from edgewise.report.recommendation import (
    DISQUALIFYING,
    Candidate,
    are_apart,
    candidates_of,
    comparable_groups,
    recommendations,
)
from edgewise.text import enumerate_few, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedModel:
    """One model among others.

    Attributes:
        run: the model's fastest run that qualifies, else its first.
        place: 1 for the fastest and all that can't be told from it, 2 for the fastest of the rest, and so on; None
            where no run of the model qualifies.
    """

    run: Run
    place: int | None

    @property
    def model(self) -> str:
        """The model's name."""
        return one_line(self.run.job.model.name)


def sweeps(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that differ in model, engine and settings alone: same scenario, batch, target and processor."""
    found: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        target = run.job.target
        key = (
            scenario_of(run),
            run.job.workload.batch,
            target.device,
            target.memory_limit_bytes,
            target.constraints,
            processor_of(run),
        )
        found.setdefault(key, []).append(run)
    return list(found.values())


def rank_models(runs: Sequence[Run]) -> list[RankedModel]:
    """The models of one of `sweeps`, the fastest first, then those without a run that qualifies.

    Two models can't be told apart where the 95 % intervals of their fastest runs overlap, or one has none.
    """
    groups = comparable_groups(runs)
    best: list[Candidate] = []
    rest: list[RankedModel] = []
    for group in groups:
        candidates, _ = candidates_of(group)
        if candidates:
            best.append(candidates[0])
        else:
            rest.append(RankedModel(run=group[0], place=None))
    higher = METRICS[runs[0].headline].better == "higher"
    best.sort(key=lambda one: one.value, reverse=higher)
    places: dict[str, int] = {}
    for leader in best:
        if leader.run.id not in places:
            place = max(places.values(), default=0) + 1
            alike = [one for one in best if one.run.id not in places and not are_apart(leader, one)]
            places |= {one.run.id: place for one in [leader, *alike]}
    # Of one place stand together, in order of speed.
    ranked = sorted(best, key=lambda one: places[one.run.id])
    return [RankedModel(run=one.run, place=places[one.run.id]) for one in ranked] + rest


def answer_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """The conclusion, a line each: the recommended runtime, or the fastest and the smallest model."""
    lines: list[str] = []
    found = sweeps(runs)
    for sweep in found:
        scope = f"{scenario_of(sweep[0])}, batch {sweep[0].job.workload.batch}: " if len(found) > 1 else ""
        several = len(comparable_groups(sweep)) > 1
        lines += [f"{scope}{line}" for line in (_of_models(sweep) if several else [_of_runtimes(sweep)])]
    return tuple(lines)


def _of_models(runs: Sequence[Run]) -> list[str]:
    """Which model is the fastest, and which the smallest."""
    ranked = rank_models(runs)
    first = [one for one in ranked if one.place == 1]
    if not first:
        fastest = "Fastest: can't be told"
    else:
        fastest = f"Fastest: {first[0].model} on {_engine(first[0].run, runs)}, {headline_text(first[0].run)}"
        alike = [f"{one.model} ({headline_text(one.run, interval=False)})" for one in first[1:]]
        fastest += f"; {enumerate_few(alike)} can't be told apart from it" if alike else ""
        after = next((one for one in ranked if one.place == 2), None)
        fastest += f"; next {after.model}, {headline_text(after.run)}" if after is not None else ""
    if left := [f"{one.model} ({_objection(one.run)})" for one in ranked if one.place is None]:
        fastest += f"; not ranked: {enumerate_few(left)}"
    sizes = {one.model: one.run.job.model.size_bytes for one in ranked if one.run.job.model.size_bytes}
    least = min(sizes.values(), default=0)
    smallest = " and ".join(model for model, size in sizes.items() if size == least)
    return [fastest, *([f"Smallest: {smallest}, {quantity(least, 'B')}"] if smallest else [])]


def _engine(run: Run, runs: Sequence[Run]) -> str:
    words = provider_of(run)
    return short_providers(runs).get(words, words)


def _of_runtimes(runs: Sequence[Run]) -> str:
    """The recommended runtime of one model, and its advantage."""
    if len(runs) == 1:
        run = runs[0]
        what = failure_of(run) if run.status != "done" else f"{_noun(run)} {_judged_text(run)}"
        return f"{one_line(run.job.model.name)} on {provider_of(run)}: {what}"
    (found,) = recommendations(runs)
    if found.run is None:
        said = [f"{label} ({_objection(run)})" for run, label in zip(runs, labels_of(runs), strict=True)]
        return f"No recommendation: nothing qualifies, {enumerate_few(said)}"
    chosen = next(run for run in runs if run.id == found.run)
    return f"Recommended: {found.label}, {_noun(chosen)} {_judged_text(chosen)}; {found.why[0]}"


def _objection(run: Run) -> str:
    """Why a run does not qualify, in a word or two."""
    if run.status != "done":
        return run.failure.cause if run.failure is not None else run.status
    codes = {caution.code for caution in run.cautions}
    said = [words for code, words in DISQUALIFYING.items() if code in codes]
    return next(iter(said), "grade D" if run.trust is not None and run.trust.grade == "D" else "no number")


def _noun(run: Run) -> str:
    return METRICS[run.headline].label.lower()


def _judged_text(run: Run) -> str:
    grade = "" if run.trust is None else f", grade {run.trust.grade}"
    return headline_text(run) + grade + (" (unreliable)" if grade.endswith("D") else "")


def headline_text(run: Run, *, interval: bool = True) -> str:
    """``"409 ± 17 µs"``: the number that the run's scenario is about, or that there is none."""
    row = run.measurement(run.headline)
    if row is None or row.value is None:
        return f"no {METRICS[run.headline].label.lower()}"
    word, factor = time_unit_of(row.value) if row.unit == "s" else ("/s", 1.0)
    low, high = (None if end is None or not interval else end * factor for end in (row.low, row.high))
    return f"{plus_minus(row.value * factor, low, high)} {word}"
