"""Probabilistic bisection: where a series of releases changed, from noisy comparisons with the first of them.

The releases are numbered from 0, which is good, to n, which is bad; the first bad one is one of 1 … n, each as likely
before anything is measured. A comparison of release i with release 0 gives the logarithm of a ratio, with a standard
deviation: about 0 where release i is good, and about that of release n where it is bad. Bayes' rule updates the
probabilities, and the release that halves them is measured next (Burnashev & Zigangirov 1974, Horstein 1963).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

SURE = 0.95
"""The search ends where one release has this probability."""
FAR = 3.0
"""A ratio this many standard deviations from both levels is of neither."""


@dataclass(slots=True, kw_only=True)
class Search:
    """What is known of the first bad release.

    Attributes:
        number: n.
        change: logarithm of the ratio of release n to release 0.
        spread: its standard deviation.
        probabilities: of each of the releases 1 … n being the first bad one.
        between: releases whose ratio is far from both levels.
    """

    number: int
    change: float
    spread: float
    probabilities: list[float] = field(init=False)
    between: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.probabilities = [1.0 / self.number] * self.number

    def update(self, release: int, change: float, spread: float) -> None:
        """Take in a comparison of `release` with release 0."""
        good = _log_likelihood(change, 0.0, spread)
        bad = _log_likelihood(change, self.change, math.hypot(spread, self.spread))
        if min(abs(change), abs(change - self.change)) > FAR * math.hypot(spread, self.spread):
            self.between.append(release)
        highest = max(good, bad)
        weights = [
            probability * math.exp((bad if first <= release else good) - highest)
            for first, probability in enumerate(self.probabilities, start=1)
        ]
        total = sum(weights)
        self.probabilities = [weight / total for weight in weights]

    @property
    def first(self) -> tuple[int, float]:
        """The most likely first bad release, and its probability."""
        best = max(range(self.number), key=lambda at: self.probabilities[at])
        return best + 1, self.probabilities[best]

    @property
    def is_sure(self) -> bool:
        """Whether one release is likely enough."""
        return self.first[1] >= SURE

    def next(self, unmeasurable: Collection[int]) -> int | None:
        """The release whose comparison halves the probabilities; None where none can tell more."""
        cumulative = 0.0
        halves = []
        for release in range(1, self.number):
            cumulative += self.probabilities[release - 1]
            if release not in unmeasurable and 1e-3 < cumulative < 1 - 1e-3:
                halves.append((abs(cumulative - 0.5), release))
        return min(halves)[1] if halves else None

    def candidates(self, least: float = 0.05) -> Sequence[int]:
        """The releases that may be the first bad one, the likeliest first."""
        order = sorted(range(self.number), key=lambda at: -self.probabilities[at])
        return [at + 1 for at in order if self.probabilities[at] >= least]


def _log_likelihood(value: float, mean: float, spread: float) -> float:
    """Of a normal distribution whose tails are cut off: no single comparison is beyond doubt."""
    deviation = (value - mean) / spread
    return -math.log(spread) - 0.5 * min(deviation * deviation, 16.0)
