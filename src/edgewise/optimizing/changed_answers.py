"""Samples that a variant answers with another class than the original: how many, and the most telling ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.task import ClassAnswer
from edgewise.optimizing.variant import MetricValue
from edgewise.stats.proportions import wilson_interval

MOST = 24
"""Changed samples of a variant that are kept."""
_LONGEST = 200
"""Characters of a name that are kept."""

Change = Literal["lost", "gained", "other"]
"""From the right class to a wrong one, from a wrong one to the right one, and every other change."""
ORDER: tuple[Change, ...] = ("lost", "gained", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSample:
    """A sample with the classes that the original and the variant give for it.

    Attributes:
        digest: as `Sample.digest`.
        change: ``other`` without labels.
        label: the right class; None without labels.
        before, after: class; None where the outputs were NaN.
        before_score, after_score: the output of the class as the model gives it; None where there is none.
    """

    index: int
    name: str
    digest: str
    change: Change
    label: int | None
    before: int | None
    after: int | None
    before_score: float | None
    after_score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAnswers:
    """How many answers of a variant differ from the original's.

    Attributes:
        n: number of samples that both answered, at least 1.
        counts: number of samples per change; without labels, only of ``other``.
        samples: at most `MOST`, in the order of `ORDER`; of one change, the highest score of the original first.
        classes: number → name of the classes in `samples` that have a name.
    """

    n: int
    counts: Mapping[Change, int]
    samples: tuple[ChangedSample, ...] = ()
    classes: Mapping[int, str] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """Number of samples whose answer changed."""
        return sum(self.counts.values())

    @property
    def share(self) -> MetricValue:
        """The share of samples whose answer changed."""
        low, high = wilson_interval(self.changed, self.n)
        method = f"share of samples, Wilson's 95 % interval, n = {self.n}"
        return MetricValue(value=self.changed / self.n, low=low, high=high, method=method)

    def to_document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "changed": self.changed, "share": self.share.to_document()}


def find_changes(
    answers: Sequence[tuple[Entry, int | None, ClassAnswer, ClassAnswer]],
    *,
    labelled: bool,
    classes: Sequence[str] = (),
) -> ChangedAnswers:
    """Count the samples whose answer changed, and keep the most telling ones.

    Args:
        answers: (sample, label if any, the original's answer, the variant's), at least one.
        classes: names of the classes in the order of their numbers.
    """
    changed = [(_change_of(*one[1:]), *one) for one in answers if one[2][0] != one[3][0]]
    changed.sort(key=lambda one: (ORDER.index(one[0]), math.inf if one[3][1] is None else -one[3][1], one[1].index))
    samples = tuple(
        ChangedSample(
            index=entry.index, name=entry.name[:_LONGEST], digest=entry.digest, change=change, label=label,
            before=before[0], after=after[0], before_score=before[1], after_score=after[1],
        )
        for change, entry, label, before, after in changed[:MOST]
    )  # fmt: skip
    numbers = {number for one in samples for number in (one.label, one.before, one.after) if number is not None}
    return ChangedAnswers(
        n=len(answers),
        counts={change: sum(one[0] == change for one in changed) for change in (ORDER if labelled else ORDER[-1:])},
        samples=samples,
        classes={number: classes[number][:_LONGEST] for number in sorted(numbers) if number < len(classes)},
    )


def _change_of(label: int | None, before: ClassAnswer, after: ClassAnswer) -> Change:
    if label is None or label not in (before[0], after[0]):
        return "other"
    return "lost" if before[0] == label else "gained"
