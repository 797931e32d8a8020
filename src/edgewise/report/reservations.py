"""Where an answer on speed may not hold: on a quiet machine, where this one was busy; later, where turns decided."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from edgewise.record import Run
from edgewise.record.caution import loads_of
from edgewise.record.facts import threads_of
from edgewise.report.candidates import Candidate, has_better_value, turns_of
from edgewise.report.comparison_words import UNSEEN
from edgewise.text import enumerate_few, one_line
from edgewise.units import significant

LOAD = "Load while measuring"
"""Title of the section that begins with `load_lines`."""


def load_lines(runs: Sequence[Run]) -> list[str]:
    """How much of the processors others used, and what that may change; empty where it limits no grade."""
    told = [one_line(load) for run in runs for load in loads_of(run.cautions)]
    if not told:
        return []
    threads = ", and with how many threads," if len({threads_of(run) for run in runs}) > 1 else ""
    what = f"which is fastest{threads}" if len(runs) > 1 else "how fast it is"
    return [f"Measured while {max(told, key=_share_in)}: {what} can differ on a quiet machine"]


def _share_in(message: str) -> float:
    found = re.search(r"([\d.]+) ?%", message)
    return float(found[1]) if found else 0.0


def turns_lines(chosen: Candidate, others: Sequence[Candidate], name: Callable[[Run], str]) -> list[str]:
    """That ratios in turns hold for the minutes in which they were measured; empty where none was."""
    told = [(one, turns.verdict) for one in others if (turns := turns_of(one, chosen)) is not None]
    if not told:
        return []
    off = [
        f"{quotient} for {name(one.run)}"
        for one, verdict in told
        if verdict in ("faster", "slower") and (quotient := quotient_of(chosen, one))
    ]
    words = f"; quotients of the values, each measured alone, differ: {enumerate_few(off)}" if off else ""
    return [f"Ratios in turns hold within these minutes{words}"]


def quotient_of(one: Candidate, other: Candidate) -> str:
    """The quotient of the two values, where the ratio in turns is another one in the same direction; else ""."""
    turns = turns_of(one, other)
    if turns is None or has_better_value(one, other) != ((turns.ratio > 1.0) == one.is_rate):
        return ""
    value, ratio = one.value / other.value, turns.ratio
    if abs(ratio / value - 1.0) <= UNSEEN:
        return ""
    return significant(max(value, 1.0 / value), 4)
