"""Three or more variants in the order of one metric, and which of them no other one beats: the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement

from edgewise.comparing.comparison import Comparison, ParetoFront, Ranked, Ranking, Variant
from edgewise.comparing.criteria import FRONT_METRICS, Criteria, check_metric
from edgewise.comparing.metrics import compare_pairs
from edgewise.comparing.session_values import evidence_of
from edgewise.grouping import in_levels
from edgewise.metrics import METRICS
from edgewise.record.facts import is_unreliable

LEAST_VARIANTS = 3
LEAST_METRICS = 2
"""Of a Pareto front."""

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def rank(variants: Sequence[Variant], criteria: Criteria, metric: str) -> Ranking | None:
    """Return the variants from best to worst in `metric`, every one compared with every other.

    In place 1 are those that none is proven better than, in place 2 those that none of the rest is proven better than,
    and so on; within a place the ratio decides. Two share a letter exactly where they are not proven different (a
    letter display: Piepho, Journal of Computational and Graphical Statistics 13, 2004). Runs of grade D that nothing is
    proven of come last and have no letter.

    Returns:
        None with fewer than three variants, or where fewer than two can be compared in this metric.

    Raises:
        BadInput: a metric that can't be compared.
    """
    check_metric(metric)
    if len(variants) < LEAST_VARIANTS:
        return None
    evidence = evidence_of(variants)
    pairs = list(combinations(range(len(variants)), 2))
    rows = dict(zip(pairs, compare_pairs(variants, pairs, (metric,), criteria=criteria), strict=True))
    comparable = sorted({index for pair, row in rows.items() if row.ratio is not None for index in pair})
    if not comparable:
        return None
    apart = {pair for pair, row in rows.items() if row.verdict in ("faster", "slower")}
    decided = {index for pair, row in rows.items() if row.verdict != "inconclusive" for index in pair}
    able = [index for index in comparable if index in decided or not is_unreliable(variants[index].run)] or comparable

    def is_worse(index: int, one: int) -> bool:
        return rows[_key(index, one)].verdict == ("slower" if index > one else "faster")

    wins = [sum(row.is_ahead(variant.label) for row in rows.values()) for variant in variants]
    better = {index: {one for one in able if one != index and is_worse(index, one)} for index in able}
    levels = in_levels(sorted(able, key=lambda index: -wins[index]), better)
    places = {index: place for place, level in enumerate(levels, 1) for index in level}
    best = next(iter(places))
    found = {index: rows[_key(best, index)].ratio_of(variants[index].label) for index in comparable if index != best}
    to_best = {best: (1.0, 1.0, 1.0)} | {index: ends for index, ends in found.items() if ends[0] is not None}
    sign = 1.0 if METRICS[metric].better == "lower" else -1.0
    places = {index: place for index, place in places.items() if index in to_best}
    order = sorted(to_best, key=lambda index: (index != best, sign * (to_best[index][0] or 0.0), index))
    able = sorted(places, key=lambda index: (places[index], order.index(index)))
    letters = _letters(able, apart)
    last = max(places.values()) + 1
    ranked = []
    for index in [*able, *(index for index in order if index not in places)]:
        ratio, low, high = to_best[index]
        ranked.append(
            Ranked(
                label=variants[index].label,
                place=places.get(index, last),
                groups=letters.get(index, ""),
                value=evidence(index, metric).side.value,
                ratio=ratio,
                low=low,
                high=high,
            )
        )
    rest = [index for index in range(len(variants)) if index not in to_best]
    ranked += [
        Ranked(label=variants[index].label, place=last, groups="", value=evidence(index, metric).side.value)
        for index in rest
    ]
    return Ranking(metric=metric, places=tuple(ranked))


def _key(first: int, second: int) -> tuple[int, int]:
    return (first, second) if first < second else (second, first)


def _letters(order: Sequence[int], apart: set[tuple[int, int]]) -> dict[int, str]:
    """Letters of which two variants share one exactly where they are not `apart`, in few sets of one letter each."""
    found = dict.fromkeys(order, "")
    count = 0
    for pair in combinations_with_replacement(order, 2):  # with itself: one that is apart from all has its own letter
        if _key(*pair) in apart or set(found[pair[0]]) & set(found[pair[1]]):
            continue
        alike = set(pair)
        for one in order:
            if not any(_key(one, each) in apart for each in alike):
                alike.add(one)
        for one in alike:
            found[one] += _letter(count)
        count += 1
    return found


def _letter(count: int) -> str:
    return _LETTERS[count] if count < len(_LETTERS) else chr(0x3B1 + count - len(_LETTERS))


def find_pareto_front(variants: Sequence[Variant], criteria: Criteria) -> ParetoFront | None:
    """Return the variants that none is proven better than in one metric and proven no worse in the others.

    Failed runs take no part. A metric counts where all the others have it; what is inconclusive beats nothing.

    Returns:
        None with fewer than two such metrics or variants.

    Raises:
        BadInput: `criteria.front` names a metric that can't be compared.
    """
    asked = tuple(dict.fromkeys(check_metric(metric) for metric in criteria.front or FRONT_METRICS))
    those = [variant for variant in variants if variant.run.status != "failed"]
    evidence = evidence_of(those)
    metrics = [
        metric for metric in asked if all(evidence(index, metric).side.value is not None for index in range(len(those)))
    ]
    if len(metrics) < LEAST_METRICS or len(those) < 2:
        return None
    pairs = list(combinations(range(len(those)), 2))
    rows = compare_pairs(those, pairs, metrics, criteria=criteria)
    beaten: dict[int, list[int]] = {index: [] for index in range(len(those))}
    for number, (first, second) in enumerate(pairs):
        judged = rows[number * len(metrics) : (number + 1) * len(metrics)]
        if _beats(judged, "slower"):
            beaten[second].append(first)
        if _beats(judged, "faster"):
            beaten[first].append(second)
    return ParetoFront(
        metrics=tuple(metrics),
        members=tuple(those[index].label for index, by in beaten.items() if not by),
        beaten={
            those[index].label: tuple(those[one].label for one in sorted(by)) for index, by in beaten.items() if by
        },
    )


def _beats(rows: Sequence[Comparison], worse: str) -> bool:
    """Whether every row is proven `worse` or the same, and one is proven `worse`."""
    verdicts = {row.verdict for row in rows}
    return worse in verdicts and verdicts <= {worse, "same"}
