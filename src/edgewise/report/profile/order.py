"""Which of several runs of one machine is faster: proven only by measuring them in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgewise.comparing.comparison import Variant
from edgewise.comparing.turns import compare_in_turns
from edgewise.formatting import factor_text
from edgewise.record import Run
from edgewise.report.bench.ranking import Candidate, in_order, turns_of, why_open
from edgewise.report.comparison.words import disagreement_text, evidence_text, headline_text
from edgewise.report.runs.conditions import labels_of, processor_of
from edgewise.text import listing

NOT_PROVEN = "measured at different times: the order is not proven"


def are_on_one_machine(runs: Sequence[Run]) -> bool:
    """Whether all took place on one device with one processor, so that they could take turns."""
    return len({(run.job.target.device, processor_of(run)) for run in runs}) == 1


def order_line(runs: Sequence[Run]) -> str:
    """Which run is faster, with the ratio, its interval and how it is known; "" for one run and for several machines.

    By the ratios of their turns; runs that took none have no proven order, whatever their intervals.
    """
    rows = [(run, label, run.measurement("latency")) for run, label in zip(runs, labels_of(runs), strict=True)]
    known = [Candidate(run, label, row) for run, label, row in rows if row is not None and row.value]
    if len(known) < max(2, len(runs)) or not are_on_one_machine(runs):
        return ""
    best, *others = in_order(known)
    if len(others) == 1 and turns_of(best, others[0]) is not None:
        return _line_of_two(*known)
    alike, slower, apart = [], [], []
    for other in others:
        if (turns := turns_of(other, best)) is None:
            low, high = (_quotient(a, b) for a, b in ((other.row.low, best.row.high), (other.row.high, best.row.low)))
            apart.append(f"{other.label} takes {factor_text(other.value / best.value, low, high)} the time")
        elif turns.verdict == "slower":
            slower.append(f"{other.label} takes {factor_text(turns.ratio, turns.low, turns.high)} the time")
        else:
            alike.append(other.label)
    leader = f"{'fastest' if len(apart) < len(others) else 'least latency'}: {best.label}"
    parts = [f"{listing(alike)} can't be told apart from it in turns"] if alike else []
    parts += [f"{listing(slower)}, measured in turns"] if slower else []
    parts += [f"{listing(apart)}; {NOT_PROVEN}"] if apart else []
    return "; ".join([leader, *parts])


def _line_of_two(first: Candidate, second: Candidate) -> str:
    """``"b is 1.09× faster than a (ratio 0.917, 95 % interval 0.88 to 0.95, measured in turns)"``: the second against
    the first, as one asks what a change brought.
    """
    row = compare_in_turns(Variant(label=first.label, run=first.run), Variant(label=second.label, run=second.run))
    turns = turns_of(second, first)
    assert row is not None and turns is not None
    row = replace(row, because="")
    told = headline_text(row) if row.verdict != "inconclusive" else f"{row.b} and {row.a} can't be told apart"
    apart = disagreement_text(row.disagreement)
    return f"{told} ({evidence_text(row)}, measured in turns{why_open(turns)}){f'; {apart}' if apart else ''}"


def _quotient(value: float | None, by: float | None) -> float | None:
    return value / by if value and by else None
