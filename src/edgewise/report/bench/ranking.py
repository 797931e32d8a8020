"""The runs and models that may be recommended, in order: who is proven faster than whom, and where that may not hold.

Runs are set against each other as ``compare`` does it (`edgewise.comparing.judging`): by their ratio where they took
turns, else by their processes, or by their intervals where these are for a re-run. An answer may be another one on a
quiet machine, where this one was busy, and later, where turns decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from pathlib import PurePath
from typing import NamedTuple

from edgewise.comparing.comparison import Comparison, why_unproven
from edgewise.comparing.fairness import is_one_task
from edgewise.comparing.judging import FIRST, SECOND, is_proven_faster, judge
from edgewise.formatting import quantity, times_text
from edgewise.grouping import by_key, in_levels
from edgewise.metrics import METRICS
from edgewise.record import InTurns, Measurement, Run
from edgewise.record.caution import loads_of
from edgewise.record.facts import is_unreliable, threads_of
from edgewise.report.comparison.words import UNSEEN, disagreement_text, lasting_text
from edgewise.report.runs.cells import failure_of, reason_of_absence
from edgewise.report.runs.conditions import labels_by_id, labels_of, processor_of, scenario_of
from edgewise.text import enumerate_few, listing, one_line
from edgewise.units import significant

PRACTICAL = 0.05
"""Memory or start-up that differs by less than this share decides nothing."""

NOT_TOLD = "can't be told apart from it"

DISQUALIFYING = {
    "output-mismatch": "outputs differ",
    "output-not-finite": "outputs not finite",
    "overloaded": "overloaded",
}
"""Code of a caution with which a run is not recommended → why, in few words."""


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

    @property
    def is_rate(self) -> bool:
        """Whether more of the headline is better."""
        return METRICS[self.row.metric].better == "higher"


def comparable_groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs that may be compared with each other, in order of first appearance.

    Model file, shapes, batch, scenario, headline, device, limits and processor are the same; threads, precision and
    engine may differ.
    """

    def conditions(run: Run) -> tuple[object, ...]:
        model, workload = run.job.model, run.job.workload
        scenario = replace(workload.scenario, streams=None, requests=None)  # the engine's own setting may differ
        # Exports of one network may name its inputs differently.
        named = model.origin is None
        shapes = tuple((spec.name if named else "", spec.shape) for spec in workload.inputs)
        return model.family, run.job.command, shapes, workload.batch, scenario, run.job.target.transport, *_place(run)

    return list(by_key((conditions(run), run) for run in runs).values())


def sweeps(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs that differ in model, engine and settings alone: same scenario, batch, target, processor and task.

    Other programs do other work: those of a sweep run one command, but for its model. Models of one task take inputs
    and give outputs of the same sizes; the speeds of others are no order.
    """

    def conditions(run: Run) -> tuple[object, ...]:
        return scenario_of(run), run.job.workload.batch, _command_without_model(run), *_place(run)

    alike = by_key((conditions(run), run) for run in runs).values()
    return [one_task for some in alike for one_task in _by_task(some)]


def _by_task(runs: Sequence[Run]) -> list[list[Run]]:
    """Return `runs` in parts of one task each, all runs of a model in one part."""
    tasks: list[list[Run]] = []
    for group in comparable_groups(runs):
        own = next((task for task in tasks if is_one_task([*task, *group])), None)
        if own is None:
            tasks.append(group)
        else:
            own += group
    places = {run.id: place for place, task in enumerate(tasks) for run in task}
    return list(by_key((places[run.id], run) for run in runs).values())


def _command_without_model(run: Run) -> tuple[str, ...]:
    """Return the words of a command, those that name its model empty; of the model's path, its last part counts."""
    model, command = run.job.model, run.job.command
    if model.format == "program":
        return command
    name = re.compile(rf"(?<!\w){re.escape(PurePath(model.path).name)}(?!\w)")
    return tuple("" if name.search(word) else word for word in command)


def _place(run: Run) -> tuple[object, ...]:
    """Return what the run is about and where it took place; no processor where it failed before that was read."""
    target = run.job.target
    return run.headline, target.device, target.memory_limit_bytes, target.constraints, processor_of(run)


def candidates_of(group: Sequence[Run]) -> tuple[list[Candidate], list[str]]:
    """Return the runs of a comparable group that qualify, the fastest first, and the objections to the others."""
    metric = group[0].headline
    candidates: list[Candidate] = []
    objections: list[str] = []
    for run, label in zip(group, labels_of(group), strict=True):
        objection = objection_of(run).full
        row = run.measurement(metric)
        if objection or row is None:
            objections.append(f"{label} is left out: {objection}")
        else:
            candidates.append(Candidate(run, label, row))
    return in_order(candidates), objections


def every_candidate(sweep: Sequence[Run]) -> list[Candidate]:
    """Return the runs of all models of one of `sweeps` that qualify."""
    return [one for group in comparable_groups(sweep) for one in candidates_of(group)[0]]


def _preferred_to(one: Candidate, group: Sequence[Candidate]) -> Candidate | None:
    """Return a run that stands for the model rather than `one` of grade D; what turns decided needs no such rule.

    Nor does one that is probably faster in turns, or one that has fewer threads and that turns could not tell from it:
    both decide before grades.
    """
    told = {each.against: each.verdict for each in one.run.in_turns}
    others = [each for each in group if each is not one]
    if not is_unreliable(one.run) or any(told.get(each.run.id) == "slower" for each in others):
        return None
    reliable = (each for each in others if not is_unreliable(each.run))
    return next((each for each in reliable if not _outranks(one, each, told.get(each.run.id))), None)


def _outranks(one: Candidate, other: Candidate, verdict: str | None) -> bool:
    """Whether `one` of grade D may stand before `other` of a better grade, by the verdict of their turns if any."""
    threads, more = threads_of(one.run), threads_of(other.run)
    fewer = verdict is not None and threads is not None and more is not None and threads < more
    return fewer or verdict == "faster" or _is_likely_faster_in_turns(one, other)


def in_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the fastest first: none stands before one that is proven faster; for the rest the values decide."""
    return [one for some in levels(candidates) for one in some]


def levels(candidates: Sequence[Candidate], among: Sequence[Candidate] = ()) -> list[list[Candidate]]:
    """Those that none is proven faster than, then those that none of the rest is proven faster than, and so on.

    Args:
        among: other runs of the models: what is slower than one that a candidate is faster than is slower than that
            candidate.
    """
    left = sorted(candidates, key=lambda one: -one.value if one.is_rate else one.value)
    beaten = {one.run.id: [each for each in among if _is_one_model(each, one) and is_faster(one, each)] for one in left}

    def is_ahead(each: Candidate, one: Candidate) -> bool:
        if is_faster(each, one) or is_faster(one, each) or each is one:
            return is_faster(each, one)
        return any(is_faster(between, one) for between in beaten[each.run.id])

    ahead = {at: {place for place, each in enumerate(left) if is_ahead(each, one)} for at, one in enumerate(left)}
    # Ratios in turns and of runs apart may prove a circle: then the best value leads.
    return [[left[at] for at in level] for level in in_levels(range(len(left)), ahead)]


def _is_one_model(one: Candidate, other: Candidate) -> bool:
    return one.run.job.model.family == other.run.job.model.family


DRIFT = 2.0
"""Runs minutes apart whose values differ by less than this factor may have the other order side by side: within half an
hour the speed of a shared virtual machine changed by a factor of 1.6."""


def finalists(runs: Sequence[Run], *, everyone: bool = False, drifted: bool = False) -> list[list[Run]]:
    """Of each of `sweeps`, the runs of which any may be the fastest: two or more that one measurement can't tell apart.

    How trustworthy their own numbers are is no matter, as their ratios are to be measured. With one of grade D come
    those of its model that it can't be told apart from: only turns can prove that it is to be preferred to them.

    Args:
        everyone: all of them that have a number, the fastest first, also those that can be told apart.
        drifted: they were measured so far apart in time that intervals may mislead. Then it is all whose value or
            interval comes close to the best of those that are not of grade D, in the order of their values: what turns
            find does not change who they are.
    """
    found = []
    for sweep in sweeps(runs):
        able = [run for run in sweep if everyone or objection_of(run).brief in ("", UNRELIABLE)]
        rows = [Candidate(run, "", row) for run in able if (row := run.measurement(run.headline)) is not None]
        if everyone:
            found.append([one.run for one in in_order([one for one in rows if one.value > 0])])
            continue
        if drifted:
            found.append([one.run for one in _near_the_best(rows)])
            continue
        first, *rest = levels(rows) or [[]]
        doubtful = [one for one in first if is_unreliable(one.run)]
        beside = [
            each
            for some in rest
            for each in some
            if any(_is_one_model(one, each) and not are_apart(one, each) for one in doubtful)
        ]
        found.append([one.run for one in (*first, *beside)])
    return [some for some in found if len(some) > 1]


def _near_the_best(rows: Sequence[Candidate]) -> list[Candidate]:
    """Return those of `rows` that may be the fastest where the machine's speed drifts by `DRIFT`, by their values."""
    rows = sorted(rows, key=lambda one: -one.value if one.is_rate else one.value)
    best = next((one for one in rows if not is_unreliable(one.run)), rows[0] if rows else None)
    if best is None:
        return []
    far = best.value / DRIFT if best.is_rate else best.value * DRIFT
    return [one for one in rows if (one.value > far if best.is_rate else one.value < far) or _reaches(one.row, best)]


def took_turns(runs: Sequence[Run]) -> bool:
    """Whether each of `runs` was measured in turns with each other one."""
    return all(one.turns_against(other) is not None for one, other in combinations(runs, 2))


def peers_of(ranked: Sequence[Candidate], beside: Sequence[Candidate] = ()) -> list[Candidate]:
    """Those of one group that none of it is proven faster than, so that none can be told from another.

    Args:
        beside: runs of other models: what is slower than one that a peer is faster than is slower than that peer.
    """
    peers = levels(ranked)[0]
    values, ids = [one.value for one in peers], {one.run.id for one in peers}
    # Judging takes time: without turns, only a value between theirs can be slower than one and faster than another.
    possible = (
        other
        for other in beside
        if min(values) <= other.value <= max(values) or any(each.against in ids for each in other.run.in_turns)
    )
    between = [other for other in possible if any(is_faster(one, other) for one in peers)]
    return [one for one in peers if not any(is_faster(other, one) for other in between)] or peers


def may_be_as_fast(run: Run, chosen: Candidate) -> bool:
    """Return whether `run`, of grade D and not ranked, may be as fast as `chosen`.

    Turns tell, otherwise its interval where that reaches the one of `chosen`.
    """
    row = run.measurement(chosen.row.metric)
    if not is_unreliable(run) or row is None or row.value is None:
        return False
    if (turns := run.turns_against(chosen.run)) is not None:
        return turns.verdict != "slower"
    return _reaches(row, chosen)


def _reaches(row: Measurement, chosen: Candidate) -> bool:
    """Whether the interval of `row`, which has a value, reaches the one of `chosen` or is beyond it."""
    value = row.value or 0.0
    if chosen.is_rate:
        return (row.high or value) >= (chosen.value if chosen.row.low is None else chosen.row.low)
    return (value if row.low is None else row.low) <= (chosen.row.high or chosen.value)


UNRELIABLE = "grade D"


def is_only_unreliable(run: Run) -> bool:
    """Return whether grade D is all that speaks against recommending `run`: its ratios in turns may decide."""
    return is_unreliable(run) and objection_of(run).brief in ("", UNRELIABLE)


class Objection(NamedTuple):
    """Why a run can't be recommended, in a word or two and in a sentence; both are empty where it can."""

    brief: str
    full: str


def objection_of(run: Run) -> Objection:
    """Return what speaks against recommending a run; grade D does not where its ratios were measured in turns."""
    if run.status != "done":
        return Objection(run.failure.cause if run.failure is not None else run.status, failure_of(run))
    codes = {caution.code: caution.message for caution in run.cautions}
    for code, words in DISQUALIFYING.items():
        if code in codes:
            return Objection(words, f"{words}: {one_line(codes[code])}")
    value = run.value(run.headline)
    if value is None or not value > 0:
        return Objection("no number", f"no {noun_of(run)}: {reason_of_absence(run, run.headline)}")
    if run.trust is not None and is_unreliable(run) and not run.in_turns:
        why = one_line("; ".join(run.trust.reasons)) or "its numbers are unreliable"
        return Objection(UNRELIABLE, f"{UNRELIABLE}: {why}")
    return Objection("", "")


def turns_of(one: Candidate, other: Candidate) -> InTurns | None:
    """Return what measuring both in turns found, from the side of `one`; None where they were not."""
    return one.run.turns_against(other.run)


def why_open(turns: InTurns, begin: str) -> str:
    """Return, behind `begin`, why nothing is proven where the interval leaves 1 out; else ""."""
    sure = turns.low is not None and turns.high is not None and not turns.low <= 1.0 <= turns.high
    if not sure or turns.verdict != "inconclusive":
        return ""
    return f"{begin}: {why_unproven(turns.ratio, turns.proof_low, turns.proof_high)}"


def judged(one: Candidate, other: Candidate) -> Comparison:
    """`one` against `other`, as comparing the two says."""
    return judge(other.run, one.run)


def why_not_told(one: Candidate, other: Candidate) -> str:
    """``": the run of a has grade D"``: what speaks against a verdict; "" where it is only that nothing is proven."""
    row = judged(one, other)
    return "" if row.p_value is not None else f": {row.because.replace(FIRST, other.label).replace(SECOND, one.label)}"


def likely_verdict(one: Candidate, other: Candidate) -> str:
    """``"faster"``, ``"slower"``: what of `one` nothing speaks against but that it is not proven; else "".

    The printed interval leaves 1 out then, and it is that of turns or can be relied on.
    """
    row = judged(one, other)
    if row.verdict != "inconclusive" or row.ratio is None or row.low is None or row.high is None:
        return ""
    if row.low <= 1.0 <= row.high or (row.p_adjusted is None and turns_of(one, other) is None):
        return ""
    return "faster" if (row.ratio > 1.0) == one.is_rate else "slower"


def why_likely(one: Candidate, other: Candidate) -> str:
    """Return why nothing is proven where `likely_verdict` has an order, with the interval that decides."""
    label = SECOND if one.is_rate != (likely_verdict(one, other) == "slower") else FIRST
    row = judged(one, other)
    ratio, *_ = row.ratio_of(label)
    assert ratio is not None
    over = "metrics" if turns_of(one, other) is None else "pairs"
    return why_unproven(ratio, *row.proof_of(label), over=over)


def words_of_open(likely: str, count: int = 1, *, in_turns: bool = False) -> str:
    """``"can't be told apart from it in turns"``, ``"is probably slower, which is not proven"``, behind `count` names.

    Args:
        likely: of `likely_verdict`.
    """
    way = " in turns" if in_turns else ""
    if not likely:
        return f"{NOT_TOLD}{way}"
    return f"{'is' if count == 1 else 'are'} probably {likely}{way}, which is not proven"


def are_apart(one: Candidate, other: Candidate) -> bool:
    """Return whether one is proven faster."""
    return judged(one, other).verdict in ("faster", "slower")


def is_faster(one: Candidate, other: Candidate) -> bool:
    """Whether `one` is proven faster than `other`."""
    return is_proven_faster(other.run, one.run)


def has_better_value(one: Candidate, other: Candidate) -> bool:
    """Return whether the value of `one` in the table is better, even where measuring in turns proved nothing."""
    return one.value > other.value if one.is_rate else one.value < other.value


def speed_of(one: Candidate, other: Candidate) -> tuple[float | None, float | None, float | None]:
    """How many times as fast `one` is as `other`, with the ends of the interval; None where that is not known."""
    return judged(one, other).ratio_of(SECOND if one.is_rate else FIRST)


def factor_of(one: Candidate, other: Candidate, *, slow: bool = False) -> str:
    """``2.100× [1.900, 2.300]``: how many times as fast `one` is as `other`; how many times as slow, if `slow`."""
    ratio, low, high = judged(one, other).ratio_of(SECOND if one.is_rate != slow else FIRST)
    return "" if ratio is None else times_text(ratio, low, high)


def at_another_time(one: Candidate, other: Candidate, *, slow: bool = False) -> str:
    """`` in these minutes, which need not hold at another time (0.714 to 1.771)``, behind `factor_of`.

    "" where turns prove no order, and where the interval at another time leaves 1 out or is not known.
    """
    row = judged(one, other)
    proven = row.verdict in ("faster", "slower")
    return lasting_text(row, SECOND if one.is_rate != slow else FIRST) if proven else ""


class Reason(NamedTuple):
    """Why one of those that can't be told apart was chosen: what decided in a few words, and a sentence."""

    brief: str
    full: str


def prefer(peers: Sequence[Candidate], among: Sequence[Candidate] = ()) -> tuple[Candidate, list[Reason]]:
    """Among runs whose speeds can't be told apart: fewest threads, probably faster in turns, better grade, ahead in
    turns that decided nothing, least memory, quickest start-up.

    A metric decides nothing unless all of them have it. One of grade D has to be faster in turns, probably at least,
    than those of a better grade.

    Args:
        among: runs that one of grade D is preferred to only where it is faster in turns; `peers` where empty.
    """
    left = [one for one in peers if _preferred_to(one, among or peers) is None] or list(peers)
    reasons, without = list[Reason](), list[str]()
    if len(left) < len(peers):
        which = "as the only one" if len(left) == 1 else f"among the {len(left)}"
        proven = all(is_faster(left[0], one) for one in among or peers if not is_unreliable(one.run))
        brief = (_PROVEN if proven else _LIKELY) if is_unreliable(left[0].run) else _BETTER
        why = (
            brief
            if brief == _BETTER
            else f"{'proven' if proven else 'probably'} faster in turns than runs of a better grade"
        )
        reasons.append(Reason(brief, f"chosen {which} {why}"))
    for cost in _COSTS:
        left = _least(left, cost, reasons, without)
        if cost.read is threads_of and (likely := _probably_fastest(left)):
            others = listing([one.label for one in left if one not in likely])
            reasons.append(Reason(PROBABLE, f"chosen as {PROBABLE} than {others}, which is not proven"))
            left = likely
        elif cost.words == _GRADE:
            left = _ahead_in_turns(left, reasons)
    if len(left) > 1:
        alike = [name for cost in _COSTS if (name := cost.noun) not in without]
        said = [f"no difference that matters in {listing(alike)}"] if alike else []
        said += [f"not every run has an interval of {listing(without)}"] if without else []
        reasons.append(Reason("", f"chosen by its {noun_of(left[0].run)} alone: {'; '.join(said)}"))
    return left[0], reasons


def _least(peers: Sequence[Candidate], cost: _Cost, reasons: list[Reason], without: list[str]) -> list[Candidate]:
    """Return those of `peers` that cost least; append why, or what is not known of all of them."""
    costs = {one.run.id: value for one in peers if (value := cost.read(one.run)) is not None}
    if len(peers) < 2:
        return list(peers)
    if len(costs) < len(peers):
        without.append(cost.noun)
        return list(peers)
    limit = min(costs.values()) * (1 + cost.share)
    near = [one for one in peers if costs[one.run.id] <= limit]
    if len(near) < len(peers):
        others = [f"{one.label} has {cost.show(costs[one.run.id])}" for one in peers if one not in near]
        why = f"chosen for the {cost.words}: {cost.show(costs[near[0].run.id])}; {enumerate_few(others)}"
        reasons.append(Reason(cost.words, why))
    return near


def _probably_fastest(peers: Sequence[Candidate]) -> list[Candidate]:
    """Return those that no other one is probably faster than in turns; none where that is so of all, or of none."""
    ahead = [one for one in peers if not any(_is_likely_faster_in_turns(each, one) for each in peers)]
    return ahead if len(ahead) < len(peers) else []


def _ahead_in_turns(peers: Sequence[Candidate], reasons: list[Reason]) -> list[Candidate]:
    """Return the one that is ahead in turns, and those that turns prove to be as fast; append why the others are not.

    Memory says nothing of what may be slower. All of `peers` where some pair took no turns.
    """
    if not took_turns([one.run for one in peers]):
        return list(peers)
    leader = max(peers, key=lambda one: prod(_speed_in_turns(one, each) for each in peers if each is not one))
    behind = [one for one in peers if one is not leader and judged(leader, one).verdict != "same"]
    if behind:
        others = listing([one.label for one in behind])
        reasons.append(Reason(AHEAD, f"chosen as {AHEAD} of {others}, which is not proven"))
    return [one for one in peers if one not in behind]


def _speed_in_turns(one: Candidate, other: Candidate) -> float:
    """Return how many times as fast `one` is as `other` in turns, which they took."""
    turns = turns_of(one, other)
    assert turns is not None
    return turns.ratio if one.is_rate else 1.0 / turns.ratio


def _is_likely_faster_in_turns(one: Candidate, other: Candidate) -> bool:
    return turns_of(one, other) is not None and likely_verdict(one, other) == "faster"


def brief_of(reasons: Sequence[Reason]) -> str:
    """``"fewest threads, best grade"``: the reasons that `prefer` gives, in few words."""
    return ", ".join(dict.fromkeys(reason.brief for reason in reasons if reason.brief)) or "by its value alone"


def _cost_in(metric: str) -> Callable[[Run], float | None]:
    """Return what a run costs in a metric. One sample decides nothing, so only values with an interval count."""

    def read(run: Run) -> float | None:
        row = run.measurement(metric)
        return row.value if row is not None and row.low is not None else None

    return read


class _Cost(NamedTuple):
    """What a run costs beside time: in words, how a run tells it, its text, and the share that doesn't matter."""

    words: str
    read: Callable[[Run], float | None]
    show: Callable[[float], str]
    share: float = 0.0

    @property
    def noun(self) -> str:
        """``"threads"``: the words without their superlative."""
        return self.words.partition(" ")[2]


_GRADE = "best grade"
_COSTS = (
    _Cost("fewest threads", threads_of, lambda value: f"{value:g}"),
    _Cost(
        _GRADE,
        lambda run: None if run.trust is None else float(ord(run.trust.grade)),
        lambda cost: chr(int(cost)),
    ),
    _Cost("least peak memory", _cost_in("memory_peak"), lambda value: quantity(value, "B"), PRACTICAL),
    _Cost("quickest start-up", _cost_in("startup_time"), lambda value: quantity(value, "s"), PRACTICAL),
)
"""In the order in which they decide; turns without a proof do so behind threads and behind the grade."""
PROBABLE, AHEAD = "probably faster in turns", "ahead in turns"
_BETTER, _PROVEN = f"measured better than {UNRELIABLE}", f"of {UNRELIABLE} proven faster in turns"
_LIKELY = f"of {UNRELIABLE} {PROBABLE}"
TIES = (_BETTER, _PROVEN, _LIKELY, PROBABLE, AHEAD, *(cost.words for cost in _COSTS[1:]))
"""What decided in reasons of `prefer`, but for threads."""


def noun_of(run: Run) -> str:
    """``"latency"``, ``"throughput"``: what the run is about."""
    return METRICS[run.headline].label.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedModel:
    """One model among others.

    Attributes:
        run: the model's recommended run, else its first.
        place: 1 for all that none is proven faster than, 2 for those of the rest that none of it is, and so on; None
            where no run of the model qualifies.
        note: why a model with a better value has a worse place; empty where none has.
        is_likely_apart: whether it is probably faster or slower than another one of its place.
    """

    run: Run
    place: int | None
    note: str = ""
    is_likely_apart: bool = False

    @property
    def model(self) -> str:
        """The model's name."""
        return one_line(self.run.job.model.name)


def rank_models(runs: Sequence[Run]) -> list[RankedModel]:
    """Return the models of one of `sweeps`, the fastest first, then those without a run that qualifies.

    Those of one place have recommended runs of which none is proven faster than another, see `are_apart`.
    """
    best: list[Candidate] = []
    rest: list[RankedModel] = []
    every = every_candidate(runs)
    for group in comparable_groups(runs):
        candidates, _ = candidates_of(group)
        if candidates:
            best.append(prefer(peers_of(candidates, every), candidates)[0])
        else:
            rest.append(RankedModel(run=group[0], place=None))
    places = levels(best, every)
    placed = [(place, one) for place, some in enumerate(places, 1) for one in some]
    ranked = []
    for index, (place, one) in enumerate(placed):
        smaller = next(
            (each for other, each in placed[index + 1 :] if other > place and has_better_value(each, one)), None
        )
        note = _why_before(one, smaller, [*best, *every]) if smaller is not None else ""
        likely = any(likely_verdict(one, each) for each in places[place - 1] if each is not one)
        ranked.append(RankedModel(run=one.run, place=place, note=note, is_likely_apart=likely))
    return ranked + rest


def _why_before(one: Candidate, other: Candidate, every: Sequence[Candidate]) -> str:
    """Why `one` has the better place, though the value of `other` is better."""
    model = one_line(other.run.job.model.name)
    if is_faster(one, other):
        return f"measured in turns it is faster than {model}"
    rival = next(each for each in every if is_faster(each, other))
    return f"no model is proven faster, while {one_line(rival.run.job.model.name)} is faster than {model}"


LOAD = "Load while measuring"
"""Title of the section that begins with `load_lines`."""


def load_lines(runs: Sequence[Run]) -> list[str]:
    """How much of the processors others used, and what that may change; empty where it limits no grade."""
    load = worst_load(runs)
    if not load:
        return []
    threads = ", and with how many threads," if len({threads_of(run) for run in runs}) > 1 else ""
    what = f"which is fastest{threads}" if len(runs) > 1 else "how fast it is"
    return [f"Measured while {load}: {what} can differ on a quiet machine"]


def worst_load(runs: Sequence[Run]) -> str:
    """``"other processes used up to 88 % of the processor time"``: the largest load; "" where it limits no grade."""
    return max((one_line(load) for run in runs for load in loads_of(run.cautions)), key=_share_in, default="")


def _share_in(message: str) -> float:
    found = re.search(r"([\d.]+) ?%", message)
    return float(found[1]) if found else 0.0


def disagreement_lines(runs: Sequence[Run]) -> list[str]:
    """State of which runs that took turns the statistics of the ratios differ; empty where of none."""
    labels = labels_by_id(runs)
    told = {
        frozenset((run.id, turns.against)): f"{labels[run.id]} against {labels[turns.against]}: {text}"
        for run in runs
        for turns in run.in_turns
        if turns.against in labels and (text := disagreement_text(turns.disagreement))
    }
    if len(told) < 2:
        return list(told.values())
    named = [label for key, label in labels.items() if any(key in pair for pair in told)]
    why = "the ratios of processor time, of the mean and of the shortest turns differ, as other programs ran"
    return [f"Of {enumerate_few(named, 2)} {why}: each interval spans all of them"]


def quotient_of(one: Candidate, other: Candidate) -> str:
    """Return the quotient of the two values, where the ratio in turns is another one in the same direction; else ""."""
    turns = turns_of(one, other)
    if turns is None or has_better_value(one, other) != ((turns.ratio > 1.0) == one.is_rate):
        return ""
    value, ratio = one.value / other.value, turns.ratio
    if abs(ratio / value - 1.0) <= UNSEEN:
        return ""
    return significant(max(value, 1.0 / value), 4)
