"""The order of a model's classes, from its answers: another one may explain them far better than the data's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgewise.formatting import share_text
from edgewise.record import Evaluation
from edgewise.stats.proportions import wilson_interval

LEAST_PER_LABEL = 5
"""Samples of each label from which its most frequent answer is evidence."""
_LEAST_SHARE = 0.5
"""The share of samples that another order must explain before it is named."""
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOrder:
    """An order of the classes that is likely the model's.

    Attributes:
        accuracy: in the present order.
        better: in this order.
        names: of the classes, in the order of the model's outputs; empty where some output's is not certain.
    """

    accuracy: float
    better: float
    names: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Both accuracies, the order, and what follows."""
        listed = ", ".join(self.names[:_MOST_LISTED]) + (" …" if len(self.names) > _MOST_LISTED else "")
        order = f"in the order {listed}" if listed else "in another order"
        now = share_text(self.accuracy)
        return f"{now} as the classes are ordered now, {share_text(self.better)} {order}: likely the order is wrong"


def find_better_order(evaluation: Evaluation) -> ClassOrder | None:
    """Return the order in which far more answers would be right; None where none is clearly better."""
    counts = evaluation.confusion
    n = sum(map(sum, counts or ()))
    if evaluation.task != "classification" or not counts or not n:
        return None
    cells = [(label, answer, count) for label, row in enumerate(counts) for answer, count in enumerate(row) if count]
    pairs = pair_classes(cells)
    if pairs is None:
        return None
    now = sum(count for label, answer, count in cells if label == answer)
    then = sum(count for label, answer, count in cells if pairs.get(label) == answer)
    # At least half of the errors go, beyond chance.
    if (
        not is_clear(then / n, n)
        or 2 * (n - then) > n - now
        or wilson_interval(then, n)[0] <= wilson_interval(now, n)[1]
    ):
        return None
    outputs = {answer: label for label, answer in pairs.items()}
    whole = len(outputs) == len(counts) == len(evaluation.classes)
    names = tuple(evaluation.classes[outputs[answer]] for answer in range(len(counts))) if whole else ()
    return ClassOrder(accuracy=now / n, better=then / n, names=names)


def doubt_order(evaluation: Evaluation | None) -> str:
    """``"likely the order of the classes is wrong: another gives 88.67 %"``; empty where none is clearly better."""
    better = None if evaluation is None else find_better_order(evaluation)
    share = "" if better is None else share_text(better.better)
    return f"likely the order of the classes is wrong: another gives {share}" if share else ""


def is_clear(share: float, n: int) -> bool:
    """Return whether more than half of all samples have it, of which `n` were seen."""
    return wilson_interval(round(share * n), n)[0] > _LEAST_SHARE


def pair_classes(cells: Iterable[tuple[int, int, int]]) -> dict[int, int] | None:
    """Return a different answer for each label, the most frequent pairs first; None where labels have few samples.

    Args:
        cells: label, answer and how many samples have both.
    """
    ordered = sorted(cells, key=lambda cell: (-cell[2], cell[0] != cell[1], cell))
    samples: dict[int, int] = {}
    pairs: dict[int, int] = {}
    for label, answer, count in ordered:
        samples[label] = samples.get(label, 0) + count
        if label not in pairs and answer not in pairs.values():
            pairs[label] = answer
    return None if min(samples.values(), default=0) < LEAST_PER_LABEL else pairs
