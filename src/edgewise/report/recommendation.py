"""The conclusion of a benchmark: the recommended runtime of a model and why; the fastest and smallest model of several.

Only comparable runs are set against each other, and only by what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from edgewise.comparing.fairness import limits_text
from edgewise.formatting import factor_text, plus_minus, quantity, time_unit_of
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.record.facts import precision_of
from edgewise.report.cells import failure_of, reason_of_absence
from edgewise.report.conditions import (
    is_original,
    labels_of,
    path_of,
    processor_of,
    provider_of,
    scenario_of,
    short_providers,
    told_apart,
)
from edgewise.run.agreement import REFERENCE
from edgewise.text import enumerate_few, one_line
from edgewise.units import significant

PRACTICAL = 0.05
"""Memory or start-up that differs by less than this share decides nothing."""


DISQUALIFYING = {
    "output-mismatch": "outputs differ",
    "output-not-finite": "outputs not finite",
    "overloaded": "overloaded",
}
"""Code of a caution with which a run is not recommended → why, in few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One run and the reasons for it.

    Attributes:
        run: id of the run; None where no run qualifies, and then `why` has the objection to each.
        why: one sentence each, with the numbers.
        group: what was compared, such as ``"kws.tflite, single-stream, batch 1"``.
        label: the run's short name within that group; empty where there is none.
    """

    run: str | None
    why: tuple[str, ...]
    group: str
    label: str = ""

    def to_document(self) -> dict[str, object]:
        """``{"run": id or null, "why": […]}``, the shape on the command line."""
        return {"run": self.run, "why": list(self.why)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that qualifies, with its headline's measurement."""

    run: Run
    label: str
    row: Measurement

    @property
    def value(self) -> float:
        """The headline in its SI unit."""
        return self.row.value if self.row.value is not None else float("nan")


def comparable_groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that may be compared with each other, in order of first appearance.

    Model file, shapes, batch, scenario, headline, device, limits and processor are the same; threads, precision and
    engine may differ.
    """
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        job = run.job
        scenario = replace(job.workload.scenario, streams=None, requests=None)  # the engine's own setting may differ
        # Exports of one network may name its inputs differently.
        named = job.model.origin is None
        shapes = tuple((spec.name if named else "", spec.shape) for spec in job.workload.inputs)
        target = (
            job.target.device,
            job.target.transport,
            job.target.memory_limit_bytes,
            job.target.constraints,
            processor_of(run),
        )
        # A run that failed before its environment was read still belongs to the others of its command.
        key = (job.model.family, job.command, shapes, job.workload.batch, scenario, run.headline, target)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def group_title(run: Run) -> str:
    """``"kws.tflite, single-stream, batch 1"``, or ``"kws.tflite, command, limits: 0.5 CPUs, 512 MB"``."""
    if run.job.command:
        return f"{one_line(run.job.model.name)}, command, limits: {limits_text(run.job)}"
    limits = f", limits: {limits_text(run.job)}" if run.job.target.constraints else ""
    usual = run.headline == run.job.workload.scenario.headline
    told = "" if usual else f", by {METRICS[run.headline].label.lower()}"
    return f"{one_line(run.job.model.name)}, {scenario_of(run)}, batch {run.job.workload.batch}{limits}{told}"


def recommendation(runs: Sequence[Run]) -> Recommendation | None:
    """The recommended run of the first group of comparable runs that has one, or None where no run qualifies.

    With several groups the reasons begin with what the recommendation is for; `recommendations` gives all of them.
    """
    found = recommendations(runs)
    first = next((one for one in found if one.run is not None), None)
    if first is None or len(found) == 1:
        return first
    scope = f"for {first.group}; other models and scenarios are judged apart"
    return replace(first, why=(scope, *first.why))


def recommendations(runs: Sequence[Run]) -> list[Recommendation]:
    """One recommendation per group of comparable runs; `Recommendation.run` is None where none qualifies."""
    return [_recommend(group) for group in comparable_groups(told_apart(runs))]


def candidates_of(group: Sequence[Run]) -> tuple[list[Candidate], list[str]]:
    """The runs of a comparable group that qualify, the fastest first, and the objection to each of the others."""
    metric = group[0].headline
    candidates: list[Candidate] = []
    objections: list[str] = []
    for run, label in zip(group, labels_of(group), strict=True):
        objection = _objection(run).full
        row = run.measurement(metric)
        if objection or row is None:
            objections.append(f"{label} is left out: {objection}")
        else:
            candidates.append(Candidate(run, label, row))
    higher = METRICS[metric].better == "higher"
    return sorted(candidates, key=lambda one: -one.value if higher else one.value), objections


def _recommend(group: Sequence[Run]) -> Recommendation:
    title = group_title(group[0])
    ranked, objections = candidates_of(group)
    if not ranked:
        return Recommendation(run=None, why=tuple(objections), group=title)
    best = ranked[0]
    peers = [best, *(other for other in ranked[1:] if not are_apart(best, other))]
    chosen, reasons = _prefer(peers)
    why = _why(chosen, ranked, group[0].headline) + reasons
    why += _remarks(chosen, ranked)
    path = "" if is_original(chosen.run) else path_of(chosen.run)[1]
    label = chosen.label if path in chosen.label else f"{chosen.label} from {path}"
    return Recommendation(run=chosen.run.id, why=(*why, *objections), group=title, label=label)


class Objection(NamedTuple):
    """Why a run can't be recommended, in a word or two and in a sentence; both are empty where it can."""

    brief: str
    full: str


def _objection(run: Run) -> Objection:
    if run.status != "done":
        return Objection(run.failure.cause if run.failure is not None else run.status, failure_of(run))
    codes = {caution.code: caution.message for caution in run.cautions}
    for code, words in DISQUALIFYING.items():
        if code in codes:
            return Objection(words, f"{words}: {one_line(codes[code])}")
    value = run.value(run.headline)
    if value is None or not value > 0:
        return Objection("no number", f"no {_noun(run)}: {reason_of_absence(run, run.headline)}")
    if run.trust is not None and run.trust.grade == "D":
        why = one_line("; ".join(run.trust.reasons)) or "its numbers are unreliable"
        return Objection("grade D", f"grade D: {why}")
    return Objection("", "")


def _interval(row: Measurement) -> tuple[float, float] | None:
    return (row.low, row.high) if row.low is not None and row.high is not None else None


def are_apart(one: Candidate, other: Candidate) -> bool:
    """Whether the 95 % intervals don't overlap; a value without an interval is never apart from another."""
    a, b = _interval(one.row), _interval(other.row)
    return a is not None and b is not None and (a[1] < b[0] or b[1] < a[0])


def _prefer(peers: Sequence[Candidate]) -> tuple[Candidate, list[str]]:
    """Among runs whose speeds can't be told apart: least memory, then quickest start-up, then the fastest."""
    left, reasons = list(peers), []
    for metric, words in (("memory_peak", "least peak memory"), ("startup_time", "quickest start-up")):
        # One sample decides nothing, so only values with an interval count.
        rows = {one.run.id: one.run.measurement(metric) for one in left}
        known = {key: row.value for key, row in rows.items() if row and row.value is not None and row.low is not None}
        if len(left) < 2 or len(known) < len(left):
            continue
        limit = min(known.values()) * (1 + PRACTICAL)
        near = [one for one in left if known[one.run.id] <= limit]
        far = [one for one in left if known[one.run.id] > limit]
        if far:
            unit = METRICS[metric].unit
            against = ", ".join(f"{one.label} {quantity(known[one.run.id], unit)}" for one in far)
            reasons.append(f"{words} of those: {quantity(known[near[0].run.id], unit)} against {against}")
        left = near
    if len(left) > 1:
        reasons.append("chosen by its headline alone: no other measurement distinguishes these runs")
    return left[0], reasons


def _why(chosen: Candidate, ranked: Sequence[Candidate], metric: str) -> list[str]:
    """One sentence per other candidate, with both numbers."""
    unit, higher = METRICS[metric].unit, METRICS[metric].better == "higher"
    nouns = {"latency": "median latency", "latency_paced": "median paced latency", "startup_time": "median latency"}
    noun = "throughput" if higher else nouns.get(metric, METRICS[metric].label.lower())
    if len(ranked) == 1:
        return [f"the only run that can be recommended: {noun} {quantity(chosen.value, unit)}"]
    lines = []
    for other in sorted(ranked, key=lambda one: not is_original(one.run)):
        if other is chosen:
            continue
        numbers = f"{quantity(chosen.value, unit)} against {quantity(other.value, unit)}"
        ratio = chosen.value / other.value if higher else other.value / chosen.value
        if are_apart(chosen, other) and ratio > 1:
            factor = _factor(chosen, other, higher=higher) if is_original(other.run) else f"{_times(ratio)}×"
            lines.append(f"{factor} faster than {other.label} ({noun} {numbers}); the 95 % intervals don't overlap")
        elif are_apart(chosen, other):
            lines.append(f"{_times(1 / ratio)}× slower than {other.label} ({noun} {numbers})")
        else:
            both = _interval(chosen.row) is not None and _interval(other.row) is not None
            because = "the 95 % intervals overlap" if both else "there is no interval for both"
            lines.append(f"can't be told apart from {other.label} in speed ({noun} {numbers}): {because}")
    return lines


def _factor(chosen: Candidate, other: Candidate, *, higher: bool) -> str:
    """``2.1× [1.9, 2.3]``: the quotient of two intervals that don't overlap, at its widest."""
    fast, slow = _interval(chosen.row), _interval(other.row)
    assert fast is not None and slow is not None
    above, below = (fast, slow) if higher else (slow, fast)
    value = chosen.value / other.value if higher else other.value / chosen.value
    return factor_text(value, above[0] / below[1], above[1] / below[0])


def _times(ratio: float) -> str:
    """A ratio above 1 with two decimals where it is close to 1."""
    return f"{ratio:.2f}" if ratio < 1.095 else significant(ratio, 2)


def _remarks(chosen: Candidate, candidates: Sequence[Candidate]) -> list[str]:
    """Limitations of the recommended run."""
    lines = []
    agreement = chosen.run.measurement("output_max_abs_error")
    if agreement is not None and agreement.value is not None and chosen.run.job.model.origin is not None:
        lines.append(f"its outputs agree within {significant(agreement.value)} ({one_line(agreement.method)})")
    if agreement is None or (agreement.value is None and agreement.absent_because != REFERENCE):
        others = "; there was no other run to compare with" if len(candidates) == 1 else ""
        lines.append(f"its outputs were not compared with another runtime's{others}")
    if any(caution.code == "output-not-finite" for caution in chosen.run.cautions):
        lines.append("its outputs contain NaN or infinity for the inputs used, so agreement means little")
    precisions = {one.label: precision_of(one.run) for one in candidates}
    known = {precision for precision in precisions.values() if precision}
    if len(known) > 1:
        told = ", ".join(f"{label} {precision or 'not reported'}" for label, precision in precisions.items())
        lines.append(f"precisions differ: {told}")
    trust = chosen.run.trust
    if trust is None:
        lines.append("the run has no trust grade")
    elif trust.grade != "A":
        lines.append(f"grade {trust.grade}: {one_line('; '.join(trust.reasons)) or 'no reason is recorded'}")
    return lines


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
            run.headline,
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
        place = _where(first[0].run, short_providers(runs))
        fastest = f"Fastest: {first[0].model} {place}, {headline_text(first[0].run)}"
        alike = [f"{one.model} ({headline_text(one.run, interval=False)})" for one in first[1:]]
        fastest += f"; {enumerate_few(alike)} can't be told apart from it" if alike else ""
        after = next((one for one in ranked if one.place == 2), None)
        fastest += f"; next {after.model}, {headline_text(after.run)}" if after is not None else ""
    if left := [f"{one.model} ({_objection(one.run).brief})" for one in ranked if one.place is None]:
        fastest += f"; not ranked: {enumerate_few(left)}"
    sizes = {one.model: one.run.job.model.size_bytes for one in ranked if one.run.job.model.size_bytes}
    least = min(sizes.values(), default=0)
    smallest = " and ".join(model for model, size in sizes.items() if size == least)
    return [fastest, *([f"Smallest: {smallest}, {quantity(least, 'B')}"] if smallest else [])]


def _of_runtimes(runs: Sequence[Run]) -> str:
    """The recommended runtime of one model, and its advantage."""
    if len(runs) == 1:
        run = runs[0]
        what = failure_of(run) if run.status != "done" else f"{_noun(run)} {_judged_text(run)}"
        return f"{one_line(run.job.model.name)} {_where(run, {})}: {what}"
    (found,) = recommendations(runs)
    if found.run is None:
        said = [f"{label} ({_objection(run).brief})" for run, label in zip(runs, labels_of(runs), strict=True)]
        return f"No run can be recommended: {enumerate_few(said)}"
    chosen = next(run for run in runs if run.id == found.run)
    return f"Recommended: {found.label}, {_noun(chosen)} {_judged_text(chosen)}; {found.why[0]}"


def _where(run: Run, short: Mapping[str, str]) -> str:
    """Return ``on onnxruntime/cpu``, or its name in `short`; for a program ``(mechanism cgroup-v2)``."""
    engine = provider_of(run)
    return f"(mechanism {engine.partition('/')[2]})" if run.job.command else f"on {short.get(engine, engine)}"


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
