"""The order of a model's classes, from its answers: another one may explain them far better than the data's."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from edgewise.formatting import share_text
from edgewise.record import Evaluation
from edgewise.stats.proportions import mcnemar_exact, wilson_interval

ORDER = "class_order"
"""The setting of a scorer that has what is not certain about the order of the classes."""
BY_NAME = "matched with the model's classes by name"
SAME_NAMES = "label i is output i, of the same name"
"""How labels are read where both name their classes: in different orders, and in the same one."""
LEAST_PER_LABEL = 5
"""Samples of each label from which its most frequent answer is evidence."""
_LEAST_SHARE = 0.5
"""The share of samples that another order must explain before it is named."""
_MOST_LISTED = 20
_LEVEL = Fraction(1, 100)
"""The chance of a false alarm, over all sets of as many classes that could have changed places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOrder:
    """An order of the classes that is likely the model's.

    Attributes:
        accuracy: in the present order.
        better: in this order.
        names: of the classes, in the order of the model's outputs; empty where some output's is not certain.
        swapped: the names of the only two classes that change places; else empty.
        given: whether the user, or the model's file, has names in the present order.
        by_name: whether names in another order change which output a label means.
    """

    accuracy: float
    better: float
    names: tuple[str, ...] = ()
    swapped: tuple[str, ...] = ()
    given: bool = False
    by_name: bool = False

    @property
    def words(self) -> str:
        """Both accuracies, the order, and what follows."""
        listed = ", ".join(self.names[:_MOST_LISTED]) + (" …" if len(self.names) > _MOST_LISTED else "")
        order = f"in the order {listed}" if listed else "in another order"
        order = f"with {' and '.join(self.swapped)} swapped" if self.swapped else order
        now, wrong = share_text(self.accuracy), "the order given" if self.given else "the order"
        return f"{now} as the classes are ordered now, {share_text(self.better)} {order}: likely {wrong} is wrong"

    @property
    def advice(self) -> str:
        """The option that gives the order; empty where names don't settle it, or are too many or hold commas."""
        if not self.by_name or not 1 < len(self.names) <= _MOST_LISTED or any("," in name for name in self.names):
            return ""
        option = f"⟦classes={shlex.quote(','.join(self.names))}⟧"
        return f"replace the order given: {option}" if self.given else f"name the classes in this order: {option}"


def find_better_order(evaluation: Evaluation) -> ClassOrder | None:
    """Return the order in which far more answers would be right; None where none is clearly better."""
    counts = evaluation.confusion
    n = sum(map(sum, counts or ()))
    if not evaluation.task.endswith("classification") or not counts or not n:
        return None
    cells = [(label, answer, count) for label, row in enumerate(counts) for answer, count in enumerate(row) if count]
    now = sum(count for label, answer, count in cells if label == answer)

    def explained(pairs: Mapping[int, int]) -> int:
        return sum(count for label, answer, count in cells if pairs.get(label) == answer)

    pairs = pair_classes(cells)
    if pairs is not None:
        then = explained(pairs)
        # At least half of the errors go, beyond chance.
        if 2 * (n - then) > n - now or wilson_interval(then, n)[0] <= wilson_interval(now, n)[1]:
            pairs = None
    if pairs is None:
        pairs = _exchange_classes(counts)
    then = explained(pairs)
    if then <= now or not is_clear(then / n, n):
        return None
    outputs = {answer: label for label, answer in pairs.items()}
    whole = len(outputs) == len(counts) == len(evaluation.classes)
    names = tuple(evaluation.classes[outputs[answer]] for answer in range(len(counts))) if whole else ()
    moved = [evaluation.classes[label] for label, answer in pairs.items() if label != answer] if whole else []
    labels = evaluation.settings.get("labels")
    matched = labels in (BY_NAME, SAME_NAMES)
    doubted = ORDER in evaluation.settings
    return ClassOrder(
        accuracy=now / n, better=then / n, names=names, swapped=tuple(moved) if len(moved) == 2 < len(counts) else (),
        given=matched and not doubted, by_name=matched or doubted,
    )  # fmt: skip


def _exchange_classes(counts: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the answer of each label where a few classes change places, and all others stay.

    Classes change places where most samples of each are answered as the next of them, in a circle, and at least half
    of the errors of these samples go, beyond chance: by McNemar's exact test, corrected for every circle of as many
    classes. A real model that takes two classes for each other is at worst near half within them.
    """
    most = {}
    for label, row in enumerate(counts):
        answer = max(range(len(row)), key=row.__getitem__)
        if sum(row) >= LEAST_PER_LABEL and 2 * row[answer] > sum(row):
            most[label] = answer
    pairs = {label: label for label in range(len(counts))}
    for first in most:
        circle = [first]
        while (following := most.get(circle[-1])) is not None and following not in circle:
            circle.append(following)
        if following != first or len(circle) < 2 or pairs[first] != first:
            continue
        n = sum(sum(counts[label]) for label in circle)
        lost, gained = (sum(counts[label][to[label]] for label in circle) for to in (pairs, most))
        possible = math.perm(len(counts), len(circle)) // len(circle)
        if 2 * (n - gained) <= n - lost and Fraction(mcnemar_exact(lost, gained)) * possible < _LEVEL:
            pairs |= {label: most[label] for label in circle}
    return pairs


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

    `cells`: label, answer and how many samples have both.
    """
    ordered = sorted(cells, key=lambda cell: (-cell[2], cell[0] != cell[1], cell))
    samples: dict[int, int] = {}
    pairs: dict[int, int] = {}
    for label, answer, count in ordered:
        samples[label] = samples.get(label, 0) + count
        if label not in pairs and answer not in pairs.values():
            pairs[label] = answer
    return None if min(samples.values(), default=0) < LEAST_PER_LABEL else pairs
