"""The one rule for which of two measured runs is faster: what reports say of them is what comparing them says."""

from __future__ import annotations

from weakref import ref

from edgewise.comparing.comparison import Comparison, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_runs, settle_faster
from edgewise.record import Run

FIRST, SECOND = "‹first›", "‹second›"
"""The labels of the two: reasons name them."""

_JUDGED: dict[tuple[int, int], tuple[ref[Run], ref[Run], Comparison]] = {}
_MOST_JUDGED = 10_000


def judge(first: Run, second: Run) -> Comparison:
    """`second` against `first` in their headline, as ``compare`` of these two has it.

    That is what measuring both in turns found, where they took turns. A report asks for the same two again and again:
    the answer is remembered while both runs exist.
    """
    key = id(first), id(second)
    known = _JUDGED.get(key)
    if known is None or known[0]() is not first or known[1]() is not second:
        rows = compare_runs((Variant(label=FIRST, run=first), Variant(label=SECOND, run=second)), Criteria())
        row = next(row for row in rows if row.metric == first.headline)
        if len(_JUDGED) >= _MOST_JUDGED:
            _JUDGED.clear()
        known = _JUDGED[key] = ref(first), ref(second), row
    return known[2]


_FASTER: dict[tuple[int, int], tuple[ref[Run], ref[Run], bool]] = {}
_MOST_FASTER = 200_000


def is_proven_faster(second: Run, first: Run) -> bool:
    """Return whether `judge` finds `second` faster than `first`; a ranking asks that of every two of many runs."""
    key = id(first), id(second)
    known = _FASTER.get(key)
    if known is None or known[0]() is not first or known[1]() is not second:
        settled = None
        if second.turns_against(first) is None:
            pair = Variant(label=FIRST, run=first), Variant(label=SECOND, run=second)
            settled = settle_faster(*pair, first.headline, Criteria())
        faster = judge(first, second).verdict == "faster" if settled is None else settled
        if len(_FASTER) >= _MOST_FASTER:
            _FASTER.clear()
        known = _FASTER[key] = ref(first), ref(second), faster
    return known[2]
