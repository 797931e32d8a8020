"""Which run is recommended, and why: only among comparable runs, only by what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgewise.comparing.fairness import limits_text
from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.record.facts import precision_of
from edgewise.report.cells import failure_of, reason_of_absence
from edgewise.report.conditions import labels_of, processor_of, scenario_of
from edgewise.run.agreement import REFERENCE
from edgewise.text import one_line
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

    Model file, shapes, batch, scenario, device, limits and processor are the same; threads, precision and engine may
    differ.
    """
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        job = run.job
        scenario = job.workload.scenario
        shapes = tuple((spec.name, spec.shape) for spec in job.workload.inputs)
        target = (
            job.target.device,
            job.target.transport,
            job.target.memory_limit_bytes,
            job.target.constraints,
            processor_of(run),
        )
        # A run that failed before its environment was read still belongs to the others of its command.
        key = (job.model.sha256, shapes, job.workload.batch, scenario.kind, scenario.fps, target)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def group_title(run: Run) -> str:
    """``"kws.tflite, single-stream, batch 1"``, or ``"kws.tflite, command, limits: 0.5 CPUs, 512 MB"``."""
    if run.job.command:
        return f"{one_line(run.job.model.name)}, command, limits: {limits_text(run.job)}"
    limits = f", limits: {limits_text(run.job)}" if run.job.target.constraints else ""
    return f"{one_line(run.job.model.name)}, {scenario_of(run)}, batch {run.job.workload.batch}{limits}"


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
    return [_recommend(group) for group in comparable_groups(runs)]


def candidates_of(group: Sequence[Run]) -> tuple[list[Candidate], list[str]]:
    """The runs of a comparable group that qualify, the fastest first, and the objection to each of the others."""
    metric = group[0].headline
    candidates: list[Candidate] = []
    objections: list[str] = []
    for run, label in zip(group, labels_of(group), strict=True):
        objection = _objection(run, metric)
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
    return Recommendation(run=chosen.run.id, why=(*why, *objections), group=title, label=chosen.label)


def _objection(run: Run, metric: str) -> str:
    """Why `run` can't be recommended; empty where it can."""
    if run.status != "done":
        return failure_of(run)
    codes = {caution.code: caution.message for caution in run.cautions}
    for code, words in DISQUALIFYING.items():
        if code in codes:
            return f"{words}: {one_line(codes[code])}"
    value = run.value(metric)
    if value is None or not value > 0:
        return f"no {METRICS[metric].label.lower()}: {reason_of_absence(run, metric)}"
    if run.trust is not None and run.trust.grade == "D":
        return f"grade D: {one_line('; '.join(run.trust.reasons)) or 'its numbers are unreliable'}"
    return ""


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
    noun = "throughput" if higher else ("median paced latency" if metric == "latency_paced" else "median latency")
    if len(ranked) == 1:
        return [f"the only run that qualifies: {noun} {quantity(chosen.value, unit)}"]
    lines = []
    for other in ranked:
        if other is chosen:
            continue
        numbers = f"{quantity(chosen.value, unit)} against {quantity(other.value, unit)}"
        ratio = chosen.value / other.value if higher else other.value / chosen.value
        if are_apart(chosen, other) and ratio > 1:
            lines.append(
                f"{_times(ratio)}× faster than {other.label} ({noun} {numbers}); the 95 % intervals don't overlap"
            )
        elif are_apart(chosen, other):
            lines.append(f"{_times(1 / ratio)}× slower than {other.label} ({noun} {numbers})")
        else:
            both = _interval(chosen.row) is not None and _interval(other.row) is not None
            because = "the 95 % intervals overlap" if both else "there is no interval for both"
            lines.append(f"can't be told apart from {other.label} in speed ({noun} {numbers}): {because}")
    return lines


def _times(ratio: float) -> str:
    """A ratio above 1 with two decimals where it is close to 1."""
    return f"{ratio:.2f}" if ratio < 1.095 else significant(ratio, 2)


def _remarks(chosen: Candidate, candidates: Sequence[Candidate]) -> list[str]:
    """Limitations of the recommended run."""
    lines = []
    agreement = chosen.run.measurement("output_max_abs_error")
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
