"""The conclusion of a benchmark: the recommended runtime of a model and why; the fastest and smallest model of several.

Only comparable runs are set against each other, by what was measured, as ``compare`` does it. Among those that can't
be told apart from the fastest, the cheapest is recommended.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgewise.comparing.comparison import Comparison, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.fairness import limits_text
from edgewise.comparing.finals import can_take_turns
from edgewise.comparing.metrics import compare_runs
from edgewise.device.devices import LOCAL
from edgewise.errors import Unavailable
from edgewise.formatting import amount_text, percent, percent_of, quantity, times_text, with_range
from edgewise.grouping import by_key
from edgewise.metrics import METRICS, in_sentence
from edgewise.record import InTurns, Run, Scenario
from edgewise.record.facts import SCRIPTS, is_unreliable, precision_of, threads_of
from edgewise.report.bench.ranking import (
    NOT_TOLD,
    PRACTICAL,
    TIES,
    UNRELIABLE,
    Candidate,
    RankedModel,
    are_apart,
    at_another_time,
    brief_of,
    candidates_of,
    comparable_groups,
    every_candidate,
    factor_of,
    has_better_value,
    in_order,
    is_faster,
    is_only_unreliable,
    judged,
    levels,
    likely_verdict,
    load_lines,
    may_be_as_fast,
    noun_of,
    objection_of,
    peers_of,
    prefer,
    quotient_of,
    rank_models,
    speed_of,
    sweeps,
    turns_of,
    why_likely,
    why_not_told,
    words_of_open,
    worst_load,
)
from edgewise.report.bench.speeds import speed_lines
from edgewise.report.runs.cautions import typed_path
from edgewise.report.runs.cells import NOT_MEASURED, chief_metric, failure_of, label_of
from edgewise.report.runs.conditions import (
    command_of,
    is_original,
    labels_of,
    path_of,
    provider_of,
    scenario_of,
    told_apart,
)
from edgewise.run.agreement import BEYOND, REAL_INPUTS, REFERENCE, compared_with, not_compared
from edgewise.stats.turns import Turns, log_ratios
from edgewise.text import enumerate_few, listing, one_line
from edgewise.units import format_limit, significant
from edgewise.workload.input_shapes import ASSUMED

MOST_OF_FIRST_LINE = 120
"""Characters of what to take and what ties with it: beside the words before it, two lines of a terminal."""
MOST_LINES = 8
"""Number of models with a line each in an answer."""


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
    """

    run: str | None
    why: tuple[str, ...]
    group: str
    label: str = ""
    tie: str = ""
    of: int = 1

    def to_document(self) -> dict[str, object]:
        """``{"run": id or null, "why": […]}``, the shape on the command line."""
        return {"run": self.run, "why": list(self.why)}


def group_title(run: Run) -> str:
    """``"kws.tflite, single-stream, batch 1"``, or ``"kws.tflite, command, limits: 0.5 processors, 512 MB"``."""
    return f"{one_line(run.job.model.name)}, {_scope_of(run)}"


def _scope_of(run: Run) -> str:
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
    chosen, reasons = prefer(peers_of(_in_full_precision(ranked), every), ranked)
    why = _why(chosen, ranked) + [reason.full for reason in reasons]
    why += _remarks(chosen, ranked) + load_lines(group)
    path = "" if is_original(chosen.run) else path_of(chosen.run)[1]
    label = chosen.label if path in chosen.label else f"{chosen.label} from {path}"
    tie = next((reason.full for reason in reasons if reason.brief in TIES), "")
    if (undecided := _undecided(group, chosen, ranked)) is not None:
        labels = dict(zip([run.id for run in group], labels_of(group), strict=True))
        why += [_as_reason(line) for line in _lines_of_undecided(undecided, chosen.run, lambda run: labels[run.id])]
    why = [*why, *objections]
    return Recommendation(run=chosen.run.id, why=tuple(why), group=title, label=label, tie=tie, of=len(group))


_LOWER = ("bf16", "f16")


def _in_full_precision(ranked: Sequence[Candidate]) -> list[Candidate]:
    """Those that don't compute in a lower precision because it was asked for, of which speed alone tells too little.

    All, where none computes in full precision.
    """
    return [one for one in ranked if one.run.job.runtime.precision not in _LOWER] or list(ranked)


def _of_lower_precision(chosen: Candidate, ranked: Sequence[Candidate]) -> str:
    """Return the fastest run in a lower precision against `chosen`, and how far its outputs differ; "" if none."""
    full = _in_full_precision(ranked)
    lower = [one for one in (chosen, *ranked) if one.run.job.runtime.precision in _LOWER]
    if not lower:
        return ""
    other = lower[0]
    row = other.run.measurement("output_max_rel_error")
    differ = "its outputs were not compared with those in f32"
    if row is not None and row.value is not None:
        differ = f"its outputs differ by {significant(percent_of(row.value), 2)} % of their scale"
    if other is chosen or other in full:
        return f"it computes in {other.run.job.runtime.precision}: {differ}"
    said = _beside(other, chosen)
    told = f"is {said}{how_apart(other, chosen)}" if said else _not_told(other, chosen)
    return f"{other.label} {told} ({differ})"


MOST_OF_START = 0.5
"""A larger share of a start-up before the first inference is told."""
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
            lines.append(_of_turns(turns, chosen, other) + _against_values(chosen, other) + aside)
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
        else:  # as `_of_not_told` says
            because = why_not_told(chosen, other)
            lines.append(f"can't be told apart from {other.label} in speed ({noun} {numbers}){because}")
    return lines


def _of_turns(turns: InTurns, chosen: Candidate, other: Candidate) -> str:
    """Return what measuring in turns says of `chosen` against `other`."""
    factor = factor_of(chosen, other, slow=turns.verdict == "slower")
    if turns.verdict in ("faster", "slower"):
        lasting = at_another_time(chosen, other, slow=turns.verdict == "slower") or " within these minutes"
        return f"{factor} {turns.verdict} than {other.label}, measured in turns{lasting}"
    if likely := likely_verdict(chosen, other):
        factor = factor_of(chosen, other, slow=likely == "slower")
        said = f"probably {factor} {likely} than {other.label}, measured in turns within these minutes"
        return f"{said}; not proven: {why_likely(chosen, other)}"
    word = "as fast as" if turns.verdict == "same" else "can't be told apart from"
    return f"{word} {other.label}: {factor} its speed, measured in turns within these minutes"


def _against_values(one: Candidate, other: Candidate) -> str:
    """State that each alone had the other order, where turns prove one; else ""."""
    turns = turns_of(one, other)
    if turns is None or turns.verdict not in ("faster", "slower"):
        return ""
    if not (has_better_value(other, one) if turns.verdict == "faster" else has_better_value(one, other)):
        return ""
    numbers = " against ".join(headline_text(each.run, interval=False) for each in (one, other))
    return f", though measured alone {numbers}: repeat it on an idle machine"


def _beside(other: Candidate, chosen: Candidate) -> str:
    """Return what `other` costs instead: ``1.8× [1.7, 1.9] slower``, ``as fast``; "" if they can't be told apart."""
    verdict = judged(other, chosen).verdict
    if verdict in ("same", "inconclusive"):
        return "as fast" if verdict == "same" else ""
    in_turns, is_slow = "", verdict == "slower"
    if turns_of(other, chosen) is not None:
        in_turns = f" in turns{at_another_time(other, chosen, slow=is_slow)}{_against_values(other, chosen)}"
    return f"{factor_of(other, chosen, slow=is_slow)} {verdict}{in_turns}"


_OF_DESIGN = {"sessions": ", by their processes", "intervals": ", by their 95 % intervals"}


def how_apart(other: Candidate, chosen: Candidate) -> str:
    """How it is known which of two is faster that took no turns; "" where they did, or where it isn't known."""
    row = judged(other, chosen)
    return "" if row.verdict == "inconclusive" else _OF_DESIGN.get(row.design, "")


def _of_threads(chosen: Candidate, ranked: Sequence[Candidate]) -> tuple[str, Candidate | None]:
    """Return what the threads of `chosen` cost, or what more would gain, and the run that says so.

    "" and None where its engine had one number.
    """
    own = threads_of(chosen.run)
    alike = {
        count: one
        for one in reversed(ranked)
        if provider_of(one.run) == provider_of(chosen.run) and path_of(one.run) == path_of(chosen.run)
        if (count := threads_of(one.run)) is not None and count != own
    }
    if own is None or not alike:
        return "", None
    least = min(alike)
    if least > own:
        best = _nearest(chosen, [one for one in ranked if one in alike.values()])
        if best is None:
            return "", None
        said = _beside(best, chosen)
        line = f"{threads_of(best.run)} threads are {said}{how_apart(best, chosen)}"
        return (line, best) if said else (_of_unproven_threads(best, chosen), best)
    other, cores = alike[least], _as_many(own, least)
    proven, turned = is_faster(chosen, other), turns_of(chosen, other) is not None
    gain = factor_of(chosen, other) if proven or turned else f"{_times(chosen, other)}×"
    gain += f" in turns{at_another_time(chosen, other)}{_against_values(chosen, other)}" if turned else ""
    doubt = "" if proven else ", which is not proven"
    return f"{own} threads: {cores} the cores for {gain}{doubt}", other


def _as_many(more: int, fewer: int) -> str:
    """``"twice"``, ``"1.5 times"``: how many threads are as many as `more`."""
    return "twice" if more == 2 * fewer else f"{more / fewer:.3g} times"


def _of_unproven_threads(one: Candidate, chosen: Candidate) -> str:
    """Return what the more threads of `one` gain at most, where nothing is proven; "" where no interval says that."""
    own, threads, row = threads_of(chosen.run), threads_of(one.run), judged(one, chosen)
    (_, _, most), turned = speed_of(one, chosen), turns_of(one, chosen) is not None
    if own is None or threads is None or most is None or not (turned or row.p_value is not None):
        return ""
    factor = factor_of(one, chosen)
    end = factor.rpartition(", ")[2].removesuffix("]")
    proof = "probably faster, which is not proven" if likely_verdict(one, chosen) == "faster" else "not proven faster"
    gain = f"{proof}; at most {end}× for {_as_many(threads, own)} the cores"
    way = " in turns" if turned else _OF_DESIGN.get(row.design, "")
    return f"{threads} threads: {factor} the speed{way}, {gain if most > 1.0 else 'not proven slower'}"


def _of_second_engine(chosen: Candidate, ranked: Sequence[Candidate]) -> str:
    """Return what the fastest other engine costs in its best setting; "" where there is none, or that can't be told."""
    own = provider_of(chosen.run)
    other = _nearest(chosen, [one for one in ranked if provider_of(one.run) != own])
    said = _beside(other, chosen) if other is not None else ""
    return f"{other.label} is {said}{how_apart(other, chosen)}" if other is not None and said else ""


def _nearest(chosen: Candidate, others: Sequence[Candidate]) -> Candidate | None:
    """Return the fastest of `others`: by their ratios in turns with `chosen` where any has one, else the first."""
    turned = [one for one in others if turns_of(one, chosen) is not None]
    return max(turned or others[:1], key=lambda one: speed_of(one, chosen)[0] or 0.0, default=None)


def _of_not_told(chosen: Candidate, ranked: Sequence[Candidate], told: Candidate | None = None) -> str:
    """All but `told` that can't be told apart from `chosen`, in the order of their turns; "" where all can."""
    alike = [one for one in ranked if one is not chosen and one is not told and not _beside(one, chosen)]
    return _open_texts(_in_order_of_turns(alike, chosen), chosen)


def _open_texts(others: Sequence[Candidate], chosen: Candidate) -> str:
    """Return what is known of `others`, of which no order is proven: ``"a (1.55 ms) can't be told apart from it"``."""
    keys = [(likely_verdict(one, chosen), turns_of(one, chosen) is not None) for one in others]
    ways = by_key(zip(keys, _tied_texts(others, chosen), strict=True))
    return "; ".join(
        f"{enumerate_few(texts, 3)} {words_of_open(likely, len(texts), in_turns=in_turns)}"
        for (likely, in_turns), texts in ways.items()
    )


def _in_order_of_turns(others: Sequence[Candidate], chosen: Candidate) -> list[Candidate]:
    """Return `others`, the fastest in turns with `chosen` first; then those that took none, as they were."""

    def place(one: Candidate) -> tuple[bool, float]:
        ratio = speed_of(one, chosen)[0] if turns_of(one, chosen) is not None else None
        return ratio is None, -(ratio or 0.0)

    return sorted(others, key=place)


def _not_told(other: Candidate, chosen: Candidate) -> str:
    """State that nothing is proven, and whether it is turns that prove nothing: intervals may be apart all the same."""
    return words_of_open(likely_verdict(other, chosen), in_turns=turns_of(other, chosen) is not None)


def _times(one: Candidate, other: Candidate) -> str:
    """How many times as fast `one` is as `other` by their values, with two decimals where that is close to 1."""
    ratio = one.value / other.value if one.is_rate else other.value / one.value
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


def answer_of(runs: Sequence[Run], *, each: bool = False) -> tuple[str, ...]:
    """Return the conclusion, a line each: the recommended runtime, or the fastest and the smallest model.

    Networks of different tasks have a line each, as no order of them answers anything.

    Args:
        each: whether several models also have a line each, as several programs always have.
    """
    judged = list(filter(_is_only_judged, runs))
    lines = list(map(_of_evaluation, judged[:MOST_LINES]))
    lines += [f"{left} more evaluations: see the table"] if (left := len(judged) - MOST_LINES) > 0 else []
    found = sweeps([run for run in runs if not _is_only_judged(run)])
    several = len({_scope_of(sweep[0]) for sweep in found}) > 1
    tasks = not several and len(found) > 1  # one order of all would say nothing
    shown = found[:MOST_LINES] if tasks else found
    for sweep in shown:
        groups = comparable_groups(sweep)
        scope = f"{_scope_of(sweep[0])}: " if several else ""
        if tasks and len(groups) == 1 < len(sweep):  # of one run the line itself has its model
            scope = f"{one_line(sweep[0].job.model.name)}: "
        if scope and len(groups) == 1 and sweep[0].job.command:  # of one run the line itself has all of it
            scope = f"{group_title(sweep[0])}: " if len(sweep) > 1 else ""
        told = _of_models(sweep) if len(groups) > 1 else _of_group(sweep)
        lines += [f"{scope}{line}" for line in told if not tasks or line not in _doubts(sweep)]
        if (each or sweep[0].job.command) and len(groups) > 1:
            lines += [
                (f"{group_title(group[0])}: " if len(group) > 1 else scope)
                + "; ".join(_of_runtimes(group, alone=False))
                for group in groups[:MOST_LINES]
            ]
            left = len(groups) - MOST_LINES
            lines += [f"{left} more models: see the recommendation of each"] if left > 0 else []
            lines += why_programs_differ(sweep)
    lines += [f"{left} more networks: see the recommendation of each"] if (left := len(found) - len(shown)) else []
    lines += _doubts([run for sweep in found if not is_decided_by_load(sweep) for run in sweep]) if tasks else []
    return (*lines, *_of_start_ups(runs), *_of_files(runs), *_of_assumed_sizes(runs))


def _of_start_ups(runs: Sequence[Run]) -> list[str]:
    """Return that most of a start-up is over before the first inference, with its shares, where that is so of each."""
    parts = {
        "importing the engine": "import_time",
        "loading the model": "load_time",
        "the first inference": "latency_first",
    }
    starts = [(run, total) for run in runs if run.headline == "startup_time" and (total := run.value("startup_time"))]
    shares = {words: [(run.value(part) or math.nan) / total for run, total in starts] for words, part in parts.items()}
    last = shares["the first inference"]
    if not starts or any(not share < 1 - MOST_OF_START for share in last):
        return []
    told = [f"{words} is {_from_to(some)}" for words, some in shares.items() if not any(map(math.isnan, some))]
    return [f"Of the start-up {listing(told)}; starting Python is the rest: inference is not what differs here"]


def _from_to(shares: Sequence[float]) -> str:
    """``"83 %"``, ``"83 to 92 %"``."""
    low, high = percent(min(shares)), percent(max(shares))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def _is_only_judged(run: Run) -> bool:
    """Whether `run` has an accuracy, and no value of what its scenario measures."""
    return run.status == "done" and run.value(run.headline) is None and chief_metric(run) is not None


def _of_evaluation(run: Run) -> str:
    """Return the accuracy of a run that nothing else was measured of, with its interval and number of samples."""
    row = run.measurement(chief_metric(run) or "")
    if row is None or row.value is None:
        why = (row.absent_because if row is not None else "") or NOT_MEASURED
        said = f"no {in_sentence(label_of(row.metric)) if row is not None else 'score'}: {one_line(why)}"
    else:
        said = f"{in_sentence(label_of(row.metric))} {with_range(row.metric, row.unit, row.value, row.low, row.high)}"
    if (found := run.evaluation) is not None:
        of = f" of {found.data.size}" if found.n < found.data.size else ""
        said += f" on {found.n}{of} sample{'' if found.data.size == 1 else 's'}"
    return f"{one_line(run.job.model.name)}{_where(run)}: {said}"


_SAME_BELOW = 1e-7
"""A share of the scale that one rounding of a 32-bit number makes: below it nothing can be told."""


_PERCENT_FROM = 1e-4


def share_of_scale(share: float) -> str:
    """``"0.38 %"``, ``"0.901 parts per million"``: a share without a row of zeros."""
    if share < _SAME_BELOW:
        return f"at most {_SAME_BELOW * 1e6:g} parts per million"
    return f"{significant(percent_of(share))} %" if share >= _PERCENT_FROM else f"{share * 1e6:.3g} parts per million"


def _of_files(runs: Sequence[Run]) -> list[str]:
    """Whether files of one network put out the same, as far as they were compared."""
    names = list(dict.fromkeys(run.job.model.name for run in runs))
    told = [(run, name, row) for run in runs if (row := run.measurement("output_max_rel_error")) for name in names]
    said = []
    for run, name, row in told:
        if row.value is None and (row.absent_because or "").startswith(not_compared(name)):
            said.append(f"{run.job.model.name} {row.absent_because}")
        elif row.value is not None and row.method.startswith(compared_with(name)):
            words = "differs from {} by" if row.method.endswith(BEYOND) else "agrees with {} within"
            said.append(f"{run.job.model.name} {words.format(name)} {share_of_scale(row.value)} of their scale")
    return [f"Outputs: {one_line('; '.join(dict.fromkeys(said)))}"] if said else []


def _of_assumed_sizes(runs: Sequence[Run]) -> list[str]:
    """Sizes of inputs that the files leave open: with others, every number may be another one."""
    found = dict.fromkeys(
        (spec.name, spec.shape) for run in runs for spec in run.job.workload.inputs if ASSUMED in spec.note
    )
    if not found:
        return []
    shown = [f"{name} {'×'.join(map(str, shape)) or 'its value'}" for name, shape in found]
    name, shape = next(((name, shape) for name, shape in found if shape), ("", ()))
    advice = f" → set yours: --shape {name}={'x'.join(map(str, shape))}" if shape else ""
    return [one_line(f"Assumed: {enumerate_few(shown)}; other sizes take other times{advice}")]


def _of_models(runs: Sequence[Run]) -> list[str]:
    """Which model is the fastest, with a line for each further fact, and which is the smallest."""
    ranked = rank_models(runs)
    overlooked = list[Run]()
    if is_decided_by_load(runs):
        lines = [_line_under_load(runs)]
    elif not any(one.place == 1 for one in ranked):
        lines = ["Fastest: can't be told", *_doubts(runs)]
    else:
        lines, overlooked = _of_ranked(runs, ranked)
    seen = {run.job.model.family for run in overlooked}
    if is_decided_by_load(runs):  # the line names all that have a processor time
        seen |= {run.job.model.family for run in runs if run.status == "done" and run.value("cpu_time")}
    unranked = [one for one in ranked if one.place is None and one.run.job.model.family not in seen]
    left = [f"{one.model} ({objection_of(one.run).brief})" for one in unranked]
    return [*lines, *([f"Not ranked: {enumerate_few(left)}"] if left else []), *_smallest_of(ranked, runs)]


def chosen_of(runs: Sequence[Run]) -> Run | None:
    """Return the run of one of `sweeps` that the answer says to take; None where it names none."""
    if len(comparable_groups(runs)) == 1:
        return next((run for run in runs if run.id == recommendations(runs)[0].run), None)
    every = every_candidate(runs)
    leading = {one.run.id for one in rank_models(runs) if one.place == 1}
    leaders = [one for one in in_order(every) if one.run.id in leading]
    return prefer(leaders, every)[0].run if leaders else None


def _of_ranked(runs: Sequence[Run], ranked: Sequence[RankedModel]) -> tuple[list[str], list[Run]]:
    """Return what to take of models of which one is the first, a line for each fact; and the `_overlooked` runs."""
    every, name = in_order(every_candidate(runs)), _namer(runs)
    own = {one.run.id: one for one in every}
    leaders = [own[one.run.id] for one in ranked if one.place == 1]
    chosen, _ = prefer(leaders, every)
    tied = [one for one in levels(every)[0] if one is not chosen and not are_apart(one, chosen)]
    tied = _in_order_of_turns(tied, chosen)
    overlooked, undecided = _overlooked(runs, chosen, every), _undecided(runs, chosen, every)
    family = [one for one in every if one.run.job.model.family == chosen.run.job.model.family]
    of = OF_RANKED if any(may_be_as_fast(run, chosen) for run in overlooked) else ""
    is_apart = not tied or all(one in family for one in tied)
    # Programs that are compared do one work. Which network somebody needs is not known.
    take = ("Of the ranked runs take " if of else "Take ") if command_of(chosen.run) else f"Among the fastest{of}: "
    lead = UNTIL_THEN if undecided else f"Fastest{of}: " if is_apart else take
    if tied and is_apart:
        lead += f"{one_line(chosen.run.job.model.name)}; of its runs take "
    if tied:
        named = [chosen, *tied] if is_apart else [replace(one, label=name(one.run)) for one in (chosen, *tied)]
        first, *others = _tie_of(named, leaders)
    else:
        first, others = f"{name(chosen.run)}, {_value_of_chosen(chosen, every, name)}", []
    rest = [one for one in family if one not in tied]
    threads, rival = _of_threads(chosen, family)
    facts = [threads, _of_not_told(chosen, rest, rival if threads else None)]
    after = next((one.run for one in ranked if one.place == 2), None)
    shown = [chosen, *tied]
    if after is not None:
        cost, better = _cost_of(own[after.id], chosen, [*leaders, *every], name), _better_of(own[after.id], every)
        between = any(has_better_value(one, own[after.id]) for one in every if one not in shown)
        why = "; ".join(filter(None, [cost, better]))
        words = f"ext{' model' if between else ''} {name(after)}, {headline_text(after)} ({why})"
        if tied or better or is_unreliable(chosen.run):
            facts.append(f"N{words}")
        else:
            first += f"; n{words}"
        shown.append(own[after.id])
    told = {provider_of(one.run) for one in shown}
    second = _nearest(chosen, [one for one in every if provider_of(one.run) not in told]) if len(told) < 2 else None
    if second is not None and ((said := _beside(second, chosen)) or second not in family):
        words = f"is {said}" if said else _not_told(second, chosen)
        facts.append(f"{name(second.run)} {words}{how_apart(second, chosen)}")
    # Proofs in a circle: by intervals it is slower than what is slower than the fastest.
    against = next((one for one in ranked if one.place and is_faster(own[one.run.id], chosen)), None)
    facts += [f"But {against.model} is faster in turns: repeat it on an idle machine"] if against else []
    facts += _lines_of_overlooked([run for run in overlooked if run is not undecided], chosen, name)
    doubt = _lines_of_undecided(undecided, chosen.run, name) if undecided else []
    return [*doubt, lead + first, *others, *filter(None, facts), *_doubts(runs)], overlooked


OF_RANKED = " of the ranked runs"
UNTIL_THEN = "Until then take "
"""Begins what is advised where a run of grade D leaves open which is the fastest."""


def _undecided(runs: Sequence[Run], chosen: Candidate, ranked: Sequence[Candidate]) -> Run | None:
    """Return the best of the runs of grade D that have a better value than `chosen` and took no turns with it.

    None where turns proved that others are faster.
    """
    behind = {one.run.id for some in levels(ranked)[1:] for one in some}
    able = [
        run
        for run in runs
        if is_only_unreliable(run) and run.headline == chosen.run.headline and run.id not in behind
        if _is_better(run, chosen) and run.turns_against(chosen.run) is None
    ]
    return min(able, key=lambda run: (run.value(run.headline) or 0.0) * (-1 if chosen.is_rate else 1), default=None)


def _lines_of_undecided(run: Run, chosen: Run, name: Callable[[Run], str]) -> list[str]:
    """Return that `run`, of grade D, may be faster than `chosen`, and the command that decides it."""
    values = [headline_text(one, interval=False) for one in (run, chosen)]
    first = f"Not decided: {name(run)} ({values[0]}, {UNRELIABLE}) may be faster than {name(chosen)} ({values[1]})"
    command = compare_command([chosen, run])
    return [first, f"To decide: {command}" if command else "To decide, measure both again on an idle machine"]


def _as_reason(line: str) -> str:
    """``"not decided: …"``: a line of `_lines_of_undecided` among reasons."""
    return line[0].lower() + line[1:]


def compare_command(runs: Sequence[Run], *, places: bool = False) -> str:
    """``edgewise compare m.onnx,runtime=openvino,threads=1 …``: what measures runs of one place in turns; "" if nothing
    here does.

    Args:
        places: whether models outside the current folder have their paths.
    """
    if not all(map(is_comparable, runs)):
        return ""
    job = runs[0].job
    words = ["edgewise", "compare", *(_subject_of(run, places=places) for run in runs)]
    words += [] if job.target.device == LOCAL else ["-d", job.target.device]
    words += ["--batch", str(job.workload.batch)] if job.workload.batch > 1 else []
    kind = job.workload.scenario.kind
    words += ["--scenario", kind] if kind != Scenario().kind else []
    return one_line(shlex.join(words))


def is_comparable(run: Run) -> bool:
    """Return whether ``compare`` can measure what `run` measured; what is not installed here can't be."""
    try:
        return can_take_turns(run)
    except Unavailable:
        return False


def _subject_of(run: Run, *, places: bool) -> str:
    """``model.onnx,runtime=onnxruntime,threads=2``: a run as ``compare`` measures it again."""
    runtime = run.job.runtime
    engine = runtime.name if runtime.provider is None else f"{runtime.name}/{runtime.provider}"
    words = [typed_path(run, places=places), f"runtime={engine}", f"threads={threads_of(run) or 1}"]
    return ",".join([*words, *([f"precision={runtime.precision}"] if runtime.precision else [])])


_ALONE = f"measured alone: {UNRELIABLE}"


def _value_of_chosen(chosen: Candidate, every: Sequence[Candidate], name: Callable[[Run], str]) -> str:
    """``100 ± 1 µs``; of grade D ``1.55 [0.4, 9.3] ms (measured alone: grade D; 1.50× [1.4, 1.6] faster than A in
    turns)``.
    """
    if not is_unreliable(chosen.run):
        return headline_text(chosen.run)
    turned = [one for one in every if is_faster(chosen, one) and turns_of(chosen, one) is not None]
    proof = f"; {factor_of(chosen, turned[0])} faster than {name(turned[0].run)} in turns" if turned else ""
    return f"{headline_text(chosen.run)} ({_ALONE}{proof})"


def _smallest_of(ranked: Sequence[RankedModel], runs: Sequence[Run]) -> list[str]:
    """Return which of the models that run has the smallest file, and which program takes the least memory; empty where
    that is not known.
    """
    ran = {one_line(run.job.model.name) for run in runs if run.status != "failed"}
    files = [one for one in ranked if not command_of(one.run)]  # what starts a program is no model
    sizes = {one.model: size for one in files if (size := one.run.job.model.size_bytes) and one.model in ran}
    least = min(sizes.values(), default=0)
    smallest = " and ".join(model for model, size in sizes.items() if size == least)
    lines = [f"Smallest: {smallest}, {quantity(least, 'B')}"] if smallest else []
    return [*lines, *_of_memory([one for one in ranked if command_of(one.run)])]


def _of_memory(programs: Sequence[RankedModel]) -> list[str]:
    """Return which program has the least peak memory, where the next has more by an amount that matters."""
    peaks = sorted((peak, one.model) for one in programs if (peak := one.run.value("memory_group_peak")))
    if len(peaks) < 2 or peaks[1][0] < peaks[0][0] * (1 + PRACTICAL):
        return []
    (least, model), (more, other) = peaks[:2]
    return [f"Least peak memory: {model}, {quantity(least, 'B')} ({other} {quantity(more, 'B')})"]


def why_programs_differ(runs: Sequence[Run]) -> list[str]:
    """Return where to look for why one of several programs is faster; none for variants of one program."""
    commands = [run.job.command for run in runs if command_of(run)]
    scripts = [tuple(word for word in words if word.rpartition(".")[2] in SCRIPTS) for words in commands]
    if len({own or words[:1] for own, words in zip(scripts, commands, strict=True)}) < 2:
        return []
    return [
        "Why one is faster is not measured; of programs that run a network, this shows what starting costs (import, "
        "load, first inference): edgewise bench MODEL --scenario cold-start -r A,B"
    ]


def _tie_of(named: Sequence[Candidate], leaders: Sequence[Candidate]) -> list[str]:
    """Return which of `named` to take and why, as nothing proves an order of them, then the others where many.

    Args:
        leaders: the recommended runs of their models.
    """
    chosen, *tied = named
    way = " in turns" if any(turns_of(one, chosen) is not None for one in tied) else ""
    for some in (named, [one for one in named if any(each.run is one.run for each in leaders)]):
        best, reasons = prefer(some)
        if best is chosen:
            break
    why = f" ({brief_of(reasons)})" if best is chosen else ""
    told, alike = f"{chosen.label}{why}, {headline_text(chosen.run)}", _tied_texts(tied, chosen)
    likely = any(likely_verdict(one, chosen) for one in tied)
    line = f"{told}; {_open_texts(tied, chosen) if likely else f'{enumerate_few(alike, 3)} {NOT_TOLD}{way}'}"
    if len(alike) == 1 or len(line) <= MOST_OF_FIRST_LINE:
        return [line]
    words = f"of {len(alike)} others none is proven slower{way}" if likely else f"{len(alike)} others {NOT_TOLD}{way}"
    rest = _open_texts(tied, chosen) if likely else enumerate_few(alike, 3)
    return [f"{told}; {words}", f"The others: {rest}"]


def _tied_texts(tied: Sequence[Candidate], chosen: Candidate) -> list[str]:
    """``kws.onnx on onnxruntime/cpu (latency 1.08× [0.9, 1.3])``, ``… (1.55 ms, grade D)``: runs beside `chosen`.

    Those that took turns with it have their ratio, the others their value.
    """
    texts, noun = [], f"{noun_of(chosen.run)} "
    for one in tied:
        if turns_of(one, chosen) is not None:
            texts.append(f"{one.label} ({noun}{factor_of(one, chosen, slow=not one.is_rate)})")
            noun = ""
            continue
        words = [headline_text(one.run, interval=False), *([UNRELIABLE] if is_unreliable(one.run) else [])]
        words += ["took no turns"] if chosen.run.in_turns and not one.run.in_turns else []
        texts.append(f"{one.label} ({', '.join(words)})")
    return texts


def is_decided_by_load(runs: Sequence[Run]) -> bool:
    """Whether `runs` are of programs whose order the load of others decides, and whose processor time is known."""
    spent = [run for run in runs if run.status == "done" and run.value("cpu_time")]
    return len(spent) > 1 and all(run.job.command for run in runs) and bool(worst_load(runs))


def _line_under_load(runs: Sequence[Run]) -> str:
    """Return which program is fastest on a busy machine, where all that load touches says the same of every other.

    Otherwise which needs the least processor time, and what the total times of executions in turns leave open.
    """
    spent = {run.id: time for run in runs if run.status == "done" and (time := run.value("cpu_time"))}
    first, *others = sorted((run for run in runs if run.id in spent), key=lambda run: spent[run.id])
    variants = [Variant(label=run.id, run=run) for run in (first, *others)]
    rows = compare_runs(variants, Criteria(metrics=("total_time", "cpu_time")))
    found = {(row.b, row.metric): row for row in rows}
    slower = [run for run in others if _is_slower_in_turns(run, first, [row for row in rows if row.b == run.id])]
    best = one_line(first.job.model.name)
    told = [f"{one_line(run.job.model.name)} is {_factor(found[run.id, 'total_time'])} slower" for run in slower]
    if len(slower) == len(others):
        proof = f"in turns within these minutes; processor times say the same ({worst_load(runs)})"
        return f"Fastest: {best}, {headline_text(first)}; {enumerate_few(told)}, {proof}"
    more, alike = [], []
    for run in others:
        row, name = found[run.id, "cpu_time"], one_line(run.job.model.name)
        if row.verdict == "slower" and row.ratio is not None:
            more.append(f"{name} needs {_factor(row)} as much")
        else:
            alike.append(f"{name} ({quantity(spent[run.id], 's')})")
    least = first.measurement("cpu_time")
    text = amount_text("s", spent[first.id], *((least.low, least.high) if least is not None else (None, None)))
    costs = [*([enumerate_few(more)] if more else []), *([f"{enumerate_few(alike)} {NOT_TOLD}"] if alike else [])]
    doubtful = [run for run in others if run not in slower]
    limits = [
        f"above {limit} for {one_line(run.job.model.name)}" for run in doubtful if (limit := _limit_of(found, run.id))
    ]
    said = [f"in total time {enumerate_few(told)} than {best}"] if told else []
    said += [f"excluded are differences of total time from {best} {enumerate_few(limits)}"] if limits else []
    which = f"of {enumerate_few([best, *(one_line(run.job.model.name) for run in doubtful)])} " if told else ""
    return (
        f"Which {which}is fastest can't be told on this busy machine ({worst_load(runs)}); least processor time: "
        f"{best}, {text}; {'; '.join([*costs, *said])}"
    )


def _factor(row: Comparison) -> str:
    return "" if row.ratio is None else times_text(row.ratio, row.low, row.high)


def _limit_of(found: Mapping[tuple[str, str], Comparison], run: str) -> str:
    """``"24 %"``: the difference in total time that the 95 % interval excludes; "" where there is none."""
    row = found[run, "total_time"]
    if row.low is None or row.high is None or row.design != "interleaved" or row.low == row.high:
        return ""
    return f"{math.ceil(max(row.high - 1.0, 1.0 - row.low) * 100)} %"


def _is_slower_in_turns(run: Run, first: Run, rows: Sequence[Comparison]) -> bool:
    """Return whether executions in turns prove `run` slower than `first` in total and in processor time.

    As of inferences in turns, the mean, the shortest tenth and neighbouring executions must not contradict that.
    """
    if any(row.verdict != "slower" or row.design != "interleaved" for row in rows):
        return False
    turns = [_turns_of_executions(each) for each in (first, run)]
    return all(log > 0.0 for logs in log_ratios(turns[:1], turns[1:]).values() for log in logs.tolist())


def _turns_of_executions(run: Run) -> Turns:
    """Return the executions of a program as turns of one inference each."""
    row = run.measurement("total_time")
    times = np.asarray(row.samples if row is not None else ())
    return Turns.of(times, [1] * len(times))


def _cost_of(after: Candidate, chosen: Candidate, others: Sequence[Candidate], name: Callable[[Run], str]) -> str:
    """How much slower the next model is than `chosen`, or than the first of the `others` of which that is proven."""
    if is_faster(chosen, after):
        return _beside(after, chosen)
    rival = next((one for one in others if is_faster(one, after)), None)
    if rival is None:
        return _not_told(after, chosen)
    return f"{_beside(after, rival)} than {name(rival.run)}"


def _better_of(after: Candidate, every: Sequence[Candidate]) -> str:
    """Return the run of the same model that has a better value and is not proven faster; "" where there is none."""
    family = (one for one in every if one.run.job.model.family == after.run.job.model.family)
    best = next((one for one in family if has_better_value(one, after) and not are_apart(one, after)), None)
    return f"{best.label}, {headline_text(best.run)}, {_not_told(best, after)}" if best is not None else ""


def _of_group(runs: Sequence[Run]) -> list[str]:
    """Return the recommended runtime of one model, and where that may not hold."""
    return [*_of_runtimes(runs), *_doubts(runs)]


def _doubts(runs: Sequence[Run]) -> list[str]:
    """Return the load of others, else that runs have several speeds, a line at most; the rest stands below."""
    return load_lines(runs) or speed_lines(runs)


def _of_runtimes(runs: Sequence[Run], *, alone: bool = True) -> list[str]:
    """Return the recommended runtime of one model, and a line for each further advantage.

    Args:
        alone: whether no other model is named beside it.
    """
    if len(runs) == 1:
        run = runs[0]
        what = failure_of(run) if run.status != "done" else f"{noun_of(run)} {_judged_text(run)}{use_of(run)}"
        where = _where(run) if alone or not run.job.command else ""
        return [f"{one_line(run.job.model.name)}{where}: {what}"]
    (found,) = recommendations(runs)
    if found.run is None:
        said = [f"{label} ({objection_of(run).brief})" for run, label in zip(runs, labels_of(runs), strict=True)]
        return [f"No run can be recommended: {enumerate_few(said)}{_least_value(runs)}"]
    ranked, _ = candidates_of(runs)
    chosen = next(one for one in ranked if one.run.id == found.run)
    full = _in_full_precision(ranked)
    threads, rival = _of_threads(chosen, full)
    not_told = _of_not_told(chosen, full, rival if threads else None)
    told = [threads, _of_second_engine(chosen, full), not_told, _of_lower_precision(chosen, ranked), found.tie]
    # Of a single run its sentence repeats the number that stands before it.
    why = found.why[0].partition(": ")[0] if len(ranked) == 1 else found.why[0]
    first, *facts = [*filter(None, told)] or [why]
    labels = dict(zip([run.id for run in runs], labels_of(runs), strict=True))

    def name(run: Run) -> str:
        return labels[run.id]

    overlooked, undecided = _overlooked(runs, chosen, ranked), _undecided(runs, chosen, ranked)
    value = _judged_text(chosen.run)
    if is_unreliable(chosen.run):  # the proof stands behind it
        value = f"{headline_text(chosen.run)} ({_ALONE})"
    lead = f"{UNTIL_THEN if undecided else 'Recommended: '}{found.label}, {noun_of(chosen.run)} {value}"
    doubt = _lines_of_undecided(undecided, chosen.run, name) if undecided else []
    rest = _lines_of_overlooked([run for run in overlooked if run is not undecided], chosen, name)
    return [*doubt, f"{lead}; {first}", *facts, *rest]


def _least_value(runs: Sequence[Run]) -> str:
    """Return the best value of several unreliable runs, which proves nothing; "" where fewer than two are done."""
    labels = dict(zip([run.id for run in runs], labels_of(runs), strict=True))
    done = [(value, run) for run in runs if run.status == "done" and (value := run.value(run.headline))]
    if len(done) < 2:
        return ""
    is_rate = METRICS[done[0][1].headline].better == "higher"
    _, best = (max if is_rate else min)(done, key=lambda each: each[0])
    return f"; the {'highest' if is_rate else 'lowest'} value is that of {labels[best.id]}, {headline_text(best)}"


def _overlooked(runs: Sequence[Run], chosen: Candidate, ranked: Sequence[Candidate]) -> list[Run]:
    """Return the runs that are not in `ranked` and have a better value than `chosen`, or may be as fast."""
    ids = {one.run.id for one in ranked}
    return [
        run
        for run in runs
        if run.id not in ids and run.headline == chosen.run.headline
        if _is_better(run, chosen) or may_be_as_fast(run, chosen)
    ]


def _is_better(run: Run, chosen: Candidate) -> bool:
    """Return whether `run` has a better value than `chosen`."""
    value = run.value(run.headline)
    return value is not None and (value > chosen.value if chosen.is_rate else value < chosen.value)


def _lines_of_overlooked(runs: Sequence[Run], chosen: Candidate, name: Callable[[Run], str]) -> list[str]:
    """Return each of the `_overlooked` runs with its value and why it is not ranked; empty where there are none."""
    said = dict[bool, list[str]]({True: [], False: []})
    for run in runs:
        better = _is_better(run, chosen)
        value = headline_text(run, interval=not better)
        said[better].append(f"{name(run)}, {value} ({objection_of(run).brief or UNRELIABLE})")
    titles = {True: "Not ranked, though its value is better", False: "Not ranked, and may be as fast"}
    return [f"{titles[better]}: {enumerate_few(some, 3)}" for better, some in said.items() if some]


def use_of(run: Run) -> str:
    """``; peak memory 51.2 MiB of 512 MiB, 0.48 processors in use (limit 0.5, paused by it for 1.20 s)``: of a program.

    "" for a model.
    """
    if not run.job.command:
        return ""
    limits, peak, busy = run.job.target.constraints, run.value("memory_group_peak"), run.value("cpu_utilization")
    most, cpus = (limits.memory_bytes, limits.cpus) if limits else (None, None)
    of = f" of {format_limit(most)}" if most else ""
    words = [] if peak is None else [f"peak memory {quantity(peak, 'B')}{of}"]
    paused = run.value("throttled_time")
    held = "" if paused is None else f", paused by it for {quantity(paused, 's')}" if paused else ", never paused by it"
    limit = f" (limit {cpus:g}{held})" if cpus else ""
    words += [] if busy is None else [f"{significant(busy, 2)} processors in use{limit}"]
    return f"; {', '.join(words)}" if words else ""


def _namer(runs: Sequence[Run]) -> Callable[[Run], str]:
    """Return what names one of `runs`: ``kws.onnx on onnxruntime/cpu with 2 threads``; a program by its name alone.

    Threads are named where any run has more than one.
    """
    told = any((threads_of(run) or 1) > 1 for run in runs)

    def name(run: Run) -> str:
        threads = threads_of(run) or 1
        where = "" if run.job.command else _where(run)
        words = f" with {threads} thread{'s' if threads > 1 else ''}" if told and not run.job.command else ""
        return f"{one_line(run.job.model.name)}{where}{words}"

    return name


def _where(run: Run) -> str:
    """Return ``" on onnxruntime/cpu"``; for a program with limits ``" (mechanism cgroup-v2)"``, without ``""``."""
    engine = provider_of(run)
    if not run.job.command:
        return f" on {engine}"
    return f" (mechanism {engine.partition('/')[2]})" if run.job.target.constraints is not None else ""


def _judged_text(run: Run) -> str:
    grade = "" if run.trust is None else f", grade {run.trust.grade}"
    return headline_text(run) + grade + (" (unreliable)" if grade.endswith("D") else "")


def headline_text(run: Run, *, interval: bool = True) -> str:
    """``"409 ± 17 µs"``: the number that the run's scenario is about, or that there is none."""
    row = run.measurement(run.headline)
    if row is None or row.value is None:
        return f"no {METRICS[run.headline].label.lower()}"
    return amount_text(row.unit, row.value, *((row.low, row.high) if interval else (None, None)))
