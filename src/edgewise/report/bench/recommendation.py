"""The recommended run of each group of comparable runs, and the reasons for it.

Only comparable runs are set against each other, by what was measured, as ``compare`` does it. Among those that can't
be told apart from the fastest, the cheapest is recommended; where turns leave open which is faster, memory and start-up
decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgewise.comparing.fairness import limits_text
from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.record.facts import precision_of
from edgewise.report.bench.against import against_values, how_apart, in_full_precision, text_of_turns
from edgewise.report.bench.ranking import (
    AHEAD,
    TIES,
    Candidate,
    are_apart,
    candidates_of,
    comparable_groups,
    every_candidate,
    factor_of,
    judged,
    likely_verdict,
    load_lines,
    peers_of,
    prefer,
    quotient_of,
    sweeps,
    turns_of,
    why_likely,
    why_not_told,
)
from edgewise.report.bench.undecided import find_undecided, lines_of_undecided
from edgewise.report.runs.conditions import (
    is_original,
    labels_by_id,
    path_of,
    scenario_of,
    told_apart,
)
from edgewise.run.agreement import REAL_INPUTS, REFERENCE
from edgewise.text import one_line
from edgewise.units import significant


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One run and the reasons for it.

    Attributes:
        run: id of the run; None where no run qualifies, and then `why` has the objection to each.
        why: one sentence each, with the numbers.
        group: what was compared, such as ``"kws.tflite, single-stream, batch 1"``.
        label: the run's short name within that group; empty where there is none.
        tie: what it costs less than runs that are as fast, threads aside; empty where there are none.
        of: number of runs of the group.
        rivals: where only an unproven ratio in turns speaks for the run, those that may be as fast.
    """

    run: str | None
    why: tuple[str, ...]
    group: str
    label: str = ""
    tie: str = ""
    of: int = 1
    rivals: tuple[Run, ...] = ()

    def to_document(self) -> dict[str, object]:
        """``{"run": id or null, "why": […]}``, the shape on the command line."""
        return {"run": self.run, "why": list(self.why)}


def group_title(run: Run) -> str:
    """``"kws.tflite, single-stream, batch 1"``, or ``"kws.tflite, command, limits: 0.5 processors, 512 MB"``."""
    return f"{one_line(run.job.model.name)}, {scope_of(run)}"


def scope_of(run: Run) -> str:
    """Return what a group of runs shares beside the model."""
    if run.job.command:
        return f"command, limits: {limits_text(run.job)}"
    limits = f", limits: {limits_text(run.job)}" if run.job.target.constraints else ""
    usual = run.headline == run.job.workload.scenario.headline
    told = "" if usual else f", by {METRICS[run.headline].label.lower()}"
    return f"{scenario_of(run)}, batch {run.job.workload.batch}{limits}{told}"


def recommendation(runs: Sequence[Run]) -> Recommendation | None:
    """Return the recommended run of the first group of comparable runs that has one, or None where no run qualifies.

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
    runs = told_apart(runs)
    beside = {run.id: every for sweep in sweeps(runs) for every in [every_candidate(sweep)] for run in sweep}
    return [_recommend(group, beside[group[0].id]) for group in comparable_groups(runs)]


def _recommend(group: Sequence[Run], every: Sequence[Candidate]) -> Recommendation:
    title = group_title(group[0])
    ranked, objections = candidates_of(group)
    if not ranked:
        return Recommendation(run=None, why=(*objections, *load_lines(group)), group=title, of=len(group))
    peers = peers_of(in_full_precision(ranked), every)
    chosen, reasons = prefer(peers, ranked)
    why = _why(chosen, ranked) + [reason.full for reason in reasons]
    why += _remarks(chosen, ranked) + load_lines(group)
    path = "" if is_original(chosen.run) else path_of(chosen.run)[1]
    label = chosen.label if path in chosen.label else f"{chosen.label} from {path}"
    tie = next((reason.full for reason in reasons if reason.brief in TIES), "")
    if (undecided := find_undecided(group, chosen, ranked)) is not None:
        labels = labels_by_id(group)
        why += [_as_reason(line) for line in lines_of_undecided(undecided, chosen.run, lambda run: labels[run.id])]
    is_open = undecided is None and any(reason.brief == AHEAD for reason in reasons)
    rivals = [one.run for one in peers if one is not chosen and not are_apart(one, chosen)] if is_open else []
    return Recommendation(
        run=chosen.run.id, why=(*why, *objections), group=title, label=label, tie=tie, of=len(group),
        rivals=tuple(rivals),
    )  # fmt: skip


_NOUNS = {"latency": "median latency", "latency_paced": "median paced latency", "startup_time": "median latency"}


def _why(chosen: Candidate, ranked: Sequence[Candidate]) -> list[str]:
    """One sentence per other candidate, with both numbers."""
    unit, label = METRICS[chosen.row.metric].unit, METRICS[chosen.row.metric].label
    noun = "throughput" if chosen.is_rate else _NOUNS.get(chosen.row.metric, label.lower())
    if len(ranked) == 1:
        return [f"the only run that can be recommended: {noun} {quantity(chosen.value, unit)}"]
    lines = []
    for other in sorted(ranked, key=lambda one: not is_original(one.run)):
        if other is chosen:
            continue
        numbers = f"{quantity(chosen.value, unit)} against {quantity(other.value, unit)}"
        if (turns := turns_of(chosen, other)) is not None:
            quotient = quotient_of(chosen, other)
            aside = f"; {quotient} is the quotient of the two values, each measured alone" if quotient else ""
            lines.append(text_of_turns(turns, chosen, other) + against_values(chosen, other) + aside)
            continue
        verdict = judged(chosen, other).verdict
        if verdict in ("faster", "slower"):
            factor = factor_of(chosen, other, slow=verdict == "slower")
            lines.append(f"{factor} {verdict} than {other.label} ({noun} {numbers}){how_apart(chosen, other)}")
        elif verdict == "same":
            lines.append(f"as fast as {other.label} ({noun} {numbers}){how_apart(chosen, other)}")
        elif likely := likely_verdict(chosen, other):
            factor, because = factor_of(chosen, other, slow=likely == "slower"), why_likely(chosen, other)
            lines.append(f"probably {factor} {likely} than {other.label} ({noun} {numbers}); not proven: {because}")
        else:  # as `text_on_open` says
            because = why_not_told(chosen, other)
            lines.append(f"can't be told apart from {other.label} in speed ({noun} {numbers}){because}")
    return lines


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
        lines.append(
            f"its outputs contain NaN or infinity for the inputs used, so agreement means little: {REAL_INPUTS}"
        )
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


def _as_reason(line: str) -> str:
    """``"not decided: …"``: a line of `lines_of_undecided` among reasons."""
    return line[0].lower() + line[1:]
