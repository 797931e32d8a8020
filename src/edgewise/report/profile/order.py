"""Which of several runs of one machine is faster: proven only by measuring them in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import log

from edgewise.comparing.comparison import Variant, why_unproven
from edgewise.comparing.judging import SECOND
from edgewise.comparing.turns import compare_in_turns
from edgewise.formatting import factor_text, ratio_text, times_text
from edgewise.grouping import by_key
from edgewise.record import InTurns, Run
from edgewise.record.facts import is_profiled, threads_of
from edgewise.report.bench.ranking import Candidate, factor_of, judged, levels, likely_verdict, turns_of, why_not_told
from edgewise.report.comparison.words import disagreement_text, evidence_text, headline_text, lasting_text
from edgewise.report.runs.conditions import differ_in_engine, labels_of, processor_of, provider_of
from edgewise.text import listing

NOT_PROVEN = "measured at different times: the order is not proven"


def why_probably(*found: InTurns) -> str:
    """Return why no order is proven where intervals of turns leave out 1; of one with the interval that decides."""
    ratio, ends = found[0].ratio, (found[0].proof_low, found[0].proof_high) if len(found) == 1 else (None, None)
    return f"not proven: {why_unproven(ratio, *ends)}"


def are_on_one_machine(runs: Sequence[Run]) -> bool:
    """Whether all took place on one device with one processor, so that they could take turns."""
    return len({(run.job.target.device, processor_of(run)) for run in runs}) == 1


def leader_of(runs: Sequence[Run]) -> tuple[Run, str] | None:
    """Return the fastest profiled run of one network, and what to call it: ``"onnxruntime/cpu (fastest)"``.

    None for runs of several machines or without a latency, and where one engine ran several files: what differs
    between these is then asked, not where the time of one goes.
    """
    ordered = _in_order(runs)
    lead = next((one for one in ordered if is_profiled(one.run)), None)
    several = [
        (one, two) for one, two in combinations(runs, 2)
        if one.job.model.sha256 != two.job.model.sha256 and not differ_in_engine(one, two)
    ]  # fmt: skip
    if lead is None or several:
        return None
    word = f" ({_place_of(lead, ordered[1:])})" if lead is ordered[0] and ordered[1:] else ""
    return lead.run, f"{lead.label}{word}"


def asked_of(runs: Sequence[Run]) -> tuple[Run, str] | None:
    """Return the profiled run of which one asks why it is slow, and its label: the slowest, else the first of `runs`.

    The first where turns tell no order. None as `leader_of`, and where only one run is profiled.
    """
    profiled = [one for one in _in_order(runs) if is_profiled(one.run)]
    if len(profiled) < 2 or (lead := leader_of(runs)) is None:
        return None
    last = profiled[-1]
    turns = turns_of(last, next(one for one in profiled if one.run is lead[0]))
    if turns is None or verdict_of(turns) in ("slower", "probably slower"):
        return last.run, last.label
    return next((one.run, one.label) for run in runs for one in profiled if one.run is run)


def _place_of(lead: Candidate, others: Sequence[Candidate]) -> str:
    """Return what is known of the first in order: by its turns with `others`, and by its latency without turns."""
    turns = [turns_of(other, lead) for other in others]
    words = [verdict_of(each) for each in turns if each is not None]
    if len(words) < len(turns):
        return "least latency"
    if all(word == "slower" for word in words):
        return "fastest"
    is_probable = all(word in ("slower", "probably slower") for word in words)
    return "probably fastest" if is_probable else "least time in turns, not proven"


def verdict_of(turns: InTurns) -> str:
    """Return the verdict of turns; ``"probably slower"`` where nothing is proven and the whole interval is above 1."""
    if turns.verdict != "inconclusive" or turns.low is None or turns.high is None or turns.low <= 1.0 <= turns.high:
        return turns.verdict
    return f"probably {'slower' if turns.low > 1.0 else 'faster'}"


def pairs_of_files(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Return what to call each engine that ran two files among others' runs, and both of its runs, the engine with
    the fastest run first; empty for two runs, where no engine needs a name, and for more files.
    """
    profiled = [run for run in runs if run.profile is not None]
    if len(profiled) <= 2 or len({run.job.model.sha256 for run in profiled}) != 2:
        return []
    places = {one.run.id: place for place, one in enumerate(_in_order(runs))}
    engines = by_key(((provider_of(run), threads_of(run)), run) for run in profiled).values()
    pairs = [some for some in engines if len(some) == 2 and some[0].job.model.sha256 != some[1].job.model.sha256]
    pairs.sort(key=lambda some: min(places.get(run.id, len(runs)) for run in some))
    return list(zip(labels_of([first for first, _ in pairs]), pairs, strict=True))


def compared_by_layer(runs: Sequence[Run]) -> Sequence[tuple[str, Sequence[Run]]]:
    """Return `pairs_of_files`, otherwise all of `runs`, which need no name."""
    return pairs_of_files(runs) or [("", runs)]


def _in_order(runs: Sequence[Run]) -> list[Candidate]:
    """Those with a latency, the fastest first; empty where they are of several machines.

    None stands before one that is proven faster; among the rest turns decide, and values only where a pair took none.
    """
    rows = [(run, label, run.measurement("latency")) for run, label in zip(runs, labels_of(runs), strict=True)]
    known = [Candidate(run, label, row) for run, label, row in rows if row is not None and row.value]
    return [one for some in levels(known) for one in _by_turns(some)] if are_on_one_machine(runs) else []


def _by_turns(alike: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return those of one level by the mean of their ratios in turns; as they are where a pair took no turns."""
    ratios = {one.run.id: [turns_of(one, other) for other in alike if other is not one] for one in alike}
    if any(turns is None or turns.ratio <= 0 for some in ratios.values() for turns in some):
        return alike
    return sorted(alike, key=lambda one: sum(log(turns.ratio) for turns in ratios[one.run.id] if turns))


def order_line(runs: Sequence[Run]) -> str:
    """Which run is faster, with the ratio, its interval and how it is known; "" for one run and for several machines.

    By the ratios of their turns, else by those that comparing them gives; runs that took no turns have no proven order.
    """
    known = _in_order(runs)
    if len(known) < max(2, len(runs)):
        return ""
    best, *others = known
    if len(others) == 1 and turns_of(best, others[0]) is not None:
        first, second = sorted(known, key=lambda one: one.run is not runs[0])
        return _line_of_two(first, second)
    alike, slower, probable, apart = (list[str]() for _ in range(4))
    unproven: list[InTurns] = []
    for other in others:
        if (turns := turns_of(other, best)) is None:
            apart.append(f"{other.label} takes {_times_text(other, best)}")
        elif (verdict := verdict_of(turns)) in ("slower", "probably slower"):
            taken = f"{other.label} takes {times_text(turns.ratio, turns.low, turns.high)} the time"
            (slower if verdict == "slower" else probable).append(taken)
            unproven += [turns] if verdict != "slower" else []
        else:
            alike.append(other.label)
    if len(apart) == len(others) and any(judged(other, best).verdict != "slower" for other in others):
        if all("slower" in (judged(other, best).verdict, likely_verdict(other, best)) for other in others):
            return f"probably fastest: {best.label}; {listing(apart)}; {NOT_PROVEN}"
        return f"which is faster than {best.label} can't be told: {listing(apart)}; {NOT_PROVEN}"
    if len(alike) == len(others):
        return f"which is fastest can't be told: {listing([best.label, *alike])} did not differ for sure in turns"
    leader = f"{'fastest' if slower else _place_of(best, others)}: {best.label}"
    parts = [f"{listing(alike)} can't be told apart from it in turns"] if alike else []
    parts += [f"{listing(slower)}, measured in turns"] if slower else []
    parts += [f"{listing(probable)} in turns, {why_probably(*unproven)}"] if probable else []
    parts += [f"{listing(apart)}; {NOT_PROVEN}"] if apart else []
    return "; ".join([leader, *parts])


def _times_text(one: Candidate, other: Candidate) -> str:
    """``"1.150× [1.130, 1.170] the time"``; where no order follows, the ratio of the medians shown, that of all
    processes with its interval, and why.
    """
    row = judged(one, other)
    if row.verdict == "slower":
        return f"{factor_of(one, other, slow=True)} the time"
    ratio, low, high = row.ratio_of(SECOND)
    shown = f"{factor_text(one.value / other.value)} its time by the medians shown"
    if ratio is None or low is None or high is None:
        return f"{shown}, with no interval"
    value, _, ends = ratio_text(ratio, low, high).rstrip(")").partition(" (")
    why = ": either may be faster" if low <= 1.0 <= high else why_not_told(one, other)
    if likely_verdict(one, other):
        why = f": {why_unproven(ratio, *row.proof_of(SECOND), over='metrics')}"
    return f"{shown}, {value}× over all processes (95 % interval {ends}{why})"


def disagreement_line(runs: Sequence[Run]) -> str:
    """Where the statistics of the turns of two runs say different things; "" where they agree or took no turns."""
    known = sorted(_in_order(runs), key=lambda one: one.run is not runs[0])
    turns = turns_of(known[1], known[0]) if len(known) == len(runs) == 2 else None
    return "" if turns is None else disagreement_text(turns.disagreement)


def _line_of_two(first: Candidate, second: Candidate) -> str:
    """``"b is 1.09× faster than a (ratio 0.917, 95 % interval 0.88 to 0.95, measured in turns)"``: the second against
    the first, as one asks what a change brought.
    """
    row = compare_in_turns(Variant(label=first.label, run=first.run), Variant(label=second.label, run=second.run))
    turns = turns_of(second, first)
    assert row is not None and turns is not None
    row = replace(row, because="")
    if (verdict := verdict_of(turns)).startswith("probably"):
        return f"{row.b} is {verdict} than {row.a} ({evidence_text(row)}, measured in turns; {why_probably(turns)})"
    told = headline_text(row) if row.verdict != "inconclusive" else f"{row.b} and {row.a} can't be told apart"
    return f"{told} ({evidence_text(row)}, measured in turns){lasting_text(row)}"
