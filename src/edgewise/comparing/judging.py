"""The one rule for which of two measured runs is faster: what reports say of them is what comparing them says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import ref

from edgewise.comparing.comparison import Comparison, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_runs, settle_faster
from edgewise.record import Run

FIRST, SECOND = "‹first›", "‹second›"
"""The labels of the two: reasons name them."""

_Made = TypeVar("_Made")
_Kept = dict[tuple[int, int], tuple[ref[Run], ref[Run], _Made]]
_JUDGED: _Kept[Comparison] = {}
_FASTER: _Kept[bool] = {}
_MOST_KEPT = 50_000


def judge(first: Run, second: Run) -> Comparison:
    """`second` against `first` in their headline, as ``compare`` of these two has it.

    That is what measuring both in turns found, where they took turns.
    """

    def compare() -> Comparison:
        rows = compare_runs(_variants(first, second), Criteria())
        return next(row for row in rows if row.metric == first.headline)

    return _remembered(_JUDGED, first, second, compare)


def is_proven_faster(first: Run, second: Run) -> bool:
    """Return whether `judge` finds `second` faster than `first`; a ranking asks that of every two of many runs."""

    def decide() -> bool:
        took_turns = second.turns_against(first) is not None
        settled = None if took_turns else settle_faster(*_variants(first, second), first.headline, Criteria())
        return judge(first, second).verdict == "faster" if settled is None else settled

    return _remembered(_FASTER, first, second, decide)


def _variants(first: Run, second: Run) -> tuple[Variant, Variant]:
    return Variant(label=FIRST, run=first), Variant(label=SECOND, run=second)


def _remembered(kept: _Kept[_Made], first: Run, second: Run, make: Callable[[], _Made]) -> _Made:
    """Return what `make` gives, remembered while both runs exist: a report asks for the same two again and again."""
    key = id(first), id(second)
    known = kept.get(key)
    if known is None or known[0]() is not first or known[1]() is not second:
        made = make()
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        known = kept[key] = ref(first), ref(second), made
    return known[2]
