"""The Pareto front: variants that no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from edgewise.comparing.comparison import Comparison, ParetoFront, Variant
from edgewise.comparing.criteria import FRONT_METRICS, Criteria, check_metric
from edgewise.comparing.metrics import compare_pairs
from edgewise.comparing.session_values import evidence_of

LEAST_METRICS = 2


def find_pareto_front(variants: Sequence[Variant], criteria: Criteria) -> ParetoFront | None:
    """The variants that none is proven better than in one metric and proven no worse in the others.

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
