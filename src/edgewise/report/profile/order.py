"""Which of several runs of one machine is faster: proven only by measuring them in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from edgewise.comparing.comparison import Variant
from edgewise.comparing.judging import SECOND
from edgewise.comparing.turns import compare_in_turns
from edgewise.formatting import factor_text, ratio_text
from edgewise.record import Run
from edgewise.report.bench.ranking import Candidate, factor_of, in_order, judged, turns_of, why_not_told, why_open
from edgewise.report.comparison.words import disagreement_text, evidence_text, headline_text
from edgewise.report.runs.conditions import differ_in_engine, labels_of, processor_of
from edgewise.text import listing

NOT_PROVEN = "measured at different times: the order is not proven"


def are_on_one_machine(runs: Sequence[Run]) -> bool:
    """Whether all took place on one device with one processor, so that they could take turns."""
    return len({(run.job.target.device, processor_of(run)) for run in runs}) == 1


def leader_of(runs: Sequence[Run]) -> tuple[Run, str] | None:
    """Return the fastest profiled run of one network, and what to call it: ``"onnxruntime/cpu (fastest)"``.

    None for runs of several machines or without a latency, and where one engine ran several files: what differs
    between these is then asked, not where the time of one goes.
    """
    ordered = _in_order(runs)
    lead = next((one for one in ordered if one.run.profile is not None and one.run.layers), None)
    several = [
        (one, two) for one, two in combinations(runs, 2)
        if one.job.model.sha256 != two.job.model.sha256 and not differ_in_engine(one, two)
    ]  # fmt: skip
    if lead is None or several:
        return None
    word = ""
    if lead is ordered[0] and ordered[1:]:
        ratios = [turns_of(other, lead) for other in ordered[1:]]
        proven = all(turns is not None and turns.verdict == "slower" for turns in ratios)
        word = " (fastest)" if proven else " (least latency)"
    return lead.run, f"{lead.label}{word}"


def _in_order(runs: Sequence[Run]) -> list[Candidate]:
    """Those with a latency, the fastest first; empty where they are of several machines."""
    rows = [(run, label, run.measurement("latency")) for run, label in zip(runs, labels_of(runs), strict=True)]
    known = [Candidate(run, label, row) for run, label, row in rows if row is not None and row.value]
    return in_order(known) if are_on_one_machine(runs) else []


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
    alike, slower, apart = [], [], []
    for other in others:
        if (turns := turns_of(other, best)) is None:
            apart.append(f"{other.label} takes {_times_text(other, best)}")
        elif turns.verdict == "slower":
            slower.append(f"{other.label} takes {factor_text(turns.ratio, turns.low, turns.high)} the time")
        else:
            alike.append(other.label)
    if len(apart) == len(others) and any(judged(other, best).verdict != "slower" for other in others):
        return f"which is faster than {best.label} can't be told: {listing(apart)}; {NOT_PROVEN}"
    if len(alike) == len(others):
        return f"which is fastest can't be told: {listing([best.label, *alike])} did not differ for sure in turns"
    leader = f"{'fastest' if slower else 'least latency'}: {best.label}"
    parts = [f"{listing(alike)} can't be told apart from it in turns"] if alike else []
    parts += [f"{listing(slower)}, measured in turns"] if slower else []
    parts += [f"{listing(apart)}; {NOT_PROVEN}"] if apart else []
    return "; ".join([leader, *parts])


def _times_text(one: Candidate, other: Candidate) -> str:
    """``"1.15× [1.13, 1.17] the time"``; where no order follows, the ratio of the medians shown, that of all processes
    with its interval, and why.
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
    told = headline_text(row) if row.verdict != "inconclusive" else f"{row.b} and {row.a} can't be told apart"
    return f"{told} ({evidence_text(row)}, measured in turns{why_open(turns)})"
